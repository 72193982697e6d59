//! Events that come before an answer.

use super::notice::Told;
use outlast_core::Time;
use serde::{Deserialize, Serialize};

/// An event before the answer to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Event {
    /// The raw frames that follow begin at this byte.
    At {
        /// The offset.
        byte: u64,
    },
    /// The bytes from this offset on arrived within a second of this time.
    Came {
        /// The offset of the first byte.
        byte: u64,
        /// When they arrived.
        at: Time,
    },
    /// Bytes are missing.
    Gap {
        /// The first missing byte.
        from: u64,
        /// The first byte after the gap.
        to: u64,
        /// Why they are missing.
        why: String,
    },
    /// No event from here on will be missed.
    Waiting {
        /// The `seq` after which that holds. Engines of earlier versions do not send it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<u64>,
    },
    /// The view was closed: the client is to detach. The process keeps running.
    ViewClosed,
    /// These sessions have notices that can be claimed.
    Sessions {
        /// The keys of the sessions.
        sessions: Vec<String>,
    },
    /// A notice was made.
    Notice {
        /// The notice with its text and its state.
        told: Box<Told>,
    },
}
