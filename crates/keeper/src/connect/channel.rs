//! A channel between the link and the socket of a pump. Its bytes pass through as they are.

use super::keeper_socket::KeeperSocket;
use outlast_wire::v1::sandbox::CHANNEL_WINDOW;
use rustix::event::PollFd;
use std::io;
use std::path::Path;

/// A channel.
#[derive(Debug)]
pub(super) struct Channel {
    socket: KeeperSocket,
}

/// What a channel has for the link.
#[derive(Debug, Default)]
pub(super) struct ChannelNews {
    /// How many bytes of the link were passed on.
    pub(super) taken: u64,
    /// What the pump has sent.
    pub(super) bytes: Vec<u8>,
    /// The pump has closed the connection.
    pub(super) is_hung_up: bool,
}

impl Channel {
    pub(super) fn dial(socket: &Path) -> io::Result<Self> {
        KeeperSocket::connect(socket).map(|socket| Self { socket })
    }

    /// `reads`: whether the stream has room for what the pump sends.
    pub(super) fn poll_fd(&self, reads: bool) -> PollFd<'_> {
        self.socket.poll_fd(reads)
    }

    /// Passes bytes on. An error if the link sends more than it may, or the pump is gone.
    pub(super) fn pass(&mut self, bytes: &[u8]) -> io::Result<u64> {
        if (self.socket.waiting() + bytes.len()) as u64 > CHANNEL_WINDOW {
            return Err(io::Error::other("more bytes than the window of a channel"));
        }
        self.socket.send(bytes).map(|sent| sent as u64)
    }

    /// Takes in what its descriptor reports.
    pub(super) fn hear(&mut self) -> ChannelNews {
        let mut news = ChannelNews::default();
        match self.socket.send(&[]) {
            Ok(sent) => news.taken = sent as u64,
            Err(_) => news.is_hung_up = true,
        }
        match self.socket.read() {
            Some(bytes) => news.bytes = bytes,
            None => news.is_hung_up = true,
        }
        news
    }
}
