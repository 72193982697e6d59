use super::clients::CLIENTS;
use super::own_command::quoted;
use super::*;
use crate::config::{User, World};

fn world(env: &[(&str, &str)]) -> World {
    World {
        env: env.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        cwd: "/work/shop".into(),
        umask: None,
        io_priority: None,
        program: "/usr/bin/outlast".into(),
        user: User { name: "me".into(), home: Some("/home/me".into()), shell: "/bin/sh".into() },
    }
}

fn own_command(profile: Option<&str>) -> OwnCommand {
    let args = ["mcp"].into_iter().chain(profile.iter().flat_map(|name| ["--profile", name])).map(str::to_owned).collect();
    OwnCommand { program: "/usr/bin/outlast".into(), args, env: Vec::new(), should_wake: false, should_ask: false }
}

fn shown(world: &World, own: &OwnCommand, scope: Scope) -> String {
    let place = InstallPlace { world, config: Path::new("/home/me/.config/outlast/config.toml"), scope };
    let mut out = String::new();
    for client in &CLIENTS {
        match client.targets(&place, own) {
            Ok(targets) => targets.iter().for_each(|t| out += &format!("## {}: {}\n{}\n", client.name, t.path.display(), t.edits.alone())),
            Err(e) => out += &format!("## {}: {}\n\n", client.name, e.error()),
        }
    }
    out
}

#[test]
fn each_client_has_its_files() {
    insta::assert_snapshot!("user", shown(&world(&[]), &own_command(None), Scope::User));
    insta::assert_snapshot!("project", shown(&world(&[]), &own_command(Some("hermes")), Scope::Project));
    let env = [
        ("CODEX_HOME", "/c/codex"),
        ("CLAUDE_CONFIG_DIR", "/c/claude"),
        ("HERMES_HOME", "relative"),
        ("XDG_CONFIG_HOME", "/c/xdg"),
        ("KIMI_CODE_HOME", "/c/kimi"),
        ("GEMINI_CLI_HOME", "/c/gemini"),
        ("QWEN_HOME", "/c/qwen"),
        ("CLINE_MCP_SETTINGS_PATH", "/c/cline.json"),
        ("CLINE_DIR", "/c/not this one"),
        ("GOOSE_PATH_ROOT", "/c/goose"),
        ("VIBE_HOME", "/c/vibe"),
    ];
    let mut own = own_command(None);
    own.program = "/my programs/outlast".into();
    own.env = vec![("OUTLAST_HOME", "/it's here".into())];
    own.should_wake = true;
    insta::assert_snapshot!("variables", shown(&world(&env), &own, Scope::User));
}

#[test]
fn how_we_are_called_is_read_from_what_each_client_has() {
    let mut own = own_command(Some("codex"));
    own.env = vec![("OUTLAST_HOME", "/h".into())];
    let world = world(&[]);
    let place = InstallPlace { world: &world, config: Path::new("/c"), scope: Scope::User };
    for client in &CLIENTS {
        let targets = client.targets(&place, &own).unwrap();
        let entry = targets[0].edits.entry(&targets[0].edits.alone()).unwrap().unwrap();
        let call = ServerCommand::of(&entry).unwrap();
        let want = ["/usr/bin/outlast", "mcp", "--profile", "codex"].map(str::to_owned).to_vec();
        assert_eq!(call, ServerCommand { argv: want, env: vec![("OUTLAST_HOME".into(), "/h".into())] }, "{}", client.name);
    }
    assert_eq!(ServerCommand::of(&json!({"url": "http://x"})), None);
}

#[test]
fn words_are_quoted_as_a_shell_reads_them() {
    assert_eq!(["/a/b-1.0", "a b", "it's", ""].map(quoted), ["/a/b-1.0", "'a b'", r"'it'\''s'", "''"]);
}

/// What `install` makes of a `[[hook]]` table of Codex, and its notes about it.
fn woken(row: &str, codex_home: Option<&str>) -> (String, Vec<String>) {
    let tmp = tempfile::tempdir().unwrap();
    let config = tmp.path().join("config.toml");
    let text = format!("[[hook]]\nname = \"wake-codex\"\n{row}\n");
    std::fs::write(&config, &text).unwrap();
    let env: Vec<_> = codex_home.into_iter().map(|dir| ("CODEX_HOME", dir)).collect();
    let world = world(&env);
    let put = |text: &str| {
        let place = InstallPlace { world: &world, config: &config, scope: Scope::User };
        let target = AgentClient::named("codex").unwrap().targets(&place, &own_command(None)).unwrap().pop().unwrap();
        assert!(target.edits.alone().contains("\"hook\", \"codex\""), "what to paste is whole");
        (target.edits.put(text).unwrap(), target.kept_notes)
    };
    let (made, stays) = put(&text);
    std::fs::write(&config, &made).unwrap();
    assert_eq!(put(&made), (made.clone(), stays.clone()), "twice is once");
    (made.strip_prefix("[[hook]]\nname = \"wake-codex\"\n").unwrap().trim_end().to_owned(), stays)
}

