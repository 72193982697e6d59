//! Argv and environment of a command, from all who have a say.
//!
//! In rising order: what the caller had, without what is blocked; what login files set and the
//! caller does not; what a command without a person in front of it needs; what was asked for
//! explicitly.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use thiserror::Error;

use super::blocked::{forced_name, is_blocked};
use super::{SYSTEM_PATH, Shell, ShellKind, Snapshot, Variable};

/// The longest single argument or `NAME=value`, in bytes: what Linux takes.
pub const STRING_LIMIT: usize = 131_071;

/// The most that arguments and environment may be together: Linux's 2 MiB, less 128 KiB for what
/// the kernel and an interpreter line add. Each string counts with its end and its pointer.
pub const TOTAL_LIMIT: usize = (2048 - 128) * 1024;

/// All that goes into a launch.
#[derive(Clone, Copy)]
pub struct Parts<'a> {
    /// The caller's environment, as it was when it asked. Of a name that occurs twice the last
    /// counts, as it does for bash.
    pub caller: &'a [Variable],
    /// Variables that were asked for by name.
    pub extras: &'a [Variable],
    /// What login files add, if that is known.
    pub snapshot: Option<&'a Snapshot>,
    /// The shell for a line.
    pub shell: &'a Shell,
    /// What to run.
    pub form: Form<'a>,
    /// What its output goes to.
    pub mode: Mode,
    /// Where it runs.
    pub cwd: &'a Path,
    /// The process it is.
    pub process_id: &'a str,
}

/// What to run.
#[derive(Clone, Copy)]
pub enum Form<'a> {
    /// A line for the shell.
    Line(&'a [u8]),
    /// A program and its arguments, as they are.
    Argv(&'a [Vec<u8>]),
}

/// What a command's output goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A pipe.
    Pipe,
    /// A terminal of its own.
    Pty,
}

/// What the keeper is to execute. The program is `argv[0]`: a path in the line form; in the argv
/// form to be found with [`resolve_program`](super::resolve_program) and [`Launch::path`].
#[derive(Clone, PartialEq, Eq)]
pub struct Launch {
    /// The arguments, the program's name first.
    pub argv: Vec<Vec<u8>>,
    /// The whole environment, sorted by name.
    pub env: Vec<Variable>,
    /// Names that the caller had and the command does not get.
    pub removed: Vec<Vec<u8>>,
}

impl Launch {
    /// The PATH that the command has.
    pub fn path(&self) -> &[u8] {
        self.env.iter().find(|(name, _)| name == b"PATH").map_or(&[], |(_, value)| value)
    }
}

impl fmt::Debug for Launch {
    // Neither arguments nor values belong in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.env.iter().map(|(name, _)| String::from_utf8_lossy(name)).collect();
        f.debug_struct("Launch").field("arguments", &self.argv.len()).field("names", &names).field("removed", &self.removed.len()).finish()
    }
}

/// Why a launch cannot be made. None of these shows a value.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MergeError {
    /// A variable that no environment can hold.
    #[error("{source_of} variable {position}{} {fault}; give it as NAME=value", shown(.name))]
    BadVariable {
        /// Whose it is.
        source_of: Source,
        /// Which one, counted from 1.
        position: usize,
        /// Its name, if it has one.
        name: Option<String>,
        /// What is wrong with it.
        fault: Fault,
    },
    /// There is no program to run.
    #[error("the command is empty; give a program or a shell line")]
    NoCommand,
    /// A NUL byte, which cannot be passed to a program.
    #[error("{0} has a NUL byte in it, which no program can be given; remove it")]
    Nul(Part),
    /// More than the system passes to a program.
    #[error("{what} is {len} bytes long, and the most is {limit}; pass it in a file or on stdin")]
    TooLong {
        /// What is too long.
        what: Part,
        /// How long it is.
        len: usize,
        /// How long it may be.
        limit: usize,
    },
}

/// Whose variable it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The caller's environment.
    Caller,
    /// Asked for by name.
    Explicit,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Source::Caller => "inherited",
            Source::Explicit => "explicit",
        })
    }
}

