//! What else is answered, one type for each kind of request.

use super::process::{Fate, LeftProcess, Process};
use super::reply::{Error, Event};
use outlast_core::{ProcessId, Status, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The end of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ReadEnd {
    /// The byte after the last one that was sent: where to go on.
    pub next_byte: u64,
    /// Whether the output is closed, so that nothing will follow.
    pub closed: bool,
}

impl ReadEnd {
    /// At this byte.
    pub fn new(next_byte: u64, closed: bool) -> Self {
        Self { next_byte, closed }
    }
}

/// The answer where there is nothing more to say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Done {
    /// `ok`, or a word for what was done.
    pub status: String,
    /// How many it was about, where that can be counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

impl Done {
    /// Done, and nothing to count.
    pub fn ok() -> Self {
        Self::word("ok")
    }

    /// Done, in another word for it.
    pub fn word(status: impl Into<String>) -> Self {
        Self { status: status.into(), count: None }
    }

    /// Done, with so many.
    pub fn many(count: u64) -> Self {
        Self { count: Some(count), ..Self::ok() }
    }
}

/// A page of output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LogPage {
    /// The process id.
    pub session_id: ProcessId,
    /// The command, secrets masked.
    pub command: String,
    /// Running or exited.
    pub status: Status,
    /// How the process ended, if it has.
    #[serde(flatten)]
    pub fate: Fate,
    /// The lines.
    pub output: String,
    /// How many lines there are.
    pub total_lines: u64,
    /// How many are shown, as the contract words it.
    pub showing: String,
    /// The number of the first line shown.
    pub first_line: u64,
    /// The first line that is still kept behind the head, where some are gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines_gone: Option<u64>,
    /// The byte at which the page begins.
    pub from_byte: u64,
    /// The byte after the page: where to go on.
    pub next_byte: u64,
    /// The line that holds that byte, if there is more: the `offset` of the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_line: Option<u64>,
    /// Whether the page reaches the end of the output there is.
    pub at_end: bool,
    /// Characters left out because the page was too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_cut: Option<u64>,
    /// Bytes that are missing inside the page.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Event>,
    /// Whether line numbers are exact; a damaged line index makes them a lower bound.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub approximate: bool,
}

impl LogPage {
    /// A page of a log that is empty so far.
    pub fn new(id: ProcessId, command: impl Into<String>, status: Status) -> Self {
        Self {
            session_id: id,
            command: command.into(),
            status,
            fate: Fate::default(),
            output: String::new(),
            total_lines: 0,
            showing: "0 lines".into(),
            first_line: 0,
            lines_gone: None,
            from_byte: 0,
            next_byte: 0,
            next_line: None,
            at_end: true,
            output_cut: None,
            gaps: Vec::new(),
            approximate: false,
        }
    }
}

/// The answer to a wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Waited {
    /// `exited`, `timeout` or `interrupted`.
    pub status: String,
    /// The process.
    pub session_id: ProcessId,
    /// The command, secrets masked.
    pub command: String,
    /// How it ended.
    #[serde(flatten)]
    pub fate: Fate,
    /// The end of its output.
    pub output: String,
    /// How many characters were left out before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_cut: Option<u64>,
    /// How many bytes of output are missing because the disk refused them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_missing: Option<u64>,
    /// Which processes that it started still run after its end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<LeftProcess>,
    /// What the time-out means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_note: Option<String>,
    /// Something to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Waited {
    /// What a wait came to, with nothing else to say.
    pub fn new(status: impl Into<String>, id: ProcessId, command: impl Into<String>, fate: Fate) -> Self {
        Self {
            status: status.into(),
            session_id: id,
            command: command.into(),
            fate,
            output: String::new(),
            output_cut: None,
            output_missing: None,
            left: Vec::new(),
            timeout_note: None,
            note: None,
        }
    }
}

/// The answer to a kill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Killed {
    /// `killed` or `signalled`.
    pub status: String,
    /// The process.
    pub session_id: ProcessId,
    /// How it ended.
    #[serde(flatten)]
    pub fate: Fate,
    /// The end of its output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Characters before it that are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_cut: Option<u64>,
    /// How many processes of its tree were seen to die.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_dead: Option<u32>,
    /// What is not as it should be, though it was stopped: the disk refused the record of the stop, or descendants of other users may
    /// remain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

impl Killed {
    /// What a stop came to, with nothing else to say.
    pub fn new(status: impl Into<String>, id: ProcessId, fate: Fate) -> Self {
        Self { status: status.into(), session_id: id, fate, output: None, output_cut: None, seen_dead: None, warning: None }
    }
}

/// The answer to a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Restarted {
    /// The process that was stopped. Its status is `already_exited` if it had finished before.
    pub old: Killed,
    /// What a finished process had left running, and was stopped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_killed: Vec<LeftProcess>,
    /// The process that was started in its place.
    pub new: Process,
}

