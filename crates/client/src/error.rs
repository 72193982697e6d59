//! Why a client got no answer.

use crate::Peer;
use outlast_wire::{code, v1};
use std::io;
use std::path::PathBuf;

/// Why something asked through a client was not done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The engine or the gateway said no, and why.
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
    /// The socket cannot be used.
    #[error("cannot connect to the {peer} at {}: {error}", path.display())]
    Connect {
        /// Whose socket.
        peer: Peer,
        /// The socket, or the home where there is none.
        path: PathBuf,
        /// What went wrong.
        error: io::Error,
        /// What to do.
        hint: String,
    },
    /// The program could not be started.
    #[error("cannot start {} with {}: {error}", peer.one(), program.display())]
    Start {
        /// What was to be started.
        peer: Peer,
        /// The program.
        program: PathBuf,
        /// What went wrong, or the last it said.
        error: String,
        /// What to do.
        hint: String,
    },
    /// The peer violated the protocol.
    #[error("the {peer}'s answer makes no sense: {what}")]
    Protocol {
        /// Who answered.
        peer: Peer,
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
            Self::Connect { peer, error, .. } if error.kind() == io::ErrorKind::NotFound => peer.not_running(),
            Self::Connect { peer, .. } => peer.cannot_connect(),
            Self::Start { peer, .. } => peer.cannot_start(),
            Self::Protocol { .. } => code::PROTOCOL,
        }
    }

    /// What to do about it; may be empty.
    pub fn hint(&self) -> &str {
        match self {
            Self::Refused(e) => &e.hint,
            Self::Unavailable { hint, .. } | Self::Connect { hint, .. } | Self::Start { hint, .. } => hint,
            Self::Protocol { peer, .. } => peer.nonsense_hint(),
        }
    }

    /// The contract's `status` word: `not_found`, `already_exited` or `error`.
    pub fn status(&self) -> &str {
        match self {
            Self::Refused(e) => &e.status,
            Self::Unavailable { .. } | Self::Connect { .. } | Self::Start { .. } | Self::Protocol { .. } => "error",
        }
    }

    /// Whether the engine or the gateway that was asked does not run, and none was to be started.
    pub fn is_not_running(&self) -> bool {
        [code::NOT_RUNNING, code::GATEWAY_NOT_RUNNING].contains(&self.code())
    }

    pub(crate) fn protocol(what: impl std::fmt::Display) -> Self {
        Self::Protocol { peer: Peer::Engine, what: what.to_string() }
    }
}

/// A refusal that the client itself makes, in the engine's words.
pub(crate) fn refusal(code: &str, error: String, hint: &str) -> ClientError {
    ClientError::Refused(v1::Error::new(v1::ErrorKind::Refusal, code, error, hint))
}
