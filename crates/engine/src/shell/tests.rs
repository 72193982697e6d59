//! Real shells, each in a home of its own.

use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use super::merge::MergedLaunch;
use super::snapshot::TakeFailure;
use super::*;

/// A user with login files and an engine that keeps their snapshot.
struct User {
    dir: tempfile::TempDir,
    snapshots: Snapshots,
    shell: Shell,
    limit: Duration,
}

/// What a command did.
struct Ran {
    stdout: String,
    stderr: String,
    code: Option<i32>,
}

impl User {
    fn new() -> User {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("home")).unwrap();
        let shell = find(Some(SYSTEM_PATH.as_bytes()), None);
        assert_eq!(shell.kind, ShellKind::Bash, "these tests need bash");
        // Long enough for any machine: only the tests of the limit itself shorten it.
        User { dir, snapshots: Snapshots::new(), shell, limit: Duration::from_secs(60) }
    }

    /// A user whose `.bash_profile` is this.
    fn with(profile: &str) -> User {
        let user = User::new();
        user.write(".bash_profile", profile);
        user
    }

    fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    fn kept(&self) -> PathBuf {
        self.dir.path().join("kept/login")
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.home().join(name), text).unwrap();
    }

    /// Runs a function with the request for this user's snapshot.
    fn ask<T>(&self, with: impl FnOnce(&Snapshots, &SnapshotRequest<'_>) -> T) -> T {
        let (home, kept) = (self.home(), self.kept());
        let request = SnapshotRequest { shell: &self.shell, home: &home, user: "ann", dir: &kept, limit: self.limit };
        with(&self.snapshots, &request)
    }

    fn snapshot(&self) -> Option<Snapshot> {
        self.ask(Snapshots::get)
    }

    fn state(&self) -> SnapshotState {
        self.ask(Snapshots::state)
    }

    fn failure(&self) -> TakeFailure {
        match self.state() {
            SnapshotState::Failed { failure, .. } => failure,
            other => panic!("{other:?}"),
        }
    }

    fn export(&self, name: &str) -> Option<String> {
        let snapshot = self.snapshot().expect("a snapshot");
        let found = snapshot.exports().iter().find(|(own, _)| own == name.as_bytes())?;
        Some(String::from_utf8_lossy(&found.1).into_owned())
    }

    fn launch(&self, form: CommandForm<'_>, caller: &[(&str, &str)], extras: &[(&str, &str)]) -> MergedLaunch {
        let pairs =
            |list: &[(&str, &str)]| -> Vec<Variable> { list.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect() };
        let home = self.home();
        let mut caller = pairs(caller);
        caller.push((b"HOME".to_vec(), home.as_os_str().as_encoded_bytes().to_vec()));
        caller.push((b"PATH".to_vec(), b"/usr/bin:/bin".to_vec()));
        let snapshot = self.snapshot();
        merge(&LaunchInputs {
            caller: &caller,
            extras: &pairs(extras),
            snapshot: snapshot.as_ref(),
            shell: &self.shell,
            form,
            mode: OutputMode::Pipe,
            cwd: &home,
            process_id: "proc_0123456789ab",
        })
        .unwrap()
    }

    /// Runs a shell line as a keeper would.
    fn run(&self, line: &str) -> Ran {
        self.run_with(line, &[], &[])
    }

    fn run_with(&self, line: &str, caller: &[(&str, &str)], extras: &[(&str, &str)]) -> Ran {
        execute(self.launch(CommandForm::Line(line.as_bytes()), caller, extras))
    }

    /// How often login files ran, where they count themselves.
    fn logins(&self) -> usize {
        fs::read_to_string(self.home().join("logins")).unwrap_or_default().lines().count()
    }
}

const COUNTED: &str = "echo x >> ~/logins\n";

