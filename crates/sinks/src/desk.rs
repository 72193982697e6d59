//! Where sinks get what they have to tell, and say what became of it.

use outlast_core::{Notice, Time};
use std::future::Future;
use std::time::Duration;

/// A notice for one sink, lent for the length of a lease.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// Its place among the notices of the home.
    pub seq: u64,
    /// How often it was lent to this sink before.
    pub attempts: u32,
    /// When it was lent for the first time.
    pub first_tried_at: Option<Time>,
    /// What shows that it is this sink's to settle.
    pub lease: String,
    /// What is to be told.
    pub notice: Notice,
    /// The same in words.
    pub text: String,
}

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
    fn settle(&self, sink: &str, seq: u64, lease: &str, settle: Settle) -> impl Future<Output = Result<(), DeskError>> + Send;
}