#[test]
fn of_what_wakes_only_our_own_command_is_corrected() {
    let own = "command = [\"/usr/bin/outlast\", \"hook\", \"codex\"]\nsessions = [\"codex:*\"]\nwake = true";
    assert_eq!(woken(own, None), (own.to_owned(), Vec::new()));
    assert_eq!(woken(&own.replace("/usr/bin", "/old"), None), (own.to_owned(), Vec::new()));
    let all = own.replace("codex:*", "*");
    assert_eq!(woken(&all, None), (all, Vec::new()));
    for command in [
        r#"["env","HTTPS_PROXY=http://p:1","outlast","hook","codex","--program","/opt/codex"]"#,
        r#"["/opt/mine", "hook", "codex"]"#,
        r#"["outlast", "hook", "hermes"]"#,
        r#"["outlast"]"#,
        r#""outlast hook codex""#,
    ] {
        let row = format!("command = {command}\nsessions = [\"codex:work-*\"]\nwake = false");
        let (made, stays) = woken(&row, Some("/c"));
        assert_eq!(made, row);
        assert!(stays.len() == 3 && !stays.concat().contains("HTTPS_PROXY"), "{stays:?}");
        for (said, what) in stays.iter().zip(["without wake = true", "\"codex:*\"", "a command of your own"]) {
            assert!(said.contains(what), "{stays:?}");
        }
    }
}

#[test]
fn our_flags_are_known_by_their_names_and_there_once() {
    let words = |rest: &str| format!("command = [\"/usr/bin/outlast\", \"hook\", \"codex\"{rest}]\nwake = true");
    for (there, home, made) in [
        ("", Some("/x"), r#", "--codex-home", "/x""#),
        (r#", "--codex-home=/x""#, Some("/x"), r#", "--codex-home=/x""#),
        (r#", "--codex-home=/old""#, Some("/x"), r#", "--codex-home", "/x""#),
        (
            r#", "--program", "/p", "--codex-home", "/old", "--timeout", "9""#,
            Some("/x"),
            r#", "--codex-home", "/x", "--program", "/p", "--timeout", "9""#,
        ),
        // What an earlier version made of it could not run.
        (r#", "--codex-home", "/x", "--codex-home=/x""#, Some("/x"), r#", "--codex-home", "/x""#),
        (r#", "--codex-home", "/x", "--codex-home=/y""#, None, r#", "--codex-home", "/y""#),
        // A value that is one of our own words.
        (r#", "--program", "/x", "--timeout", "9""#, Some("/x"), r#", "--codex-home", "/x", "--program", "/x", "--timeout", "9""#),
        (r#", "--program", "codex", "--timeout", "9""#, None, r#", "--program", "codex", "--timeout", "9""#),
        (r#", "--program=--codex-home", "--codex-homes""#, None, r#", "--program=--codex-home", "--codex-homes""#),
        (r#", "--program", "/p", "--codex-home""#, Some("/x"), r#", "--codex-home", "/x", "--program", "/p""#),
    ] {
        assert_eq!(woken(&words(there), home).0, words(made), "{there}");
    }
    let (made, stays) = woken(&words(r#", "--codex-home=/mine""#), None);
    assert_eq!(made, words(r#", "--codex-home=/mine""#));
    assert!(stays.len() == 1 && stays[0].contains("keeps the --codex-home"), "{stays:?}");
}

#[test]
fn what_is_put_in_between_loses_nothing() {
    for (text, more) in [("", "x"), ("ab", "ab"), ("aab", "aaab"), ("a\nb", "a\nx\nb"), ("aa", "aaa")] {
        assert!(is_within(text, more), "{text} {more}");
    }
    for (text, more) in [("a", ""), ("aaa", "aa"), ("ab", "axbx"), ("a 1 b", "a 2 b")] {
        assert!(!is_within(text, more), "{text} {more}");
    }
}