fn execute(launch: MergedLaunch) -> Ran {
    let word = |bytes: Vec<u8>| std::ffi::OsString::from_vec(bytes);
    let path = launch.path().to_vec();
    let mut argv = launch.argv.into_iter();
    let program = resolve_program(&argv.next().unwrap(), &path, "/".as_ref()).unwrap();
    let output = Command::new(program)
        .args(argv.map(word))
        .env_clear()
        .envs(launch.env.into_iter().map(|(name, value)| (word(name), word(value))))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    Ran {
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        code: output.status.code(),
    }
}

/// The processes whose command line has this text in it.
fn running(text: &str) -> Vec<String> {
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(text))
        .collect()
}

#[test]
fn exports_functions_and_aliases_of_login_files_are_there() {
    let user = User::with("export GREETING=hello\nPRIVATE=no\nexport PATH=\"$HOME/bin:$PATH\"\n. ~/.bashrc\n");
    user.write(
        ".bashrc",
        "case $- in *i*) ;; *) return ;; esac\n\
         greet() { echo \"$GREETING, $1\"; }\n_hidden() { :; }\n__shown() { echo shown; }\n\
         alias hi='greet \"you there\"'\nalias two='echo one;\necho two'\n",
    );
    assert_eq!(user.run("greet you").stdout, "hello, you\n");
    assert_eq!(user.run("hi").stdout, "hello, you there\n");
    assert_eq!(user.run("two; __shown").stdout, "one\ntwo\nshown\n");
    assert_eq!(user.run("echo ${PRIVATE-unset}; type _hidden").stdout, "unset\n");
    // The system's login files may add more at the end.
    let path = format!("{}/bin:/usr/bin:/bin", user.home().display());
    let shown = user.run("echo $PATH").stdout;
    assert!(shown.starts_with(&path), "{shown}");

    // A program that is started without a shell gets the exports.
    let argv = ["env".into(), "-0".into()];
    let env = execute(user.launch(CommandForm::Argv(&argv), &[], &[])).stdout;
    assert!(env.split('\0').any(|entry| entry == "GREETING=hello"), "{env}");
    assert!(!env.contains("BASH_ENV"), "{env}");
}

#[test]
fn a_command_is_one_line_of_shell() {
    let user = User::with("f() { return 3; }\n");
    let ran = user.run("echo first; echo second >&2; f");
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str(), ran.code), ("first\n", "second\n", Some(3)));
    assert_eq!(user.run("echo $?").stdout, "0\n");
    assert_eq!(user.run("echo $-").stdout, "hBc\n");
    assert_eq!(user.run("echo \"$0 $#\"").stdout, format!("{} 0\n", user.shell.path.display()));
}

#[test]
fn case_005_and_006_a_command_sees_no_secrets_unless_they_are_forced() {
    let user = User::with("export OPENAI_API_KEY=from-login\nexport AUXILIARY_X_API_KEY=aux\n");
    let show = "echo ${OPENAI_API_KEY-none} ${GH_TOKEN-none} ${AUXILIARY_X_API_KEY-none} $PYTHONUNBUFFERED $EDITOR";
    let caller = [("OPENAI_API_KEY", "k"), ("GH_TOKEN", "g"), ("EDITOR", "vi")];
    assert_eq!(user.run_with(show, &caller, &[]).stdout, "none none none 1 vi\n");
    let forced = [("_HERMES_FORCE_GH_TOKEN", "f"), ("OPENAI_API_KEY", "asked")];
    assert_eq!(user.run_with(show, &caller, &forced).stdout, "asked f none 1 vi\n");
    let names = user.run_with("compgen -e", &caller, &forced).stdout;
    assert!(!names.contains("FORCE"), "{names}");
}

