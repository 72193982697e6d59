//! Words and rules of Outlast: no I/O, no clock, no tasks.
//!
//! A process outlives whoever asked for it. This crate holds what everyone agrees on: how a
//! process is named ([`ProcessId`]), what was asked for ([`Spec`]), what was seen to happen
//! ([`Record`]), where that leaves it ([`Phase`], through [`apply`]), and what may be asked of it
//! next ([`decide`]).

#![forbid(unsafe_code)]

mod bytes;
mod decide;
mod home_path;
mod id;
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
pub use home_path::expand_home;
pub use id::{BadId, IdRef, ProcessId};
pub use near::nearest;
pub use notice::{Body, Completion, Notice, WatchMatch};
pub use owner::{Owner, Route, Scope};
pub use phase::{Cause, Ending, Impossible, Incarnation, Outcome, OutputEnd, Phase, Reason, StartFailure, Status, Stop, StopWay, apply};
pub use process_limits::{ProcessLimits, RESOURCES, ResourceLimit, Scheduler, kernel_limits, resource_limits};
pub use record::{GapWhy, Matched, Record, Role};
pub use spec::{Command, EnvVar, OnStop, Spec, Tell};
pub use time::Time;
pub use watch::{Breaker, Limiter, MOST_LATE, Rules, Seen, WatchDecision, watch};
