//! An MCP server over the engine: tools of three profiles, durable tasks, resources that can be subscribed to.
//!
//! The server is a thin client of the engine. It may be killed with its agent at any instant: processes go on, and what an answer had shown of an end counts as seen
//! only once that answer is in the pipe or socket; until then somebody else is told. It holds nothing that matters.
//!
//! Both eras of the protocol are served from one endpoint: with `initialize` up to 2025-11-25, and without from 2026-07-28 on.

#![forbid(unsafe_code)]

mod answer;
mod arrival;
mod http;
mod owner;
mod place;
mod progress;
mod resource;
mod server;
mod session;
mod stdio;
mod subscription;
mod task;

pub use self::http::{BadToken, Http, Token};
pub use server::{Server, Settings};
pub use stdio::{over, stdio};
