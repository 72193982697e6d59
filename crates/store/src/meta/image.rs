//! The live copy of a `meta`, in memory, where no disk can refuse it.
//!
//! Both keepers map it, and the engine holds a descriptor of it. The file names the process that made it and its descriptor number there,
//! so any other reader opens it through `/proc`. A keeper passes it to an engine that may not. It is gone when all of them are; then the
//! file counts, as after a reboot.
//!
//! Decisions 149 and 150: docs/decisions/store.md.

use super::read::{boot_of, pid_at};
use super::{LEN, LIVE_AT, Live, NAMED_FD, NAMED_PID};
use crate::dir::ProcessDir;
use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The name of the memfd in `/proc`.
const NAME: &str = "outlast-meta";
/// Where an unnamed file is made if the kernel refuses `memfd_create`, if there is a tmpfs. On a disk that is full, a store to a mapped file kills.
const INSTEAD: [&str; 2] = ["/dev/shm", "/tmp"];

/// What `statfs` says of a tmpfs.
const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;

/// The images that this program holds, by folder. They outlive the keepers.
static HELD: Mutex<BTreeMap<PathBuf, Arc<Image>>> = Mutex::new(BTreeMap::new());

/// The live copy of a `meta`.
#[derive(Debug)]
pub struct Image(File);

/// What came of a search for the image of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// It is held.
    Held,
    /// There is none: the file is all there is.
    None,
    /// The file names one, and it cannot be opened through `/proc`. Its keepers may pass it.
    Unreadable,
}

impl Image {
    /// Creates one, filled with zeros. Its length is sealed, so that a mapping of it never faults.
    pub fn new() -> io::Result<Self> {
        let plain = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let made = rustix::fs::memfd_create(NAME, plain | MemfdFlags::NOEXEC_SEAL).or_else(|e| match e {
            // Kernels before 6.3 do not know the flag; later ones may require it.
            Errno::INVAL => rustix::fs::memfd_create(NAME, plain),
            e => Err(e),
        });
        match made {
            Ok(fd) => {
                let file = zeroed(fd)?;
                rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
                Ok(Self(file))
            }
            Err(refused) => unnamed_file(&INSTEAD).map(Self).ok_or_else(|| refused.into()),
        }
    }

    /// Takes a descriptor, if it is that of an image.
    pub fn from_fd(fd: OwnedFd) -> Option<Self> {
        let file = File::from(fd);
        let found = file.metadata().ok()?;
        (found.is_file() && found.nlink() == 0 && found.len() == LEN as u64).then_some(Self(file))
    }

    /// Holds this image for the process with this folder until [`Image::forget`], also after its keepers have died.
    pub fn hold(self: &Arc<Self>, dir: &ProcessDir) {
        held().insert(dir.path.clone(), Arc::clone(self));
    }

    /// Finds the image of a process that runs, and holds it. One that is held already stays, unless it belongs to an attempt to start that failed.
    pub fn find_and_hold(dir: &ProcessDir) -> Found {
        let Ok(bytes) = File::open(dir.meta()).and_then(|file| read_whole(&file)) else { return Found::None };
        match Self::of(dir, &bytes) {
            Some(image) => {
                image.hold(dir);
                Found::Held
            }
            None if super::read::u32_at(&bytes, NAMED_FD) == 0 || !is_of_this_boot(&bytes) => Found::None,
            None => Found::Unreadable,
        }
    }

    /// Holds what a keeper of this process has passed, if that is its image. Whether it is.
    pub fn hold_passed(dir: &ProcessDir, fd: OwnedFd) -> bool {
        let Ok(bytes) = File::open(dir.meta()).and_then(|file| read_whole(&file)) else { return false };
        let image = Self::from_fd(fd).filter(|image| is_of_this_boot(&bytes) && image.has_identity(&bytes));
        image.map(|image| Arc::new(image).hold(dir)).is_some()
    }

    /// Lets go of the image of a process.
    pub fn forget(dir: &ProcessDir) {
        held().remove(&dir.path);
    }

    /// The image of the process whose file has these bytes: the held one, or one that its keepers have open.
    pub(super) fn of(dir: &ProcessDir, bytes: &[u8; LEN]) -> Option<Arc<Self>> {
        let fd = super::read::u32_at(bytes, NAMED_FD).checked_sub(1)?;
        if !is_of_this_boot(bytes) {
            return None;
        }
        if let Some(image) = held().get(&dir.path).filter(|image| image.has_identity(bytes)) {
            return Some(Arc::clone(image));
        }
        let open = |pid: u32| Self::open(pid, fd).filter(|image| keeps(pid, dir) && image.has_identity(bytes)).map(Arc::new);
        let live = |field| pid_at(bytes, LIVE_AT + field);
        let named = [pid_at(bytes, NAMED_PID), live(offset_of!(Live, pump)), live(offset_of!(Live, holder))];
        let named = || named.into_iter().flatten();
        named().find_map(open).or_else(|| {
            // A keeper that does not let us in: neither does the other, and a search of all processes would find no more.
            if named().any(|pid| is_closed_to_us(pid, fd) && names(pid, &dir.path)) {
                return None;
            }
            // If keepers were replaced and the disk refused their numbers, the command line of each still names the folder.
            let is_kept = crate::lock::is_held(&dir.meta()).is_ok_and(|held| held);
            is_kept.then(|| keepers_of(&dir.path).into_iter().find_map(open)).flatten()
        })
    }

