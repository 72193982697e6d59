//! Sinks against real commands and a real receiver, with a delivery queue in memory.

mod engine;
mod hook;
mod lease;
mod queue;
mod receiver;
mod run;
mod webhook;
