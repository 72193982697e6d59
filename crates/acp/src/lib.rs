//! A proxy between an ACP client and an ACP agent, which runs the agent's terminals so that they outlast both.
//!
//! ACP (the Agent Client Protocol, version 1) lets an agent ask its client to run commands: `terminal/create`, `terminal/output`, `terminal/wait_for_exit`,
//! `terminal/kill` and `terminal/release`. A client that does so itself loses them when it ends. [`Proxy`] answers these five from an engine, and passes on
//! everything else as it came, byte for byte, but for two things. One is a word in `initialize`: the agent is told that there are terminals, whatever the
//! client said. The other is a terminal that the agent shows in a tool call: the client, which does not have it, is given what it printed as text.
//!
//! A terminal is a process, and its id the process's. It belongs to the conversation of the request (`acp:` and the ACP session id), so the next proxy for the same
//! conversation serves it as the first one did. The proxy holds nothing that matters: it may be killed at any time.
//!
//! A program that is the agent's client itself answers the same five calls with [`TerminalService`], in the name of a conversation of its own.

#![forbid(unsafe_code)]

mod initialize;
mod message;
mod proxy;
mod service;
mod sessions;
mod shown;
mod skim;
mod splitter;
mod terminal;
mod waits;

pub use initialize::with_terminals;
pub use proxy::{Ended, Options, Proxy};
pub use service::{TerminalAnswer, TerminalCall, TerminalService};
pub use shown::Shown;
pub use skim::{Skim, Skimmed};
pub use splitter::{Line, MOST_BYTES, Splitter};
