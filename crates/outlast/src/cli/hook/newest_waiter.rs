//! The newest of the hooks that wait for one session.
//!
//! An agent starts a waiting hook at the end of each turn, and does not stop the one before. So a new hook tells the previous one to exit.

use super::session_lock::file;
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The registration of a waiting hook, until it is dropped or a newer hook replaces it.
#[derive(Debug)]
pub(super) struct NewestWaiter {
    replaced: File,
    path: PathBuf,
    own: (u64, u64),
}

impl NewestWaiter {
    /// Replaces the hook that waits for the same session. If two start at the same instant, both may stay, which is harmless: each notice
    /// goes to one of them.
    pub(super) fn register(home: &Path, whose: &str) -> io::Result<Self> {
        let path = file(home, "waiting", whose)?;
        let new = path.with_extension(std::process::id().to_string());
        // Left by a hook with our pid that was killed at this point.
        let _none = fs::remove_file(&new);
        mknodat(CWD, &new, FileType::Fifo, Mode::from_raw_mode(0o600), 0)?;
        let made = Self::at(&new, path);
        if made.is_err() {
            let _gone = fs::remove_file(&new);
        }
        made
    }

    fn at(new: &Path, path: PathBuf) -> io::Result<Self> {
        // Opened for reading and writing, so that a read never reports the end of the pipe.
        let replaced = open(new, true)?;
        let meta = fs::metadata(new)?;
        // This fails if no hook waits.
        let before = open(&path, false);
        fs::rename(new, &path)?;
        if let Ok(mut before) = before {
            // The previous hook may have exited by itself.
            let _gone = before.write_all(b".");
        }
        Ok(Self { replaced, path, own: (meta.dev(), meta.ino()) })
    }

    /// Whether a newer hook has replaced this one.
    pub(super) fn is_replaced(&self) -> bool {
        rustix::io::read(&self.replaced, &mut [0]).is_ok()
    }
}

/// Opens a pipe without waiting for the other end.
fn open(path: &Path, both: bool) -> io::Result<File> {
    File::options().read(both).write(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)
}

impl Drop for NewestWaiter {
    fn drop(&mut self) {
        if fs::metadata(&self.path).is_ok_and(|meta| (meta.dev(), meta.ino()) == self.own) {
            let _gone = fs::remove_file(&self.path);
        }
    }
}
