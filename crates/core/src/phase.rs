//! The phase of a process, and how records change it.

use crate::{Cause, Ending, Incarnation, Outcome, OutputEnd, Record, Stop, Time};
use serde::{Deserialize, Serialize};

/// Where a process stands. Each variant holds what is true there and nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub enum Phase {
    /// The request is on disk; the command has not started.
    Accepted,
    /// The command is alive, and a keeper supervises it.
    Running {
        /// Its incarnation.
        of: Incarnation,
        /// Set if every writer has closed the output while the command runs.
        closed: Option<OutputEnd>,
    },
    /// The command is alive, and a stop was requested.
    Stopping {
        /// Its incarnation.
        of: Incarnation,
        /// The latest request.
        stop: Stop,
        /// Set if every writer has closed the output.
        closed: Option<OutputEnd>,
    },
    /// The command has ended; another process still holds its output open.
    Draining {
        /// How the command ended.
        ending: Ending,
    },
    /// The command has ended, and its output is complete.
    Done {
        /// How the command ended.
        ending: Ending,
        /// What is known about the output.
        output: OutputEnd,
    },
    /// The command is alive, and its keepers are dead.
    Orphaned {
        /// Its incarnation.
        of: Incarnation,
    },
    /// The command is dead, and its exit status is unknown.
    Lost {
        /// The last incarnation that was observed.
        last_seen: Option<Incarnation>,
        /// When it was found dead.
        at: Time,
    },
}

/// The contract's `status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Alive, as far as Outlast knows.
    Running,
    /// Ended.
    Exited,
}

/// The contract's `completion_reason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// It ended on its own.
    Exited,
    /// A stop or a time limit ended it.
    Killed,
    /// Its exit status is unknown.
    Lost,
    /// It was never executed.
    FailedStart,
}

impl Phase {
    /// The contract's `status` of this phase.
    pub fn status(&self) -> Status {
        match self {
            Self::Accepted | Self::Running { .. } | Self::Stopping { .. } | Self::Orphaned { .. } => Status::Running,
            Self::Draining { .. } | Self::Done { .. } | Self::Lost { .. } => Status::Exited,
        }
    }

    /// Whether it is alive and has a keeper.
    pub fn is_kept_alive(&self) -> bool {
        matches!(self, Self::Running { .. } | Self::Stopping { .. })
    }

    /// The `phase` value that callers see.
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

    /// How it ended, if it has ended and its keeper or the engine observed the end.
    pub fn ending(&self) -> Option<&Ending> {
        match self {
            Self::Draining { ending } | Self::Done { ending, .. } => Some(ending),
            Self::Accepted | Self::Running { .. } | Self::Stopping { .. } | Self::Orphaned { .. } | Self::Lost { .. } => None,
        }
    }

    /// The incarnation that can still be signalled.
    pub fn alive(&self) -> Option<Incarnation> {
        match self {
            Self::Running { of, .. } | Self::Stopping { of, .. } | Self::Orphaned { of } => Some(*of),
            Self::Accepted | Self::Draining { .. } | Self::Done { .. } | Self::Lost { .. } => None,
        }
    }

    /// Whether no further record can change the phase.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Done { .. } | Self::Lost { .. })
    }

    /// The contract's `completion_reason`, once the process has ended.
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

    /// The contract's `termination_source`: what ended it, or an empty text.
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

/// A record that is impossible in this phase.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("a process that is {} cannot have been {record:?}", phase.word())]
pub struct Impossible {
    /// The phase of the process.
    pub phase: Phase,
    /// The record.
    pub record: Record,
}

/// Returns the phase after `record`. Replay calls this in a loop. A record that is known already changes nothing.
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
        // The engine ended it, or the kernel still knew its exit status.
        (P::Orphaned { .. }, R::Ended { ending, .. }) => P::Draining { ending },

        // The stop came too late: the process had ended before.
        (p @ (P::Draining { .. } | P::Done { .. } | P::Lost { .. }), R::StopAsked { .. }) => p,
        (P::Draining { ending }, R::OutputClosed { output, .. }) => P::Done { ending, output },
        (p @ (P::Draining { .. } | P::Done { .. }), R::Started { .. }) => p,
        (P::Draining { ending: known }, R::Ended { ending, .. }) if known == ending => P::Draining { ending },
        (P::Done { ending: known, output }, R::Ended { ending, .. }) if known == ending => P::Done { ending, output },
        (P::Done { ending, output: known }, R::OutputClosed { output, .. }) if known == output => P::Done { ending, output },
        (p @ P::Lost { .. }, R::Lost { .. } | R::Started { .. }) => p,
        // The keepers died after the command ended: its end is known, the length of its output is not.
        (p @ (P::Draining { .. } | P::Done { .. }), R::Lost { .. }) => p,

        (p, R::TakenOver { .. } | R::Gap { .. } | R::Accepted { .. }) => p,
        (phase, record) => return Err(Box::new(Impossible { phase, record })),
    })
}

#[cfg(test)]
mod tests;
