//! How a command ends, and the request to end it.

use crate::{Owner, Time};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// One process behind a pid. The same pid with another start time or boot is another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Incarnation {
    /// The pid.
    pub pid: u32,
    /// When it started, in the kernel's ticks since boot.
    pub start_ticks: u64,
    /// The boot of the machine in which it started.
    pub boot: u128,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It exited with this code.
    Code(i32),
    /// A signal ended it.
    Signal {
        /// The number of the signal.
        number: i32,
        /// Whether the kernel wrote a core dump.
        dumped_core: bool,
    },
    /// It was never executed.
    NeverStarted(StartFailure),
    /// It ended, and its exit status is unknown.
    Unknown,
}

impl Outcome {
    /// The outcome that a wait status of the kernel encodes.
    pub fn of_wait_status(status: i32) -> Self {
        match status & 0x7f {
            0 => Self::Code((status >> 8) & 0xff),
            number => Self::Signal { number, dumped_core: status & 0x80 != 0 },
        }
    }

    /// The exit code, or the negated signal number; nothing if neither is known.
    pub fn exit_code(&self) -> Option<i32> {
        match self {
            Self::Code(c) => Some(*c),
            Self::Signal { number, .. } => Some(-number),
            Self::NeverStarted(_) | Self::Unknown => None,
        }
    }
}

/// Why a command could not be started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartFailure {
    /// The kernel's error number, or 0 if the error is not the kernel's.
    pub errno: i32,
    /// The step that failed, and on what.
    pub what: String,
}

impl StartFailure {
    /// The exit code that a shell reports: 127 if there is no such program, else 126.
    pub fn shell_code(&self) -> i32 {
        const ENOENT: i32 = 2;
        const ENOTDIR: i32 = 20;
        if matches!(self.errno, ENOENT | ENOTDIR) { 127 } else { 126 }
    }
}

/// Why a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// No stop was requested through Outlast.
    OfItsOwn,
    /// A client requested a stop.
    Asked {
        /// The owner that requested it.
        by: Owner,
        /// The request: `process.kill`, `kill_all`.
        source: String,
    },
    /// Its time limit was reached.
    Deadline,
}

/// How, why and when a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// The exit code or signal.
    pub outcome: Outcome,
    /// Whether a stop or a time limit ended it.
    pub cause: Cause,
    /// When its keeper, or the engine, observed the end.
    pub at: Time,
    /// Whether the kernel killed it because memory ran out. Also false if that is unknown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub oom: bool,
}

/// What is known about the output once every writer has closed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputEnd {
    /// The length of the whole output in bytes.
    pub end: u64,
    /// How many descendants were alive at that moment. They were left running.
    pub left_running: u32,
}

/// How a stop proceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopWay {
    /// Send TERM, wait for `grace`, then send KILL to what is left.
    Escalate {
        /// How long to wait; zero sends KILL at once.
        grace: Duration,
    },
    /// Send TERM only, never KILL.
    TermOnly,
}

/// A request to end a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// Who requested it.
    pub cause: Cause,
    /// How it proceeds.
    pub way: StopWay,
}
