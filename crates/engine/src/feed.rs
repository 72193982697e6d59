//! New output of a process, reported to all its followers over one connection to its keeper.
//!
//! A keeper has few connections. If each follower had one, a process with many followers could not be stopped.
//!
//! Decision 157: docs/decisions/engine.md.

use crate::link::Link;
use crate::mutex::lock;
use crate::reach::{NoKeeper, Reach};
use crate::table::ProcessView;
use outlast_core::ProcessId;
use outlast_wire::v1::Error;
use outlast_wire::v1::keeper::{KeeperReply, KeeperRequest};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

/// The feeds of all processes that are followed.
pub(crate) struct Feeds {
    reach: Reach,
    open: Arc<Open>,
}

type Open = Mutex<HashMap<ProcessId, watch::Sender<FeedState>>>;

/// The last report about the output of a process.
#[derive(Debug, Clone)]
enum FeedState {
    /// The output has this length.
    End(u64),
    /// The feed has ended: no more output comes, or the keeper is gone. The folder has the state of the process.
    Over,
    /// The keeper cannot be reached.
    Refused(Error),
}

impl Feeds {
    pub(crate) fn new(reach: Reach) -> Self {
        Self { reach, open: Arc::default() }
    }

    /// Returns once there may be more than `past` bytes, or the process changed its phase. An error if its keeper cannot be reached.
    pub(crate) async fn more(&self, view: &ProcessView, past: u64) -> Result<(), Error> {
        let mut told = self.follow(view, past);
        let news = told.wait_for(|told| !matches!(told, FeedState::End(end) if *end <= past)).await.map(|told| told.clone());
        match news {
            Ok(FeedState::Refused(error)) => Err(error),
            // If the feed's task is gone, the follower reads the folder and asks again, as after its end.
            Ok(FeedState::End(_) | FeedState::Over) | Err(_) => Ok(()),
        }
    }

    fn follow(&self, view: &ProcessView, past: u64) -> watch::Receiver<FeedState> {
        let id = view.id();
        let mut feeds = lock(&self.open);
        if let Some(feed) = feeds.get(&id) {
            return feed.subscribe();
        }
        let (feed, told) = watch::channel(FeedState::End(past));
        feeds.insert(id, feed.clone());
        let task = Feed { all: Arc::clone(&self.open), id, feed };
        tokio::spawn(task.run(self.reach.clone(), view.clone(), past));
        told
    }
}

/// The feed of one process, for as long as it is followed.
struct Feed {
    all: Arc<Open>,
    id: ProcessId,
    feed: watch::Sender<FeedState>,
}

impl Feed {
    async fn run(self, reach: Reach, mut view: ProcessView, mut past: u64) {
        let mut link = match reach.keeper(&mut view).await {
            Ok(link) => link,
            Err(NoKeeper::Over) => return self.end(FeedState::Over),
            Err(NoKeeper::Refused(error)) => return self.end(FeedState::Refused(error)),
        };
        loop {
            tokio::select! {
                end = ask(&mut link, past) => match end {
                    Some(end) => {
                        past = end.max(past);
                        self.feed.send_replace(FeedState::End(past));
                    }
                    None => return self.end(FeedState::Over),
                },
                () = self.feed.closed() => {
                    let mut feeds = lock(&self.all);
                    // A follower may have come since.
                    if self.feed.receiver_count() == 0 {
                        feeds.remove(&self.id);
                        return;
                    }
                }
            }
        }
    }

    /// Ends the feed with a last report. Later followers get a new feed.
    fn end(self, last: FeedState) {
        lock(&self.all).remove(&self.id);
        self.feed.send_replace(last);
    }
}

/// Waits for output past a length, and returns its new length. None once the keeper is gone, or no more output will come.
async fn ask(link: &mut Link, past: u64) -> Option<u64> {
    match link.ask(KeeperRequest::AwaitOutput { past }).await {
        Ok(KeeperReply::Output { end, closed: false }) => Some(end),
        Ok(_) | Err(_) => None,
    }
}
