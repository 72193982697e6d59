//! Creates processes whose pid the kernel stores before they can run: with `clone3`, or with `clone` if that is refused.
//!
//! Docker's default profile answers `clone3` with ENOSYS (EPERM before 20.10.10), and old gVisor answers EINVAL. `clone` supports
//! CLONE_PARENT_SETTID too, which stores the pid in the parent before the child runs. CLONE_CHILD_SETTID is no substitute: the pid is
//! written when the child is first scheduled, and if the holder were killed before that, the command would be started twice. `clone` cannot
//! return a pidfd as well, so that one is opened afterwards, in a slot of the descriptor table that was reserved before.
#![allow(unsafe_code)]

use super::{exit_now, open_pidfd};
use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Which process a fork returned in.
pub(crate) enum Fork {
    /// The new process.
    Child,
    /// The old process, with a handle on the new one. None if the new process ended and was reaped before a handle could be opened.
    Parent(Option<OwnedFd>),
}

/// How the new process is related to this one.
pub(crate) enum Kin<'a> {
    /// A child.
    Child,
    /// A child that is in this cgroup from its first instant. Only `clone3` supports this.
    ChildIn(BorrowedFd<'a>),
    /// A child of this process's parent, so that a search for descendants does not find it.
    Sibling,
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

/// The libc crate's constant has a type that is too narrow.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// The errno that refused `clone3` in this process or the process it was forked from; 0 if it was not refused.
static CLONE3_REFUSED: AtomicI32 = AtomicI32::new(0);

/// Forks. The kernel writes the new pid to `slot` before the new process can run, and after the point where a kill of us would still
/// cancel the fork: if `slot` lies in a shared mapping, there is never a process whose pid is not on record.
pub(crate) fn fork(slot: &AtomicI32, kin: &Kin<'_>) -> io::Result<Fork> {
    make(clone_args(slot, kin), kin, |call| {
        // SAFETY: without CLONE_VM this is a fork: the child has its own copy of everything, and this program has one thread, so no lock is
        // held by a thread that the child does not have. The pointers live across the call. Without a stack the child uses its copy of
        // ours.
        let result = unsafe {
            match call {
                Call::Clone3(args) => libc::syscall(libc::SYS_clone3, &raw mut *args, size_of::<CloneArgs>()),
                Call::Clone { flags, .. } => libc::syscall(libc::SYS_clone, flags, 0, slot.as_ptr(), 0, 0),
            }
        };
        if result == -1 { -(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EAGAIN) as isize) } else { result as isize }
    })
}

/// Runs `child` in a new process, where it executes a program or exits. Until then both share memory and this process waits, so that no
/// memory is copied for a process that replaces all of it. The pid is stored as by [`fork`]. The handle may be missing as in
/// [`Fork::Parent`].
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) fn start(slot: &AtomicI32, kin: &Kin<'_>, mut child: impl FnMut()) -> io::Result<Option<OwnedFd>> {
    /// Stack for the calls between clone and exec. Few of its pages are ever touched.
    const STACK: usize = 256 << 10;
    extern "C" fn enter<F: FnMut()>(child: *mut F) -> ! {
        // SAFETY: the closure lives in the caller, which is suspended until this process has executed a program or exited.
        unsafe { (*child)() };
        exit_now(127)
    }
    fn entry<F: FnMut()>(_: &F) -> extern "C" fn(*mut F) -> ! {
        enter::<F>
    }
    let mut stack = Vec::<u128>::with_capacity(STACK / size_of::<u128>());
    let mut args = clone_args(slot, kin);
    args.flags |= (libc::CLONE_VM | libc::CLONE_VFORK) as u64;
    args.stack = stack.as_mut_ptr() as u64;
    args.stack_size = STACK as u64;
    let (function, data) = (entry(&child) as usize, &raw mut child as usize);
    let made = make(args, kin, |call| {
        // SAFETY: both calls have CLONE_VM, CLONE_VFORK and a stack for the child, and the function takes the closure and does not return.
        unsafe {
            match call {
                Call::Clone3(args) => call_on_stack(libc::SYS_clone3, [&raw mut *args as usize, size_of::<CloneArgs>(), 0], function, data),
                Call::Clone { flags, stack_top } => {
                    call_on_stack(libc::SYS_clone, [flags as usize, stack_top as usize, slot.as_ptr() as usize], function, data)
                }
            }
        }
    });
    drop(stack);
    match made? {
        Fork::Parent(handle) => Ok(handle),
        Fork::Child => unreachable!("the child runs on a stack of its own and never comes here"),
    }
}

/// Calls the kernel with up to three arguments, the others 0. In the new process, on its own stack, calls `function(data)`.
///
/// The order of the fourth and fifth argument of `clone` depends on the architecture; both are 0 here.
///
/// # Safety
/// The call is clone3 or clone with CLONE_VM, CLONE_VFORK and an aligned stack; `function` is an `extern "C" fn(data) -> !`. The new
/// process changes no register or stack slot of ours. The program has one thread, and CLONE_VFORK suspends it until the new process has
/// released the memory.
#[cfg(target_arch = "x86_64")]
unsafe fn call_on_stack(number: libc::c_long, arguments: [usize; 3], function: usize, data: usize) -> isize {
    let result: isize;
    // SAFETY: the caller guarantees what the kernel and the new process need; see above.
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
            inlateout("rax") number as isize => result,
            in("rdi") arguments[0],
            in("rsi") arguments[1],
            in("rdx") arguments[2],
            in("r10") 0,
            in("r8") 0,
            in("r12") data,
            in("r13") function,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    result
}

