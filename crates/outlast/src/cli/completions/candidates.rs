//! Candidates from this home: processes, sessions, tasks, sinks, conversations.

use super::super::out::tame;
use super::super::{ending, signal};
use crate::config::World;
use clap::{Arg, Command, ValueHint};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use outlast_client::{Chat, Client, ClientError, Connect, ProcessInfo, Scope, Start, Status};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::time::Duration;

/// How long a request may take. The user is typing, so candidates that take longer are left out.
const PATIENCE: Duration = Duration::from_secs(2);
/// How much of a command is shown beside an id.
const SHOWN: usize = 60;

/// Which processes a verb is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    Running,
    Finished,
    All,
}

/// The command line with what may stand for ids, keys and names in it.
pub(super) fn add(command: Command) -> Command {
    if command.get_name() == "chat" {
        return conversations_of(command);
    }
    let name = command.get_name().to_owned();
    let verbs: Vec<String> = command.get_subcommands().map(|c| c.get_name().to_owned()).collect();
    let command = command.mut_args(|arg| of(&name, arg));
    verbs.into_iter().fold(command, |command, verb| command.mut_subcommand(verb, add))
}

/// `chat` and its verbs, whose names are those of conversations.
fn conversations_of(command: Command) -> Command {
    let verbs: Vec<String> = command.get_subcommands().map(|c| c.get_name().to_owned()).collect();
    let name = |arg: Arg| match arg.get_id().as_str() {
        "name" => arg.add(ArgValueCompleter::new(conversations)),
        "agent" => arg.add(ArgValueCompleter::new(agents)),
        _ => arg,
    };
    verbs.into_iter().fold(command.mut_args(name), |command, verb| command.mut_subcommand(verb, |c| c.mut_args(name)))
}

fn of(verb: &str, arg: Arg) -> Arg {
    let which = match verb {
        "kill" | "signal" | "write" | "submit" | "close" | "attach" => Which::Running,
        "rm" | "rerun" => Which::Finished,
        _ => Which::All,
    };
    match (verb, arg.get_id().as_str()) {
        // The id of a new process and the ids of notices are not completed.
        ("run" | "post" | "replay" | "ack" | "release" | "drop", "id" | "ids") => arg,
        // Any number of processes may come before the signal, so that either may stand there.
        ("signal", "ids") => arg.add(ArgValueCompleter::new(move |typed: &OsStr| {
            let mut all = processes(typed, which);
            all.extend(signals(typed));
            all
        })),
        (_, "id" | "ids" | "process" | "waiting") => arg.add(ArgValueCompleter::new(move |typed: &OsStr| processes(typed, which))),
        (_, "labels") => arg.add(ArgValueCompleter::new(labels)),
        ("list", "name") => arg.add(ArgValueCompleter::new(|typed: &OsStr| keys(typed, |p| p.name))),
        (_, "session") => arg.add(ArgValueCompleter::new(|typed: &OsStr| keys(typed, |p| p.session_key))),
        (_, "task") => arg.add(ArgValueCompleter::new(|typed: &OsStr| keys(typed, |p| p.task_id))),
        (_, "signal") => arg.add(ArgValueCompleter::new(signals)),
        ("replay" | "test", "sink") => arg.add(ArgValueCompleter::new(sinks)),
        ("run", "cwd") => arg.value_hint(ValueHint::DirPath),
        ("run" | "rerun" | "restart" | "up", "env_file") | ("up", "file") | ("adopt", "what") => arg.value_hint(ValueHint::FilePath),
        _ => arg,
    }
}

/// The names and ids that begin so.
fn processes(typed: &OsStr, which: Which) -> Vec<CompletionCandidate> {
    let Some(typed) = typed.to_str() else { return Vec::new() };
    let mut all = known();
    all.retain(|p| match which {
        Which::Running => p.status == Status::Running || !p.left.is_empty(),
        Which::Finished => p.status == Status::Exited,
        Which::All => true,
    });
    meant(typed, all).into_iter().map(|(word, p)| CompletionCandidate::new(word).help(Some(about(&p).into()))).collect()
}

/// What may be meant, each with the word that completes it. A name that several have is there once, with the process that it means.
fn meant(typed: &str, mut all: Vec<ProcessInfo>) -> Vec<(String, ProcessInfo)> {
    all.sort_by_key(|p| (p.status == Status::Exited, std::cmp::Reverse(p.started_at)));
    let mut names = BTreeSet::new();
    let mut found = Vec::new();
    for p in all {
        let name = p.name.clone().filter(|name| name.starts_with(typed));
        let id = written(typed, &p);
        match name {
            Some(name) if names.insert(name.clone()) => found.push((name, p)),
            // Before anything is typed, a process that has a name is offered by it alone.
            Some(_) if typed.is_empty() => {}
            _ if id.starts_with(typed) => found.push((id, p)),
            _ => {}
        }
    }
    found
}

/// The id as it was begun: with `proc_` or without.
fn written(typed: &str, p: &ProcessInfo) -> String {
    let id = p.session_id.to_string();
    let digits = id.trim_start_matches("proc_");
    if !typed.is_empty() && digits.starts_with(typed) { digits.to_owned() } else { id }
}

