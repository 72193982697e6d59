//! The end of a gateway: drain, marks, cancels, exit codes, and the word in the lock.
//!
//! Decisions 203, 204, 205 and 241: docs/decisions/gateway.md.

use crate::coordinator::{Batch, Coordinator, Live, later, now};
use crate::rules::conversation::Event;
use crate::rules::text::Line;
use crate::rules::turn::{DrainKind, TurnKind};
use crate::store::StoreChange;
use outlast_agents::{running_agents, stop_agents_of};
use outlast_client::{Client, ClientError, Owner, Until};
use rustix::fs::{FlockOperation, flock};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;
use tokio::time::Instant;

/// How long agents may take to answer the cancels when a drain timed out. A real end still counts until then.
const CANCEL_ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// How long a drain waits for the turn that asked for it, if no other turn runs. A turn that has its answer finishes within seconds; one that waits for the
/// restart itself would wait for as long as it is waited for.
const ASKING_TURN_LIMIT: Duration = Duration::from_secs(20);
/// After a SIGTERM that no client asked for, the engine starts a gateway for what is open when this is over. A service manager is faster. A machine that is
/// switched off has ended the engine by then, and the next one does it.
const RETURN_AFTER_SIGTERM: Duration = Duration::from_secs(60);
/// How long agents may take to be stopped at the end. What is left is stopped by the next gateway.
const AGENT_STOP_LIMIT: Duration = Duration::from_secs(15);
/// How long the engine may take to answer at the end. A gateway that was told to end does so, whatever the engine does.
const ENGINE_ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// How long a lock that others share is waited for. Clients and the engine look at it for an instant, a program that reads conversations until it has read them.
const LOCK_LIMIT: Duration = Duration::from_secs(30);
/// How long between two tries for the lock. A wait for it could not be bounded.
const LOCK_RETRY: Duration = Duration::from_millis(5);

/// What the lock says in place of `at work` if a service manager starts the gateway again.
const SERVICE_WORD: &str = "service\n";

/// Why a process is told to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopSignal {
    /// SIGTERM that no client asked for.
    Terminate,
    /// SIGINT: a person at the terminal of `gateway run`.
    Interrupt,
}

impl StopSignal {
    /// How a gateway ends that was still starting: a person stops it, and anything else leaves the lock as it found it.
    pub(crate) fn end_of_start(self, before: LockWord) -> (LockWord, i32) {
        match self {
            Self::Terminate => (before, EXIT_UNASKED),
            Self::Interrupt => (LockWord::Stopped, 0),
        }
    }
}

/// A drain in progress.
#[derive(Debug, Clone)]
pub(crate) struct Drain {
    pub(crate) kind: DrainKind,
    exit: Exit,
    state: DrainState,
    /// The conversations whose agents asked for it, from within a turn, and until when that turn is waited for like all others.
    askers: BTreeMap<String, Instant>,
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
    /// If turns are open, the engine starts a gateway for them after a while.
    does_return: bool,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let next = match (self.word, self.does_return) {
            (LockWord::AtWork, _) => "the next gateway is started",
            (LockWord::Stopped, _) => "it stays stopped until a user starts it",
            (LockWord::Empty, true) => "the engine starts the next one in a minute if turns are open",
            (LockWord::Empty, false) => "the engine starts the next one when there is something to do",
        };
        write!(f, "{}; {next}", self.how)
    }
}

/// What the lock says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockWord {
    /// A gateway works; or if the lock is free, one died or asked to be started again. If a service manager does that, it says `service`.
    AtWork,
    /// A gateway ended in order. The engine may start another.
    Empty,
    /// A person stopped it. Only a person starts another.
    Stopped,
}

impl LockWord {
    const fn text(self) -> &'static str {
        match self {
            Self::AtWork => "at work\n",
            Self::Empty => "",
            Self::Stopped => "stopped\n",
        }
    }
}

