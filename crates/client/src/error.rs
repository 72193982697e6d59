//! Errors of the client.

use crate::Peer;
use outlast_wire::{code, v1};
use std::io;
use std::path::PathBuf;

/// Why a request of a client failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The engine or the gateway refused the request.
    #[error("{0}")]
    Refused(v1::Error),
    /// There is no answer now; a later request may succeed.
    #[error("{error}")]
    Unavailable {
        /// What happened, and whether the request may have been carried out.
        error: String,
        /// What the caller can do.
        hint: String,
    },
    /// The socket cannot be used.
    #[error("cannot connect to the {peer} at {}: {error}", path.display())]
    Connect {
        /// The program whose socket it is.
        peer: Peer,
        /// The socket, or the home if there is none.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
        /// What the caller can do.
        hint: String,
    },
    /// The program could not be started.
    #[error("cannot start {} with {}: {error}", peer.one(), program.display())]
    Start {
        /// The program that should have been started: engine or gateway.
        peer: Peer,
        /// Its path.
        program: PathBuf,
        /// What went wrong, or the last line of its log.
        error: String,
        /// What the caller can do.
        hint: String,
    },
    /// The peer violated the protocol.
    #[error("the {peer}'s answer makes no sense: {what}")]
    Protocol {
        /// The program that answered.
        peer: Peer,
        /// What is wrong with its answer.
        what: String,
    },
}

impl ClientError {
    /// A stable code, from [`outlast_wire::code`].
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

    /// What the caller can do; may be empty.
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

    /// Whether the engine or the gateway does not run, and the client must not start one.
    pub fn is_not_running(&self) -> bool {
        [code::NOT_RUNNING, code::GATEWAY_NOT_RUNNING].contains(&self.code())
    }

    pub(crate) fn protocol(what: impl std::fmt::Display) -> Self {
        Self::Protocol { peer: Peer::Engine, what: what.to_string() }
    }
}

/// A refusal by the client itself, in the form of the engine's.
pub(crate) fn refusal(code: &str, error: String, hint: &str) -> ClientError {
    ClientError::Refused(v1::Error::new(v1::ErrorKind::Refusal, code, error, hint))
}