#[test]
fn blocked_values_are_not_on_disk() {
    let user = User::with(
        "export OPENAI_API_KEY=needle-1 openai_base_url=needle-2\n\
         declare -rx TELEGRAM_BOT_TOKEN=needle-3\nexport OUTLAST_HOME=needle-4\n\
         export FINE=$'needle-5\\nOPENAI_API_KEY=needle-6'\n",
    );
    assert_eq!(user.export("FINE").as_deref(), Some("needle-5\nOPENAI_API_KEY=needle-6"));
    let mut seen = 0;
    for entry in fs::read_dir(user.kept()).unwrap() {
        let entry = entry.unwrap();
        let text = fs::read_to_string(entry.path()).unwrap();
        for needle in 1..=4 {
            assert!(!text.contains(&format!("needle-{needle}")), "{text}");
        }
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        seen += 1;
    }
    assert_eq!(seen, 2);
    assert_eq!(fs::metadata(user.kept()).unwrap().permissions().mode() & 0o777, 0o700);
    let shown = format!("{:?}", user.snapshot());
    assert!(!shown.contains("needle"), "{shown}");
}

#[test]
fn values_may_hold_anything() {
    let value = "line one\n$(touch ~/pwned)\n'; touch ~/pwned; '\n\"\\ `touch ~/pwned` é\n. /etc/passwd\n";
    let user = User::with(
        "export ODD=$(cat ~/odd; echo .)\nODD=${ODD%.}\nexport RAW=$'\\xff\\xfe'\n\
         quoting() { printf '%s' 'it'\\''s \"fine\"'; cat <<'END'\n$(touch ~/pwned) '\nEND\n}\n\
         alias odd='printf %s '\\''a\nb'\\'''\n",
    );
    user.write("odd", value);
    assert_eq!(user.export("ODD").as_deref(), Some(value));
    let raw = user.snapshot().unwrap();
    assert!(raw.exports().contains(&(b"RAW".to_vec(), b"\xff\xfe".to_vec())));
    assert_eq!(user.run("printf %s \"$ODD\"").stdout, value);
    assert_eq!(user.run("quoting").stdout, "it's \"fine\"$(touch ~/pwned) '\n");
    assert_eq!(user.run("odd").stdout, "a\nb");
    assert!(!user.home().join("pwned").exists());
    // The same after another engine read it from disk.
    let again = User { snapshots: Snapshots::new(), ..user };
    assert_eq!(again.export("ODD").as_deref(), Some(value));
    assert!(again.snapshot().unwrap().exports().contains(&(b"RAW".to_vec(), b"\xff\xfe".to_vec())));
}

#[test]
fn the_file_for_bash_leaves_no_trace_of_itself() {
    let user = User::with("f() { echo f; }\n");
    let show = "echo ${BASH_ENV-none} ${_OUTLAST_BASH_ENV-none}; \
                bash -c 'echo ${BASH_ENV-none}; type f' 2>/dev/null; env | grep -c BASH_ENV; f";
    assert_eq!(user.run(show).stdout, "none none\nnone\n0\nf\n");

    // A caller's own BASH_ENV is there again, was read, and is read by the next bash.
    user.write("own env", "own() { echo own; }\n");
    let caller = [("BASH_ENV", "$HOME/own env")];
    let show = "echo \"$BASH_ENV\" ${_OUTLAST_BASH_ENV-none}; own; f; bash -c own";
    assert_eq!(user.run_with(show, &caller, &[]).stdout, "$HOME/own env none\nown\nf\nown\n");
    for value in ["/absent", "", "relative-absent"] {
        let ran = user.run_with("printenv BASH_ENV; f", &[("BASH_ENV", value)], &[]);
        assert_eq!((ran.stdout, ran.stderr.as_str()), (format!("{value}\nf\n"), ""));
    }
    // In POSIX mode bash does not look at BASH_ENV, so it is not set.
    let ran = user.run_with("echo ${BASH_ENV-none}", &[("POSIXLY_CORRECT", "1")], &[]);
    assert_eq!(ran.stdout, "none\n");
}

