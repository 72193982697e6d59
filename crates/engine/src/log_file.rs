//! `engine.log`: the standard error of the engine.

use crate::mutex::lock;
use outlast_core::limits::ENGINE_LOG_BYTES;
use outlast_store::dir::Home;
use rustix::fs::Stat;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Mutex;

/// The engine's standard error. If it leads to the home's log and the log has grown too long, the log is renamed and replaces the one
/// before.
#[derive(Debug)]
pub struct LogFile {
    home: Home,
    /// Held while the log is written and renamed, so that only one of two threads renames a log that is too long.
    turn: Mutex<()>,
}

impl LogFile {
    /// For the engine of a home whose starter has opened the log.
    pub fn new(home: impl Into<PathBuf>) -> Self {
        Self { home: Home::new(home), turn: Mutex::new(()) }
    }

    /// Begins a new log. Keepers that were started before keep writing to the old one, which they hold open; they write very little.
    fn set_aside(&self) -> io::Result<()> {
        let path = self.home.engine_log();
        let ours = rustix::fs::fstat(io::stderr())?;
        if ours.st_size as u64 <= ENGINE_LOG_BYTES {
            return Ok(());
        }
        let is_log = |file: &Stat| (file.st_dev, file.st_ino) == (ours.st_dev, ours.st_ino);
        // Standard error may lead elsewhere, or another program may have moved the log.
        if !is_log(&rustix::fs::lstat(&path)?) {
            return Ok(());
        }
        let stdout_too = is_log(&rustix::fs::fstat(io::stdout())?);
        std::fs::rename(&path, self.home.old_engine_log())?;
        let new = OpenOptions::new().create(true).append(true).mode(0o600).open(&path)?;
        rustix::stdio::dup2_stderr(&new)?;
        if stdout_too {
            rustix::stdio::dup2_stdout(&new)?;
        }
        Ok(())
    }
}

impl Write for &LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _turn = lock(&self.turn);
        let written = io::stderr().write(bytes);
        // If the log cannot be renamed, it just grows: there is no other place to report that.
        let _as_it_is = self.set_aside();
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