/// The same for aarch64.
///
/// # Safety
/// As for x86_64.
#[cfg(target_arch = "aarch64")]
unsafe fn call_on_stack(number: libc::c_long, arguments: [usize; 3], function: usize, data: usize) -> isize {
    let result: isize;
    // SAFETY: the caller guarantees what the kernel and the new process need; see above.
    unsafe {
        std::arch::asm!(
            "svc 0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, x20",
            "blr x21",
            "brk 1",
            "2:",
            inlateout("x0") arguments[0] => result,
            in("x1") arguments[1],
            in("x2") arguments[2],
            in("x3") 0_usize,
            in("x4") 0_usize,
            in("x8") number,
            in("x20") data,
            in("x21") function,
            lateout("x30") _,
        );
    }
    result
}

/// For other architectures, without our own system call in assembly: a fork, with a copy of our memory.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) fn start(slot: &AtomicI32, kin: &Kin<'_>, mut child: impl FnMut()) -> io::Result<Option<OwnedFd>> {
    match fork(slot, kin)? {
        Fork::Child => {
            child();
            exit_now(127)
        }
        Fork::Parent(handle) => Ok(handle),
    }
}

/// One of the two calls, with its arguments.
enum Call<'a> {
    Clone3(&'a mut CloneArgs),
    Clone {
        /// With the signal that the parent gets when the child exits.
        flags: u64,
        /// 0 if the child has no stack of its own.
        stack_top: u64,
    },
}

/// Creates a process with `kernel`, which returns what the kernel does: a pid, 0 in the child, or a negated errno.
fn make(mut args: CloneArgs, kin: &Kin<'_>, mut kernel: impl FnMut(Call<'_>) -> isize) -> io::Result<Fork> {
    let mut refused = CLONE3_REFUSED.load(Relaxed);
    if refused == 0 {
        let mut pidfd: RawFd = -1;
        args.pidfd = &raw mut pidfd as u64;
        match kernel(Call::Clone3(&mut args)) {
            0 => return Ok(Fork::Child),
            // SAFETY: the kernel has just made this descriptor for us, close-on-exec.
            1.. => return Ok(Fork::Parent(Some(unsafe { OwnedFd::from_raw_fd(pidfd) }))),
            failed => refused = -failed as i32,
        }
    }
    if !matches!(refused, libc::ENOSYS | libc::EPERM | libc::EINVAL) || matches!(kin, Kin::ChildIn(_)) {
        return Err(io::Error::from_raw_os_error(refused));
    }
    // Nothing may fail once the process exists. So the descriptor slot for its handle is reserved first, with the call that will be needed.
    let reserved = open_pidfd(rustix::process::getpid().as_raw_nonzero().get())?;
    let flags = args.flags & !(libc::CLONE_PIDFD as u64) | args.exit_signal;
    match kernel(Call::Clone { flags, stack_top: args.stack + args.stack_size }) {
        0 => {
            CLONE3_REFUSED.store(refused, Relaxed);
            Ok(Fork::Child)
        }
        pid @ 1.. => {
            CLONE3_REFUSED.store(refused, Relaxed);
            drop(reserved);
            Ok(Fork::Parent(handle(pid as i32, kin)))
        }
        failed => Err(io::Error::from_raw_os_error(-failed as i32)),
    }
}

/// Opens a handle on a new process. None only if the process has ended and was reaped. Only this process reaps its own children, so for
/// them there always is one.
fn handle(pid: i32, kin: &Kin<'_>) -> Option<OwnedFd> {
    loop {
        match open_pidfd(pid) {
            Ok(handle) => return (!matches!(kin, Kin::Sibling) || has_our_command_line(pid)).then_some(handle),
            // EINVAL: the process was reaped, and its pid is still that of a session.
            Err(e) if matches!(e.raw_os_error(), Some(libc::ESRCH | libc::EINVAL)) => return None,
            // The slot is free, so the kernel lacks memory or open files, and no descriptor reports when it has them again. There is no
            // bound: without a handle a live process would be taken for dead.
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Whether the pid of a sibling still means a fork of us and was not reused. An ended process has an empty command line; then it does not
/// matter whose it was.
fn has_our_command_line(pid: i32) -> bool {
    let line = |who: &str| std::fs::read(format!("/proc/{who}/cmdline"));
    match (line(&pid.to_string()), line("self")) {
        (Ok(theirs), Ok(ours)) => theirs.is_empty() || theirs == ours,
        (Err(e), _) => e.kind() != io::ErrorKind::NotFound,
        (Ok(_), Err(_)) => true,
    }
}

fn clone_args(slot: &AtomicI32, kin: &Kin<'_>) -> CloneArgs {
    let mut args = CloneArgs {
        flags: (libc::CLONE_PIDFD | libc::CLONE_PARENT_SETTID) as u64,
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
            // The kernel refuses a signal of our own choice here, and uses the parent's.
            args.exit_signal = 0;
        }
    }
    args
}
