//! What crosses a socket, versioned.
//!
//! A connection begins with a hello from each side. After that, frames: a length, a kind, and either
//! a JSON message or raw bytes that belong to one (see [`frame`]). [`v1`] holds the messages between
//! a client and the engine, [`v1::keeper`] those between the engine and a keeper. Their types are
//! their own, so that a rename elsewhere never becomes an outage.

#![cfg_attr(not(feature = "socket"), forbid(unsafe_code))]

pub mod code;
pub mod frame;
#[cfg(feature = "socket")]
mod os;
#[cfg(feature = "socket")]
pub mod socket;
pub mod v1;

/// The version this build speaks, and the oldest it still understands.
pub const VERSION: u32 = 1;
/// The oldest version this build still understands.
pub const OLDEST: u32 = 1;
