//! Linux: waiting without reaping, signals as descriptors, handles on processes.
#![allow(unsafe_code)]

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ffi::CStr;
use std::io;
use std::os::fd::RawFd;

/// Ends this process at once, without destructors and exit handlers: they belong to the process that it was forked from.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: _exit has no preconditions.
    unsafe { libc::_exit(code) }
}

/// Replaces this program. Returns only the errno of a failure.
pub(crate) fn exec(program: &CStr, argv: &[*const libc::c_char], env: &[*const libc::c_char]) -> i32 {
    debug_assert!(argv.last().is_some_and(|p| p.is_null()) && env.last().is_some_and(|p| p.is_null()));
    // SAFETY: both arrays end in a null pointer (checked above) and point at strings that live in the caller.
    unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), env.as_ptr()) };
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

/// The result of waiting for a child.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// It ended, with this wait status.
    Ended(i32),
    /// It runs.
    NotYet,
    /// It is not a child of this process.
    NotOurs,
}

/// Waits for the process of a handle. If that is refused, waits by pid: the pid of our child is not reused before we reap it.
fn wait_for(pidfd: BorrowedFd<'_>, options: libc::c_int) -> Waited {
    let by_handle = waitid(libc::P_PIDFD, pidfd.as_raw_fd() as libc::id_t, options);
    match by_handle {
        Err(e) if e.raw_os_error() != Some(libc::ECHILD) => pid_behind(pidfd).map_or(Waited::NotOurs, |pid| wait_for_pid(pid, options)),
        waited => waited.unwrap_or(Waited::NotOurs),
    }
}

fn wait_for_pid(pid: u32, options: libc::c_int) -> Waited {
    waitid(libc::P_PID, pid, options).unwrap_or(Waited::NotOurs)
}

/// The pid of the process of a handle, while it has one.
fn pid_behind(pidfd: BorrowedFd<'_>) -> Option<u32> {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd())).ok()?;
    info.lines().find_map(|line| line.strip_prefix("Pid:"))?.trim().parse().ok()
}

fn waitid(id_type: libc::idtype_t, id: libc::id_t, options: libc::c_int) -> io::Result<Waited> {
    // SAFETY: siginfo_t is plain data, for which zero is valid.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: info is ours and lives across the call.
        if unsafe { libc::waitid(id_type, id, &raw mut info, options | libc::WEXITED | libc::WNOHANG) } == 0 {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    // SAFETY: after success these fields are the ones of SIGCHLD, or zero where nothing was ready.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    if pid == 0 {
        return Ok(Waited::NotYet);
    }
    Ok(Waited::Ended(match info.si_code {
        libc::CLD_EXITED => (status & 0xff) << 8,
        libc::CLD_DUMPED => status | 0x80,
        _ => status,
    }))
}

/// Reads the end of the process behind `pidfd`, and leaves the process to be reaped.
pub(crate) fn peek(pidfd: BorrowedFd<'_>) -> Waited {
    wait_for(pidfd, libc::WNOWAIT)
}

/// Reaps the process behind `pidfd` if it is an ended child.
pub(crate) fn reap(pidfd: BorrowedFd<'_>) -> Waited {
    wait_for(pidfd, 0)
}

/// Reaps a child by its pid, which is not reused before.
pub(crate) fn reap_pid(pid: u32) -> Waited {
    wait_for_pid(pid, 0)
}

/// Reaps any ended child. Returns its pid.
pub(crate) fn reap_any() -> Option<u32> {
    match rustix::process::wait(rustix::process::WaitOptions::NOHANG) {
        Ok(Some((pid, _))) => Some(pid.as_raw_nonzero().get() as u32),
        Ok(None) | Err(_) => None,
    }
}

/// The end of this process's command line, by which other programs see its purpose.
#[derive(Debug)]
pub(crate) struct Title {
    at: usize,
    len: usize,
}

impl Title {
    /// Finds it, if it has this text now.
    pub(crate) fn find(text: &str) -> Option<Self> {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        // Fields are counted from 1. The first field after the name in brackets is the third.
        let field = |n: usize| stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(n - 3)?.parse::<usize>().ok();
        let (start, end) = (field(48)?, field(49)?);
        let line = std::fs::read("/proc/self/cmdline").ok()?;
        let fits = line.strip_suffix(b"\0")?.ends_with(text.as_bytes()) && end.checked_sub(start) == Some(line.len());
        fits.then(|| Self { at: end - 1 - text.len(), len: text.len() })
    }

