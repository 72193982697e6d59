//! Where keepers come from: one process that forks them, so that none has to be executed anew.
//!
//! The engine starts a nest, and sends it an id and a connection for each process that it wants kept. A few keepers are forked ahead and wait for such a message, all
//! at the same socket: the kernel gives it to one of them. That one takes the name of its process and goes on as its pump, and the nest forks another in its place.
//! Whatever is killed here has started nothing: the connection closes, and the engine asks again.
//!
//! Decision 80: docs/decisions/keeper.md.

use crate::os::{self, Fork, Kin, Title};
use crate::start::{Ground, StartError};
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

/// How many are forked ahead.
const AHEAD: usize = 4;
/// Where no process can be made, it is tried again after this long.
const AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// A keeper that was asked for.
#[derive(Debug)]
pub(crate) struct Asked {
    /// The folder of its process.
    pub(crate) folder: PathBuf,
    /// Where the engine that asked listens, and says when to go on.
    pub(crate) engine: OwnedFd,
    /// The live copy of `meta`, which the engine holds too.
    pub(crate) image: Image,
    /// What it has ready.
    pub(crate) ground: Ground,
}

/// Whether this is the folder of a process that has no name yet.
pub(crate) fn is_unnamed(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| name == UNNAMED)
}

/// Forks keepers for as long as there is an engine to ask for them. Returns in each of those, once it was asked for.
pub(crate) fn run(unnamed: &Path) -> Result<Asked, StartError> {
    let failed = |doing| move |error: io::Error| StartError::System { doing, error };
    // What the engine's first caller had open must reach neither us nor a command: a lock there would be held for ever.
    os::close_inherited(None);
    // Read once for all of them, as is what the processor can do, which is a long question in a virtual machine.
    let _read_again_then = outlast_store::os::boot_id();
    let _known_now = memchr::memchr_iter(0, &[1]).count();
    // Without this it would end with the terminal or the session of whoever started the engine.
    let _already_leader = rustix::process::setsid();
    let signals = os::take_signals().map_err(failed("take signals"))?;
    let asks = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3).map_err(|e| failed("keep the engine's socket")(e.into()))?;
    let null =
        rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(|e| failed("open /dev/null")(e.into()))?;
    os::put_at(null.as_fd(), 0).map_err(failed("let go of standard input"))?;
    os::put_at(null.as_fd(), 1).map_err(failed("let go of standard output"))?;
    drop(null);
    let (taken, take) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|e| failed("make a pipe")(e.into()))?;
    let mut nest = Nest { title: Title::find(UNNAMED), asks, signals, taken, take, ahead: BTreeSet::new(), rests: false };
    loop {
        if nest.fork()? {
            let ground = Ground::lay()?;
            let Some((id, engine, image)) = nest.wait_to_be_asked() else { os::exit_now(0) };
            outlast_store::points::reach("nest.asked");
            let folder = unnamed.with_file_name(id.to_string());
            if let Some(title) = &nest.title {
                title.set(&id.to_string());
            }
            return Ok(Asked { folder, engine, image, ground });
        }
        if nest.is_over() {
            os::exit_now(0);
        }
    }
}

struct Nest {
    title: Option<Title>,
    /// Where the engine sends what it wants kept.
    asks: OwnedFd,
    signals: OwnedFd,
    /// Where those who were asked for say so.
    taken: OwnedFd,
    take: OwnedFd,
    /// The pids of those who wait.
    ahead: BTreeSet<u32>,
    /// Whether one of them has died of itself: the next one may, too, and is not made at once.
    rests: bool,
}

impl Nest {
    /// Forks until enough are waiting. Whether this is one of them.
    fn fork(&mut self) -> Result<bool, StartError> {
        while self.ahead.len() < AHEAD && !self.rests {
            let pid = AtomicI32::new(0);
            match os::fork(&pid, &Kin::Child) {
                Ok(Fork::Child) => return Ok(true),
                Ok(Fork::Parent(_)) => _ = self.ahead.insert(pid.load(SeqCst) as u32),
                // Those who wait serve on; with none, those who ask wait for the next try.
                Err(_) => break,
            }
        }
        self.rests = false;
        Ok(false)
    }

    /// In a keeper: waits for its turn. Nothing if there is no engine any more.
    fn wait_to_be_asked(&self) -> Option<(ProcessId, OwnedFd, Image)> {
        let asked = receive(&self.asks);
        // Whatever it was, this one does not wait any more.
        let me = rustix::process::getpid().as_raw_nonzero().get() as u32;
        let _nest_is_dead = rustix::io::write(&self.take, &me.to_ne_bytes());
        let (name, engine, image) = asked.ok()??;
        Some((name.parse().ok()?, engine, image))
    }

    /// Sleeps until somebody was asked for or has died. Whether there is no engine any more, and nobody who waits for one.
    fn is_over(&mut self) -> bool {
        let mut fds = [
            PollFd::new(&self.taken, PollFlags::IN),
            PollFd::new(&self.signals, PollFlags::IN),
            // Only that its other end is closed: what comes is for those who wait.
            PollFd::new(&self.asks, PollFlags::empty()),
        ];
        let timeout = (self.ahead.len() < AHEAD).then_some(AGAIN);
        // Interrupted, or late: everything is looked at.
        let _woken = poll(&mut fds, timeout.as_ref());
        let (taken, left) = (!fds[0].revents().is_empty(), !fds[2].revents().is_empty());
        self.see(taken);
        // They see the same, and go, but for those who were asked for before; then nothing of ours is left.
        while left && !self.ahead.is_empty() {
            let mut fds = [PollFd::new(&self.taken, PollFlags::IN), PollFd::new(&self.signals, PollFlags::IN)];
            let _woken = poll(&mut fds, None);
            let taken = !fds[0].revents().is_empty();
            self.see(taken);
        }
        left
    }

    /// Sees who was asked for, if somebody was, and who has died.
    fn see(&mut self, taken: bool) {
        if taken {
            let mut pids = [0; 4 * 64];
            // Interrupted: it is there the next time.
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
