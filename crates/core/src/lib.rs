//! Types and rules that all parts of Outlast share: no I/O, no clock, no tasks.
//!
//! A process outlives the program that started it. This crate defines how a process is named ([`ProcessId`]), what was requested
//! ([`Spec`]), what was observed ([`Record`]), which phase follows from that ([`Phase`], through [`apply`]), and what may be asked
//! of the process next ([`decide`]).

#![forbid(unsafe_code)]

mod bytes;
mod decide;
mod ending;
mod environment;
mod home_path;
mod id;
mod instance;
pub mod limits;
mod near;
mod notice;
pub mod notice_state;
mod owner;
mod phase;
mod process_limits;
mod record;
mod spec;
mod time;
mod watch;

pub use bytes::OsText;
pub use decide::{Action, Ask, Refusal, decide};
pub use ending::{Cause, Ending, Incarnation, Outcome, OutputEnd, StartFailure, Stop, StopWay};
pub use environment::{BadEnvironmentName, EnvironmentName};
pub use home_path::expand_home;
pub use id::{BadId, IdRef, ProcessId};
pub use instance::{Belonging, HTTP_SESSION_IDLE, Instance, InstanceKind, KnownInstance, SUCCESSOR_OVERLAP};
pub use near::nearest;
pub use notice::{Body, Completion, Notice, WatchMatch};
pub use owner::{Owner, Route, Scope};
pub use phase::{Impossible, Phase, Reason, Status, apply};
pub use process_limits::{ProcessLimits, RESOURCES, ResourceLimit, Scheduler, kernel_limits, resource_limits};
pub use record::{GapWhy, Matched, Record, Role};
pub use spec::{Command, EnvVar, OnStop, Spec, Tell};
pub use time::Time;
pub use watch::{Breaker, Limiter, MOST_LATE, MatchSeen, Rules, WatchDecision, watch};