    /// Replaces it with another text of the same length.
    pub(crate) fn set(&self, text: &str) {
        if text.len() == self.len {
            // SAFETY: the kernel has told where the command line of this process lies, in memory that is ours for as long as it runs; what was there was read through
            // the same addresses, has this length, and nothing in this program refers to it: the arguments were copied when it began.
            unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), self.at as *mut u8, self.len) };
        }
    }
}

/// The wait status of a process that another process has reaped, from kernels that keep it with the handle (6.15 and later).
pub(crate) fn exit_info(pidfd: BorrowedFd<'_>) -> Option<i32> {
    const PIDFD_INFO_EXIT: u64 = 1 << 3;
    let info = pidfd_info(pidfd, PIDFD_INFO_EXIT)?;
    (info.mask & PIDFD_INFO_EXIT != 0).then_some(info.exit_code)
}

#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    mask: u64,
    cgroup: u64,
    ids: [u32; 11],
    exit_code: i32,
}
const _: () = assert!(size_of::<PidfdInfo>() == 64);

fn pidfd_info(pidfd: BorrowedFd<'_>, mask: u64) -> Option<PidfdInfo> {
    let mut info = PidfdInfo { mask, ..PidfdInfo::default() };
    // SAFETY: the request reads and writes one structure of this size, which is ours.
    let rc = unsafe { libc::ioctl(pidfd.as_raw_fd(), outlast_store::calls::PIDFD_GET_INFO as _, &raw mut info) };
    (rc == 0).then_some(info)
}

/// The wait status in `/proc`, while the process is an unreaped zombie. The kernel shows zero to processes that it does not trust.
/// So a zombie with another user, group or more capabilities than this process does not count.
pub(crate) fn zombie_status(pid: u32) -> Option<i32> {
    let theirs = Credentials::of(&pid.to_string())?;
    let ours = Credentials::of("self")?;
    let same = theirs.uids.iter().all(|u| *u == ours.uids[1]) && theirs.gids.iter().all(|g| *g == ours.gids[1]);
    if !same || theirs.capabilities & !ours.capabilities != 0 {
        return None;
    }
    let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&text);
    let after = text.rsplit_once(')')?.1;
    let mut fields = after.split_ascii_whitespace();
    if fields.next()? != "Z" {
        return None;
    }
    fields.next_back()?.parse().ok()
}

struct Credentials {
    uids: Vec<u32>,
    gids: Vec<u32>,
    capabilities: u64,
}

impl Credentials {
    fn of(who: &str) -> Option<Self> {
        let text = std::fs::read_to_string(format!("/proc/{who}/status")).ok()?;
        let line = |name: &str| text.lines().find_map(|l| l.strip_prefix(name));
        let ids = |name: &str| -> Option<Vec<u32>> { line(name)?.split_ascii_whitespace().map(|i| i.parse().ok()).collect() };
        let (uids, gids) = (ids("Uid:")?, ids("Gid:")?);
        let capabilities = u64::from_str_radix(line("CapPrm:")?.trim(), 16).ok()?;
        (uids.len() == 4 && gids.len() == 4).then_some(Self { uids, gids, capabilities })
    }
}

/// Closes every descriptor above the standard streams except `keep`: the keepers must not hold descriptors of their caller.
pub fn close_inherited(keep: Option<RawFd>) {
    let close = |from: u32, to: u32| {
        if from <= to {
            // SAFETY: closes by number, before anything of ours is open above the standard streams but `keep`, which is left out.
            unsafe { libc::syscall(libc::SYS_close_range, from, to, 0) }
        } else {
            0
        }
    };
    let kept = keep.and_then(|k| u32::try_from(k).ok()).filter(|k| *k > 2);
    let done = match kept {
        Some(k) => close(3, k - 1) | close(k + 1, u32::MAX),
        None => close(3, u32::MAX),
    };
    if done != 0 {
        // The kernel is older than 5.9, or a profile does not know the call. All numbers are collected first, because the listing has a
        // descriptor of its own.
        let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
        let numbers: Vec<u32> = open.filter_map(|fd| fd.file_name().to_str()?.parse().ok()).collect();
        for n in numbers.into_iter().filter(|n| *n > 2 && Some(*n) != kept) {
            // SAFETY: as above; the descriptor of the listing is closed by now, and its close fails.
            unsafe { libc::close(n as RawFd) };
        }
    }
}

