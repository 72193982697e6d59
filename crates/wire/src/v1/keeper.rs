//! Version 1 of the messages between the engine and a keeper.
//!
//! A keeper's news carry no content. What it knows is in the process's folder, so an event only tells the engine to read it.

use outlast_core::Stop;
use serde::{Deserialize, Serialize};

/// One message to a keeper.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ToKeeper {
    /// The engine's own number for the message.
    pub id: u64,
    /// The request.
    #[serde(flatten)]
    pub ask: KeeperRequest,
}

/// Requests to a keeper.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum KeeperRequest {
    /// First on each connection. A `listener` is sent news. While no listener is connected, a keeper with news starts an engine.
    Hello {
        /// The newest version that the engine speaks.
        version: u32,
        /// Whether the peer is an engine that wants news.
        listener: bool,
    },
    /// Stop the tree. Answered when it is observed to be gone, or when all steps of the stop were taken.
    Stop {
        /// Who requested it, and how it proceeds.
        stop: Stop,
    },
    /// Stop the descendants that outlived the command. Answered like [`KeeperRequest::Stop`]. Keepers of earlier versions do not know this
    /// request.
    StopLeft {
        /// Who requested it, and how it proceeds.
        stop: Stop,
    },
    /// Send the command itself a signal.
    Signal {
        /// Its number.
        number: i32,
    },
    /// Write the raw frames that follow to the input.
    Write {
        /// Where in the input they begin, if the caller counts bytes.
        at: Option<u64>,
        /// How many bytes follow.
        len: u64,
    },
    /// Close the input after everything that was written.
    CloseInput,
    /// Change the size of the terminal.
    Resize {
        /// Rows.
        rows: u16,
        /// Columns.
        cols: u16,
    },
    /// Answer once the log is longer than `past`, or closed.
    AwaitOutput {
        /// The length that the engine knows.
        past: u64,
    },
    /// A real terminal was attached or detached. While it is attached, it answers the program's queries, and the keeper must not.
    Attached {
        /// Whether it is attached now.
        on: bool,
    },
    /// Send a descriptor of the live copy of `meta`, for an engine that may not open it through `/proc`. Keepers of earlier
    /// versions do not know this request.
    ShareMeta,
    /// Answer once the folder says how much input the process has taken. Only for the link of a process in a sandbox, whose folder may be
    /// older than what it is asked about.
    CatchUp,
}

/// One message from a keeper.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FromKeeper {
    /// The number of the request; absent for news.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<u64>,
    /// The answer, or the news.
    #[serde(flatten)]
    pub say: KeeperReply,
}

/// Messages from a keeper.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum KeeperReply {
    /// The keeper's half of the hello.
    Hello {
        /// The version that will be spoken.
        version: u32,
        /// The program's own version.
        program: String,
    },
    /// The request was fulfilled.
    Ok,
    /// The tree was stopped.
    Stopped {
        /// How many processes were observed to die.
        seen_dead: u32,
        /// The pids that are still alive.
        survivors: Vec<u32>,
        /// Why the record of the stop could not be written, if it could not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unrecorded: Option<String>,
    },
    /// The command had ended before.
    AlreadyEnded,
    /// Input was written.
    Written {
        /// How many bytes of the request were written to the input.
        taken: u64,
        /// The length of the input so far.
        next: u64,
        /// Whether it is that of a terminal in canonical mode, which takes whole lines and cuts long ones.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_canonical: bool,
    },
    /// The log has this length.
    Output {
        /// Its length in bytes.
        end: u64,
        /// Whether it is closed.
        closed: bool,
    },
    /// The live copy of `meta`. Its descriptor comes with this message.
    Meta,
    /// The request was refused.
    Refused {
        /// A stable code, from [`crate::code`].
        code: String,
        /// What was wrong.
        error: String,
    },
    /// Something in the process's folder has changed.
    News,
}
