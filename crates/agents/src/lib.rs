//! How the gateway drives an agent, from a prompt to the end of its turn.
//!
//! A [`Driver`] starts one actor per conversation and generation. The gateway holds an [`AgentHandle`] to it, with orders that never wait, and reads
//! [`AgentEvent`]s from a bounded channel. There are two drivers: [`AcpDriver`] speaks ACP version 1 with a program that lives as long as the generation, and
//! [`CommandDriver`] runs one command per turn. This crate knows neither the gateway nor its channels.
//!
//! # Agents are processes of the engine
//!
//! Every agent is started by the engine, in the session `outlast:agent:KEY` and without a notice. It therefore outlives a gateway that crashes, and a later gateway
//! finds it by its session and stops its whole tree ([`stop_agents_of`]), or continues to follow it ([`Driver::find`]). Input is written at byte offsets and output
//! is read at byte offsets, so neither is lost or doubled when the engine is killed in the middle of a turn.
//!
//! ## What the way through keepers costs
//!
//! Measured on 18 November 2026 with the example `latency`, in release mode, on a virtual machine with two shared cores (AMD EPYC, Linux 6.18, ext4, load average
//! 4 to 6): a line of 200 bytes is written to `cat`, and the clock stops when the same line was read back. Median of three runs of 3,000 rounds:
//!
//! | way | p50 | p90 | p99 |
//! |---|---|---|---|
//! | through engine and keepers, there and back | 257 µs | 319 µs | 4.2 ms |
//! | the part of it until the write is answered | 149 µs | 225 µs | 353 µs |
//! | child pipes, there and back | 9 µs | 11 µs | 18 µs |
//!
//! So the way through keepers adds a quarter of a millisecond to a round trip, about 0.1 ms to each piece of a reply. A turn takes seconds, so that is the price
//! of agents that outlive the gateway and are found again.
//!
//! # What ends a turn
//!
//! Each prompt is answered by exactly one of [`AgentNews::Completed`], [`AgentNews::Failed`] and [`AgentNews::Gone`]. `Gone` is the last event of every actor: the
//! process has been stopped by then, so the next agent of the conversation may be started.
//!
//! | what the agent does | what is reported to the gateway |
//! |---|---|
//! | answers the prompt; a command exits with 0 | `Completed` |
//! | answers the prompt with an error; a command exits with another code | `Failed`, and the agent takes the next prompt |
//! | says nothing for 30 min, writes a line over 64 MiB, speaks broken JSON, floods | it is stopped, `Failed`, `Gone` |
//! | exits, is killed, or does not answer a cancel within 10 s | it is stopped, `Gone` with `had_prompt` |
//! | cannot be started, or does not open a session | `Gone` without `had_prompt` |

#![forbid(unsafe_code)]

mod acp;
mod actor;
mod command;
mod driver;
mod permission;
mod program;

pub use acp::{AcpDriver, AcpLimits, AcpSettings, Incoming, McpServer, Nonsense, RequestId, RpcFailure, ToolNews, parse_line};
pub use command::{CommandDriver, CommandSettings};
pub use driver::{
    AgentEvent, AgentFault, AgentHandle, AgentNews, Attempt, Block, Conversation, Driver, FoundAttempt, FoundFuture, NotTaken, Opened,
    Order, Orders, Prompt, Started, StopReason, ToolLine, ToolStatus, orders,
};
pub use permission::{Decision, OptionKind, PermissionAsk, PermissionMode, PermissionOption, PermissionPolicy, SettledBy};
pub use program::{
    AgentName, AgentPaths, AgentPlace, EnvFileError, ProgramNotFound, RunningAgent, agent_session, find_agent, remember_agent,
    running_agents, stop_agents_but, stop_agents_of,
};
