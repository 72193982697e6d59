//! The lock of a home's gateway, and the word in it: whether the engine may start the next gateway.
//!
//! Decisions 204 and 241: docs/decisions/gateway.md.

use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

/// How long a lock that others share is waited for. Clients and the engine look at it for an instant, a program that reads conversations until it has read them.
const LOCK_LIMIT: Duration = Duration::from_secs(30);
/// How long between two tries for the lock. A wait for it could not be bounded.
const LOCK_RETRY: Duration = Duration::from_millis(5);

/// What the lock says in place of `at work` if a service manager starts the gateway again.
const SERVICE_WORD: &str = "service\n";

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

/// The lock of a home's gateway. It is held for as long as the gateway lives.
pub(crate) struct GatewayLock {
    file: File,
    is_service: bool,
}

impl GatewayLock {
    /// Takes the lock. `None`: another gateway has it. Waiting for that one would be wrong: a person may stop it, and then it stays stopped.
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
        // Overwritten and then cut, so that a crash between the two never leaves an empty lock where one said `at work`.
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

/// Keeps the engine from starting a gateway in place of one that died or asked to be started again: a person stops the gateway.
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

/// Shares the lock to read the files: a gateway that starts waits for it. `None`: a gateway runs.
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

/// Whether a program holds a lock for itself. A missing lock is held by none.
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
