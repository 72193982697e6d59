//! Where sinks get what they have to tell, and say what became of it.

use outlast_client::{Client, ClientError, Delivery, Push, code};
use std::collections::HashMap;
use std::future::Future;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Mutex;
use tracing::warn;

/// What became of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settle {
    /// The sink has it.
    Delivered,
    /// It failed, and is to be tried again.
    Retry {
        /// How long to wait.
        after: Duration,
        /// Why it failed.
        reason: String,
    },
    /// It failed, and is not tried again unless somebody asks for it.
    Dead {
        /// Why it failed.
        reason: String,
    },
    /// It was not tried. It is to be lent again later, and this time does not count as an attempt.
    Later {
        /// How long to wait.
        after: Duration,
    },
}

/// Why a desk did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeskError {
    /// The engine stops. There is nothing more to do.
    #[error("the engine is stopping")]
    Stopping,
    /// The lease is over, or the delivery was settled otherwise.
    #[error("the delivery is no longer ours")]
    NotOurs,
    /// What came cannot be read. What was lent with it, if anything was, comes again when its lease is over; less at once may be read then.
    #[error("{0}")]
    Unreadable(String),
    /// Something else; asking again may help.
    #[error("{0}")]
    Failed(String),
}

/// An engine, as sinks see it.
pub trait Desk: Send + Sync + 'static {
    /// Waits until something is due for `sink`, and lends at most `limit` deliveries, lowest `seq` first.
    fn take(&self, sink: &str, lease: Duration, limit: usize) -> impl Future<Output = Result<Vec<Delivery>, DeskError>> + Send;

    /// Says that a sink that wakes an agent is about to tell these, and which of them it may tell, as they are now. The others are its own no more.
    fn wake(&self, _sink: &str, batch: &[Delivery]) -> impl Future<Output = Result<Vec<Delivery>, DeskError>> + Send {
        let batch = batch.to_vec();
        async move { Ok(batch) }
    }

    /// Says what became of a delivery.
    fn settle(&self, sink: &str, delivery: &Delivery, settle: Settle) -> impl Future<Output = Result<(), DeskError>> + Send;
}

/// The engine in whose program the sinks run, over connections that are made anew when one is lost.
pub struct Within<C, E> {
    connect: C,
    ended: E,
    /// One for each sink, so that what breaks one is nobody else's trouble.
    clients: Mutex<Clients>,
}

#[derive(Default)]
struct Clients {
    of: HashMap<String, Numbered>,
    made: u64,
}

/// A client, and which of all that were made it is: one that is lost must not take the next with it.
#[derive(Clone)]
struct Numbered {
    number: u64,
    client: Client,
}

impl<C, E, S> Within<C, E>
where
    C: Fn() -> S + Send + Sync + 'static,
    E: Fn() -> bool + Send + Sync + 'static,
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    /// An engine to which `connect` is a new connection, and of which `ended` says whether it has ended, so that no connection helps.
    pub fn new(connect: C, ended: E) -> Self {
        Self { connect, ended, clients: Mutex::default() }
    }

    async fn client(&self, sink: &str) -> Result<Numbered, DeskError> {
        let mut clients = self.clients.lock().await;
        if let Some(found) = clients.of.get(sink) {
            return Ok(found.clone());
        }
        let client = Client::over((self.connect)()).await.map_err(|e| self.why(e))?;
        clients.made += 1;
        let made = Numbered { number: clients.made, client };
        clients.of.insert(sink.to_owned(), made.clone());
        Ok(made)
    }

    /// What an answer means. The connection on which none came is let go of; whoever asks next makes another.
    async fn heard<T>(&self, sink: &str, on: &Numbered, answer: Result<T, ClientError>) -> Result<T, DeskError> {
        let error = match answer {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let is_good = matches!(error, ClientError::Refused(_));
        let mut clients = self.clients.lock().await;
        if !is_good && clients.of.get(sink).is_some_and(|held| held.number == on.number) {
            clients.of.remove(sink);
        }
        Err(self.why(error))
    }

    fn why(&self, error: ClientError) -> DeskError {
        match &error {
            ClientError::Refused(e) if e.code == code::STOPPING => DeskError::Stopping,
            _ if (self.ended)() => DeskError::Stopping,
            ClientError::Protocol { .. } => DeskError::Unreadable(error.to_string()),
            _ => DeskError::Failed(error.to_string()),
        }
    }
}

impl<C, E, S> Desk for Within<C, E>
where
    C: Fn() -> S + Send + Sync + 'static,
    E: Fn() -> bool + Send + Sync + 'static,
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    async fn take(&self, sink: &str, lease: Duration, limit: usize) -> Result<Vec<Delivery>, DeskError> {
        loop {
            let on = self.client(sink).await?;
            let owed = on.client.deliveries(sink, u32::try_from(limit).unwrap_or(u32::MAX), lease).await;
            let owed = self.heard(sink, &on, owed).await?;
            for unread in &owed.unread {
                warn!(sink, event = unread.event_id, "dead: it cannot be read: {}", unread.why);
                let given_up = on.client.give_up(sink, unread).await;
                if let Err(e) = self.heard(sink, &on, given_up).await {
                    // It is given again when its lease is over.
                    warn!(sink, event = unread.event_id, "cannot say that it is dead: {e}");
                }
            }
            if !owed.deliveries.is_empty() {
                return Ok(owed.deliveries);
            }
        }
    }

    async fn wake(&self, sink: &str, batch: &[Delivery]) -> Result<Vec<Delivery>, DeskError> {
        let on = self.client(sink).await?;
        let may = on.client.wake(sink, batch).await;
        self.heard(sink, &on, may).await
    }

    async fn settle(&self, sink: &str, delivery: &Delivery, settle: Settle) -> Result<(), DeskError> {
        // Rounded up: what is asked for too early is asked for in vain.
        let ms = |time: Duration| u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        let push = match settle {
            Settle::Delivered => Push::Delivered,
            Settle::Retry { after, reason } => Push::Again { after_ms: ms(after), reason },
            Settle::Dead { reason } => Push::Dead { reason },
            Settle::Later { after } => Push::Later { after_ms: ms(after) },
        };
        let on = self.client(sink).await?;
        let kept = on.client.pushed(sink, delivery, push).await;
        if self.heard(sink, &on, kept).await? { Ok(()) } else { Err(DeskError::NotOurs) }
    }
}