/// What is wrong with a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It has no `=`.
    NoEquals,
    /// It has no name.
    NoName,
    /// Its name has a `=`.
    EqualsInName,
    /// A NUL byte in name or value.
    Nul,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::NoEquals => "has no '='",
            Fault::NoName => "has no name",
            Fault::EqualsInName => "has '=' in its name",
            Fault::Nul => "has a NUL byte in it",
        })
    }
}

/// A part of a launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// The shell line.
    Line,
    /// An argument, the program's name being 0.
    Argument(usize),
    /// A variable, by name.
    Variable(String),
    /// Everything.
    Together,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Line => f.write_str("the shell line"),
            Part::Argument(index) => write!(f, "argument {index}"),
            Part::Variable(name) => write!(f, "variable {name}"),
            Part::Together => f.write_str("the command with its environment"),
        }
    }
}

/// Splits the `position`th `NAME=value` of a list.
///
/// An entry without `=` is named by its position alone: it may be a secret that somebody forgot to
/// give a name.
pub fn parse_variable(entry: &[u8], position: usize) -> Result<Variable, MergeError> {
    let Some(at) = entry.iter().position(|byte| *byte == b'=') else {
        let (source_of, fault) = (Source::Explicit, Fault::NoEquals);
        return Err(MergeError::BadVariable { source_of, position, name: None, fault });
    };
    let (name, value) = (&entry[..at], &entry[at + 1..]);
    check(Source::Explicit, position, name, value)?;
    Ok((name.to_vec(), value.to_vec()))
}

/// Makes argv and environment of a command.
pub fn merge(parts: &Parts<'_>) -> Result<Launch, MergeError> {
    let explicit = explicit(parts.extras)?;
    let (mut env, removed) = inherited(parts.caller)?;

    let callers_path = env.remove(b"PATH".as_slice());
    let login_path = parts.snapshot.and_then(Snapshot::path);
    env.insert(b"PATH".to_vec(), join_path(callers_path.as_deref(), login_path));
    for (name, value) in parts.snapshot.map_or(&[][..], Snapshot::exports) {
        env.entry(name.clone()).or_insert_with(|| value.clone());
    }
    set_defaults(&mut env, parts);
    let removed = removed.into_iter().filter(|name| !explicit.contains_key(name)).collect();
    env.extend(explicit);
    env.insert(b"OUTLAST_PROCESS_ID".to_vec(), parts.process_id.into());

    let argv = argv(parts, &mut env)?;
    let env: Vec<Variable> = env.into_iter().collect();
    check_size(parts, &argv, &env)?;
    Ok(Launch { argv, env, removed })
}

type Environment = BTreeMap<Vec<u8>, Vec<u8>>;

/// What was asked for by name, under plain names.
fn explicit(extras: &[Variable]) -> Result<Environment, MergeError> {
    let mut explicit = Environment::new();
    for (index, (name, value)) in extras.iter().enumerate() {
        let plain = forced_name(name).unwrap_or(name);
        check(Source::Explicit, index + 1, plain, value)?;
        explicit.insert(plain.to_vec(), value.clone());
    }
    Ok(explicit)
}

/// What the caller had and may hand on, and the names that it may not.
fn inherited(caller: &[Variable]) -> Result<(Environment, BTreeSet<Vec<u8>>), MergeError> {
    let (mut env, mut removed) = (Environment::new(), BTreeSet::new());
    for (index, (name, value)) in caller.iter().enumerate() {
        check(Source::Caller, index + 1, name, value)?;
        if forced_name(name).is_some() || is_blocked(name).is_some() {
            removed.insert(name.clone());
        } else if name != b"_" {
            env.insert(name.clone(), value.clone());
        }
    }
    Ok((env, removed))
}