#[test]
fn a_definition_that_bash_cannot_read_does_not_harm_the_command() {
    let user = User::with("good() { echo good; }\nbad() { echo bad; }\nalias fine='echo fine'\n");
    let file = user.snapshot().unwrap().file().unwrap().to_owned();
    let text = fs::read_to_string(&file).unwrap().replace("echo bad", "if ( ;; &");
    let launch = user.launch(CommandForm::Line(b"good; fine; bad"), &[], &[]);
    fs::write(&file, text).unwrap();
    let ran = execute(launch);
    assert_eq!((ran.stdout.as_str(), ran.code), ("good\nfine\n", Some(127)));
}

#[test]
fn functions_with_extended_patterns_work() {
    let user = User::with("shopt -s extglob\nkind() { case $1 in @(a|b)) echo ab ;; !(x)) echo other ;; esac; }\n");
    assert_eq!(user.run("kind a; kind c").stdout, "ab\nother\n");
}

#[test]
fn login_files_may_redefine_what_we_use() {
    let user = User::with(
        "printf() { echo mine; }\ndeclare() { :; }\nread() { :; }\nenv() { :; }\nset -f -C\n\
         alias printf=false if=false while=false builtin=false echo='echo aliased'\n\
         export n=7 x=8 IFS=:\nset -a\nexport KEPT=1\n",
    );
    assert_eq!(user.export("KEPT").as_deref(), Some("1"));
    assert_eq!((user.export("n").as_deref(), user.export("x").as_deref()), (Some("7"), Some("8")));
    assert_eq!(user.run("\\printf; echo").stdout, "mine\naliased\n");
}

#[test]
fn login_files_that_print_and_read_do_no_harm() {
    let user = User::with(
        "echo noise; echo noise >&2; printf 'OPENAI=1\\0end\\0'\nread -r answer && touch ~/answered\n\
         stty sane; tput clear; export QUIET=yes\n",
    );
    assert_eq!(user.export("QUIET").as_deref(), Some("yes"));
    let ran = user.run("echo $QUIET");
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("yes\n", ""));
    assert!(!user.home().join("answered").exists());
    assert!(!user.home().join(".bash_history").exists());
}

#[test]
fn strict_options_of_login_files_do_not_reach_commands() {
    let user = User::with("set -eu -o pipefail\nexport STRICT=1\nf() { :; }\n");
    let ran = user.run("false; echo $STRICT ${nothing_here}.");
    assert_eq!((ran.stdout.as_str(), ran.code), ("1 .\n", Some(0)));
}

#[test]
fn a_login_file_that_ends_the_shell_gives_no_snapshot_and_no_failure_of_the_command() {
    for end in ["exit 5", "exec true", "kill -9 $$"] {
        let user = User::with(&format!("{COUNTED}export LOST=1\n{end}\n"));
        assert!(user.snapshot().is_none(), "{end}");
        assert!(matches!(user.failure(), TakeFailure::Ended { .. }), "{end}");
        assert_eq!(user.run("echo ok ${LOST-none}").stdout, "ok none\n");
        assert_eq!(user.logins(), 1, "{end}");
        // The error names a workaround, and that works.
        user.write(".bash_profile", &format!("{COUNTED}export LOST=1\n[ -z \"$OUTLAST_LOGIN_SNAPSHOT\" ] && {end}\n"));
        assert_eq!(user.run("echo ok ${LOST-none} ${OUTLAST_LOGIN_SNAPSHOT-none}").stdout, "ok 1 none\n");
    }
}

