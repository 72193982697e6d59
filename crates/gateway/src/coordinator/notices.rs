//! Notices: taken when no turn runs and none may start, written down, then acknowledged.
//!
//! The engine keeps the queue of notices. It reports over one connection which sessions have some; that connection is open while the gateway lives, and by its end
//! the engine knows that a gateway may have to be started.
//!
//! Decision 199: docs/decisions/gateway.md.

use super::batch::Batch;
use super::input::{Input, TakenNotices};
use super::{Coordinator, later};
use crate::rules::change::{Event, LeasedNotice};
use crate::rules::conversation::{Cause, TurnId};
use crate::rules::queue::MAX_NOTICES_PER_TURN;
use crate::rules::shown::shown;
use crate::rules::text::Line;
use crate::rules::turn::ObsoleteReason;
use crate::store::TurnBody;
use outlast_client::{Client, History, Notices, Owner, Take, Told, Verdict};
use outlast_core::Notice;
use outlast_wire::v1::chat::{Content, LineBody};
use std::sync::Arc;
use std::time::Duration;

/// The session of notices for the gateway itself: times that it waits for.
pub(crate) const OWN_SESSION: &str = "outlast:gateway";
/// How long the engine gives a notice to no other taker. A commit takes milliseconds; if the gateway is killed, the next one waits for this long.
const NOTICE_LEASE: Duration = Duration::from_secs(10);
/// How many sessions are remembered as not the gateway's. For one more, the engine may start a gateway that has nothing to do.
const MAX_NOT_OURS: usize = 10_000;
/// How many notices for the gateway itself are taken at once.
const MAX_OWN_NOTICES: u32 = 100;

/// What people read after a notice that starts no turn.
const OF_EARLIER_GENERATION: &str = "(of an earlier generation; the agent is not told)";
/// How many notices of earlier generations are shown one by one. The others are counted.
const MAX_LATE_SHOWN: u64 = 20;

/// The notices that a take has just dropped. Without an answer they are only counted.
async fn late(engine: &Client, generation: &str, count: u64) -> Vec<Notice> {
    let limit = u32::try_from(count.min(MAX_LATE_SHOWN)).unwrap_or(u32::MAX);
    if limit == 0 {
        return Vec::new();
    }
    let dropped = engine.history(History::default().in_state("dropped").newest_first().limit(limit)).await.unwrap_or_default();
    dropped.into_iter().rev().map(|told| told.event).filter(|notice| notice.generation != generation).collect()
}

impl Coordinator {
    pub(crate) fn notices_open(&mut self, sessions: Vec<String>, connection: u64) {
        self.connection = connection;
        for session in sessions {
            if session == OWN_SESSION {
                self.take_own();
            } else if let Some(live) = self.chats.get_mut(&session) {
                live.told_of_notices();
                tracing::debug!(session, "the engine has told of notices");
                self.due.insert(session);
            } else if self.not_ours.len() < MAX_NOT_OURS && !self.not_ours.contains(&session) {
                tracing::info!(session, "notices of a session that has no conversation here are left to others");
                self.not_ours.insert(session);
            }
        }
    }

    pub(crate) fn engine_lost(&mut self) {
        // Until it is connected again, no lease counts as held.
        self.connection = 0;
    }

    /// A notice for the gateway itself means that a time has come. It only had to start the gateway, which runs.
    fn take_own(&mut self) {
        let engine = self.engine.with_owner(Owner::session(OWN_SESSION));
        let inputs = self.to_self.clone();
        tokio::spawn(async move {
            let taken = engine.take(&Take::default().limit(MAX_OWN_NOTICES).lease(NOTICE_LEASE)).await;
            for told in taken.map(|taken| taken.notices).unwrap_or_default() {
                // If that is lost, it is offered again.
                let _lost = engine.settle(&[&told.event.event_id], told.lease.as_deref(), Verdict::Delivered).await;
            }
            // A gateway that has ended has nothing to look at.
            let _ended = inputs.send(Input::Look).await;
        });
        self.due.extend(self.chats.keys().cloned().collect::<Vec<_>>());
    }

