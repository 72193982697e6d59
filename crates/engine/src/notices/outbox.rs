//! The handle on notices. Each verb is one transaction of the index's writer.

use super::barrier::{self, Barrier};
use super::failed_wakes::FailedWakes;
use super::recent::{Following, Recent};
use super::table::{
    self, Claim, Claimed, Moment, NamedBy, NoticeDraft, NoticeEntry, NoticeFilter, OpenSession, OwedDelivery, PushResult, SettleResult,
    end_key, moment,
};
use super::writer::{self, NoticeWriter, ProcessChange};
use crate::closing::{Closing, Shutdown};
use crate::config::{Clock, Push};
use crate::disk::AGAIN;
use crate::facts::Facts;
use crate::index::{self, Index, IndexError};
use crate::instances::{self, Asker, Holder};
use outlast_core::notice_state::{RESERVATION_TIMEOUT, WrittenFor};
use outlast_core::{Owner, ProcessId, Time};
use outlast_wire::v1::notice::Verdict;
use rusqlite::Connection;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// How many times longer than a settled notice an open one is kept. A session may pause for weeks and still get its notices; an abandoned
/// one must not grow for ever.
const OPEN_KEEP_FACTOR: u32 = 4;

/// Leases due deliveries to a sink.
type Take = fn(&Connection, &str, usize, &str, i64, Moment) -> rusqlite::Result<Vec<OwedDelivery>>;
type NextDue = fn(&Connection, &str, Moment) -> rusqlite::Result<Option<Duration>>;

/// The handle on notices and deliveries. Copies are cheap.
#[derive(Clone)]
pub(crate) struct Outbox {
    index: Index,
    writer: Arc<NoticeWriter>,
    /// Changes whenever there may be a notice or a delivery to take.
    news: Arc<watch::Sender<u64>>,
    /// Changes whenever a notice was leased: the lease may run out without a report.
    leases: Arc<watch::Sender<u64>>,
    recent: Recent,
    failed_wakes: FailedWakes,
    /// Notified when the breaker holds back matches.
    breaker_paused: Arc<Notify>,
}

impl Outbox {
    pub(crate) fn new(index: Index, writer: NoticeWriter) -> Self {
        let (news, leases) = (Arc::new(watch::channel(0).0), Arc::new(watch::channel(0).0));
        Self {
            index,
            writer: Arc::new(writer),
            news,
            leases,
            recent: Recent::default(),
            failed_wakes: FailedWakes::default(),
            breaker_paused: Arc::default(),
        }
    }

    /// Changes whenever there may be a notice or a delivery to take.
    pub(crate) fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    /// Changes whenever a notice was leased. A task that waits for the next lease to run out then looks again which that is.
    pub(crate) fn leases(&self) -> watch::Receiver<u64> {
        self.leases.subscribe()
    }

    /// The notices that are written from now on, as long as they are in memory. Subscribe before reading the existing ones.
    pub(crate) fn follow(&self) -> Following {
        self.recent.follow()
    }

    /// Announces that there may be something to take.
    fn tell(&self) {
        self.recent.forget();
        self.news.send_modify(|n| *n += 1);
    }

