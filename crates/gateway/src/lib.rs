//! Conversations that survive restarts: the program `outlast-gateway` without its command line.
//!
//! [`run`] takes the lock of a home, marks what an earlier gateway left interrupted, listens, and serves until it is asked to end or has nothing to do. One task,
//! the coordinator, owns all conversations; the socket server and the drivers of agents send it messages.
//!
//! A **conversation** has a key and generations. A **turn** answers one message or one notice. An **attempt** is one start of a turn. The
//! functions in [`rules`] decide; a coordinator, one task that owns all conversations, commits what they return and then acts.
//!
//! # One event
//!
//! 1. Look up the event's cause in the table `turn`. If it is known, put its row into `known_as`: finished turns are not kept in memory.
//! 2. Gather what the event carries: a new [`TurnId`](rules::conversation::TurnId), whether the agent has the prompt, the facts of a reset.
//! 3. Call [`change::apply`](rules::change::apply) with a clone. It cannot fail; an event that does not fit changes nothing.
//! 4. Commit the difference between the two conversations as one transaction: the row, and every turn that differs. A turn that is finished
//!    keeps its columns `attempt`, `interrupt_reason` and `interrupted_at`. Parts of a reply belong to the same transaction.
//! 5. Replace the conversation, and call [`forget_finished`](rules::conversation::Conversation::forget_finished). If the commit fails, keep
//!    the old conversation and carry out nothing.
//! 6. Carry out the effects, in their order. A crash may lose each of them; [`Effect`](rules::change::Effect) says what repairs it.
//! 7. Ask [`next`](rules::queue::next).
//!
//! Several events may share a commit, if their effects are carried out after it: a notice and its start do, and the marks of all
//! conversations when a drain times out. `Answer` and `Acknowledge` of an event that changed nothing need no commit.
//!
//! # What starts
//!
//! [`next`](rules::queue::next) is asked after each event, when an agent becomes free, when the engine reports notices, when a channel
//! connects or the owner's rights change, and at the time that `WaitUntil` named. `Start` is applied as
//! [`Event::Start`](rules::change::Event::Start) and committed before the prompt is sent. For `TakeNotices` each notice is applied,
//! then `next` is asked again, and all of that is one commit. `WaitForPerson` is shown once as
//! [`Line::Waiting`](rules::text::Line::Waiting); it does not keep the gateway alive, and neither does `Nothing`. `WaitUntil` becomes a
//! barrier in the engine when the gateway exits.
//!
//! # What the coordinator keeps in memory
//!
//! - **Whether the agent has the prompt.** From the moment in which the first byte of a prompt may have been written, it has. If in doubt,
//!   it has: a repeat with a note is better than one without.
//! - **Whether the agent is free.** After `Cancel` it is not, until it has answered or was stopped (10 s). A turn that goes back to the
//!   queue without a prompt uses the same attempt number again, so the coordinator drops what a driver reports about an attempt after
//!   that.
//! - **`has_person_written`**, in the conversation itself: false when it is loaded. A message that is sent again does not set it, because a
//!   client repeats it without a person.
//!
//! # Start and stop
//!
//! A start applies `GatewayStarted` to every conversation with a running turn, in one commit with the row in `run`, and judges the
//! [`breaker`](rules::breaker) from the last rows. A drain shows [`Line::Banner`](rules::text::Line::Banner) to chats with a running turn,
//! sets `is_draining`, and at its limit applies `DrainTimedOut` to all conversations in one commit; a `Completed` that arrives afterwards
//! for the same attempt still counts.

#![forbid(unsafe_code)]

mod coordinator;
mod exit;
mod lock;
mod notice_feed;
mod owner;
mod points;
mod read;
pub mod rules;
mod serve;
mod settings;
mod startup;
mod store;

pub use exit::{EXIT_CONFIGURATION, EXIT_RESTART, EXIT_UNASKED};
pub use lock::{StopOfRestarts, stop_restarts};
pub use read::{ReadAnswer, ReadRequest, is_taken, read};
pub use rules::shown::NoticeMode;
pub use settings::{AgentLimits, AgentPermission, AgentSettings, DEFAULT_DRAIN_TIMEOUT, DEFAULT_IDLE_EXIT, GatewaySettings};

use coordinator::{Gateway, Input};
use exit::StopSignal;
use lock::{GatewayLock, LockWord};
use startup::StartError;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use store::{SqliteStore, StoreError};
use tokio::signal::unix::{SignalKind, signal};

/// Threads that run tasks: the coordinator writes to the disk in one of them.
const WORKERS: usize = 2;
/// How long a start may take to finish after a signal. Then what it found is drained in order; a start that takes longer is given up.
const START_END_LIMIT: Duration = Duration::from_secs(3);
/// How long a write to a disk that hangs may keep the program at its end.
const RUNTIME_END_LIMIT: Duration = Duration::from_secs(1);

/// Notes where the PATH of a person has an agent, so that gateways with another PATH find it. Unknown names are ignored.
pub fn remember_agent(home: &std::path::Path, name: &str, path: &std::ffi::OsStr) {
    if let Ok(agent) = name.parse() {
        outlast_agents::remember_agent(agent, path, &coordinator::known_agents(home));
    }
}

/// The names of agents that need no configuration.
pub fn built_in_agents() -> impl Iterator<Item = &'static str> {
    outlast_agents::AgentName::ALL.into_iter().map(outlast_agents::AgentName::as_str)
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ran {
    /// With this exit code.
    Ended(i32),
    /// Another gateway serves the home: nothing is wrong, and there is nothing to do.
    Taken,
    /// A person stopped the gateway of the home, and only a person starts the next.
    Stopped,
}

/// Why a gateway could not run.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct RunError {
    what: String,
    /// The exit code for it.
    pub code: i32,
}