    /// Asks the engine for the notices of a conversation.
    pub(crate) fn take_notices(&mut self, key: &str) {
        let Some(live) = self.chats.get(key) else { return };
        let generation = live.conversation.generation.name();
        let owner = Owner { session: Some(key.to_owned()), task: None, generation: Some(generation.clone()) };
        let (engine, inputs, connection, key) = (self.engine.with_owner(owner), self.to_self.clone(), self.connection, key.to_owned());
        let taking = (generation.clone(), key.clone());
        let task = tokio::spawn(async move {
            let limit = u32::try_from(MAX_NOTICES_PER_TURN).unwrap_or(u32::MAX);
            let taken = engine.take(&Take::default().limit(limit).lease(NOTICE_LEASE)).await;
            let taken = match taken {
                Ok(Notices { notices, too_late, .. }) => {
                    Ok(TakenNotices { notices, too_late, late: late(&engine, &generation, too_late).await })
                }
                Err(error) => Err(error.to_string()),
            };
            if taken.as_ref().is_ok_and(|taken| taken.notices.is_empty()) {
                tokio::task::block_in_place(|| crate::points::reach("gateway.notices.none"));
            }
            let _ended = inputs.send(Input::Taken { key, generation, connection, taken }).await;
        });
        self.taking.insert(taking.1, (taking.0, task.abort_handle()));
    }

    /// Takes nothing more for a generation that has just ended. The engine takes the gateway's word for the newest generation, so a request of before must not be
    /// repeated after one for the next generation.
    pub(crate) fn end_outdated_taking(&mut self, key: &str) {
        let Some(live) = self.chats.get_mut(key) else { return };
        let Some((_, task)) = self.taking.get(key).filter(|(generation, _)| *generation != live.conversation.generation.name()) else {
            return;
        };
        task.abort();
        self.taking.remove(key);
        // What was leased in this moment is offered again.
        live.taking_over(false);
        self.due.insert(key.to_owned());
        self.pending.push_back(Input::Look);
    }

    /// Writes leased notices down. What starts with them is part of the same commit.
    pub(crate) fn taken(&mut self, key: String, generation: &str, connection: u64, taken: Result<TakenNotices, String>, batch: &mut Batch) {
        if self.taking.get(&key).is_some_and(|(of, _)| of == generation) {
            self.taking.remove(&key);
        }
        if let Some(live) = self.chats.get_mut(&key) {
            live.taking_over(taken.as_ref().is_ok_and(|taken| taken.notices.is_empty()));
        }
        let taken = match taken {
            Ok(taken) => taken,
            Err(error) => {
                tracing::warn!(error, key, "notices could not be taken");
                // Asked again with the next connection to the engine, or in a moment.
                if let Some(live) = self.chats.get_mut(&key) {
                    live.wake_at = Some(later(batch.now, Duration::from_secs(1)));
                }
                return;
            }
        };
        // If the commit fails, the engine still has them on record.
        let named = taken.late.iter().filter(|notice| self.tell_late(&key, notice, batch)).count();
        let unnamed = usize::try_from(taken.too_late).unwrap_or(usize::MAX).saturating_sub(named);
        if unnamed > 0 {
            self.tell(&key, Line::NoticesObsolete(ObsoleteReason::EarlierGeneration, unnamed), batch);
        }
        let notices = taken.notices;
        if notices.is_empty() {
            self.due.insert(key);
            return;
        }
        crate::points::reach("gateway.notice.leased");
        let again = Ok(TakenNotices { notices: notices.clone(), too_late: 0, late: Vec::new() });
        batch.again(Input::Taken { key: key.clone(), generation: generation.to_owned(), connection, taken: again });
        for told in &notices {
            self.write_notice(&key, told, connection, batch);
        }
    }

