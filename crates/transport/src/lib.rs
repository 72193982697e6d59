//! Ways into a sandbox, and the link that mirrors its processes.
//!
//! A [`Transport`] gives a stream to `outlast-keeper connect` in a sandbox, and no more. The link ([`serve_link`]) is a program of its own
//! for each environment. It keeps an ordinary folder here for each process there, which the engine reads like any other, and serves the
//! socket that a keeper would. It is disposable: the sandbox's folder is the truth.
//!
//! Decisions 404 to 407: docs/decisions/anywhere.md.

mod backend;
mod bwrap;
mod link;
mod local;
mod program;
mod stream;
mod transport;

pub use backend::backend;
pub use link::{LinkSettings, serve_link};
pub use program::KeeperFile;
pub use transport::{Opened, Transport, TransportError, TransportFailure, Working};
