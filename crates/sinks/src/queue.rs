//! Where sinks lease deliveries and report their results.

use outlast_client::{Client, ClientError, Delivery, Push, code};
use std::collections::HashMap;
use std::future::Future;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Mutex;
use tracing::warn;

/// The result of a delivery, as a sink reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settle {
    /// The receiver has the notice.
    Delivered,
    /// The call failed, and is made again.
    Retry {
        /// How long to wait.
        after: Duration,
        /// The reason, as users read it.
        reason: String,
    },
    /// The call failed, and is made again only if a user replays the dead letter.
    Dead {
        /// The reason, as users read it.
        reason: String,
    },
    /// No call was made. The delivery is leased again later, and this lease does not count as an attempt.
    Later {
        /// How long to wait.
        after: Duration,
    },
}

/// Why a queue refused a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// The engine stops, so the sink stops, too.
    #[error("the engine is stopping")]
    Stopping,
    /// The lease ran out, or another taker settled the delivery.
    #[error("the delivery is no longer ours")]
    NotOurs,
    /// The answer cannot be read. The deliveries that it leased come again when their lease runs out. A smaller batch may be readable then.
    #[error("{0}")]
    Unreadable(String),
    /// Another failure. A retry may help.
    #[error("{0}")]
    Failed(String),
}

/// The engine's deliveries, as sinks see them.
pub trait DeliveryQueue: Send + Sync + 'static {
    /// Waits until a delivery is due for `sink`, and leases at most `limit` deliveries, lowest `seq` first.
    fn take(&self, sink: &str, lease: Duration, limit: usize) -> impl Future<Output = Result<Vec<Delivery>, QueueError>> + Send;

    /// Claims the notices that a sink is about to wake an agent for. Returns those that it may deliver, as they are now; the sink no longer
    /// holds the others.
    fn wake(&self, _sink: &str, batch: &[Delivery]) -> impl Future<Output = Result<Vec<Delivery>, QueueError>> + Send {
        let batch = batch.to_vec();
        async move { Ok(batch) }
    }

    /// Reports the result of a delivery.
    fn settle(&self, sink: &str, delivery: &Delivery, settle: Settle) -> impl Future<Output = Result<(), QueueError>> + Send;
}

/// The deliveries of the engine that runs in this program. A lost connection is replaced.
pub struct Within<C, E> {
    connect: C,
    ended: E,
    /// One for each sink, so that a broken connection affects one sink only.
    clients: Mutex<Clients>,
}

#[derive(Default)]
struct Clients {
    of: HashMap<String, Numbered>,
    made: u64,
}

/// A client and its number. A call that fails on an old client must not remove the client that replaced it.
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
    /// `connect` opens a connection to the engine. `ended` says whether the engine has stopped, so that a new connection is of no use.
    pub fn new(connect: C, ended: E) -> Self {
        Self { connect, ended, clients: Mutex::default() }
    }

    async fn client(&self, sink: &str) -> Result<Numbered, QueueError> {
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

    /// Translates an answer. If none came, the connection is dropped, and the next call opens another.
    async fn check<T>(&self, sink: &str, on: &Numbered, answer: Result<T, ClientError>) -> Result<T, QueueError> {
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

    fn why(&self, error: ClientError) -> QueueError {
        match &error {
            ClientError::Refused(e) if e.code == code::STOPPING => QueueError::Stopping,
            _ if (self.ended)() => QueueError::Stopping,
            ClientError::Protocol { .. } => QueueError::Unreadable(error.to_string()),
            _ => QueueError::Failed(error.to_string()),
        }
    }
}

impl<C, E, S> DeliveryQueue for Within<C, E>
where
    C: Fn() -> S + Send + Sync + 'static,
    E: Fn() -> bool + Send + Sync + 'static,
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    async fn take(&self, sink: &str, lease: Duration, limit: usize) -> Result<Vec<Delivery>, QueueError> {
        loop {
            let on = self.client(sink).await?;
            let owed = on.client.deliveries(sink, u32::try_from(limit).unwrap_or(u32::MAX), lease).await;
            let owed = self.check(sink, &on, owed).await?;
            for unread in &owed.unread {
                warn!(sink, event = unread.event_id, "dead: it cannot be read: {}", unread.why);
                let given_up = on.client.give_up(sink, unread).await;
                if let Err(e) = self.check(sink, &on, given_up).await {
                    // It is leased again when its lease runs out.
                    warn!(sink, event = unread.event_id, "cannot say that it is dead: {e}");
                }
            }
            if !owed.deliveries.is_empty() {
                return Ok(owed.deliveries);
            }
        }
    }

    async fn wake(&self, sink: &str, batch: &[Delivery]) -> Result<Vec<Delivery>, QueueError> {
        let on = self.client(sink).await?;
        let may = on.client.wake(sink, batch).await;
        self.check(sink, &on, may).await
    }

    async fn settle(&self, sink: &str, delivery: &Delivery, settle: Settle) -> Result<(), QueueError> {
        // Rounded up: a delivery that is asked for too early is not due yet.
        let ms = |time: Duration| u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        let push = match settle {
            Settle::Delivered => Push::Delivered,
            Settle::Retry { after, reason } => Push::Again { after_ms: ms(after), reason },
            Settle::Dead { reason } => Push::Dead { reason },
            Settle::Later { after } => Push::Later { after_ms: ms(after) },
        };
        let on = self.client(sink).await?;
        let kept = on.client.pushed(sink, delivery, push).await;
        if self.check(sink, &on, kept).await? { Ok(()) } else { Err(QueueError::NotOurs) }
    }
}
