//! Version 1 of the messages between a client and the engine.

mod answer;
pub mod chat;
mod event;
pub mod keeper;
pub mod link;
mod namespaces;
pub mod notice;
mod process;
mod reply;
mod request;
pub mod sandbox;
mod spec;

pub use answer::{
    Active, Adopted, Cleaned, Done, EngineStatus, Found, KillAll, Killed, LogPage, ReadEnd, Removed, Restarted, Setting, ViewClosed,
    Waited, Written,
};
pub use event::Event;
pub use namespaces::{LockHolder, Namespaces};
pub use process::{Fate, LeftProcess, List, Process};
pub use reply::{Error, ErrorKind, Hello, Reply, ReplyWith, StoppedLeft};
pub use request::{Activity, AdoptFrom, Caller, From, Kill, Message, Page, ReadUntil, Request};
pub use spec::{RerunChange, Spec, Tell};