impl Drain {
    pub(crate) fn restart(limit: Duration) -> Self {
        Self::new(DrainKind::Restart, limit, Exit { code: EXIT_RESTART, word: LockWord::AtWork, how: "restart", does_return: false })
    }

    pub(crate) fn stop(limit: Duration) -> Self {
        Self::new(DrainKind::Shutdown, limit, Exit { code: 0, word: LockWord::Stopped, how: "stop", does_return: false })
    }

    fn signal(limit: Duration, signal: StopSignal) -> Self {
        let exit = match signal {
            StopSignal::Terminate => Exit { code: EXIT_UNASKED, word: LockWord::Empty, how: "sigterm", does_return: true },
            StopSignal::Interrupt => Exit { code: 0, word: LockWord::Stopped, how: "sigint", does_return: false },
        };
        Self::new(DrainKind::Shutdown, limit, exit)
    }

    fn new(kind: DrainKind, limit: Duration, exit: Exit) -> Self {
        let now = Instant::now();
        let until = now.checked_add(limit).unwrap_or_else(|| now + Duration::from_secs(86_400));
        Self { kind, exit, state: DrainState::Waiting { until }, askers: BTreeMap::new() }
    }

    /// The same, asked for by the agent of this conversation.
    pub(crate) fn asked_by(mut self, from: Option<String>) -> Self {
        self.askers.extend(from.map(|key| (key, Instant::now() + ASKING_TURN_LIMIT)));
        self
    }

    /// When something is due that no input tells of.
    pub(crate) fn deadline(&self) -> Instant {
        let (DrainState::Waiting { until } | DrainState::Cancelling { until }) = self.state;
        let now = Instant::now();
        self.askers.values().copied().filter(|until| *until > now).fold(until, Instant::min)
    }

    /// A later request: a stop after a restart is a stop, a shorter limit counts, and everything else is under way already. True if it is another kind now.
    fn join(&mut self, later: Self) -> bool {
        for (key, until) in later.askers {
            // One that asks again gets no more time.
            self.askers.entry(key).or_insert(until);
        }
        let is_stop_now = self.kind == DrainKind::Restart && later.kind == DrainKind::Shutdown;
        if is_stop_now {
            (self.kind, self.exit) = (later.kind, later.exit);
        }
        if let (DrainState::Waiting { until }, DrainState::Waiting { until: sooner }) = (&mut self.state, later.state) {
            *until = sooner.min(*until);
        }
        is_stop_now
    }
}

/// The exit code of a restart: a service manager starts it again.
pub const EXIT_RESTART: i32 = 75;
/// The exit code after a SIGTERM that no client asked for.
pub const EXIT_UNASKED: i32 = 1;
/// The exit code if the configuration, or a file of a newer version, has to be changed first.
pub const EXIT_CONFIGURATION: i32 = 78;

impl Coordinator {
    /// Begins to end. Chats whose agent works are told. A prompt that still waits for its agent is taken back: no agent has seen it, so nothing is waited for
    /// and nothing is marked.
    pub(crate) fn begin_drain(&mut self, drain: Drain, batch: &mut Batch) {
        let kind = drain.kind;
        if let Some(current) = &mut self.drain {
            if !current.join(drain) {
                return;
            }
        } else {
            self.drain = Some(drain);
        }
        for key in self.busy() {
            let Some(live) = self.touch(&key, batch) else { continue };
            if live.has_prompt() {
                self.tell(&key, Line::Banner(kind), batch);
                continue;
            }
            let is_message = live.conversation.running().is_some_and(|row| row.cause.kind() == TurnKind::Message);
            self.apply(&key, Event::DrainTimedOut { kind, has_prompt: false }, batch);
            if is_message {
                self.tell(&key, Line::KeptWhileDraining(kind), batch);
            }
        }
    }

    /// The conversations with a running turn.
    fn busy(&self) -> Vec<String> {
        self.chats.iter().filter(|(_, live)| live.conversation.running().is_some()).map(|(key, _)| key.clone()).collect()
    }

