//! A process, as it is answered.

use super::reply::Event;
use outlast_core::{ProcessId, Reason, Status, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Serde for a field that is absent, or there and possibly null.
pub(crate) mod present {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(v: &Option<Option<i32>>, s: S) -> Result<S::Ok, S::Error> {
        v.unwrap_or_default().serialize(s)
    }
    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Option<i32>>, D::Error> {
        Option::<i32>::deserialize(d).map(Some)
    }
}

/// How a process ended; absent while it has not.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Fate {
    /// The own code, minus the signal, or null where nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "present")]
    pub exit_code: Option<Option<i32>>,
    /// The signal's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Whether the kernel killed it because memory ran out; absent if it did not, or if that is not known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub oom: bool,
    /// Why it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_reason: Option<Reason>,
    /// Who ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub termination_source: Option<String>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// Why it never started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_error: Option<String>,
    /// What a shell would exit with for that: 127 where there is no such program, else 126.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_code: Option<i32>,
}

/// A process of the machine that a command started, and that goes on after the command's end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LeftProcess {
    /// Its pid.
    pub pid: u32,
    /// What it runs, secrets masked.
    pub command: String,
}

impl LeftProcess {
    /// A pid, and what runs under it.
    pub fn new(pid: u32, command: impl Into<String>) -> Self {
        Self { pid, command: command.into() }
    }
}

impl std::fmt::Display for LeftProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.pid, self.command)
    }
}

/// One process: the answer to `run` and `poll`, and an entry of `list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Process {
    /// The process id, under the contract's name.
    pub session_id: ProcessId,
    /// The command, secrets masked.
    pub command: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Labels by which processes are found together, secrets masked.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Running or exited.
    pub status: Status,
    /// Where exactly it stands.
    pub phase: String,
    /// The command's own pid.
    pub pid: Option<u32>,
    /// A stop signal such as SIGSTOP suspended it; CONT continues it. In the answers to `poll` and to a start.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_suspended: bool,
    /// Where it runs.
    pub cwd: String,
    /// When it was accepted.
    pub started_at: Time,
    /// How long it has run, or ran.
    pub uptime_seconds: u64,
    /// The end of its output, for readers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_preview: Option<String>,
    /// How many characters the preview left out before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_cut: Option<u64>,
    /// How many bytes of output there are so far.
    pub output_bytes: u64,
    /// How it ended.
    #[serde(flatten)]
    pub fate: Fate,
    /// Its task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Its conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_key: Option<String>,
    /// It is in the list for its conversation only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub session_scoped: bool,
    /// It was started by somebody else and adopted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub detached: bool,
    /// It has a terminal.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pty: bool,
    /// Its input is open.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub takes_input: bool,
    /// How many bytes of input were taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_bytes: Option<u64>,
    /// `full`, or `output-only` after a keeper was lost on an old kernel; absent once over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protection: Option<String>,
    /// How many processes that it started still run after its end. Absent if none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_running: Option<u32>,
    /// Which these are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<LeftProcess>,
    /// Its end is told to its owner.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub notify_on_complete: bool,
    /// What its lines are watched for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watch_patterns: Vec<String>,
    /// Whether a match was told, where it is watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch_hit: Option<bool>,
    /// Whether it is watched no more, because too much matched.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub watch_disabled: bool,
    /// Bytes of output that are missing, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Event>,
    /// What could not be had, and what it means.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Variables that the caller has and the command was not given, because commands do not inherit credentials. In the answer to a start only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_passed_on: Vec<String>,
    /// Something to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Process {
    /// A process of which nothing else is known.
    pub fn new(id: ProcessId, command: impl Into<String>, status: Status, phase: impl Into<String>, started_at: Time) -> Self {
        Self {
            session_id: id,
            command: command.into(),
            name: None,
            labels: BTreeMap::new(),
            status,
            phase: phase.into(),
            pid: None,
            is_suspended: false,
            cwd: String::new(),
            started_at,
            uptime_seconds: 0,
            output_preview: None,
            output_cut: None,
            output_bytes: 0,
            fate: Fate::default(),
            task_id: None,
            session_key: None,
            session_scoped: false,
            detached: false,
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
    /// These.
    pub fn new(processes: Vec<Process>) -> Self {
        Self { processes }
    }
}
