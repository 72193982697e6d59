//! Where a process stands, and how facts move it on.

use crate::{Owner, Record, Time};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// One life of a pid: the same number in another life is a stranger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Incarnation {
    /// The number.
    pub pid: u32,
    /// When it started, in the kernel's ticks since boot.
    pub start_ticks: u64,
    /// Which boot of the machine.
    pub boot: u128,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It said so itself.
    Code(i32),
    /// A signal ended it.
    Signal {
        /// Which.
        number: i32,
        /// Whether it left a core.
        dumped_core: bool,
    },
    /// It never ran.
    NeverStarted(StartFailure),
    /// It ended, and its status could not be had.
    Unknown,
}

/// Why a command never ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartFailure {
    /// The kernel's error number, or 0 where it was not the kernel.
    pub errno: i32,
    /// The step that failed, with what it was about.
    pub what: String,
}

impl StartFailure {
    /// What a shell would answer: 127 where there is no such program, 126 for everything else.
    pub fn shell_code(&self) -> i32 {
        const ENOENT: i32 = 2;
        const ENOTDIR: i32 = 20;
        if matches!(self.errno, ENOENT | ENOTDIR) { 127 } else { 126 }
    }
}

/// Why it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Nobody of ours asked.
    OfItsOwn,
    /// A stop was asked for.
    Asked {
        /// By whom.
        by: Owner,
        /// Through what: `process.kill`, `kill_all`.
        source: String,
    },
    /// Its time was over.
    Deadline,
}

/// How, why and when a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// How.
    pub outcome: Outcome,
    /// Why.
    pub cause: Cause,
    /// When it was seen.
    pub at: Time,
    /// Whether the kernel killed it because memory ran out. False also if that is not known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub oom: bool,
}

/// What is known of the output once nobody can write it any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputEnd {
    /// How much there was in all.
    pub end: u64,
    /// How many descendants were still alive then. They were left running.
    pub left_running: u32,
}

/// How hard a stop is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopWay {
    /// Ask, wait this long, then kill what is left.
    Escalate {
        /// How long; zero kills at once.
        grace: Duration,
    },
    /// Ask, and leave it at that.
    TermOnly,
}

/// A request to end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// Who asked.
    pub cause: Cause,
    /// How hard.
    pub way: StopWay,
}

/// Where a process stands. Each variant holds what is true there and nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub enum Phase {
    /// Written down, not started.
    Accepted,
    /// Alive.
    Running {
        /// Which life.
        of: Incarnation,
        /// Set once it has closed its output while it runs on.
        closed: Option<OutputEnd>,
    },
    /// Asked to end.
    Stopping {
        /// Which life.
        of: Incarnation,
        /// The latest request.
        stop: Stop,
        /// Set once it has closed its output.
        closed: Option<OutputEnd>,
    },
    /// Ended; someone still holds its output.
    Draining {
        /// How.
        ending: Ending,
    },
    /// Ended, and nothing more will come.
    Done {
        /// How.
        ending: Ending,
        /// What there was to read.
        output: OutputEnd,
    },
    /// Alive, and no keeper looks after it.
    Orphaned {
        /// Which life.
        of: Incarnation,
    },
    /// Dead, and nobody saw how.
    Lost {
        /// The last life that was seen.
        last_seen: Option<Incarnation>,
        /// When it was found gone.
        at: Time,
    },
}

/// The two words of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Alive, as far as anybody knows.
    Running,
    /// Over.
    Exited,
}

/// The contract's `completion_reason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// Of its own.
    Exited,
    /// We ended it.
    Killed,
    /// Nobody saw.
    Lost,
    /// It never ran.
    FailedStart,
}

impl Phase {
    /// Running or exited.
    pub fn status(&self) -> Status {
        match self {
            Self::Accepted | Self::Running { .. } | Self::Stopping { .. } | Self::Orphaned { .. } => Status::Running,
            Self::Draining { .. } | Self::Done { .. } | Self::Lost { .. } => Status::Exited,
        }
    }

    /// Alive, with a keeper to look after it.
    pub fn is_kept_alive(&self) -> bool {
        matches!(self, Self::Running { .. } | Self::Stopping { .. })
    }

    /// The `phase` word that callers see.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Accepted => "starting",
            Self::Running { .. } => "running",
            Self::Stopping { .. } => "stopping",
            Self::Draining { ending } | Self::Done { ending, .. } if matches!(ending.outcome, Outcome::NeverStarted(_)) => "failed_start",
            Self::Draining { .. } => "draining",
            Self::Done { .. } => "exited",
            Self::Orphaned { .. } => "orphaned",
            Self::Lost { .. } => "lost",
        }
    }

    /// How it ended, once it has and somebody saw.
    pub fn ending(&self) -> Option<&Ending> {
        match self {
            Self::Draining { ending } | Self::Done { ending, .. } => Some(ending),
            Self::Accepted | Self::Running { .. } | Self::Stopping { .. } | Self::Orphaned { .. } | Self::Lost { .. } => None,
        }
    }

    /// The life that can still be signalled.
    pub fn alive(&self) -> Option<Incarnation> {
        match self {
            Self::Running { of, .. } | Self::Stopping { of, .. } | Self::Orphaned { of } => Some(*of),
            Self::Accepted | Self::Draining { .. } | Self::Done { .. } | Self::Lost { .. } => None,
        }
    }

    /// Whether nothing more can happen to it.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Done { .. } | Self::Lost { .. })
    }

    /// Why it is over, once it is.
    pub fn reason(&self) -> Option<Reason> {
        if let Self::Lost { .. } = self {
            return Some(Reason::Lost);
        }
        self.ending().map(|e| match (&e.outcome, &e.cause) {
            (Outcome::NeverStarted(_), _) => Reason::FailedStart,
            (_, Cause::Asked { .. } | Cause::Deadline) => Reason::Killed,
            (Outcome::Code(_) | Outcome::Signal { .. }, Cause::OfItsOwn) => Reason::Exited,
            (Outcome::Unknown, Cause::OfItsOwn) => Reason::Lost,
        })
    }

    /// The contract's `termination_source`: who ended it, or an empty text.
    pub fn source(&self) -> &str {
        if let Self::Lost { .. } = self {
            return "backend_lost";
        }
        match self.ending() {
            Some(Ending { outcome: Outcome::NeverStarted(_), .. }) => "failed_start",
            Some(Ending { cause: Cause::Asked { source, .. }, .. }) => source,
            Some(Ending { cause: Cause::Deadline, .. }) => "timeout",
            Some(Ending { outcome: Outcome::Unknown, .. }) => "backend_lost",
            Some(_) | None => "",
        }
    }
}

