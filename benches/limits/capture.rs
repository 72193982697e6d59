//! The speed of copying a command's output from a pipe to a file.

use anyhow::{Context, Result, ensure};
use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// The size of a pipe: the largest that an ordinary user may set.
const PIPE: usize = 1 << 20;
/// The most bytes in one read.
const PIECE: usize = 256 << 10;

/// The bytes per second that are copied to a file, and the processor time for a gigabyte.
pub(crate) fn capture(dir: &Path, line: &str, bytes: u64) -> Result<(f64, f64)> {
    let path = dir.join("limit-capture");
    let mut file = File::create(&path).with_context(|| format!("cannot make {}", path.display()))?;
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    // A smaller pipe is only slower.
    let _size = fcntl_setpipe_size(&writer, PIPE);
    let mut command = Command::new("/bin/bash");
    command.args(["-c", line]).stdin(Stdio::null()).stdout(Stdio::from(writer)).stderr(Stdio::null());
    let (began, spent) = (Instant::now(), spent());
    let mut child = command.spawn()?;
    drop(command);
    let (mut reader, mut piece, mut all) = (File::from(reader), vec![0; PIECE], 0);
    loop {
        let read = reader.read(&mut piece)?;
        if read == 0 {
            break;
        }
        file.write_all(&piece[..read])?;
        all += read as u64;
    }
    let (took, spent) = (began.elapsed().as_secs_f64(), self::spent() - spent);
    child.wait()?;
    ensure!(all == bytes, "{all} of {bytes} bytes came");
    std::fs::remove_file(&path)?;
    Ok((bytes as f64 / took, spent / (bytes as f64 / 1e9)))
}

/// The processor time of this thread, in seconds.
fn spent() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
