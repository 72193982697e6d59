//! The time of a request and its answer between two processes.

use anyhow::{Context, Result, ensure};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// The length of a message.
const LEN: usize = 64;

/// A process that echoes its input. It ends when it is dropped.
pub(crate) struct Echo {
    stream: Option<UnixStream>,
    child: Child,
}

impl Echo {
    pub(crate) fn new() -> Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let child = Command::new(std::env::current_exe()?)
            .arg("__echo")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .spawn()
            .context("cannot start the other end")?;
        Ok(Self { stream: Some(ours), child })
    }

    /// The time of a message and its echo.
    pub(crate) fn trips(&mut self, many: usize) -> Result<Vec<f64>> {
        let stream = self.stream.as_mut().context("it is open until it is dropped")?;
        let mut message = [7; LEN];
        let mut times = Vec::new();
        for _ in 0..many {
            let began = Instant::now();
            stream.write_all(&message)?;
            stream.read_exact(&mut message)?;
            times.push(began.elapsed().as_secs_f64());
        }
        Ok(times)
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        // It ends at the end of its input.
        self.stream = None;
        let _ended = self.child.wait();
    }
}

/// `xtask __echo`: echoes its input, which is a socket.
pub(crate) fn echo() -> Result<()> {
    let mut stream = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let mut message = [0; LEN];
    loop {
        match stream.read(&mut message)? {
            0 => return Ok(()),
            LEN => stream.write_all(&message)?,
            other => ensure!(other == LEN, "a message of {other} bytes"),
        }
    }
}
