//! What a client may ask of the engine.

use super::namespaces::Namespaces;
use super::notice::{History, Lent, Push, Replay, Taker, Until, Verdict};
use super::spec::{EnvVar, RerunChange, Spec};
use outlast_core::{OsText, Owner, ProcessId, ProcessLimits, Route, Scope, Time};
use serde::{Deserialize, Serialize};

/// One message from a client: a number for the answers to carry, for whom it speaks, and the request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Message {
    /// The client's own number for it, never used twice on a connection.
    pub id: u64,
    /// For whom.
    #[serde(default)]
    pub owner: Owner,
    /// Whether the answer is passed on to somebody else: an end that it shows, be it to who only looks, counts as seen, and what it says is removed is so, when [`Request::Relayed`] says
    /// that it arrived. Notices that it gives are given again, as possible repeats, if that is not said.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub relay: bool,
    /// What.
    #[serde(flatten)]
    pub request: Request,
}

/// What is asked. Its fields lie beside the message's own, so none may be called `id`, `owner`, `relay` or `op`. Each is answered by one [`super::Reply`] with an answer or an error, of these types:
///
/// | request | answer |
/// |---|---|
/// | hello | [`super::Hello`] |
/// | run, rerun, rerun_changed, poll, attach | [`super::Process`] |
/// | restart | [`super::Restarted`] |
/// | list | [`super::List`] |
/// | find | [`super::Found`] |
/// | log | [`super::LogPage`] |
/// | read | [`super::ReadEnd`], behind its events and raw frames |
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
/// | notice_follow | none, behind its events |
/// | notice_post | [`super::notice::Posted`] |
/// | notice_replay, pushed, relayed | [`super::Done`] |
/// | notice_dead | [`super::notice::Dead`] |
/// | consumed | [`super::notice::Consumed`] |
/// | deliveries, wake | [`super::notice::Deliveries`] |
/// | until | [`super::notice::Barrier`] |
/// | barriers | [`super::notice::Barriers`] |
/// | serve | none, behind its events |
/// | disown | [`super::Done`] |
/// | engine_status | [`super::EngineStatus`] |
/// | cancel | none |
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Request {
    /// First on each connection.
    Hello {
        /// The newest version the client speaks.
        version: u32,
        /// The client's name, for the engine's log.
        client: String,
        /// The namespaces of the client, if it sends them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        namespaces: Option<Box<Namespaces>>,
    },
    /// Start a command. Answered once it runs.
    Run {
        /// What to run.
        spec: Box<Spec>,
        /// The id it is to have, so that asking twice starts once.
        #[serde(default)]
        want: Option<ProcessId>,
        /// The caller's surroundings.
        caller: Caller,
    },
    /// Start again what another process ran.
    Rerun {
        /// Which.
        process: String,
        /// The caller's surroundings.
        caller: Caller,
        /// Values given anew.
        #[serde(default)]
        env: Vec<EnvVar>,
        /// The id it is to have, so that asking twice starts once.
        #[serde(default)]
        want: Option<ProcessId>,
    },
    /// Start again what another process ran, with something else changed. A request of its own, because an engine that does not know the change must not start
    /// the command without it.
    RerunChanged {
        /// Which.
        process: String,
        /// The caller's surroundings.
        caller: Caller,
        /// Values given anew.
        #[serde(default)]
        env: Vec<EnvVar>,
        /// What is different.
        change: RerunChange,
        /// The id it is to have, so that asking twice starts once.
        #[serde(default)]
        want: Option<ProcessId>,
    },
    /// Stop a process and its tree, and start again what it ran. One that has finished is started only.
    Restart {
        /// Which.
        process: String,
        /// The caller's surroundings.
        caller: Caller,
        /// Values given anew.
        #[serde(default)]
        env: Vec<EnvVar>,
        /// The id that the new process is to have, so that asking twice starts once.
        #[serde(default)]
        want: Option<ProcessId>,
        /// How long to wait between TERM and KILL; absent means as long as the engine does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grace_ms: Option<u64>,
    },
    /// Those in a scope.
    List {
        /// Which.
        #[serde(default)]
        scope: Scope,
        /// Finished ones too.
        #[serde(default)]
        all: bool,
    },
    /// Which process an id, the beginning of one, or a name means. Unlike a poll, it shows no end, so that no notice counts as seen.
    Find {
        /// Which.
        process: String,
    },
    /// One.
    Poll {
        /// Which.
        process: String,
    },
    /// A page of output.
    Log {
        /// Which.
        process: String,
        /// What part.
        #[serde(default)]
        page: Page,
    },
    /// Raw output from an offset, in raw frames between [`super::Event::Gap`]s, until the end or, if told, for ever.
    Read {
        /// Which.
        process: String,
        /// From where.
        from: From,
        /// Go on until the output is closed.
        #[serde(default)]
        follow: bool,
        /// And then until the command is over.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        to_exit: bool,
        /// Somebody looks on, and leaves with [`super::Event::ViewClosed`] if the view is closed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        view: bool,
        /// Mask each byte of a secret variable's value with a `*`.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        masked: bool,
        /// Say with [`super::Event::Came`] when the bytes came.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        timed: bool,
    },
    /// Wait for the end.
    Wait {
        /// Which.
        process: String,
        /// At most this long, in milliseconds.
        #[serde(default)]
        timeout_ms: Option<u64>,
    },
    /// Let go of a conversation's waits.
    Interrupt {
        /// Whose.
        session: String,
    },
    /// Stop one.
    Kill {
        /// Which.
        process: String,
        /// How.
        #[serde(flatten)]
        kill: Kill,
    },
    /// Stop those in a scope.
    KillAll {
        /// Which.
        #[serde(default)]
        scope: Scope,
        /// How.
        #[serde(flatten)]
        kill: Kill,
    },
    /// Stop these, as a stop of a scope does. One that has ended or is not the caller's is left out.
    KillThese {
        /// Which.
        processes: Vec<ProcessId>,
        /// How.
        #[serde(flatten)]
        kill: Kill,
    },
    /// Send a signal to the command itself.
    Signal {
        /// Which.
        process: String,
        /// Its number.
        number: i32,
    },
    /// Put the bytes of the raw frames that follow into its input.
    Write {
        /// Which.
        process: String,
        /// Where in the input they begin, if the caller counts; a part that is there already is not written again.
        #[serde(default)]
        at: Option<u64>,
        /// How many bytes follow.
        len: u64,
    },
    /// End its input.
    Close {
        /// Which.
        process: String,
    },
    /// Change the size of its terminal.
    Resize {
        /// Which.
        process: String,
        /// Rows.
        rows: u16,
        /// Columns.
        cols: u16,
    },
    /// A real terminal looks on from now until the connection ends, and answers the program's questions.
    Attach {
        /// Which.
        process: String,
        /// Whether input will come too.
        read_only: bool,
    },
    /// Tell whoever looks at one to leave. It goes on.
    ViewClose {
        /// Which.
        process: String,
    },
    /// Forget one.
    Remove {
        /// Which.
        process: String,
    },
    /// Forget every finished one in a scope.
    Clean {
        /// Which.
        #[serde(default)]
        scope: Scope,
    },
    /// Forget these, if they are finished. One that is not the caller's is left out.
    CleanThese {
        /// Which.
        processes: Vec<ProcessId>,
    },
    /// Is anything active?
    Active(Activity),
    /// Take in a living process that somebody else started.
    Adopt(AdoptFrom),
    /// The next notices of the owner's conversation, each given to nobody else until its lease ends.
    NoticeNext {
        /// By whom.
        #[serde(default)]
        taker: Taker,
        /// At most so many.
        limit: u32,
        /// For how long.
        lease_ms: u64,
        /// Wait for one at most this long; 0 does not wait, absent waits for as long as it takes.
        #[serde(default)]
        wait_ms: Option<u64>,
    },
    /// Say what became of notices that were given out.
    NoticeSettle {
        /// Their names.
        ids: Vec<String>,
        /// The word that was given with them.
        #[serde(default)]
        lease: Option<String>,
        /// What.
        #[serde(flatten)]
        verdict: Verdict,
    },
    /// Every notice as it is made, in [`super::Event::Notice`]s, for ever: of the owner's conversation, or of all if the owner is a person.
    NoticeFollow {
        /// From behind the one with this `seq`; absent means from now on.
        #[serde(default)]
        after: Option<u64>,
    },
    /// Tell the owner's conversation something.
    NoticePost {
        /// A name of the poster's own: the same again is the same notice.
        #[serde(default)]
        name: Option<String>,
        /// What: fields with a `type`. Secrets in them are masked before anything is kept.
        event: serde_json::Map<String, serde_json::Value>,
        /// Where in a chat its owner is.
        #[serde(default)]
        route: Route,
    },
    /// Read notices.
    NoticeHistory(History),
    /// Offer notices again.
    NoticeReplay(Replay),
    /// What sinks gave up on.
    NoticeDead {
        /// At most so many.
        #[serde(default)]
        limit: Option<u32>,
    },
    /// Whether the owner of a process has seen its end.
    Consumed {
        /// Which.
        process: String,
        /// Say that it has.
        #[serde(default)]
        mark: bool,
    },
    /// The answers to these requests of this connection, which were asked for with `relay`, have reached whoever they are for. One that is cancelled
    /// after its answer has not, and neither have those that nothing was said of when the connection ends.
    Relayed {
        /// Their numbers.
        of: Vec<u64>,
    },
    /// What a sink owes, as soon as it owes something.
    Deliveries {
        /// Its name.
        sink: String,
        /// At most so many.
        limit: u32,
        /// For how long they are given.
        lease_ms: u64,
    },
    /// A sink that wakes an agent is about to tell these. Answered with those that it may tell; the others are its own no more.
    Wake {
        /// Its name.
        sink: String,
        /// Which.
        lent: Vec<Lent>,
    },
    /// How a push went.
    Pushed {
        /// The sink's name.
        sink: String,
        /// Which notice.
        seq: u64,
        /// The word that was given with it.
        lease: String,
        /// How.
        #[serde(flatten)]
        how: Push,
    },
    /// Set a barrier, and wait until it opens. It stays if the caller leaves, and its opening is then told as a notice.
    Until {
        /// What for.
        #[serde(flatten)]
        until: Until,
        /// The name it is to have, so that asking twice sets one; `bar_` and twelve hexadecimal digits.
        #[serde(default)]
        barrier: Option<String>,
        /// Only set it.
        #[serde(default)]
        no_wait: bool,
    },
    /// The barriers of the owner's conversation.
    Barriers {
        /// Take them away.
        #[serde(default)]
        clear: bool,
    },
    /// A gateway serves this home for as long as this request is open. Which sessions of gateways have notices that can be taken is told in
    /// [`super::Event::Sessions`]: all of them at first, then those that have new ones.
    Serve,
    /// The gateway ends, and has no conversation for these sessions: no gateway is started for their notices, which are left to other takers. That holds until a
    /// gateway serves again.
    Disown {
        /// Which.
        sessions: Vec<String>,
    },
    /// How is the engine?
    EngineStatus,
    /// End the engine; processes go on unless they were started with `on_stop: kill`.
    EngineStop,
    /// End the engine and leave every process running, because the caller starts the next engine at once.
    EngineHandOver,
    /// End request `of` of this connection.
    Cancel {
        /// Its number.
        of: u64,
    },
}