impl Outcome {
    /// What a wait status of the kernel's says.
    pub fn of_wait_status(status: i32) -> Self {
        match status & 0x7f {
            0 => Self::Code((status >> 8) & 0xff),
            number => Self::Signal { number, dumped_core: status & 0x80 != 0 },
        }
    }

    /// The own code, or minus the signal; nothing where nobody knows one.
    pub fn exit_code(&self) -> Option<i32> {
        match self {
            Self::Code(c) => Some(*c),
            Self::Signal { number, .. } => Some(-number),
            Self::NeverStarted(_) | Self::Unknown => None,
        }
    }
}

/// A record that cannot follow.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("a process that is {} cannot have been {record:?}", phase.word())]
pub struct Impossible {
    /// Where the process stood.
    pub phase: Phase,
    /// What was said to have happened.
    pub record: Record,
}

/// Moves a process on by one fact. Replay is this, in a loop. A fact that was known already changes nothing.
pub fn apply(phase: Phase, record: Record) -> Result<Phase, Box<Impossible>> {
    use Phase as P;
    use Record as R;
    Ok(match (phase, record) {
        (P::Accepted, R::Accepted { .. }) => P::Accepted,
        (P::Accepted, R::Started { of, .. }) => P::Running { of, closed: None },
        (P::Accepted, R::Adopted { of, .. }) => P::Orphaned { of },
        (P::Accepted, R::Ended { ending, .. }) if matches!(ending.outcome, Outcome::NeverStarted(_)) => P::Draining { ending },

        (p @ (P::Running { of: known, .. } | P::Stopping { of: known, .. }), R::Started { of, .. }) if known == of => p,
        (P::Running { of, closed } | P::Stopping { of, closed, .. }, R::StopAsked { stop, .. }) => P::Stopping { of, stop, closed },
        (P::Running { of, .. }, R::OutputClosed { output, .. }) => P::Running { of, closed: Some(output) },
        (P::Stopping { of, stop, .. }, R::OutputClosed { output, .. }) => P::Stopping { of, stop, closed: Some(output) },
        (P::Running { closed, .. } | P::Stopping { closed, .. }, R::Ended { ending, .. }) => match closed {
            Some(output) => P::Done { ending, output },
            None => P::Draining { ending },
        },
        (P::Running { of: known, .. } | P::Stopping { of: known, .. }, R::Orphaned { of, .. }) if known == of => P::Orphaned { of },
        (P::Running { of, .. } | P::Stopping { of, .. } | P::Orphaned { of }, R::Lost { at }) => P::Lost { last_seen: Some(of), at },
        (P::Accepted, R::Lost { at }) => P::Lost { last_seen: None, at },

        (P::Orphaned { of: known }, R::Orphaned { of, .. } | R::Adopted { of, .. } | R::Started { of, .. }) if known == of => {
            P::Orphaned { of }
        }
        (p @ P::Orphaned { .. }, R::StopAsked { .. }) => p,
        // We ended it ourselves, or the kernel still knew its status.
        (P::Orphaned { .. }, R::Ended { ending, .. }) => P::Draining { ending },

        // Asked too late: the end came first, and stands.
        (p @ (P::Draining { .. } | P::Done { .. } | P::Lost { .. }), R::StopAsked { .. }) => p,
        (P::Draining { ending }, R::OutputClosed { output, .. }) => P::Done { ending, output },
        (p @ (P::Draining { .. } | P::Done { .. }), R::Started { .. }) => p,
        (P::Draining { ending: known }, R::Ended { ending, .. }) if known == ending => P::Draining { ending },
        (P::Done { ending: known, output }, R::Ended { ending, .. }) if known == ending => P::Done { ending, output },
        (P::Done { ending, output: known }, R::OutputClosed { output, .. }) if known == output => P::Done { ending, output },
        (p @ P::Lost { .. }, R::Lost { .. } | R::Started { .. }) => p,
        // The keepers died after the end: what more was written is not known, the end is.
        (p @ (P::Draining { .. } | P::Done { .. }), R::Lost { .. }) => p,

        (p, R::TakenOver { .. } | R::Gap { .. } | R::Accepted { .. }) => p,
        (phase, record) => return Err(Box::new(Impossible { phase, record })),
    })
}

#[cfg(test)]
mod tests;
