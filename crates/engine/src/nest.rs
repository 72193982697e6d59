//! The process that keepers are forked from. It is started with the first, and anew whenever it has died.

use crate::launch;
use crate::shared::Shared;
use outlast_core::ProcessId;
use outlast_store::meta::Image;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Mutex, watch};

/// How often a message is sent to a nest that turns out to be dead.
const TRIES: u32 = 3;
/// How long a nest may take to have room for a message. One that takes longer hangs.
const SENDING: Duration = Duration::from_secs(1);
/// How long it has to leave once it is not needed any more.
const LEAVING: Duration = Duration::from_secs(1);

/// The nest of an engine.
#[derive(Debug, Default)]
pub(crate) struct Nest {
    now: Mutex<Option<Arc<Running>>>,
}

/// One that was started.
#[derive(Debug)]
struct Running {
    /// Where it is told what is to be kept.
    asks: AsyncFd<OwnedFd>,
    /// Ends with it.
    over: watch::Receiver<()>,
}

impl Nest {
    /// Asks for a keeper of this process, and passes it its end of a connection and the live copy of `meta`.
    pub(crate) async fn ask(&self, shared: &Arc<Shared>, id: ProcessId, engine: &OwnedFd, image: &Image) -> io::Result<()> {
        let name = id.to_string();
        let mut tried = 1;
        loop {
            let running = self.running(shared).await?;
            let send = running.asks.async_io(Interest::WRITABLE, |asks| send(asks, name.as_bytes(), [engine.as_fd(), image.as_fd()]));
            let sent = tokio::time::timeout(SENDING, send).await.unwrap_or_else(|late| Err(late.into()));
            match sent {
                Err(error) if tried < TRIES => {
                    tracing::debug!(%error, "the nest of keepers is gone: another is started");
                    self.forget(&running).await;
                    tried += 1;
                }
                done => return done,
            }
        }
    }

    /// The one there is does not do its work: the next keeper comes from another. What it has forked goes on; itself, it leaves once it goes on.
    pub(crate) async fn give_up(&self) {
        self.now.lock().await.take();
    }

    /// Lets it end, and waits until it has: it is the last thing of this engine that runs.
    pub(crate) async fn leave(&self) {
        let Some(running) = self.now.lock().await.take() else { return };
        let mut over = running.over.clone();
        drop(running);
        // Late, or gone already: nobody waits for it any longer.
        let _over = tokio::time::timeout(LEAVING, over.changed()).await;
    }

    async fn running(&self, shared: &Arc<Shared>) -> io::Result<Arc<Running>> {
        let mut now = self.now.lock().await;
        if let Some(running) = now.as_ref() {
            return Ok(Arc::clone(running));
        }
        let (ours, theirs) = launch::pair(rustix::net::SocketType::SEQPACKET)?;
        let mut child = launch::spawn(shared, &shared.home.nest(), theirs, None).await?;
        let (tell, over) = watch::channel(());
        let running = Arc::new(Running { asks: crate::os::writable(ours)?, over });
        let mine = Arc::downgrade(&running);
        *now = Some(Arc::clone(&running));
        let engine = Arc::clone(shared);
        tokio::spawn(async move {
            match child.wait().await {
                Ok(status) if status.success() => {}
                Ok(status) => tracing::warn!(%status, "the nest of keepers failed"),
                Err(error) => tracing::warn!(%error, "cannot wait for the nest of keepers"),
            }
            if let Some(mine) = mine.upgrade() {
                engine.nest.forget(&mine).await;
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

fn send(asks: &OwnedFd, name: &[u8], fds: [BorrowedFd<'_>; 2]) -> io::Result<()> {
    let mut room = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut room);
    // The buffer has room for exactly these two descriptors, so the push cannot fail.
    control.push(SendAncillaryMessage::ScmRights(&fds));
    sendmsg(asks, &[io::IoSlice::new(name)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}
