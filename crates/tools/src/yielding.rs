//! A command that is waited for as long as its caller likes, and goes on by itself after that.

use crate::output::Output;
use crate::pages::Pages;
use crate::terminal::{Failure, start};
use crate::{Answer, Host, Policy, Profile};
use outlast_client::{Client, ClientError, LeftProcess, Page, ProcessInfo, Spec, Status, Waited, code};
use serde_json::json;
use std::time::{Duration, Instant};

/// What became of a process while it was waited for.
pub(crate) struct Yielded {
    pub(crate) id: String,
    /// How it ended, if it did.
    pub(crate) ended: Option<Waited>,
    /// What it printed from where the caller was.
    pub(crate) output: Output,
    /// How much that is before anything was left out.
    pub(crate) whole: Whole,
    pub(crate) took: Duration,
}

/// Some output before it was made short.
pub(crate) struct Whole {
    pub(crate) text: String,
    /// Up to which byte of the log it goes.
    pub(crate) next_byte: u64,
}

/// How an output is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    /// From which byte on; nothing is the end of what there is.
    pub(crate) from: Option<u64>,
    /// At most so many tokens of it.
    pub(crate) tokens: usize,
}

/// Starts a command.
pub(crate) async fn begin(client: &Client, host: &Host, spec: &Spec) -> Result<ProcessInfo, Failure> {
    let started = start(client, host, spec).await;
    if let Err(failure) = &started {
        failure.seen(client).await;
    }
    started
}

/// Waits for the end of a process, at most this long, and reads what it printed.
pub(crate) async fn wait(client: &Client, host: &Host, id: &str, most: Duration, wanted: Wanted) -> Result<Yielded, ClientError> {
    let began = Instant::now();
    let waited = client.wait(id, Some(most.max(Duration::from_millis(1)))).await?;
    let mut ended = (waited.status == "exited").then_some(waited);
    let (output, whole) = read(client, host, id, wanted).await?;
    if output.over && ended.is_none() {
        // It ended while it was read, which took the notice of its end.
        ended = Some(client.wait(id, None).await?);
    }
    Ok(Yielded { id: id.to_owned(), ended, output, whole, took: began.elapsed() })
}

async fn read(client: &Client, host: &Host, id: &str, wanted: Wanted) -> Result<(Output, Whole), ClientError> {
    let page = wanted.from.map_or(Page::last(LAST_LINES), Page::from_byte);
    let pages = match Pages::read(client, id, page).await {
        // What retention took since is gone, and the rest begins behind it.
        Err(e) if e.code() == code::BAD_REQUEST => Pages::read(client, id, Page::default()).await?,
        read => read?,
    };
    let output = Output::brief_of(&pages, host, wanted.tokens);
    let whole = Whole { text: pages.page.output.clone(), next_byte: pages.page.next_byte };
    Ok((Output { over: pages.page.status == Status::Exited, ..output }, whole))
}

/// How many lines there are of a log of which nobody knows how far it was read.
const LAST_LINES: u64 = 200;

/// What becomes of a process that has ended, and whose output was answered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// Nothing of it is left, and its name is forgotten.
    Forgotten,
    /// It keeps its name: there is more to read.
    Kept,
    /// It keeps its name: something that it started still runs.
    Running {
        /// Which processes, as far as they could be found.
        left: Vec<LeftProcess>,
    },
}

impl Left {
    /// Forgets a process whose whole output was answered, unless there is more to read or something of it still runs.
    pub(crate) async fn of(client: &Client, host: &Host, id: &str, left: &[LeftProcess], more: bool) -> Self {
        if !left.is_empty() {
            return Self::Running { left: left.to_vec() };
        }
        if more && host.policy == Policy::Agent {
            return Self::Kept;
        }
        match client.remove(id).await {
            Ok(_) => Self::Forgotten,
            Err(e) if e.code() == code::STILL_RUNNING => Self::Running { left: Vec::new() },
            // It stays until it is too old, which does no harm.
            Err(_) => Self::Kept,
        }
    }

    /// Adds to an answer what there is to know, under the name that its tools use for a process. Whether the process keeps its name.
    pub(crate) fn told(&self, profile: Profile, id: &str, all: &mut Answer) -> bool {
        match self {
            Self::Forgotten => return false,
            Self::Kept => {}
            Self::Running { left } if left.is_empty() => {
                all.insert("note".into(), STILL_PRINTING.into());
            }
            Self::Running { left } => {
                all.insert("left".into(), json!(left));
                all.insert("note".into(), profile.left_running(id, left).into());
            }
        }
        true
    }
}

/// What there is to say if something outside of the tree of a process holds its output.
const STILL_PRINTING: &str = "something that it started still runs and may print more";
