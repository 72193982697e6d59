//! What a way into a sandbox has to provide.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use tokio::io::{AsyncRead, AsyncWrite};

/// The work of a transport.
pub type Working<'a, T> = Pin<Box<dyn Future<Output = Result<T, TransportError>> + Send + 'a>>;

/// A way into a sandbox. A call may take as long as it likes: the link that makes it serves everything else meanwhile, and gives up after a
/// time of its own.
pub trait Transport: Send + Sync {
    /// Makes sure that the sandbox exists and has the keeper's program, and returns where that is, as [`Transport::open`] takes it.
    /// Can be repeated.
    fn ensure(&self) -> Working<'_, PathBuf>;

    /// Starts `connect` in the sandbox, and returns the stream to it. `program` is what [`Transport::ensure`] has returned.
    fn open<'a>(&'a self, program: &'a std::path::Path) -> Working<'a, Opened>;

    /// A stream was lost or could not be opened, or the link ends: gives up what streams share.
    fn lost(&self) -> Working<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}

/// A stream to `connect`. It ends when both halves are dropped.
pub struct Opened {
    /// What `connect` writes.
    pub from: Box<dyn AsyncRead + Send + Unpin>,
    /// What `connect` reads.
    pub to: Box<dyn AsyncWrite + Send + Unpin>,
    /// Explains the end of the stream, once that has come: the last words of the program that carried it.
    pub why: Option<Working<'static, String>>,
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Opened")
    }
}

/// Why there is no stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct TransportError {
    /// What the caller can do about it.
    pub failure: TransportFailure,
    /// What was wrong, in a sentence.
    pub what: String,
    /// What to do about it.
    pub hint: String,
}

/// Kinds of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransportFailure {
    /// It may work later: it is tried again.
    Unavailable,
    /// The settings of the environment are not valid, or a program that it needs is missing.
    Refused,
    /// The sandbox provably does not exist any more.
    Gone,
}

impl TransportError {
    /// It may work later.
    pub fn unavailable(what: impl Into<String>) -> Self {
        Self { failure: TransportFailure::Unavailable, what: what.into(), hint: "it is tried again".into() }
    }

    /// It will not work before a person has changed something.
    pub fn refused(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { failure: TransportFailure::Refused, what: what.into(), hint: hint.into() }
    }

    /// The sandbox does not exist any more.
    pub fn gone(what: impl Into<String>) -> Self {
        Self { failure: TransportFailure::Gone, what: what.into(), hint: String::new() }
    }
}