/// What holds unless it was asked for differently. An inherited value does not count as asked for
/// without a terminal: it was chosen for the terminal that the caller sits at.
fn set_defaults(env: &mut Environment, parts: &Parts<'_>) {
    let pagers = ["PAGER", "GIT_PAGER", "MANPAGER", "SYSTEMD_PAGER"];
    let mut set = |name: &str, value: &[u8]| env.insert(name.into(), value.to_vec());
    set("PYTHONUNBUFFERED", b"1");
    set("PWD", parts.cwd.as_os_str().as_bytes());
    match parts.mode {
        Mode::Pipe => {
            set("TERM", b"dumb");
            for pager in pagers {
                set(pager, b"cat");
            }
            // Who forces colours on means it, and programs complain about both.
            let forces = |(name, value): (&Vec<u8>, &Vec<u8>)| {
                matches!(name.as_slice(), b"FORCE_COLOR" | b"CLICOLOR_FORCE") && !matches!(value.as_slice(), b"" | b"0" | b"false")
            };
            let extras = parts.extras.iter().map(|(name, value)| (name, value));
            if !env.iter().chain(extras).any(forces) {
                env.insert(b"NO_COLOR".to_vec(), b"1".to_vec());
            }
        }
        Mode::Pty => {
            // The size is the terminal's to tell, and it may change.
            env.remove(b"LINES".as_slice());
            env.remove(b"COLUMNS".as_slice());
            for pager in pagers {
                env.entry(pager.into()).or_insert_with(|| b"cat".to_vec());
            }
            let term = env.entry(b"TERM".to_vec()).or_default();
            if matches!(term.as_slice(), b"" | b"dumb") {
                *term = b"xterm-256color".to_vec();
            }
        }
    }
}

/// The caller's PATH with what login files added.
///
/// An entry that the caller has stays where the caller has it. Of the others, those that login put
/// before the system's directories come right before the caller's first one of these, so that they
/// win over the system and not over what the caller chose; the rest come last.
fn join_path(caller: Option<&[u8]>, login: Option<&[u8]>) -> Vec<u8> {
    let split = |path: &'_ [u8]| -> Vec<Vec<u8>> { path.split(|byte| *byte == b':').map(<[u8]>::to_vec).collect() };
    let system = split(SYSTEM_PATH.as_bytes());
    let login = login.map(split).unwrap_or_default();
    let last_system = login.iter().rposition(|entry| system.contains(entry));
    let (mut front, mut back) = (Vec::new(), Vec::new());
    for (at, entry) in login.into_iter().enumerate() {
        if entry.is_empty() || system.contains(&entry) {
            continue;
        }
        let list = if last_system.is_some_and(|last| at > last) { &mut back } else { &mut front };
        list.push(entry);
    }

    let mut entries = caller.filter(|path| !path.is_empty()).map(split).unwrap_or_default();
    front.retain(|entry| !entries.contains(entry));
    back.retain(|entry| !entries.contains(entry));
    let first_system = entries.iter().position(|entry| system.contains(entry));
    let at = first_system.unwrap_or(entries.len());
    entries.splice(at..at, front);
    entries.extend(back);
    if !entries.iter().any(|entry| entry == b"/usr/bin") {
        entries.extend(system);
    }
    let mut seen = BTreeSet::new();
    entries.retain(|entry| seen.insert(entry.clone()));
    entries.join(&b':')
}

fn argv(parts: &Parts<'_>, env: &mut Environment) -> Result<Vec<Vec<u8>>, MergeError> {
    let line = match parts.form {
        Form::Argv([]) => return Err(MergeError::NoCommand),
        Form::Argv(argv) => {
            return match argv.iter().position(|argument| argument.contains(&0)) {
                Some(at) => Err(MergeError::Nul(Part::Argument(at))),
                None => Ok(argv.to_vec()),
            };
        }
        Form::Line(line) if line.contains(&0) => return Err(MergeError::Nul(Part::Line)),
        Form::Line(line) => line,
    };
    let shell = parts.shell.path.as_os_str().as_bytes();
    let options: &[&[u8]] = match parts.shell.kind {
        ShellKind::Bash => {
            let file = parts.snapshot.and_then(Snapshot::file).filter(|_| reads_bash_env(env));
            if let Some(file) = file {
                let file = file.as_os_str().as_bytes().to_vec();
                if let Some(own) = env.insert(b"BASH_ENV".to_vec(), file) {
                    env.insert(b"_OUTLAST_BASH_ENV".to_vec(), own);
                }
            }
            &[b"--noprofile", b"--norc", b"-c"]
        }
        ShellKind::Other => &[b"-c"],
    };
    let words = [&[shell], options, &[line]].concat();
    Ok(words.into_iter().map(<[u8]>::to_vec).collect())
}

