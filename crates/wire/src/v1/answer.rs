//! Answers of the engine, one type for each kind of request.

use super::event::Event;
use super::process::{Fate, LeftProcess, Process};
use super::reply::Error;
use outlast_core::{ProcessId, Status, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The end of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ReadEnd {
    /// The byte after the last one that was sent: where to continue.
    pub next_byte: u64,
    /// Whether the output is closed. If it is, nothing will follow.
    pub closed: bool,
}

impl ReadEnd {
    /// A read that ended before this byte.
    pub fn new(next_byte: u64, closed: bool) -> Self {
        Self { next_byte, closed }
    }
}

/// The answer to a request that has nothing else to report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Done {
    /// `ok`, or a word for what was done.
    pub status: String,
    /// How many items it concerned, if they can be counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

impl Done {
    /// Done, without a count.
    pub fn ok() -> Self {
        Self::word("ok")
    }

    /// Done, with another status word.
    pub fn word(status: impl Into<String>) -> Self {
        Self { status: status.into(), count: None }
    }

    /// Done, with a count.
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
    /// Whether it is running or has exited.
    pub status: Status,
    /// How the process ended, if it has.
    #[serde(flatten)]
    pub fate: Fate,
    /// The lines.
    pub output: String,
    /// How many lines the log has.
    pub total_lines: u64,
    /// Which lines are shown, in the contract's wording.
    pub showing: String,
    /// How many lines are shown. Absent in answers of earlier engines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<u64>,
    /// Whether the last line shown has no end yet. The newline after it is not part of the output; a reader that joins pages needs this.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// The number of the first line shown.
    pub first_line: u64,
    /// If lines after the head were deleted: the first later line that is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines_gone: Option<u64>,
    /// The byte at which the page begins.
    pub from_byte: u64,
    /// The byte after the page: where to continue.
    pub next_byte: u64,
    /// The line that holds that byte: the `offset` of the next page. After a line without an end it is that line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_line: Option<u64>,
    /// Whether the page reaches the current end of the output.
    pub at_end: bool,
    /// How many characters were left out because the page was too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_cut: Option<u64>,
    /// Which bytes are missing within the page.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Event>,
    /// Whether line numbers are exact; a damaged line index makes them a lower bound.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub approximate: bool,
}

impl LogPage {
    /// A page of a log without output.
    pub fn new(id: ProcessId, command: impl Into<String>, status: Status) -> Self {
        Self {
            session_id: id,
            command: command.into(),
            status,
            fate: Fate::default(),
            output: String::new(),
            total_lines: 0,
            showing: "0 lines".into(),
            lines: None,
            partial: false,
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
    /// The process id.
    pub session_id: ProcessId,
    /// The command, secrets masked.
    pub command: String,
    /// How it ended.
    #[serde(flatten)]
    pub fate: Fate,
    /// The last part of its output.
    pub output: String,
    /// How many characters were left out before that part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_cut: Option<u64>,
    /// How many bytes of output are missing because the disk refused them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_missing: Option<u64>,
    /// The descendants that kept running after its end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<LeftProcess>,
    /// What the timeout means for the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_note: Option<String>,
    /// A remark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Waited {
    /// An answer without remarks.
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
    /// The process id.
    pub session_id: ProcessId,
    /// How it ended.
    #[serde(flatten)]
    pub fate: Fate,
    /// The last part of its output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// How many characters were left out before that part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_cut: Option<u64>,
    /// How many processes of its tree were observed to die.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_dead: Option<u32>,
    /// What is wrong although the process was stopped: the record of the stop could not be written, or descendants of other users
    /// may remain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

impl Killed {
    /// An answer without remarks.
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
    /// The descendants of a finished process that were stopped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_killed: Vec<LeftProcess>,
    /// The process that was started instead.
    pub new: Process,
}

impl Restarted {
    /// The stopped process and the one that was started instead.
    pub fn new(old: Killed, new: Process) -> Self {
        Self { old, left_killed: Vec::new(), new }
    }
}

/// The answer to a stop of several processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct KillAll {
    /// How many have ended now.
    pub killed: u32,
    /// Their ids. Engines of earlier versions leave them out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<ProcessId>,
    /// The descendants of already ended processes that were stopped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_killed: Vec<LeftProcess>,
    /// The processes that could not be stopped, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<Error>,
    /// What is wrong with stopped processes: what [`Killed::warning`] says, each with its process.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl KillAll {
    /// This many were stopped, and these could not be.
    pub fn new(killed: u32, failed: Vec<Error>) -> Self {
        Self { killed, processes: Vec::new(), left_killed: Vec::new(), failed, warnings: Vec::new() }
    }
}

/// The answer to a write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Written {
    /// `ok`.
    pub status: String,
    /// How many bytes of this request were written to the input. In the answer of an engine, those that it had before count, too; the client
    /// subtracts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_written: Option<u64>,
    /// How many bytes of this request the input had before, from an earlier write or from a try of this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub already: Option<u64>,
    /// The length of the input so far: the offset of the next write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
    /// What was done instead of a write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What became of the bytes that is not what was meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

impl Written {
    /// This many bytes were written, and the next ones begin at `next`.
    pub fn bytes(taken: u64, next: u64) -> Self {
        Self { status: "ok".into(), bytes_written: Some(taken), already: None, next_offset: Some(next), message: None, warning: None }
    }

    /// No bytes were written; `message` says what was done instead.
    pub fn said(message: impl Into<String>) -> Self {
        Self { status: "ok".into(), bytes_written: None, already: None, next_offset: None, message: Some(message.into()), warning: None }
    }
}

/// The answer about activity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Active {
    /// Whether anything is active.
    pub active: bool,
    /// How many processes run in the home.
    pub running: u64,
    /// How many notices the caller's session would be given now, at most 1,000. Only in the answer to [`super::Activity::Any`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<u64>,
    /// How many hooks could not wake an agent when they were last called. Only in the answer to [`super::Activity::Any`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing: Option<u64>,
}

impl Active {
    /// Whether anything is active, and how many processes run.
    pub fn new(active: bool, running: u64) -> Self {
        Self { active, running, waiting: None, failing: None }
    }
}

/// The answer to an adoption.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Adopted {
    /// The processes that were adopted now or earlier.
    pub adopted: Vec<Process>,
    /// The processes that were not adopted, and why.
    pub skipped: Vec<String>,
}

/// The answer to a request to close a view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ViewClosed {
    /// `ok`.
    pub status: String,
    /// What was closed, as far as it is known.
    pub closed: String,
    /// How many terminals were attached.
    pub views: u64,
    /// What that means for the user.
    pub note: String,
}

