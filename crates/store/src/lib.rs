//! The files on disk: one folder for each process.
//!
//! | file | what | who writes |
//! |---|---|---|
//! | `spec` | the request; the raw half is cut off once the command runs | engine, then keeper |
//! | `meta` | identity, live state, the record of the end | keeper |
//! | `journal` | facts in order, made with the first of them | keeper |
//! | `log.…` | the output: a head and segments, made with the first byte | keeper |
//! | `lines` | how many lines lie before each segment | keeper |
//! | `times` | when output came, to the second | keeper |
//!
//! Each file has one writer at a time, and the lock on `meta` says who.

pub mod blank;
pub mod calls;
mod database_log;
pub mod dir;
mod frame;
pub mod journal;
pub mod lines;
mod live;
pub mod lock;
pub mod meta;
pub mod mirror;
pub mod os;
pub mod points;
pub mod programs;
pub mod segments;
pub mod spec;
pub mod times;
mod v1;

pub use database_log::lengthen_log;