    /// Opens descriptor `fd` of process `pid`, if it is an image.
    fn open(pid: u32, fd: u32) -> Option<Self> {
        let path = format!("/proc/{pid}/fd/{fd}");
        let link = std::fs::read_link(&path).ok()?;
        // The link is checked before it is opened: the pid may belong to another program by now, whose descriptors must not be opened.
        let link = link.as_os_str().as_bytes();
        let is_one = link.starts_with(format!("/memfd:{NAME}").as_bytes())
            || INSTEAD.iter().any(|dir| link.starts_with(dir.as_bytes()) && link.ends_with(b" (deleted)"));
        let how = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        is_one.then(|| rustix::fs::open(&path, how, Mode::empty()).ok()).flatten().and_then(Self::from_fd)
    }

    fn has_identity(&self, bytes: &[u8; LEN]) -> bool {
        let mut mine = [0; LIVE_AT];
        self.0.read_exact_at(&mut mine, 0).is_ok() && mine == bytes[..LIVE_AT]
    }

    /// Reads the bytes. Fields that belong together are from one instant.
    pub(super) fn read(&self) -> io::Result<[u8; LEN]> {
        super::read::read_settled(&self.0)
    }

    pub(super) fn write_at(&self, bytes: &[u8], at: usize) -> io::Result<()> {
        self.0.write_all_at(bytes, at as u64)
    }

    pub(super) fn file(&self) -> &File {
        &self.0
    }

    /// Its descriptor number in this process.
    pub(super) fn number(&self) -> u32 {
        self.0.as_raw_fd() as u32
    }

    /// Duplicates the descriptor.
    pub fn try_clone(&self) -> io::Result<OwnedFd> {
        Ok(self.0.try_clone()?.into())
    }
}

impl AsFd for Image {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn held() -> std::sync::MutexGuard<'static, BTreeMap<PathBuf, Arc<Image>>> {
    // Each change is a single call, so the map is intact even after a panic in another thread.
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_of_this_boot(bytes: &[u8; LEN]) -> bool {
    crate::os::boot_id().ok() == Some(boot_of(bytes))
}

/// Whether the kernel refuses the descriptors of a process to us: it may do more than we may.
fn is_closed_to_us(pid: u32, fd: u32) -> bool {
    std::fs::read_link(format!("/proc/{pid}/fd/{fd}")).is_err_and(|e| e.kind() == io::ErrorKind::PermissionDenied)
}

fn read_whole(file: &File) -> io::Result<[u8; LEN]> {
    let mut bytes = [0; LEN];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

fn zeroed(fd: OwnedFd) -> io::Result<File> {
    let file = File::from(fd);
    file.write_all_at(&[0; LEN], 0)?;
    Ok(file)
}

/// Creates an unnamed file filled with zeros, in the first of `dirs` that is a tmpfs with room for it.
fn unnamed_file(dirs: &[&str]) -> Option<File> {
    let how = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let in_memory = |dir: &&str| {
        let fd = rustix::fs::open(*dir, how, Mode::RUSR | Mode::WUSR).ok()?;
        let is_tmpfs = rustix::fs::fstatfs(&fd).is_ok_and(|found| found.f_type == TMPFS_MAGIC);
        is_tmpfs.then(|| zeroed(fd).ok()).flatten()
    };
    dirs.iter().find_map(in_memory)
}

/// Whether a process is a keeper of the process with this folder: it has this `meta` open for writing or, on file systems where a file's number
/// changes, its command line names the folder and this `meta` is locked. The identity in the file is not enough, and neither is the path: a copy of
/// the folder has both, and must not touch the memory of the original.
fn keeps(pid: u32, dir: &ProcessDir) -> bool {
    may_write(pid, &dir.meta()) || names(pid, &dir.path) && crate::lock::is_held(&dir.meta()).is_ok_and(|held| held)
}

fn names(pid: u32, folder: &Path) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|&b| b == 0).any(|argument| argument == folder.as_os_str().as_bytes())
}

fn may_write(pid: u32, path: &Path) -> bool {
    let Ok(wanted) = std::fs::metadata(path) else { return false };
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    // The mode of the link says how the descriptor was opened.
    let writable = open.filter(|fd| fd.path().symlink_metadata().is_ok_and(|link| link.mode() & 0o200 != 0));
    writable.filter_map(|fd| std::fs::metadata(fd.path()).ok()).any(|found| (found.dev(), found.ino()) == (wanted.dev(), wanted.ino()))
}

/// The processes whose command line names this folder.
fn keepers_of(folder: &Path) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok()).filter(|pid| names(*pid, folder)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unnamed_file_is_made_in_the_first_directory_that_takes_it() {
        let file = unnamed_file(&["/dev/null", "/dev/shm"]).expect("the second one takes it");
        assert_eq!(read_whole(&file).unwrap(), [0; LEN]);
        assert!(Image::from_fd(file.into()).is_some());
        assert!(unnamed_file(&["/dev/null", "/proc", "/usr"]).is_none(), "a disk is not memory");
    }
}