    pub(crate) fn on_signal(&mut self, signal: StopSignal, batch: &mut Batch) {
        tracing::info!(?signal, "asked to end");
        self.begin_drain(Drain::signal(self.settings.drain_timeout, signal), batch);
    }

    /// At the limit of a drain all marks are one commit, and the cancels come after it.
    pub(crate) fn drain_on(&mut self, batch: &mut Batch) {
        let Some(Drain { kind, state: DrainState::Waiting { until }, .. }) = self.drain else { return };
        if until > Instant::now() && !self.waits_for_askers_alone() {
            return;
        }
        for key in self.busy() {
            let Some(live) = self.touch(&key, batch) else { continue };
            let has_prompt = live.has_prompt();
            self.apply(&key, Event::DrainTimedOut { kind, has_prompt }, batch);
        }
        if let Some(drain) = &mut self.drain {
            drain.state = DrainState::Cancelling { until: Instant::now() + CANCEL_ANSWER_LIMIT };
        }
    }

    /// Whether only turns are left that asked for the drain, and these had their time.
    fn waits_for_askers_alone(&self) -> bool {
        let Some(drain) = &self.drain else { return false };
        let now = Instant::now();
        let mut working = self.chats.iter().filter(|(_, live)| live.is_agent_working());
        working.all(|(key, _)| drain.askers.get(key).is_some_and(|until| *until <= now))
    }

    /// How to end, if it is time.
    pub(crate) fn exit_due(&self) -> Option<Exit> {
        if let Some(drain) = &self.drain {
            let is_working = self.chats.values().any(|live| live.is_agent_working());
            let is_late = matches!(drain.state, DrainState::Cancelling { until } if until <= Instant::now());
            return (!is_working || is_late).then_some(drain.exit);
        }
        let is_idle = self.idle_deadline().is_some_and(|at| at <= Instant::now());
        is_idle.then_some(Exit { code: 0, word: LockWord::Empty, how: "idle", does_return: false })
    }

    /// When it exits because it has nothing to do.
    pub(crate) fn idle_deadline(&self) -> Option<Instant> {
        if self.settings.idle_exit.is_zero() {
            return None;
        }
        // A time too far away to be an instant does not come.
        self.idle_since?.checked_add(self.settings.idle_exit)
    }

    /// Notes whether there is something to do.
    pub(crate) fn note_idleness(&mut self) {
        let is_busy = self.has_work() || self.has_followers();
        self.idle_since = if is_busy { None } else { self.idle_since.or_else(|| Some(Instant::now())) };
    }

    /// The last acts: agents are stopped, what waits for a time is set as a barrier in the engine, and the run is closed. Returns the word for the lock.
    pub(crate) async fn leave(&mut self, exit: Exit) -> LockWord {
        self.stop_all_agents().await;
        let mut word = exit.word;
        let returns_at = (exit.does_return && self.has_open_turns()).then(|| later(now(), RETURN_AFTER_SIGTERM));
        let waits_until = self.next_waiting().filter(|_| exit.word == LockWord::Empty);
        if let Some(at) = waits_until.into_iter().chain(returns_at).min() {
            let engine = self.engine.with_owner(Owner::session(crate::notices::OWN_SESSION));
            if let Err(error) = in_time(engine.set_until(Until::Time { at })).await {
                // Without it, no program would start a gateway when the time comes. With this word, the engine does at once.
                tracing::warn!(error, "no time could be set for what waits, so the next gateway is started now");
                word = LockWord::AtWork;
            }
        }
        if word == LockWord::Empty {
            self.disown_others().await;
        }
        let ended = StoreChange::RunEnded { id: self.run, at: now(), how: exit.how.to_owned() };
        if let Err(error) = self.store.commit(&[ended]) {
            tracing::warn!(%error, "the end of this run was not written down");
        }
        word
    }

    /// Whether a turn is open that does not wait for a person.
    fn has_open_turns(&self) -> bool {
        let is_open = |live: &Live| live.conversation.rows.iter().any(|row| row.turn.is_open());
        self.chats.values().any(|live| is_open(live) && live.conversation.suspended_at.is_none() && live.waits_for.is_none())
    }