impl ViewClosed {
    /// This many terminals were detached.
    pub fn new(closed: impl Into<String>, views: u64, note: impl Into<String>) -> Self {
        Self { status: "ok".into(), closed: closed.into(), views, note: note.into() }
    }
}

/// The process that an id, the beginning of an id, or a name refers to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Found {
    /// Its id.
    pub session_id: ProcessId,
    /// Its name, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether it is running or has exited.
    pub status: Status,
    /// How many processes have the name, if the process was found by its name.
    #[serde(default)]
    pub namesakes: u64,
    /// How many of those are running.
    #[serde(default)]
    pub running: u64,
    /// How many of those are newer and have exited.
    #[serde(default)]
    pub newer: u64,
}

impl Found {
    /// A process that was found by its id.
    pub fn new(id: ProcessId, name: Option<String>, status: Status) -> Self {
        Self { session_id: id, name, status, namesakes: 0, running: 0, newer: 0 }
    }
}

/// The answer to a removal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Removed {
    /// `removed`.
    pub status: String,
    /// The process id.
    pub session_id: ProcessId,
}

impl Removed {
    /// The removal of this process.
    pub fn new(id: ProcessId) -> Self {
        Self { status: "removed".into(), session_id: id }
    }
}

/// The answer to a clean-up.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Cleaned {
    /// How many processes were removed.
    pub removed: u64,
    /// Their ids. Engines of earlier versions leave them out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processes: Vec<ProcessId>,
    /// How many bytes that freed.
    pub freed_bytes: u64,
    /// How many were kept because one of their descendants still runs.
    #[serde(default, skip_serializing_if = "super::notice::is_zero")]
    pub kept: u64,
}

/// The state of the engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EngineStatus {
    /// The engine's pid.
    pub pid: u32,
    /// The program's version.
    pub version: String,
    /// The path of the home.
    pub home: String,
    /// When the engine started.
    pub started_at: Time,
    /// How many processes run.
    pub running: u64,
    /// How many processes the engine knows.
    pub known: u64,
    /// How many processes it found at its start.
    pub recovered: u64,
    /// Promises that it cannot keep: for each, a sentence on what and why.
    pub degraded: Vec<String>,
    /// The path of the keeper program.
    pub keeper: String,
    /// How the login environment was read.
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
    /// A value and its source.
    pub fn new(value: serde_json::Value, from: impl Into<String>) -> Self {
        Self { value, from: from.into() }
    }
}

impl EngineStatus {
    /// The status of an engine that found no processes.
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
