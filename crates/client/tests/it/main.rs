//! The client against a simulated engine; the examples against a real one.

mod again;
mod answers;
mod blocking;
mod chat;
mod examples;
mod fake;
mod follow;
mod start;
mod write;
