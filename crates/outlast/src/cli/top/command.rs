//! What the screen asks the program to do. Keys and news produce commands; `mod.rs` carries them out.

use super::act::Act;
use super::lines::Words;
use outlast_client::{ProcessId, Scope};

/// One thing to do. The number in a command names it in the news that answer it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TopCommand {
    Leave,
    /// From now on, list these processes.
    List(ListRequest),
    /// Follow the end of a log.
    Follow(ProcessId, u64),
    /// Stop following.
    Pause,
    Read(ProcessId, LogPart, u64),
    Search(ProcessId, Words, SearchFrom, u64),
    StopSearching,
    /// Stop reading and searching: no process is open any more.
    CloseLog,
    /// Apply an act to these processes.
    Do(Act, Vec<ProcessId>),
    /// Send this text to the clipboard of the terminal.
    Copy(String),
    Submit(ProcessId, String),
    EndInput(ProcessId),
    /// List again at once.
    LookAgain,
    /// Give the terminal to a process.
    Attach(ProcessId),
}

/// Which processes to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ListRequest {
    pub(super) scope: Scope,
    pub(super) all: bool,
}

/// Which part of a log to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogPart {
    /// The beginning.
    First,
    /// What ends at this byte.
    Before(u64),
    /// What starts at this byte.
    After(u64),
    /// The line at this byte, and the lines around it.
    Around(u64),
}

/// Where a search starts, and in which direction it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SearchFrom {
    /// The lines that start after this byte, at which a line starts.
    Down(u64),
    /// The lines that start before this byte.
    Up(u64),
    /// The line at this byte and those after it; if there is no match, those before it.
    Nearest(u64),
}
