//! A turn, and where a conversation stands.

use outlast_core::Time;
use serde::{Deserialize, Serialize};

/// A turn: one message or notice, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TurnInfo {
    /// Its number, which grows with each turn of the home.
    pub id: u64,
    /// What it answers.
    pub kind: TurnKind,
    /// The message's id, or the notice's.
    pub cause: String,
    /// Where it stands.
    pub state: TurnState,
    /// How often it was started.
    #[serde(default)]
    pub attempt: u32,
    /// Why it was interrupted last; kept when it is started again.
    #[serde(default)]
    pub interrupt_reason: Option<String>,
    /// When that was.
    #[serde(default)]
    pub interrupted_at: Option<Time>,
    /// How it finished, once it has.
    #[serde(default)]
    pub outcome: Option<TurnOutcome>,
    /// Why, in a word or a sentence, if it did not complete.
    #[serde(default)]
    pub why: Option<String>,
    /// The text of the message or of the notice.
    #[serde(default)]
    pub words: Option<String>,
    /// What was answered so far.
    #[serde(default)]
    pub reply: Option<String>,
    /// When it was accepted.
    #[serde(default)]
    pub accepted_at: Option<Time>,
    /// When it was last started.
    #[serde(default)]
    pub started_at: Option<Time>,
    /// When it finished.
    #[serde(default)]
    pub finished_at: Option<Time>,
}

impl TurnInfo {
    /// A turn that waits to be started for the first time.
    pub fn queued(id: u64, kind: TurnKind, cause: impl Into<String>) -> Self {
        Self {
            id,
            kind,
            cause: cause.into(),
            state: TurnState::Queued,
            attempt: 0,
            interrupt_reason: None,
            interrupted_at: None,
            outcome: None,
            why: None,
            words: None,
            reply: None,
            accepted_at: None,
            started_at: None,
            finished_at: None,
        }
    }

    /// Whether nothing more will happen to it.
    pub fn is_finished(&self) -> bool {
        self.state == TurnState::Finished
    }
}

/// Words that cross the wire, with room for those of a newer peer.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal),* $(,)? }) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$doc])* #[serde(rename = $word)] $variant,)*
            /// A word of a newer peer.
            #[serde(untagged)]
            Other(String),
        }

        impl $name {
            /// The word as it crosses the wire.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $word,)*
                    Self::Other(word) => word,
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(super) use words;

words! {
    /// What a turn answers.
    TurnKind {
        /// A person's words.
        Message = "message",
        /// A notice, such as the end of a process.
        Notice = "notice",
    }
}

words! {
    /// Where a turn stands.
    TurnState {
        /// It waits for its turn.
        Queued = "queued",
        /// An agent has it.
        Running = "running",
        /// It was interrupted, and will be started again.
        Interrupted = "interrupted",
        /// Nothing more will happen to it.
        Finished = "finished",
    }
}

words! {
    /// How a turn finished.
    TurnOutcome {
        /// The agent answered.
        Completed = "completed",
        /// The agent failed, or could not be started.
        Failed = "failed",
        /// A person stopped it, or said something newer.
        Cancelled = "cancelled",
        /// It was interrupted too often.
        GaveUp = "gave_up",
        /// It is about a generation that has ended.
        Obsolete = "obsolete",
    }
}

words! {
    /// Where a conversation stands.
    Standing {
        /// As it should be.
        Active = "active",
        /// A turn was interrupted and will be resumed.
        ResumePending = "resume_pending",
        /// Too many turns in a row did not finish: a person decides how to continue.
        Suspended = "suspended",
    }
}
