//! Version 1 of the messages between a client and the engine.

pub mod keeper;
pub mod notice;
mod reply;
mod request;

pub use reply::{
    Active, Adopted, Cleaned, Done, EngineStatus, Error, ErrorKind, Event, Fate, Hello, KillAll, Killed, List, LogPage, Process, ReadEnd,
    Removed, Reply, ViewClosed, Waited, Written,
};
pub use request::{Activity, AdoptFrom, Caller, Command, EnvVar, From, Kill, Message, OnStop, Page, Request, Spec, Tell};
