//! The library that others embed: everything a face of Outlast can ask of an engine.
//!
//! A [`Client`] speaks to the engine of one home. The engine is started when it is needed, and may die at any time:
//! what can be asked twice without harm is asked again over a new connection, so a caller sees at most a delay.
//!
//! ```no_run
//! use outlast_client::{Client, Connect, Run, Spec, caller};
//!
//! # async fn example() -> Result<(), outlast_client::ClientError> {
//! let client = Client::connect(&Connect::to("/home/me/.local/state/outlast").starting("outlast"))
//! .await?;
//! let here = caller(std::env::vars_os(), &std::env::current_dir().unwrap());
//! let tests = client.run(Run::new(Spec::shell("make test"), here)).await?;
//! let end = tests.wait(None).await?;
//! println!("{} ended with {:?}", tests.id(), end.fate.exit_code);
//! # Ok(())
//! # }
//! ```
//!
//! Programs without an async runtime use [`blocking`], which has the same methods.

#![forbid(unsafe_code)]

pub mod blocking;
mod client;
mod dial;
mod error;
mod follow;
mod link;
mod notices;
mod process;
mod start;

pub use client::{At, Client, Run, caller};
pub use dial::{Connect, Start};
pub use error::ClientError;
pub use follow::{Chunk, Chunks};
pub use notices::{Followed, Owed, Take, Unread};
pub use process::Process;

pub use outlast_core::{
    Body, Command, Completion, EnvVar, Notice, OnStop, OsText, Owner, ProcessId, Reason, Route, Scope, Spec, Status, Tell, Time, WatchMatch,
};
pub use outlast_wire::code;
pub use outlast_wire::v1::notice::{
    Barrier, DeadLetter, Delivery, History, Judged, JudgedOne, Notices, Posted, Push, Replay, Taker, Told, Until, Verdict,
};
pub use outlast_wire::v1::{
    Active, Activity, AdoptFrom, Adopted, Caller, Cleaned, Done, EngineStatus, Error, ErrorKind, Event, Fate, From, Kill, KillAll, Killed,
    List, LogPage, Page, Process as ProcessInfo, ReadEnd, Removed, ViewClosed, Waited, Written,
};
