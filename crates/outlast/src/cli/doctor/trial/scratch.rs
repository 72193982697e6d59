//! The scratch home of a trial: created beside the user's home, and removed with everything that runs in it.

use crate::config::TRIAL_LOCK;
use crate::os;
use outlast_client::{Client, Connect, Kill, Scope, Start};
use rustix::fs::{FlockOperation, flock};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The prefix of the directory's name; a number follows.
const PREFIX: &str = ".outlast-doctor-";
/// How long the engine of a scratch home may take to stop what runs there and to exit.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// How long processes that were killed may take to be gone.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// Give up after other doctors had taken this many names.
const MAX_NAMES: u32 = 100;

/// A scratch home. While its lock is held, the doctor that made it is alive.
#[derive(Debug)]
pub(super) struct Scratch {
    pub(super) home: PathBuf,
    _lock: File,
}

/// Why no scratch home could be made.
#[derive(Debug)]
pub(in super::super) struct NotMade {
    pub(in super::super) dir: PathBuf,
    pub(in super::super) error: io::Error,
}

impl Scratch {
    /// Creates one in the parent directory of `home`, so that the trial is on the same file system. If `home` is a mount of its own, or its
    /// parent cannot be written, the scratch home is in `home` itself.
    pub(super) fn make(home: &Path) -> Result<Self, NotMade> {
        let mut dirs = places(home).into_iter();
        let (mut refused, mut next) = (None, dirs.next());
        while let Some(dir) = next {
            match Self::make_in(&dir) {
                Ok(made) => return Ok(made),
                Err(error) => refused = refused.or(Some(NotMade { dir, error })),
            }
            next = dirs.next();
        }
        Err(refused.unwrap_or_else(|| NotMade { dir: home.to_owned(), error: io::ErrorKind::NotFound.into() }))
    }

    fn make_in(dir: &Path) -> io::Result<Self> {
        for number in 0..MAX_NAMES {
            let home = dir.join(format!("{PREFIX}{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&home) {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(e) => return Err(e),
            }
            match lock(&home) {
                Ok(Some(lock)) => return Ok(Self { home, _lock: lock }),
                // In the moment before it was locked, another doctor took it for abandoned, and removes it.
                Ok(None) => {}
                Err(e) => {
                    let _removed = std::fs::remove_dir_all(&home);
                    return Err(e);
                }
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Stops everything that runs in it, and removes it.
    pub(super) async fn remove(self, program: &Path) -> io::Result<()> {
        stop_all(&self.home, program).await;
        std::fs::remove_dir_all(&self.home)
    }
}

/// Removes scratch homes whose doctor was killed.
pub(super) async fn remove_abandoned(home: &Path, program: &Path) {
    for dir in places(home) {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            if is_abandoned(&entry)
                && let Ok(Some(lock)) = lock(&entry.path())
            {
                let abandoned = Scratch { home: entry.path(), _lock: lock };
                // The next doctor tries again.
                let _removed = abandoned.remove(program).await;
            }
        }
    }
}

/// Whether it is a directory of this user with the name of a scratch home. Whether it is in use, its lock decides.
fn is_abandoned(entry: &std::fs::DirEntry) -> bool {
    let is_ours = |meta: &std::fs::Metadata| meta.is_dir() && meta.uid() == rustix::process::geteuid().as_raw();
    entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX)) && entry.metadata().is_ok_and(|meta| is_ours(&meta))
}

/// Where a scratch home of `home` may be, the best place first.
fn places(home: &Path) -> Vec<PathBuf> {
    let device = |path: &Path| std::fs::metadata(path).map(|m| m.dev()).ok();
    let beside = home.parent().filter(|dir| !home.exists() || device(dir) == device(home));
    beside.map(Path::to_owned).into_iter().chain(home.is_dir().then(|| home.to_owned())).collect()
}

/// Takes the lock of a scratch home. None if another doctor holds it, or has removed the directory.
fn lock(home: &Path) -> io::Result<Option<File>> {
    let file = match OpenOptions::new().create(true).append(true).mode(0o600).open(home.join(TRIAL_LOCK)) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok((file.metadata()?.nlink() > 0).then_some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// Stops the processes and the engine of a scratch home. Asks its engine first; if that fails, kills what is left.
async fn stop_all(home: &Path, program: &Path) {
    // Without this link no engine ever ran there.
    if home.join("run").symlink_metadata().is_err() && os::processes_of(home).is_empty() {
        return;
    }
    let asked = tokio::time::timeout(STOP_TIMEOUT, ask_to_stop(home, program)).await;
    let is_stopped = matches!(asked, Ok(Ok(()))) && gone(home, STOP_TIMEOUT);
    if !is_stopped {
        for pid in os::processes_of(home) {
            // A process that cannot be killed is waited for below.
            let _killed = os::kill_now(pid, || os::processes_of(home).contains(&pid), KILL_TIMEOUT);
        }
        gone(home, KILL_TIMEOUT);
        // A new engine removes what is left outside of the home, such as sockets and cgroups.
        let _stopped = tokio::time::timeout(STOP_TIMEOUT, ask_to_stop(home, program)).await;
        gone(home, KILL_TIMEOUT);
    }
}

async fn ask_to_stop(home: &Path, program: &Path) -> Result<(), outlast_client::ClientError> {
    let mut to = Connect::to(home);
    to.start = Start::OnDemand { program: program.to_owned() };
    let client = Client::connect(&to).await?;
    client.kill_all(&Scope::default(), Kill::at_once()).await?;
    client.engine_stop().await.map(|_| ())
}

/// Waits until nothing runs in a home, up to the time limit. Returns whether that is so.
fn gone(home: &Path, at_most: Duration) -> bool {
    let until = Instant::now() + at_most;
    loop {
        let left = os::processes_of(home);
        let (Some(pid), rest) = (left.first(), until.saturating_duration_since(Instant::now())) else { return true };
        if rest.is_zero() {
            return false;
        }
        os::wait_for_end(*pid, rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_what_no_doctor_holds_is_removed() {
        let tmp = tempfile::tempdir().unwrap();
        let home = tmp.path().join("home");
        std::fs::create_dir(&home).unwrap();
        let program = Path::new("/no/such/outlast");
        let held = Scratch::make(&home).unwrap();
        assert_eq!(held.home.parent(), Some(tmp.path()), "beside the home");
        let second = Scratch::make(&home).unwrap();
        assert_ne!(held.home, second.home);
        let abandoned = second.home.clone();
        std::fs::write(abandoned.join("engine.log"), "words").unwrap();
        drop(second);
        let unlocked = tmp.path().join(format!("{PREFIX}1-0"));
        std::fs::create_dir(&unlocked).unwrap();
        let file = tmp.path().join(format!("{PREFIX}notes"));
        std::fs::write(&file, "").unwrap();
        let link = tmp.path().join(format!("{PREFIX}link"));
        std::os::unix::fs::symlink(&home, &link).unwrap();
        remove_abandoned(&home, program).await;
        assert!(!abandoned.exists() && !unlocked.exists());
        assert!(held.home.exists() && file.exists() && link.symlink_metadata().is_ok() && home.exists());
        let path = held.home.clone();
        held.remove(program).await.unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn a_home_that_is_a_mount_of_its_own_has_it_inside() {
        // /proc is a mount of its own wherever Linux runs.
        assert_eq!(places(Path::new("/proc")), [Path::new("/proc")]);
        assert_eq!(places(Path::new("/nowhere/home")), [Path::new("/nowhere")]);
        let refused = Scratch::make(Path::new("/proc")).unwrap_err();
        assert_eq!(refused.dir, Path::new("/proc"));
    }
}
