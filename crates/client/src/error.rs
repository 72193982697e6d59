//! Why a client got no answer.

use outlast_wire::{code, v1};
use std::io;
use std::path::PathBuf;

/// Why something asked through a client was not done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The engine said no, and why.
    #[error("{0}")]
    Refused(v1::Error),
    /// There is no answer now; asking again may help.
    #[error("{error}")]
    Unavailable {
        /// What happened, and whether the request may have been done.
        error: String,
        /// What to do.
        hint: String,
    },
    /// The engine's socket cannot be used.
    #[error("cannot connect to the engine at {}: {error}", path.display())]
    Connect {
        /// The socket, or the home where there is none.
        path: PathBuf,
        /// What went wrong.
        error: io::Error,
        /// What to do.
        hint: String,
    },
    /// No engine could be started.
    #[error("cannot start an engine with {}: {error}", program.display())]
    Start {
        /// The program that was to be the engine.
        program: PathBuf,
        /// What went wrong, or the last it said.
        error: String,
        /// What to do.
        hint: String,
    },
    /// The other side said what it cannot mean.
    #[error("the engine's answer makes no sense: {what}")]
    Protocol {
        /// What was wrong with it.
        what: String,
    },
}

impl ClientError {
    /// A stable name, from [`outlast_wire::code`].
    pub fn code(&self) -> &str {
        match self {
            Self::Refused(e) => &e.code,
            Self::Unavailable { .. } => code::UNAVAILABLE,
            Self::Connect { error, .. } if error.kind() == io::ErrorKind::NotFound => code::NOT_RUNNING,
            Self::Connect { .. } => code::CANNOT_CONNECT,
            Self::Start { .. } => code::CANNOT_START,
            Self::Protocol { .. } => code::PROTOCOL,
        }
    }

    /// What to do about it; may be empty.
    pub fn hint(&self) -> &str {
        match self {
            Self::Refused(e) => &e.hint,
            Self::Unavailable { hint, .. } | Self::Connect { hint, .. } | Self::Start { hint, .. } => hint,
            Self::Protocol { .. } => {
                "client and engine may be of different versions: end the engine with `outlast engine stop` and ask again"
            }
        }
    }

    /// The contract's `status` word: `not_found`, `already_exited` or `error`.
    pub fn status(&self) -> &str {
        match self {
            Self::Refused(e) => &e.status,
            Self::Unavailable { .. } | Self::Connect { .. } | Self::Start { .. } | Self::Protocol { .. } => "error",
        }
    }

    /// Whether no engine runs and none was to be started.
    pub fn is_not_running(&self) -> bool {
        self.code() == code::NOT_RUNNING
    }

    pub(crate) fn protocol(what: impl std::fmt::Display) -> Self {
        Self::Protocol { what: what.to_string() }
    }
}

/// A refusal that the client itself makes, in the engine's words.
pub(crate) fn refusal(code: &str, error: String, hint: &str) -> ClientError {
    ClientError::Refused(v1::Error::new(v1::ErrorKind::Refusal, code, error, hint))
}