    async fn stop_all_agents(&mut self) {
        for live in self.chats.values() {
            if let Some(actor) = &live.actor {
                // One that has ended needs no stop.
                let _ended = actor.handle.stop();
            }
        }
        let engine = self.engine.clone();
        let stopping = async {
            while self.chats.values().any(|live| live.actor.is_some()) {
                match self.next_input().await {
                    Some(input) => self.note_gone(input),
                    None => break,
                }
            }
            stop_strays(&engine).await;
        };
        if tokio::time::timeout(AGENT_STOP_LIMIT, stopping).await.is_err() {
            tracing::warn!("agents did not stop in time; the next gateway stops them");
        }
    }
}

/// The engine's answer at the end of the gateway, or why there is none.
pub(crate) async fn in_time<T>(answer: impl Future<Output = Result<T, ClientError>>) -> Result<T, String> {
    match tokio::time::timeout(ENGINE_ANSWER_LIMIT, answer).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!("the engine has not answered within {} s", ENGINE_ANSWER_LIMIT.as_secs())),
    }
}

/// Stops agents that no actor drives. An earlier gateway may have died with a start under way, which the engine carried out after this one had looked.
async fn stop_strays(engine: &Client) {
    let stopped = async {
        for agent in running_agents(engine).await? {
            stop_agents_of(engine, &agent.key).await?;
        }
        Ok::<(), ClientError>(())
    };
    if let Err(error) = stopped.await {
        tracing::warn!(%error, "agents could not be looked for; the next gateway stops them");
    }
}

/// The lock of a home's gateway. It is held for as long as the gateway lives.
pub(crate) struct GatewayLock {
    file: File,
    is_service: bool,
}

impl GatewayLock {
    /// Takes the lock. Nothing: another gateway has it. That one is not waited for: it may be stopped meanwhile, and stays stopped then.
    pub(crate) fn take(path: &Path, is_service: bool) -> io::Result<Option<Self>> {
        let file = OpenOptions::new().create(true).read(true).write(true).truncate(false).mode(0o600).open(path)?;
        let began = std::time::Instant::now();
        loop {
            if is_locked(&file, FlockOperation::NonBlockingLockExclusive)? {
                return Ok(Some(Self { file, is_service }));
            }
            // A reader shares the lock. A gateway does not.
            if !is_locked(&file, FlockOperation::NonBlockingLockShared)? {
                return Ok(None);
            }
            if began.elapsed() >= LOCK_LIMIT {
                let what = format!("programs that read conversations have held it for {} s", LOCK_LIMIT.as_secs());
                return Err(io::Error::new(io::ErrorKind::TimedOut, what));
            }
            flock(&file, FlockOperation::Unlock)?;
            std::thread::sleep(LOCK_RETRY);
        }
    }

    /// What the gateway that held it before left in it.
    pub(crate) fn word(&self) -> io::Result<LockWord> {
        // One byte more than the longest word has, so that a longer text is another one.
        let mut text = [0; LockWord::AtWork.text().len() + 1];
        let length = self.file.read_at(&mut text, 0)?;
        let is = |word: &str| text[..length] == *word.as_bytes();
        Ok(match () {
            () if is(LockWord::Stopped.text()) => LockWord::Stopped,
            () if is(LockWord::AtWork.text()) || is(SERVICE_WORD) => LockWord::AtWork,
            () => LockWord::Empty,
        })
    }

    /// Writes the word, and syncs it.
    pub(crate) fn say(&mut self, word: LockWord) -> io::Result<()> {
        let text = if word == LockWord::AtWork && self.is_service { SERVICE_WORD } else { word.text() };
        // Written over and then cut, so that a crash in between never leaves an empty lock where one said `at work`.
        self.file.write_all_at(text.as_bytes(), 0)?;
        self.file.set_len(text.len() as u64)?;
        self.file.sync_all()
    }
}

