//! Paths: the home, and one folder for each process.

use crate::points;
use outlast_core::ProcessId;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The prefix of a folder that is being removed. No process has such a name, so an interrupted removal is never taken for a
/// process.
const REMOVED: &str = ".removed";
/// The mark in a folder that is being removed and could not be renamed.
const REMOVED_MARK: &str = "removed";
/// The prefix of the name of a spare folder, which no process uses yet. Folders on disk have this name, so it stays.
pub(crate) const SPARE: &str = ".blank-";
/// Stands in a keeper's command line where the id of its process will be. It has the length of an id, so that the id fits.
pub const UNNAMED: &str = "keepers-yet-to-be";

/// The identity of a file or directory, independent of its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// The file that is at `path` now; links are not followed.
    pub fn at(path: &Path) -> io::Result<Self> {
        std::fs::symlink_metadata(path).map(|found| Self::of(&found))
    }

    /// The file that `meta` describes.
    pub fn of(found: &std::fs::Metadata) -> Self {
        Self { device: found.dev(), inode: found.ino() }
    }
}

/// The directory that holds all data of one engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    /// Its path.
    pub root: PathBuf,
}

impl Home {
    /// The home at `root`, which need not exist yet.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Held by the engine that serves this home.
    pub fn lock(&self) -> PathBuf {
        self.root.join("lock")
    }

    /// Where the engine that holds [`Home::lock`] runs. A file of its own, because keepers of earlier versions expect only a pid in `lock`.
    pub fn lock_holder(&self) -> PathBuf {
        self.root.join("lock.ns")
    }

    /// Held by the client that starts an engine.
    pub fn start_lock(&self) -> PathBuf {
        self.root.join("start.lock")
    }

    /// How many notices waited for the user when the last engine ended. The file exists only while no engine runs.
    pub fn waiting(&self) -> PathBuf {
        self.root.join("waiting")
    }

    /// The engine's database, which can be rebuilt from the folders.
    pub fn index(&self) -> PathBuf {
        self.root.join("index.db")
    }

    /// Copies of programs that must not change while a process runs.
    pub fn bin(&self) -> PathBuf {
        self.root.join("bin")
    }

    /// Snapshots of login shells.
    pub fn shell(&self) -> PathBuf {
        self.root.join("shell")
    }

    /// Known jumps of the clock.
    pub fn clock(&self) -> PathBuf {
        self.root.join("clock")
    }

    /// The engine's log.
    pub fn engine_log(&self) -> PathBuf {
        self.root.join("engine.log")
    }

    /// The older part of the engine's log.
    pub fn old_engine_log(&self) -> PathBuf {
        self.root.join("engine.log.old")
    }

    /// A directory for each environment that a link was started for.
    pub fn environments(&self) -> PathBuf {
        self.root.join("env")
    }

    /// The identity of a sandbox's home, in hexadecimal. Homes with an engine have none.
    pub fn sandbox_identity(&self) -> PathBuf {
        self.root.join("sandbox")
    }

    /// Which stream serves a sandbox's home, and the lock under which it starts processes.
    pub fn sandbox_stream(&self) -> PathBuf {
        self.root.join("stream")
    }

    /// A link to the directory of the sockets, whose path is short.
    pub fn run_link(&self) -> PathBuf {
        self.root.join("run")
    }

    /// The directory for sockets, if no shorter path is usable.
    pub fn run_dir(&self) -> PathBuf {
        self.root.join("run.d")
    }

    /// The directory of the processes' folders.
    pub fn processes(&self) -> PathBuf {
        self.root.join("proc")
    }

    /// The path that keepers use for the folder of a process before they know its id. It is never created.
    pub fn nest(&self) -> PathBuf {
        self.processes().join(UNNAMED)
    }

    /// The folder of one process.
    pub fn process(&self, id: ProcessId) -> ProcessDir {
        ProcessDir { path: self.processes().join(id.to_string()) }
    }

    /// Every process that has a folder, sorted. Entries that are not named like a process are ignored.
    pub fn ids(&self) -> io::Result<Vec<ProcessId>> {
        let mut ids = Vec::new();
        for entry in entries(&self.processes())? {
            let entry = entry?;
            let id = entry.file_name().to_str().and_then(|name| name.parse().ok());
            if let Some(id) = id
                && entry.file_type().is_ok_and(|t| t.is_dir())
                && !self.process(id).is_removed()
            {
                ids.push(id);
            }
        }
        ids.sort_unstable();
        Ok(ids)
    }

