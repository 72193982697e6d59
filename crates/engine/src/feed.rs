//! New output of a process, told to all who follow it over one connection to its keeper.
//!
//! A keeper has few connections. If each follower had one, a process with many followers could not be stopped.
//!
//! Decision 157: docs/decisions/engine.md.

use crate::link::Link;
use crate::reach::{Away, Reach};
use crate::table::ProcessView;
use outlast_core::ProcessId;
use outlast_wire::v1::Error;
use outlast_wire::v1::keeper::{KeeperReply, KeeperRequest};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

/// The feeds of all processes that are followed.
pub(crate) struct Feeds {
    reach: Reach,
    open: Arc<Open>,
}

type Open = Mutex<HashMap<ProcessId, watch::Sender<Told>>>;

/// What a keeper last said about the output.
#[derive(Debug, Clone)]
enum Told {
    /// It reaches this far.
    End(u64),
    /// Nothing more is told here: the folder says what became of the process.
    Over,
    /// The keeper cannot be reached.
    Refused(Error),
}

impl Feeds {
    pub(crate) fn new(reach: Reach) -> Self {
        Self { reach, open: Arc::default() }
    }

    /// Returns once there may be more than `past` bytes, or something became of the process. An error if its keeper cannot be reached.
    pub(crate) async fn more(&self, view: &ProcessView, past: u64) -> Result<(), Error> {
        let mut told = self.follow(view, past);
        let news = told.wait_for(|told| !matches!(told, Told::End(end) if *end <= past)).await.map(|told| told.clone());
        match news {
            Ok(Told::Refused(error)) => Err(error),
            // A feed that ends without a word is as good as one that is over: the follower looks, and asks again.
            Ok(Told::End(_) | Told::Over) | Err(_) => Ok(()),
        }
    }

    fn follow(&self, view: &ProcessView, past: u64) -> watch::Receiver<Told> {
        let id = view.id();
        let mut feeds = lock(&self.open);
        if let Some(feed) = feeds.get(&id) {
            return feed.subscribe();
        }
        let (feed, told) = watch::channel(Told::End(past));
        feeds.insert(id, feed.clone());
        let task = Feed { all: Arc::clone(&self.open), id, feed };
        tokio::spawn(task.run(self.reach.clone(), view.clone(), past));
        told
    }
}

fn lock(all: &Open) -> std::sync::MutexGuard<'_, HashMap<ProcessId, watch::Sender<Told>>> {
    // Entries are changed whole, so a panic elsewhere spoils nothing.
    all.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The feed of one process, for as long as it is followed.
struct Feed {
    all: Arc<Open>,
    id: ProcessId,
    feed: watch::Sender<Told>,
}

impl Feed {
    async fn run(self, reach: Reach, mut view: ProcessView, mut past: u64) {
        let mut link = match reach.keeper(&mut view).await {
            Ok(link) => link,
            Err(Away::Over) => return self.end(Told::Over),
            Err(Away::Refused(error)) => return self.end(Told::Refused(error)),
        };
        loop {
            tokio::select! {
                end = ask(&mut link, past) => match end {
                    Some(end) => {
                        past = end.max(past);
                        self.feed.send_replace(Told::End(past));
                    }
                    None => return self.end(Told::Over),
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

    /// Says the last word. Followers who come after it get a feed of their own.
    fn end(self, last: Told) {
        lock(&self.all).remove(&self.id);
        self.feed.send_replace(last);
    }
}

/// Asks for output past a length: how far it reaches then. Nothing once the keeper is gone, or no output will come any more.
async fn ask(link: &mut Link, past: u64) -> Option<u64> {
    match link.ask(KeeperRequest::AwaitOutput { past }).await {
        Ok(KeeperReply::Output { end, closed: false }) => Some(end),
        Ok(_) | Err(_) => None,
    }
}
