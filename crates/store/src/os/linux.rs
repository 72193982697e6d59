//! Linux: shared mappings, `/proc`, pidfds, clocks.
#![allow(unsafe_code)]

use crate::live::{LIVE_AT, Live};
use outlast_core::{Incarnation, Time};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::process::{Pid, PidfdFlags};
use std::io;

/// A `meta` file mapped for sharing between the two keepers.
#[derive(Debug)]
pub struct Mapping {
    at: std::ptr::NonNull<u8>,
    len: usize,
}

// SAFETY: what the mapping gives out are atomics, which any thread may use.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes of `file`, which must be allocated already: a hole on a full disk would be a SIGBUS.
    pub fn new(file: BorrowedFd<'_>, len: usize) -> io::Result<Self> {
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        assert!(len >= LIVE_AT + size_of::<Live>(), "the live part fits");
        // SAFETY: a fresh mapping at an address of the kernel's choice aliases nothing of ours.
        let at = unsafe { mmap(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file, 0)? };
        let at = std::ptr::NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { at, len })
    }

    /// The fields that change while the process lives.
    pub fn live(&self) -> &Live {
        // SAFETY: the mapping is at least this long (asserted above), page-aligned, and Live is made of atomics, for which every bit pattern is valid.
        unsafe { self.at.add(LIVE_AT).cast::<Live>().as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: at and len are those of the mapping, and nothing borrowed from it outlives self.
        let _unmapped = unsafe { rustix::mm::munmap(self.at.as_ptr().cast(), self.len) };
    }
}

// No program lives through two boots.
static BOOT: std::sync::OnceLock<u128> = std::sync::OnceLock::new();

/// The boot of the machine.
pub fn boot_id() -> io::Result<u128> {
    match BOOT.get() {
        Some(id) => Ok(*id),
        None => read_boot_id().map(|id| *BOOT.get_or_init(|| id)),
    }
}

/// Makes this program's boot id that of the sandbox with this identity. A sandbox may share its kernel with other sandboxes and have pids of
/// its own, so none of its pids may look like one of another place. Has no effect once the boot id was read.
pub fn live_in_sandbox(identity: u128) -> io::Result<()> {
    read_boot_id().map(|id| _ = BOOT.set(id ^ identity))
}

fn read_boot_id() -> io::Result<u128> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let hex: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&hex, 16).map_err(|e| io::Error::other(format!("boot id {text:?}: {e}")))
}

/// UTC now.
pub fn now() -> Time {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    Time::from_micros(t.tv_sec * 1_000_000 + t.tv_nsec / 1_000)
}

/// Nanoseconds since boot, with sleep. Deadlines use it, so that a clock change does not move them.
pub fn boottime_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// The state letter and the fields after it, parsed after the *last* `)`: a name may contain spaces and parentheses.
fn stat_fields(pid: u32) -> io::Result<Vec<String>> {
    let bytes = std::fs::read(format!("/proc/{pid}/stat"))?;
    let text = String::from_utf8_lossy(&bytes);
    let after = text.rsplit_once(')').map(|(_, rest)| rest).ok_or(io::ErrorKind::InvalidData)?;
    Ok(after.split_ascii_whitespace().map(str::to_owned).collect())
}

/// When the process with this pid started, in the kernel's ticks since boot.
pub fn start_ticks(pid: u32) -> io::Result<u64> {
    // Field 22 of the line. The first field after the name is field 3.
    stat_fields(pid)?.get(19).and_then(|f| f.parse().ok()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Whether the process with this pid has ended and was not reaped yet.
pub fn is_zombie(pid: u32) -> bool {
    stat_fields(pid).is_ok_and(|f| f.first().is_some_and(|s| s == "Z" || s == "X"))
}

/// Whether a process with this pid lives: neither gone nor a zombie. One read decides, because the process may end between two.
pub fn lives(pid: u32) -> bool {
    stat_fields(pid).is_ok_and(|f| f.first().is_some_and(|s| s != "Z" && s != "X"))
}

/// The incarnation that has this pid now.
pub fn incarnation_of(pid: u32) -> io::Result<Incarnation> {
    Ok(Incarnation { pid, start_ticks: start_ticks(pid)?, boot: boot_id()? })
}

/// Whether this incarnation is alive. A zombie is not.
pub fn is_alive(of: &Incarnation) -> bool {
    // One read: between two reads the process may end and its pid be reused.
    let same =
        |f: Vec<String>| f.get(19).and_then(|t| t.parse().ok()) == Some(of.start_ticks) && f.first().is_some_and(|s| s != "Z" && s != "X");
    boot_id().is_ok_and(|b| b == of.boot) && stat_fields(of.pid).is_ok_and(same)
}

/// Whether a stop signal suspended this incarnation. A tracer's stop does not count.
pub fn is_suspended(of: &Incarnation) -> bool {
    let same = |f: Vec<String>| f.get(19).and_then(|t| t.parse().ok()) == Some(of.start_ticks) && f.first().is_some_and(|s| s == "T");
    boot_id().is_ok_and(|b| b == of.boot) && stat_fields(of.pid).is_ok_and(same)
}

/// Whether this incarnation is alive and has not begun to exit. A process closes its files before it becomes a zombie, so the last
/// writer of an output can be alive after the output was closed. Before it closes them, the kernel marks it as exiting.
pub fn runs_on(of: &Incarnation) -> bool {
    boot_id().is_ok_and(|b| b == of.boot) && stat_fields(of.pid).is_ok_and(|fields| is_running_on(&fields, of.start_ticks))
}

fn is_running_on(fields: &[String], start_ticks: u64) -> bool {
    const PF_EXITING: u64 = 0x4;
    let number = |n: usize| fields.get(n).and_then(|text| text.parse::<u64>().ok());
    let is_over = fields.first().is_none_or(|state| state == "Z" || state == "X");
    let is_exiting = number(6).is_some_and(|flags| flags & PF_EXITING != 0);
    number(19) == Some(start_ticks) && !is_over && !is_exiting
}

/// Whether a process is on a processor, or waits for one or for a disk. Then it is working, perhaps on its exit.
pub fn is_busy(pid: u32) -> bool {
    stat_fields(pid).is_ok_and(|fields| fields.first().is_some_and(|state| state == "R" || state == "D"))
}

/// The arguments with which a process was started; its short name if it has none.
pub fn arguments_of(pid: u32) -> Option<Vec<String>> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let line = line.strip_suffix(&[0]).unwrap_or(&line);
    if line.is_empty() {
        return command_name(pid).map(|name| vec![format!("[{name}]")]);
    }
    Some(line.split(|b| *b == 0).map(|argument| String::from_utf8_lossy(argument).into_owned()).collect())
}

/// The kernel's short name of a process.
pub fn command_name(pid: u32) -> Option<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim_end().to_owned())
}

