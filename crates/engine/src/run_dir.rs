//! The directory of the sockets: a short path, on a tmpfs if there is one, closed to other users. The home itself if there is no other
//! place.
//!
//! It is chosen once and remembered as the link `run` in the home, because the keepers of running processes have their sockets there.

use crate::bytes::hex;
use outlast_core::ProcessId;
use outlast_store::dir::Home;
use sha2::{Digest, Sha256};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};
use tokio::sync::{Semaphore, SemaphorePermit};

/// The longest path in a socket address, in bytes.
const ADDRESS: usize = 107;
/// The engine's own socket.
pub(crate) const ENGINE: &str = "engine";
/// The longest name in the directory: a process id.
const LONGEST_NAME: usize = "proc_000000000000".len();

/// How many keepers are connected to at the same time after a start.
const CONNECTS: usize = 32;

/// Why no directory for sockets was found.
#[derive(Debug, thiserror::Error)]
#[error("no directory for sockets could be made: {}; set XDG_RUNTIME_DIR to a directory that is yours alone and has a short path", .tried.join("; "))]
#[non_exhaustive]
pub struct NoRunDir {
    /// The directories that were tried, and what was wrong with each.
    pub tried: Vec<String>,
}

/// The first digits of the hash of a home's path, which distinguish homes in shared directories.
pub(crate) fn tag(home: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let real = std::fs::canonicalize(home).unwrap_or_else(|_| home.to_owned());
    hex(&Sha256::digest(real.as_os_str().as_bytes())[..4])
}

/// The directory for the sockets of `home`: the one it had, if that is still usable; else the first usable one of `candidates`; else one in
/// the home. The caller holds the home's lock.
pub(crate) fn choose(home: &Home, candidates: &[PathBuf]) -> Result<PathBuf, NoRunDir> {
    let link = home.run_link();
    let mut tried = Vec::new();
    if let Ok(remembered) = std::fs::read_link(&link) {
        match ours(home, &remembered).and_then(|()| remembered.parent().map_or(Ok(()), check_level)).and_then(|()| check(&remembered)) {
            Ok(()) => return Ok(remembered),
            Err(what) => tried.push(what),
        }
    }
    let uid = rustix::process::geteuid().as_raw();
    for candidate in candidates {
        let ours = candidate.join(format!("outlast-{uid}"));
        let dir = ours.join(tag(&home.root));
        let made = fits(&dir).and_then(|()| make(&ours)).and_then(|()| make(&dir)).and_then(|()| remember(&link, &dir));
        match made {
            Ok(()) => return Ok(dir),
            Err(what) => tried.push(what),
        }
    }
    // No other user can take a name in the home. It comes last because its path may be long, and sockets on a disk outlive a reboot.
    let dir = home.run_dir();
    match fits(&dir).and_then(|()| make(&dir)).and_then(|()| remember(&link, &dir)) {
        Ok(()) => return Ok(dir),
        Err(what) => tried.push(what),
    }
    Err(NoRunDir { tried })
}

/// The sockets of an engine and of the keepers of its home.
#[derive(Debug)]
pub(crate) struct Sockets {
    home: Home,
    candidates: Vec<PathBuf>,
    dir: RwLock<PathBuf>,
    /// A permit for each keeper that may be connected to at the same time after a start.
    connects: Semaphore,
}

impl Sockets {
    pub(crate) fn new(home: &Home, candidates: &[PathBuf]) -> Result<Self, NoRunDir> {
        let dir = RwLock::new(choose(home, candidates)?);
        Ok(Self { home: home.clone(), candidates: candidates.to_vec(), dir, connects: Semaphore::new(CONNECTS) })
    }

    /// The directory of the sockets. It changes if it is removed, as a logout removes the user's runtime directory.
    pub(crate) fn dir(&self) -> PathBuf {
        self.dir.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Finds a directory for the sockets again.
    pub(crate) fn find_dir(&self) -> Result<PathBuf, NoRunDir> {
        let found = choose(&self.home, &self.candidates)?;
        self.dir.write().unwrap_or_else(PoisonError::into_inner).clone_from(&found);
        Ok(found)
    }

    /// The socket of a keeper.
    pub(crate) fn of(&self, id: ProcessId) -> PathBuf {
        self.dir().join(id.to_string())
    }

    /// A turn to connect, for as long as it is held.
    pub(crate) async fn turn(&self) -> SemaphorePermit<'_> {
        self.connects.acquire().await.expect("the semaphore is never closed")
    }
}

/// A copy of a home remembers the directory of the original, whose sockets are not its own.
fn ours(home: &Home, dir: &Path) -> Result<(), String> {
    match dir.file_name() {
        Some(name) if *name == *tag(&home.root) => Ok(()),
        _ if *dir == home.run_dir() => Ok(()),
        _ => Err(format!("{} is another home's", dir.display())),
    }
}

/// Removes the sockets of processes that have no keepers any more. Keepers that were killed at their very end left them.
pub(crate) fn sweep(dir: &Path, has_keepers: impl Fn(ProcessId) -> bool) {
    let Ok(all) = std::fs::read_dir(dir) else { return };
    for entry in all.flatten() {
        if let Some(id) = entry.file_name().to_str().and_then(|n| n.parse::<ProcessId>().ok())
            && !has_keepers(id)
        {
            // Removed meanwhile by a keeper that was about to leave.
            let _gone = std::fs::remove_file(entry.path());
        }
    }
}

/// Removes the directory if no keeper has its socket there, so that an engine that ends leaves nothing behind. The caller holds the home's
/// lock.
pub(crate) fn leave_behind(dir: &Path) {
    let socket = std::fs::remove_file(dir.join(ENGINE));
    // If the directory lies in the home, the home stays: it is never empty.
    let emptied = std::fs::remove_dir(dir).and_then(|()| dir.parent().map_or(Ok(()), std::fs::remove_dir));
    tracing::trace!(?socket, ?emptied, path = %dir.display(), "left");
}

