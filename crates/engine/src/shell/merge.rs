//! Argv and environment of a command, from all who have a say.
//!
//! In rising order: what the caller had, without what is blocked; what login files set and the
//! caller does not; what a command without a person in front of it needs; what was asked for
//! explicitly.

mod check;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub use check::{LaunchPart, MergeError, STRING_LIMIT, TOTAL_LIMIT, VariableFault, VariableSource, parse_variable};
use check::{check, check_size};

use super::blocked::{forced_name, is_blocked};
use super::{SYSTEM_PATH, Shell, ShellKind, Snapshot, Variable};

/// All that goes into a launch.
#[derive(Clone, Copy)]
pub struct LaunchInputs<'a> {
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
    pub form: CommandForm<'a>,
    /// What its output goes to.
    pub mode: OutputMode,
    /// Where it runs.
    pub cwd: &'a Path,
    /// The process it is.
    pub process_id: &'a str,
}

/// What to run.
#[derive(Clone, Copy)]
pub enum CommandForm<'a> {
    /// A line for the shell.
    Line(&'a [u8]),
    /// A program and its arguments, as they are.
    Argv(&'a [Vec<u8>]),
}

/// What a command's output goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputMode {
    /// A pipe.
    Pipe,
    /// A terminal of its own.
    Pty,
}

/// What the keeper is to execute. The program is `argv[0]`: a path in the line form; in the argv
/// form to be found with [`resolve_program`](super::resolve_program) and [`MergedLaunch::path`].
#[derive(Clone, PartialEq, Eq)]
pub struct MergedLaunch {
    /// The arguments, the program's name first.
    pub argv: Vec<Vec<u8>>,
    /// The whole environment, sorted by name.
    pub env: Vec<Variable>,
    /// Names that the caller had and the command does not get.
    pub removed: Vec<Vec<u8>>,
}

impl MergedLaunch {
    /// The PATH that the command has.
    pub fn path(&self) -> &[u8] {
        self.env.iter().find(|(name, _)| name == b"PATH").map_or(&[], |(_, value)| value)
    }
}

impl fmt::Debug for MergedLaunch {
    // Neither arguments nor values belong in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.env.iter().map(|(name, _)| String::from_utf8_lossy(name)).collect();
        f.debug_struct("MergedLaunch")
            .field("arguments", &self.argv.len())
            .field("names", &names)
            .field("removed", &self.removed.len())
            .finish()
    }
}

/// Makes argv and environment of a command.
pub fn merge(parts: &LaunchInputs<'_>) -> Result<MergedLaunch, MergeError> {
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
    Ok(MergedLaunch { argv, env, removed })
}

type Environment = BTreeMap<Vec<u8>, Vec<u8>>;

/// What was asked for by name, under plain names.
fn explicit(extras: &[Variable]) -> Result<Environment, MergeError> {
    let mut explicit = Environment::new();
    for (index, (name, value)) in extras.iter().enumerate() {
        let plain = forced_name(name).unwrap_or(name);
        check(VariableSource::Explicit, index + 1, plain, value)?;
        explicit.insert(plain.to_vec(), value.clone());
    }
    Ok(explicit)
}

/// What the caller had and may hand on, and the names that it may not.
fn inherited(caller: &[Variable]) -> Result<(Environment, BTreeSet<Vec<u8>>), MergeError> {
    let (mut env, mut removed) = (Environment::new(), BTreeSet::new());
    for (index, (name, value)) in caller.iter().enumerate() {
        check(VariableSource::Caller, index + 1, name, value)?;
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
fn set_defaults(env: &mut Environment, parts: &LaunchInputs<'_>) {
    let pagers = ["PAGER", "GIT_PAGER", "MANPAGER", "SYSTEMD_PAGER"];
    let mut set = |name: &str, value: &[u8]| env.insert(name.into(), value.to_vec());
    set("PYTHONUNBUFFERED", b"1");
    set("PWD", parts.cwd.as_os_str().as_bytes());
    match parts.mode {
        OutputMode::Pipe => {
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
        OutputMode::Pty => {
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

fn argv(parts: &LaunchInputs<'_>, env: &mut Environment) -> Result<Vec<Vec<u8>>, MergeError> {
    let line = match parts.form {
        CommandForm::Argv([]) => return Err(MergeError::NoCommand),
        CommandForm::Argv(argv) => {
            return match argv.iter().position(|argument| argument.contains(&0)) {
                Some(at) => Err(MergeError::Nul(LaunchPart::Argument(at))),
                None => Ok(argv.to_vec()),
            };
        }
        CommandForm::Line(line) if line.contains(&0) => return Err(MergeError::Nul(LaunchPart::Line)),
        CommandForm::Line(line) => line,
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

#[cfg(test)]
mod tests;