/// The surroundings of a caller.
#[derive(Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Caller {
    /// Its whole environment.
    pub env: Vec<EnvVar>,
    /// Where it is.
    pub cwd: OsText,
    /// Its mask for files it makes; absent means the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub umask: Option<u32>,
    /// Its limits; absent means those that the engine was started with. They are not part of the request's hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Box<ProcessLimits>>,
}

impl Caller {
    /// A caller in this directory with this environment, the usual umask, and the limits that the engine was started with.
    pub fn new(env: Vec<EnvVar>, cwd: impl Into<OsText>) -> Self {
        Self { env, cwd: cwd.into(), umask: None, limits: None }
    }
}

impl std::fmt::Debug for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Caller {{ cwd: {:?}, env: {} variables }}", self.cwd, self.env.len())
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
    /// At what comes next.
    Now,
    /// At what came at this time or later, up to a second too early.
    Since(Time),
}

/// Which part of a log, in lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Page {
    /// The first line; absent means the tail.
    pub offset: Option<u64>,
    /// How many lines; absent means the contract's default.
    pub limit: Option<u64>,
    /// From this byte instead of a line.
    pub from_byte: Option<u64>,
}

impl Page {
    /// From this line on.
    pub fn from_line(line: u64) -> Self {
        Self { offset: Some(line), ..Self::default() }
    }

