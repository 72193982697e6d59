//! Linux: clone3 with the pid stored by the kernel, waiting without reaping, signals as descriptors.
#![allow(unsafe_code)]

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ffi::CStr;
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::AtomicI32;

/// Where a fork left us.
pub(crate) enum Fork {
    /// In the new process.
    Child,
    /// In the old one, with a handle on the new.
    Parent(OwnedFd),
}

#[repr(C, align(8))]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// Not the constant of the C library's crate, whose type is too narrow for it.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// How the new process is related to us.
pub(crate) enum Kin<'a> {
    /// Our child.
    Child,
    /// Our child, in this cgroup from its first instant.
    ChildIn(BorrowedFd<'a>),
    /// Our parent's child: nothing that looks for our descendants finds it.
    Sibling,
}

/// Forks. The kernel writes the new pid to `slot` before the new process can run, and after the point where a kill of us would still
/// cancel the fork: if `slot` lies in a shared mapping, there is never a process whose pid is not on record.
pub(crate) fn fork(slot: &AtomicI32, kin: &Kin<'_>) -> io::Result<Fork> {
    let mut pidfd: RawFd = -1;
    let mut args = clone_args(slot, kin, &mut pidfd);
    // SAFETY: without CLONE_VM this is a fork: the child has its own copy of everything, and this program has one thread, so no lock is
    // held by a thread that the child does not have. The pointers live across the call.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, &raw mut args, size_of::<CloneArgs>()) };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Fork::Child),
        // SAFETY: the kernel has just made this descriptor for us, close-on-exec.
        _ => Ok(Fork::Parent(unsafe { OwnedFd::from_raw_fd(pidfd) })),
    }
}

/// Has a new process run `child`, which executes a program or ends. It has our memory until then, and we wait: nothing is copied for a process that replaces all of it
/// at once. The pid is on record as with [`fork`].
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) fn start(slot: &AtomicI32, kin: &Kin<'_>, mut child: impl FnMut()) -> io::Result<OwnedFd> {
    /// Room for what is called between the clone and the exec, of which little is touched.
    const STACK: usize = 256 << 10;
    extern "C" fn enter<F: FnMut()>(child: *mut F) -> ! {
        // SAFETY: the closure lives in the caller, which is stopped until this process has executed something or is over.
        unsafe { (*child)() };
        exit_now(127)
    }
    fn entry<F: FnMut()>(_: &F) -> extern "C" fn(*mut F) -> ! {
        enter::<F>
    }
    let mut stack = Vec::<u128>::with_capacity(STACK / size_of::<u128>());
    let mut pidfd: RawFd = -1;
    let mut args = clone_args(slot, kin, &mut pidfd);
    args.flags |= (libc::CLONE_VM | libc::CLONE_VFORK) as u64;
    args.stack = stack.as_mut_ptr() as u64;
    args.stack_size = STACK as u64;
    let (function, data) = (entry(&child), &raw mut child);
    let pid: isize;
    // SAFETY: the new process runs on a stack of its own, aligned as calls want it, calls the function with its argument, and never returns here; no register or stack
    // slot of ours is changed by it. This program has one thread, and CLONE_VFORK stops that until the other has let go of the memory.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call r13",
            "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone3 as isize => pid,
            in("rdi") &raw mut args,
            in("rsi") size_of::<CloneArgs>(),
            in("r12") data,
            in("r13") function,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, x20",
            "blr x21",
            "brk 1",
            "2:",
            inlateout("x0") &raw mut args => pid,
            in("x1") size_of::<CloneArgs>(),
            in("x8") libc::SYS_clone3,
            in("x20") data,
            in("x21") function,
            lateout("x30") _,
        );
    }
    drop(stack);
    if pid < 0 {
        return Err(io::Error::from_raw_os_error(-pid as i32));
    }
    // SAFETY: the kernel has just made this descriptor for us, close-on-exec.
    Ok(unsafe { OwnedFd::from_raw_fd(pidfd) })
}

