//! Starts a gateway: after one died or asked to be started again, and when a notice is open for one of its conversations.
//!
//! The rule checks the state and not an event, so no wake-up can be missed: *the lock is free, and it says `at work` or a notice is open for
//! a gateway*. It needs a `gateway.db`, and a user must not have stopped the gateway. If the lock says `service`, a service manager has
//! time to start it first.
//!
//! Decisions 201 and 214: docs/decisions/gateway.md.

use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::future::Future;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::time::Instant;
use tracing::{info, warn};

/// The first and the longest pause after a start whose gateway did not serve. Each pause is twice the one before.
const FIRST_START_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_START_PAUSE: Duration = Duration::from_secs(300);
/// If a gateway served for this long, the next start is made at once.
const GOOD_SERVICE: Duration = Duration::from_secs(30);
/// If the lock is held and no gateway serves, the lock is checked again after this time, and then less and less often.
const FIRST_LOCK_LOOK: Duration = Duration::from_millis(5);
const LONGEST_LOCK_LOOK: Duration = Duration::from_secs(2);
/// How long a service manager may take to start its gateway again. After that the engine starts one, so that no turn waits for a service
/// that was removed.
const SERVICE_START_LIMIT: Duration = Duration::from_secs(30);

/// A longer log is renamed, as by clients that start a gateway.
const MAX_GATEWAY_LOG_BYTES: u64 = 1 << 20;

/// The engine, as the starter sees it.
pub trait GatewayFacts: Send + 'static {
    /// Waits until the answer of another method may have changed. False if the engine ends.
    fn changed(&mut self) -> impl Future<Output = bool> + Send;
    /// Whether a gateway serves the home.
    fn is_serving(&self) -> bool;
    /// Whether a notice is open for a conversation of a gateway.
    fn has_notices(&self) -> impl Future<Output = io::Result<bool>> + Send;
    /// Keeps an idle engine from ending, or no longer.
    fn keep_awake(&mut self, is_awake: bool);
}

/// The gateway program to start, and its home.
#[derive(Debug, Clone)]
pub struct GatewayProgram {
    /// The home of the engine and the gateway.
    pub home: PathBuf,
    /// The program `outlast-gateway`.
    pub program: PathBuf,
    /// Its whole environment.
    pub env: Vec<(std::ffi::OsString, std::ffi::OsString)>,
}

/// The state of the gateway's lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LockState {
    Held,
    AtWork,
    /// As `AtWork`, but a service manager starts it again.
    Service,
    Empty,
    Stopped,
}

/// What [`start_gateways`] does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StartRule {
    /// A gateway serves, or none is needed: decide again after the next change.
    Nothing,
    /// A gateway holds the lock and does not serve. It is starting or ending, and no event says when it has.
    LookSoon,
    /// Start one.
    Start,
    /// Start one, unless a service manager does.
    StartLater,
}

/// Starts gateways until the engine ends.
pub async fn start_gateways(of: GatewayProgram, mut facts: impl GatewayFacts) {
    let mut pauses = StartPauses::default();
    let mut look_after = FIRST_LOCK_LOOK;
    let mut service = ServiceWait::default();
    loop {
        pauses.note(facts.is_serving(), Instant::now());
        let rule = service.apply(rule(&of.home, &facts).await, Instant::now());
        facts.keep_awake(rule != StartRule::Nothing);
        let look_at = match rule {
            StartRule::Nothing => None,
            StartRule::LookSoon => {
                look_after = (look_after * 2).min(LONGEST_LOCK_LOOK);
                Some(Instant::now() + look_after)
            }
            StartRule::StartLater => service.until,
            StartRule::Start => match pauses.until.filter(|until| *until > Instant::now()) {
                Some(until) => Some(until),
                None => {
                    start(&of);
                    pauses.started(Instant::now());
                    // The pause gives it time to take the lock.
                    pauses.until
                }
            },
        };
        if rule != StartRule::LookSoon {
            look_after = FIRST_LOCK_LOOK;
        }
        let is_open = match look_at {
            None => facts.changed().await,
            Some(at) => tokio::select! {
                is_open = facts.changed() => is_open,
                () = tokio::time::sleep_until(at) => true,
            },
        };
        if !is_open {
            return;
        }
    }
}

/// The pauses between starts.
#[derive(Debug)]
struct StartPauses {
    pause: Duration,
    /// No start is made before this time.
    until: Option<Instant>,
    serving_since: Option<Instant>,
}

impl Default for StartPauses {
    fn default() -> Self {
        Self { pause: FIRST_START_PAUSE, until: None, serving_since: None }
    }
}

impl StartPauses {
    fn started(&mut self, now: Instant) {
        self.until = Some(now + self.pause);
        self.pause = (self.pause * 2).min(LONGEST_START_PAUSE);
    }

    /// Resets the pauses if a gateway served for long enough.
    fn note(&mut self, is_serving: bool, now: Instant) {
        match (is_serving, self.serving_since) {
            (true, None) => self.serving_since = Some(now),
            (false, Some(since)) => {
                self.serving_since = None;
                if now.duration_since(since) >= GOOD_SERVICE {
                    *self = Self::default();
                }
            }
            (true, Some(_)) | (false, None) => {}
        }
    }
}

/// How long the engine waits for a service manager.
#[derive(Debug, Default)]
struct ServiceWait {
    until: Option<Instant>,
}

impl ServiceWait {
    /// Turns `StartLater` into `Start` once the service manager's time is over.
    fn apply(&mut self, rule: StartRule, now: Instant) -> StartRule {
        if rule != StartRule::StartLater {
            self.until = None;
            return rule;
        }
        let until = *self.until.get_or_insert(now + SERVICE_START_LIMIT);
        if until <= now { StartRule::Start } else { rule }
    }
}

