//! The control socket: connections, incoming requests, outgoing messages.

use outlast_wire::frame::{self, Frame, Splitter};
use outlast_wire::v1::keeper::{FromKeeper, KeeperReply, KeeperRequest, ToKeeper};
use outlast_wire::{OLDEST, VERSION, code};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, sendmsg};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::time::Duration;

/// How many connections there may be at once. An engine has one for all clients that follow the output, and one for each request
/// under way.
const MOST: usize = 256;
/// How many bytes may wait for a peer that does not read before its connection is closed.
const BACKLOG: usize = 1 << 20;

/// One connection.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) id: u64,
    pub(crate) fd: OwnedFd,
    split: Splitter,
    unsent: Vec<u8>,
    greeted: bool,
    /// Whether the peer is an engine that wants news.
    pub(crate) listener: bool,
    /// Whether a real terminal is attached through it.
    pub(crate) attached: bool,
    /// Requests for output past a length.
    pub(crate) awaits: Vec<(u64, u64)>,
    /// Requests that wait for the end of the stop.
    pub(crate) stops: Vec<u64>,
    over: bool,
}

/// What a connection received.
#[derive(Debug)]
pub(crate) enum Came {
    /// A request.
    KeeperRequest { conn: u64, id: u64, ask: KeeperRequest },
    /// Bytes for a request.
    Bytes { conn: u64, of: u64, bytes: Vec<u8> },
}

/// All connections of this pump.
#[derive(Debug, Default)]
pub(crate) struct Control {
    pub(crate) conns: Vec<Conn>,
    next: u64,
}

impl Control {
    /// Whether an engine listens for news.
    pub(crate) fn has_listener(&self) -> bool {
        self.conns.iter().any(|c| c.listener && !c.over)
    }

    /// Adds a connection without hellos: its engine has sent both, and listens.
    pub(crate) fn take(&mut self, engine: OwnedFd) {
        self.add(engine);
        if let Some(conn) = self.conns.last_mut() {
            (conn.greeted, conn.listener) = (true, true);
        }
    }

    fn add(&mut self, fd: OwnedFd) {
        self.next += 1;
        self.conns.push(Conn {
            id: self.next,
            fd,
            split: Splitter::default(),
            unsent: Vec::new(),
            greeted: false,
            listener: false,
            attached: false,
            awaits: Vec::new(),
            stops: Vec::new(),
            over: false,
        });
    }

    /// Accepts connections of the own user and of root.
    pub(crate) fn accept(&mut self, listen: &OwnedFd) {
        while let Ok(fd) = rustix::net::accept_with(listen, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            let ours = rustix::net::sockopt::socket_peercred(&fd).is_ok_and(|c| c.uid.is_root() || c.uid == rustix::process::geteuid());
            // One connection too many, or another user: closing it tells the peer.
            if ours && self.conns.len() < MOST {
                self.add(fd);
            }
        }
    }

    /// Reads what has arrived on one connection.
    pub(crate) fn read(&mut self, conn: u64) -> Vec<Came> {
        let mut came = Vec::new();
        let Some(c) = self.conns.iter_mut().find(|c| c.id == conn) else { return came };
        let mut buf = [0; 8192];
        match rustix::io::read(&c.fd, &mut buf) {
            Ok(0) => c.over = true,
            Ok(n) => c.split.push(&buf[..n]),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => c.over = true,
        }
        loop {
            match c.split.next_frame() {
                Ok(None) => break,
                Ok(Some(Frame::Raw { of, bytes })) => came.push(Came::Bytes { conn, of, bytes }),
                Ok(Some(Frame::Json(json))) => match serde_json::from_slice::<ToKeeper>(&json) {
                    Ok(ToKeeper { id, ask: KeeperRequest::Hello { version, listener } }) => c.greet(id, version, listener),
                    Ok(ToKeeper { id, ask }) if c.greeted => came.push(Came::KeeperRequest { conn, id, ask }),
                    Ok(ToKeeper { id, .. }) => c.refuse(id, code::BAD_REQUEST, "say hello first"),
                    Err(e) => {
                        // The number of the request may still be readable. A newer engine then learns that this keeper is too old
                        // for the request.
                        let id = serde_json::from_slice::<serde_json::Value>(&json).ok().and_then(|v| v["id"].as_u64()).unwrap_or(0);
                        c.refuse(id, code::BAD_REQUEST, &format!("not understood: {e}"));
                    }
                },
                Err(e) => {
                    c.refuse(0, code::BAD_REQUEST, &e.to_string());
                    c.over = true;
                    break;
                }
            }
        }
        came
    }

