use super::secrets::Scrubbed;
use super::*;
use crate::shell::ProgramError;
use outlast_text::Redactor;

fn caller() -> Caller {
    Caller::new(Vec::new(), "/tmp")
}

fn checked(spec: &Spec, caller: &Caller) -> Result<(), Error> {
    check(spec, caller, &Scrub::new(spec, &Redactor::new(true)))
}

fn refused(spec: &Spec) -> Error {
    checked(spec, &caller()).unwrap_err()
}

#[test]
fn what_cannot_be_run_is_refused_with_what_to_do() {
    let mut long = Spec::shell("true");
    long.owner.session = Some("s".repeat(257));
    let mut control = Spec::shell("true");
    control.name = Some("a\nb".into());
    let mut zero = Spec::shell("true");
    zero.timeout = Some(std::time::Duration::ZERO);
    let labelled = |key: &str, value: &str| Spec::shell("true").labelled(key, value);
    let many = (0..33).fold(Spec::shell("true"), |spec, n| spec.labelled(format!("k{n}"), ""));
    let bad_labels =
        [labelled("", "v"), labelled("a b", "v"), labelled(&"k".repeat(65), "v"), labelled("k", "a\nb"), labelled("k", &"v".repeat(4_097))];
    let mut nul = Spec::shell("true");
    nul.cwd = Some("/a\0b".into());
    let others = [Spec::shell(" \n"), Spec::argv::<&str>([]), Spec::argv([""]), long, control, zero, nul, many];
    for spec in others.into_iter().chain(bad_labels) {
        let error = refused(&spec);
        assert!(error.code == code::BAD_SPEC && !error.hint.is_empty(), "{error:?}");
    }
    assert!(checked(&Spec::shell("true"), &caller()).is_ok());
    assert!(checked(&Spec::argv(["x", ""]), &caller()).is_ok());
    assert!(checked(&labelled("app.org/tier-1_x", "").labelled("k", "wörld = 1"), &caller()).is_ok());
    let nowhere = Caller::new(Vec::new(), "here");
    assert!(checked(&Spec::shell("true"), &nowhere).is_err());
}

#[test]
fn the_same_request_has_the_same_hash_and_any_other_has_another() {
    let id = random_id();
    let spec = Spec::shell("make");
    let same = hash(id, &spec, &caller());
    let with_env = Caller::new(vec![outlast_core::EnvVar { name: "A".into(), value: "b".into() }], "/tmp");
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
        spec.clone().labelled("k", "v"),
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
fn a_value_that_is_part_of_another_leaves_nothing_of_it() {
    let spec = Spec::shell("echo hunter22-tail99 tail99-and-more hunter22")
        .with_env("A_TOKEN", "hunter22")
        .with_env("B_TOKEN", "hunter22-tail99")
        .with_env("C_TOKEN", "99 tail99-and");
    let (kept, _) = without_secrets(spec, &Redactor::new(true));
    assert_eq!(kept.command, Command::Shell("echo ***-more ***".into()));
}

#[test]
fn an_argument_is_masked_as_one_word() {
    let (kept, scrubbed) = without_secrets(Spec::argv(["env", "TOKEN=a b", "x", "--password", "hunter22"]), &Redactor::new(true));
    assert_eq!(
        (kept.command, scrubbed.command),
        (Command::Argv(["env", "TOKEN=***", "x", "--password", "***"].map(Into::into).to_vec()), true)
    );
}

#[test]
fn what_is_said_of_a_program_or_directory_holds_no_secret() {
    let on = Redactor::new(true);
    let spec = Spec::argv(["bin/TOKEN=a b", "x"]).with_env("DB_PASSWORD", "corr3cthorse-Q9");
    let scrub = Scrub::new(&spec, &on);
    let said = |error| scrub.program_error(error, &spec.command).to_string();
    assert!(said(ProgramError::NotExecutable { path: "/corr3cthorse-Q9/x".into() }).starts_with("/***/x is not"));
    assert_eq!(scrub.path(&"/corr3cthorse-Q9/x".into(), &spec.command), OsText::from("/***/x"));
    assert_eq!(scrub.path(&"/tmp".into(), &spec.command), OsText::from("/tmp"));
    let spec = Spec::argv(["TOKEN=a b", "x"]);
    let scrub = Scrub::new(&spec, &on);
    let said = |error| scrub.program_error(error, &spec.command).to_string();
    assert!(said(ProgramError::NotFound { name: "TOKEN=a b".into() }).starts_with("no program \"TOKEN=***\":"));
    assert!(said(ProgramError::NotExecutable { path: "/bin/TOKEN=a b".into() }).starts_with("/bin/TOKEN=*** is not"));
}

#[test]
fn a_given_value_is_masked_in_the_name_and_refused_in_a_pattern() {
    let mut spec = Spec::shell("true").with_env("DB_PASSWORD", "corr3cthorse-Q9");
    spec.name = Some("n-corr3cthorse-Q9".into());
    assert_eq!(without_secrets(spec.clone(), &Redactor::new(true)).0.name.as_deref(), Some("n-***"));
    assert_eq!(without_secrets(spec.clone(), &Redactor::new(false)).0.name, spec.name);
    let labelled = spec.clone().labelled("db", "of corr3cthorse-Q9").labelled("api_token", "x").labelled("tier", "web");
    let kept = without_secrets(labelled.clone(), &Redactor::new(true)).0.labels;
    let kept: Vec<(&str, &str)> = kept.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(kept, [("api_token", "***"), ("db", "of ***"), ("tier", "web")]);
    assert_eq!(without_secrets(labelled.clone(), &Redactor::new(false)).0.labels, labelled.labels);
    spec.tell.watch = vec!["ready".into(), "is corr3cthorse-Q9!".into()];
    let error = refused(&spec);
    assert!(error.error.starts_with("watch pattern 2 has a value") && !error.hint.is_empty(), "{error:?}");
    assert!(check(&spec, &caller(), &Scrub::new(&spec, &Redactor::new(false))).is_ok());
}

#[test]
fn the_hash_of_a_request_is_the_same_in_every_release() {
    // A retry after an upgrade compares the hashes of two releases. If this changes, the retry is refused as a different request.
    let id = ProcessId::from_bytes([1, 2, 3, 4, 5, 6]);
    assert_eq!(hash(id, &Spec::shell("make"), &caller()), "68c2cf89142cf44d550efe7cf942d27ec7c18623c87d1a34d1dd09e566b98de5");
    let mut everything = Spec::with_everything();
    assert_eq!(hash(id, &everything, &caller()), "b11e567824ca0ab6fdd65b2b0792eafb910b3206fb6681220eb2bb3ed1448ad5");
    everything.on = None;
    assert_eq!(hash(id, &everything, &caller()), "2ea99d3b9ccf00de41485edb81251a14488521d9b0ab0bf645ae7c60d1a60955");
    everything.labels.clear();
    assert_eq!(hash(id, &everything, &caller()), "10849503ab2d2f15861853a5013e9663cd2bd40062efaee628693e4d85007168");
}
