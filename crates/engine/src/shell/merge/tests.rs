use proptest::prelude::*;

use super::check::STRING_LIMIT;
use super::*;

fn variables(list: &[(&str, &str)]) -> Vec<Variable> {
    list.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
}

struct Case {
    caller: Vec<Variable>,
    extras: Vec<Variable>,
    snapshot: Option<Snapshot>,
    shell: Shell,
    mode: OutputMode,
}

impl Case {
    fn new(caller: &[(&str, &str)]) -> Case {
        Case { caller: variables(caller), extras: Vec::new(), snapshot: None, shell: Shell::at("/bin/bash"), mode: OutputMode::Pipe }
    }

    fn extras(mut self, extras: &[(&str, &str)]) -> Case {
        self.extras = variables(extras);
        self
    }

    fn login(mut self, exports: &[(&str, &str)], path: &str) -> Case {
        self.snapshot = Some(Snapshot::of(variables(exports), path, None));
        self
    }

    fn pty(mut self) -> Case {
        self.mode = OutputMode::Pty;
        self
    }

    fn run(&self, form: CommandForm<'_>) -> Result<MergedLaunch, MergeError> {
        merge(&LaunchInputs {
            caller: &self.caller,
            extras: &self.extras,
            snapshot: self.snapshot.as_ref(),
            shell: &self.shell,
            form,
            mode: self.mode,
            cwd: Path::new("/work"),
            process_id: "proc_0123456789ab",
        })
    }

    fn env(&self) -> BTreeMap<String, String> {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let launch = self.run(CommandForm::Line(b"true")).unwrap();
        launch.env.into_iter().map(|(name, value)| (text(name), text(value))).collect()
    }

    fn get(&self, name: &str) -> Option<String> {
        self.env().remove(name)
    }
}

fn joined(caller: &str, login: &str) -> String {
    Case::new(&[("PATH", caller)]).login(&[], login).get("PATH").unwrap()
}

#[test]
fn case_005_secrets_are_not_inherited_and_the_rest_is() {
    let case = Case::new(&[
        ("OPENAI_API_KEY", "k"),
        ("TELEGRAM_BOT_TOKEN", "t"),
        ("GH_TOKEN", "g"),
        ("VIRTUAL_ENV", "/v"),
        ("_HERMES_FORCE_X", "x"),
        ("OUTLAST_TEST_POINTS", "p"),
        ("_", "/usr/bin/outlast"),
        ("EDITOR", "vi"),
        ("AWS_PROFILE", "a"),
        ("OUTLAST_HOME", "/o"),
        ("OUTLAST_SESSION", "s"),
        ("OUTLAST_TASK", "t"),
        ("OUTLAST_GENERATION", "g"),
        ("OUTLAST_PROCESS_ID", "proc_ffffffffffff"),
    ]);
    let expected = [
        ("AWS_PROFILE", "a"),
        ("EDITOR", "vi"),
        ("GIT_PAGER", "cat"),
        ("MANPAGER", "cat"),
        ("NO_COLOR", "1"),
        ("OUTLAST_GENERATION", "g"),
        ("OUTLAST_HOME", "/o"),
        ("OUTLAST_PROCESS_ID", "proc_0123456789ab"),
        ("OUTLAST_SESSION", "s"),
        ("OUTLAST_TASK", "t"),
        ("PAGER", "cat"),
        ("PATH", SYSTEM_PATH),
        ("PWD", "/work"),
        ("PYTHONUNBUFFERED", "1"),
        ("SYSTEMD_PAGER", "cat"),
        ("TERM", "dumb"),
    ];
    let expected: BTreeMap<String, String> = expected.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    assert_eq!(case.env(), expected);
    let removed = case.run(CommandForm::Line(b"true")).unwrap().removed;
    assert_eq!(removed.len(), 6);
}

