//! Reports to the program that started an engine or a gateway how that start went.

use anyhow::{Context as _, ensure};
use rustix::fd::{AsFd as _, FromRawFd as _, OwnedFd};
use std::path::Path;

/// The pipe to the program that started this one. The first report goes into it and closes it. Without a report it gets `failed` when this is dropped. It gets
/// nothing if this process is killed.
pub(crate) struct StartReport(Option<OwnedFd>);

impl StartReport {
    /// Takes the descriptor of `--ready-fd`, if one was given.
    pub(crate) fn new(ready_fd: Option<i32>) -> anyhow::Result<Self> {
        Ok(Self(ready_fd.map(descriptor).transpose()?))
    }

    /// Sends one line, which ends in a newline. Later lines are not sent.
    pub(crate) fn send(&mut self, line: &[u8]) {
        if let Some(ready) = self.0.take() {
            // The starter may be gone. Other clients are served all the same.
            let _gone = rustix::io::write(ready, line);
        }
    }
}

impl Drop for StartReport {
    fn drop(&mut self) {
        self.send(b"failed\n");
    }
}

/// The descriptor of this number, which the starter passed. It is closed in every program that this one starts.
fn descriptor(number: i32) -> anyhow::Result<OwnedFd> {
    if number == 1 {
        let ready = std::io::stdout().as_fd().try_clone_to_owned().context("cannot keep standard output")?;
        // Whatever else is written to standard output belongs in the log.
        rustix::stdio::dup2_stdout(std::io::stderr()).context("cannot put standard output into the log")?;
        return Ok(ready);
    }
    ensure!(
        number > 2 && Path::new(&format!("/proc/self/fd/{number}")).exists(),
        "--ready-fd {number} is no descriptor that was passed to us"
    );
    // SAFETY: it is open, as was just checked. It was opened before this program started, so nothing else in it owns the number.
    #[allow(unsafe_code)]
    let ready = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&ready, rustix::io::FdFlags::CLOEXEC).context("cannot keep --ready-fd to ourselves")?;
    Ok(ready)
}