    /// Creates the home and its directories, accessible to their owner only. Existing ones are kept. The error says why a directory
    /// cannot be a home.
    pub fn create(&self) -> Result<(), HomeError> {
        if std::fs::symlink_metadata(&self.root).is_err_and(|e| e.kind() == io::ErrorKind::NotFound)
            && let Some(above) = self.root.parent().filter(|p| !p.as_os_str().is_empty())
        {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(above).map_err(|e| HomeError::of(above, e))?;
        }
        own_folder(&self.root)?;
        for folder in [self.processes(), self.bin(), self.shell()] {
            own_folder(&folder)?;
        }
        Ok(())
    }

    /// Finishes interrupted removals, and removes the spare folders of an earlier engine.
    pub fn sweep(&self) -> io::Result<()> {
        for entry in entries(&self.processes())? {
            let entry = entry?;
            let name = entry.file_name();
            let removed = name.to_str().and_then(|n| n.strip_suffix(REMOVED)).is_some_and(|n| n.parse::<ProcessId>().is_ok());
            if let Some(id) = name.to_str().and_then(|n| n.parse().ok())
                && self.process(id).is_removed()
            {
                self.process(id).remove_marked()?;
            }
            if removed || name.as_encoded_bytes().starts_with(SPARE.as_bytes()) {
                remove_tree(&entry.path())?;
            }
        }
        Ok(())
    }
}

/// Why a directory cannot be a home.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HomeError {
    /// The directory belongs to another user.
    #[error("{path} belongs to user {owner}, and you are user {you}: choose a state directory of your own")]
    NotYours {
        /// The directory, or the link to it.
        path: PathBuf,
        /// The user that owns it.
        owner: u32,
        /// The user of this program.
        you: u32,
    },
    /// The path is not a directory.
    #[error("{path} is not a directory: move it away, or choose another state directory")]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// Other users may enter it, and the file system does not support changing that.
    #[error(
        "{path} is open to other users (mode {mode:03o}) and cannot be closed: choose a state directory on a file system that keeps modes"
    )]
    OpenToOthers {
        /// The directory.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Its file system is read-only for this user.
    #[error("{path} cannot be written: make it writable (chmod u+rwx), or choose another state directory")]
    ReadOnly {
        /// The directory.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Another error.
    #[error("cannot make or use the state directory {path}")]
    Io {
        /// The directory.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

impl HomeError {
    fn of(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { path, source },
            io::ErrorKind::NotADirectory => Self::NotADirectory { path },
            _ => Self::Io { path, source },
        }
    }
}

/// Makes sure that `path` is a directory that belongs to this user, that other users may not enter, and that can be written.
fn own_folder(path: &Path) -> Result<(), HomeError> {
    let failed = |e| HomeError::of(path, e);
    match std::fs::DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        // On a read-only file system the error for an existing path may be either of the two.
        Err(e) if e.kind() == io::ErrorKind::ReadOnlyFilesystem && path.exists() => {}
        Err(e) => return Err(failed(e)),
    }
    let you = rustix::process::geteuid().as_raw();
    let link = std::fs::symlink_metadata(path).map_err(failed)?;
    // The owner of a link can change its target later. Root could do worse anyway.
    if link.is_symlink() && link.uid() != you && link.uid() != 0 {
        return Err(HomeError::NotYours { path: path.to_owned(), owner: link.uid(), you });
    }
    let mut found = std::fs::metadata(path).map_err(failed)?;
    if !found.is_dir() {
        return Err(HomeError::NotADirectory { path: path.to_owned() });
    }
    if found.uid() != you {
        return Err(HomeError::NotYours { path: path.to_owned(), owner: found.uid(), you });
    }
    if found.mode() & 0o077 != 0 {
        let closed = std::fs::set_permissions(path, std::fs::Permissions::from_mode(found.mode() & 0o7700));
        found = std::fs::metadata(path).map_err(failed)?;
        if found.mode() & 0o077 != 0 {
            return Err(match closed {
                Err(e) if e.kind() == io::ErrorKind::ReadOnlyFilesystem => failed(e),
                Ok(()) | Err(_) => HomeError::OpenToOthers { path: path.to_owned(), mode: found.mode() & 0o777 },
            });
        }
    }
    let all = rustix::fs::Access::READ_OK | rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    rustix::fs::access(path, all).map_err(|e| failed(e.into()))
}

/// The folder of one process. It is the authority on that process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessDir {
    /// Its path.
    pub path: PathBuf,
}

