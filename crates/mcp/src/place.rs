//! The places for connections over HTTP.
//!
//! Every user of the machine can connect, and then say nothing. So that those who have the token always find a place, whoever has not shown it gives way to the next one
//! that comes: first the one that came first.
//!
//! Decision 148: docs/decisions/tools-mcp.md.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// A number of places.
pub(crate) struct Places {
    room: Arc<Semaphore>,
    strangers: Arc<Strangers>,
}

/// Who has not shown the token, in the order in which they came.
#[derive(Default)]
struct Strangers(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    came: u64,
    leave: BTreeMap<u64, Arc<Notify>>,
}

/// One that is taken, until it is dropped.
pub(crate) struct Place {
    number: u64,
    leave: Arc<Notify>,
    /// Whether it is kept, once the token was shown.
    kept: OnceLock<bool>,
    strangers: Arc<Strangers>,
    _room: OwnedSemaphorePermit,
}

impl Places {
    pub(crate) fn new(most: usize) -> Self {
        Self { room: Arc::new(Semaphore::new(most)), strangers: Arc::default() }
    }

    /// Takes one. A stranger gives way if there is none; if there are no strangers either, this waits until somebody leaves.
    pub(crate) async fn take(&self) -> Place {
        let room = match self.room.clone().try_acquire_owned() {
            Ok(room) => room,
            Err(_) => {
                self.strangers.send_away_the_first();
                self.room.clone().acquire_owned().await.expect("it is never closed")
            }
        };
        let leave = Arc::new(Notify::new());
        let number = self.strangers.add(leave.clone());
        Place { number, leave, kept: OnceLock::new(), strangers: self.strangers.clone(), _room: room }
    }
}

impl Place {
    /// Whoever has it showed the token. Whether they keep it: not if it was given away just before.
    pub(crate) fn keep(&self) -> bool {
        *self.kept.get_or_init(|| self.strangers.remove(self.number))
    }

    /// Until it has to be given to somebody else.
    pub(crate) async fn given_away(&self) {
        self.leave.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.strangers.remove(self.number);
    }
}

impl Strangers {
    fn add(&self, leave: Arc<Notify>) -> u64 {
        let mut waiting = self.lock();
        waiting.came += 1;
        let number = waiting.came;
        waiting.leave.insert(number, leave);
        number
    }

    /// Whether it was still there.
    fn remove(&self, number: u64) -> bool {
        self.lock().leave.remove(&number).is_some()
    }

    fn send_away_the_first(&self) {
        if let Some((_, leave)) = self.lock().leave.pop_first() {
            leave.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().expect("nothing panics while it is held")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn now<T>(future: impl Future<Output = T>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    #[test]
    fn the_stranger_who_came_first_gives_way() {
        let places = Places::new(3);
        let [known, first, second] = [(); 3].map(|()| now(places.take()).expect("there are places"));
        assert!(known.keep() && known.keep());
        {
            let mut next = pin!(places.take());
            assert!(now(next.as_mut()).is_none(), "nobody has left yet");
            assert!(now(first.given_away()).is_some() && !first.keep(), "it is too late to show the token");
            assert!(now(known.given_away()).is_none() && now(second.given_away()).is_none());
            drop(first);
            assert!(now(next).expect("one has left").keep());
        }
        drop(now(places.take()).expect("that one has left too"));
        assert!(now(second.given_away()).is_none(), "there was a place without it");
    }

    #[test]
    fn whoever_showed_the_token_is_waited_for() {
        let places = Places::new(1);
        let known = now(places.take()).expect("there is a place");
        assert!(known.keep());
        let mut next = pin!(places.take());
        assert!(now(next.as_mut()).is_none() && now(known.given_away()).is_none());
        drop(known);
        assert!(now(next).is_some());
    }
}
