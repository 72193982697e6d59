//! Version 1 of the messages between the engine and a keeper.
//!
//! A keeper says little: what it knows is in the process's folder, so most events only mean "look".

use outlast_core::Stop;
use serde::{Deserialize, Serialize};

/// One message to a keeper.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ToKeeper {
    /// The asker's own number for it.
    pub id: u64,
    /// What.
    #[serde(flatten)]
    pub ask: Ask,
}

/// What may be asked of a keeper.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Ask {
    /// First on each connection. A `listener` is told news; while none is connected, a keeper with news starts an engine.
    Hello {
        /// The newest version the asker speaks.
        version: u32,
        /// Whether this is an engine that wants news.
        listener: bool,
    },
    /// Stop the tree. Answered when it is seen to be gone, or the way is spent.
    Stop {
        /// Who asked, and how hard.
        stop: Stop,
    },
    /// Stop what the command left running, after it has ended. Answered like [`Ask::Stop`]. Keepers of earlier versions do not know it.
    StopLeft {
        /// Who asked, and how hard.
        stop: Stop,
    },
    /// Send the command itself a signal.
    Signal {
        /// Its number.
        number: i32,
    },
    /// The raw frames that follow go into the input.
    Write {
        /// Where in the input they begin, if the caller counts.
        at: Option<u64>,
        /// How many bytes follow.
        len: u64,
    },
    /// End the input, behind what was written.
    CloseInput,
    /// Change the size of the terminal.
    Resize {
        /// Rows.
        rows: u16,
        /// Columns.
        cols: u16,
    },
    /// Answer once the log is longer than this, or closed.
    AwaitOutput {
        /// The length known so far.
        past: u64,
    },
    /// A real terminal looks on (or no longer does): it answers the program's questions, so the keeper must not.
    Attached {
        /// Whether.
        on: bool,
    },
    /// Pass a descriptor of the live copy of `meta`, for an engine that may not open it through `/proc`. Keepers of earlier versions do not
    /// know it.
    ShareMeta,
}

/// One message from a keeper.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FromKeeper {
    /// The number of the ask, or nothing for news.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<u64>,
    /// What.
    #[serde(flatten)]
    pub say: Say,
}

/// What a keeper says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum Say {
    /// Its half of the hello.
    Hello {
        /// The version that will be spoken.
        version: u32,
        /// The program's own version.
        program: String,
    },
    /// Done.
    Ok,
    /// The tree was stopped.
    Stopped {
        /// How many were seen to die.
        seen_dead: u32,
        /// Pids still alive.
        survivors: Vec<u32>,
        /// Why the disk refused the record of the stop, if it did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unrecorded: Option<String>,
    },
    /// It had ended before.
    AlreadyEnded,
    /// Input was taken.
    Written {
        /// How many bytes of the request are in the input now.
        taken: u64,
        /// Where the input ends now.
        next: u64,
    },
    /// The log is this long.
    Output {
        /// Bytes.
        end: u64,
        /// Whether it is closed.
        closed: bool,
    },
    /// The live copy of `meta`: its descriptor comes with this message.
    Meta,
    /// Not done.
    Refused {
        /// A stable name, from [`crate::code`].
        code: String,
        /// What was wrong.
        error: String,
    },
    /// Something is new in the folder.
    News,
}
