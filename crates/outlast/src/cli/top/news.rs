//! What the tasks of the feed report to the screen.

use super::act::Act;
use super::command::LogPart;
use super::lines::Piece;
use crate::os::Usage;
use outlast_client::{ProcessId, ProcessInfo};
use std::collections::HashMap;
use std::time::Instant;
use tokio::sync::mpsc;

/// A report. `of` is the number of the command that it answers.
pub(super) enum News {
    /// All processes, and what the trees of running ones use, by pid; with the time of both.
    Listed { processes: Vec<ProcessInfo>, usage: HashMap<u32, Usage>, at: Instant },
    /// The engine could not list: the reason.
    Trouble(String),
    /// Output of a process that is followed. `fresh`: it does not continue the output before it.
    Output { of: u64, piece: Piece, fresh: bool },
    /// The answer to a read.
    Part { of: u64, part: LogPart, piece: Piece },
    /// The position of a search.
    Searched { of: u64, at: u64 },
    /// The end of a search: the position of the match, if there is one.
    Found { of: u64, at: Option<u64> },
    /// Why a read or a search failed.
    Unread { of: u64, why: String },
    /// The outcome of an act: a sentence for each process, and the new process of a rerun.
    Did { act: Act, results: Vec<(ProcessId, Result<String, String>)>, started: Option<ProcessId> },
    /// The outcome of a submitted line, or of closing the input.
    Typed(Result<&'static str, String>),
}

/// Sends news that answer one command.
#[derive(Clone)]
pub(super) struct NewsSender {
    of: u64,
    to: mpsc::Sender<News>,
}

impl NewsSender {
    pub(super) fn new(of: u64, to: mpsc::Sender<News>) -> Self {
        Self { of, to }
    }

    /// Sends output. Returns whether the screen still receives news.
    pub(super) async fn output(&self, piece: Piece, fresh: bool) -> bool {
        self.send(News::Output { of: self.of, piece, fresh }).await
    }

    /// Sends the position of a search, unless the queue is full: the next position follows soon.
    pub(super) fn searched(&self, at: u64) {
        let _next_time = self.to.try_send(News::Searched { of: self.of, at });
    }

    pub(super) async fn send(&self, news: News) -> bool {
        self.to.send(news).await.is_ok()
    }
}
