//! `engine.log`: what the engine says on its standard error, which leads there.

use crate::mutex::lock;
use outlast_core::limits::ENGINE_LOG_BYTES;
use outlast_store::dir::Home;
use rustix::fs::Stat;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Mutex;

/// Standard error, for as long as the engine lives. Where it leads to the home's log, that is set aside when it has grown too long, and the one before is gone.
#[derive(Debug)]
pub struct LogFile {
    home: Home,
    /// Held while the log is written and set aside, so that of two who find it too long one does something about it.
    turn: Mutex<()>,
}

impl LogFile {
    /// For the engine of a home, whose starter has opened the log for it.
    pub fn new(home: impl Into<PathBuf>) -> Self {
        Self { home: Home::new(home), turn: Mutex::new(()) }
    }

    /// Begins a new log. Keepers that were started before go on with the old one: they have next to nothing to say, and hold it open by themselves.
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
        // Where it cannot be set aside it goes on as it is: the log is the only one who could be told.
        let _as_it_is = self.set_aside();
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
