//! The fork server: one process that forks keepers, so that no keeper has to be executed.
//!
//! The engine starts it, and sends it an id and a connection for each process that needs keepers. A few keepers are forked ahead
//! and wait for such a message, all on the same socket: the kernel gives it to one of them. That keeper takes the name of its
//! process and becomes its pump, and the fork server forks another one. A keeper that is killed here has started nothing: the
//! connection closes, and the engine asks again.
//!
//! Decision 80: docs/decisions/keeper.md.

use crate::os::{self, Fork, Kin, Title};
use crate::start::{KeeperBase, StartError};
use outlast_core::ProcessId;
use outlast_store::dir::UNNAMED;
use outlast_store::meta::Image;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::SeqCst;

/// How many keepers are forked ahead.
const AHEAD: usize = 4;
/// If no process can be created, it is tried again after this time.
const AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// A keeper that was requested.
#[derive(Debug)]
pub(crate) struct RequestedKeeper {
    /// The folder of its process.
    pub(crate) folder: PathBuf,
    /// The connection to the engine that requested it and sends the go-ahead.
    pub(crate) engine: OwnedFd,
    /// The live copy of `meta`, which the engine holds, too.
    pub(crate) image: Image,
    /// The descriptors it has opened already.
    pub(crate) base: KeeperBase,
}

/// Whether this is the folder of a process whose id is not known yet.
pub(crate) fn is_unnamed(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| name == UNNAMED)
}

/// Forks keepers as long as an engine may request them. Returns in each keeper once it was requested.
pub(crate) fn run(unnamed: &Path) -> Result<RequestedKeeper, StartError> {
    let failed = |doing| move |error: io::Error| StartError::System { doing, error };
    // Descriptors of the program that started the engine must reach neither the keepers nor a command: a lock held through one
    // would never be released.
    os::close_inherited(None);
    // Both are read once for all keepers. Detecting the processor's features takes long in a virtual machine.
    let _read_again_then = outlast_store::os::boot_id();
    let _known_now = memchr::memchr_iter(0, &[1]).count();
    // Without this it would end with the terminal or session of the program that started the engine.
    let _already_leader = rustix::process::setsid();
    let signals = os::take_signals().map_err(failed("take signals"))?;
    let asks = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3).map_err(|e| failed("keep the engine's socket")(e.into()))?;
    let null =
        rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(|e| failed("open /dev/null")(e.into()))?;
    os::put_at(null.as_fd(), 0).map_err(failed("let go of standard input"))?;
    os::put_at(null.as_fd(), 1).map_err(failed("let go of standard output"))?;
    drop(null);
    let (taken, take) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|e| failed("make a pipe")(e.into()))?;
    let mut server = ForkServer { title: Title::find(UNNAMED), asks, signals, taken, take, ahead: BTreeSet::new(), rests: false };
    loop {
        if server.fork()? {
            let base = KeeperBase::open()?;
            let Some((id, engine, image)) = server.wait_to_be_asked() else { os::exit_now(0) };
            outlast_store::points::reach("nest.asked");
            let folder = unnamed.with_file_name(id.to_string());
            if let Some(title) = &server.title {
                title.set(&id.to_string());
            }
            return Ok(RequestedKeeper { folder, engine, image, base });
        }
        if server.is_over() {
            os::exit_now(0);
        }
    }
}

struct ForkServer {
    title: Option<Title>,
    /// The socket of the engine's requests.
    asks: OwnedFd,
    signals: OwnedFd,
    /// Keepers that were requested write their pids here.
    taken: OwnedFd,
    take: OwnedFd,
    /// The pids of the waiting keepers.
    ahead: BTreeSet<u32>,
    /// Whether a waiting keeper has died on its own. The next one may die, too, so it is not forked at once.
    rests: bool,
}

impl ForkServer {
    /// Forks until enough keepers wait. Returns whether this is one of them.
    fn fork(&mut self) -> Result<bool, StartError> {
        while self.ahead.len() < AHEAD && !self.rests {
            let pid = AtomicI32::new(0);
            match os::fork(&pid, &Kin::Child) {
                Ok(Fork::Child) => return Ok(true),
                Ok(Fork::Parent(_)) => _ = self.ahead.insert(pid.load(SeqCst) as u32),
                // The waiting keepers continue. If there are none, requests wait for the next try.
                Err(_) => break,
            }
        }
        self.rests = false;
        Ok(false)
    }

    /// In a keeper: waits for a request. None if there is no engine any more.
    fn wait_to_be_asked(&self) -> Option<(ProcessId, OwnedFd, Image)> {
        let asked = receive(&self.asks);
        // In any case, this keeper no longer waits.
        let me = rustix::process::getpid().as_raw_nonzero().get() as u32;
        let _server_is_dead = rustix::io::write(&self.take, &me.to_ne_bytes());
        let (name, engine, image) = asked.ok()??;
        Some((name.parse().ok()?, engine, image))
    }

    /// Sleeps until a keeper was requested or has died. Returns whether there is no engine any more, and no keeper that waits for
    /// one.
    fn is_over(&mut self) -> bool {
        let mut fds = [
            PollFd::new(&self.taken, PollFlags::IN),
            PollFd::new(&self.signals, PollFlags::IN),
            // Only reports that the other end is closed: messages are for the waiting keepers.
            PollFd::new(&self.asks, PollFlags::empty()),
        ];
        let timeout = (self.ahead.len() < AHEAD).then_some(AGAIN);
        // Interrupted, or late: everything is checked.
        let _woken = poll(&mut fds, timeout.as_ref());
        let (taken, left) = (!fds[0].revents().is_empty(), !fds[2].revents().is_empty());
        self.see(taken);
        // The waiting keepers see the same and exit, except for those that were requested before.
        while left && !self.ahead.is_empty() {
            let mut fds = [PollFd::new(&self.taken, PollFlags::IN), PollFd::new(&self.signals, PollFlags::IN)];
            let _woken = poll(&mut fds, None);
            let taken = !fds[0].revents().is_empty();
            self.see(taken);
        }
        left
    }

    /// Notes which keepers were requested and which have died.
    fn see(&mut self, taken: bool) {
        if taken {
            let mut pids = [0; 4 * 64];
            // If this is interrupted, the pids are read the next time.
            let read = rustix::io::read(&self.taken, &mut pids).unwrap_or(0);
            for pid in pids[..read].chunks_exact(4) {
                self.ahead.remove(&u32::from_ne_bytes([pid[0], pid[1], pid[2], pid[3]]));
            }
        }
        os::read_signals(self.signals.as_fd());
        while let Some(pid) = os::reap_any() {
            self.rests |= self.ahead.remove(&pid);
        }
    }
}

/// Receives one request: the name of a folder, a connection, and the live copy of `meta`. None at the end of the connection.
fn receive(asks: &OwnedFd) -> io::Result<Option<(String, OwnedFd, Image)>> {
    let mut name = [0; 64];
    let mut room = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let read = loop {
        let mut into = [io::IoSliceMut::new(&mut name)];
        match recvmsg(asks, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            done => break done?.bytes,
        }
    };
    if read == 0 {
        return Ok(None);
    }
    let given = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => Some((fds.next()?, Image::from_fd(fds.next()?)?)),
        _ => None,
    });
    let (engine, image) = given.ok_or(io::ErrorKind::InvalidData)?;
    let name = String::from_utf8_lossy(&name[..read]).into_owned();
    Ok(Some((name, engine, image)))
}
