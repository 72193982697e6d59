//! Linux: sessions, limits, inotify, pidfds.
#![allow(unsafe_code)]

use outlast_core::{Incarnation, ProcessId, ProcessLimits};
use outlast_wire::v1::Namespaces;
use rustix::fd::OwnedFd;
use rustix::fs::inotify;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Leaves the starter's kernel session, so that the engine does not end with it. The leader of a group has left already.
pub(crate) fn leave_session() {
    if let Err(error) = rustix::process::setsid() {
        tracing::debug!(%error, "still in the session of the starter");
    }
}

/// The namespaces of this process.
pub(crate) fn namespaces() -> Namespaces {
    Namespaces::read(|path| match std::fs::read_link(path) {
        Ok(target) => target.into_os_string().into_string().ok(),
        Err(_) => std::fs::read_to_string(path).ok(),
    })
}

/// Sets the umask so that new files are closed to other users.
pub(crate) fn private_umask() {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
}

/// The capability to raise any resource limit.
pub(crate) const CAP_SYS_RESOURCE: u32 = 24;
/// The capability to examine processes of other users and of more privileged programs.
pub(crate) const CAP_SYS_PTRACE: u32 = 19;
/// The capability to start processes as other users.
pub(crate) const CAP_SETUID: u32 = 7;
/// The capability to have any priority.
pub(crate) const CAP_SYS_NICE: u32 = 23;

/// Whether this process has a capability.
pub(crate) fn has_capability(number: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let all = status.lines().find_map(|line| line.strip_prefix("CapEff:")).and_then(|all| u64::from_str_radix(all.trim(), 16).ok());
    all.is_some_and(|all| all >> number & 1 == 1)
}

/// The scheduling priority, policy and processors of this thread.
pub(crate) fn priority() -> ProcessLimits {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    ProcessLimits::of_proc(&read("/proc/thread-self/stat"), &read("/proc/thread-self/status"))
}

/// Resets priority, policy and processors to the usual ones, as far as that is allowed.
pub(crate) fn leave_priority() {
    /// More processors than any kernel has. The kernel ignores those that do not exist.
    const ALL: [u8; 1024] = [0xff; 1024];
    const WHO_PROCESS: libc::c_int = 1;
    // SAFETY: the kernel reads the mask, which is static, and sched_param, which is plain data for which zero is valid; the other arguments
    // are numbers.
    unsafe {
        let param: libc::sched_param = std::mem::zeroed();
        let _refused = libc::syscall(libc::SYS_sched_setaffinity, 0, ALL.len(), ALL.as_ptr());
        let _refused = libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const param);
        let _refused = libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, 0);
    }
    if rustix::process::getpriority_process(None).is_ok_and(|nice| nice != 0) {
        let _refused = rustix::process::setpriority_process(None, 0);
    }
}

/// Whether this many more descriptors can be opened right now.
pub(crate) fn room_for(descriptors: usize) -> io::Result<()> {
    let one = || Ok(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 3)?);
    let first: OwnedFd = one()?;
    // The kernel gives out the lowest free number. If that is far below the limit, nothing has to be counted.
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    if first.as_raw_fd() as u64 * 2 < most {
        return Ok(());
    }
    let held: io::Result<Vec<OwnedFd>> = (1..descriptors).map(|_| one()).collect();
    held.map(drop)
}

fn readable(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    registered(fd, Interest::READABLE)
}

/// A descriptor that can be waited for until it takes more.
pub(crate) fn writable(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    registered(fd, Interest::WRITABLE)
}

fn registered(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an OwnedFd is the same open descriptor for as long as it lives, and what is made of it here owns it and never gives it out.
    unsafe { AsyncFd::register_with_interest(fd, interest) }.map_err(Into::into)
}

/// Reports changes in a directory.
#[derive(Debug)]
pub(crate) struct Watch(AsyncFd<OwnedFd>);

impl Watch {
    /// Watches `dir` for new files.
    pub(crate) fn for_new(dir: &Path) -> io::Result<Self> {
        Self::new(&[(dir, inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO)])
    }

    /// Watches for the loss of `file` or its directory. Other files there are not reported: each process brings a socket.
    pub(crate) fn for_loss(file: &Path) -> io::Result<Self> {
        use inotify::WatchFlags as W;
        let lost = W::DELETE_SELF | W::MOVE_SELF;
        // Removing a name of a file that a process has open changes the file's attributes.
        let paths = [(file, lost | W::ATTRIB), (file.parent().unwrap_or(file), lost)];
        Self::new(&paths)
    }

    /// Watches for the removal of any of these files and directories.
    pub(crate) fn for_loss_of(paths: &[PathBuf]) -> io::Result<Self> {
        use inotify::WatchFlags as W;
        let all: Vec<_> = paths.iter().map(|path| (path.as_path(), W::DELETE_SELF | W::MOVE_SELF | W::ATTRIB)).collect();
        Self::new(&all)
    }

    fn new(what: &[(&Path, inotify::WatchFlags)]) -> io::Result<Self> {
        let fd = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        for (path, of) in what {
            inotify::add_watch(&fd, *path, *of)?;
        }
        Ok(Self(readable(fd)?))
    }

    /// Returns once there was a change.
    pub(crate) async fn changed(&self) -> io::Result<()> {
        let mut ready = self.0.readable().await?;
        let mut buffer = [0; 4096];
        while rustix::io::read(&self.0, &mut buffer).is_ok_and(|n| n > 0) {}
        ready.clear_ready();
        Ok(())
    }
}

/// Returns once one of them was removed or moved; `false` if nothing can be watched.
pub(crate) async fn changed(watch: Option<&Watch>) -> bool {
    match watch {
        Some(watch) => watch.changed().await.is_ok(),
        None => false,
    }
}

/// An operating-system process that can be waited for.
#[derive(Debug)]
pub(crate) struct ProcessHandle(AsyncFd<OwnedFd>);

impl ProcessHandle {
    /// The process with this identity, or an error if it has exited.
    pub(crate) fn of(life: &Incarnation) -> io::Result<Self> {
        Self::at(outlast_store::os::pidfd_of(life)?)
    }

    /// The process of this pidfd.
    pub(crate) fn at(handle: OwnedFd) -> io::Result<Self> {
        Ok(Self(readable(handle)?))
    }

    /// Returns once it has exited.
    pub(crate) async fn exited(&self) -> io::Result<()> {
        // A pidfd becomes readable once and stays so.
        self.0.readable().await.map(|_| ())
    }
}

/// The process of ours that this pid was started as or descends from, by its environment.
pub(crate) fn id_of_environment(pid: u32) -> Option<ProcessId> {
    ids_in(&std::fs::read(format!("/proc/{pid}/environ")).ok()?).next()
}

/// The processes of ours that an environment names: one, unless a program has added a second.
pub(crate) fn ids_in(environ: &[u8]) -> impl Iterator<Item = ProcessId> {
    let values = environ.split(|&b| b == 0).filter_map(|entry| entry.strip_prefix(b"OUTLAST_PROCESS_ID="));
    values.filter_map(|id| std::str::from_utf8(id).ok()?.parse().ok())
}

/// Every process that is this process of ours or descends from it.
pub(crate) fn pids_of_environment(id: ProcessId) -> impl Iterator<Item = u32> {
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(|e| e.file_name().to_str()?.parse().ok()).filter(move |pid| pid_of_environment(*pid, id))
}

/// Whether the process with this pid was started as, or descends from, this process of ours: its environment says so.
pub(crate) fn pid_of_environment(pid: u32, id: ProcessId) -> bool {
    std::fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environ| ids_in(&environ).any(|named| named == id))
}
