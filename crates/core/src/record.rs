//! Facts about a process, as the component that observed them wrote them down.

use crate::{Ending, Incarnation, OutputEnd, Stop, Time};
use serde::{Deserialize, Serialize};

/// One of the two keepers of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The parent of the command.
    Holder,
    /// The process that copies the output.
    Pump,
}

/// Why bytes are missing from a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GapWhy {
    /// Old output was deleted to make room.
    Retention,
    /// The disk was full, or refused the write.
    DiskFull,
    /// The machine crashed before the bytes were on disk, or the file was damaged.
    Lost,
}

/// One fact about a process. Names are in the past tense.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record {
    /// The request is on disk.
    Accepted {
        /// When it was written.
        at: Time,
    },
    /// The command was executed.
    Started {
        /// When it started.
        at: Time,
        /// Its incarnation.
        of: Incarnation,
    },
    /// A process that Outlast did not start was adopted.
    Adopted {
        /// When it was adopted.
        at: Time,
        /// Its incarnation.
        of: Incarnation,
    },
    /// A stop was requested.
    StopAsked {
        /// When it was requested.
        at: Time,
        /// The request.
        stop: Stop,
    },
    /// The command ended; its output may still be open.
    Ended {
        /// How, why and when it ended.
        ending: Ending,
        /// The length of the output at that moment.
        log_end: u64,
    },
    /// Every writer has closed the output.
    OutputClosed {
        /// When the last writer closed it.
        at: Time,
        /// What is known about the output.
        output: OutputEnd,
    },
    /// One keeper died, and the other started a new one.
    TakenOver {
        /// When the new one started.
        at: Time,
        /// The keeper that died.
        role: Role,
        /// How often this has happened to the process.
        times: u32,
    },
    /// Output was dropped.
    Gap {
        /// When its first byte was dropped.
        at: Time,
        /// The first missing byte.
        from: u64,
        /// The first byte after the gap.
        to: u64,
        /// Why the bytes are missing.
        why: GapWhy,
    },
    /// Lines of the output contained a watched pattern.
    Matched(Matched),
    /// Both keepers are dead, and the command is alive.
    Orphaned {
        /// When that was detected.
        at: Time,
        /// The incarnation that keeps running.
        of: Incarnation,
    },
    /// The command is dead, and its exit status is unknown.
    Lost {
        /// When that was detected.
        at: Time,
    },
}

/// Lines that matched a watched pattern within one second.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Matched {
    /// When the first of them was written.
    pub at: Time,
    /// The same moment in microseconds since boot, which no clock change moves.
    pub up: u64,
    /// The offset of the first of them in the output.
    pub offset: u64,
    /// All output up to this offset is accounted for: it is in this record, in an earlier one, or did not match.
    pub upto: u64,
    /// The pattern that the first line contains. If it contains several, the first in the request's order.
    pub pattern: String,
    /// How many lines matched.
    pub count: u64,
    /// The first lines, without escape sequences: at most 20 lines and 2,000 characters. Secrets are not masked here; the program
    /// that shows the lines masks them.
    pub lines: Vec<String>,
    /// Whether the last of `lines` was cut, or there were more lines.
    pub cut: bool,
}
