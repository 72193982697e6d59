//! The end of a gateway: drain, marks, cancels, exit codes, and the word in the lock.

use crate::coordinator::{Batch, Coordinator, now};
use crate::rules::conversation::Event;
use crate::rules::text::Line;
use crate::rules::turn::DrainKind;
use crate::store::StoreChange;
use outlast_client::{Owner, Until};
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;
use tokio::time::Instant;

/// How long agents may take to answer the cancels when a drain timed out. A real end still counts until then.
const CANCEL_ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// How long agents may take to be stopped at the end. What is left is stopped by the next gateway.
const AGENT_STOP_LIMIT: Duration = Duration::from_secs(15);
/// How long a lock that somebody only looks at is waited for. Clients and the engine look at it with a shared lock for an instant.
const LOCK_LIMIT: Duration = Duration::from_secs(1);
/// How long between two tries for the lock. A wait for it could not be bounded.
const LOCK_RETRY: Duration = Duration::from_millis(5);

/// Why a process is told to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopSignal {
    /// SIGTERM that no client asked for.
    Terminate,
    /// SIGINT: a person at the terminal of `gateway run`.
    Interrupt,
}

/// A drain in progress.
#[derive(Debug, Clone)]
pub(crate) struct Drain {
    pub(crate) kind: DrainKind,
    exit: Exit,
    state: DrainState,
}

#[derive(Debug, Clone, Copy)]
enum DrainState {
    /// Turns may finish until then.
    Waiting { until: Instant },
    /// The marks are committed, and agents may answer the cancels until then.
    Cancelling { until: Instant },
}

/// How a gateway ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exit {
    pub(crate) code: i32,
    /// What the lock says afterwards.
    pub(crate) word: LockWord,
    how: &'static str,
}

/// What the lock says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockWord {
    /// A gateway works; or if the lock is free, one died or asked to be started again.
    AtWork,
    /// A gateway ended in order. The engine may start another.
    Empty,
    /// A person stopped it. Only a person starts another.
    Stopped,
}

impl Drain {
    pub(crate) fn restart(limit: Duration) -> Self {
        Self::new(DrainKind::Restart, limit, Exit { code: EXIT_RESTART, word: LockWord::AtWork, how: "restart" })
    }

    pub(crate) fn stop(limit: Duration) -> Self {
        Self::new(DrainKind::Shutdown, limit, Exit { code: 0, word: LockWord::Stopped, how: "stop" })
    }

    fn signal(limit: Duration, signal: StopSignal) -> Self {
        let (code, how) = match signal {
            StopSignal::Terminate => (EXIT_UNASKED, "sigterm"),
            StopSignal::Interrupt => (0, "sigint"),
        };
        Self::new(DrainKind::Shutdown, limit, Exit { code, word: LockWord::Empty, how })
    }

    fn new(kind: DrainKind, limit: Duration, exit: Exit) -> Self {
        let until = Instant::now().checked_add(limit).unwrap_or_else(|| Instant::now() + Duration::from_secs(86_400));
        Self { kind, exit, state: DrainState::Waiting { until } }
    }

    pub(crate) fn deadline(&self) -> Instant {
        match self.state {
            DrainState::Waiting { until } | DrainState::Cancelling { until } => until,
        }
    }
}

/// The exit code of a restart: a service manager starts it again.
pub const EXIT_RESTART: i32 = 75;
/// The exit code after a SIGTERM that no client asked for.
pub const EXIT_UNASKED: i32 = 1;
/// The exit code if the configuration, or a file of a newer version, has to be changed first.
pub const EXIT_CONFIGURATION: i32 = 78;

impl Coordinator {
    /// Begins to end. A second request changes nothing, except that a stop after a restart is a stop.
    pub(crate) fn begin_drain(&mut self, drain: Drain, batch: &mut Batch) {
        if let Some(current) = &mut self.drain {
            if current.kind == DrainKind::Restart && drain.kind == DrainKind::Shutdown {
                current.exit = drain.exit;
            }
            return;
        }
        let kind = drain.kind;
        self.drain = Some(drain);
        let busy: Vec<String> =
            self.chats.iter().filter(|(_, live)| live.conversation.running().is_some()).map(|(key, _)| key.clone()).collect();
        for key in busy {
            self.tell(&key, Line::Banner(kind), batch);
        }
    }

    pub(crate) fn on_signal(&mut self, signal: StopSignal, batch: &mut Batch) {
        tracing::info!(?signal, "asked to end");
        self.begin_drain(Drain::signal(self.settings.drain_timeout, signal), batch);
    }

