//! Requests of clients to the engine.

use super::namespaces::Namespaces;
use super::notice::{BarrierTarget, History, Lent, Push, Replay, Verdict};
use super::spec::{RerunChange, Spec};
use outlast_core::notice_state::TakerKind;
use outlast_core::{EnvVar, Instance, OsText, Owner, ProcessId, ProcessLimits, Route, Scope, Time};
use serde::{Deserialize, Serialize};

/// One message from a client: a number for the answers to carry, the owner it speaks for, and the request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Message {
    /// The client's own number for the message, never used twice on a connection.
    pub id: u64,
    /// The owner for whom the client asks.
    #[serde(default)]
    pub owner: Owner,
    /// Whether the client forwards the answer to another program. The effects of the answer then wait for [`Request::Relayed`]: an
    /// end that it shows counts as seen, and a process that it reports as removed is removed. Notices in it are offered again, as
    /// possible repeats, if no confirmation comes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub relay: bool,
    /// Which of the conversations of the owner's session asks. Absent if the session is one conversation, or a person asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<Box<Instance>>,
    /// Whether the request may change a process of another conversation of the session that is still open.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
    /// The request.
    #[serde(flatten)]
    pub request: Request,
}

/// A request. Its fields lie beside the message's own, so none may be called `id`, `owner`, `relay`, `instance`,
/// `force` or `op`. Each request is answered by one [`super::Reply`] with an error or an answer of this type:
///
/// | request | answer |
/// |---|---|
/// | hello | [`super::Hello`] |
/// | run, run_on, rerun, rerun_changed, poll, attach | [`super::Process`] |
/// | restart | [`super::Restarted`] |
/// | list | [`super::List`] |
/// | find | [`super::Found`] |
/// | log | [`super::LogPage`] |
/// | read | [`super::ReadEnd`], after its events and raw frames |
/// | wait | [`super::Waited`] |
/// | kill, signal | [`super::Killed`] |
/// | kill_all, kill_these | [`super::KillAll`] |
/// | write, close | [`super::Written`] |
/// | interrupt, resize, engine_stop, engine_hand_over | [`super::Done`] |
/// | view_close | [`super::ViewClosed`] |
/// | remove | [`super::Removed`] |
/// | clean, clean_these | [`super::Cleaned`] |
/// | active | [`super::Active`] |
/// | adopt | [`super::Adopted`] |
/// | notice_next, notice_history | [`super::notice::Notices`] |
/// | notice_settle | [`super::notice::Judged`] |
/// | notice_follow | none; its events |
/// | notice_post | [`super::notice::Posted`] |
/// | notice_replay, pushed, relayed | [`super::Done`] |
/// | notice_dead | [`super::notice::Dead`] |
/// | consumed | [`super::notice::Consumed`] |
/// | deliveries, wake | [`super::notice::Deliveries`] |
/// | until | [`super::notice::Barrier`] |
/// | barriers | [`super::notice::Barriers`] |
/// | serve | none; its events |
/// | disown, end_conversation | [`super::Done`] |
/// | engine_status | [`super::EngineStatus`] |
/// | cancel | none |
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Request {
    /// First on each connection.
    Hello {
        /// The newest version that the client speaks.
        version: u32,
        /// The client's name, for the engine's log.
        client: String,
        /// The client's namespaces, if it sends them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        namespaces: Option<Box<Namespaces>>,
    },
    /// Start a command. Answered once the command runs.
    Run {
        /// What to run.
        spec: Box<Spec>,
        /// The id to use. If the request is repeated, it starts nothing twice.
        #[serde(default)]
        want: Option<ProcessId>,
        /// The caller's environment and limits.
        caller: Caller,
    },
    /// Start a command in an environment. Engines that know no environments refuse this; [`Request::Run`] would start it on their machine.
    RunOn {
        /// What to run, and in which environment.
        spec: Box<Spec>,
        /// The id to use. If the request is repeated, it starts nothing twice.
        #[serde(default)]
        want: Option<ProcessId>,
        /// The caller's environment and limits.
        caller: Caller,
    },
    /// Run the command of another process again.
    Rerun {
        /// The id of that process.
        process: String,
        /// The caller's environment and limits.
        caller: Caller,
        /// Variables to set over those of that process.
        #[serde(default)]
        env: Vec<EnvVar>,
        /// The id to use. If the request is repeated, it starts nothing twice.
        #[serde(default)]
        want: Option<ProcessId>,
    },
    /// Run the command of another process again, with changes. This is a request of its own: an engine that does not know it must
    /// not start the command without the changes.
    RerunChanged {
        /// The id of that process.
        process: String,
        /// The caller's environment and limits.
        caller: Caller,
        /// Variables to set over those of that process.
        #[serde(default)]
        env: Vec<EnvVar>,
        /// What to change.
        change: RerunChange,
        /// The id to use. If the request is repeated, it starts nothing twice.
        #[serde(default)]
        want: Option<ProcessId>,
    },
    /// Stop a process and its tree, and run its command again. A finished process is only run again.
    Restart {
        /// The id of the process.
        process: String,
        /// The caller's environment and limits.
        caller: Caller,
        /// Variables to set over those of the process.
        #[serde(default)]
        env: Vec<EnvVar>,
        /// The id to use for the new process. If the request is repeated, it starts nothing twice.
        #[serde(default)]
        want: Option<ProcessId>,
        /// How long to wait between TERM and KILL; absent means as configured in the engine.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grace_ms: Option<u64>,
    },
    /// List processes.
    List {
        /// Which processes.
        #[serde(default)]
        scope: Scope,
        /// Whether to list finished ones, too.
        #[serde(default)]
        all: bool,
    },
    /// Find the process that an id, the beginning of an id, or a name refers to. Unlike a poll it shows no end, so no notice counts
    /// as seen.
    Find {
        /// The id, prefix or name.
        process: String,
    },
    /// Describe a process.
    Poll {
        /// The process id.
        process: String,
    },
    /// Show a page of output.
    Log {
        /// The process id.
        process: String,
        /// Which page.
        #[serde(default)]
        page: Page,
    },
    /// Send raw output from an offset, in raw frames between [`super::Event::Gap`]s, up to the current end or further.
    Read {
        /// The process id.
        process: String,
        /// Where to begin.
        from: From,
        /// Continue until the output is closed.
        #[serde(default)]
        follow: bool,
        /// Continue after that until the command has ended.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        to_exit: bool,
        /// The client is a view: it detaches on [`super::Event::ViewClosed`].
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        view: bool,
        /// Replace each byte of a secret variable's value with a `*`.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        masked: bool,
        /// Send [`super::Event::Came`] to report when the bytes arrived.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        timed: bool,
    },
    /// Wait for the end of a process.
    Wait {
        /// The process id.
        process: String,
        /// The longest wait in milliseconds.
        #[serde(default)]
        timeout_ms: Option<u64>,
    },
    /// Cancel a session's waiting calls; its processes keep running.
    Interrupt {
        /// The key of the session.
        session: String,
    },
    /// Stop a process.
    Kill {
        /// The process id.
        process: String,
        /// How to stop it.
        #[serde(flatten)]
        kill: Kill,
    },
    /// Stop the processes in a scope.
    KillAll {
        /// The scope.
        #[serde(default)]
        scope: Scope,
        /// How to stop them.
        #[serde(flatten)]
        kill: Kill,
    },
    /// Stop these processes as [`Request::KillAll`] does. Those that have ended or are not the caller's are skipped.
    KillThese {
        /// The process ids.
        processes: Vec<ProcessId>,
        /// How to stop them.
        #[serde(flatten)]
        kill: Kill,
    },
    /// Send a signal to the command itself.
    Signal {
        /// The process id.
        process: String,
        /// The number of the signal.
        number: i32,
    },
    /// Write the raw frames that follow to the input of a process.
    Write {
        /// The process id.
        process: String,
        /// Where in the input they begin, if the caller counts bytes. Bytes that are in the input already are not written again.
        #[serde(default)]
        at: Option<u64>,
        /// How many bytes follow.
        len: u64,
    },
    /// Close the input of a process.
    Close {
        /// The process id.
        process: String,
    },
    /// Change the size of a process's terminal.
    Resize {
        /// The process id.
        process: String,
        /// Rows.
        rows: u16,
        /// Columns.
        cols: u16,
    },
    /// A real terminal is attached until the connection ends, and answers the program's queries.
    Attach {
        /// The process id.
        process: String,
        /// Whether the client sends no input.
        read_only: bool,
    },
    /// Detach the views of a process. The process keeps running.
    ViewClose {
        /// The process id.
        process: String,
    },
    /// Remove a process and its files.
    Remove {
        /// The process id.
        process: String,
        /// Keep it, and mark it for lists as one whose end and output its caller was given.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        set_aside: bool,
    },
    /// Remove the finished processes in a scope.
    Clean {
        /// The scope.
        #[serde(default)]
        scope: Scope,
    },
    /// Remove these processes if they are finished. Those that are not the caller's are skipped.
    CleanThese {
        /// The process ids.
        processes: Vec<ProcessId>,
    },
    /// Ask whether anything is active.
    Active(Activity),
    /// Adopt living processes that Outlast did not start.
    Adopt(AdoptFrom),
    /// Claim the next notices of the owner's session. Each is leased to the caller.
    NoticeNext {
        /// The kind of caller.
        #[serde(default)]
        taker: TakerKind,
        /// The most notices to claim.
        limit: u32,
        /// How long to lease them, in milliseconds.
        lease_ms: u64,
        /// How long to wait for a notice, in milliseconds. 0 does not wait; absent waits without a limit.
        #[serde(default)]
        wait_ms: Option<u64>,
        /// Whether the owner itself asks. It then also gets the notices of conversations of its session that have ended.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        asked: bool,
    },
    /// Settle notices that were leased.
    NoticeSettle {
        /// Their ids.
        ids: Vec<String>,
        /// Their lease token.
        #[serde(default)]
        lease: Option<String>,
        /// What became of them.
        #[serde(flatten)]
        verdict: Verdict,
    },
    /// Send every notice as it is made, in [`super::Event::Notice`]s, without end: those of the owner's session, or all of them if
    /// the owner is a person.
    NoticeFollow {
        /// Begin after the notice with this `seq`; absent means with the next one.
        #[serde(default)]
        after: Option<u64>,
    },
    /// Post a notice to the owner's session.
    NoticePost {
        /// The poster's name for it. A second post with the same name is the same notice.
        #[serde(default)]
        name: Option<String>,
        /// Its fields, with a `type`. Secrets in them are masked before anything is stored.
        event: serde_json::Map<String, serde_json::Value>,
        /// Where in a chat the owner is.
        #[serde(default)]
        route: Route,
    },
    /// Read notices.
    NoticeHistory(History),
    /// Deliver notices again.
    NoticeReplay(Replay),
    /// List dead letters of sinks.
    NoticeDead {
        /// The most to return.
        #[serde(default)]
        limit: Option<u32>,
    },
    /// Ask whether the owner of a process has seen its end.
    Consumed {
        /// The process id.
        process: String,
        /// Mark its end as seen.
        #[serde(default)]
        mark: bool,
    },
    /// Confirm that the answers to these requests of this connection reached the program for which they were requested with
    /// `relay`. An answer without a confirmation did not reach it if its request is cancelled or the connection ends.
    Relayed {
        /// The numbers of the requests.
        of: Vec<u64>,
    },
    /// Wait for notices that a sink has to deliver, and lease them.
    Deliveries {
        /// The sink's name.
        sink: String,
        /// The most to lease.
        limit: u32,
        /// How long to lease them, in milliseconds.
        lease_ms: u64,
    },
    /// A waking sink is about to deliver these notices. The answer has those that it may deliver; its leases on the others have
    /// ended.
    Wake {
        /// The sink's name.
        sink: String,
        /// The deliveries.
        lent: Vec<Lent>,
    },
    /// Report how a delivery went.
    Pushed {
        /// The sink's name.
        sink: String,
        /// The `seq` of the notice.
        seq: u64,
        /// Its lease token.
        lease: String,
        /// How it went.
        #[serde(flatten)]
        how: Push,
    },
    /// Set a barrier, and wait until it opens. If the client leaves, the barrier stays, and its opening becomes a notice.
    Until {
        /// What the barrier waits for.
        #[serde(flatten)]
        until: BarrierTarget,
        /// The id to use: `bar_` and twelve hexadecimal digits. If the request is repeated, it sets one barrier only.
        #[serde(default)]
        barrier: Option<String>,
        /// Set the barrier without waiting.
        #[serde(default)]
        no_wait: bool,
    },
    /// List the barriers of the owner's session.
    Barriers {
        /// Clear them.
        #[serde(default)]
        clear: bool,
    },
    /// A gateway serves this home while this request is open. [`super::Event::Sessions`] names the sessions of gateways that have
    /// notices to claim: first all of them, then those with new ones.
    Serve,
    /// The gateway ends and has no session with these keys. No gateway is started for their notices; other takers may claim them.
    /// That holds until a gateway serves again.
    Disown {
        /// The keys of the sessions.
        sessions: Vec<String>,
    },
    /// The conversation that sends this has ended. Its processes and notices pass to the first one of the session that begins
    /// afterwards. For a session over HTTP, whose end no process shows.
    EndConversation,
    /// Describe the engine.
    EngineStatus,
    /// End the engine. Processes keep running unless they were started with `on_stop: kill`.
    EngineStop,
    /// End the engine and leave every process running, because the client starts the next engine at once.
    EngineHandOver,
    /// Cancel request `of` of this connection.
    Cancel {
        /// The number of that request.
        of: u64,
    },
}

