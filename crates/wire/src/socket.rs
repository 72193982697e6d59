//! A socket for those who wait with tokio.
//!
//! tokio's own has the kernel tell whenever there is room to write, which is each time the other side has read something: whoever asks is woken when the question was
//! read, and once more when it was answered. This one has it told only while there is no room.
//!
//! Decision 100: docs/decisions/engine.md.

use crate::frame::Splitter;
use crate::os::awaited;
use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

/// What comes in. The connection is closed when this and its [`Sender`] are dropped.
#[derive(Debug)]
pub struct Receiver {
    stream: Arc<AsyncFd<UnixStream>>,
}

/// What goes out. Dropped before its [`Receiver`], it leaves the connection open; shut down, it tells the other side that nothing more comes.
#[derive(Debug)]
pub struct Sender {
    stream: Arc<AsyncFd<UnixStream>>,
    /// The same socket once more, while there is no room in it.
    full: Option<AsyncFd<UnixStream>>,
}

impl Receiver {
    /// Reads by another call than `read`, such as one that takes descriptors. Waits while it would block.
    pub async fn read_with<T>(&mut self, mut read: impl FnMut(&UnixStream) -> io::Result<T>) -> io::Result<T> {
        loop {
            let mut ready = self.stream.readable().await?;
            if let Ok(done) = ready.try_io(|stream| read(stream.get_ref())) {
                return done;
            }
        }
    }
}

/// How much is taken at once.
const PIECE: usize = 8 << 10;

/// Takes what has come, and says how much that was; nothing at the end. Can be dropped half-way and called again.
///
/// What it comes in is there only while there is something: whoever waits, and a thousand do, holds no room for it.
pub async fn take(from: &mut (impl AsyncRead + Unpin), frames: &mut Splitter) -> io::Result<usize> {
    poll_fn(|cx| {
        let mut piece = [0; PIECE];
        let mut taken = ReadBuf::new(&mut piece);
        ready!(Pin::new(&mut *from).poll_read(cx, &mut taken))?;
        frames.push(taken.filled());
        Poll::Ready(Ok(taken.filled().len()))
    })
    .await
}

/// Makes a connected socket one that is waited for. Must be called inside a tokio runtime.
pub fn halves(stream: UnixStream) -> io::Result<(Receiver, Sender)> {
    stream.set_nonblocking(true)?;
    let stream = Arc::new(awaited(stream, Interest::READABLE)?);
    Ok((Receiver { stream: Arc::clone(&stream) }, Sender { stream, full: None }))
}

impl AsyncRead for Receiver {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.stream.poll_read_ready(cx))?;
            let room = buf.initialize_unfilled();
            match ready.get_inner().read(room) {
                Ok(read) => {
                    // Less than there was room for was all there is. Nothing at all is the end, which stays.
                    if 0 < read && read < room.len() {
                        ready.clear_ready();
                    }
                    buf.advance(read);
                    return Poll::Ready(Ok(()));
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Poll::Ready(Err(e)),
            }
        }
    }
}

impl AsyncWrite for Sender {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            match self.stream.get_ref().write(bytes) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                written => {
                    self.full = None;
                    return Poll::Ready(written);
                }
            }
            match &self.full {
                // It was tried behind what it says now.
                Some(full) => ready!(full.poll_write_ready(cx))?.clear_ready(),
                None => self.full = Some(awaited(self.stream.get_ref().try_clone()?, Interest::WRITABLE)?),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.stream.get_ref().shutdown(Shutdown::Write))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::task::Wake;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn more_than_there_is_room_for_arrives_whole() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (_from, mut to) = halves(ours).unwrap();
        let (mut from, _to) = halves(theirs).unwrap();
        let sent: Vec<u8> = (0..4_u32 << 20).map(|n| (n % 251) as u8).collect();
        let all = sent.clone();
        let sending = tokio::spawn(async move {
            to.write_all(&all).await.unwrap();
            assert!(to.full.is_none(), "it is told of room that nobody waits for");
            to.shutdown().await.unwrap();
        });
        let mut got = Vec::new();
        from.read_to_end(&mut got).await.unwrap();
        sending.await.unwrap();
        assert!(got == sent);
    }

    #[tokio::test]
    async fn one_that_nobody_reads_is_an_error_to_the_writer() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (mut from, mut to) = halves(ours).unwrap();
        let waiting = tokio::spawn(async move { to.write_all(&vec![0; 4 << 20]).await });
        let mut theirs = halves(theirs).unwrap();
        theirs.0.read_exact(&mut [0]).await.unwrap();
        drop(theirs);
        assert_eq!(waiting.await.unwrap().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert!(from.read(&mut [0]).await.is_err() || from.read(&mut [0]).await.unwrap() == 0);
    }

    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    /// Whoever waits for an answer is not woken because the question was read.
    #[tokio::test]
    async fn a_read_wakes_nobody() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let (mut from, mut to) = halves(ours).unwrap();
        let (bell, mut rings) = UnixStream::pair().unwrap();
        let (mut bell, _) = halves(bell).unwrap();
        to.write_all(b"question").await.unwrap();
        let woken = Arc::<Counted>::default();
        let waker = Arc::clone(&woken).into();
        let mut buffer = [0; 16];
        let mut room = ReadBuf::new(&mut buffer);
        assert!(Pin::new(&mut from).poll_read(&mut Context::from_waker(&waker), &mut room).is_pending());
        theirs.read_exact(&mut [0; 8]).unwrap();
        // Told of behind whatever that may have caused.
        rings.write_all(b"!").unwrap();
        bell.read_exact(&mut [0]).await.unwrap();
        assert_eq!(woken.0.load(SeqCst), 0);
        theirs.write_all(b"answer").unwrap();
        let mut answer = [0; 6];
        from.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"answer");
    }
}
