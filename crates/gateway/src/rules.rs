//! The rules of conversations and turns: pure functions that depend on their arguments only.
//!
//! Each event is applied with one call and committed as one transaction. The [crate] page says how the coordinator uses them.

pub mod breaker;
pub mod change;
pub mod conversation;
pub mod key;
pub mod note;
pub mod queue;
pub mod reset;
pub mod shown;
pub mod step;
pub mod text;
pub mod turn;

#[cfg(test)]
mod cases;
#[cfg(test)]
mod histories;
#[cfg(test)]
mod tables;