/// What a command inherits from the client that starts it.
#[derive(Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Caller {
    /// The whole environment.
    pub env: Vec<EnvVar>,
    /// The working directory.
    pub cwd: OsText,
    /// The file mode mask; absent means the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub umask: Option<u32>,
    /// The resource limits; absent means those that the engine was started with. They are not part of the request's hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Box<ProcessLimits>>,
}

impl Caller {
    /// A caller with this directory and environment, the usual mask, and the engine's own limits.
    pub fn new(env: Vec<EnvVar>, cwd: impl Into<OsText>) -> Self {
        Self { env, cwd: cwd.into(), umask: None, limits: None }
    }
}

impl std::fmt::Debug for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Caller {{ cwd: {:?}, env: {} variables }}", self.cwd, self.env.len())
    }
}

/// How long a read continues. A message has it as two flags, so an unknown value cannot arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadUntil {
    /// To the current end of the output.
    Now,
    /// Until the output is closed.
    Closed,
    /// Until the output is closed and the command has ended, which may be a moment or a long time later.
    Exit,
}

impl ReadUntil {
    /// From `follow` and `to_exit` of a [`Request::Read`].
    pub fn of_flags(follow: bool, to_exit: bool) -> Self {
        match (follow, to_exit) {
            (false, _) => Self::Now,
            (true, false) => Self::Closed,
            (true, true) => Self::Exit,
        }
    }