/// Whether bash looks at BASH_ENV at all: in POSIX and in privileged mode it does not, and then
/// nothing would take our file out of the environment again.
fn reads_bash_env(env: &Environment) -> bool {
    let options = env.get(b"SHELLOPTS".as_slice()).map_or(&[][..], Vec::as_slice);
    let ignores = |option: &[u8]| matches!(option, b"posix" | b"privileged");
    !env.contains_key(b"POSIXLY_CORRECT".as_slice()) && !options.split(|byte| *byte == b':').any(ignores)
}

fn check(source_of: Source, position: usize, name: &[u8], value: &[u8]) -> Result<(), MergeError> {
    let fault = if name.contains(&0) || value.contains(&0) {
        Fault::Nul
    } else if name.is_empty() {
        Fault::NoName
    } else if name.contains(&b'=') {
        Fault::EqualsInName
    } else {
        return Ok(());
    };
    // What stands behind a '=' in a name is most likely a value.
    let name = name.split(|byte| *byte == b'=').next().unwrap_or_default();
    let name = (!name.is_empty()).then(|| show(name));
    Err(MergeError::BadVariable { source_of, position, name, fault })
}

fn check_size(parts: &Parts<'_>, argv: &[Vec<u8>], env: &[Variable]) -> Result<(), MergeError> {
    let mut total = 0;
    let mut add = |what: &dyn Fn() -> Part, len: usize| {
        total += len + 1 + size_of::<usize>();
        if len > STRING_LIMIT {
            return Err(MergeError::TooLong { what: what(), len, limit: STRING_LIMIT });
        }
        Ok(())
    };
    for (at, argument) in argv.iter().enumerate() {
        let what = || match parts.form {
            Form::Line(_) => Part::Line,
            Form::Argv(_) => Part::Argument(at),
        };
        add(&what, argument.len())?;
    }
    for (name, value) in env {
        add(&|| Part::Variable(show(name)), name.len() + 1 + value.len())?;
    }
    if total > TOTAL_LIMIT {
        return Err(MergeError::TooLong { what: Part::Together, len: total, limit: TOTAL_LIMIT });
    }
    Ok(())
}

