//! Sinks against real commands and a real receiver, with a desk that lives in memory.

mod desk;
mod engine;
mod hook;
mod lease;
mod receiver;
mod run;
mod webhook;