    /// Announces these notices, which were written in one write. [`Recent`] forgets if numbers are missing between two announcements.
    fn tell_made<'a>(&self, made: impl IntoIterator<Item = &'a NoticeEntry>) {
        self.recent.add(made);
        self.news.send_modify(|n| *n += 1);
    }

    /// The current moment, by the engine's clock.
    fn now(&self) -> Moment {
        moment(self.writer.clock.now())
    }

    pub(crate) fn sinks(&self) -> &[Push] {
        &self.writer.sinks
    }

    /// Writes a request with the conversation that it belongs to, and records the generation of its session.
    pub(crate) async fn accept(&self, facts: Facts, named_by: NamedBy, holder: Option<Holder>) -> Result<(), IndexError> {
        let work = move |db: &Connection| {
            super::note_owner(db, &facts.kept.spec.owner, named_by)?;
            if let Some(holder) = &holder {
                instances::write_holder(db, facts.id(), holder)?;
            }
            index::put(db, &facts)
        };
        self.index.work(work).await
    }

    /// Writes changes of processes with the notices that follow from them.
    pub(crate) async fn advance(&self, news: Vec<ProcessChange>, now: Time) -> Result<(), IndexError> {
        let writer = Arc::clone(&self.writer);
        news.iter().for_each(|one| self.index.outdate(one.id()));
        let made = self.index.work(move |db| writer.advance(db, news, moment(now))).await?;
        self.keep_permits(made.prepared).await;
        if !made.notices.is_empty() {
            self.tell_made(&made.notices);
        }
        if made.breaker_paused {
            self.breaker_paused.notify_one();
        }
        Ok(())
    }

    /// Lets clients that wait send the answers that were prepared with these notices. Not before the commit: a permit for a notice that the
    /// disk refused would keep a later answer from holding it.
    pub(crate) async fn keep_permits(&self, prepared: Vec<String>) {
        let left: Vec<String> = prepared.into_iter().filter(|key| !self.writer.waiters.keep_permit(key)).collect();
        if left.is_empty() {
            return;
        }
        let now = self.now();
        let leave = move |db: &Connection| left.iter().try_for_each(|key| table::waiters_left(db, key, true, now).map(|_| ()));
        // If this is lost, the time for the answer runs out.
        if self.index.work(leave).await.is_ok() {
            self.tell();
        }
    }

    /// Lets the breaker report matches again if its pause is over. Returns when to check again, in microseconds since boot.
    pub(crate) async fn tick(&self, now: Time) -> Result<Option<u64>, IndexError> {
        let writer = Arc::clone(&self.writer);
        let (made, due) = self.index.work(move |db| writer.tick(db, moment(now))).await?;
        if !made.is_empty() {
            self.tell_made(&made);
        }
        Ok(due)
    }

    /// Leases notices to a taker.
    ///
    /// If there are none, also returns how long until the lease of another taker runs out.
    pub(crate) async fn claim(&self, claim: Claim) -> Result<(Claimed, Option<Duration>), IndexError> {
        let work = move |db: &Connection| {
            let claimed = table::claim(db, &claim)?;
            let lapse = if claimed.given.is_empty() { table::next_lapse(db, &claim.session, claim.now)? } else { None };
            Ok((claimed, lapse))
        };
        let (claimed, lapse) = self.index.work(work).await?;
        if !claimed.given.is_empty() {
            self.leases.send_modify(|n| *n += 1);
        }
        Ok((claimed, lapse))
    }

    /// Reads the notices on disk. Changes that wait to be written are not seen.
    pub(crate) async fn read_committed(&self, filter: NoticeFilter) -> Result<Vec<NoticeEntry>, IndexError> {
        self.index.read(move |db| table::read(db, &filter)).await
    }

    /// How many notices a terminal of this session would get, polls included that are not written yet. If these cannot be written, what is
    /// on disk counts.
    pub(crate) async fn waiting(&self, session: &str, asker: Option<Asker>, now: Time) -> Result<u64, IndexError> {
        let now = moment(now);
        if !self.index.is_caught_up() {
            let (session, asker) = (session.to_owned(), asker.clone());
            if let Ok(count) = self.index.work(move |db| table::waiting(db, &session, asker, now)).await {
                return Ok(count);
            }
        }
        self.index.read(|db| table::waiting(db, session, asker, now)).await
    }

    /// The number of the newest notice.
    pub(crate) async fn last_seq(&self) -> Result<u64, IndexError> {
        self.index.work(table::last_seq).await
    }

    /// The sessions of gateways that have notices to take, and how long until the next lease among them runs out.
    pub(crate) async fn open_sessions(&self, now: Moment) -> Result<(Vec<OpenSession>, Option<Duration>), IndexError> {
        self.index.work(move |db| table::open_sessions(db, now)).await
    }

    /// Settles notices by their ids, all in one transaction.
    pub(crate) async fn settle(
        &self,
        ids: Vec<String>,
        session: Option<String>,
        lease: Option<String>,
        verdict: Verdict,
        now: Time,
    ) -> Result<Vec<SettleResult>, IndexError> {
        let again = verdict == Verdict::Released;
        let work = move |db: &Connection| {
            let one = |id: String| table::settle(db, &id, session.as_deref(), lease.as_deref(), &verdict, moment(now));
            ids.into_iter().map(one).collect::<rusqlite::Result<Vec<_>>>()
        };
        let judged = self.index.work(work).await?;
        if again {
            self.tell();
        }
        Ok(judged)
    }

    /// The taker that leased these disconnected without a report. If this is lost, the lease runs out.
    pub(crate) async fn taker_gone(&self, ids: Vec<String>, lease: String, now: Time) {
        self.index.work_later(move |db| table::taker_gone(db, &ids, &lease, moment(now))).await;
        self.tell();
    }

    /// The taker disconnected before its claim was answered. If this is lost, the lease runs out.
    pub(crate) async fn unclaim(&self, claim: Claim, now: Time) {
        self.index.work_later(move |db| table::claim_cancelled(db, &claim, moment(now))).await;
        self.tell();
    }

    /// Writes a posted notice. Returns it, or the existing one with that key, and whether it is new.
    pub(crate) async fn post(&self, draft: NoticeDraft, by: Owner, now: Time) -> Result<(Option<NoticeEntry>, bool), IndexError> {
        let writer = Arc::clone(&self.writer);
        let (entry, new) = self
            .index
            .work(move |db| {
                super::note_owner(db, &by, NamedBy::Client)?;
                match table::insert_for(db, &draft, &writer.sinks, WrittenFor::AnyTaker, None, moment(now))? {
                    Some(entry) => Ok((Some(entry), true)),
                    None => Ok((table::by_key(db, &draft.key)?, false)),
                }
            })
            .await?;
        if new {
            self.tell_made(&entry);
        }
        Ok((entry, new))
    }

    /// Reads notices once the changes that wait are written. Changes nothing.
    pub(crate) async fn read(&self, filter: NoticeFilter) -> Result<Vec<NoticeEntry>, IndexError> {
        self.index.work(move |db| table::read(db, &filter)).await
    }

    /// Does work on the tables that writes no notice.
    pub(crate) async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, IndexError> {
        self.index.work(work).await
    }

    /// The owner of a process has seen its end.
    pub(crate) async fn consume(&self, process: ProcessId, how: &'static str, now: Time) -> Result<(), IndexError> {
        self.index.work(move |db| table::end_seen(db, &process.to_string(), how, moment(now))).await
    }

    /// The end of a process is about to be sent in an answer, so no other taker gets its notice. If the engine dies before it is sent, the
    /// notice is delivered again. For the first client that waited the notice was written with the answer prepared, so this needs no write.
    pub(crate) async fn answer_begins(&self, process: ProcessId, now: Time) -> Result<(), IndexError> {
        if self.writer.waiters.take_permit(&end_key(process)) {
            return Ok(());
        }
        self.index.work(move |db| table::answer_begins(db, &end_key(process), moment(now))).await
    }

    /// A client that waited for this notice has left without an answer. If no other client waits, the notice is delivered like any other.
    pub(crate) async fn waiters_left(&self, key: String) {
        let (writer, now) = (Arc::clone(&self.writer), self.now());
        let work =
            move |db: &Connection| Ok(!writer.waiters.any(&key) && table::waiters_left(db, &key, writer.waiters.take_permit(&key), now)?);
        // If this is lost, the reservation runs out.
        if let Ok(true) = self.index.work(work).await {
            self.tell();
        }
    }

    /// Undoes [`Outbox::answer_begins`]: the answer was not sent. If this is lost, the hold runs out.
    pub(crate) async fn answer_failed(&self, process: ProcessId) {
        let now = self.now();
        self.index.work_later(move |db| table::answer_failed(db, &end_key(process), now)).await;
        self.tell();
    }

    /// Does the same as [`Outbox::consume`] without waiting for it. If it is lost, the end is delivered once more, as a repeat.
    pub(crate) async fn end_seen_later(&self, process: ProcessId, how: &'static str, now: Time) {
        self.index.work_later(move |db| table::end_seen(db, &process.to_string(), how, moment(now))).await;
    }

    /// For each process: how many matches were reported, and whether the limiter has switched reports off.
    pub(crate) async fn watched(&self, processes: Vec<ProcessId>) -> Result<HashMap<ProcessId, (u32, bool)>, IndexError> {
        if processes.is_empty() {
            return Ok(HashMap::new());
        }
        self.index.work(move |db| processes.into_iter().map(|id| Ok((id, writer::watched(db, id)?))).collect()).await
    }

    pub(crate) async fn is_consumed(&self, process: ProcessId) -> Result<bool, IndexError> {
        self.index.work(move |db| table::is_consumed(db, &process.to_string())).await
    }

    /// A client of the same session polled a process that is over. Not waited for: later claims are written after it.
    pub(crate) async fn observe(&self, process: ProcessId) {
        let now = self.now();
        self.index.work_later(move |db| table::observe(db, &process.to_string(), now)).await;
    }

    pub(crate) async fn supersede(&self, process: ProcessId, by: ProcessId, now: Time) -> Result<(), IndexError> {
        self.index.work(move |db| table::supersede(db, &process.to_string(), &by.to_string(), moment(now))).await
    }

    /// Makes delivered notices pending again.
    pub(crate) async fn replay(&self, from: u64, session: Option<String>, now: Time) -> Result<u64, IndexError> {
        let (mut count, mut next) = (0, Some(from));
        while let Some(from) = next {
            let (writer, session) = (Arc::clone(&self.writer), session.clone());
            let work = move |db: &Connection| table::replay(db, from, session.as_deref(), &writer.sinks, moment(now));
            let (replayed, rest) = self.index.work(work).await?;
            (count, next) = (count + replayed, rest);
        }
        self.tell();
        Ok(count)
    }

    /// Retries dead letters.
    pub(crate) async fn revive(&self, id: Option<String>, sink: Option<String>, session: Option<String>) -> Result<u64, IndexError> {
        let now = self.now();
        let revived = move |db: &Connection| table::revive(db, id.as_deref(), sink.as_deref(), session.as_deref(), now);
        let count = self.index.work(revived).await?;
        self.tell();
        Ok(count)
    }

    pub(crate) async fn dead(&self, session: Option<String>, limit: usize) -> Result<Vec<(String, OwedDelivery)>, IndexError> {
        self.index.work(move |db| table::dead(db, session.as_deref(), limit)).await
    }

    /// How many dead letters each sink has that it gave up at this time or later, and why it gave up on the newest.
    pub(crate) async fn dead_of_sinks(&self, session: Option<String>, since: Time) -> Result<Vec<(String, u64, String)>, IndexError> {
        self.index.work(move |db| table::dead_of_sinks(db, session.as_deref(), since)).await
    }

    /// The deliveries of these notices that failed and are not done.
    pub(crate) async fn troubled(&self, first: u64, last: u64) -> Result<Vec<table::TroubledDelivery>, IndexError> {
        self.index.work(move |db| table::troubled(db, first, last)).await
    }

    /// Leases due deliveries to a sink. If there are none, also returns how long until the next one is due.
    pub(crate) async fn take(
        &self,
        sink: String,
        limit: usize,
        lease: String,
        lease_for: i64,
        now: Time,
    ) -> Result<(Vec<OwedDelivery>, Option<Duration>), IndexError> {
        let (take, next_due) = match self.wakes(&sink) {
            true => (table::wake::take as Take, table::wake::next_due as NextDue),
            false => (table::take as Take, table::next_due as NextDue),
        };
        self.index
            .work(move |db| {
                let now = moment(now);
                let taken = take(db, &sink, limit, &lease, lease_for, now)?;
                let due = if taken.is_empty() { next_due(db, &sink, now)? } else { None };
                Ok((taken, due))
            })
            .await
    }

    /// Whether a sink wakes agents.
    fn wakes(&self, sink: &str) -> bool {
        self.writer.sinks.iter().any(|s| s.wakes && s.name == sink)
    }

    /// A sink that wakes agents is about to deliver these, each with its lease token. Returns those that it may deliver.
    pub(crate) async fn wake(&self, sink: String, lent: Vec<(u64, String)>, now: Time) -> Result<Vec<OwedDelivery>, IndexError> {
        let (go, put_back) = self.index.work(move |db| table::wake::begin(db, &sink, &lent, moment(now))).await?;
        if !go.is_empty() {
            self.leases.send_modify(|n| *n += 1);
        }
        if put_back {
            self.tell();
        }
        Ok(go)
    }

    /// Records how a delivery went. Returns whether the sink still had it, and the process whose end was delivered with it.
    pub(crate) async fn pushed(
        &self,
        sink: String,
        seq: u64,
        lease: String,
        how: PushResult,
        now: Time,
    ) -> Result<(bool, Option<ProcessId>), IndexError> {
        let wakes = self.wakes(&sink);
        if wakes {
            self.failed_wakes.note(&sink, &how);
        }
        // A notice that a waking sink does not deliver is free for other takers again.
        let again = matches!(how, PushResult::Again { .. } | PushResult::Later { .. }) || (wakes && how != PushResult::Delivered);
        let work = move |db: &Connection| match wakes {
            true => table::wake::pushed(db, &sink, seq, &lease, &how, moment(now)),
            false => Ok((table::pushed(db, &sink, seq, &lease, &how, moment(now))?, None)),
        };
        let kept = self.index.work(work).await?;
        if again {
            self.tell();
        }
        Ok(kept)
    }

    /// Records that a barrier is open, with its notice. Returns whether the barrier still existed.
    pub(crate) async fn open_barrier(&self, barrier: Barrier, now: Time) -> Result<bool, IndexError> {
        let writer = Arc::clone(&self.writer);
        let work = move |db: &Connection| {
            if !barrier::mark_open(db, &barrier, now)? {
                return Ok(false);
            }
            let route = writer::route_of(db, barrier.owner.session.as_deref().unwrap_or_default())?;
            let (draft, now) = (barrier::notice(&barrier, route, now), moment(now));
            let written_for = match writer.waiters.any(&draft.key) {
                true => WrittenFor::Waiter { until: now.up + RESERVATION_TIMEOUT },
                false => WrittenFor::AnyTaker,
            };
            table::insert_for(db, &draft, &writer.sinks, written_for, None, now)?;
            Ok(true)
        };
        let opened = self.index.work(work).await?;
        self.tell();
        Ok(opened)
    }

    pub(crate) async fn barrier(&self, id: String) -> Result<Option<Barrier>, IndexError> {
        self.index.work(move |db| Ok(barrier::all(db, None)?.into_iter().find(|b| b.id == id))).await
    }

    /// Like [`Outbox::answer_begins`], for the notice with this key.
    pub(crate) async fn answer_begins_for(&self, key: String, now: Time) -> Result<(), IndexError> {
        self.index.work(move |db| table::answer_begins(db, &key, moment(now))).await
    }

    /// Undoes [`Outbox::answer_begins_for`]: the answer was not sent.
    pub(crate) async fn answer_failed_for(&self, key: String) {
        let now = self.now();
        self.index.work_later(move |db| table::answer_failed(db, &key, now)).await;
        self.tell();
    }

    /// A client that waited was answered with the content of this notice.
    pub(crate) async fn answered_later(&self, key: String, now: Time) {
        self.index.work_later(move |db| table::answered(db, &key, moment(now))).await;
    }

    /// The sinks whose last attempts failed, each with the number of notices that wait and the reason.
    pub(crate) async fn failing(&self) -> Result<Vec<(String, u64, String)>, IndexError> {
        if self.writer.sinks.is_empty() {
            return Ok(Vec::new());
        }
        let (writer, now) = (Arc::clone(&self.writer), self.now());
        self.index.work(move |db| table::failing(db, &writer.sinks, now)).await
    }

    /// The hooks that could not wake an agent when they were last called.
    pub(crate) fn failed_wakes(&self) -> &FailedWakes {
        &self.failed_wakes
    }

    /// How many deliveries are open.
    pub(crate) async fn owed(&self) -> Result<u64, IndexError> {
        let (writer, now) = (Arc::clone(&self.writer), self.now());
        self.index.work(move |db| table::owed(db, &writer.sinks, now)).await
    }

    /// Removes notices that were settled longer than `keep` ago, and drops notices that were open for [`OPEN_KEEP_FACTOR`] times as long.
    pub(crate) async fn prune(&self, keep: Duration, now: Time) -> Result<(), IndexError> {
        let ago = |times: u32| {
            Time::from_micros(now.micros().saturating_sub(i64::try_from(keep.saturating_mul(times).as_micros()).unwrap_or(i64::MAX)))
        };
        let (before, unread) = (ago(1), ago(OPEN_KEEP_FACTOR));
        let mut expired = 0;
        loop {
            let some = self.index.work(move |db| table::expire(db, unread, moment(now))).await?;
            expired += some;
            if some < table::MAX_REMOVED_AT_ONCE as u64 {
                break;
            }
        }
        if expired > 0 {
            tracing::warn!(expired, "notices that no client took were dropped");
        }
        loop {
            let writer = Arc::clone(&self.writer);
            if !self.index.work(move |db| table::prune(db, before, &writer.sinks)).await? {
                break;
            }
        }
        self.index.work(move |db| table::sweep(db, before)).await
    }

    /// Begins with the tables of an earlier engine: what that engine was sending becomes pending again. `rebuilt`: the tables are new, in
    /// an old home.
    pub(crate) async fn begin(&self, rebuilt: bool, now: Time) -> Result<(), IndexError> {
        let boot = self.writer.boot();
        self.index.work(move |db| table::engine_started(db, &boot, rebuilt, moment(now))).await
    }
}

/// Ends each pause of the breaker when it is over.
pub(crate) async fn keep_time(outbox: Outbox, clock: Clock, closing: Shutdown) {
    let mut stopping = std::pin::pin!(closing.reached(Closing::Stopping));
    loop {
        let up = outlast_store::os::boottime_ns() / 1_000;
        let due = match outbox.tick(clock.now()).await {
            Ok(due) => due,
            Err(error) => {
                tracing::warn!(%error, "cannot update the breaker yet");
                Some(up + AGAIN.as_micros() as u64)
            }
        };
        let wait = due.map(|due| Duration::from_micros(due.saturating_sub(up)));
        tokio::select! {
            () = &mut stopping => return,
            () = outbox.breaker_paused.notified() => {}
            () = tokio::time::sleep(wait.unwrap_or_default()), if wait.is_some() => {}
        }
    }
}
