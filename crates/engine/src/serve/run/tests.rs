use super::*;

fn caller() -> Caller {
    Caller::new(Vec::new(), "/tmp")
}

fn refused(spec: &Spec) -> Error {
    check(spec, &caller()).unwrap_err()
}

#[test]
fn what_cannot_be_run_is_refused_with_what_to_do() {
    let mut long = Spec::shell("true");
    long.owner.session = Some("s".repeat(257));
    let mut control = Spec::shell("true");
    control.name = Some("a\nb".into());
    let mut zero = Spec::shell("true");
    zero.timeout = Some(std::time::Duration::ZERO);
    let mut nul = Spec::shell("true");
    nul.cwd = Some("/a\0b".into());
    for spec in [Spec::shell(" \n"), Spec::argv::<&str>([]), Spec::argv([""]), long, control, zero, nul] {
        let error = refused(&spec);
        assert!(error.code == code::BAD_SPEC && !error.hint.is_empty(), "{error:?}");
    }
    assert!(check(&Spec::shell("true"), &caller()).is_ok());
    assert!(check(&Spec::argv(["x", ""]), &caller()).is_ok());
    let nowhere = Caller::new(Vec::new(), "here");
    assert!(check(&Spec::shell("true"), &nowhere).is_err());
}

#[test]
fn the_same_request_has_the_same_hash_and_any_other_has_another() {
    let id = random_id();
    let spec = Spec::shell("make");
    let same = hash(id, &spec, &caller());
    let with_env = Caller::new(vec![v1::EnvVar { name: "A".into(), value: "b".into() }], "/tmp");
    assert_eq!(hash(id, &spec, &with_env), same, "what is inherited does not count");
    assert_eq!(hash(id, &spec.clone().in_dir("/tmp"), &caller()), same, "nor how a directory is named");
    let mut owned = spec.clone();
    owned.owner.task = Some("t".into());
    let other = [
        Spec::shell("make all"),
        Spec::argv(["make"]),
        spec.clone().in_dir("/"),
        spec.clone().with_env("A", "b"),
        spec.clone().on_terminal(),
        spec.clone().with_input(),
        spec.clone().at_most(std::time::Duration::from_secs(1)),
        spec.clone().ending_with_the_engine(),
        owned,
    ];
    let mut waiting = spec.clone();
    waiting.tell.awaited = true;
    assert_eq!(hash(id, &waiting, &caller()), same, "nor whether its caller waits");
    for one in &other {
        assert_ne!(hash(id, one, &caller()), same, "{one:?}");
    }
    assert_ne!(hash(random_id(), &spec, &caller()), same);
}

#[test]
fn what_is_kept_holds_no_secret_and_says_so() {
    let token = ["gh", "p_", &"a1B2".repeat(9)].concat();
    let mut spec = Spec::argv(["curl", "-H", &format!("Authorization: Bearer {token}")]);
    let variable = |name: &str, value: &str| EnvVar { name: name.into(), value: value.into() };
    spec.env = vec![variable("MODE", "fast"), variable("DB_PASSWORD", "hunter2hunter2"), variable("X", &token)];
    let (kept, scrubbed) = without_secrets(spec.clone(), &Redactor::new(true));
    let text = serde_json::to_string(&kept).unwrap();
    assert!(!text.contains(&token) && !text.contains("hunter2") && text.contains("fast"), "{text}");
    assert_eq!(scrubbed, Scrubbed { command: true, env: vec!["DB_PASSWORD".into(), "X".into()] });
    assert_eq!(without_secrets(spec.clone(), &Redactor::new(false)), (spec, Scrubbed::default()));
}

#[test]
fn ids_are_drawn_at_random() {
    let drawn: std::collections::HashSet<_> = (0..1000).map(|_| random_id()).collect();
    assert_eq!(drawn.len(), 1000);
}

#[test]
fn the_hash_of_a_request_is_the_same_in_every_release() {
    // A retry after an upgrade compares the hashes of two releases. If this changes, the retry is refused as a different request.
    let id = ProcessId::from_bytes([1, 2, 3, 4, 5, 6]);
    assert_eq!(hash(id, &Spec::shell("make"), &caller()), "68c2cf89142cf44d550efe7cf942d27ec7c18623c87d1a34d1dd09e566b98de5");
    assert_eq!(hash(id, &Spec::with_everything(), &caller()), "10849503ab2d2f15861853a5013e9663cd2bd40062efaee628693e4d85007168");
}