    /// At the limit of a drain all marks are one commit, and the cancels come after it.
    pub(crate) fn drain_on(&mut self, batch: &mut Batch) {
        let Some(Drain { kind, state: DrainState::Waiting { until }, .. }) = self.drain else { return };
        if until > Instant::now() {
            return;
        }
        let busy: Vec<String> =
            self.chats.iter().filter(|(_, live)| live.conversation.running().is_some()).map(|(key, _)| key.clone()).collect();
        for key in busy {
            let Some(live) = self.touch(&key, batch) else { continue };
            let has_prompt = live.has_prompt();
            self.apply(&key, Event::DrainTimedOut { kind, has_prompt }, batch);
        }
        if let Some(drain) = &mut self.drain {
            drain.state = DrainState::Cancelling { until: Instant::now() + CANCEL_ANSWER_LIMIT };
        }
    }

    /// How to end, if it is time.
    pub(crate) fn exit_due(&self) -> Option<Exit> {
        if let Some(drain) = &self.drain {
            let is_working = self.chats.values().any(|live| live.is_agent_working());
            let is_late = matches!(drain.state, DrainState::Cancelling { until } if until <= Instant::now());
            return (!is_working || is_late).then_some(drain.exit);
        }
        let is_idle = self.idle_deadline().is_some_and(|at| at <= Instant::now());
        is_idle.then_some(Exit { code: 0, word: LockWord::Empty, how: "idle" })
    }

    /// When it exits because it has nothing to do.
    pub(crate) fn idle_deadline(&self) -> Option<Instant> {
        if self.settings.idle_exit.is_zero() {
            return None;
        }
        Some(self.idle_since? + self.settings.idle_exit)
    }

    /// Notes whether there is something to do.
    pub(crate) fn note_idleness(&mut self) {
        let is_busy = self.has_work() || self.has_followers();
        self.idle_since = if is_busy { None } else { self.idle_since.or_else(|| Some(Instant::now())) };
    }

    /// The last acts: agents are stopped, what waits for a time is set as a barrier in the engine, and the run is closed.
    pub(crate) async fn leave(&mut self, exit: Exit) {
        self.stop_all_agents().await;
        if let Some(at) = self.next_waiting().filter(|_| exit.word == LockWord::Empty) {
            let engine = self.engine.with_owner(Owner::session(crate::notices::OWN_SESSION));
            if let Err(error) = engine.set_until(Until::Time { at }).await {
                tracing::warn!(%error, "what waits for a time continues when a gateway is started");
            }
        }
        let ended = StoreChange::RunEnded { id: self.run, at: now(), how: exit.how.to_owned() };
        if let Err(error) = self.store.commit(&[ended]) {
            tracing::warn!(%error, "the end of this run was not written down");
        }
    }

    async fn stop_all_agents(&mut self) {
        for live in self.chats.values() {
            if let Some(actor) = &live.actor {
                // One that has ended needs no stop.
                let _ended = actor.handle.stop();
            }
        }
        let stopping = async {
            while self.chats.values().any(|live| live.actor.is_some()) {
                match self.next_input().await {
                    Some(input) => self.note_gone(input),
                    None => break,
                }
            }
        };
        if tokio::time::timeout(AGENT_STOP_LIMIT, stopping).await.is_err() {
            tracing::warn!("agents did not stop in time; the next gateway stops them");
        }
    }
}

/// The lock of a home's gateway. It is held for as long as the gateway lives.
pub(crate) struct GatewayLock {
    file: File,
}

impl GatewayLock {
    /// Takes the lock. Nothing: another gateway has it.
    pub(crate) fn take(path: &Path) -> io::Result<Option<Self>> {
        let file = OpenOptions::new().create(true).read(true).write(true).truncate(false).mode(0o600).open(path)?;
        let began = std::time::Instant::now();
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Some(Self { file })),
                Err(rustix::io::Errno::WOULDBLOCK) if began.elapsed() < LOCK_LIMIT => std::thread::sleep(LOCK_RETRY),
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Writes the word, and syncs it.
    pub(crate) fn say(&mut self, word: LockWord) -> io::Result<()> {
        let text = match word {
            LockWord::AtWork => "at work\n",
            LockWord::Empty => "",
            LockWord::Stopped => "stopped\n",
        };
        // Written over and then cut, so that a crash in between never leaves an empty lock where one said `at work`.
        self.file.write_all_at(text.as_bytes(), 0)?;
        self.file.set_len(text.len() as u64)?;
        self.file.sync_all()
    }
}