    fn write_notice(&mut self, key: &str, told: &Told, connection: u64, batch: &mut Batch) {
        let event_id = told.event.event_id.clone();
        let known_as = match self.store.turn_of_cause(&Cause::Notice(event_id.clone())) {
            Ok(known) => known.map(|turn| turn.id),
            Err(error) => {
                // Its lease ends, and it is offered again.
                tracing::error!(%error, event_id, "a notice cannot be looked up");
                return;
            }
        };
        let turn = TurnId(self.next_turn);
        let (now, mode) = (batch.now, self.settings.notices);
        self.leases.insert(event_id.clone(), told.lease.clone());
        let Some(live) = self.touch(key, batch) else { return };
        let body = Arc::new(TurnBody::Notice { text: told.text.clone(), is_repeat: told.event.repeat });
        live.add_detail(turn, body, now);
        let generation = Some(told.event.generation.clone()).filter(|name| !name.is_empty());
        let leased = LeasedNotice { turn, event_id, known_as, generation, leases: told.attempts };
        let is_earlier = |line: &Line| matches!(line, Line::NoticesObsolete(ObsoleteReason::EarlierGeneration, _));
        let is_written = |line: &Line| !matches!(line, Line::NoticesObsolete(ObsoleteReason::EarlierGeneration, _));
        let lines = self.apply_saying(key, Event::Notice(leased), is_written, batch);
        if let Some(line) = lines.iter().find(|line| is_earlier(line))
            && !self.tell_late(key, &told.event, batch)
        {
            self.tell(key, *line, batch);
        }
        let Some(live) = self.touch(key, batch) else { return };
        let Some(row) = live.conversation.row(turn) else {
            live.details.remove(&turn);
            return;
        };
        let is_open = row.turn.is_open();
        live.set_certain(turn, told.lease_until, connection);
        self.next_turn += 1;
        if let (true, Some(text)) = (is_open, shown(&told.event, mode)) {
            self.part(key, Some(turn), 0, &Content::Line(LineBody::new(text, "notice")), batch);
        }
    }

    /// Shows a notice of an earlier generation, which starts no turn. False if nothing is shown of it.
    fn tell_late(&mut self, key: &str, notice: &Notice, batch: &mut Batch) -> bool {
        let Some(text) = shown(notice, self.settings.notices) else { return false };
        let (first, rest) = text.split_once('\n').map_or((text.as_str(), None), |(first, rest)| (first, Some(rest)));
        let mut text = format!("{first} {OF_EARLIER_GENERATION}");
        rest.into_iter().for_each(|rest| text.extend(["\n", rest]));
        self.part(key, None, 0, &Content::Line(LineBody::new(text, "notice")), batch);
        true
    }

    /// Tells the engine that a notice is written down.
    pub(crate) fn acknowledge(&mut self, key: &str, event_id: String) {
        crate::points::reach("gateway.notice.accepted");
        let lease = self.leases.remove(&event_id).flatten();
        let engine = self.engine.with_owner(Owner::session(key));
        let (inputs, key) = (self.to_self.clone(), key.to_owned());
        tokio::spawn(async move {
            match engine.settle(&[&event_id], lease.as_deref(), Verdict::Delivered).await {
                Ok(judged) => {
                    let ok = judged.notices.into_iter().filter(|one| one.status == "ok").map(|one| one.event_id).collect();
                    let _ended = inputs.send(Input::Acknowledged { key, event_ids: ok }).await;
                }
                // It is offered again, and recognised.
                Err(error) => tracing::warn!(%error, event_id, "a notice was not acknowledged"),
            }
        });
    }

    pub(crate) fn acknowledged(&mut self, key: &str, event_ids: &[String]) {
        crate::points::reach("gateway.notice.acknowledged");
        let Some(live) = self.chats.get_mut(key) else { return };
        live.acknowledged(event_ids);
    }
}