#[test]
fn case_006_a_forced_name_comes_through_without_its_prefix() {
    for prefix in ["_HERMES_FORCE_", "_OUTLAST_FORCE_"] {
        let forced = format!("{prefix}OPENAI_API_KEY");
        let case = Case::new(&[("OPENAI_API_KEY", "old")]).extras(&[(&forced, "new")]);
        assert_eq!(case.get("OPENAI_API_KEY").as_deref(), Some("new"));
        assert_eq!(case.get(&forced), None);
        assert_eq!(case.run(CommandForm::Line(b"")).unwrap().removed, [] as [Vec<u8>; 0]);
    }
}

#[test]
fn an_explicit_variable_wins_over_everything_but_our_own_id() {
    let case = Case::new(&[("A", "caller")]).login(&[("B", "login")], SYSTEM_PATH).extras(&[
        ("A", "x"),
        ("B", "x"),
        ("TERM", "x"),
        ("PAGER", "x"),
        ("NO_COLOR", ""),
        ("PYTHONUNBUFFERED", ""),
        ("PATH", "/only"),
        ("GH_TOKEN", "x"),
        ("OUTLAST_PROCESS_ID", "x"),
    ]);
    let env = case.env();
    for name in ["A", "B", "TERM", "PAGER", "GH_TOKEN"] {
        assert_eq!(env[name], "x", "{name}");
    }
    assert_eq!((env["NO_COLOR"].as_str(), env["PYTHONUNBUFFERED"].as_str()), ("", ""));
    assert_eq!(env["PATH"], "/only");
    assert_eq!(env["OUTLAST_PROCESS_ID"], "proc_0123456789ab");
}

#[test]
fn the_caller_wins_over_login_files() {
    let case = Case::new(&[("EDITOR", "vi"), ("CONDA_PREFIX", "/theirs"), ("EMPTY", "")])
        .login(&[("EDITOR", "ed"), ("NVM_DIR", "/n"), ("CONDA_PREFIX", "/own"), ("EMPTY", "x")], "");
    let env = case.env();
    assert_eq!(env["EDITOR"], "vi");
    assert_eq!(env["NVM_DIR"], "/n");
    assert_eq!(env["EMPTY"], "");
    // The caller's value is removed; login files may set it, because that is the user's choice.
    assert_eq!(env["CONDA_PREFIX"], "/own");
}

#[test]
fn paths_of_login_go_before_the_system_and_after_the_callers_choice() {
    assert_eq!(joined("/usr/bin:/bin", "/h/bin:/usr/bin:/bin"), "/h/bin:/usr/bin:/bin");
    assert_eq!(joined("/usr/bin", "/usr/bin:/bin:/usr/games"), "/usr/bin:/usr/games");
    assert_eq!(joined("/venv/bin:/usr/bin", "/shims:/usr/bin"), "/venv/bin:/shims:/usr/bin");
    assert_eq!(joined("/b:/a:/usr/bin", "/a:/b:/c:/usr/bin"), "/b:/a:/c:/usr/bin");
    assert_eq!(joined("/usr/bin:/x:/usr/bin", ":/usr/bin:"), "/usr/bin:/x");
    assert_eq!(joined("/usr/bin", "/new:/path"), "/new:/path:/usr/bin");
    assert_eq!(joined("/x", "/l:/usr/bin"), format!("/x:/l:{SYSTEM_PATH}"));
    assert_eq!(joined("", "/l:/usr/bin"), format!("/l:{SYSTEM_PATH}"));
    assert_eq!(Case::new(&[]).get("PATH").as_deref(), Some(SYSTEM_PATH));
    assert_eq!(Case::new(&[("PATH", "/bin")]).get("PATH").unwrap(), "/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin");
}

