//! Notices: written with the fact that they follow from, leased to one taker at a time, and kept until they are settled.
//!
//! A notice is written in the transaction that records how far a process was read ([`writer`]), so that a crash neither repeats nor loses
//! one. Everything that happens to it afterwards ([`table`]) also runs in the index's writer, one transaction for each step, so that two
//! takers cannot both get it.

pub(crate) mod barrier;
mod failed_wakes;
mod outbox;
mod recent;
mod table;
mod waiters;
mod writer;

pub(crate) use barrier::{Barrier, ResolvedTarget};
pub(crate) use outbox::{Outbox, keep_time};
pub(crate) use table::Claimed;
pub(crate) use table::{
    Claim, NamedBy, NoticeDraft, NoticeEntry, NoticeFilter, OpenSession, OwedDelivery, PushResult, SettleReply, end_key, moment,
};
pub(crate) use waiters::{Waiters, Waiting};
pub(crate) use writer::{NoticeWriter, ProcessChange, watched};

#[cfg(test)]
pub(crate) use table::{by_key, last_seq, read};

use outlast_core::Owner;
use rusqlite::Connection;

/// The agent of a session runs in a session of its own, whose name is this followed by the session's.
const AGENT_SESSION_PREFIX: &str = "outlast:agent:";

/// Records the generation of the session that a request is for. The gateway records one when it starts its agent, and when it takes notices. What any other
/// client names is not newer than that: it may be a process that an earlier agent left, or the agent of another home.
pub(crate) fn note_owner(db: &Connection, by: &Owner, named_by: NamedBy) -> rusqlite::Result<()> {
    match (&by.session, &by.generation) {
        (Some(session), Some(generation)) => {
            let of_agent = session.strip_prefix(AGENT_SESSION_PREFIX);
            let session = of_agent.unwrap_or(session);
            // Only a gateway starts agents. One that an earlier gateway asked for may be started late, and its generation is known by then.
            let is_new_agent = of_agent.is_some() && !table::is_known_generation(db, session, generation)?;
            table::note_generation(db, session, generation, if is_new_agent { NamedBy::Gateway } else { named_by })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