/// The same where nobody has written down how to call the kernel: with a copy of our memory.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) fn start(slot: &AtomicI32, kin: &Kin<'_>, mut child: impl FnMut()) -> io::Result<OwnedFd> {
    match fork(slot, kin)? {
        Fork::Child => {
            child();
            exit_now(127)
        }
        Fork::Parent(pidfd) => Ok(pidfd),
    }
}

fn clone_args(slot: &AtomicI32, kin: &Kin<'_>, pidfd: &mut RawFd) -> CloneArgs {
    let mut args = CloneArgs {
        flags: (libc::CLONE_PIDFD | libc::CLONE_PARENT_SETTID) as u64,
        pidfd: &raw mut *pidfd as u64,
        parent_tid: slot.as_ptr() as u64,
        exit_signal: libc::SIGCHLD as u64,
        ..CloneArgs::default()
    };
    match kin {
        Kin::Child => {}
        Kin::ChildIn(dir) => {
            args.flags |= CLONE_INTO_CGROUP;
            args.cgroup = dir.as_raw_fd() as u64;
        }
        Kin::Sibling => {
            args.flags |= libc::CLONE_PARENT as u64;
            // The kernel refuses a signal of our own choice here; the parent's is taken.
            args.exit_signal = 0;
        }
    }
    args
}

/// Ends this process at once: no destructors, no exit handlers, which belong to the process it was forked from.
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

/// What waiting for a child said.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// It ended, with this wait status.
    Ended(i32),
    /// It runs.
    NotYet,
    /// It is not our child.
    NotOurs,
}

fn waitid(id_type: libc::idtype_t, id: libc::id_t, options: libc::c_int) -> Waited {
    // SAFETY: siginfo_t is plain data, for which zero is valid.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: info is ours and lives across the call.
        if unsafe { libc::waitid(id_type, id, &raw mut info, options | libc::WEXITED | libc::WNOHANG) } == 0 {
            break;
        }
        match io::Error::last_os_error().raw_os_error() {
            Some(libc::EINTR) => {}
            _ => return Waited::NotOurs,
        }
    }
    // SAFETY: after success these fields are the ones of SIGCHLD, or zero where nothing was ready.
    let (pid, status) = unsafe { (info.si_pid(), info.si_status()) };
    if pid == 0 {
        return Waited::NotYet;
    }
    Waited::Ended(match info.si_code {
        libc::CLD_EXITED => (status & 0xff) << 8,
        libc::CLD_DUMPED => status | 0x80,
        _ => status,
    })
}

/// Looks at the end of the process behind `pidfd` and leaves it to be reaped.
pub(crate) fn peek(pidfd: BorrowedFd<'_>) -> Waited {
    waitid(libc::P_PIDFD, pidfd.as_raw_fd() as libc::id_t, libc::WNOWAIT)
}

/// Reaps the process behind `pidfd` if it is our child and over.
pub(crate) fn reap(pidfd: BorrowedFd<'_>) -> Waited {
    waitid(libc::P_PIDFD, pidfd.as_raw_fd() as libc::id_t, 0)
}

/// Reaps a child by its number, which stays its own until then.
pub(crate) fn reap_pid(pid: u32) -> Waited {
    waitid(libc::P_PID, pid, 0)
}

/// Reaps a child that is over, whichever: its number.
pub(crate) fn reap_any() -> Option<u32> {
    match rustix::process::wait(rustix::process::WaitOptions::NOHANG) {
        Ok(Some((pid, _))) => Some(pid.as_raw_nonzero().get() as u32),
        Ok(None) | Err(_) => None,
    }
}

/// The end of our own command line, which others read to see what this process is for.
#[derive(Debug)]
pub(crate) struct Title {
    at: usize,
    len: usize,
}

impl Title {
    /// Finds it, if it ends in this text now.
    pub(crate) fn find(text: &str) -> Option<Self> {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        // The fields are counted from 1, and the one behind the name in brackets is the third.
        let field = |n: usize| stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(n - 3)?.parse::<usize>().ok();
        let (start, end) = (field(48)?, field(49)?);
        let line = std::fs::read("/proc/self/cmdline").ok()?;
        let fits = line.strip_suffix(b"\0")?.ends_with(text.as_bytes()) && end.checked_sub(start) == Some(line.len());
        fits.then(|| Self { at: end - 1 - text.len(), len: text.len() })
    }