#[test]
fn without_a_terminal_the_callers_terminal_does_not_count() {
    let case = Case::new(&[("TERM", "xterm"), ("PAGER", "less"), ("COLUMNS", "200")]);
    let env = case.env();
    assert_eq!((env["TERM"].as_str(), env["PAGER"].as_str()), ("dumb", "cat"));
    assert_eq!(env["COLUMNS"], "200");
    assert_eq!(Case::new(&[("FORCE_COLOR", "1")]).get("NO_COLOR"), None);
    assert_eq!(Case::new(&[("FORCE_COLOR", "0")]).get("NO_COLOR").as_deref(), Some("1"));
    let asked = Case::new(&[]).extras(&[("CLICOLOR_FORCE", "1")]);
    assert_eq!(asked.get("NO_COLOR"), None);
}

#[test]
fn case_025_on_a_terminal_pagers_are_off_unless_the_user_chose_one() {
    let env = Case::new(&[("COLUMNS", "200"), ("LINES", "50")]).pty().env();
    for pager in ["PAGER", "GIT_PAGER", "MANPAGER", "SYSTEMD_PAGER"] {
        assert_eq!(env[pager], "cat");
    }
    assert_eq!(env["TERM"], "xterm-256color");
    for absent in ["COLUMNS", "LINES", "NO_COLOR"] {
        assert!(!env.contains_key(absent), "{absent}");
    }
    let own = Case::new(&[("PAGER", "less"), ("TERM", "screen")]).login(&[("GIT_PAGER", "delta")], "").pty().env();
    assert_eq!((own["PAGER"].as_str(), own["GIT_PAGER"].as_str()), ("less", "delta"));
    assert_eq!(own["TERM"], "screen");
    assert_eq!(Case::new(&[("TERM", "dumb")]).pty().get("TERM").unwrap(), "xterm-256color");
}

#[test]
fn a_line_goes_to_the_shell_and_an_argv_stays_as_it_is() {
    let file = Path::new("/s/login.bash");
    let mut case = Case::new(&[("BASH_ENV", "/own")]);
    case.snapshot = Some(Snapshot::of(Vec::new(), "/l:/usr/bin", Some(file)));
    let launch = case.run(CommandForm::Line(b"a; b")).unwrap();
    let expected: [&[u8]; 5] = [b"/bin/bash", b"--noprofile", b"--norc", b"-c", b"a; b"];
    assert_eq!(launch.argv, expected);
    assert!(launch.env.contains(&(b"BASH_ENV".to_vec(), b"/s/login.bash".to_vec())));
    assert!(launch.env.contains(&(b"_OUTLAST_BASH_ENV".to_vec(), b"/own".to_vec())));

    let argv = [b"prog".to_vec(), b"\xff".to_vec()];
    let launch = case.run(CommandForm::Argv(&argv)).unwrap();
    assert_eq!(launch.argv, argv);
    assert!(launch.env.contains(&(b"BASH_ENV".to_vec(), b"/own".to_vec())));
    assert_eq!(launch.path(), format!("/l:{SYSTEM_PATH}").as_bytes());

    case.extras = variables(&[("POSIXLY_CORRECT", "")]);
    assert_eq!(case.get("BASH_ENV").as_deref(), Some("/own"));
    case.extras = variables(&[("SHELLOPTS", "braceexpand:posix")]);
    assert_eq!(case.get("BASH_ENV").as_deref(), Some("/own"));

    case.shell = Shell::at("/bin/sh");
    let launch = case.run(CommandForm::Line(b"a")).unwrap();
    assert_eq!(launch.argv, [b"/bin/sh".to_vec(), b"-c".to_vec(), b"a".to_vec()]);
}

#[test]
fn bytes_that_are_not_text_pass_through() {
    let mut case = Case::new(&[]);
    case.caller = vec![(b"\xffN".to_vec(), b"\xfe\n=".to_vec())];
    let launch = case.run(CommandForm::Line(b"\xfd")).unwrap();
    assert!(launch.env.contains(&(b"\xffN".to_vec(), b"\xfe\n=".to_vec())));
    assert_eq!(launch.argv[4], b"\xfd");
}

