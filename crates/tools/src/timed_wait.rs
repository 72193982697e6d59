//! Waits for a command for a limited time. After that the command keeps running.

use crate::output::Output;
use crate::pages::Pages;
use crate::start::{Failure, Started, start};
use crate::this_call::{CallWait, SHORTEST_WAIT, ThisCall};
use crate::{Answer, Host, Policy, Profile};
use outlast_client::{Client, ClientError, LeftProcess, Page, Spec, Status, Waited, code};
use serde_json::json;
use std::time::{Duration, Instant};

/// The state of a process after the wait.
pub(crate) struct Yielded {
    pub(crate) id: String,
    /// How it ended, if it did.
    pub(crate) ended: Option<Waited>,
    /// Its output from where the caller had read to.
    pub(crate) output: Output,
    /// The same output before it was shortened.
    pub(crate) whole: Whole,
    pub(crate) took: Duration,
}

/// Output before it was shortened.
pub(crate) struct Whole {
    pub(crate) text: String,
    /// The byte of the log after it.
    pub(crate) next_byte: u64,
}

/// Which output a call asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WantedOutput {
    /// The first byte; `None` for the end of the output.
    pub(crate) from: Option<u64>,
    /// The most tokens.
    pub(crate) tokens: usize,
}

/// Starts a command for a call that waits.
pub(crate) async fn begin(client: &Client, host: &Host, call: &ThisCall, spec: &Spec, wait: CallWait) -> Result<Started, Failure> {
    let started = start(client, host, call, spec, wait).await;
    if let Err(failure) = &started {
        failure.seen(client).await;
    }
    started
}

/// Waits for the end of a process, at most `most`, and reads its output.
pub(crate) async fn wait(client: &Client, host: &Host, id: &str, most: Duration, wanted: WantedOutput) -> Result<Yielded, ClientError> {
    let began = Instant::now();
    let waited = client.wait(id, Some(most.max(SHORTEST_WAIT))).await?;
    let mut ended = (waited.status == "exited").then_some(waited);
    let (output, whole) = read(client, host, id, wanted).await?;
    if output.over && ended.is_none() {
        // It ended while its output was read, and that read consumed the notice of its end.
        ended = Some(client.wait(id, None).await?);
    }
    Ok(Yielded { id: id.to_owned(), ended, output, whole, took: began.elapsed() })
}

async fn read(client: &Client, host: &Host, id: &str, wanted: WantedOutput) -> Result<(Output, Whole), ClientError> {
    let page = wanted.from.map_or(Page::last(LAST_LINES), Page::from_byte);
    let pages = match Pages::read(client, id, page).await {
        // Retention has removed the bytes at the cursor, so all remaining output is read.
        Err(e) if e.code() == code::BAD_REQUEST => Pages::read(client, id, Page::default()).await?,
        read => read?,
    };
    let output = Output::brief_of(&pages, host, wanted.tokens);
    let whole = Whole { text: pages.page.output.clone(), next_byte: pages.page.next_byte };
    Ok((Output { over: pages.page.status == Status::Exited, ..output }, whole))
}

/// How many lines are read if the caller's position in the log is unknown.
const LAST_LINES: u64 = 200;

/// What becomes of a process that has ended and whose output is in the answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// It stays, and lists do not show it: all there is to say about it is in the answer.
    SetAside,
    /// It stays: there is more output to read.
    Kept,
    /// It stays: processes that it started are still running.
    Running {
        /// The processes that were found.
        left: Vec<LeftProcess>,
    },
}

impl Left {
    /// Sets a process aside whose whole output is in the answer, unless processes that it started are still running.
    pub(crate) async fn of(client: &Client, host: &Host, id: &str, left: &[LeftProcess], more: bool) -> Self {
        if !left.is_empty() {
            return Self::Running { left: left.to_vec() };
        }
        if more && host.policy == Policy::Agent {
            return Self::Kept;
        }
        match client.set_aside(id).await {
            Ok(_) => Self::SetAside,
            Err(e) if e.code() == code::STILL_RUNNING => Self::Running { left: Vec::new() },
            // Lists show it until retention removes it, which does no harm.
            Err(_) => Self::Kept,
        }
    }

    /// Adds a note about processes that are still running to an answer. True if the answer should name the process.
    pub(crate) fn told(&self, profile: Profile, id: &str, all: &mut Answer) -> bool {
        match self {
            Self::SetAside => return false,
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

/// The note if a process outside of the tree holds the output open.
const STILL_PRINTING: &str = "something that it started still runs and may print more";
