//! Tests of single rules. `histories` plays random histories, `takers` concurrent takers.

mod given;
mod histories;
mod kept;
mod lockstep;
mod scale;
mod seen;
mod takers;
mod wakers;

use super::note_owner;
use super::table::*;
use crate::config::Push;
use crate::index;
use outlast_core::notice_state::{ANNOUNCED_WAIT_TIMEOUT, ANSWER_TIMEOUT, TakerKind, WrittenFor};
use outlast_core::{Body, Completion, Owner, ProcessId, Reason, Route, Time, WatchMatch};
use outlast_wire::v1::notice::Verdict;
use rusqlite::{Connection, params};
use std::time::{Duration, Instant};

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;

/// Tables as the index has them, in memory.
fn tables() -> Connection {
    let db = Connection::open_in_memory().unwrap();
    index::keep_questions_ready(&db).unwrap();
    index::ALL.iter().for_each(|tables| db.execute_batch(tables).unwrap());
    db
}

fn id(n: u8) -> ProcessId {
    ProcessId::from_bytes([n; 6])
}

fn owner(session: &str, generation: &str) -> Owner {
    let part = |text: &str| Some(text.to_owned()).filter(|t| !t.is_empty());
    Owner { session: part(session), task: None, generation: part(generation) }
}

fn draft(key: String, process: Option<ProcessId>, owner: Owner, body: Body) -> NoticeDraft {
    NoticeDraft { key, at: Time::from_micros(DAY), process, owner, route: Route::default(), body, repeat: false }
}

fn completion(n: u8, owner: Owner) -> NoticeDraft {
    let mut body = Completion::new("make", Some(0), Reason::Exited);
    body.output = "done".into();
    draft(format!("{}/completion", id(n)), Some(id(n)), owner, Body::Completion(Box::new(body)))
}

fn matched(n: u8, at: u64, owner: Owner) -> NoticeDraft {
    let body = WatchMatch::new("make", "ERROR", "ERROR");
    draft(format!("{}/watch_match/{at}", id(n)), Some(id(n)), owner, Body::WatchMatch(body))
}

fn posted(name: &str, owner: Owner, text: &str) -> NoticeDraft {
    let event = serde_json::json!({"type": "custom", "text": text});
    draft(format!("posted/{name}"), None, owner, Body::Posted(event.as_object().unwrap().clone()))
}

/// A row of a process, with the columns that notices need.
fn remember(db: &Connection, n: u8, session: &str) {
    db.prepare_cached(
        "INSERT INTO process (id, accepted_at, session, hash, kept, phase, final, log_end, cursor, bytes, consumed, detached, sum)
         VALUES (?1, 0, ?2, '', '', '', 1, 0, 0, 0, 0, 0, 0)",
    )
    .unwrap()
    .execute(params![id(n).to_string(), session])
    .unwrap();
}

/// Tables, a clock, and short names for the verbs.
struct Desk {
    db: Connection,
    now: Moment,
    words: u32,
}

impl Desk {
    fn new() -> Self {
        Self { db: tables(), now: Moment { utc: Time::from_micros(100 * DAY), up: 1_000 * SECOND }, words: 0 }
    }

    fn pass(&mut self, micros: i64) {
        self.now = Moment { utc: Time::from_micros(self.now.utc.micros() + micros), up: self.now.up + micros };
    }

    fn put(&self, draft: &NoticeDraft) -> Option<u64> {
        insert(&self.db, draft, &[], self.now).unwrap()
    }

    fn claim_as(&mut self, session: &str, generation: &str, taker: TakerKind, limit: usize) -> Vec<NoticeEntry> {
        self.claim_named_by(NamedBy::Client, session, generation, taker, limit).given
    }

    fn claim_named_by(&mut self, named_by: NamedBy, session: &str, generation: &str, taker: TakerKind, limit: usize) -> Claimed {
        self.words += 1;
        let (session, generation, lease) = (session.to_owned(), generation.to_owned(), format!("word {}", self.words));
        claim(
            &self.db,
            &Claim { session, generation, named_by, taker, asker: None, asked: false, limit, lease, lease_for: 60 * SECOND, now: self.now },
        )
        .unwrap()
    }

    /// A request names a generation.
    fn names(&self, by: NamedBy, session: &str, generation: &str) {
        note_owner(&self.db, &owner(session, generation), by).unwrap();
    }

    /// The numbers of the notices that a terminal gets.
    fn drain(&mut self, session: &str) -> Vec<u64> {
        self.claim_as(session, "", TakerKind::Terminal, 1_000).iter().map(|e| e.notice.seq).collect()
    }

    /// The numbers of the notices that a gateway gets.
    fn gateway(&mut self, session: &str) -> Vec<u64> {
        self.claim_as(session, "", TakerKind::Gateway, 1_000).iter().map(|e| e.notice.seq).collect()
    }

    fn settle(&self, entry: &NoticeEntry, lease: Option<&str>, verdict: &Verdict) -> SettleReply {
        settle(&self.db, &entry.notice.event_id, None, lease, verdict, self.now).unwrap().settled
    }

    fn state(&self, seq: u64) -> (String, String) {
        let sql = "SELECT state, reason FROM notice WHERE seq = ?1";
        self.db.query_row(sql, params![seq as i64], |r| Ok((r.get(0)?, r.get(1)?))).unwrap()
    }

    fn consume(&self, n: u8) {
        end_seen(&self.db, &id(n).to_string(), "wait", self.now).unwrap();
    }

    fn observe(&self, n: u8) {
        observe(&self.db, &id(n).to_string(), self.now).unwrap();
    }

    /// How many delivered notices become pending again.
    fn replay(&self, from: u64, session: Option<&str>, sinks: &[Push]) -> u64 {
        let (count, rest) = replay(&self.db, from, session, sinks, self.now).unwrap();
        assert_eq!(rest, None);
        count
    }

    fn prune(&self, keep: i64, sinks: &[Push]) {
        let before = Time::from_micros(self.now.utc.micros() - keep);
        while prune(&self.db, before, sinks).unwrap() {}
        sweep(&self.db, before).unwrap();
    }
}

fn hook() -> Vec<Push> {
    vec![Push::observer("hook")]
}
