//! Clients that follow a conversation, and clients that wait for a turn.

use super::Coordinator;
use super::batch::{Batch, Deed};
use super::input::{AnswerTo, ChatAnswer, FollowAsked, Followed, WaitingEvent};
use super::live::Live;
use super::read::state_of;
use super::refusal::{not_found, refusal, store_failed};
use crate::rules::conversation::TurnId;
use crate::rules::turn::Turn;
use crate::store::{StoreError, TurnRecord};
use outlast_wire::v1::Error;
use outlast_wire::v1::chat::{Accepted, ChatEvent, TurnInfo};
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::Instant;

/// How many events may wait for a follower. A slower one is cut off, and asks again for the parts after its last one.
const MAX_WAITING_EVENTS: usize = 256;

/// How many bytes of events may wait for a follower, in KiB; see [`MAX_WAITING_EVENTS`]. The longest event fits.
const MAX_WAITING_KIB: u32 = 16 << 10;

pub(super) struct Follower {
    id: u64,
    key: String,
    is_attended: bool,
    to: mpsc::Sender<WaitingEvent>,
    room: Arc<Semaphore>,
}

impl Follower {
    /// Gives it an event; false if it is too slow.
    fn tell(&self, event: ChatEvent) -> bool {
        let kib = u32::try_from(bytes_of(&event) >> 10).unwrap_or(u32::MAX).min(MAX_WAITING_KIB);
        let Ok(room) = self.room.clone().try_acquire_many_owned(kib) else { return false };
        self.to.try_send(WaitingEvent { event, room }).is_ok()
    }
}

/// How many bytes of text an event has. What else it has is small.
fn bytes_of(event: &ChatEvent) -> usize {
    match event {
        ChatEvent::Part { part } => text_bytes(&part.body),
        ChatEvent::Draft { text, .. } => text.len(),
        ChatEvent::Turn { turn } => [&turn.words, &turn.reply, &turn.why].into_iter().flatten().map(String::len).sum(),
        _ => 0,
    }
}

fn text_bytes(body: &serde_json::Value) -> usize {
    match body {
        serde_json::Value::String(text) => text.len(),
        serde_json::Value::Array(all) => all.iter().map(text_bytes).sum(),
        serde_json::Value::Object(all) => all.values().map(text_bytes).sum(),
        _ => 0,
    }
}

pub(super) struct TurnWaiter {
    turn: TurnId,
    pub(super) deadline: Option<Instant>,
    to: AnswerTo,
}

impl Coordinator {
    pub(super) fn follow(&mut self, asked: FollowAsked, to: oneshot::Sender<Result<Followed, Error>>) {
        let followed = self.begin_follow(asked);
        if let Err(Ok(followed)) = to.send(followed) {
            self.unfollow(followed.follower);
        }
    }

    fn begin_follow(&mut self, asked: FollowAsked) -> Result<Followed, Error> {
        let FollowAsked { key, after, context, is_attended } = asked;
        let live = self.chats.get(&key).ok_or_else(|| not_found(&key))?;
        let last_part = self.store.last_part(&key).map_err(|e| store_failed(&e))?;
        let from = match context {
            0 => after.unwrap_or(0),
            count => self.store.part_before(&key, after.unwrap_or(0), count).map_err(|e| store_failed(&e))?,
        };
        let open = live.conversation.rows.iter().filter_map(|row| live.turn_record(&key, row));
        let open = open.map(|turn| self.reading().turn_info(&turn)).collect::<Result<_, _>>().map_err(|e| store_failed(&e))?;
        let (to, events) = mpsc::channel(MAX_WAITING_EVENTS);
        let id = self.next_follower;
        let room = Arc::new(Semaphore::new(MAX_WAITING_KIB as usize));
        let follower = Follower { id, key: key.clone(), is_attended, to, room };
        if let Some((head, draft)) = live.actor.as_ref().and_then(|actor| actor.open.as_ref()).map(|open| (open, &open.draft))
            && !draft.is_empty()
        {
            let text = draft.clone();
            // The channel is new and empty.
            let _sent = follower.tell(ChatEvent::Draft { turn: head.head.0.unsigned_abs(), attempt: head.attempt, from: 0, text });
        }
        self.next_follower += 1;
        self.followers.push(follower);
        self.attend(&key);
        self.idle_since = None;
        Ok(Followed { follower: id, after: from, last_part, open, events })
    }

    pub(super) fn unfollow(&mut self, follower: u64) {
        let Some(at) = self.followers.iter().position(|f| f.id == follower) else { return };
        let key = self.followers.swap_remove(at).key;
        self.attend(&key);
    }

    /// Tells the agent whether a person is present.
    fn attend(&mut self, key: &str) {
        let attendants = self.followers.iter().filter(|f| f.key == key && f.is_attended).count();
        let Some(live) = self.chats.get_mut(key) else { return };
        let (was, is) = (live.attendants > 0, attendants > 0);
        live.attendants = attendants;
        if let (true, Some(actor)) = (was != is, &live.actor) {
            // One that has ended asks nothing any more.
            let _ended = actor.handle.attend(is);
        }
    }