    /// From this byte on.
    pub fn from_byte(byte: u64) -> Self {
        Self { from_byte: Some(byte), ..Self::default() }
    }

    /// The last lines, so many of them.
    pub fn last(lines: u64) -> Self {
        Self::default().limit(lines)
    }

    /// The same, at most so many lines.
    #[must_use]
    pub fn limit(self, lines: u64) -> Self {
        Self { limit: Some(lines), ..self }
    }
}

/// How to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Kill {
    /// Grace in milliseconds; absent means as configured; 0 kills at once.
    pub grace_ms: Option<u64>,
    /// TERM, and leave it at that.
    pub no_escalate: bool,
}

impl Kill {
    /// At once, without a grace.
    pub fn at_once() -> Self {
        Self::within(std::time::Duration::ZERO)
    }

    /// Politely, and hard when this much time has passed.
    pub fn within(grace: std::time::Duration) -> Self {
        Self { grace_ms: Some(u64::try_from(grace.as_millis()).unwrap_or(u64::MAX)), ..Self::default() }
    }

    /// Politely, and no more than that.
    pub fn politely() -> Self {
        Self { no_escalate: true, ..Self::default() }
    }
}

/// A question about activity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "about", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Activity {
    /// Of a task.
    Task {
        /// Which.
        task: String,
    },
    /// Of a conversation.
    Session {
        /// Which.
        session: String,
        /// Older ones do not count; absent means any age counts.
        max_age_ms: Option<u64>,
    },
    /// Anything at all.
    Any,
    /// Whether a goal that waits for this process must go on waiting.
    Waiting {
        /// Which.
        process: String,
    },
}

/// What to adopt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "snake_case")]
#[non_exhaustive]
pub enum AdoptFrom {
    /// One pid.
    Pid {
        /// The number.
        pid: u32,
    },
    /// The text of a `processes.json`.
    Checkpoint {
        /// The text.
        text: String,
    },
}
