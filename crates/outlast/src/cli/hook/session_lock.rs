//! A lock of a session: one hook at a time wakes its agent.
//!
//! A hook checks whether the agent has the notice, and then delivers it. A hook outlives an engine that is killed, and the next engine runs
//! another one. If both check at the same time, both deliver. So the second waits for the first, and then finds what it delivered.

use super::super::Failure;
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The directory of the lock files in the home.
const DIR: &str = "hooks";

/// The right to deliver to a session, until it is dropped. If its holder is killed, the kernel releases it.
#[derive(Debug)]
pub(super) struct SessionLock {
    /// None if there is no home, and so no other hook.
    held: Option<(File, PathBuf)>,
}

impl SessionLock {
    /// Waits for the lock of this session, up to the time limit.
    pub(super) async fn acquire(home: &Path, session: &str, within: Duration) -> Result<Self, Failure> {
        if !home.exists() {
            return Ok(Self { held: None });
        }
        let cannot = |e: io::Error| Failure::fault(format!("cannot lock session {session:?} for waking: {e}"), "it is tried again");
        let path = file(home, "telling", session).map_err(cannot)?;
        let (granted, held) = tokio::sync::oneshot::channel();
        // In a thread of its own, which is left behind if the time limit passes.
        std::thread::spawn(move || granted.send(hold(path)));
        match tokio::time::timeout(within, held).await {
            Ok(Ok(held)) => Ok(Self { held: Some(held.map_err(cannot)?) }),
            Ok(Err(_)) => Err(cannot(io::Error::other("the lock was not granted"))),
            Err(_) => {
                Err(Failure::fault(format!("another program has been waking session {session:?} for {within:?}"), "it is tried again"))
            }
        }
    }
}

impl Drop for SessionLock {
    fn drop(&mut self) {
        if let Some((_file, path)) = &self.held {
            // Removed while the lock is held: a hook that waits for it finds it gone, and makes a new file.
            let _gone = fs::remove_file(path);
        }
    }
}

/// The file of a session, in a directory that only its owner may enter.
pub(super) fn file(home: &Path, what: &str, session: &str) -> io::Result<PathBuf> {
    let dir = home.join(DIR);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
    let name = ring::digest::digest(&ring::digest::SHA256, session.as_bytes());
    let name: String = name.as_ref().iter().take(16).map(|b| format!("{b:02x}")).collect();
    Ok(dir.join(format!("{what}-{name}")))
}

fn hold(path: PathBuf) -> io::Result<(File, PathBuf)> {
    loop {
        let file = File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path)?;
        loop {
            match flock(&file, FlockOperation::LockExclusive) {
                Err(rustix::io::Errno::INTR) => {}
                done => break done?,
            }
        }
        // The last holder removed the file, and another hook may have made a new one.
        let is_it = |meta: fs::Metadata| file.metadata().is_ok_and(|own| (own.dev(), own.ino()) == (meta.dev(), meta.ino()));
        if fs::metadata(&path).is_ok_and(is_it) {
            return Ok((file, path));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    #[tokio::test(flavor = "multi_thread")]
    async fn there_is_one_at_a_time_and_nothing_is_left() {
        let tmp = tempfile::tempdir().unwrap();
        let (inside, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let mut all = tokio::task::JoinSet::new();
        for _ in 0..16 {
            let (home, inside, most) = (tmp.path().to_owned(), inside.clone(), most.clone());
            all.spawn(async move {
                let lock = SessionLock::acquire(&home, "s", Duration::from_secs(60)).await.unwrap();
                most.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
                tokio::task::yield_now().await;
                inside.fetch_sub(1, SeqCst);
                drop(lock);
            });
        }
        while all.join_next().await.transpose().unwrap().is_some() {}
        assert_eq!(most.load(SeqCst), 1);
        assert_eq!(fs::read_dir(tmp.path().join(DIR)).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn another_session_does_not_wait_and_no_hook_waits_for_ever() {
        let tmp = tempfile::tempdir().unwrap();
        let within = Duration::from_millis(50);
        let _one = SessionLock::acquire(tmp.path(), "a", within).await.unwrap();
        let _other = SessionLock::acquire(tmp.path(), "b", within).await.unwrap();
        assert!(SessionLock::acquire(tmp.path(), "a", within).await.unwrap_err().error().contains("another program"));
        assert!(SessionLock::acquire(&tmp.path().join("none"), "a", within).await.unwrap().held.is_none());
    }
}
