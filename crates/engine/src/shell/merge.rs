//! Merges the argv and environment of a command from all sources.
//!
//! In rising order of precedence: the caller's environment without blocked names; variables that login files set and the caller has not;
//! settings for commands that run unattended; explicit variables of the request.

mod check;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub(crate) use check::MergeError;
use check::{LaunchPart, VariableSource, check, check_size};

use super::blocked::{forced_name, is_blocked};
use super::{SYSTEM_PATH, Shell, ShellKind, Snapshot, Variable};

/// The inputs of a merge.
#[derive(Clone, Copy)]
pub(crate) struct LaunchInputs<'a> {
    /// The caller's environment at the time of the request. Of a name that occurs twice the last counts, as in bash.
    pub(crate) caller: &'a [Variable],
    /// Explicit variables of the request.
    pub(crate) extras: &'a [Variable],
    /// What login files add, if there is a snapshot.
    pub(crate) snapshot: Option<&'a Snapshot>,
    /// The shell for a command line.
    pub(crate) shell: &'a Shell,
    pub(crate) form: CommandForm<'a>,
    pub(crate) mode: OutputMode,
    /// Where it runs.
    pub(crate) cwd: &'a Path,
    /// The id of the process.
    pub(crate) process_id: &'a str,
}

/// A command in one of its two forms.
#[derive(Clone, Copy)]
pub(crate) enum CommandForm<'a> {
    /// A shell command line.
    Line(&'a [u8]),
    /// A program and its arguments, as they are.
    Argv(&'a [Vec<u8>]),
}

/// Where a command's output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputMode {
    Pipe,
    /// A terminal of its own.
    Pty,
}

/// What the keeper is to execute. The program is `argv[0]`: a path in the line form; in the argv form to be found with
/// [`resolve_program`](super::resolve_program) and [`MergedLaunch::path`].
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct MergedLaunch {
    /// The arguments, the program's name first.
    pub(crate) argv: Vec<Vec<u8>>,
    /// The whole environment, sorted by name.
    pub(crate) env: Vec<Variable>,
    /// Names of the caller's environment that the command does not get.
    pub(crate) removed: Vec<Vec<u8>>,
}

impl MergedLaunch {
    /// The PATH that the command has.
    pub(crate) fn path(&self) -> &[u8] {
        self.env.iter().find(|(name, _)| name == b"PATH").map_or(&[], |(_, value)| value)
    }
}

impl fmt::Debug for MergedLaunch {
    // Arguments and values must not reach a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.env.iter().map(|(name, _)| String::from_utf8_lossy(name)).collect();
        f.debug_struct("MergedLaunch")
            .field("arguments", &self.argv.len())
            .field("names", &names)
            .field("removed", &self.removed.len())
            .finish()
    }
}

/// Merges the argv and environment of a command.
pub(crate) fn merge(parts: &LaunchInputs<'_>) -> Result<MergedLaunch, MergeError> {
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

/// The explicit variables, under plain names.
fn explicit(extras: &[Variable]) -> Result<Environment, MergeError> {
    let mut explicit = Environment::new();
    for (index, (name, value)) in extras.iter().enumerate() {
        let plain = forced_name(name).unwrap_or(name);
        check(VariableSource::Explicit, index + 1, plain, value)?;
        explicit.insert(plain.to_vec(), value.clone());
    }
    Ok(explicit)
}

/// The caller's variables that the command may inherit, and the names of those that it may not.
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

/// The settings for unattended commands, unless the request sets them. Without a terminal, an inherited value does not count as a setting:
/// it was chosen for the caller's own terminal.
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
            // Forced colours are kept, and programs complain if both variables are set.
            let forces = |(name, value): (&Vec<u8>, &Vec<u8>)| {
                matches!(name.as_slice(), b"FORCE_COLOR" | b"CLICOLOR_FORCE") && !matches!(value.as_slice(), b"" | b"0" | b"false")
            };
            let extras = parts.extras.iter().map(|(name, value)| (name, value));
            if !env.iter().chain(extras).any(forces) {
                env.insert(b"NO_COLOR".to_vec(), b"1".to_vec());
            }
        }
        OutputMode::Pty => {
            // Programs ask the terminal for its size, which may change.
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
/// The caller's entries keep their order. Of the others, those that login files put before the system's directories come right before the
/// caller's first system directory, so that they precede the system but not the caller's choice. The rest come last.
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

/// Whether bash reads BASH_ENV. In POSIX and in privileged mode it does not, and then nothing would remove our file from the environment.
fn reads_bash_env(env: &Environment) -> bool {
    let options = env.get(b"SHELLOPTS".as_slice()).map_or(&[][..], Vec::as_slice);
    let ignores = |option: &[u8]| matches!(option, b"posix" | b"privileged");
    !env.contains_key(b"POSIXLY_CORRECT".as_slice()) && !options.split(|byte| *byte == b':').any(ignores)
}

#[cfg(test)]
mod tests;