#[test]
fn a_login_file_that_hangs_is_ended_with_all_it_started() {
    let own = format!("1000.{}", std::process::id());
    let mut user = User::with(&format!(
        "{COUNTED}. ~/helper\nset -m\nsleep {own} &\n(sleep {own}; :) &\nset +m\n\
         trap '' TERM HUP INT\nsleep {own}\n"
    ));
    user.write("helper", ":\n");
    user.limit = Duration::from_millis(500);
    let started = Instant::now();
    assert!(user.snapshot().is_none());
    assert!(started.elapsed() >= user.limit);
    assert_eq!(running(&own), [] as [String; 0]);
    assert_eq!(user.failure(), TakeFailure::TimedOut { limit: user.limit });

    // This engine and the next remember it until a file changes, also one that the shell had read.
    assert!(user.snapshot().is_none());
    user.snapshots = Snapshots::new();
    assert!(user.snapshot().is_none());
    assert_eq!(user.logins(), 1);
    user.write("helper", "export HELPED=1; return\n");
    assert_eq!(user.state(), SnapshotState::NotTaken);
    user.write(".bash_profile", ". ~/helper\n");
    assert_eq!(user.export("HELPED").as_deref(), Some("1"));
}

#[test]
fn more_time_or_an_hour_gives_a_failed_attempt_another_try() {
    let mut user = User::with(&format!("{COUNTED}[ -e ~/logins2 ] || {{ : > ~/logins2; exit; }}\n"));
    assert!(user.snapshot().is_none());
    let kept = fs::read_dir(user.kept()).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(&kept).unwrap();
    let at = text.split_once("\"tried_at\":").unwrap().1.split_once(',').unwrap().0.to_owned();
    let hour_ago = at.parse::<u64>().unwrap() - 3601;
    fs::write(&kept, text.replace(&at, &hour_ago.to_string())).unwrap();
    user.snapshots = Snapshots::new();
    assert!(user.snapshot().is_some());
    assert_eq!(user.logins(), 2);

    let mut user = User::with(&format!("{COUNTED}[ -e ~/fast ] || sleep 1000\n"));
    user.limit = Duration::from_millis(200);
    assert!(user.snapshot().is_none());
    user.limit = Duration::from_millis(300);
    assert_eq!(user.state(), SnapshotState::NotTaken);
    assert!(user.snapshot().is_none());
    user.limit = Duration::from_millis(250);
    assert!(user.snapshot().is_none());
    assert_eq!(user.logins(), 2);
}

#[test]
fn login_files_are_run_once_and_again_when_one_changes() {
    let mut user = User::with(&format!("{COUNTED}. ~/.bashrc\n"));
    user.write(".bashrc", "[ -f ~/.aliases ] && . ~/.aliases\ncd ~/sub 2>/dev/null && . ./deep\ncd\n");
    fs::create_dir(user.home().join("sub")).unwrap();
    user.write("sub/deep", "export DEEP=1\n");
    let mut logins = 0;
    let mut check = |user: &User, deep: &str| {
        logins += 1;
        assert_eq!(user.export("DEEP").as_deref(), Some(deep));
        assert_eq!(user.export("DEEP").as_deref(), Some(deep));
        assert!(matches!(user.state(), SnapshotState::Ready { .. }));
        assert_eq!(user.logins(), logins);
    };
    check(&user, "1");
    user.write("sub/deep", "export DEEP=22\n");
    assert_eq!(user.state(), SnapshotState::NotTaken);
    check(&user, "22");
    // A file that was looked for and is there now.
    user.write(".aliases", "alias new='echo new'\n");
    check(&user, "22");
    assert_eq!(user.run("new").stdout, "new\n");
    // One that is gone, and one that takes precedence over those before.
    fs::remove_file(user.home().join(".aliases")).unwrap();
    check(&user, "22");
    fs::rename(user.home().join(".bash_profile"), user.home().join(".profile")).unwrap();
    check(&user, "22");
    // The same size and time, but not the same file.
    let deep = user.home().join("sub/deep");
    let time = fs::metadata(&deep).unwrap().modified().unwrap();
    user.write("sub/other", "export DEEP=33\n");
    fs::File::options().write(true).open(user.home().join("sub/other")).unwrap().set_modified(time).unwrap();
    fs::rename(user.home().join("sub/other"), &deep).unwrap();
    check(&user, "33");

    // Another engine reads what this one kept, unless it was changed.
    user.snapshots = Snapshots::new();
    logins -= 1;
    let check = |user: &User| {
        assert_eq!(user.export("DEEP").as_deref(), Some("33"));
        assert_eq!(user.run("new2").stdout, "");
        user.logins()
    };
    assert_eq!(check(&user), logins + 1);
    let files: Vec<PathBuf> = fs::read_dir(user.kept()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 2);
    for (extra, file) in files.iter().enumerate() {
        fs::write(file, "alias new2='echo injected'\n").unwrap();
        user.snapshots = Snapshots::new();
        assert_eq!(check(&user), logins + 2 + extra);
    }
    // A file that went missing is noticed by an engine that knows it, too.
    fs::remove_file(files.iter().find(|file| file.extension().unwrap() == "bash").unwrap()).unwrap();
    assert_eq!(check(&user), logins + 4);
}