#[test]
fn what_no_environment_can_hold_is_refused_by_name_and_without_its_value() {
    let message = |case: Case| case.run(CommandForm::Line(b"true")).unwrap_err().to_string();
    assert_eq!(
        message(Case::new(&[("A", "1"), ("B", "se\0cret")])),
        "inherited variable 2 (B) has a NUL byte in it; give it as NAME=value"
    );
    assert_eq!(message(Case::new(&[]).extras(&[("", "secret")])), "explicit variable 1 has no name; give it as NAME=value");
    assert_eq!(message(Case::new(&[]).extras(&[("_HERMES_FORCE_", "secret")])), "explicit variable 1 has no name; give it as NAME=value");
    assert_eq!(message(Case::new(&[]).extras(&[("K=secret", "x")])), "explicit variable 1 (K) has '=' in its name; give it as NAME=value");

    let case = Case::new(&[]);
    assert_eq!(case.run(CommandForm::Argv(&[])), Err(MergeError::NoCommand));
    let nul = [b"a".to_vec(), b"b\0".to_vec()];
    assert_eq!(case.run(CommandForm::Argv(&nul)), Err(MergeError::Nul(LaunchPart::Argument(1))));
    assert_eq!(case.run(CommandForm::Line(b"\0")), Err(MergeError::Nul(LaunchPart::Line)));
}

#[test]
fn more_than_the_system_takes_is_refused_at_the_byte() {
    let case = Case::new(&[]);
    let argv = |len: usize| [b"a".to_vec(), vec![b'x'; len]];
    assert!(case.run(CommandForm::Argv(&argv(STRING_LIMIT))).is_ok());
    let refused = case.run(CommandForm::Argv(&argv(STRING_LIMIT + 1))).unwrap_err();
    let what = LaunchPart::Argument(1);
    assert_eq!(refused, MergeError::TooLong { what, len: 131_072, limit: 131_071 });

    let value = "x".repeat(STRING_LIMIT - 2);
    assert!(Case::new(&[("K", &value)]).run(CommandForm::Line(b"")).is_ok());
    let refused = Case::new(&[("KK", &value)]).run(CommandForm::Line(b"")).unwrap_err();
    let what = LaunchPart::Variable("KK".into());
    assert_eq!(refused, MergeError::TooLong { what, len: 131_072, limit: 131_071 });

    let many: Vec<Vec<u8>> = vec![vec![b'x'; 100_000]; 20];
    let refused = case.run(CommandForm::Argv(&many)).unwrap_err();
    assert!(matches!(refused, MergeError::TooLong { what: LaunchPart::Together, .. }), "{refused}");
    assert!(case.run(CommandForm::Argv(&many[..19])).is_ok());
}

proptest! {
    #[test]
    fn no_entry_of_the_callers_path_is_lost_and_none_comes_twice(
        caller in "(/[a-c]|/usr/bin|/bin|)(:(/[a-c]|/usr/bin|/bin|)){0,6}",
        login in "(/[a-e]|/usr/bin|/bin|)(:(/[a-e]|/usr/bin|/bin|)){0,6}",
    ) {
        let path = joined(&caller, &login);
        let entries: Vec<&str> = path.split(':').collect();
        let unique: BTreeSet<&str> = entries.iter().copied().collect();
        prop_assert_eq!(unique.len(), entries.len());
        prop_assert!(entries.contains(&"/usr/bin"));
        // The caller's entries are all there and in the caller's order.
        let mut order: Vec<&str> = Vec::new();
        for entry in caller.split(':').filter(|_| !caller.is_empty()) {
            if !order.contains(&entry) {
                order.push(entry);
            }
        }
        let kept: Vec<&str> = entries.iter().copied().filter(|e| order.contains(e)).collect();
        prop_assert_eq!(kept, order);
        for entry in login.split(':').filter(|entry| !entry.is_empty() && *entry != "/bin") {
            prop_assert!(entries.contains(&entry));
        }
    }
}
