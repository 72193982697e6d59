//! The process that keepers are forked from. It is started for the first keeper, and again whenever it has died.

use crate::program::KeeperStarter;
use outlast_core::ProcessId;
use outlast_store::dir::Home;
use outlast_store::meta::Image;
use rustix::net::{AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, sendmsg, socketpair};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Mutex, watch};

/// How often a request is retried because the fork server is dead.
const TRIES: u32 = 3;
/// How long a request may wait until the fork server's socket has room. After that the fork server counts as hanging.
const SENDING: Duration = Duration::from_secs(1);
/// How long it may take to exit once it is not needed any more.
const LEAVING: Duration = Duration::from_secs(1);

/// The fork server of an engine.
#[derive(Debug)]
pub(crate) struct ForkServer {
    starter: Arc<KeeperStarter>,
    /// Its working directory.
    folder: PathBuf,
    now: Mutex<Option<Arc<Running>>>,
}

/// A started fork server.
#[derive(Debug)]
struct Running {
    /// The socket for requests.
    asks: AsyncFd<OwnedFd>,
    /// Ends when the fork server ends.
    over: watch::Receiver<()>,
}

impl ForkServer {
    pub(crate) fn new(home: &Home, starter: &Arc<KeeperStarter>) -> Self {
        Self { starter: Arc::clone(starter), folder: home.nest(), now: Mutex::default() }
    }

    /// Asks for a keeper of this process, and passes it its end of a connection and the live copy of `meta`.
    pub(crate) async fn ask(self: &Arc<Self>, id: ProcessId, engine: &OwnedFd, image: &Image) -> io::Result<()> {
        let name = id.to_string();
        let mut tried = 1;
        loop {
            let running = self.running().await?;
            let send = running.asks.async_io(Interest::WRITABLE, |asks| send(asks, name.as_bytes(), [engine.as_fd(), image.as_fd()]));
            let sent = tokio::time::timeout(SENDING, send).await.unwrap_or_else(|late| Err(late.into()));
            match sent {
                Err(error) if tried < TRIES => {
                    tracing::debug!(%error, "the fork server is gone: another is started");
                    self.forget(&running).await;
                    tried += 1;
                }
                done => return done,
            }
        }
    }

    /// Gives up a fork server that hangs. The next keeper is forked by a new one. Keepers that it has forked keep running.
    pub(crate) async fn give_up(&self) {
        self.now.lock().await.take();
    }

    /// Lets the fork server end, and waits until it has: it is the last program of this engine that runs.
    pub(crate) async fn leave(&self) {
        let Some(running) = self.now.lock().await.take() else { return };
        let mut over = running.over.clone();
        drop(running);
        // The end of the engine does not wait longer.
        let _over = tokio::time::timeout(LEAVING, over.changed()).await;
    }

    async fn running(self: &Arc<Self>) -> io::Result<Arc<Running>> {
        let mut now = self.now.lock().await;
        if let Some(running) = now.as_ref() {
            return Ok(Arc::clone(running));
        }
        let (ours, theirs) = pair(SocketType::SEQPACKET)?;
        let mut child = self.starter.spawn(&self.folder, theirs, None).await?;
        let (tell, over) = watch::channel(());
        let running = Arc::new(Running { asks: crate::os::writable(ours)?, over });
        let mine = Arc::downgrade(&running);
        *now = Some(Arc::clone(&running));
        let server = Arc::clone(self);
        tokio::spawn(async move {
            match child.wait().await {
                Ok(status) if status.success() => {}
                Ok(status) => tracing::warn!(%status, "the fork server failed"),
                Err(error) => tracing::warn!(%error, "cannot wait for the fork server"),
            }
            if let Some(mine) = mine.upgrade() {
                server.forget(&mine).await;
            }
            drop(tell);
        });
        Ok(running)
    }

    async fn forget(&self, dead: &Arc<Running>) {
        let mut slot = self.now.lock().await;
        if slot.as_ref().is_some_and(|now| Arc::ptr_eq(now, dead)) {
            *slot = None;
        }
    }
}

/// Two ends of a connection, ours first. Ours does not block.
pub(crate) fn pair(kind: SocketType) -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((ours, theirs))
}

fn send(asks: &OwnedFd, name: &[u8], fds: [BorrowedFd<'_>; 2]) -> io::Result<()> {
    let mut room = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    // The buffer has room for exactly these two descriptors, so the push cannot fail.
    control.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(asks, &[io::IoSlice::new(name)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}
