//! The result of one call of a sink.

use std::time::Duration;

/// How a call went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CallResult {
    /// The receiver has the notice.
    Done,
    /// The call failed, and is made again.
    Failed {
        /// The reason, as users read it.
        reason: String,
        /// How long the receiver asked to be left alone.
        wait: Option<Duration>,
    },
    /// The receiver unsubscribed: it is never called again.
    Gone {
        /// The reason, as users read it.
        reason: String,
    },
}

impl CallResult {
    pub(crate) fn failed(reason: String) -> Self {
        Self::Failed { reason, wait: None }
    }
}
