//! Whether the home is still the directory that the engine locked.
//!
//! A home can be removed, renamed or replaced under a running engine. No path leads to the engine's lock and index then, and another engine
//! may serve the path. Commits from then on would be lost, so the engine accepts nothing more and ends.
//!
//! Decision 160: docs/decisions/store.md.

use crate::closing::{Closing, Shutdown};
use crate::mutex::lock;
use crate::os::Watch;
use outlast_store::dir::{FileId, Home};
use outlast_wire::v1::LockHolder;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::sync::watch;

/// How often the engine checks for changes that inotify does not report: a rename of a parent directory, or a mount over the home.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// The lock and the index that this engine opened, and the paths where they must still be.
#[derive(Debug)]
pub(crate) struct OwnHome {
    home: Home,
    lock: FileId,
    /// The lock file, held until everything is written.
    held: Mutex<Option<File>>,
    index: OnceLock<FileId>,
    lost: watch::Sender<bool>,
}

impl OwnHome {
    /// For the home whose `lock` is held.
    pub(crate) fn new(home: &Home, lock: File) -> io::Result<Self> {
        let id = FileId::of(&lock.metadata()?);
        Ok(Self { home: home.clone(), lock: id, held: Mutex::new(Some(lock)), index: OnceLock::new(), lost: watch::Sender::new(false) })
    }

    /// Records the opened index. From now on it must stay at its path.
    pub(crate) fn index_opened(&self) -> io::Result<()> {
        let index = FileId::at(&self.home.index())?;
        self.index.get_or_init(|| index);
        Ok(())
    }

    /// Checks whether the home was removed or replaced. Once it is lost, it stays lost for this engine.
    pub(crate) fn is_lost(&self) -> bool {
        if *self.lost.borrow() {
            return true;
        }
        let lost = match at(self.home.lock()) {
            AtPath::Nothing => true,
            AtPath::Unknown => false,
            AtPath::File(lock) if lock == self.lock => self.index.get().is_some_and(|index| match at(self.home.index()) {
                AtPath::Nothing => true,
                AtPath::Unknown => false,
                AtPath::File(found) => found != *index,
            }),
            // Some network and shared file systems return a different inode number each time. The file is ours if it is locked in our name.
            AtPath::File(_) => !self.is_locked_by_us(),
        };
        if lost {
            self.lost.send_replace(true);
        }
        lost
    }

    fn is_locked_by_us(&self) -> bool {
        let holder = std::fs::read(self.home.lock_holder()).ok().and_then(|text| serde_json::from_slice::<LockHolder>(&text).ok());
        let us = LockHolder::new(std::process::id(), crate::os::namespaces());
        holder == Some(us) && outlast_store::lock::is_held(&self.home.lock()).unwrap_or(true)
    }

    /// Returns once a check has found that the home is lost.
    pub(crate) fn lost(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut lost = self.lost.subscribe();
        async move {
            // The sender is dropped with the engine. There is nothing to lose then.
            if lost.wait_for(|lost| *lost).await.is_err() {
                std::future::pending().await
            }
        }
    }

    /// Releases the home for the next engine, once everything is written.
    pub(crate) fn release(&self) {
        if let Some(file) = lock(&self.held).take() {
            // A program that is being started right now may hold a copy of the descriptor until its exec. That must not keep the home
            // locked.
            let _free = rustix::fs::flock(&file, rustix::fs::FlockOperation::Unlock);
        }
    }

    /// Whether nothing is at the home's path, so that no other engine can serve it.
    pub(crate) fn is_removed(&self) -> bool {
        std::fs::symlink_metadata(&self.home.root).is_err_and(|e| e.kind() == io::ErrorKind::NotFound)
    }
}

/// The file at a path.
enum AtPath {
    File(FileId),
    Nothing,
    /// The file could not be examined, which proves nothing.
    Unknown,
}

fn at(path: PathBuf) -> AtPath {
    match FileId::at(&path) {
        Ok(found) => AtPath::File(found),
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => AtPath::Nothing,
        Err(_) => AtPath::Unknown,
    }
}

/// Checks the home whenever its lock, its index or the home itself is removed or moved, until the engine ends.
pub(crate) async fn watch(home: Home, own_home: Arc<OwnHome>, closing: Shutdown) {
    let paths = [home.lock(), home.index(), home.root.clone()];
    let watch = Watch::for_loss_of(&paths).map_err(|error| tracing::warn!(%error, "the home is not watched")).ok();
    let mut stopping = std::pin::pin!(closing.reached(Closing::Stopping));
    while !own_home.is_lost() {
        tokio::select! {
            () = &mut stopping => return,
            true = crate::os::changed(watch.as_ref()) => {}
            () = tokio::time::sleep(LOOK_AGAIN) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_that_was_removed_or_replaced_is_lost_for_good() {
        let tmp = tempfile::tempdir().unwrap();
        let home = Home::new(tmp.path().join("home"));
        home.create().unwrap();
        std::fs::write(home.index(), "").unwrap();
        let own = || {
            let lock = File::create(home.lock()).unwrap();
            let own = OwnHome::new(&home, lock).unwrap();
            own.index_opened().unwrap();
            own
        };
        let away = tmp.path().join("away");
        let (moved, index) = (own(), own());
        assert!(!moved.is_lost());
        std::fs::rename(&home.root, &away).unwrap();
        assert!(moved.is_lost() && moved.is_removed());
        std::fs::rename(&away, &home.root).unwrap();
        assert!(moved.is_lost(), "it has accepted nothing since, and does not begin again");
        assert!(!moved.is_removed());
        // A copy with the same contents is another file.
        assert!(!index.is_lost());
        std::fs::copy(home.index(), home.root.join("copy")).unwrap();
        std::fs::rename(home.root.join("copy"), home.index()).unwrap();
        assert!(index.is_lost());
    }

    #[test]
    fn a_lock_under_another_number_is_ours_while_it_is_held_in_our_name() {
        let tmp = tempfile::tempdir().unwrap();
        let home = Home::new(tmp.path().join("home"));
        home.create().unwrap();
        let (lock, other) = (File::create(home.lock()).unwrap(), File::create(tmp.path().join("other")).unwrap());
        let own = || OwnHome::new(&home, other.try_clone().unwrap()).unwrap();
        let us = LockHolder::new(std::process::id(), crate::os::namespaces());
        std::fs::write(home.lock_holder(), serde_json::to_vec(&us).unwrap()).unwrap();
        assert!(own().is_lost(), "not held: a copy of the home");
        assert!(outlast_store::lock::try_hold(&lock).unwrap());
        assert!(!own().is_lost());
        std::fs::write(home.lock_holder(), serde_json::to_vec(&LockHolder::new(us.pid + 1, us.namespaces)).unwrap()).unwrap();
        assert!(own().is_lost(), "another engine holds it");
    }
}
