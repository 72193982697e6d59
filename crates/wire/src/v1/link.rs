//! Version 1 of the messages between the engine and the link of an environment.
//!
//! The engine asks a link to look after a process. What the link learns of it is in the folder, and on a socket like that of a keeper.

use super::sandbox::SandboxHello;
use outlast_core::ProcessId;
use serde::{Deserialize, Serialize};

/// One message to a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToLink {
    /// The engine's own number for the message.
    pub id: u64,
    /// The request.
    #[serde(flatten)]
    pub ask: LinkRequest,
}

/// Requests to a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum LinkRequest {
    /// First on each connection.
    Hello {
        /// The newest version that the engine speaks.
        version: u32,
    },
    /// Answer once the sandbox was reached, or could not be.
    Ready,
    /// Look after this process: start it in the sandbox unless it was started, and keep its folder here up to date. Answered once the link
    /// holds the folder; whether the sandbox can be reached is in the folder.
    Take {
        /// The process.
        process: ProcessId,
    },
}

/// One message from a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FromLink {
    /// The number of the request.
    pub of: u64,
    /// The answer.
    #[serde(flatten)]
    pub say: LinkReply,
}

/// Answers of a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum LinkReply {
    /// The link's half of the hello.
    Hello {
        /// The version that will be spoken.
        version: u32,
    },
    /// The sandbox was reached.
    Ready {
        /// What it says of itself.
        sandbox: Box<SandboxHello>,
    },
    /// The request was fulfilled.
    Ok,
    /// The request was refused.
    Refused {
        /// A stable code, from [`crate::code`].
        code: String,
        /// What was wrong.
        error: String,
        /// What to do about it.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        hint: String,
    },
}