async fn rule(home: &Path, facts: &impl GatewayFacts) -> StartRule {
    if facts.is_serving() || !home.join("gateway.db").exists() {
        return StartRule::Nothing;
    }
    match lock_state(home) {
        LockState::Held => StartRule::LookSoon,
        LockState::Stopped => StartRule::Nothing,
        LockState::AtWork => StartRule::Start,
        LockState::Service => StartRule::StartLater,
        // If the index cannot be read, it is asked again after the next change.
        LockState::Empty => match facts.has_notices().await.unwrap_or(false) {
            true => StartRule::Start,
            false => StartRule::Nothing,
        },
    }
}

fn lock_state(home: &Path) -> LockState {
    let path = home.join("gateway.lock");
    let Ok(file) = File::open(&path) else { return LockState::Empty };
    if flock(&file, FlockOperation::NonBlockingLockShared).is_err() {
        return LockState::Held;
    }
    match std::fs::read_to_string(&path).unwrap_or_default().trim() {
        "at work" => LockState::AtWork,
        "service" => LockState::Service,
        "stopped" => LockState::Stopped,
        _ => LockState::Empty,
    }
}

/// Starts a gateway, which detaches itself. Its connection to the engine shows whether it serves.
fn start(of: &GatewayProgram) {
    let started = log(&of.home).and_then(|log| {
        let mut command = Command::new(&of.program);
        command
            .arg("--home")
            .arg(&of.home)
            .args(["--detach", "--unless-stopped"])
            .env_clear()
            .envs(of.env.iter().cloned())
            .current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn()
    });
    match started {
        Ok(mut child) => {
            info!(program = %of.program.display(), "started a gateway");
            // This child exits at once; the gateway is its child.
            tokio::task::spawn_blocking(move || drop(child.wait()));
        }
        Err(error) => warn!(program = %of.program.display(), %error, "a gateway cannot be started"),
    }
}

fn log(home: &Path) -> io::Result<File> {
    let path = home.join("gateway.log");
    if std::fs::metadata(&path).is_ok_and(|found| found.len() > MAX_GATEWAY_LOG_BYTES) {
        std::fs::rename(&path, home.join("gateway.log.old"))?;
    }
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_says_whether_a_gateway_is_due() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(lock_state(home.path()), LockState::Empty);
        let path = home.path().join("gateway.lock");
        let states = [
            ("", LockState::Empty),
            ("at work\n", LockState::AtWork),
            ("service\n", LockState::Service),
            ("stopped\n", LockState::Stopped),
        ];
        for (text, state) in states {
            std::fs::write(&path, text).unwrap();
            assert_eq!(lock_state(home.path()), state, "{text:?}");
        }
        let held = File::open(&path).unwrap();
        flock(&held, FlockOperation::LockExclusive).unwrap();
        assert_eq!(lock_state(home.path()), LockState::Held);
    }

    struct Facts {
        has_notices: bool,
    }

    impl GatewayFacts for Facts {
        async fn changed(&mut self) -> bool {
            false
        }
        fn is_serving(&self) -> bool {
            false
        }
        async fn has_notices(&self) -> io::Result<bool> {
            Ok(self.has_notices)
        }
        fn keep_awake(&mut self, _: bool) {}
    }

    #[tokio::test]
    async fn a_gateway_is_started_where_one_was_and_no_person_stopped_it() {
        let home = tempfile::tempdir().unwrap();
        let ruled = async |word: &str, has_notices| {
            std::fs::write(home.path().join("gateway.lock"), word).unwrap();
            rule(home.path(), &Facts { has_notices }).await
        };
        assert_eq!(ruled("at work", true).await, StartRule::Nothing, "there is no gateway.db");
        std::fs::write(home.path().join("gateway.db"), "").unwrap();
        for (word, has_notices, wanted) in [
            ("at work", false, StartRule::Start),
            ("at work", true, StartRule::Start),
            ("service", false, StartRule::StartLater),
            ("", false, StartRule::Nothing),
            ("", true, StartRule::Start),
            ("stopped", false, StartRule::Nothing),
            ("stopped", true, StartRule::Nothing),
        ] {
            assert_eq!(ruled(word, has_notices).await, wanted, "{word:?} {has_notices}");
        }
        let held = File::open(home.path().join("gateway.lock")).unwrap();
        flock(&held, FlockOperation::LockExclusive).unwrap();
        assert_eq!(ruled("at work", true).await, StartRule::LookSoon, "it ends or starts");
    }

    #[test]
    fn a_service_manager_has_its_time_to_start_a_gateway() {
        let (mut wait, now) = (ServiceWait::default(), Instant::now());
        assert_eq!(wait.apply(StartRule::StartLater, now), StartRule::StartLater);
        assert_eq!(wait.apply(StartRule::StartLater, now + SERVICE_START_LIMIT), StartRule::Start);
        assert_eq!(wait.apply(StartRule::LookSoon, now), StartRule::LookSoon, "it starts one");
        assert_eq!(wait.apply(StartRule::StartLater, now + SERVICE_START_LIMIT), StartRule::StartLater, "that one has ended, too");
    }

    #[test]
    fn pauses_grow_until_a_gateway_served_well() {
        let mut pauses = StartPauses::default();
        let mut now = Instant::now();
        let mut waits = Vec::new();
        for _ in 0..11 {
            pauses.started(now);
            waits.push(pauses.until.unwrap().duration_since(now).as_secs());
            pauses.note(true, now);
            now += Duration::from_secs(1);
            pauses.note(false, now);
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        pauses.note(true, now);
        pauses.note(false, now + GOOD_SERVICE);
        assert_eq!((pauses.until, pauses.pause), (None, FIRST_START_PAUSE));
    }
}
