//! What happens in a conversation that is followed.

use super::super::reply::ReplyWith;
use super::part::Part;
use super::turn::{Standing, TurnInfo};
use serde::{Deserialize, Serialize};

/// One message from the gateway.
pub type ChatReply<T> = ReplyWith<T, ChatEvent>;

/// Something that happened in a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChatEvent {
    /// A part was written.
    Part {
        /// The part.
        part: Box<Part>,
    },
    /// Text of a reply that is not a part yet. The next text part of the same attempt replaces it.
    Draft {
        /// The turn whose reply it is.
        turn: u64,
        /// Of which attempt.
        #[serde(default)]
        attempt: u32,
        /// At which byte of the draft this text begins. 0 begins anew; any other number is the length of what was sent before.
        #[serde(default)]
        from: u64,
        /// The text.
        text: String,
    },
    /// A turn changed its state. Follows the parts that were written with the change.
    Turn {
        /// The turn after the change.
        turn: Box<TurnInfo>,
    },
    /// The conversation stands elsewhere, or has a new generation.
    Standing {
        /// How it stands now.
        standing: Standing,
        /// How many turns in a row did not finish.
        #[serde(default)]
        strikes: u32,
        /// Which generation is current.
        #[serde(default)]
        generation: u64,
    },
    /// Everything there was has been sent; what follows happens now. Turns that are open then, were sent before it.
    CaughtUp {
        /// The last part of the conversation; absent if there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        last_part: Option<u64>,
    },
    /// An event of a newer gateway.
    #[serde(other)]
    Unknown,
}
