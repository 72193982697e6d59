//! Linux: sessions, limits, inotify, pidfds.
#![allow(unsafe_code)]

use outlast_core::{Incarnation, ProcessId};
use rustix::fd::OwnedFd;
use rustix::fs::inotify;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Leaves the starter's session, so that its end is not ours. Whoever leads a group already has left.
pub(crate) fn leave_session() {
    if let Err(error) = rustix::process::setsid() {
        tracing::debug!(%error, "still in the session of whoever started us");
    }
}

/// From now on, what we create is ours alone.
pub(crate) fn private_umask() {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
}

/// Raises the number of descriptors we may have to what we are allowed, and returns what it was.
pub(crate) fn nofile_to_the_limit() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let was = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: was.maximum, maximum: was.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
    was.current
}

/// Whether so many more descriptors can be had right now.
pub(crate) fn room_for(descriptors: usize) -> io::Result<()> {
    let one = || Ok(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 3)?);
    let first: OwnedFd = one()?;
    // They are given out from the lowest on: where that is far below the limit there is no need to count.
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

/// Tells when something changes in a directory.
#[derive(Debug)]
pub(crate) struct Watch(AsyncFd<OwnedFd>);

impl Watch {
    /// Watches `dir` for what appears there.
    pub(crate) fn for_new(dir: &Path) -> io::Result<Self> {
        Self::new(&[(dir, inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO)])
    }

    /// Watches for the loss of `file`, or of the directory it is in. What becomes of others there is not told: a keeper comes and goes with each process.
    pub(crate) fn for_loss(file: &Path) -> io::Result<Self> {
        use inotify::WatchFlags as W;
        let lost = W::DELETE_SELF | W::MOVE_SELF;
        // A name that is removed is a change of the file as long as somebody has it open.
        let paths = [(file, lost | W::ATTRIB), (file.parent().unwrap_or(file), lost)];
        Self::new(&paths)
    }

    fn new(what: &[(&Path, inotify::WatchFlags)]) -> io::Result<Self> {
        let fd = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        for (path, of) in what {
            inotify::add_watch(&fd, *path, *of)?;
        }
        Ok(Self(readable(fd)?))
    }

    /// Returns once something was.
    pub(crate) async fn changed(&self) -> io::Result<()> {
        let mut ready = self.0.readable().await?;
        let mut buffer = [0; 4096];
        while rustix::io::read(&self.0, &mut buffer).is_ok_and(|n| n > 0) {}
        ready.clear_ready();
        Ok(())
    }
}

/// A life that can be waited for.
#[derive(Debug)]
pub(crate) struct Lives(AsyncFd<OwnedFd>);

impl Lives {
    /// This very life, or an error if it is over.
    pub(crate) fn of(life: &Incarnation) -> io::Result<Self> {
        Self::at(outlast_store::os::pidfd_of(life)?)
    }

    /// The life that this handle is of.
    pub(crate) fn at(handle: OwnedFd) -> io::Result<Self> {
        Ok(Self(readable(handle)?))
    }

    /// Returns once it is over.
    pub(crate) async fn over(&self) -> io::Result<()> {
        // A pidfd becomes readable once and stays so.
        self.0.readable().await.map(|_| ())
    }
}

/// The process of ours as which, or as a descendant of which, this pid was started: its environment says so.
pub(crate) fn id_of_environment(pid: u32) -> Option<ProcessId> {
    let environ = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let id = environ.split(|&b| b == 0).find_map(|entry| entry.strip_prefix(b"OUTLAST_PROCESS_ID="))?;
    std::str::from_utf8(id).ok()?.parse().ok()
}

/// Whether the process with this pid was started as, or descends from, this process of ours: its environment says so.
pub(crate) fn pid_of_environment(pid: u32, id: ProcessId) -> bool {
    let Ok(environ) = std::fs::read(format!("/proc/{pid}/environ")) else { return false };
    let wanted = format!("OUTLAST_PROCESS_ID={id}");
    environ.split(|&b| b == 0).any(|entry| entry == wanted.as_bytes())
}
