//! A command that is waited for as long as its caller likes, and goes on by itself after that.

use crate::output::Output;
use crate::pages::Pages;
use crate::terminal::{Failure, start};
use crate::{Host, Policy};
use outlast_client::{Client, ClientError, Page, ProcessInfo, Spec, Status, Waited, code};
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

/// A process whose whole output was answered is forgotten. One with more to read keeps its name, and so does one that left something running. Whether it does.
pub(crate) async fn leave(client: &Client, host: &Host, id: &str, more: bool) -> Left {
    if more && host.policy == Policy::Agent {
        return Left::Kept;
    }
    match client.remove(id).await {
        Ok(_) => Left::Forgotten,
        Err(e) if e.code() == code::STILL_RUNNING => Left::Running,
        // It stays until it is too old, which does no harm.
        Err(_) => Left::Kept,
    }
}

/// What is left of a process that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    Forgotten,
    Kept,
    /// Something that it started, which may print more.
    Running,
}

/// What there is to say of one that left something running.
pub(crate) const STILL_PRINTING: &str = "something that it started still runs and may print more";