    /// Sends a message on one connection.
    pub(crate) fn say(&mut self, conn: u64, of: Option<u64>, say: KeeperReply) {
        if let Some(c) = self.conns.iter_mut().find(|c| c.id == conn) {
            c.say(of, say);
        }
    }

    /// Passes a descriptor of the live copy of `meta` to one connection.
    pub(crate) fn pass_meta(&mut self, conn: u64, of: u64, meta: BorrowedFd<'_>) {
        if let Some(c) = self.conns.iter_mut().find(|c| c.id == conn) {
            c.pass_meta(of, meta);
        }
    }

    /// Tells every engine that the folder has changed.
    pub(crate) fn news(&mut self) {
        for c in self.conns.iter_mut().filter(|c| c.listener) {
            c.say(None, KeeperReply::News);
        }
    }

    /// Waits until a listening engine leaves, which it does once it has stored the end, or sends something.
    pub(crate) fn wait_for_listener(&self, longest: Duration) {
        let mut fds: Vec<PollFd<'_>> =
            self.conns.iter().filter(|c| c.listener && !c.over).map(|c| PollFd::new(&c.fd, PollFlags::IN)).collect();
        if !fds.is_empty() {
            let longest = Timespec { tv_sec: 0, tv_nsec: i64::from(longest.subsec_nanos()) };
            // If it is late or the wait is interrupted, the keeper does not wait longer.
            let _late = poll(&mut fds, Some(&longest));
        }
    }

    /// Sends what waits, and closes the connections that are over. Returns their ids.
    pub(crate) fn flush(&mut self) -> Vec<u64> {
        for c in &mut self.conns {
            c.send();
        }
        let gone = self.conns.iter().filter(|c| c.over).map(|c| c.id).collect();
        self.conns.retain(|c| !c.over);
        gone
    }
}

impl Conn {
    /// Whether bytes wait for the peer to read.
    pub(crate) fn is_behind(&self) -> bool {
        !self.unsent.is_empty()
    }

    fn greet(&mut self, id: u64, version: u32, listener: bool) {
        if version < OLDEST {
            self.refuse(id, code::BAD_VERSION, &format!("version {version} is too old: this keeper speaks {OLDEST} to {VERSION}"));
            return;
        }
        self.greeted = true;
        self.listener = listener;
        self.say(Some(id), KeeperReply::Hello { version: version.min(VERSION), program: env!("CARGO_PKG_VERSION").to_owned() });
    }

    pub(crate) fn refuse(&mut self, id: u64, code: &str, error: &str) {
        self.say(Some(id), KeeperReply::Refused { code: code.to_owned(), error: error.to_owned() });
    }

    pub(crate) fn say(&mut self, of: Option<u64>, say: KeeperReply) {
        self.unsent.extend(frame::json(&FromKeeper { of, say }));
        self.send();
        if self.unsent.len() > BACKLOG {
            self.over = true;
        }
    }

    fn pass_meta(&mut self, of: u64, meta: BorrowedFd<'_>) {
        self.send();
        let message = frame::json(&FromKeeper { of: Some(of), say: KeeperReply::Meta });
        // A descriptor goes with the first byte of its message, so no bytes may wait before it.
        let passed = if self.is_behind() { Err(Errno::AGAIN) } else { send_with(&self.fd, &message, meta) };
        match passed {
            Ok(sent) => self.unsent.extend(&message[sent..]),
            Err(e) => self.refuse(of, code::FAULT, &format!("the live copy of meta cannot be passed: {e}")),
        }
    }

    fn send(&mut self) {
        let mut sent = 0;
        while sent < self.unsent.len() {
            match rustix::net::send(&self.fd, &self.unsent[sent..], SendFlags::NOSIGNAL) {
                Ok(n) => sent += n,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => {
                    self.over = true;
                    break;
                }
            }
        }
        self.unsent.drain(..sent);
    }
}

/// Sends bytes and a descriptor. Returns how many bytes were taken: the descriptor goes with the first.
fn send_with(to: &OwnedFd, bytes: &[u8], fd: BorrowedFd<'_>) -> rustix::io::Result<usize> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    let fds = [fd];
    // It has space for exactly one descriptor.
    control.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(to, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)
}
