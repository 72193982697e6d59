//! Starting a gateway: after one died or asked to be started again, and when a notice is open for a conversation.
//!
//! The rule looks at the state and not at an event, so no wake-up can be missed: *the lock is free, and it says `at work` or a notice is open for a gateway*. Only
//! where there is a `gateway.db`, and not where a person stopped the gateway.

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

/// The first pause after a start that did not lead to a gateway that serves, and the longest. Each is twice the one before.
const FIRST_START_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_START_PAUSE: Duration = Duration::from_secs(300);
/// A gateway that served for this long was a good one: the next start is made at once.
const GOOD_SERVICE: Duration = Duration::from_secs(30);
/// How long a gateway that was started may take to serve before it is looked at again.
const SERVE_LIMIT: Duration = Duration::from_secs(30);
/// How often the lock of a gateway that was started is looked at until it serves. No descriptor tells of a lock.
const LOCK_CHECK_PERIOD: Duration = Duration::from_millis(250);
/// A log longer than this is set aside.
const MAX_GATEWAY_LOG_BYTES: u64 = 8 << 20;

/// The engine, as the starter sees it.
pub trait GatewayFacts: Send + 'static {
    /// Waits until one of the other answers may be another. False: the engine ends.
    fn changed(&mut self) -> impl Future<Output = bool> + Send;
    /// Whether a gateway serves the home.
    fn is_serving(&self) -> bool;
    /// Whether a notice is open for a conversation of gateways.
    fn has_notices(&self) -> impl Future<Output = io::Result<bool>> + Send;
    /// Keeps the engine from ending for want of something to do, or no longer.
    fn keep_awake(&mut self, is_awake: bool);
}

/// Which gateway is started, and where.
#[derive(Debug, Clone)]
pub struct GatewayProgram {
    /// The home.
    pub home: PathBuf,
    /// The program `outlast-gateway`.
    pub program: PathBuf,
    /// The variables that it is given, and no others.
    pub env: Vec<(std::ffi::OsString, std::ffi::OsString)>,
}

/// What the lock of the gateway says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LockState {
    Held,
    AtWork,
    Empty,
    Stopped,
}

/// Starts gateways until the engine ends.
pub async fn start_gateways(of: GatewayProgram, mut facts: impl GatewayFacts) {
    let mut pause = FIRST_START_PAUSE;
    let mut served_since: Option<Instant> = None;
    let mut start_again_at: Option<Instant> = None;
    loop {
        if facts.is_serving() {
            served_since.get_or_insert_with(Instant::now);
            start_again_at = None;
        } else if let Some(since) = served_since.take()
            && since.elapsed() >= GOOD_SERVICE
        {
            pause = FIRST_START_PAUSE;
        }
        let is_due = !facts.is_serving() && is_due(&of.home, &facts).await;
        facts.keep_awake(is_due);
        if !is_due {
            if !facts.changed().await {
                return;
            }
            continue;
        }
        if let Some(at) = start_again_at.filter(|at| *at > Instant::now()) {
            tokio::select! {
                () = tokio::time::sleep_until(at) => {}
                is_open = facts.changed() => if !is_open { return },
            }
            continue;
        }
        start(&of);
        start_again_at = Some(Instant::now() + pause);
        pause = (pause * 2).min(LONGEST_START_PAUSE);
        if !wait_for_service(&of.home, &mut facts).await {
            return;
        }
    }
}

/// Waits until a gateway that was started serves, or has let go of its lock. False: the engine ends.
async fn wait_for_service(home: &Path, facts: &mut impl GatewayFacts) -> bool {
    let until = Instant::now() + SERVE_LIMIT;
    let mut was_held = false;
    while !facts.is_serving() && Instant::now() < until {
        let is_held = lock_state(home) == LockState::Held;
        if was_held && !is_held {
            return true;
        }
        was_held |= is_held;
        tokio::select! {
            is_open = facts.changed() => if !is_open { return false },
            () = tokio::time::sleep(LOCK_CHECK_PERIOD) => {}
        }
    }
    true
}

async fn is_due(home: &Path, facts: &impl GatewayFacts) -> bool {
    if !home.join("gateway.db").exists() {
        return false;
    }
    match lock_state(home) {
        LockState::Held | LockState::Stopped => false,
        LockState::AtWork => true,
        // An index that cannot be read is asked again with the next change.
        LockState::Empty => facts.has_notices().await.unwrap_or(false),
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
        "stopped" => LockState::Stopped,
        _ => LockState::Empty,
    }
}

/// Starts a gateway, which detaches itself. Whether it serves is seen by its connection.
fn start(of: &GatewayProgram) {
    let started = log(&of.home).and_then(|log| {
        let mut command = Command::new(&of.program);
        command.arg("--home").arg(&of.home).arg("--detach").env_clear().envs(of.env.iter().cloned()).current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn()
    });
    match started {
        Ok(mut child) => {
            info!(program = %of.program.display(), "started a gateway");
            // What was started ends at once: the gateway is a child of it.
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
        for (text, state) in [("", LockState::Empty), ("at work\n", LockState::AtWork), ("stopped\n", LockState::Stopped)] {
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
        let due = async |word: &str, has_notices| {
            std::fs::write(home.path().join("gateway.lock"), word).unwrap();
            is_due(home.path(), &Facts { has_notices }).await
        };
        assert!(!due("at work", true).await, "there is no gateway.db");
        std::fs::write(home.path().join("gateway.db"), "").unwrap();
        assert!(due("at work", false).await && due("at work", true).await);
        assert!(!due("", false).await && due("", true).await);
        assert!(!due("stopped", false).await && !due("stopped", true).await);
    }
}