    /// `follow` and `to_exit` of a [`Request::Read`].
    pub fn flags(self) -> (bool, bool) {
        (self != Self::Now, self == Self::Exit)
    }
}

/// Where to begin reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum From {
    /// At this byte.
    Byte(u64),
    /// This many bytes before the end.
    Last(u64),
    /// At the current end.
    Now,
    /// At the output of this time or later; it may begin up to a second too early.
    Since(Time),
}

/// Which part of a log to show, in lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Page {
    /// The first line; absent means the last lines.
    pub offset: Option<u64>,
    /// How many lines; absent means the contract's default.
    pub limit: Option<u64>,
    /// From this byte instead of a line.
    pub from_byte: Option<u64>,
}

impl Page {
    /// A page that begins with this line.
    pub fn from_line(line: u64) -> Self {
        Self { offset: Some(line), ..Self::default() }
    }

    /// A page that begins with this byte.
    pub fn from_byte(byte: u64) -> Self {
        Self { from_byte: Some(byte), ..Self::default() }
    }

    /// The last lines, this many.
    pub fn last(lines: u64) -> Self {
        Self::default().limit(lines)
    }

    /// The same, at most this many lines.
    #[must_use]
    pub fn limit(self, lines: u64) -> Self {
        Self { limit: Some(lines), ..self }
    }
}

