//! Waits for facts and for the end of processes.

use anyhow::{Context, Result, ensure};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// How long a fact may take before a test gives up. This is much longer than anything takes: it only turns a hang into a failure.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for a fact that no descriptor reports, by looking often. Panics if it does not come.
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "never came: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Kills a process and waits until it has exited.
pub fn kill_and_wait(pid: u32) -> Result<()> {
    let raw = rustix::process::Pid::from_raw(i32::try_from(pid)?).context("a pid")?;
    let handle = match rustix::process::pidfd_open(raw, rustix::process::PidfdFlags::empty()) {
        Ok(handle) => handle,
        Err(rustix::io::Errno::SRCH) => return Ok(()),
        Err(e) => return Err(e.into()),
    };
    match rustix::process::pidfd_send_signal(handle.as_fd(), rustix::process::Signal::KILL) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        Err(e) => return Err(e.into()),
    }
    ensure!(over(&handle, PATIENCE), "{pid} does not die");
    Ok(())
}

/// Sends SIGTERM to a process.
pub fn terminate(pid: u32) {
    if let Some(raw) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) {
        // It may be gone already.
        let _gone = rustix::process::kill_process(raw, rustix::process::Signal::TERM);
    }
}

/// Waits for the end of a process, at most this long. Returns whether it has ended.
pub fn wait_for_end(pid: u32, at_most: Duration) -> bool {
    let Some(raw) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) else { return true };
    match rustix::process::pidfd_open(raw, rustix::process::PidfdFlags::empty()) {
        Ok(handle) => over(&handle, at_most),
        Err(_) => true,
    }
}

fn over(handle: &impl AsFd, at_most: Duration) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::new(handle, PollFlags::IN)];
    let at_most = Timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: i64::from(at_most.subsec_nanos()) };
    matches!(poll(&mut fds, Some(&at_most)), Ok(n) if n > 0)
}