fn fits(dir: &Path) -> Result<(), String> {
    let len = dir.as_os_str().len() + 1 + LONGEST_NAME;
    if len > ADDRESS { Err(format!("{} is too long for a socket ({len} bytes of {ADDRESS})", dir.display())) } else { Ok(()) }
}

/// Makes a directory that is closed to other users, or accepts one that is.
fn make(dir: &Path) -> Result<(), String> {
    match std::fs::DirBuilder::new().mode(0o700).create(dir) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(format!("cannot make {}: {e}", dir.display())),
    }
    check(dir)
}

fn check(dir: &Path) -> Result<(), String> {
    check_level(dir).and_then(|()| fits(dir))
}

fn check_level(dir: &Path) -> Result<(), String> {
    let shown = dir.display();
    let found = std::fs::symlink_metadata(dir).map_err(|e| format!("cannot look at {shown}: {e}"))?;
    let (mode, owner, you) = (found.mode() & 0o777, found.uid(), rustix::process::geteuid().as_raw());
    match () {
        () if !found.is_dir() => Err(format!("{shown} is not a directory")),
        () if owner != you => Err(format!("{shown} belongs to user {owner}, not to you ({you})")),
        () if mode & 0o022 != 0 => Err(format!("{shown} can be written by others (mode {mode:03o})")),
        () => Ok(()),
    }
}

fn remember(link: &Path, dir: &Path) -> Result<(), String> {
    let new = link.with_extension("new");
    let made = match std::fs::remove_file(&new) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        Ok(()) | Err(_) => std::os::unix::fs::symlink(dir, &new).and_then(|()| std::fs::rename(&new, link)),
    };
    made.map_err(|e| format!("cannot write {}: {e}", link.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn home(root: &Path) -> Home {
        let home = Home::new(root.join("home"));
        home.create().unwrap();
        home
    }

    #[test]
    fn the_place_is_chosen_once() {
        let tmp = tempfile::tempdir().unwrap();
        let home = home(tmp.path());
        let (a, b) = (tmp.path().join("a"), tmp.path().join("b"));
        std::fs::create_dir(&b).unwrap();
        let first = choose(&home, &[a.clone(), b.clone()]).unwrap();
        assert!(first.starts_with(&b));
        std::fs::create_dir(&a).unwrap();
        assert_eq!(choose(&home, &[a.clone(), b.clone()]).unwrap(), first, "a better one that comes later changes nothing");
        std::fs::remove_dir_all(&b).unwrap();
        assert!(choose(&home, &[a.clone(), b]).unwrap().starts_with(&a), "one that is gone is replaced");
        assert_eq!(std::fs::metadata(std::fs::read_link(home.run_link()).unwrap()).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_copied_home_does_not_take_the_directory_of_the_original() {
        let tmp = tempfile::tempdir().unwrap();
        let original = home(tmp.path());
        let candidates = [tmp.path().to_owned()];
        let theirs = choose(&original, &candidates).unwrap();
        let copy = Home::new(tmp.path().join("copy"));
        copy.create().unwrap();
        std::os::unix::fs::symlink(&theirs, copy.run_link()).unwrap();
        let own = choose(&copy, &candidates).unwrap();
        assert_ne!(own, theirs);
        assert_eq!(std::fs::read_link(copy.run_link()).unwrap(), own, "it remembers its own");
        assert_eq!(choose(&original, &candidates).unwrap(), theirs);
    }

    #[test]
    fn a_link_or_an_open_directory_is_not_taken() {
        let tmp = tempfile::tempdir().unwrap();
        let home = home(tmp.path());
        let uid = rustix::process::geteuid().as_raw();
        let [linked, open, good] = ["linked", "open", "good"].map(|n| tmp.path().join(n));
        for dir in [&linked, &open, &good] {
            std::fs::create_dir(dir).unwrap();
        }
        std::os::unix::fs::symlink(&good, linked.join(format!("outlast-{uid}"))).unwrap();
        let trap = open.join(format!("outlast-{uid}"));
        std::fs::create_dir(&trap).unwrap();
        std::fs::set_permissions(&trap, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(choose(&home, &[linked.clone(), open.clone(), good.clone()]).unwrap().starts_with(&good));
        std::fs::remove_file(home.run_link()).unwrap();
        let own = choose(&home, &[linked.clone(), open.clone()]).unwrap();
        assert_eq!(own, home.run_dir(), "no other user can take a name in the home");
        assert_eq!(std::fs::metadata(&own).unwrap().mode() & 0o777, 0o700);
        assert_eq!(choose(&home, &[linked.clone(), open.clone(), good]).unwrap(), own, "it is remembered like any other");
        // If that fails too, the error lists everything that was tried, and what to do.
        std::fs::remove_file(home.run_link()).unwrap();
        std::fs::remove_dir(&own).unwrap();
        std::fs::write(&own, "").unwrap();
        let none = choose(&home, &[linked, open]).unwrap_err().to_string();
        assert!(none.contains("can be written by others") && none.contains("run.d is not a directory"), "{none}");
        assert!(none.contains("XDG_RUNTIME_DIR"), "{none}");
    }

    #[test]
    fn a_path_too_long_for_a_socket_is_told() {
        let tmp = tempfile::tempdir().unwrap();
        let long = tmp.path().join("x".repeat(120));
        std::fs::create_dir(&long).unwrap();
        let home = home(&long);
        assert!(choose(&home, std::slice::from_ref(&long)).unwrap_err().to_string().contains("too long for a socket"));
    }
}
