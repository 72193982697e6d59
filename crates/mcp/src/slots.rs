//! The slots for connections over HTTP.
//!
//! Every user of the machine can connect and then send nothing. So that clients with the token always find a slot, a connection that has not
//! shown the token is closed when a new one needs its slot, the oldest first.
//!
//! Decision 148: docs/decisions/tools-mcp.md.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// A fixed number of slots.
pub(crate) struct Slots {
    room: Arc<Semaphore>,
    unauthenticated: Arc<Unauthenticated>,
}

/// The connections that have not shown the token, in the order in which they came.
#[derive(Default)]
struct Unauthenticated(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    came: u64,
    leave: BTreeMap<u64, Arc<Notify>>,
}

/// A slot that a connection holds until it is dropped.
pub(crate) struct Slot {
    number: u64,
    leave: Arc<Notify>,
    /// Whether the connection keeps its slot. Set when it shows the token.
    kept: OnceLock<bool>,
    unauthenticated: Arc<Unauthenticated>,
    _room: OwnedSemaphorePermit,
}

impl Slots {
    pub(crate) fn new(most: usize) -> Self {
        Self { room: Arc::new(Semaphore::new(most)), unauthenticated: Arc::default() }
    }

    /// Takes a slot. If none is free, the oldest connection without the token is closed; if there is none, this waits for a free slot.
    pub(crate) async fn take(&self) -> Slot {
        let room = match self.room.clone().try_acquire_owned() {
            Ok(room) => room,
            Err(_) => {
                self.unauthenticated.close_oldest();
                self.room.clone().acquire_owned().await.expect("it is never closed")
            }
        };
        let leave = Arc::new(Notify::new());
        let number = self.unauthenticated.add(leave.clone());
        Slot { number, leave, kept: OnceLock::new(), unauthenticated: self.unauthenticated.clone(), _room: room }
    }
}

impl Slot {
    /// The connection showed the token. False if its slot was given to another connection just before.
    pub(crate) fn keep(&self) -> bool {
        *self.kept.get_or_init(|| self.unauthenticated.remove(self.number))
    }

    /// Waits until another connection needs this slot.
    pub(crate) async fn given_away(&self) {
        self.leave.notified().await;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.unauthenticated.remove(self.number);
    }
}

impl Unauthenticated {
    fn add(&self, leave: Arc<Notify>) -> u64 {
        let mut waiting = self.lock();
        waiting.came += 1;
        let number = waiting.came;
        waiting.leave.insert(number, leave);
        number
    }

    /// Whether the connection was still listed.
    fn remove(&self, number: u64) -> bool {
        self.lock().leave.remove(&number).is_some()
    }

    fn close_oldest(&self) {
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
        let slots = Slots::new(3);
        let [known, first, second] = [(); 3].map(|()| now(slots.take()).expect("there are slots"));
        assert!(known.keep() && known.keep());
        {
            let mut next = pin!(slots.take());
            assert!(now(next.as_mut()).is_none(), "no session has left yet");
            assert!(now(first.given_away()).is_some() && !first.keep(), "it is too late to show the token");
            assert!(now(known.given_away()).is_none() && now(second.given_away()).is_none());
            drop(first);
            assert!(now(next).expect("one has left").keep());
        }
        drop(now(slots.take()).expect("that one has left too"));
        assert!(now(second.given_away()).is_none(), "there was a slot without it");
    }

    #[test]
    fn whoever_showed_the_token_is_waited_for() {
        let slots = Slots::new(1);
        let known = now(slots.take()).expect("there is a slot");
        assert!(known.keep());
        let mut next = pin!(slots.take());
        assert!(now(next.as_mut()).is_none() && now(known.given_away()).is_none());
        drop(known);
        assert!(now(next).is_some());
    }
}
