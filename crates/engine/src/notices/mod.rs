//! Notices: written with the fact that they follow from, leased to one taker at a time, and kept until they are settled.
//!
//! A notice is written in the transaction that records how far a process was read ([`writer`]), so that a crash neither repeats nor loses
//! one. Everything that happens to it afterwards ([`table`]) also runs in the index's writer, one transaction for each step, so that two
//! takers cannot both get it.

pub(crate) mod barrier;
mod outbox;
mod recent;
mod table;
mod waiters;
mod writer;

pub(crate) use barrier::{Barrier, ResolvedTarget};
pub(crate) use outbox::{Outbox, keep_time};
pub(crate) use table::Claimed;
pub(crate) use table::{
    Claim, NoticeDraft, NoticeEntry, NoticeFilter, OpenSession, OwedDelivery, PushResult, SettleReply, end_key, moment,
};
pub(crate) use waiters::{Waiters, Waiting};
pub(crate) use writer::{NoticeWriter, ProcessChange, watched};

#[cfg(test)]
pub(crate) use table::{by_key, last_seq, read};

use outlast_core::Owner;
use rusqlite::Connection;

/// The agent of a session runs in a session of its own, whose name is this followed by the session's.
const AGENT_SESSION_PREFIX: &str = "outlast:agent:";

/// Records the generation of the session that a request is for. A generation that was not seen before becomes the newest. The gateway
/// records one when it starts its agent: a process that an earlier agent left may send its first request later, and must not count as
/// newer.
pub(crate) fn note_owner(db: &Connection, by: &Owner) -> rusqlite::Result<()> {
    match (&by.session, &by.generation) {
        (Some(session), Some(generation)) => {
            let session = session.strip_prefix(AGENT_SESSION_PREFIX).unwrap_or(session);
            table::note_generation(db, session, generation)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
