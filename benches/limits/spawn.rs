//! The time to start a program without any supervision.

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, pidfd_open, waitid};
use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::time::Instant;

/// A child that has to be reaped.
pub(crate) struct Child {
    pid: Pid,
}

impl Child {
    /// A descriptor that becomes readable when it ends.
    pub(crate) fn handle(&self) -> Result<OwnedFd> {
        pidfd_open(self.pid, PidfdFlags::empty()).context("pidfd_open")
    }

    /// Waits for its end, which has to be a success.
    pub(crate) fn reap(self) -> Result<()> {
        let status = waitid(WaitId::Pid(self.pid), WaitIdOptions::EXITED)?.context("there is no child")?;
        ensure!(status.exit_status() == Some(0), "{:?} ended badly", self.pid);
        Ok(())
    }
}

/// Starts a program with an empty environment, its output into `out` if there is one.
#[allow(unsafe_code)]
pub(crate) fn spawn(argv: &[&str], out: Option<RawFd>) -> Result<Child> {
    let words: Vec<CString> = argv.iter().map(|word| CString::new(*word)).collect::<Result<_, _>>()?;
    let program = words.first().context("there is nothing to start")?;
    let mut pointers: Vec<*mut libc::c_char> = words.iter().map(|word| word.as_ptr().cast_mut()).collect();
    pointers.push(std::ptr::null_mut());
    let environment = [std::ptr::null_mut::<libc::c_char>()];
    let mut actions = std::mem::MaybeUninit::<libc::posix_spawn_file_actions_t>::uninit();
    let mut pid = 0;
    // SAFETY: every pointer is to a value that outlives the calls, each list of pointers ends with a null pointer, and the actions are made
    // before they are used and destroyed once.
    let failed = unsafe {
        libc::posix_spawn_file_actions_init(actions.as_mut_ptr());
        if let Some(out) = out {
            libc::posix_spawn_file_actions_adddup2(actions.as_mut_ptr(), out, 1);
        }
        let failed =
            libc::posix_spawn(&mut pid, program.as_ptr(), actions.as_ptr(), std::ptr::null(), pointers.as_ptr(), environment.as_ptr());
        libc::posix_spawn_file_actions_destroy(actions.as_mut_ptr());
        failed
    };
    if failed != 0 {
        bail!("cannot start {}: {}", argv[0], std::io::Error::from_raw_os_error(failed));
    }
    Ok(Child { pid: Pid::from_raw(pid).context("a child has a pid")? })
}

/// The times to start `/bin/true`, one after the other: of the calls, and from the call to the end.
pub(crate) fn lives(many: usize) -> Result<(Vec<f64>, Vec<f64>)> {
    let (mut calls, mut lives) = (Vec::new(), Vec::new());
    for _ in 0..many {
        let began = Instant::now();
        let child = spawn(&["/bin/true"], None)?;
        calls.push(began.elapsed().as_secs_f64());
        child.reap()?;
        lives.push(began.elapsed().as_secs_f64());
    }
    Ok((calls, lives))
}

/// Waits until a handle is readable.
pub(crate) fn readable(handle: &impl AsFd) -> Result<()> {
    use rustix::event::{PollFd, PollFlags, poll};
    poll(&mut [PollFd::new(handle, PollFlags::IN)], None)?;
    Ok(())
}
