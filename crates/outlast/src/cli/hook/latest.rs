//! Of those that wait for one conversation the latest.
//!
//! An agent starts one at the end of each turn, and does not end the one before. Whoever comes says so to who waits already, and that one leaves soon.

use super::alone::file;
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The place of who waits, until it is dropped or another has come.
#[derive(Debug)]
pub(super) struct Latest {
    word: File,
    path: PathBuf,
    own: (u64, u64),
}

impl Latest {
    /// Takes the place of who waits for the same. Of two that come in one instant both may stay, which does no harm: each notice goes to one.
    pub(super) fn of(home: &Path, whose: &str) -> io::Result<Self> {
        let path = file(home, "waiting", whose)?;
        let new = path.with_extension(std::process::id().to_string());
        // Of one that had our number and was killed here.
        let _none = fs::remove_file(&new);
        mknodat(CWD, &new, FileType::Fifo, Mode::from_raw_mode(0o600), 0)?;
        let made = Self::at(&new, path);
        if made.is_err() {
            let _gone = fs::remove_file(&new);
        }
        made
    }

    fn at(new: &Path, path: PathBuf) -> io::Result<Self> {
        // For both directions, so that it has no end while nobody writes.
        let word = open(new, true)?;
        let meta = fs::metadata(new)?;
        // Refused where nobody waits.
        let before = open(&path, false);
        fs::rename(new, &path)?;
        if let Ok(mut before) = before {
            // It may have left by itself.
            let _gone = before.write_all(b".");
        }
        Ok(Self { word, path, own: (meta.dev(), meta.ino()) })
    }

    /// Whether another has come.
    pub(super) fn is_over(&self) -> bool {
        rustix::io::read(&self.word, &mut [0]).is_ok()
    }
}

/// Opens one without waiting for anybody.
fn open(path: &Path, both: bool) -> io::Result<File> {
    File::options().read(both).write(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)
}

impl Drop for Latest {
    fn drop(&mut self) {
        if fs::metadata(&self.path).is_ok_and(|meta| (meta.dev(), meta.ino()) == self.own) {
            let _gone = fs::remove_file(&self.path);
        }
    }
}