/// Blocks the signals that keepers receive through a descriptor, ignores those that must not end them, and keeps the default for
/// SIGCHLD.
pub(crate) fn take_signals() -> io::Result<OwnedFd> {
    // SAFETY: sigset_t is plain data that the calls below fill; signal and sigprocmask only change this process.
    unsafe {
        for ignored in [
            libc::SIGHUP,
            libc::SIGINT,
            libc::SIGQUIT,
            libc::SIGPIPE,
            libc::SIGTERM,
            libc::SIGUSR2,
            libc::SIGALRM,
            libc::SIGTSTP,
            libc::SIGTTIN,
            libc::SIGTTOU,
            libc::SIGXFSZ,
        ] {
            libc::signal(ignored, libc::SIG_IGN);
        }
        // If a parent ignored SIGCHLD, the kernel would discard exit statuses.
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        libc::sigaddset(&raw mut set, libc::SIGUSR1);
        if libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        match libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
            -1 => Err(io::Error::last_os_error()),
            fd => Ok(OwnedFd::from_raw_fd(fd)),
        }
    }
}

/// Resets every signal to its default and blocks none, as a new program expects.
pub(crate) fn reset_signals() {
    // SAFETY: as in take_signals.
    unsafe {
        for n in 1..=libc::SIGRTMAX() {
            libc::signal(n, libc::SIG_DFL);
        }
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
    }
}

/// The numbers of the signals that are pending in `signals`.
pub(crate) fn read_signals(signals: BorrowedFd<'_>) -> Vec<u32> {
    let mut all = Vec::new();
    let mut one = [0_u8; size_of::<libc::signalfd_siginfo>()];
    while let Ok(n) = rustix::io::read(signals, &mut one) {
        if n < one.len() {
            break;
        }
        all.push(u32::from_ne_bytes([one[0], one[1], one[2], one[3]]));
    }
    all
}

/// Restricts this thread to the processors of a mask. If none of them may be used, nothing changes.
pub(crate) fn set_cpus(mask: &[u8]) {
    // SAFETY: the kernel reads `mask.len()` bytes, which are ours and live across the call.
    let _refused = unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, mask.len(), mask.as_ptr()) };
}

/// Sets the scheduling policy of this thread, if that is allowed.
pub(crate) fn set_scheduler(policy: i32, priority: i32) {
    // SAFETY: sched_param is plain data, for which zero is valid; the kernel only reads it.
    unsafe {
        let mut param: libc::sched_param = std::mem::zeroed();
        param.sched_priority = priority;
        let _refused = libc::sched_setscheduler(0, policy, &raw const param);
    }
}

/// Sets the I/O priority of this thread, if that is allowed.
pub(crate) fn set_io_priority(priority: i32) {
    const WHO_PROCESS: libc::c_int = 1;
    // SAFETY: the call takes numbers only.
    let _refused = unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, priority) };
}

/// Makes the terminal behind `slave` the controlling one of this session.
pub(crate) fn take_terminal(slave: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: TIOCSCTTY takes an integer and touches no memory of ours.
    match unsafe { libc::ioctl(slave.as_raw_fd(), libc::TIOCSCTTY as _, 0) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// A handle on the process with this pid. The caller knows that the pid was not reused: it is an unreaped child, or is checked
/// afterwards.
pub(crate) fn open_pidfd(pid: i32) -> io::Result<OwnedFd> {
    let pid = rustix::process::Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?)
}

/// Whether this kernel keeps an exit status for the holder of a pidfd, and returns it: a profile may refuse the call.
pub(crate) fn keeps_status() -> bool {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut parts = text.split(|c: char| !c.is_ascii_digit()).filter_map(|p| p.parse::<u32>().ok());
    let is_new = (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (6, 15);
    let me = rustix::process::getpid().as_raw_nonzero().get();
    is_new && open_pidfd(me).is_ok_and(|me| pidfd_info(me.as_fd(), 0).is_some())
}

/// Duplicates `fd` to the number `at`, inherited by an exec.
pub(crate) fn put_at(fd: BorrowedFd<'_>, at: RawFd) -> io::Result<()> {
    // SAFETY: dup2 touches no memory; the descriptor at `at` is one of the three standard ones, which the caller replaces knowingly.
    match unsafe { libc::dup2(fd.as_fd().as_raw_fd(), at) } {
        -1 => Err(io::Error::last_os_error()),
        _ if fd.as_raw_fd() == at => {
            // dup2 onto itself leaves close-on-exec as it was.
            Ok(rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty())?)
        }
        _ => Ok(()),
    }
}
