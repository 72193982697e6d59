//! A socket for tokio tasks that waits for room only when a write would block.
//!
//! With tokio's own socket, the kernel reports room for writing each time the peer has read something. A client would be woken when
//! the engine has read the request, and again by the answer. This socket asks for that report only while its buffer is full.
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

/// The receiving half. The connection is closed when this and its [`Sender`] are dropped.
#[derive(Debug)]
pub struct Receiver {
    stream: Arc<AsyncFd<UnixStream>>,
}

/// The sending half. Dropping it before its [`Receiver`] leaves the connection open; shutting it down tells the peer that no more
/// bytes will come.
#[derive(Debug)]
pub struct Sender {
    stream: Arc<AsyncFd<UnixStream>>,
    /// A second registration of the socket, only while its buffer is full.
    full: Option<AsyncFd<UnixStream>>,
}

impl Receiver {
    /// Reads with another call than `read`, such as one that receives descriptors. Waits while the call would block.
    pub async fn read_with<T>(&mut self, mut read: impl FnMut(&UnixStream) -> io::Result<T>) -> io::Result<T> {
        loop {
            let mut ready = self.stream.readable().await?;
            if let Ok(done) = ready.try_io(|stream| read(stream.get_ref())) {
                return done;
            }
        }
    }
}

/// The most bytes that one read takes.
const PIECE: usize = 8 << 10;

/// Reads what has arrived and returns the number of bytes; zero at the end of the stream. The future may be dropped half-way and
/// called again.
///
/// Its buffer is allocated only when bytes have arrived. A thousand waiting connections hold no buffers.
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

/// Splits a connected socket into its halves. Must be called inside a tokio runtime.
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
                    // A read shorter than the buffer took all there was. A read of zero bytes is the end, which remains readable.
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
                // Clears the readiness that was seen before the write was tried.
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
            assert!(to.full.is_none(), "it is told of room that no write waits for");
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

    /// A task that waits for an answer is not woken because the peer read its request.
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
        // Sent after everything that the read may have caused.
        rings.write_all(b"!").unwrap();
        bell.read_exact(&mut [0]).await.unwrap();
        assert_eq!(woken.0.load(SeqCst), 0);
        theirs.write_all(b"answer").unwrap();
        let mut answer = [0; 6];
        from.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"answer");
    }
}
