//! A connection that is remade when it breaks, and the rules for repeating requests.

use crate::link::{CallError, Cut, Link};
use crate::peer::{EngineTalk, Talk};
use crate::{ClientError, Connect};
use outlast_wire::{code, v1};
use std::sync::Arc;
use std::time::Duration;

/// After this many repetitions of a request the engine counts as unable to stay up.
const MOST_TRIES: u32 = 5;
/// The same for requests to a gateway. A turn that ends the gateway may do so in each of its three attempts; requests that come
/// after it are still answered.
const MOST_PATIENT_TRIES: u32 = 20;
/// How much longer each pause before the next try at a gateway is than the last one.
const PAUSE_STEP: Duration = Duration::from_millis(50);
/// After this long a connection counts as good, and the count of repetitions begins again.
const GOOD: Duration = Duration::from_secs(10);
/// How long a peer that is shutting down may take to close its connections.
const ENDING_LIMIT: Duration = Duration::from_secs(5);

/// The way to the engine or the gateway of one home.
pub(crate) struct Redial<T: Talk = EngineTalk> {
    transport: Transport,
    link: tokio::sync::Mutex<Option<Arc<Link<T>>>>,
}

/// How the peer is reached.
enum Transport {
    /// By the socket of a home, which can be connected again.
    Socket(Connect),
    /// By one connected stream.
    Stream,
}

impl<T: Talk> Redial<T> {
    /// Connects to a home, as often as needed.
    pub(crate) fn to(to: Connect) -> Self {
        Self { transport: Transport::Socket(to), link: tokio::sync::Mutex::new(None) }
    }

    /// Uses this connection only.
    pub(crate) fn given(link: Link<T>) -> Self {
        Self { transport: Transport::Stream, link: tokio::sync::Mutex::new(Some(Arc::new(link))) }
    }

    /// Where it leads, if it can be remade.
    pub(crate) fn target(&self) -> Option<&Connect> {
        match &self.transport {
            Transport::Socket(to) => Some(to),
            Transport::Stream => None,
        }
    }

    pub(crate) fn can_redial(&self) -> bool {
        matches!(self.transport, Transport::Socket(_))
    }

    /// A connection for one reader alone if one can be made, else the shared one.
    pub(crate) async fn own_link(&self) -> Result<Arc<Link<T>>, ClientError> {
        match &self.transport {
            Transport::Socket(to) => Ok(Arc::new(to.link().await?)),
            Transport::Stream => self.link().await,
        }
    }

    /// The same, without starting a program.
    pub(crate) async fn own_running_link(&self) -> Result<Arc<Link<T>>, ClientError> {
        match &self.transport {
            Transport::Socket(to) => crate::dial::greet(&to.home).await?.map(Arc::new).ok_or_else(|| to.not_running::<T>()),
            Transport::Stream => self.link().await,
        }
    }

    /// The connection that all requests share, if it exists or can be made without starting a program.
    pub(crate) async fn link_if_running(&self) -> Result<Option<Arc<Link<T>>>, ClientError> {
        let mut held = self.link.lock().await;
        if held.as_ref().is_none_or(|l| !l.is_open()) {
            *held = match &self.transport {
                Transport::Socket(to) => crate::dial::greet(&to.home).await?.map(Arc::new),
                Transport::Stream => None,
            };
        }
        Ok(held.clone())
    }

    /// The shared connection, for a request that ends a program and must not start one for that.
    pub(crate) async fn running_link(&self) -> Result<Arc<Link<T>>, ClientError> {
        match (self.link_if_running().await?, &self.transport) {
            (Some(link), _) => Ok(link),
            (None, Transport::Socket(to)) => Err(to.not_running::<T>()),
            (None, Transport::Stream) => Err(closed::<T>()),
        }
    }

    /// The shared connection.
    pub(crate) async fn link(&self) -> Result<Arc<Link<T>>, ClientError> {
        let mut held = self.link.lock().await;
        if let Some(link) = held.as_ref().filter(|l| l.is_open()) {
            return Ok(link.clone());
        }
        let Transport::Socket(to) = &self.transport else { return Err(closed::<T>()) };
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

/// Whether a request may be repeated if it is unknown whether the first one was carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    Safe,
    Never,
}

/// How often a request was repeated.
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
    /// For requests to a gateway: more repetitions, with pauses that grow.
    pub(crate) fn patient() -> Self {
        Self { done: 0, most: MOST_PATIENT_TRIES, pause_step: PAUSE_STEP }
    }

    /// Whether to repeat the request after `error`. Returns when the time for that has come.
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
            // A peer that is shutting down did nothing, and soon closes the connection. A peer that is busy or has a full disk
            // keeps it open; then the caller has to repeat the request.
            CallError::Refused(e) if is_ending(e) => match link {
                Some(link) => link.closed(ENDING_LIMIT).await,
                None => false,
            },
            CallError::Refused(_) | CallError::Cut(Cut::ProtocolError(_)) | CallError::Unreadable { .. } | CallError::Unsent(_) => false,
        };
        if should_repeat && !self.pause_step.is_zero() {
            // No descriptor reports that the next gateway will live longer than the last.
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

/// Whether a peer refused because it is shutting down.
pub(crate) fn is_ending(refusal: &v1::Error) -> bool {
    refusal.code == code::STOPPING || refusal.code == code::HOME_GONE
}

pub(crate) fn to_error<T: Talk>(error: CallError, doing: &str) -> ClientError {
    match error {
        CallError::Refused(e) => ClientError::Refused(e),
        CallError::Unsent(e) => e,
        CallError::Cut(Cut::ProtocolError(what)) | CallError::Unreadable { what, .. } => ClientError::Protocol { peer: T::PEER, what },
        CallError::Cut(Cut::Gone(why)) => ClientError::Unavailable {
            error: format!("cannot {doing}: {why} before it answered"),
            hint: "it may have been done or not: look, then ask again".into(),
        },
    }
}
