//! `read` and `follow`: the bytes as they were written, or with secrets masked byte for byte.

use super::view;
use super::{Asked, Fresh, reading};
use crate::facts::Facts;
use crate::render::{self, Log};
use crate::state::View;
use outlast_store::segments::Chunk;
use outlast_wire::v1::{Error, Event, From, ReadEnd};
use std::time::Duration;

/// How much is read at a time.
const PIECE: usize = 256 << 10;

/// How long to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// What there is.
    Now,
    /// Until no more can come.
    Closed,
    /// And until the command is over: its output ends a moment before it does, or long before.
    Exit,
}

/// Whether somebody looks on who can be told to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Viewed {
    Yes,
    No,
}

/// Whether the values of secret variables are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Secrets {
    Raw,
    Masked,
}

/// How long the end of an unfinished line is held back, if it may be the beginning of a secret value. The keeper also searches unfinished
/// lines after this time.
const UNFINISHED: Duration = Duration::from_millis(200);

pub(super) async fn read(asked: &Asked, name: &str, from: From, until: Until, viewed: Viewed, secrets: Secrets) -> Result<ReadEnd, Error> {
    let view = asked.resolve(name).await?;
    let mut looks_on = match viewed {
        Viewed::Yes => asked.shared().views.open(view.id()),
        Viewed::No => view::View::NONE,
    };
    tokio::select! {
        end = read_on(asked, view, from, until, secrets) => end,
        () = looks_on.closed() => {
            asked.out.event(Event::ViewClosed).await;
            Ok(ReadEnd::default())
        }
    }
}

async fn read_on(asked: &Asked, mut view: View, from: From, until: Until, secrets: Secrets) -> Result<ReadEnd, Error> {
    let mut at = None;
    let mut told = None;
    let mut waited = false;
    let mut pace = Pace::default();
    loop {
        pace.wait().await;
        let Fresh { facts, seen } = asked.fresh(&view).await?;
        view.facts = facts.clone();
        let end = Log::raw(&view.dir, &facts, seen.meta.as_ref()).end;
        pace.looked(end);
        let begin = *at.get_or_insert(match from {
            From::Byte(byte) => byte,
            From::Last(bytes) => end.saturating_sub(bytes),
            From::Now => end,
        });
        if begin < end {
            let (dir, meta) = (view.dir.clone(), seen.meta);
            let read = move || {
                let log = match secrets {
                    Secrets::Raw => Log::raw(&dir, &facts, meta.as_ref()),
                    Secrets::Masked => Log::open(&dir, &facts, meta.as_ref()),
                };
                let mut chunk = log.read(begin, PIECE)?;
                let mut held = 0;
                if let Chunk::Bytes { at, bytes } = &mut chunk
                    && *at + bytes.len() as u64 == log.end
                    && until != Until::Now
                    && !waited
                {
                    held = log.open_end(bytes);
                    bytes.truncate(bytes.len() - held);
                }
                Ok((chunk, held > 0))
            };
            let (chunk, is_held) = reading(read).await?;
            waited = false;
            at = Some(match chunk {
                Chunk::Bytes { at, bytes } if bytes.is_empty() => at,
                Chunk::Bytes { at, bytes } => {
                    if told != Some(at) {
                        asked.out.event(Event::At { byte: at }).await;
                    }
                    asked.out.raw(&bytes).await;
                    told = Some(at + bytes.len() as u64);
                    at + bytes.len() as u64
                }
                Chunk::Gap { from, to, why } => {
                    asked.out.event(render::gap(from, to, why)).await;
                    to
                }
                Chunk::End => end,
            });
            if is_held {
                match tokio::time::timeout(UNFINISHED, more(asked, &mut view, end)).await {
                    Ok(more) => {
                        more?;
                        pace.told();
                    }
                    Err(_) => waited = true,
                }
            }
            continue;
        }
        let closed = render::nothing_follows(&facts);
        match until {
            Until::Now => return Ok(ReadEnd::new(begin, closed)),
            Until::Exit if closed && facts.phase.is_kept_alive() => {
                view.until(Facts::is_over).await;
                continue;
            }
            Until::Closed | Until::Exit if closed => return Ok(ReadEnd::new(begin, closed)),
            Until::Closed | Until::Exit => {}
        }
        more(asked, &mut view, begin).await?;
        pace.told();
    }
}

/// Keeps a follower from looking without a pause. A keeper tells of output by the live copy of `meta`. An engine that has only the file
/// sees that output up to a second later, and no descriptor tells when.
#[derive(Debug, Default)]
struct Pace {
    /// How far the output went by the last look.
    end: Option<u64>,
    /// Whether more was told since.
    is_told: bool,
    /// How many looks in a row have not shown what was told.
    in_vain: u32,
}

/// How long a follower waits where the folder does not show yet what its keeper has told.
const FILE_PACE: Duration = Duration::from_millis(100);
/// So many looks may show nothing new before it waits: a start, and a keeper that is replaced, are told of and bring no output.
const LOOKS_IN_VAIN: u32 = 2;

impl Pace {
    async fn wait(&self) {
        if self.in_vain >= LOOKS_IN_VAIN {
            tokio::time::sleep(FILE_PACE).await;
        }
    }

    fn told(&mut self) {
        self.is_told = true;
    }

    fn looked(&mut self, end: u64) {
        let is_in_vain = std::mem::take(&mut self.is_told) && self.end == Some(end);
        self.in_vain = if is_in_vain { self.in_vain + 1 } else { 0 };
        self.end = Some(end);
    }
}

/// Returns once there may be more than `past` bytes, or something became of the process.
async fn more(asked: &Asked, view: &mut View, past: u64) -> Result<(), Error> {
    if view.facts.phase == outlast_core::Phase::Accepted {
        view.until(|f| f.phase != outlast_core::Phase::Accepted).await;
        return Ok(());
    }
    asked.shared().feeds.more(&asked.engine, view, past).await
}
