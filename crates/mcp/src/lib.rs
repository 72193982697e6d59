//! An MCP server over the engine: tools of three profiles, durable tasks, and resources with subscriptions.
//!
//! The server is a thin client of the engine and keeps no state that must survive. It may be killed with its agent at any time: processes
//! keep running. An end that an answer shows counts as seen only once the answer is in the pipe or socket; until then it is delivered as a
//! notice.
//!
//! One endpoint serves both eras of the protocol: up to 2025-11-25 with `initialize`, and from 2026-07-28 on without.

#![forbid(unsafe_code)]

mod answer;
mod calls;
mod http;
mod owner;
mod patience;
mod progress;
mod receipt;
mod resource;
mod server;
mod session;
mod slots;
mod stdio;
mod subscription;
mod task;

pub use self::http::{BadToken, Http, Token};
pub use server::{Server, Settings};
pub use stdio::{over, stdio};
