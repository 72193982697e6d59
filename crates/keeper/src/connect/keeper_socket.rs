//! A connection to a pump: nonblocking, with what waits to be sent.

use outlast_wire::frame::{self, Frame, Splitter};
use outlast_wire::v1::keeper::{FromKeeper, KeeperReply, KeeperRequest, ToKeeper};
use rustix::event::{PollFd, PollFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use std::io;
use std::path::Path;

/// How much is read at once.
const READ: usize = 16 << 10;

/// A connected socket.
#[derive(Debug)]
pub(super) struct KeeperSocket {
    fd: OwnedFd,
    unsent: Vec<u8>,
}

impl KeeperSocket {
    pub(super) fn connect(path: &Path) -> io::Result<Self> {
        let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
        rustix::net::connect(&fd, &SocketAddrUnix::new(path)?)?;
        Ok(Self { fd, unsent: Vec::new() })
    }

    pub(super) fn given(fd: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Self { fd, unsent: Vec::new() })
    }

    pub(super) fn poll_fd(&self, reads: bool) -> PollFd<'_> {
        let mut flags = if reads { PollFlags::IN } else { PollFlags::empty() };
        if !self.unsent.is_empty() {
            flags |= PollFlags::OUT;
        }
        PollFd::new(&self.fd, flags)
    }

    /// How many bytes wait to be sent.
    pub(super) fn waiting(&self) -> usize {
        self.unsent.len()
    }

    /// Adds bytes, and sends what the pump takes now. Returns how many were sent.
    pub(super) fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.unsent.extend_from_slice(bytes);
        let mut sent = 0;
        while sent < self.unsent.len() {
            match rustix::net::send(&self.fd, &self.unsent[sent..], SendFlags::NOSIGNAL) {
                Ok(n) => sent += n,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(e) => return Err(e.into()),
            }
        }
        self.unsent.drain(..sent);
        Ok(sent)
    }

    /// Reads what has arrived; empty if nothing has. None once the pump has closed the connection.
    pub(super) fn read(&self) -> Option<Vec<u8>> {
        let mut bytes = vec![0; READ];
        match rustix::io::read(&self.fd, &mut bytes) {
            Ok(0) => None,
            Ok(n) => {
                bytes.truncate(n);
                Some(bytes)
            }
            Err(Errno::AGAIN | Errno::INTR) => Some(Vec::new()),
            Err(_) => None,
        }
    }
}

/// What a pump reports of its process.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct PumpReport {
    /// Something in the folder has changed.
    pub(super) has_news: bool,
    /// The pump has closed the connection.
    pub(super) is_gone: bool,
}

/// A connection on which a pump reports news and new output.
#[derive(Debug)]
pub(super) struct Listener {
    socket: KeeperSocket,
    split: Splitter,
    asked: u64,
    /// Whether the pump was asked for output past a length, and has not answered.
    awaits: bool,
}

impl Listener {
    /// Connects to a pump that runs already.
    pub(super) fn connect(path: &Path) -> io::Result<Self> {
        let mut listener = Self::of(KeeperSocket::connect(path)?);
        listener.ask(KeeperRequest::Hello { version: outlast_wire::VERSION, listener: true })?;
        Ok(listener)
    }

    /// The connection that a pump was started with. It reports without a hello.
    pub(super) fn given(fd: OwnedFd) -> io::Result<Self> {
        KeeperSocket::given(fd).map(Self::of)
    }

    fn of(socket: KeeperSocket) -> Self {
        Self { socket, split: Splitter::default(), asked: 0, awaits: false }
    }

    pub(super) fn poll_fd(&self) -> PollFd<'_> {
        self.socket.poll_fd(true)
    }

    /// Lets the pump report when there is output past this length.
    pub(super) fn await_output(&mut self, past: u64) -> io::Result<()> {
        if !self.awaits {
            self.awaits = true;
            self.ask(KeeperRequest::AwaitOutput { past })?;
        }
        Ok(())
    }

    fn ask(&mut self, ask: KeeperRequest) -> io::Result<()> {
        self.asked += 1;
        self.socket.send(&frame::json(&ToKeeper { id: self.asked, ask })).map(|_| ())
    }

    /// Reads what the pump has reported.
    pub(super) fn hear(&mut self) -> PumpReport {
        let mut report = PumpReport::default();
        match self.socket.read() {
            Some(bytes) => self.split.push(&bytes),
            None => report.is_gone = true,
        }
        loop {
            match self.split.next_frame() {
                Ok(None) => break,
                Ok(Some(Frame::Raw { .. })) => {}
                Ok(Some(Frame::Json(json))) => {
                    report.has_news = true;
                    if let Ok(FromKeeper { say: KeeperReply::Output { closed, .. }, .. }) = serde_json::from_slice(&json) {
                        // Once the output is closed, news tell the rest.
                        self.awaits = closed;
                    }
                }
                Err(_) => {
                    report.is_gone = true;
                    break;
                }
            }
        }
        // What could not be sent before.
        report.is_gone |= self.socket.send(&[]).is_err();
        report
    }
}