impl Restarted {
    /// One was stopped, and another started.
    pub fn new(old: Killed, new: Process) -> Self {
        Self { old, left_killed: Vec::new(), new }
    }
}

/// The answer to a stop of many.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct KillAll {
    /// How many are over now.
    pub killed: u32,
    /// What was stopped of processes that were over before: what they had left running.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_killed: Vec<LeftProcess>,
    /// Those that are not, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<Error>,
    /// What is not as it should be with those that were stopped: what [`Killed::warning`] says, each with its process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl KillAll {
    /// So many are over, and these are not.
    pub fn new(killed: u32, failed: Vec<Error>) -> Self {
        Self { killed, left_killed: Vec::new(), failed, warnings: Vec::new() }
    }
}

/// The answer to a write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Written {
    /// `ok`.
    pub status: String,
    /// How many bytes of this request are in the input now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_written: Option<u64>,
    /// Where the input ends now: the offset of the next write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
    /// In words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Written {
    /// So many bytes, and where the next ones go.
    pub fn bytes(taken: u64, next: u64) -> Self {
        Self { status: "ok".into(), bytes_written: Some(taken), next_offset: Some(next), message: None }
    }

    /// Nothing was written, and something was done all the same.
    pub fn said(message: impl Into<String>) -> Self {
        Self { status: "ok".into(), bytes_written: None, next_offset: None, message: Some(message.into()) }
    }
}

/// The answer about activity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Active {
    /// Whether.
    pub active: bool,
    /// How many run in the home.
    pub running: u64,
    /// How many notices the session of the caller would be given now, at most 1,000. Answered if nothing else was asked about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<u64>,
}

impl Active {
    /// Whether, and how many run.
    pub fn new(active: bool, running: u64) -> Self {
        Self { active, running, waiting: None }
    }
}

/// The answer to an adoption.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Adopted {
    /// Those that were taken in, or were here already.
    pub adopted: Vec<Process>,
    /// Those that were not, and why.
    pub skipped: Vec<String>,
}

/// The answer to the closing of a view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ViewClosed {
    /// `ok`.
    pub status: String,
    /// Which, as far as it is known.
    pub closed: String,
    /// How many looked on.
    pub views: u64,
    /// What that means.
    pub note: String,
}

impl ViewClosed {
    /// So many left a view of it.
    pub fn new(closed: impl Into<String>, views: u64, note: impl Into<String>) -> Self {
        Self { status: "ok".into(), closed: closed.into(), views, note: note.into() }
    }
}

/// The process that an id, the beginning of one, or a name means.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Found {
    /// Its id.
    pub session_id: ProcessId,
    /// Its name, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Running or exited.
    pub status: Status,
    /// How many processes have the name, if the process was found by its name.
    #[serde(default)]
    pub namesakes: u64,
}

impl Found {
    /// A process that was found by its id.
    pub fn new(id: ProcessId, name: Option<String>, status: Status) -> Self {
        Self { session_id: id, name, status, namesakes: 0 }
    }
}

/// The answer to a removal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Removed {
    /// `removed`.
    pub status: String,
    /// Which.
    pub session_id: ProcessId,
}

impl Removed {
    /// This one.
    pub fn new(id: ProcessId) -> Self {
        Self { status: "removed".into(), session_id: id }
    }
}

/// The answer to a clean-up.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Cleaned {
    /// How many are gone.
    pub removed: u64,
    /// How many bytes that freed.
    pub freed_bytes: u64,
    /// How many were kept, because something that they started is still running.
    #[serde(default, skip_serializing_if = "super::notice::is_zero")]
    pub kept: u64,
}

/// How the engine is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EngineStatus {
    /// Its pid.
    pub pid: u32,
    /// The program's version.
    pub version: String,
    /// The home.
    pub home: String,
    /// Since when.
    pub started_at: Time,
    /// How many run.
    pub running: u64,
    /// How many are known.
    pub known: u64,
    /// What it found at its start.
    pub recovered: u64,
    /// Degraded promises: each a sentence on what and why.
    pub degraded: Vec<String>,
    /// The keeper program in use.
    pub keeper: String,
    /// How the login environment was taken.
    pub shell: String,
    /// The settings that it was started with, by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, Setting>,
}

/// A setting of an engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Setting {
    /// Its value.
    pub value: serde_json::Value,
    /// Where the value came from.
    pub from: String,
}

impl Setting {
    /// A value, and where it came from.
    pub fn new(value: serde_json::Value, from: impl Into<String>) -> Self {
        Self { value, from: from.into() }
    }
}

impl EngineStatus {
    /// An engine that has found nothing yet.
    pub fn new(pid: u32, version: impl Into<String>, home: impl Into<String>, started_at: Time) -> Self {
        Self {
            pid,
            version: version.into(),
            home: home.into(),
            started_at,
            running: 0,
            known: 0,
            recovered: 0,
            degraded: Vec::new(),
            keeper: String::new(),
            shell: String::new(),
            settings: BTreeMap::new(),
        }
    }
}