/// A name as it may be printed.
fn show(name: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(name).escape_debug().collect();
    match text.char_indices().nth(64) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

fn shown(name: &Option<String>) -> String {
    name.as_ref().map_or_else(String::new, |name| format!(" ({name})"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn variables(list: &[(&str, &str)]) -> Vec<Variable> {
        list.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    struct Case {
        caller: Vec<Variable>,
        extras: Vec<Variable>,
        snapshot: Option<Snapshot>,
        shell: Shell,
        mode: Mode,
    }

    impl Case {
        fn new(caller: &[(&str, &str)]) -> Case {
            Case { caller: variables(caller), extras: Vec::new(), snapshot: None, shell: Shell::at("/bin/bash"), mode: Mode::Pipe }
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
            self.mode = Mode::Pty;
            self
        }

        fn run(&self, form: Form<'_>) -> Result<Launch, MergeError> {
            merge(&Parts {
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
            let launch = self.run(Form::Line(b"true")).unwrap();
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
        let removed = case.run(Form::Line(b"true")).unwrap().removed;
        assert_eq!(removed.len(), 6);
    }

    #[test]
    fn case_006_a_forced_name_comes_through_without_its_prefix() {
        for prefix in ["_HERMES_FORCE_", "_OUTLAST_FORCE_"] {
            let forced = format!("{prefix}OPENAI_API_KEY");
            let case = Case::new(&[("OPENAI_API_KEY", "old")]).extras(&[(&forced, "new")]);
            assert_eq!(case.get("OPENAI_API_KEY").as_deref(), Some("new"));
            assert_eq!(case.get(&forced), None);
            assert_eq!(case.run(Form::Line(b"")).unwrap().removed, [] as [Vec<u8>; 0]);
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
        // The caller's is removed as a stranger's; the one that login files set is the user's.
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
        let launch = case.run(Form::Line(b"a; b")).unwrap();
        let expected: [&[u8]; 5] = [b"/bin/bash", b"--noprofile", b"--norc", b"-c", b"a; b"];
        assert_eq!(launch.argv, expected);
        assert!(launch.env.contains(&(b"BASH_ENV".to_vec(), b"/s/login.bash".to_vec())));
        assert!(launch.env.contains(&(b"_OUTLAST_BASH_ENV".to_vec(), b"/own".to_vec())));

        let argv = [b"prog".to_vec(), b"\xff".to_vec()];
        let launch = case.run(Form::Argv(&argv)).unwrap();
        assert_eq!(launch.argv, argv);
        assert!(launch.env.contains(&(b"BASH_ENV".to_vec(), b"/own".to_vec())));
        assert_eq!(launch.path(), format!("/l:{SYSTEM_PATH}").as_bytes());

        case.extras = variables(&[("POSIXLY_CORRECT", "")]);
        assert_eq!(case.get("BASH_ENV").as_deref(), Some("/own"));
        case.extras = variables(&[("SHELLOPTS", "braceexpand:posix")]);
        assert_eq!(case.get("BASH_ENV").as_deref(), Some("/own"));

        case.shell = Shell::at("/bin/sh");
        let launch = case.run(Form::Line(b"a")).unwrap();
        assert_eq!(launch.argv, [b"/bin/sh".to_vec(), b"-c".to_vec(), b"a".to_vec()]);
    }

    #[test]
    fn bytes_that_are_not_text_pass_through() {
        let mut case = Case::new(&[]);
        case.caller = vec![(b"\xffN".to_vec(), b"\xfe\n=".to_vec())];
        let launch = case.run(Form::Line(b"\xfd")).unwrap();
        assert!(launch.env.contains(&(b"\xffN".to_vec(), b"\xfe\n=".to_vec())));
        assert_eq!(launch.argv[4], b"\xfd");
    }

    #[test]
    fn what_no_environment_can_hold_is_refused_by_name_and_without_its_value() {
        let message = |case: Case| case.run(Form::Line(b"true")).unwrap_err().to_string();
        assert_eq!(
            message(Case::new(&[("A", "1"), ("B", "se\0cret")])),
            "inherited variable 2 (B) has a NUL byte in it; give it as NAME=value"
        );
        assert_eq!(message(Case::new(&[]).extras(&[("", "secret")])), "explicit variable 1 has no name; give it as NAME=value");
        assert_eq!(
            message(Case::new(&[]).extras(&[("_HERMES_FORCE_", "secret")])),
            "explicit variable 1 has no name; give it as NAME=value"
        );
        assert_eq!(
            message(Case::new(&[]).extras(&[("K=secret", "x")])),
            "explicit variable 1 (K) has '=' in its name; give it as NAME=value"
        );
        assert_eq!(parse_variable(b"secret", 3).unwrap_err().to_string(), "explicit variable 3 has no '='; give it as NAME=value");
        assert_eq!(parse_variable(b"K=a=b", 1).unwrap(), (b"K".to_vec(), b"a=b".to_vec()));

        let case = Case::new(&[]);
        assert_eq!(case.run(Form::Argv(&[])), Err(MergeError::NoCommand));
        let nul = [b"a".to_vec(), b"b\0".to_vec()];
        assert_eq!(case.run(Form::Argv(&nul)), Err(MergeError::Nul(Part::Argument(1))));
        assert_eq!(case.run(Form::Line(b"\0")), Err(MergeError::Nul(Part::Line)));
    }

    #[test]
    fn more_than_the_system_takes_is_refused_at_the_byte() {
        let case = Case::new(&[]);
        let argv = |len: usize| [b"a".to_vec(), vec![b'x'; len]];
        assert!(case.run(Form::Argv(&argv(STRING_LIMIT))).is_ok());
        let refused = case.run(Form::Argv(&argv(STRING_LIMIT + 1))).unwrap_err();
        let what = Part::Argument(1);
        assert_eq!(refused, MergeError::TooLong { what, len: 131_072, limit: 131_071 });

        let value = "x".repeat(STRING_LIMIT - 2);
        assert!(Case::new(&[("K", &value)]).run(Form::Line(b"")).is_ok());
        let refused = Case::new(&[("KK", &value)]).run(Form::Line(b"")).unwrap_err();
        let what = Part::Variable("KK".into());
        assert_eq!(refused, MergeError::TooLong { what, len: 131_072, limit: 131_071 });

        let many: Vec<Vec<u8>> = vec![vec![b'x'; 100_000]; 20];
        let refused = case.run(Form::Argv(&many)).unwrap_err();
        assert!(matches!(refused, MergeError::TooLong { what: Part::Together, .. }), "{refused}");
        assert!(case.run(Form::Argv(&many[..19])).is_ok());
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
}