#[test]
fn what_the_state_says_is_what_was_found() {
    let user = User::with("export A=1 B=2\nf() { :; }\ng() { :; }\nalias h=f\n. ~/more\n");
    user.write("more", "");
    assert_eq!(user.state(), SnapshotState::NotTaken);
    user.snapshot().unwrap();
    let SnapshotState::Ready { exports, functions, aliases, files, .. } = user.state() else {
        panic!("{:?}", user.state());
    };
    // The system's login files may add to it.
    assert!(exports >= 2 && functions >= 2 && aliases >= 1);
    for name in [".bash_profile", ".bash_login", ".profile", ".bashrc", "more"] {
        assert!(files.contains(&user.home().join(name)), "{name} in {files:?}");
    }
    assert!(files.contains(&"/etc/profile".into()));
}

#[test]
fn callers_at_the_same_time_wait_for_one_login() {
    let user = User::with(&format!("{COUNTED}export ONCE=1\n"));
    let barrier = Barrier::new(4);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                barrier.wait();
                assert_eq!(user.export("ONCE").as_deref(), Some("1"));
            });
        }
    });
    assert_eq!(user.logins(), 1);
}

#[test]
fn a_snapshot_that_cannot_be_kept_is_a_failure_that_says_where() {
    let user = User::with(COUNTED);
    fs::write(user.dir.path().join("kept"), "in the way").unwrap();
    assert!(user.snapshot().is_none());
    assert!(user.snapshot().is_none());
    assert_eq!(user.logins(), 1);
    assert!(matches!(user.failure(), TakeFailure::NotKept { path, .. } if path == user.kept()));
}

#[test]
fn a_shell_that_is_not_bash_has_no_snapshot() {
    let mut user = User::with(COUNTED);
    user.shell = Shell::at("/bin/sh");
    assert!(user.snapshot().is_none());
    assert_eq!(user.state(), SnapshotState::Unsupported);
    assert_eq!(user.run("echo first; echo second").stdout, "first\nsecond\n");
    assert_eq!(user.logins(), 0);

    user.shell = Shell::at(user.home().join("gone/bash"));
    assert!(user.snapshot().is_none());
    assert!(matches!(user.failure(), TakeFailure::Ended { .. } | TakeFailure::NotRun { .. }));
}

#[test]
fn what_login_files_leave_behind_stays_and_is_not_waited_for() {
    let user = User::new();
    for name in ["tell", "told"] {
        assert!(Command::new("mkfifo").arg(user.home().join(name)).status().unwrap().success());
    }
    // It keeps running after the login has ended, and is still traced.
    user.write(".bash_profile", "(read -r word < ~/tell; : traced; echo \"$word\" > ~/told) &\nexport LEFT=$!\n");
    assert!(user.export("LEFT").is_some());
    fs::write(user.home().join("tell"), "still here\n").unwrap();
    assert_eq!(fs::read_to_string(user.home().join("told")).unwrap(), "still here\n");
}