/// The direct children of a process that has one thread.
pub fn children_of_one_thread(pid: u32) -> Vec<u32> {
    match std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")) {
        Ok(text) => numbers(&text).collect(),
        Err(_) => children_of(pid),
    }
}

/// The direct children of a process, by all of its threads. While processes start and end, a single read may miss one.
pub fn children_of(pid: u32) -> Vec<u32> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let mut all = Vec::new();
    for task in tasks.flatten() {
        match std::fs::read_to_string(task.path().join("children")) {
            Ok(text) => all.extend(numbers(&text)),
            // The thread is gone, or the kernel lacks these lists.
            Err(_) if task.path().exists() => return children_by_parent(pid),
            Err(_) => {}
        }
    }
    all
}

fn numbers(text: &str) -> impl Iterator<Item = u32> {
    text.split_ascii_whitespace().filter_map(|p| p.parse().ok())
}

fn children_by_parent(pid: u32) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let all = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    all.filter(|p| parent_of(*p) == Some(pid)).collect()
}

/// The current parent of a process.
pub fn parent_of(pid: u32) -> Option<u32> {
    stat_fields(pid).ok()?.get(1)?.parse().ok()
}

/// Whether the process of a handle has ended. It may not be reaped yet.
pub fn is_over(pidfd: std::os::fd::BorrowedFd<'_>) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::from_borrowed_fd(pidfd, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut fds, Some(&now)), Ok(n) if n > 0)
}

/// The process group of a process: the pid that created it.
pub fn group_of(pid: u32) -> Option<u32> {
    stat_fields(pid).ok()?.get(2)?.parse().ok()
}

/// The session of a process: the pid that created it.
pub fn session_of(pid: u32) -> Option<u32> {
    stat_fields(pid).ok()?.get(3)?.parse().ok()
}

/// Removes a cgroup and those below it, if no process runs in it.
///
/// The kernel releases dead processes a moment after it has reported their death, and no descriptor reports that. An empty cgroup
/// that is busy is tried again.
pub fn remove_cgroup(dir: &std::path::Path) {
    let below = std::fs::read_dir(dir).into_iter().flatten().flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
    below.for_each(|e| remove_cgroup(&e.path()));
    let is_empty = || std::fs::read_to_string(dir.join("cgroup.procs")).is_ok_and(|pids| pids.is_empty());
    for _ in 0..200 {
        match std::fs::remove_dir(dir) {
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) && is_empty() => std::thread::sleep(std::time::Duration::from_millis(1)),
            Ok(()) | Err(_) => return,
        }
    }
}

/// A handle on this incarnation, or an error if it has ended or the pid belongs to another process.
pub fn pidfd_of(of: &Incarnation) -> io::Result<OwnedFd> {
    let gone = || io::Error::from_raw_os_error(libc::ESRCH);
    let pid = i32::try_from(of.pid).ok().and_then(Pid::from_raw).ok_or_else(gone)?;
    let fd = match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        Err(e) => return Err(why_no_handle(e, is_alive(of))),
        Ok(fd) => fd,
    };
    // Opened first, compared second: from here on the handle cannot refer to another process.
    if boot_id()? != of.boot || start_ticks(of.pid)? != of.start_ticks {
        return Err(gone());
    }
    Ok(fd)
}

