//! How the gateway drives an agent, from a prompt to the end of its turn.
//!
//! A [`Driver`] starts one actor per conversation and generation. The gateway holds an [`AgentHandle`] to it, with orders that never wait, and reads
//! [`AgentEvent`]s from a bounded channel. There are two drivers: [`AcpDriver`] speaks ACP version 1 with a program that lives as long as the generation, and
//! [`CommandDriver`] runs one command per turn. This crate knows neither the gateway nor its channels.
//!
//! # Agents are processes of the engine
//!
//! Every agent is started by the engine, in the session `outlast:agent:KEY` and without a notice. It therefore outlives a gateway that crashes, and a later gateway
//! finds it by its session and stops its whole tree ([`stop_agents_of`]), or continues to follow it ([`Driver::holds`]). Input is written at byte offsets and output
//! is read at byte offsets, so neither is lost or doubled when the engine is killed in the middle of a turn.
//!
//! ## What the way through keepers costs
//!
//! Measured with `cargo run --release -p outlast-agents --example latency` (LATENCY_PLACE): a line of LATENCY_BYTES bytes is written to `cat`, and the clock stops when
//! the same line was read back. LATENCY_TABLE
//!
//! # What ends a turn
//!
//! Each prompt is answered by exactly one of [`AgentNews::Completed`], [`AgentNews::Failed`] and [`AgentNews::Gone`]. `Gone` is the last event of every actor: the
//! process has been stopped by then, so the next agent of the conversation may be started.
//!
//! | what the agent does | what the gateway is told |
//! |---|---|
//! | answers the prompt; a command exits with 0 | `Completed` |
//! | answers the prompt with an error; a command exits with another code | `Failed`, and the agent takes the next prompt |
//! | says nothing for 30 min, writes a line over 64 MiB, speaks broken JSON, floods | it is stopped, `Failed`, `Gone` |
//! | exits, is killed, or does not answer a cancel within 10 s | it is stopped, `Gone` with `had_prompt` |
//! | cannot be started, or does not open a session | `Gone` without `had_prompt` |

#![forbid(unsafe_code)]

mod acp;
mod command;
mod driver;
mod permission;
mod program;

pub use acp::{AcpDriver, AcpLimits, AcpSettings, Incoming, McpServer, Nonsense, RequestId, RpcFailure, ToolNews, parse_line};
pub use command::{CommandDriver, CommandSettings};
pub use driver::{
    AgentEvent, AgentHandle, AgentNews, Attempt, Block, Conversation, Driver, HoldsFuture, NotTaken, Opened, Order, Orders, Prompt,
    Started, StopReason, ToolLine, ToolStatus, orders,
};
pub use permission::{Decision, OptionKind, PermissionAsk, PermissionMode, PermissionOption, PermissionPolicy, SettledBy};
pub use program::{
    AgentName, AgentPlace, EnvFileError, ProgramNotFound, RunningAgent, agent_session, find_agent, running_agents, stop_agents_of,
};
