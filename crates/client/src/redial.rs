//! A connection that is made again when it broke, and when a request is sent again over it.

use crate::link::{CallError, Cut, Link};
use crate::peer::{EngineTalk, Talk};
use crate::{ClientError, Connect};
use outlast_wire::{code, v1};
use std::sync::Arc;
use std::time::Duration;

/// How often a request is sent again before we believe that no engine stays up.
const MOST_TRIES: u32 = 5;
/// How often a request to a gateway is sent again: a turn that ends the gateway may do so at each of its three attempts, and what waits
/// behind it is answered.
const MOST_PATIENT_TRIES: u32 = 20;
/// How much longer each pause before the next try at a gateway is than the one before.
const PAUSE_STEP: Duration = Duration::from_millis(50);
/// A connection that lasted this long was a good one.
const GOOD: Duration = Duration::from_secs(10);
/// How long a peer that is ending may take to close its connections.
const ENDING_LIMIT: Duration = Duration::from_secs(5);

/// A way to the engine or the gateway of one home.
pub(crate) struct Redial<T: Talk = EngineTalk> {
    way: Way,
    link: tokio::sync::Mutex<Option<Arc<Link<T>>>>,
}

enum Way {
    Dial(Connect),
    Given,
}

impl<T: Talk> Redial<T> {
    /// To a home, again and again.
    pub(crate) fn to(to: Connect) -> Self {
        Self { way: Way::Dial(to), link: tokio::sync::Mutex::new(None) }
    }

    /// Over this connection, and no other.
    pub(crate) fn given(link: Link<T>) -> Self {
        Self { way: Way::Given, link: tokio::sync::Mutex::new(Some(Arc::new(link))) }
    }

    /// Where it leads, if it can be made again.
    pub(crate) fn target(&self) -> Option<&Connect> {
        match &self.way {
            Way::Dial(to) => Some(to),
            Way::Given => None,
        }
    }

    pub(crate) fn can_redial(&self) -> bool {
        matches!(self.way, Way::Dial(_))
    }

    /// A connection for one reader alone where that can be had, else the shared one.
    pub(crate) async fn own_link(&self) -> Result<Arc<Link<T>>, ClientError> {
        match &self.way {
            Way::Dial(to) => Ok(Arc::new(to.link().await?)),
            Way::Given => self.link().await,
        }
    }

    /// The same, without starting anything.
    pub(crate) async fn own_running_link(&self) -> Result<Arc<Link<T>>, ClientError> {
        match &self.way {
            Way::Dial(to) => crate::dial::greet(&to.home).await?.map(Arc::new).ok_or_else(|| to.not_running::<T>()),
            Way::Given => self.link().await,
        }
    }

    /// The connection that all requests share, if there is one or can be made without starting anything.
    pub(crate) async fn link_if_running(&self) -> Result<Option<Arc<Link<T>>>, ClientError> {
        let mut held = self.link.lock().await;
        if held.as_ref().is_none_or(|l| !l.is_open()) {
            *held = match &self.way {
                Way::Dial(to) => crate::dial::greet(&to.home).await?.map(Arc::new),
                Way::Given => None,
            };
        }
        Ok(held.clone())
    }

    /// The connection that all requests share, for a request that must not start a program only to end it.
    pub(crate) async fn running_link(&self) -> Result<Arc<Link<T>>, ClientError> {
        match (self.link_if_running().await?, &self.way) {
            (Some(link), _) => Ok(link),
            (None, Way::Dial(to)) => Err(to.not_running::<T>()),
            (None, Way::Given) => Err(closed::<T>()),
        }
    }

    /// The connection that all requests share.
    pub(crate) async fn link(&self) -> Result<Arc<Link<T>>, ClientError> {
        let mut held = self.link.lock().await;
        if let Some(link) = held.as_ref().filter(|l| l.is_open()) {
            return Ok(link.clone());
        }
        let Way::Dial(to) = &self.way else { return Err(closed::<T>()) };
        let link = Arc::new(to.link().await?);
        *held = Some(link.clone());
        Ok(link)
    }
}

fn closed<T: Talk>() -> ClientError {
    ClientError::Unavailable {
        error: format!("the connection to the {} was closed", T::PEER),
        hint: "it was given from outside, so it cannot be made again: connect anew".into(),
    }
}

/// Whether a request may be sent a second time when nobody knows what became of the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    Safe,
    Never,
}

/// How often something was sent again.
#[derive(Debug)]
pub(crate) struct Tries {
    done: u32,
    most: u32,
    pause_step: Duration,
}

impl Default for Tries {
    fn default() -> Self {
        Self { done: 0, most: MOST_TRIES, pause_step: Duration::ZERO }
    }
}

impl Tries {
    /// For requests to a gateway: more of them, with pauses that grow.
    pub(crate) fn patient() -> Self {
        Self { done: 0, most: MOST_PATIENT_TRIES, pause_step: PAUSE_STEP }
    }

    /// Whether to ask again after `error`; returns when it makes sense to.
    pub(crate) async fn again<T: Talk>(&mut self, error: &CallError, link: Option<&Link<T>>, repeat: Repeat) -> bool {
        if link.is_some_and(|l| l.age() > GOOD) {
            self.done = 0;
        }
        self.done += 1;
        if self.done > self.most {
            return false;
        }
        let should_repeat = match error {
            CallError::Cut(Cut::Gone(_)) => repeat == Repeat::Safe,
            // A peer that is ending did nothing, and soon closes the connection. One that is busy or finds the disk full keeps it, and must be
            // asked by the caller.
            CallError::Refused(e) if is_ending(e) => match link {
                Some(link) => link.closed(ENDING_LIMIT).await,
                None => false,
            },
            CallError::Refused(_) | CallError::Cut(Cut::Nonsense(_)) | CallError::Unreadable { .. } | CallError::Unsent(_) => false,
        };
        if should_repeat && !self.pause_step.is_zero() {
            // No descriptor tells that the next gateway lives longer than the last.
            tokio::time::sleep(self.pause_step * (self.done - 1)).await;
        }
        should_repeat
    }

    /// The error after the last try.
    pub(crate) fn gave_up<T: Talk>(&self, doing: &str, why: &str) -> CallError {
        CallError::Unsent(ClientError::Unavailable {
            error: format!("cannot {doing}: {why}, {} times in a row", self.most),
            hint: format!("the {} does not stay up: the end of {} in the home says why", T::PEER, T::PEER.log()),
        })
    }
}

/// Whether a peer refused because it is about to end.
pub(crate) fn is_ending(refusal: &v1::Error) -> bool {
    refusal.code == code::STOPPING || refusal.code == code::HOME_GONE
}

pub(crate) fn to_error<T: Talk>(error: CallError, doing: &str) -> ClientError {
    match error {
        CallError::Refused(e) => ClientError::Refused(e),
        CallError::Unsent(e) => e,
        CallError::Cut(Cut::Nonsense(what)) | CallError::Unreadable { what, .. } => ClientError::Protocol { peer: T::PEER, what },
        CallError::Cut(Cut::Gone(why)) => ClientError::Unavailable {
            error: format!("cannot {doing}: {why} before it answered"),
            hint: "it may have been done or not: look, then ask again".into(),
        },
    }
}