fn about(p: &ProcessInfo) -> String {
    let command: String = tame(&p.command).chars().take(SHOWN).collect();
    let name = p.name.as_deref().map(|name| format!("{}, ", tame(name))).unwrap_or_default();
    format!("{name}{}: {command}", ending::standing(p).0)
}

fn keys(typed: &OsStr, key: impl Fn(ProcessInfo) -> Option<String>) -> Vec<CompletionCandidate> {
    let all: BTreeSet<String> = known().into_iter().filter_map(key).collect();
    beginning(typed, all)
}

fn labels(typed: &OsStr) -> Vec<CompletionCandidate> {
    let all: BTreeSet<String> = known().into_iter().flat_map(|p| p.labels).map(|(key, value)| format!("{key}={value}")).collect();
    beginning(typed, all)
}

fn signals(typed: &OsStr) -> Vec<CompletionCandidate> {
    let upper = typed.to_string_lossy().to_ascii_uppercase();
    let sig = if upper.starts_with("SIG") { "SIG" } else { "" };
    beginning(OsStr::new(&upper), signal::names().map(|name| format!("{sig}{name}")))
}

fn sinks(typed: &OsStr) -> Vec<CompletionCandidate> {
    let Ok(settings) = World::here().settings() else { return Vec::new() };
    beginning(typed, settings.sinks.pushes.into_iter().map(|push| push.name))
}

/// The names of conversations. No gateway is started to find out.
fn conversations(typed: &OsStr) -> Vec<CompletionCandidate> {
    let Ok(settings) = World::here().settings() else { return Vec::new() };
    let to = Connect::to(&settings.home);
    let all = within_patience(async { Chat::connect(&to).await?.list().await });
    beginning(typed, all.into_iter().map(|c| c.name))
}

/// The names of agents: built in and configured.
fn agents(typed: &OsStr) -> Vec<CompletionCandidate> {
    let own = World::here().settings().map(|settings| settings.gateway.agents.into_keys()).into_iter().flatten();
    beginning(typed, outlast_gateway::built_in_agents().map(str::to_owned).chain(own).collect::<BTreeSet<_>>())
}

fn beginning(typed: &OsStr, all: impl IntoIterator<Item = String>) -> Vec<CompletionCandidate> {
    let Some(typed) = typed.to_str() else { return Vec::new() };
    all.into_iter().filter(|text| text.starts_with(typed)).map(CompletionCandidate::new).collect()
}

/// Everything that may be touched from here. Where nothing was ever started nothing is known, and no engine is started to find out.
fn known() -> Vec<ProcessInfo> {
    let world = World::here();
    let Ok(settings) = world.settings() else { return Vec::new() };
    if !settings.home.join("index.db").exists() {
        return Vec::new();
    }
    let mut to = Connect::to(&settings.home).speaking_for(world.owner());
    to.start = Start::OnDemand { program: world.program.clone() };
    within_patience(async { Client::connect(&to).await?.list(&Scope::default(), true).await })
}

/// What is answered in time, or nothing.
fn within_patience<T>(asking: impl Future<Output = Result<Vec<T>, ClientError>>) -> Vec<T> {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return Vec::new() };
    let asked = runtime.block_on(async { tokio::time::timeout(PATIENCE, asking).await });
    runtime.shutdown_background();
    // Who is typing hears of a program that does not answer when they ask it for something.
    asked.ok().and_then(Result::ok).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(id: &str, name: &str) -> ProcessInfo {
        serde_json::from_value(serde_json::json!({
            "session_id": id, "name": name, "command": "make\ttest", "status": "running", "phase": "running", "pid": 1, "cwd": "/",
            "started_at": "2026-01-01T00:00:00Z", "uptime_seconds": 1, "output_bytes": 0,
        }))
        .unwrap()
    }

    #[test]
    fn ids_are_completed_as_they_were_begun_and_names_as_they_are() {
        let all = [
            process("proc_0123456789ab", "web"),
            process("proc_01fedcba9876", "worker"),
            process("proc_fedcba987654", "0db"),
            process("proc_aaaaaaaaaaaa", "web"),
        ];
        let found = |typed: &str| {
            let mut words: Vec<String> = meant(typed, all.to_vec()).into_iter().map(|(word, _)| word).collect();
            words.sort();
            words
        };
        assert_eq!(found("proc_01"), ["proc_0123456789ab", "proc_01fedcba9876"]);
        assert_eq!(found("012"), ["0123456789ab"]);
        assert_eq!(found("we"), ["web"]);
        assert_eq!(found("w"), ["web", "worker"]);
        assert_eq!(found("0"), ["0123456789ab", "01fedcba9876", "0db"]);
        assert_eq!(found(""), ["0db", "web", "worker"]);
        assert!(found("zz").is_empty());
        assert_eq!(about(&all[0]), "web, running: make test");
    }

    #[test]
    fn signals_are_completed_with_their_first_letters_or_without() {
        let found =
            |typed: &str| signals(OsStr::new(typed)).iter().map(|c| c.get_value().to_string_lossy().into_owned()).collect::<Vec<_>>();
        assert_eq!(found("te"), ["TERM"]);
        assert_eq!(found("SIGUS"), ["SIGUSR1", "SIGUSR2"]);
        assert_eq!(found("st"), ["STKFLT", "STOP"]);
    }
}