/// Why there is no handle. Before about Linux 6.15, EINVAL means that the process has ended while its pid is still that of a
/// session or group.
fn why_no_handle(error: rustix::io::Errno, is_alive: bool) -> io::Error {
    match error {
        rustix::io::Errno::INVAL if !is_alive => io::Error::from_raw_os_error(libc::ESRCH),
        error => error.into(),
    }
}

/// Makes a call that changes nothing, to see whether it is refused.
pub(crate) fn try_call(name: &str) -> io::Result<()> {
    let me = || rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty());
    match name {
        "pidfd_open" => me().map(drop)?,
        "pidfd_send_signal" => {
            use std::os::fd::AsRawFd;
            // SAFETY: signal 0 sends nothing, and with a null siginfo the kernel reads no memory of ours.
            let sent = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, me()?.as_raw_fd(), 0, std::ptr::null::<libc::siginfo_t>(), 0) };
            if sent != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        "signalfd4" => {
            // SAFETY: the set is plain data that is filled before it is read, and the new descriptor is closed and used nowhere else.
            unsafe {
                let mut set: libc::sigset_t = std::mem::zeroed();
                libc::sigemptyset(&raw mut set);
                match libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC) {
                    -1 => return Err(io::Error::last_os_error()),
                    fd => libc::close(fd),
                };
            }
        }
        "eventfd2" => rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).map(drop)?,
        // Sets the current value again.
        "prctl(PR_SET_CHILD_SUBREAPER)" => rustix::process::set_child_subreaper(rustix::process::child_subreaper()?)?,
        other => return Err(io::Error::other(format!("there is no way to try {other}"))),
    }
    Ok(())
}

/// Sends a signal, which may be a real-time one, through a pidfd.
pub fn send(pidfd: BorrowedFd<'_>, number: i32) -> io::Result<()> {
    // SAFETY: pidfd_send_signal takes no memory of ours with a null siginfo.
    match unsafe { libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), number, std::ptr::null::<libc::siginfo_t>(), 0) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Sends a signal to an incarnation. An error if the pid belongs to another process by now.
pub fn signal(of: &Incarnation, number: i32) -> io::Result<()> {
    send(pidfd_of(of)?.as_fd(), number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_another_life_of_its_pid_is_not() {
        let me = incarnation_of(std::process::id()).unwrap();
        assert!(is_alive(&me));
        for stranger in [Incarnation { start_ticks: me.start_ticks + 1, ..me }, Incarnation { boot: me.boot ^ 1, ..me }] {
            assert!(!is_alive(&stranger));
            assert!(pidfd_of(&stranger).is_err());
            assert!(signal(&stranger, libc::SIGTERM).is_err());
        }
    }

    #[test]
    fn a_process_that_has_begun_to_exit_does_not_run_on() {
        let fields = |state: &str, flags: u32| -> Vec<String> {
            let line = format!("{state} 1 7 7 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0");
            line.split(' ').map(str::to_owned).collect()
        };
        assert!(is_running_on(&fields("S", 0x0040_0000), 4711));
        assert!(!is_running_on(&fields("R", 0x0040_0004), 4711), "it has closed its files, or is about to");
        assert!(!is_running_on(&fields("Z", 0x0040_0000), 4711));
        assert!(!is_running_on(&fields("S", 0x0040_0000), 4712), "a stranger");
        let me = incarnation_of(std::process::id()).unwrap();
        assert!(runs_on(&me) && !runs_on(&Incarnation { boot: me.boot ^ 1, ..me }));
    }

    #[test]
    fn a_number_that_is_only_a_session_any_more_is_a_process_that_is_over() {
        use rustix::io::Errno;
        let code = |error: io::Error| error.raw_os_error();
        assert_eq!(code(why_no_handle(Errno::INVAL, false)), Some(libc::ESRCH));
        assert_eq!(
            code(why_no_handle(Errno::INVAL, true)),
            Some(libc::EINVAL),
            "a live process is not said to be over where the call is refused"
        );
        assert_eq!(code(why_no_handle(Errno::PERM, false)), Some(libc::EPERM));
    }

    #[test]
    fn children_are_found_with_and_without_the_kernels_lists() {
        let mut child = std::process::Command::new("/bin/sleep").arg("1000").spawn().unwrap();
        let me = std::process::id();
        assert_eq!(parent_of(child.id()), Some(me));
        assert!(children_of(me).contains(&child.id()));
        assert!(children_by_parent(me).contains(&child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn case_211_a_name_with_blanks_and_parentheses_does_not_hide_the_start_time() {
        let dir = tempfile::tempdir().unwrap();
        let odd = dir.path().join("a b) S 1");
        std::fs::copy("/bin/sleep", &odd).unwrap();
        let mut child = std::process::Command::new(&odd).arg("1000").spawn().unwrap();
        let life = incarnation_of(child.id()).unwrap();
        assert!(life.start_ticks > 0 && is_alive(&life));
        assert_eq!(incarnation_of(child.id()).unwrap(), life);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_alive(&life));
    }
}
