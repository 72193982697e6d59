//! Notices that clients get as answers, and ends that owners have seen.

use super::end_key;
use super::rows::{NoticeRow, mark_end_seen, on_key};
use outlast_core::notice_state::{Micros, Moment, NoticeEvent, NoticeReply};
use rusqlite::{Connection, params};

/// Whether the owner of a process has seen its end.
pub(crate) fn is_consumed(db: &Connection, process: &str) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT 1 FROM mark WHERE process = ?1 AND consumed_at > 0")?.exists(params![process])
}

/// The owner of a process has seen its end by this verb.
pub(crate) fn end_seen(db: &Connection, process: &str, by: &str, now: Moment) -> rusqlite::Result<()> {
    match NoticeRow::with_key(db, &end_key(process))? {
        Some(mut row) => row.apply(db, NoticeEvent::EndSeen { by }, now).map(|_| ()),
        // If the notice is written later, it is consumed at once.
        None => mark_end_seen(db, process, by, now),
    }
}

/// Reserves the notice with this key for a client that waits or has announced a wait.
pub(crate) fn reserve(db: &Connection, key: &str, at_most: Micros, now: Moment) -> rusqlite::Result<()> {
    on_key(db, key, NoticeEvent::Reserve { until: now.up.saturating_add(at_most) }, now).map(|_| ())
}

/// The last client that waited for this notice has left without an answer. `is_prepared`: the notice was written with the answer prepared,
/// and no client was sent it. Returns whether the notice is free now.
pub(crate) fn waiters_left(db: &Connection, key: &str, is_prepared: bool, now: Moment) -> rusqlite::Result<bool> {
    Ok(on_key(db, key, NoticeEvent::WaitersLeft { is_prepared }, now)? == NoticeReply::Done)
}

/// What this notice says is about to be sent in an answer.
pub(crate) fn answer_begins(db: &Connection, key: &str, now: Moment) -> rusqlite::Result<()> {
    on_key(db, key, NoticeEvent::AnswerBegins, now).map(|_| ())
}

/// The answer was not sent.
pub(crate) fn answer_failed(db: &Connection, key: &str, now: Moment) -> rusqlite::Result<()> {
    on_key(db, key, NoticeEvent::AnswerFailed, now).map(|_| ())
}

/// A client that waited was answered with what this notice says, which is about no end.
pub(crate) fn answered(db: &Connection, key: &str, now: Moment) -> rusqlite::Result<()> {
    on_key(db, key, NoticeEvent::Answered, now).map(|_| ())
}

/// A client of the same session polled a process that has ended. A terminal does not get the end any more, a gateway does.
pub(crate) fn observe(db: &Connection, process: &str, now: Moment) -> rusqlite::Result<()> {
    on_key(db, &end_key(process), NoticeEvent::Observed, now).map(|_| ())
}

/// A process was run again. The end of the older run need not be delivered any more.
pub(crate) fn supersede(db: &Connection, process: &str, by: &str, now: Moment) -> rusqlite::Result<()> {
    on_key(db, &end_key(process), NoticeEvent::RunAgain { by }, now).map(|_| ())
}
