//! `read` and `follow`: the bytes as they were written.

use super::keeper::{Away, reach};
use super::view;
use super::{Asked, Fresh, reading};
use crate::facts::Facts;
use crate::link::Link;
use crate::render::{self, Log};
use crate::state::View;
use outlast_store::segments::Chunk;
use outlast_wire::v1::keeper::{Ask, Say};
use outlast_wire::v1::{Error, Event, From, ReadEnd};

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

pub(super) async fn read(asked: &Asked, name: &str, from: From, until: Until, viewed: Viewed) -> Result<ReadEnd, Error> {
    let view = asked.resolve(name).await?;
    let mut looks_on = match viewed {
        Viewed::Yes => asked.shared().views.open(view.id()),
        Viewed::No => view::View::NONE,
    };
    tokio::select! {
        end = read_on(asked, view, from, until) => end,
        () = looks_on.closed() => {
            asked.out.event(Event::ViewClosed).await;
            Ok(ReadEnd::default())
        }
    }
}

async fn read_on(asked: &Asked, mut view: View, from: From, until: Until) -> Result<ReadEnd, Error> {
    let mut at = None;
    let mut told = None;
    let mut link: Option<Link> = None;
    loop {
        let Fresh { facts, seen } = asked.fresh(&view).await?;
        view.facts = facts.clone();
        let end = Log::open(&view.dir, &facts, seen.meta.as_ref()).end;
        let begin = *at.get_or_insert(match from {
            From::Byte(byte) => byte,
            From::Last(bytes) => end.saturating_sub(bytes),
            From::Now => end,
        });
        if begin < end {
            let (dir, meta) = (view.dir.clone(), seen.meta);
            let chunk = reading(move || Log::open(&dir, &facts, meta.as_ref()).read(begin, PIECE)).await?;
            at = Some(match chunk {
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
        more(asked, &mut view, &mut link, begin).await?;
    }
}

/// Returns once there may be more than `past` bytes, or something became of the process.
async fn more(asked: &Asked, view: &mut View, link: &mut Option<Link>, past: u64) -> Result<(), Error> {
    if view.facts.phase == outlast_core::Phase::Accepted {
        view.until(|f| f.phase != outlast_core::Phase::Accepted).await;
        return Ok(());
    }
    if link.is_none() {
        match reach(&asked.engine, view).await {
            Ok(new) => *link = Some(new),
            Err(Away::Over) => return Ok(()),
            Err(Away::Refused(error)) => return Err(error),
        }
    }
    let Some(open) = link else { return Ok(()) };
    match open.ask(Ask::AwaitOutput { past }).await {
        Ok(Say::Output { .. } | Say::AlreadyEnded | Say::Ok) => {}
        // A keeper that leaves has said all it had to say in the folder.
        Ok(_) | Err(_) => *link = None,
    }
    Ok(())
}
