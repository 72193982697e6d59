//! Facts about a process, as whoever saw them wrote them down.

use crate::{Ending, Incarnation, OutputEnd, Stop, Time};
use serde::{Deserialize, Serialize};

/// Which of the two keepers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The parent of the command.
    Holder,
    /// The mover of its output.
    Pump,
}

/// Why bytes are missing from a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GapWhy {
    /// Old output made room for new.
    Retention,
    /// The disk was full, or refused the write.
    DiskFull,
    /// The machine went down before they were on disk, or the file was damaged.
    Lost,
}

/// One fact. Past tense: it happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record {
    /// The request was written down.
    Accepted {
        /// When.
        at: Time,
    },
    /// The command runs.
    Started {
        /// When.
        at: Time,
        /// Which life of which pid.
        of: Incarnation,
    },
    /// A living process that somebody else started was taken in.
    Adopted {
        /// When.
        at: Time,
        /// Which life of which pid.
        of: Incarnation,
    },
    /// Somebody asked it to end.
    StopAsked {
        /// When.
        at: Time,
        /// Who, and how hard.
        stop: Stop,
    },
    /// The command itself ended; its output may still be open.
    Ended {
        /// How and why, and when.
        ending: Ending,
        /// How much output there was by then.
        log_end: u64,
    },
    /// Nobody can write its output any more.
    OutputClosed {
        /// When.
        at: Time,
        /// What is known then.
        output: OutputEnd,
    },
    /// One keeper died and the other made a new one.
    TakenOver {
        /// When.
        at: Time,
        /// The one that died.
        role: Role,
        /// The how-manieth time.
        times: u32,
    },
    /// Output was dropped.
    Gap {
        /// When the first byte of it was dropped.
        at: Time,
        /// First missing byte.
        from: u64,
        /// First byte that is there again.
        to: u64,
        /// Why.
        why: GapWhy,
    },
    /// Lines of its output held what it is watched for.
    Matched(Matched),
    /// Both keepers are dead, and the command is alive.
    Orphaned {
        /// When that was found.
        at: Time,
        /// The life that goes on.
        of: Incarnation,
    },
    /// It is dead, and nobody saw how.
    Lost {
        /// When that was found.
        at: Time,
    },
}

/// Lines that matched, of at most a second.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Matched {
    /// When the first of them was seen.
    pub at: Time,
    /// The same in microseconds since the machine was started, which no clock change moves.
    pub up: u64,
    /// The byte at which the first of them begins.
    pub offset: u64,
    /// The byte up to which all output is accounted for: in this record, in an earlier one, or because it did not match.
    pub upto: u64,
    /// The pattern that the first of them holds; the first in the request's order if there are several.
    pub pattern: String,
    /// How many lines.
    pub count: u64,
    /// The first of them, stripped of escape sequences: at most 20 lines and 2,000 characters. Raw: secrets are masked by whoever shows them.
    pub lines: Vec<String>,
    /// Whether the last of `lines` was cut, or more lines would have followed.
    pub cut: bool,
}
