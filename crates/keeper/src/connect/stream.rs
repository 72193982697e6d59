//! The stream to the link: frames in, frames out, neither of which blocks.

use outlast_core::ProcessId;
use outlast_wire::frame::{self, BadFrame, Frame, Splitter};
use outlast_wire::v1::sandbox::{FromSandbox, PREAMBLE, SandboxReply, Update};
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::io;

/// Updates are made while fewer bytes than this wait to be sent.
const UPDATES_BELOW: usize = 512 << 10;
/// Requests are read while fewer bytes than this wait to be sent.
const REQUESTS_BELOW: usize = 4 << 20;
/// How much is read at once.
const READ: usize = 64 << 10;

/// Standard input and output, as one stream.
#[derive(Debug)]
pub(super) struct Stream {
    input: OwnedFd,
    output: OwnedFd,
    split: Splitter,
    unsent: Vec<u8>,
    sent: usize,
}

impl Stream {
    pub(super) fn new(input: OwnedFd, output: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&input, true)?;
        rustix::io::ioctl_fionbio(&output, true)?;
        Ok(Self { input, output, split: Splitter::default(), unsent: PREAMBLE.to_vec(), sent: 0 })
    }

    /// What is to be waited for: requests, and room for what waits.
    pub(super) fn poll_fds(&self) -> [PollFd<'_>; 2] {
        let requests = if self.waiting() < REQUESTS_BELOW { PollFlags::IN } else { PollFlags::empty() };
        let room = if self.waiting() > 0 { PollFlags::OUT } else { PollFlags::empty() };
        [PollFd::new(&self.input, requests), PollFd::new(&self.output, room)]
    }

    fn waiting(&self) -> usize {
        self.unsent.len() - self.sent
    }

    /// Whether there is room for another update.
    pub(super) fn takes_updates(&self) -> bool {
        self.waiting() < UPDATES_BELOW
    }

    /// Reads what has arrived. False at the end of the stream.
    pub(super) fn read(&mut self) -> io::Result<bool> {
        let mut piece = vec![0; READ];
        match rustix::io::read(&self.input, &mut piece) {
            Ok(0) => Ok(false),
            Ok(n) => {
                self.split.push(&piece[..n]);
                Ok(true)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(true),
            Err(e) => Err(e.into()),
        }
    }

    /// The next whole frame that was read.
    pub(super) fn next_frame(&mut self) -> Result<Option<Frame>, BadFrame> {
        self.split.next_frame()
    }

    pub(super) fn say(&mut self, of: u64, say: SandboxReply) {
        self.unsent.extend(frame::json(&FromSandbox { of, say }));
    }

    pub(super) fn refuse(&mut self, of: u64, code: &str, error: impl std::fmt::Display) {
        self.say(of, SandboxReply::Refused { code: code.to_owned(), error: error.to_string() });
    }

    pub(super) fn refuse_about(&mut self, of: u64, code: &str, id: ProcessId, error: impl std::fmt::Display) {
        self.refuse(of, code, format_args!("{id}: {error}"));
    }

    pub(super) fn update(&mut self, of: u64, update: Update, bytes: &[u8]) {
        self.say(of, SandboxReply::Update(update));
        self.raw(of, bytes);
    }

    pub(super) fn raw(&mut self, of: u64, bytes: &[u8]) {
        self.unsent.extend(frame::raw(of, bytes));
    }

    /// Sends as much as the other side takes now.
    pub(super) fn send(&mut self) -> io::Result<()> {
        while self.sent < self.unsent.len() {
            match rustix::io::write(&self.output, &self.unsent[self.sent..]) {
                Ok(n) => self.sent += n,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(e) => return Err(e.into()),
            }
        }
        if self.sent == self.unsent.len() {
            self.unsent.clear();
            // An idle stream keeps no large buffer.
            self.unsent.shrink_to(READ);
            self.sent = 0;
        } else if self.sent > REQUESTS_BELOW {
            self.unsent.drain(..self.sent);
            self.sent = 0;
        }
        Ok(())
    }
}

/// A standard stream as a descriptor of our own above the standard ones.
pub(super) fn own(standard: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(standard, 3)?)
}
