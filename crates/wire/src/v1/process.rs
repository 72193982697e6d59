//! A process, as the engine describes it to clients.

use super::event::Event;
use outlast_core::{ProcessId, Reason, Status, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Serde for a field that may be absent, null or a number.
pub(crate) mod present {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(v: &Option<Option<i32>>, s: S) -> Result<S::Ok, S::Error> {
        v.unwrap_or_default().serialize(s)
    }
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Option<i32>>, D::Error> {
        Option::<i32>::deserialize(d).map(Some)
    }
}

/// How a process ended; empty while it has not.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Fate {
    /// The exit code, or the negated signal number; null if neither is known.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "present")]
    pub exit_code: Option<Option<i32>>,
    /// The signal's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Whether the kernel killed it because memory ran out; absent if it did not, or if that is unknown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub oom: bool,
    /// Why it ended, in the contract's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_reason: Option<Reason>,
    /// What ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub termination_source: Option<String>,
    /// When it ended. None while it runs, and if its end was not observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// When it was found to have ended, if its end was not observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found_ended_at: Option<Time>,
    /// Why it could not be started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_error: Option<String>,
    /// The exit code that a shell reports for that: 127 if there is no such program, else 126.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_code: Option<i32>,
}

impl Fate {
    /// The time by which it had ended: that of its end, or that at which it was found to have ended.
    pub fn ended_by(&self) -> Option<Time> {
        self.ended_at.or(self.found_ended_at)
    }
}

/// A descendant of a command that keeps running after the command's end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LeftProcess {
    /// Its pid.
    pub pid: u32,
    /// What it runs, secrets masked.
    pub command: String,
}

impl LeftProcess {
    /// A pid and its command.
    pub fn new(pid: u32, command: impl Into<String>) -> Self {
        Self { pid, command: command.into() }
    }
}

impl std::fmt::Display for LeftProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.pid, self.command)
    }
}

/// One process: the answer to `run` and `poll`, and an entry in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Process {
    /// The process id. The contract calls it `session_id`.
    pub session_id: ProcessId,
    /// The command, secrets masked.
    pub command: String,
    /// A name for display.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Labels, by which processes can be found together; secrets masked.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The environment in which it runs; absent on the engine's own machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// Its pid in that environment. `pid` is absent then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment_pid: Option<u32>,
    /// How many bytes of output the environment has that are not here yet, as far as is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unmirrored_bytes: Option<u64>,
    /// Whether it is running or has exited.
    pub status: Status,
    /// Its phase.
    pub phase: String,
    /// The command's own pid.
    pub pid: Option<u32>,
    /// Whether a stop signal such as SIGSTOP suspended it; CONT continues it. Only in the answers to `poll` and to a start.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_suspended: bool,
    /// Its working directory.
    pub cwd: String,
    /// When its request was accepted.
    pub started_at: Time,
    /// How long it has run, in seconds.
    pub uptime_seconds: u64,
    /// When it reaches its own time limit, if it has one and runs. The limit counts from the start of the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<Time>,
    /// Whether it may have run longer, because its end was not observed: `uptime_seconds` is then the time until its last known output, or 0.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_uptime_at_least: bool,
    /// When its last output came, to the second, if its end was not observed and this is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_output_at: Option<Time>,
    /// The last part of its output, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_preview: Option<String>,
    /// How many characters were left out before that part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_cut: Option<u64>,
    /// The length of its output so far in bytes.
    pub output_bytes: u64,
    /// How it ended.
    #[serde(flatten)]
    pub fate: Fate,
    /// The task that owns it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// The session that owns it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
    /// Whether it is in the list only because of its session.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub session_scoped: bool,
    /// Whether it belongs to another conversation of the caller's session that is still open.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub other_conversation: bool,
    /// Whether it was adopted rather than started by Outlast.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub detached: bool,
    /// Whether its end and all its output were in the answer to the call that started it. Lists for agents leave it out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_set_aside: bool,
    /// Whether it has a terminal.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pty: bool,
    /// Whether its input is open.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub takes_input: bool,
    /// How many bytes were written to its input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_bytes: Option<u64>,
    /// `full`, or `output-only` after a keeper was lost on an old kernel; absent once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protection: Option<String>,
    /// How many descendants kept running after its end; absent if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_running: Option<u32>,
    /// These descendants.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<LeftProcess>,
    /// Whether its owner is notified of its end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub notify_on_complete: bool,
    /// The patterns for which its output is watched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watch_patterns: Vec<String>,
    /// Whether a match was reported; absent if it is not watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch_hit: Option<bool>,
    /// Whether it is no longer watched, because too much matched.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub watch_disabled: bool,
    /// Which bytes of output are missing, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Event>,
    /// What could not be determined, and what that means.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Variables of the caller that were not passed on, because commands do not inherit credentials. Only in the answer to a start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_passed_on: Vec<String>,
    /// A remark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Process {
    /// A process with no other fields set.
    pub fn new(id: ProcessId, command: impl Into<String>, status: Status, phase: impl Into<String>, started_at: Time) -> Self {
        Self {
            session_id: id,
            command: command.into(),
            name: None,
            labels: BTreeMap::new(),
            environment: None,
            environment_pid: None,
            unmirrored_bytes: None,
            status,
            phase: phase.into(),
            pid: None,
            is_suspended: false,
            cwd: String::new(),
            started_at,
            uptime_seconds: 0,
            deadline_at: None,
            is_uptime_at_least: false,
            last_output_at: None,
            output_preview: None,
            output_cut: None,
            output_bytes: 0,
            fate: Fate::default(),
            task_id: None,
            session_key: None,
            session_scoped: false,
            other_conversation: false,
            detached: false,
            is_set_aside: false,
            pty: false,
            takes_input: false,
            input_bytes: None,
            protection: None,
            left_running: None,
            left: Vec::new(),
            notify_on_complete: false,
            watch_patterns: Vec::new(),
            watch_hit: None,
            watch_disabled: false,
            gaps: Vec::new(),
            warnings: Vec::new(),
            not_passed_on: Vec::new(),
            note: None,
        }
    }
}

/// The answer to a list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct List {
    /// Running ones, then finished ones.
    pub processes: Vec<Process>,
}

impl List {
    /// A list of these.
    pub fn new(processes: Vec<Process>) -> Self {
        Self { processes }
    }
}