    pub(super) fn followers(&self) -> usize {
        self.followers.len()
    }

    /// Sends an event to the followers of a conversation. One that is too slow is cut off.
    pub(super) fn show(&mut self, key: &str, event: &ChatEvent) {
        let slow: Vec<u64> = self.followers.iter().filter(|f| f.key == key && !f.tell(event.clone())).map(|f| f.id).collect();
        for follower in slow {
            self.unfollow(follower);
        }
    }

    pub(super) fn show_standing(&mut self, key: &str, before: Option<&Live>) {
        let Some(live) = self.chats.get(key) else { return };
        let state = |live: &Live| (live.standing(), live.conversation.strikes, live.conversation.generation.number);
        if before.map(state).as_ref() == Some(&state(live)) {
            return;
        }
        let (standing, strikes, generation) = state(live);
        self.show(key, &ChatEvent::Standing { standing, strikes, generation: u64::from(generation) });
    }

    /// Sends a turn that changed to the followers, and answers the clients that wait for it.
    pub(super) fn turn_changed(&mut self, turn: &TurnRecord) {
        let info = match self.reading().turn_info(turn) {
            Ok(info) => info,
            Err(error) => {
                tracing::error!(%error, turn = turn.id.0, "cannot show a turn");
                return;
            }
        };
        self.show(&turn.key, &ChatEvent::Turn { turn: Box::new(info.clone()) });
        if !info.is_finished() {
            return;
        }
        crate::points::reach("gateway.turn.shown");
        let (done, rest) = std::mem::take(&mut self.waiters).into_iter().partition(|waiter| waiter.turn == turn.id);
        self.waiters = rest;
        for TurnWaiter { to, .. } in done {
            let _left = to.send(Ok(ChatAnswer::Turn(Box::new(info.clone()))));
        }
    }

    /// Has a client wait for a turn.
    pub(super) fn wait_for(&mut self, key: &str, turn: u64, timeout_ms: Option<u64>, to: AnswerTo) {
        let id = TurnId(i64::try_from(turn).unwrap_or(i64::MAX));
        let is_open = self.chats.get(key).is_some_and(|live| live.conversation.row(id).is_some_and(|row| row.turn.is_open()));
        if is_open {
            let deadline = timeout_ms.and_then(|ms| Instant::now().checked_add(std::time::Duration::from_millis(ms)));
            return self.waiters.push(TurnWaiter { turn: id, deadline, to });
        }
        let found = match self.stored_turn(id) {
            Ok(Some((of, info))) if of == key => Ok(ChatAnswer::Turn(Box::new(info))),
            Ok(_) => {
                let what = format!("there is no turn {turn} in {key}");
                Err(refusal(outlast_wire::code::NO_CONVERSATION, what, "`outlast chat show` lists the turns"))
            }
            Err(error) => Err(store_failed(&error)),
        };
        let _left = to.send(found);
    }

    /// Answers clients whose time limit has passed with the turn as it is.
    pub(super) fn answer_late_waiters(&mut self, batch: &mut Batch) {
        let now = Instant::now();
        self.waiters.retain(|waiter| !waiter.to.is_closed());
        let (late, rest) = std::mem::take(&mut self.waiters).into_iter().partition(|w| w.deadline.is_some_and(|at| at <= now));
        self.waiters = rest;
        for TurnWaiter { turn, to, .. } in late {
            let answer = match self.stored_turn(turn) {
                Ok(Some((_, info))) => Ok(ChatAnswer::Turn(Box::new(info))),
                Ok(None) => Err(refusal(outlast_wire::code::NO_CONVERSATION, "the turn is gone", "")),
                Err(error) => Err(store_failed(&error)),
            };
            batch.deed(Deed::Answer { to, answer: Box::new(answer) });
        }
    }

    fn stored_turn(&self, id: TurnId) -> Result<Option<(String, TurnInfo)>, StoreError> {
        let Some(turn) = self.store.turn(id)? else { return Ok(None) };
        let info = self.reading().turn_info(&turn)?;
        Ok(Some((turn.key, info)))
    }

    /// How a message was accepted, as its turn is now.
    pub(super) fn accepted(&self, key: &str, id: TurnId, note: Option<String>) -> Result<ChatAnswer, Error> {
        let found = self.store.turn(id).map_err(|e| store_failed(&e))?;
        let Some(turn) = found else { return Err(refusal(outlast_wire::code::NO_CONVERSATION, "the turn is gone", "")) };
        let mut accepted = Accepted::new(id.0.unsigned_abs(), state_of(&turn.turn));
        let rows = self.chats.get(key).map(|live| live.conversation.rows.as_slice()).unwrap_or_default();
        if turn.turn == Turn::Queued {
            let ahead = rows.iter().filter(|row| row.turn.is_open() && row.head == row.id && row.id < id).count();
            accepted.ahead = u32::try_from(ahead).unwrap_or(u32::MAX);
        }
        accepted.note = note;
        Ok(ChatAnswer::Accepted(accepted))
    }
}
