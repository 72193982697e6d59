//! A proxy between an ACP client and an ACP agent, which runs the agent's terminals so that they outlast both.
//!
//! ACP (the Agent Client Protocol, version 1) lets an agent ask its client to run commands: `terminal/create`, `terminal/output`,
//! `terminal/wait_for_exit`, `terminal/kill` and `terminal/release`. A client that runs them itself loses them when it ends. [`Proxy`]
//! answers these five from an engine, and forwards all other messages byte for byte, with two exceptions. In `initialize` it tells the agent
//! that the client has terminals. If the agent shows a terminal in a tool call, the client gets its output as text, since the client does
//! not have the terminal.
//!
//! A terminal is a process, and has the process's id. It belongs to the session of the request (`acp:` and the ACP session id), so the next
//! proxy for the same session serves it as the first one did. The proxy keeps no state that must survive, and may be killed at any time.
//!
//! A program that is the agent's client itself answers the same five calls with [`TerminalService`], for a session of its own.

#![forbid(unsafe_code)]

mod initialize;
mod message;
mod oversized;
mod proxy;
mod service;
mod sessions;
mod splitter;
mod terminal;
mod terminal_content;
mod waits;

pub use initialize::with_terminals;
pub use oversized::{OversizedMessage, OversizedReader};
pub use proxy::{Ended, Options, Proxy};
pub use service::{TerminalAnswer, TerminalCall, TerminalService};
pub use splitter::{Line, MOST_BYTES, Splitter};
pub use terminal_content::ShownTerminals;
