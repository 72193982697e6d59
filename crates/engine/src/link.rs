//! A connection to a keeper.
//!
//! The engine keeps one open for each process to receive news. A request to a keeper opens another, so that a long answer delays no other
//! request, and a client that leaves cancels its request.

use outlast_wire::frame::{self, Frame, Splitter};
use outlast_wire::socket;
use outlast_wire::v1::keeper::{FromKeeper, KeeperReply, KeeperRequest, ToKeeper};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// How long a keeper may take to say hello.
const HELLO_LIMIT: Duration = Duration::from_secs(10);

/// The message to a keeper that the request is on disk.
const GO: &[u8] = b"g";

/// A connection after the hellos.
#[derive(Debug)]
pub(crate) struct Link {
    from: socket::Receiver,
    to: socket::Sender,
    frames: Splitter,
    asked: u64,
}

impl Link {
    /// Connects. A `listener` receives news.
    pub(crate) async fn connect(socket: &Path, listener: bool) -> io::Result<Self> {
        let meet = async {
            let mut link = Self::given(UnixStream::connect(socket).await?.into_std()?)?;
            match link.ask(KeeperRequest::Hello { version: outlast_wire::VERSION, listener }).await? {
                KeeperReply::Hello { version, .. } if (outlast_wire::OLDEST..=outlast_wire::VERSION).contains(&version) => Ok(link),
                other => Err(io::Error::other(format!("the keeper at {} said {other:?} instead of hello", socket.display()))),
            }
        };
        tokio::time::timeout(HELLO_LIMIT, meet).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// A connection that a keeper was started with. It receives news without a hello.
    pub(crate) fn given(stream: std::os::unix::net::UnixStream) -> io::Result<Self> {
        let (from, to) = socket::halves(stream)?;
        Ok(Self { from, to, frames: Splitter::default(), asked: 0 })
    }

    /// Tells a keeper that was started with this connection to start its command.
    pub(crate) async fn go(&mut self) -> io::Result<()> {
        self.to.write_all(GO).await
    }

    /// Tells such a keeper to leave instead, and returns when it has left.
    pub(crate) async fn call_off(&mut self) {
        // It may have left already.
        let _gone = self.to.shutdown().await;
        let _over = self.from.read(&mut [0]).await;
    }

    /// Sends a request and returns the answer.
    pub(crate) async fn ask(&mut self, ask: KeeperRequest) -> io::Result<KeeperReply> {
        let id = self.send(ask).await?;
        self.answer(id).await
    }

    /// Sends a request with `bytes` for the input.
    pub(crate) async fn write(&mut self, at: Option<u64>, bytes: &[u8]) -> io::Result<KeeperReply> {
        let id = self.send(KeeperRequest::Write { at, len: bytes.len() as u64 }).await?;
        let Self { from, to, frames, .. } = self;
        let send = async {
            for chunk in bytes.chunks(frame::RAW_CHUNK) {
                if to.write_all(&frame::raw(id, chunk)).await.is_err() {
                    break;
                }
            }
            // The answer of a keeper that has left since can still be read.
            std::future::pending::<()>().await;
        };
        // A refusal may come before the last byte was sent.
        tokio::select! {
            () = send => Err(io::ErrorKind::Other.into()),
            said = answer(from, frames, id) => said,
        }
    }

    /// Asks for a descriptor of the live copy of `meta`. An error if the keeper cannot pass it, or is of an earlier version and does not
    /// know the request.
    pub(crate) async fn share_meta(&mut self) -> io::Result<OwnedFd> {
        let id = self.send(KeeperRequest::ShareMeta).await?;
        let Self { from, frames, .. } = self;
        let mut passed = None;
        let share = async {
            loop {
                match frames.next_frame().map_err(io::Error::other)? {
                    Some(Frame::Json(text)) => match serde_json::from_slice(&text).map_err(io::Error::other)? {
                        FromKeeper { of, say: KeeperReply::Meta } if of == Some(id) => {
                            return passed.ok_or_else(|| io::ErrorKind::InvalidData.into());
                        }
                        FromKeeper { of, say } if of == Some(id) => return Err(io::Error::other(format!("the keeper said {say:?}"))),
                        FromKeeper { .. } => {}
                    },
                    Some(Frame::Raw { .. }) => {}
                    None if from.read_with(|stream| receive(stream, frames, &mut passed)).await? == 0 => {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    None => {}
                }
            }
        };
        tokio::time::timeout(HELLO_LIMIT, share).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Returns at the next news.
    pub(crate) async fn news(&mut self) -> io::Result<()> {
        loop {
            if let FromKeeper { say: KeeperReply::News, .. } = next(&mut self.from, &mut self.frames).await? {
                return Ok(());
            }
        }
    }

    /// Returns when the keeper closes the connection.
    pub(crate) async fn closed(&mut self) {
        while self.news().await.is_ok() {}
    }

    async fn send(&mut self, ask: KeeperRequest) -> io::Result<u64> {
        self.asked += 1;
        self.to.write_all(&frame::json(&ToKeeper { id: self.asked, ask })).await?;
        Ok(self.asked)
    }

    async fn answer(&mut self, id: u64) -> io::Result<KeeperReply> {
        answer(&mut self.from, &mut self.frames, id).await
    }
}

/// Receives bytes, and a descriptor if one came with them. Returns how many bytes.
fn receive(stream: &std::os::unix::net::UnixStream, frames: &mut Splitter, passed: &mut Option<OwnedFd>) -> io::Result<usize> {
    let mut piece = [0; 512];
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let read = recvmsg(stream, &mut [io::IoSliceMut::new(&mut piece)], &mut control, RecvFlags::CMSG_CLOEXEC)?.bytes;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            *passed = fds.last().or(passed.take());
        }
    }
    frames.push(&piece[..read]);
    Ok(read)
}

async fn answer(from: &mut (impl AsyncReadExt + Unpin), frames: &mut Splitter, id: u64) -> io::Result<KeeperReply> {
    loop {
        let message = next(from, frames).await?;
        if message.of == Some(id) {
            return Ok(message.say);
        }
    }
}

async fn next(from: &mut (impl AsyncReadExt + Unpin), frames: &mut Splitter) -> io::Result<FromKeeper> {
    loop {
        match frames.next_frame().map_err(io::Error::other)? {
            Some(Frame::Json(text)) => return serde_json::from_slice(&text).map_err(io::Error::other),
            Some(Frame::Raw { .. }) => {}
            None if socket::take(from, frames).await? == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// A keeper that sends given answers, then ends.
    fn stand_in(says: Vec<FromKeeper>) -> (tempfile::TempDir, std::path::PathBuf) {
        let tmp = tempfile::tempdir().unwrap();
        let path = tmp.path().join("k");
        let listener = UnixListener::bind(&path).unwrap();
        std::thread::spawn(move || {
            use std::io::{Read, Write};
            let (mut stream, _) = listener.accept().unwrap();
            for say in says {
                stream.write_all(&frame::json(&say)).unwrap();
            }
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            stream.read_to_end(&mut Vec::new()).unwrap();
        });
        (tmp, path)
    }

    fn hello() -> FromKeeper {
        FromKeeper { of: Some(1), say: KeeperReply::Hello { version: 1, program: "0".into() } }
    }

    #[tokio::test]
    async fn news_between_a_question_and_its_answer_does_no_harm() {
        let news = || FromKeeper { of: None, say: KeeperReply::News };
        let (_tmp, path) = stand_in(vec![news(), hello(), news(), FromKeeper { of: Some(2), say: KeeperReply::Ok }, news()]);
        let mut link = Link::connect(&path, true).await.unwrap();
        assert_eq!(link.ask(KeeperRequest::CloseInput).await.unwrap(), KeeperReply::Ok);
        link.news().await.unwrap();
        assert_eq!(link.news().await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[tokio::test]
    async fn a_keeper_of_an_earlier_version_that_does_not_know_the_request_for_meta_refuses_it() {
        let not_known = KeeperReply::Refused { code: "bad_request".into(), error: "not understood: unknown variant `share_meta`".into() };
        let (_tmp, path) = stand_in(vec![hello(), FromKeeper { of: Some(2), say: not_known }]);
        let error = Link::connect(&path, false).await.unwrap().share_meta().await.unwrap_err();
        assert!(error.to_string().contains("share_meta"), "{error}");
    }

    #[tokio::test]
    async fn an_answer_without_a_descriptor_is_no_meta() {
        let (_tmp, path) = stand_in(vec![hello(), FromKeeper { of: Some(2), say: KeeperReply::Meta }]);
        let error = Link::connect(&path, false).await.unwrap().share_meta().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[tokio::test]
    async fn an_unknown_version_is_no_connection() {
        let (_tmp, path) = stand_in(vec![FromKeeper { of: Some(1), say: KeeperReply::Hello { version: 99, program: "9".into() } }]);
        assert!(Link::connect(&path, true).await.is_err());
    }
}