impl ProcessDir {
    /// Creates the folder. It is an error if it exists: an id is used only once.
    pub fn create(&self) -> io::Result<()> {
        std::fs::DirBuilder::new().mode(0o700).create(&self.path)
    }

    /// The request of the process.
    pub fn spec(&self) -> PathBuf {
        self.path.join("spec")
    }

    /// Identity, live state and record of the end.
    pub fn meta(&self) -> PathBuf {
        self.path.join("meta")
    }

    /// Records about the process, in order.
    pub fn journal(&self) -> PathBuf {
        self.path.join("journal")
    }

    /// How many lines come before each segment.
    pub fn lines(&self) -> PathBuf {
        self.path.join("lines")
    }

    /// When output arrived.
    pub fn times(&self) -> PathBuf {
        self.path.join("times")
    }

    /// The segment of the log that begins with byte `first`.
    pub fn segment(&self, first: u64) -> PathBuf {
        self.path.join(segment_name(first))
    }

    /// The first bytes of the existing segments, sorted.
    pub fn segments(&self) -> io::Result<Vec<u64>> {
        let mut firsts = Vec::new();
        for entry in entries(&self.path)? {
            if let Some(first) = entry?.file_name().to_str().and_then(segment_first) {
                firsts.push(first);
            }
        }
        firsts.sort_unstable();
        Ok(firsts)
    }

    /// Removes the folder and its contents without following links. It is not an error if it is gone already.
    pub fn remove(&self) -> io::Result<()> {
        // A half-removed folder would look like a damaged process. Under the other name it is ignored.
        let mut name = self.path.clone().into_os_string();
        name.push(REMOVED);
        let aside = PathBuf::from(name);
        remove_tree(&aside)?;
        match std::fs::rename(&self.path, &aside) {
            Ok(()) => remove_tree(&aside),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            // On overlayfs a directory of a lower layer cannot be renamed. A mark in it has the same meaning.
            Err(e) if e.kind() == io::ErrorKind::CrossesDevices => {
                std::fs::File::create(self.path.join(REMOVED_MARK))?;
                points::reach("remove.marked");
                self.remove_marked()
            }
            Err(e) => Err(e),
        }
    }

    /// Whether the folder counts as removed: it is gone, marked or empty, although parts of it may be left. The removal of a marked
    /// folder ends with an empty one.
    pub fn is_removed(&self) -> bool {
        let is_there = |path: &Path| std::fs::symlink_metadata(path).is_ok();
        if is_there(&self.spec()) && !is_there(&self.path.join(REMOVED_MARK)) {
            return false;
        }
        is_there(&self.path.join(REMOVED_MARK)) || entries(&self.path).is_ok_and(|mut left| left.next().is_none())
    }

    /// Removes a marked folder, the mark last, so that what is left is never taken for a process.
    fn remove_marked(&self) -> io::Result<()> {
        for entry in entries(&self.path)? {
            let entry = entry?;
            if entry.file_name() == REMOVED_MARK {
                continue;
            }
            match entry.file_type()?.is_dir() {
                true => remove_tree(&entry.path())?,
                false => std::fs::remove_file(entry.path())?,
            }
        }
        remove_tree(&self.path)
    }

    /// How much disk space the folder's files use.
    pub fn disk_bytes(&self) -> io::Result<u64> {
        let mut blocks = 0;
        for entry in entries(&self.path)? {
            match entry?.metadata() {
                Ok(m) => blocks += m.blocks(),
                // The file was deleted by retention in the meantime.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
        Ok(blocks * 512)
    }
}

fn segment_name(first: u64) -> String {
    format!("log.{first:015}")
}

fn segment_first(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("log.")?;
    let first = digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())??;
    // Each segment has exactly one name. Otherwise a stray `log.0` could be taken for the head.
    (segment_name(first) == name).then_some(first)
}

/// The entries of a directory; none if it does not exist.
fn entries(path: &Path) -> io::Result<impl Iterator<Item = io::Result<std::fs::DirEntry>>> {
    match std::fs::read_dir(path) {
        Ok(found) => Ok(Some(found).into_iter().flatten()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None.into_iter().flatten()),
        Err(e) => Err(e),
    }
}

fn remove_tree(path: &Path) -> io::Result<()> {
    // Removes a link itself, and enters real directories only.
    match std::fs::remove_dir_all(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests;
