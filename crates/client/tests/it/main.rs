//! The client against an engine that is played by the test.

mod again;
mod answers;
mod blocking;
mod fake;
mod follow;
mod start;
mod write;
