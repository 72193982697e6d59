use super::*;

const SECRET: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

fn sinks(text: &str) -> (Sinks, Vec<String>) {
    let mut warnings = Vec::new();
    let env = vec![("PATH".into(), "/bin".into()), ("OPS".into(), SECRET.into())];
    let table = text.parse().unwrap();
    let names = FileNames { file: Path::new("/etc/outlast/config.toml"), user_home: Some(Path::new("/home/me")) };
    (read(&table, &names, &env, &mut warnings), warnings)
}

#[test]
fn hooks_and_webhooks_are_read_as_documented() {
    let (found, warnings) = sinks(
        r#"
        [[hook]]
        name = "wake"
        command = "my-waker --now"
        kinds = ["completion"]
        sessions = ["agent:*"]
        wake = true
        budget = { wakes = 6, seconds = 60 }
        [[hook]]
        name = "plain"
        command = ["/bin/x", "y"]
        retry_seconds = [0.5, 2]
        [[webhook]]
        name = "ops"
        url = "https://example.com/hook"
        secret_env = "OPS"
        "#,
    );
    assert_eq!(warnings, [""; 0]);
    assert_eq!(found.pushes.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(), ["wake", "plain", "ops"]);
    assert_eq!((&found.pushes[0].kinds[..], &found.pushes[0].sessions[..]), (&["completion".to_owned()][..], &["agent:*".to_owned()][..]));
    assert_eq!(found.secret_env, ["OPS"]);
    assert!(matches!(&found.calls[1].retry.growth, Growth::Steps(steps) if steps.len() == 2));
}

#[test]
fn what_makes_no_sense_is_left_out_and_the_others_stay() {
    let (found, warnings) = sinks(
        r#"
        [[hook]]
        name = "a"
        command = ""
        [[hook]]
        name = "good"
        command = "true"
        colour = "red"
        [[hook]]
        name = "good"
        command = "false"
        [[hook]]
        command = "true"
        [[webhook]]
        name = "far"
        url = "http://example.com/"
        secret_env = "OPS"
        [[webhook]]
        name = "bare"
        url = "https://example.com/"
        [[webhook]]
        name = "unset"
        url = "https://example.com/"
        secret_env = "NOT_THERE"
        [[webhook]]
        name = "late"
        url = "https://example.com/"
        secret_env = "OPS"
        timeout_seconds = 0
        "#,
    );
    assert_eq!(found.pushes.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(), ["good"]);
    assert_eq!(warnings.len(), 8, "{warnings:#?}");
    assert!(warnings.iter().all(|w| !w.contains(SECRET)), "{warnings:#?}");
}
