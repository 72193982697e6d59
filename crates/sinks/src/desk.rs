//! Where sinks get what they have to tell, and say what became of it.

use outlast_client::{Client, ClientError, Delivery, Push, code};
use std::future::Future;
use std::time::Duration;

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
    /// Something else; asking again may help.
    #[error("{0}")]
    Failed(String),
}

/// An engine, as sinks see it.
pub trait Desk: Send + Sync + 'static {
    /// Waits until something is due for `sink`, and lends at most `limit` deliveries, lowest `seq` first.
    fn take(&self, sink: &str, lease: Duration, limit: usize) -> impl Future<Output = Result<Vec<Delivery>, DeskError>> + Send;

    /// Says what became of a delivery.
    fn settle(&self, sink: &str, delivery: &Delivery, settle: Settle) -> impl Future<Output = Result<(), DeskError>> + Send;
}

/// Over a connection from within the engine's own program, which closes when the engine ends.
impl Desk for Client {
    async fn take(&self, sink: &str, lease: Duration, limit: usize) -> Result<Vec<Delivery>, DeskError> {
        self.deliveries(sink, u32::try_from(limit).unwrap_or(u32::MAX), lease).await.map_err(why)
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
        if self.pushed(sink, delivery, push).await.map_err(why)? { Ok(()) } else { Err(DeskError::NotOurs) }
    }
}

fn why(error: ClientError) -> DeskError {
    match &error {
        ClientError::Refused(e) if e.code == code::STOPPING => DeskError::Stopping,
        ClientError::Refused(_) | ClientError::Protocol { .. } => DeskError::Failed(error.to_string()),
        // There is no other connection to be had.
        ClientError::Unavailable { .. } | ClientError::Connect { .. } | ClientError::Start { .. } => DeskError::Stopping,
    }
}
