//! The messages on Outlast's sockets, versioned.
//!
//! A connection begins with a hello from each side. Frames follow: a length, a kind, and either a JSON message or raw bytes that
//! belong to one (see [`frame`]). [`v1`] holds the messages between a client and the engine, [`v1::keeper`] those between the
//! engine and a keeper, [`v1::sandbox`] those between a link and a sandbox. Their types are used for nothing else, so renaming an internal type cannot change the protocol.

#![cfg_attr(not(feature = "socket"), forbid(unsafe_code))]

pub mod code;
pub mod frame;
#[cfg(feature = "socket")]
mod os;
#[cfg(feature = "socket")]
pub mod socket;
pub mod v1;

/// The newest version that this build speaks.
pub const VERSION: u32 = 1;
/// The oldest version that this build understands.
pub const OLDEST: u32 = 1;
