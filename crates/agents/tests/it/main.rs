//! Agents under a real engine: the driver that speaks ACP with a scripted agent, and the one that runs a command per turn.

mod acp;
mod command;
mod permission;
mod program;
mod support;