    /// Puts another text of the same length there.
    pub(crate) fn set(&self, text: &str) {
        if text.len() == self.len {
            // SAFETY: the kernel has told where the command line of this process lies, in memory that is ours for as long as it runs; what was there was read through
            // the same addresses, has this length, and nothing in this program refers to it: the arguments were copied when it began.
            unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), self.at as *mut u8, self.len) };
        }
    }
}

/// The wait status of a process that somebody else has reaped, from kernels that keep it behind the handle (6.15 and later).
pub(crate) fn exit_info(pidfd: BorrowedFd<'_>) -> Option<i32> {
    const PIDFD_INFO_EXIT: u64 = 1 << 3;
    #[repr(C)]
    #[derive(Default)]
    struct PidfdInfo {
        mask: u64,
        cgroup: u64,
        ids: [u32; 11],
        exit_code: i32,
    }
    const _: () = assert!(size_of::<PidfdInfo>() == 64);
    // _IOWR(0xFF, 11, struct pidfd_info)
    const PIDFD_GET_INFO: libc::c_ulong = (3 << 30) | (64 << 16) | (0xFF << 8) | 11;
    let mut info = PidfdInfo { mask: PIDFD_INFO_EXIT, ..PidfdInfo::default() };
    // SAFETY: the request reads and writes one structure of this size, which is ours.
    let rc = unsafe { libc::ioctl(pidfd.as_raw_fd(), PIDFD_GET_INFO as _, &raw mut info) };
    (rc == 0 && info.mask & PIDFD_INFO_EXIT != 0).then_some(info.exit_code)
}

/// The wait status in `/proc`, while the process is a zombie that nobody reaps. To those it does not trust the kernel shows zero, so a
/// process that has another user, group or more capabilities than we does not count.
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

/// Closes every descriptor above the standard streams but `keep`: what a caller had open is not ours to hold.
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
        // A kernel before 5.9.
        for fd in std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten() {
            if let Some(n) = fd.file_name().to_str().and_then(|n| n.parse::<u32>().ok()).filter(|n| *n > 2 && Some(*n) != kept) {
                // SAFETY: as above; the listing's own descriptor is closed twice at worst, before anything else is opened.
                unsafe { libc::close(n as RawFd) };
            }
        }
    }
}

/// Blocks the signals the keepers wait for as a descriptor, ignores those that must not end them, and leaves the death of children visible.
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
        // A parent that ignores SIGCHLD would have the kernel throw exit statuses away.
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

/// Gives every signal its default meaning and blocks none, as a new program expects.
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

/// The numbers of the signals that wait in `signals`.
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

/// Makes the terminal behind `slave` the controlling one of this session.
pub(crate) fn take_terminal(slave: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: TIOCSCTTY takes an integer and touches no memory of ours.
    match unsafe { libc::ioctl(slave.as_raw_fd(), libc::TIOCSCTTY as _, 0) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Whether the process behind a handle is over.
pub(crate) fn is_over(pidfd: BorrowedFd<'_>) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::from_borrowed_fd(pidfd, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut fds, Some(&now)), Ok(n) if n > 0)
}

/// A handle on the process with this number. The caller knows that the number cannot have passed on: it is our unreaped child, or checked afterwards.
pub(crate) fn open_pidfd(pid: i32) -> io::Result<OwnedFd> {
    let pid = rustix::process::Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?)
}

/// Sends a signal, real-time ones included, through a handle.
pub(crate) fn send(pidfd: BorrowedFd<'_>, number: i32) -> io::Result<()> {
    // SAFETY: pidfd_send_signal takes no memory of ours with a null siginfo.
    match unsafe { libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), number, std::ptr::null::<libc::siginfo_t>(), 0) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Whether this kernel keeps a status behind a handle: a build-time constant cannot know, so it is asked.
pub(crate) fn keeps_status() -> bool {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut parts = text.split(|c: char| !c.is_ascii_digit()).filter_map(|p| p.parse::<u32>().ok());
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (6, 15)
}

/// Puts `fd` at the number `at`, open across an exec.
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