/// What a stop finds where no gateway answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopOfRestarts {
    /// A gateway died, or asked to be started again. Now the engine does not start it.
    Stopped,
    /// The engine was not about to start one for that.
    NotDue,
    /// A gateway holds the lock and does not answer: it starts or ends.
    Held,
}

/// Has the engine start no gateway in place of one that died or asked to be started again, as a person wants who stops it just then.
///
/// # Errors
///
/// If the lock cannot be used.
pub fn stop_restarts(home: &Path) -> io::Result<StopOfRestarts> {
    let path = home.join("gateway.lock");
    if !path.exists() {
        return Ok(StopOfRestarts::NotDue);
    }
    let Some(mut lock) = GatewayLock::take(&path, false)? else { return Ok(StopOfRestarts::Held) };
    match lock.word()? {
        LockWord::AtWork => lock.say(LockWord::Stopped).map(|()| StopOfRestarts::Stopped),
        LockWord::Empty | LockWord::Stopped => Ok(StopOfRestarts::NotDue),
    }
}

/// Keeps a gateway from starting, to look at its files: one that starts waits for that. Nothing: a gateway runs.
pub(crate) fn look_at_lock(path: &Path) -> io::Result<Option<File>> {
    let file = OpenOptions::new().create(true).read(true).write(true).truncate(false).mode(0o600).open(path)?;
    Ok(is_locked(&file, FlockOperation::NonBlockingLockShared)?.then_some(file))
}

/// Whether a client is starting a gateway. A program that looks at the files now would keep that gateway waiting, and many could do so again and again.
pub(crate) fn is_being_started(home: &Path) -> io::Result<bool> {
    is_held_in(&home.join("gateway-start.lock"))
}

/// Whether a gateway holds its lock: it runs, starts or ends.
pub(crate) fn is_held(home: &Path) -> io::Result<bool> {
    is_held_in(&home.join("gateway.lock"))
}

/// Whether a program holds a lock for itself. A lock that is not there is held by none.
fn is_held_in(lock: &Path) -> io::Result<bool> {
    match File::open(lock) {
        Ok(file) => Ok(!is_locked(&file, FlockOperation::NonBlockingLockShared)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn is_locked(file: &File, how: FlockOperation) -> io::Result<bool> {
    match flock(file, how) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_turn_that_asks_has_its_own_time_and_only_a_stop_or_less_time_changes_a_drain() {
        let limit = Duration::from_secs(60);
        let mut drain = Drain::restart(limit).asked_by(Some("a".into()));
        let first = drain.askers["a"];
        assert_eq!(drain.deadline(), first, "it is looked at before the limit");
        assert!(!drain.join(Drain::restart(Duration::from_secs(600)).asked_by(Some("a".into()))));
        assert!(!drain.join(Drain::restart(limit).asked_by(Some("b".into()))));
        assert_eq!((drain.askers["a"], drain.askers["b"] > first), (first, true));
        assert!(drain.join(Drain::stop(Duration::from_secs(1))), "now it is a stop");
        assert_eq!((drain.kind, drain.exit.word), (DrainKind::Shutdown, LockWord::Stopped));
        assert!(drain.deadline() < first, "the limit of the stop counts");
        assert!(!drain.join(Drain::restart(limit)), "a stop stays a stop");
        assert_eq!(drain.exit.word, LockWord::Stopped);
    }

    #[test]
    fn a_lock_that_is_looked_at_is_waited_for_and_one_of_a_gateway_is_not() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("gateway.lock");
        let first = GatewayLock::take(&path, false).unwrap().unwrap();
        let began = std::time::Instant::now();
        assert!(GatewayLock::take(&path, false).unwrap().is_none());
        assert!(began.elapsed() < LOCK_LIMIT, "it was not waited for");
        drop(first);
        let look = File::open(&path).unwrap();
        flock(&look, FlockOperation::LockShared).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| GatewayLock::take(&path, false).unwrap().is_some());
            drop(look);
            assert!(waiting.join().unwrap());
        });
    }
}