/// How to stop a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Kill {
    /// Milliseconds between TERM and KILL; absent means as configured; 0 kills at once.
    pub grace_ms: Option<u64>,
    /// Send TERM only, never KILL.
    pub no_escalate: bool,
}

impl Kill {
    /// KILL at once.
    pub fn at_once() -> Self {
        Self::within(std::time::Duration::ZERO)
    }

    /// TERM, and KILL after this time.
    pub fn within(grace: std::time::Duration) -> Self {
        Self { grace_ms: Some(u64::try_from(grace.as_millis()).unwrap_or(u64::MAX)), ..Self::default() }
    }

    /// TERM only.
    pub fn politely() -> Self {
        Self { no_escalate: true, ..Self::default() }
    }
}

/// A question about activity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "about", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Activity {
    /// Of one task.
    Task {
        /// The task.
        task: String,
    },
    /// Of one session.
    Session {
        /// The key of the session.
        session: String,
        /// Processes older than this do not count; absent means that all count.
        max_age_ms: Option<u64>,
    },
    /// Anything at all.
    Any,
    /// Whether a goal that waits for this process has to keep waiting.
    Waiting {
        /// The process id.
        process: String,
    },
}

/// Where the processes to adopt come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "snake_case")]
#[non_exhaustive]
pub enum AdoptFrom {
    /// One operating-system process.
    Pid {
        /// The pid.
        pid: u32,
    },
    /// The processes of a checkpoint, `processes.json`.
    Checkpoint {
        /// The text.
        text: String,
    },
}