/// Runs the gateway of a home until it is asked to end, or has nothing to do. `ready` is called once clients can connect.
///
/// # Errors
///
/// If the home, the database or the engine cannot be used.
pub fn run(settings: GatewaySettings, ready: impl FnOnce()) -> Result<Ran, RunError> {
    if let Some(dir) = &settings.test_points {
        points::configure(dir.clone());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).thread_name("gateway").enable_all().build();
    let runtime = runtime.map_err(|e| RunError { what: format!("cannot start threads: {e}"), code: EXIT_UNASKED })?;
    let ran = runtime.block_on(serve_home(Arc::new(settings), ready));
    runtime.shutdown_timeout(RUNTIME_END_LIMIT);
    Ok(ran?)
}

impl From<StartError> for RunError {
    fn from(error: StartError) -> Self {
        Self { code: exit_code(&error), what: error.to_string() }
    }
}

fn exit_code(error: &StartError) -> i32 {
    match error {
        StartError::Store(StoreError::Newer { .. }) => EXIT_CONFIGURATION,
        StartError::File { .. } | StartError::Store(_) | StartError::Engine(_) => EXIT_UNASKED,
    }
}

/// Looks at the database of a home whose gateway does not run: every row that cannot be read, in a sentence each. Empty if a gateway runs: it reports them itself.
///
/// # Errors
///
/// If a gateway of this build could not be started with it.
pub fn check(home: &Path) -> Result<Vec<String>, RunError> {
    let path = home.join("gateway.lock");
    let looked = match lock::look_at_lock(&path) {
        Ok(Some(_held)) => SqliteStore::look(&home.join("gateway.db")).map_err(StartError::from),
        Ok(None) => Ok(Vec::new()),
        Err(error) => Err(StartError::file("look at", &path)(error)),
    };
    Ok(looked?)
}

async fn serve_home(settings: Arc<GatewaySettings>, ready: impl FnOnce()) -> Result<Ran, StartError> {
    let home = settings.home.clone();
    let shown_home = home.clone();
    let path = home.join("gateway.lock");
    points::reach("gateway.before_lock");
    let taken = GatewayLock::take(&path, settings.is_service).map_err(StartError::file("lock", &path))?;
    let Some(mut lock) = taken else {
        points::reach("gateway.taken");
        return Ok(Ran::Taken);
    };
    // Until here a signal ends the program as any other: nothing has begun.
    let mut signals = Signals::take().map_err(StartError::file("take signals for", &home))?;
    let before = lock.word().map_err(StartError::file("read", &path))?;
    // Between the engine's decision to start this gateway and the lock, a person may have started one and stopped it again.
    if settings.unless_stopped && before == LockWord::Stopped {
        return Ok(Ran::Stopped);
    }
    // Before it listens: whatever is accepted from here on, a free lock that says this has the engine start the next gateway.
    lock.say(LockWord::AtWork).map_err(StartError::file("write", &path))?;
    points::reach("gateway.at_work");
    let starting = async {
        let (coordinator, gateway) = startup::start(settings).await?;
        let serving = notice_feed::Serving::begin(&coordinator.engine).await?;
        Ok::<_, StartError>((coordinator, gateway, serving))
    };
    tokio::pin!(starting);
    let (started, early) = tokio::select! {
        started = &mut starting => (started?, None),
        // The engine may not answer, and agents may take long to stop. No client knows of this gateway yet.
        signal = signals.next() => match tokio::time::timeout(START_END_LIMIT, starting).await {
            Ok(started) => (started?, Some(signal)),
            Err(_) => {
                tracing::info!(?signal, "asked to end before it served");
                let (word, code) = signal.end_of_start(before);
                lock.say(word).map_err(StartError::file("write", &path))?;
                return Ok(Ran::Ended(code));
            }
        }
    };
    let (mut coordinator, gateway, serving) = started;
    if let Some(signal) = early {
        // The coordinator, which has the other end, is ours.
        let _kept = gateway.inputs.send(Input::Signal(signal)).await;
    }
    let listener = serve::Listener::open(&home).map_err(StartError::file("listen in", home.join("run")))?;
    let (closing, is_closing) = tokio::sync::watch::channel(false);
    let listening = tokio::spawn(serve::listen(listener, home, gateway.clone(), is_closing));
    let watching = tokio::spawn(serving.watch(coordinator.engine.clone(), gateway.clone()));
    let signalled = tokio::spawn(signals.pass_on(gateway));
    tracing::info!("serves the conversations of {}", shown_home.display());
    ready();
    let exit = coordinator.serve().await;
    tracing::info!("ends: {exit}");
    closing.send_replace(true);
    watching.abort();
    let word = coordinator.leave(exit).await;
    points::reach("gateway.before_word");
    lock.say(word).map_err(StartError::file("write", &path))?;
    // Connections end last, so that a client that waits for the end finds the lock free.
    drop(lock);
    listening.abort();
    signalled.abort();
    Ok(Ran::Ended(exit.code))
}

/// The signals that end a gateway. SIGHUP is taken and does nothing: the terminal that started it may go.
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
}

impl Signals {
    fn take() -> std::io::Result<Self> {
        let (terminate, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        Ok(Self { terminate, interrupt, hangup: signal(SignalKind::hangup())? })
    }

    async fn next(&mut self) -> StopSignal {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return StopSignal::Terminate,
                _ = self.interrupt.recv() => return StopSignal::Interrupt,
                _ = self.hangup.recv() => {}
            }
        }
    }

    async fn pass_on(mut self, gateway: Gateway) {
        loop {
            let asked = self.next().await;
            if gateway.inputs.send(Input::Signal(asked)).await.is_err() {
                return;
            }
        }
    }
}
