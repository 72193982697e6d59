//! What the engine answers. The field names are the contract's.

use outlast_core::{OsText, ProcessId, Reason, Status, Time};
use serde::{Deserialize, Serialize};

/// One message from the engine: the number of the request it belongs to, and the answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Reply<T> {
    /// The request's number.
    pub of: u64,
    /// The answer, the last there is for this request.
    #[serde(skip_serializing_if = "Option::is_none", default = "Option::default")]
    pub answer: Option<T>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
    /// Something on the way to the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<Event>,
}

impl<T> Reply<T> {
    /// The answer.
    pub fn answer(of: u64, answer: T) -> Self {
        Self { of, answer: Some(answer), error: None, event: None }
    }
    /// Why there is none.
    pub fn error(of: u64, error: Error) -> Self {
        Self { of, answer: None, error: Some(error), event: None }
    }
    /// Something on the way.
    pub fn event(of: u64, event: Event) -> Self {
        Self { of, answer: None, error: None, event: Some(event) }
    }
}

/// The engine's half of the hello.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The version that will be spoken: the lower of the two newest.
    pub version: u32,
    /// The program's own version.
    pub program: String,
    /// The engine's pid.
    pub pid: u32,
    /// The home it serves: what a home remembers may be another's, if it is a copy of it. Older engines do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<OsText>,
}

/// Whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The caller asks differently.
    Refusal,
    /// The caller asks again.
    Unavailable,
    /// Ours, or the machine's.
    Fault,
}

/// Why something could not be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{error}")]
#[non_exhaustive]
pub struct Error {
    /// What was wrong, with which value.
    pub error: String,
    /// A stable name, from [`crate::code`].
    pub code: String,
    /// What to do.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hint: String,
    /// Whose turn it is.
    pub kind: ErrorKind,
    /// The contract's `status` for this error: `not_found`, `already_exited` or `error`.
    pub status: String,
    /// The exit code, where the process is over.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "present")]
    pub exit_code: Option<Option<i32>>,
}

impl Error {
    /// An error of a kind, under a stable name, with what was wrong and what to do.
    pub fn new(kind: ErrorKind, code: impl Into<String>, error: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { error: error.into(), code: code.into(), hint: hint.into(), kind, status: "error".into(), exit_code: None }
    }

    /// The same, under another of the contract's `status` words.
    #[must_use]
    pub fn with_status(self, status: impl Into<String>) -> Self {
        Self { status: status.into(), ..self }
    }

    /// The same, under another name.
    #[must_use]
    pub fn with_code(self, code: impl Into<String>) -> Self {
        Self { code: code.into(), ..self }
    }

    /// The same, about a process that is over.
    #[must_use]
    pub fn with_exit_code(self, exit_code: Option<i32>) -> Self {
        Self { exit_code: Some(exit_code), ..self }
    }
}

/// Something on the way to an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// The raw frames that follow begin at this byte.
    At {
        /// Which.
        byte: u64,
    },
    /// Bytes are missing.
    Gap {
        /// First missing byte.
        from: u64,
        /// First byte that is there again.
        to: u64,
        /// Why.
        why: String,
    },
    /// Waiting goes on.
    Waiting,
    /// Whoever looks on is to leave; the process goes on.
    ViewClosed,
    /// A notice was made.
    Notice {
        /// Which.
        told: Box<super::notice::Told>,
    },
}

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

fn is_false(b: &bool) -> bool {
    !*b
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
    /// Running or exited.
    pub status: Status,
    /// Where exactly it stands.
    pub phase: String,
    /// The command's own pid.
    pub pid: Option<u32>,
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
    #[serde(default, skip_serializing_if = "is_false")]
    pub session_scoped: bool,
    /// It was started by somebody else and adopted.
    #[serde(default, skip_serializing_if = "is_false")]
    pub detached: bool,
    /// It has a terminal.
    #[serde(default, skip_serializing_if = "is_false")]
    pub pty: bool,
    /// Its input is open.
    #[serde(default, skip_serializing_if = "is_false")]
    pub takes_input: bool,
    /// How many bytes of input were taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_bytes: Option<u64>,
    /// `full`, or `output-only` after a keeper was lost on an old kernel; absent once over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protection: Option<String>,
    /// How many descendants were left running when its output closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_running: Option<u32>,
    /// Its end is told to its owner.
    #[serde(default, skip_serializing_if = "is_false")]
    pub notify_on_complete: bool,
    /// What its lines are watched for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watch_patterns: Vec<String>,
    /// Whether a match was told, where it is watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watch_hit: Option<bool>,
    /// Whether it is watched no more, because too much matched.
    #[serde(default, skip_serializing_if = "is_false")]
    pub watch_disabled: bool,
    /// Bytes of output that are missing, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Event>,
    /// What could not be had, and what it means.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
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
            status,
            phase: phase.into(),
            pid: None,
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
            notify_on_complete: false,
            watch_patterns: Vec::new(),
            watch_hit: None,
            watch_disabled: false,
            gaps: Vec::new(),
            warnings: Vec::new(),
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
    /// Whether the page reaches the end of the output there is.
    pub at_end: bool,
    /// Characters left out because the page was too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_cut: Option<u64>,
    /// Bytes that are missing inside the page.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Event>,
    /// Whether line numbers are exact; a damaged line index makes them a lower bound.
    #[serde(default, skip_serializing_if = "is_false")]
    pub approximate: bool,
}

impl LogPage {
    /// A page of a log that is empty so far.
    pub fn new(id: ProcessId, command: impl Into<String>, status: Status) -> Self {
        Self {
            session_id: id,
            command: command.into(),
            status,
            output: String::new(),
            total_lines: 0,
            showing: "0 lines".into(),
            first_line: 0,
            lines_gone: None,
            from_byte: 0,
            next_byte: 0,
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
    /// How many processes of its tree were seen to die.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_dead: Option<u32>,
}

impl Killed {
    /// What a stop came to, with nothing else to say.
    pub fn new(status: impl Into<String>, id: ProcessId, fate: Fate) -> Self {
        Self { status: status.into(), session_id: id, fate, output: None, seen_dead: None }
    }
}

/// The answer to a stop of many.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct KillAll {
    /// How many are over now.
    pub killed: u32,
    /// Those that are not, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<Error>,
}

impl KillAll {
    /// So many are over, and these are not.
    pub fn new(killed: u32, failed: Vec<Error>) -> Self {
        Self { killed, failed }
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
}

impl Active {
    /// Whether, and how many run.
    pub fn new(active: bool, running: u64) -> Self {
        Self { active, running }
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
        }
    }
}
