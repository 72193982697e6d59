//! Finds out whether a hook that wakes an agent can work, without waking one.

use super::test;
use outlast_sinks::{Hook, HookCommand, SinkConfig, Way, try_sink};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a check may take. The agent's program or server usually answers in a fraction of that.
const CHECK_TIMEOUT: Duration = Duration::from_secs(15);

/// What is known about a hook that wakes an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WakeCheck {
    /// It calls the `outlast` at this path, which reached the agent.
    Works(PathBuf),
    /// It cannot work now, for this reason.
    Fails(String),
    /// Its program is there. It is not run, because that might wake an agent.
    NotTried,
    /// It is a line for a shell, in which no program is looked for.
    ShellLine,
}

/// Looks for the hook's program as the engine does. If it is `outlast hook CLIENT`, runs it with `--check`, which wakes no agent.
pub(crate) async fn check_wake(sink: &SinkConfig) -> Option<WakeCheck> {
    let Way::Hook(hook) = &sink.way else { return None };
    if !hook.wakes {
        return None;
    }
    let words = match &hook.command {
        HookCommand::Shell(_) => return Some(WakeCheck::ShellLine),
        HookCommand::Argv(words) => words,
    };
    let program = match found(hook, words.first().map_or("", String::as_str)) {
        Ok(program) => program,
        Err(why) => return Some(WakeCheck::Fails(why)),
    };
    if !is_own(words) {
        return Some(WakeCheck::NotTried);
    }
    let command = HookCommand::Argv(words.iter().cloned().chain(["--check".to_owned()]).collect());
    let check = Hook { command, time_limit: CHECK_TIMEOUT, ..hook.clone() };
    let trial = try_sink(&SinkConfig { way: Way::Hook(check), ..sink.clone() }, &test::delivery(&sink.name)).await;
    Some(match trial.failure {
        None => WakeCheck::Works(program),
        // An earlier version does not know the flag.
        Some(_) if trial.output.contains("unexpected argument '--check'") => WakeCheck::NotTried,
        Some(why) => WakeCheck::Fails(trial.output.lines().find(|line| !line.trim().is_empty()).map_or(why, |line| said(line).to_owned())),
    })
}

/// A line of ours without our name.
fn said(line: &str) -> &str {
    line.trim().strip_prefix("outlast: ").unwrap_or(line.trim())
}

/// Whether a command is `outlast hook CLIENT`, at any path.
fn is_own(words: &[String]) -> bool {
    let [program, hook, client, ..] = words else { return false };
    Path::new(program).file_name() == Some(OsStr::new("outlast")) && hook == "hook" && ["codex", "opencode", "hermes"].contains(&&**client)
}

/// The program that a hook runs, found in the path of its environment. Otherwise what is wrong.
fn found(hook: &Hook, program: &str) -> Result<PathBuf, String> {
    let can_run = |path: &PathBuf| path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok();
    if program.contains('/') {
        let path = hook.dir.join(program);
        return match path.exists() {
            false => Err(format!("there is no {}", path.display())),
            true if can_run(&path) => Ok(path),
            true => Err(format!("{} cannot be executed", path.display())),
        };
    }
    let path = hook.env.iter().find(|(name, _)| name == "PATH").map(|(_, dirs)| dirs.as_os_str()).unwrap_or_default();
    let mut all = std::env::split_paths(path).map(|dir| hook.dir.join(dir).join(program));
    all.find(can_run).ok_or_else(|| format!("there is no program {program} in the PATH"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_as_the_engine_finds_it() {
        let tmp = tempfile::tempdir().unwrap();
        let hook = |path: &str| Hook::new(HookCommand::Argv(Vec::new()), vec![("PATH".into(), path.into())], tmp.path().to_owned());
        std::fs::create_dir(tmp.path().join("bin")).unwrap();
        std::os::unix::fs::symlink("/bin/sh", tmp.path().join("bin/mine")).unwrap();
        std::fs::write(tmp.path().join("bin/text"), "").unwrap();
        let bin = tmp.path().join("bin/mine");
        assert_eq!(found(&hook("/nowhere:bin"), "mine"), Ok(bin.clone()), "a relative directory is below that of the hook");
        assert_eq!(found(&hook(""), "bin/mine"), Ok(bin));
        for (program, why) in
            [("text", "in the PATH"), ("bin", "in the PATH"), ("bin/text", "cannot be executed"), ("./none", "there is no")]
        {
            let said = found(&hook(tmp.path().join("bin").to_str().unwrap()), program).unwrap_err();
            assert!(said.contains(why), "{program}: {said}");
        }
    }

    #[test]
    fn only_our_own_hooks_are_run() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for own in ["outlast hook codex", "/a/outlast hook hermes --key-file /k"] {
            assert!(is_own(&words(own)), "{own}");
        }
        for other in ["outlast", "outlast hook claude", "outlast run codex", "env outlast hook codex", "notify hook codex"] {
            assert!(!is_own(&words(other)), "{other}");
        }
    }
}
