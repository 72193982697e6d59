//! `read` and `follow`: the output as bytes, raw or with secrets masked byte for byte.

use super::context::{RequestContext, reading};
use crate::facts::Facts;
use crate::intake::Current;
use crate::refuse;
use crate::render::{self, Log};
use crate::table::ProcessView;
use crate::views::Viewer;
use outlast_core::Time;
use outlast_store::meta::{Snapshot, flag};
use outlast_store::segments::Chunk;
use outlast_store::times::{TimeNote, TimeNotes};
use outlast_wire::code;
use outlast_wire::v1::{Error, Event, From, ReadEnd, ReadUntil};
use std::time::Duration;

/// How many bytes are read at a time.
const PIECE: usize = 256 << 10;

/// Whether the reader counts as a viewer, whom `view close` detaches.
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

/// How long the end of an unfinished line is held back if it may begin a secret value. The keeper also searches unfinished lines after this
/// time.
const UNFINISHED: Duration = Duration::from_millis(200);

pub(super) async fn read(
    asked: &RequestContext,
    name: &str,
    from: From,
    until: ReadUntil,
    viewed: Viewed,
    secrets: Secrets,
    timed: bool,
) -> Result<ReadEnd, Error> {
    let view = asked.resolve(name).await?;
    let mut looks_on = match viewed {
        Viewed::Yes => asked.parts.views.open(view.id()),
        Viewed::No => Viewer::NONE,
    };
    tokio::select! {
        end = read_on(asked, view, from, until, secrets, timed) => end,
        () = looks_on.closed() => {
            asked.out.event(Event::ViewClosed).await;
            Ok(ReadEnd::default())
        }
    }
}

async fn read_on(
    asked: &RequestContext,
    mut view: ProcessView,
    from: From,
    until: ReadUntil,
    secrets: Secrets,
    timed: bool,
) -> Result<ReadEnd, Error> {
    let mut at = None;
    let mut told = None;
    let mut waited = false;
    let mut pace = FollowPace::default();
    let mut times = timed.then(TimeReport::default);
    loop {
        pace.wait().await;
        let Current { facts, seen } = asked.look(&view).await?;
        view.facts = facts.clone();
        let end = Log::raw(&view.dir, &facts, seen.meta.as_ref()).end;
        pace.looked(end);
        let begin = match (at, from) {
            (Some(at), _) => at,
            (None, From::Byte(byte)) => byte,
            (None, From::Last(bytes)) => end.saturating_sub(bytes),
            (None, From::Now) => end,
            (None, From::Since(time)) => {
                let notes = notes(&view, seen.meta.as_ref()).await?.ok_or_else(untimed)?;
                notes.first_byte_since(time, facts.since(), end)
            }
        };
        at = Some(begin);
        if begin < end {
            if let Some(times) = &mut times
                && let Some(notes) = notes(&view, seen.meta.as_ref()).await?
            {
                times.tell(asked, &notes, facts.since(), begin, end.min(begin + PIECE as u64)).await;
            }
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
                    && until != ReadUntil::Now
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
            ReadUntil::Now => return Ok(ReadEnd::new(begin, closed)),
            ReadUntil::Exit if closed && facts.phase.is_kept_alive() => {
                view.until(Facts::is_over).await;
                continue;
            }
            ReadUntil::Closed | ReadUntil::Exit if closed => return Ok(ReadEnd::new(begin, closed)),
            ReadUntil::Closed | ReadUntil::Exit => {}
        }
        more(asked, &mut view, begin).await?;
        pace.told();
    }
}

/// The notes of when output came. None if the keeper has not noted all of it.
async fn notes(view: &ProcessView, meta: Option<&Snapshot>) -> Result<Option<TimeNotes>, Error> {
    if !meta.is_some_and(|meta| meta.has(flag::TIMED)) {
        return Ok(None);
    }
    let dir = view.dir.clone();
    reading(move || TimeNotes::read(&dir)).await.map(Some)
}

fn untimed() -> Error {
    let what = "when its output came is not known: it was started by an earlier version, or its disk was full";
    refuse::refusal(code::BAD_REQUEST, what, "leave out the time, or name lines or bytes")
}

/// Reports to a reader when the bytes came that it gets next.
#[derive(Debug, Default)]
struct TimeReport {
    /// The byte of the last note that was sent.
    told: Option<u64>,
}

impl TimeReport {
    /// Sends the last note before `from`, unless it was sent, and all up to `to`.
    async fn tell(&mut self, asked: &RequestContext, notes: &TimeNotes, started: Time, from: u64, to: u64) {
        let before = notes.time_of(from, started).map(|at| TimeNote { byte: from, at });
        let first = before.filter(|_| self.told.is_none());
        let after = self.told.unwrap_or(from);
        let more = notes.notes.iter().filter(|note| note.byte > after && note.byte < to);
        for TimeNote { byte, at } in first.iter().chain(more) {
            asked.out.event(Event::Came { byte: *byte, at: *at }).await;
            self.told = Some(*byte);
        }
    }
}

/// Keeps a follower from reading in a busy loop. A keeper reports output through the live copy of `meta`. An engine that has only the file
/// sees that output up to a second later, and no descriptor reports when.
#[derive(Debug, Default)]
struct FollowPace {
    /// The end of the output at the last look.
    end: Option<u64>,
    /// Whether the keeper has reported more since.
    is_told: bool,
    /// How many looks in a row have not shown the reported output.
    in_vain: u32,
}

/// How long a follower waits while the folder does not show yet what the keeper has reported.
const FILE_PACE: Duration = Duration::from_millis(100);
/// How many looks may show nothing new before it waits: a start, and a replaced keeper, are reported and bring no output.
const LOOKS_IN_VAIN: u32 = 2;

impl FollowPace {
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

/// Returns once there may be more than `past` bytes, or the process changed its phase.
async fn more(asked: &RequestContext, view: &mut ProcessView, past: u64) -> Result<(), Error> {
    if view.facts.phase == outlast_core::Phase::Accepted {
        view.until(|f| f.phase != outlast_core::Phase::Accepted).await;
        return Ok(());
    }
    asked.parts.feeds.more(view, past).await
}
