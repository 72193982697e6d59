//! The one task that owns all conversations. It decides with the rules, commits, and only then acts.
//!
//! Inputs that wait are taken in together and share one commit. If the commit fails, the conversations are put back as they were, requests are refused, and
//! what agents and the engine reported is taken in again a second later.
//!
//! Decisions 197 and 198: docs/decisions/gateway.md.

mod agent;
mod ask;
mod batch;
mod choice;
mod drain;
mod ended;
mod follow;
mod guard;
mod input;
mod leave;
mod live;
mod marks;
mod notices;
mod read;
mod refusal;
mod reset;
mod start;

pub(crate) use agent::driver_attempt;
pub(crate) use choice::known_agents;
pub(crate) use input::{ChatAnswer, FollowAsked, Followed, Gateway, Input, WaitingEvent};
pub(crate) use live::Live;
pub(crate) use marks::FoundAttempts;
pub(crate) use read::Reading;
pub(crate) use refusal::{ending, not_found, refusal};

use crate::exit::Exit;
use crate::rules::breaker::Breaker;
use crate::rules::change::Effect;
use crate::settings::GatewaySettings;
use crate::store::{Loaded, Store};
use batch::{Batch, Deed};
use drain::Drain;
use follow::{Follower, TurnWaiter};
use outlast_agents::{AgentNews, AgentPlace};
use outlast_client::Client;
use outlast_core::Time;
use reset::Held;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// How many inputs may wait for the coordinator. Senders of more wait.
const MAX_WAITING_INPUTS: usize = 1024;
/// How many inputs share one commit.
const MAX_INPUTS_PER_COMMIT: usize = 64;
/// How long after a failed commit what agents and the engine reported is taken in again: a full disk is not freed sooner.
const COMMIT_RETRY_PAUSE: Duration = Duration::from_secs(1);
/// The longest sleep of the coordinator. The wall clock may be stepped meanwhile, and there is no descriptor for that.
const MAX_SLEEP: Duration = Duration::from_secs(30);

/// What the coordinator is made of.
pub(crate) struct Parts {
    pub(crate) settings: Arc<GatewaySettings>,
    pub(crate) store: Box<dyn Store>,
    pub(crate) loaded: Loaded,
    pub(crate) engine: Client,
    pub(crate) place: AgentPlace,
    pub(crate) breaker: Breaker,
    pub(crate) run: i64,
    pub(crate) started_at: Time,
}

pub(crate) struct Coordinator {
    pub(crate) settings: Arc<GatewaySettings>,
    pub(crate) store: Box<dyn Store>,
    pub(crate) engine: Client,
    place: AgentPlace,
    inputs: mpsc::Receiver<Input>,
    pub(crate) to_self: mpsc::Sender<Input>,
    /// What is taken in before what waits in the channel.
    pending: VecDeque<Input>,
    pub(crate) chats: BTreeMap<String, Live>,
    /// Conversations in which something may start.
    pub(crate) due: BTreeSet<String>,
    followers: Vec<Follower>,
    waiters: Vec<TurnWaiter>,
    /// Requests that wait for the engine's list of what runs in the session of their conversation.
    held: BTreeMap<String, Vec<Held>>,
    pub(crate) next_turn: i64,
    next_part: u64,
    next_actor: u64,
    next_follower: u64,
    breaker: Breaker,
    pub(crate) run: i64,
    pub(crate) started_at: Time,
    /// Counts connections to the engine.
    pub(crate) connection: u64,
    pub(crate) drain: Option<Drain>,
    /// Until when a person holds new turns back.
    pub(crate) hold_until: Option<Instant>,
    pub(crate) idle_since: Option<Instant>,
    /// Nothing is taken in before.
    pause_until: Option<Instant>,
    notes: Vec<String>,
    /// Conversations whose row cannot be read.
    unreadable: BTreeSet<String>,
    /// Sessions with open notices that had no conversation here when the engine reported them.
    pub(crate) not_ours: BTreeSet<String>,
    /// The lease tokens of notices, until they are acknowledged.
    pub(crate) leases: BTreeMap<String, Option<String>>,
}

impl Coordinator {
    pub(crate) fn new(parts: Parts) -> (Self, Gateway) {
        let (to_self, inputs) = mpsc::channel(MAX_WAITING_INPUTS);
        let gateway = Gateway { inputs: to_self.clone() };
        let Parts { settings, store, loaded, engine, place, breaker, run, started_at } = parts;
        let chats = loaded.conversations.into_iter().map(|(row, turns)| (row.key.clone(), Live::of_rows(row, turns))).collect();
        let coordinator = Self {
            settings,
            store,
            engine,
            place,
            inputs,
            to_self,
            pending: VecDeque::new(),
            chats,
            due: BTreeSet::new(),
            followers: Vec::new(),
            waiters: Vec::new(),
            held: BTreeMap::new(),
            next_turn: loaded.last_turn + 1,
            next_part: loaded.last_part + 1,
            next_actor: 1,
            next_follower: 1,
            breaker,
            run,
            started_at,
            connection: 0,
            drain: None,
            hold_until: None,
            idle_since: None,
            pause_until: None,
            notes: loaded.skipped,
            unreadable: loaded.unreadable,
            not_ours: BTreeSet::new(),
            leases: BTreeMap::new(),
        };
        (coordinator, gateway)
    }

    /// Serves until it is asked to end, or has had nothing to do for long enough.
    pub(crate) async fn serve(&mut self) -> Exit {
        self.due.extend(self.chats.keys().cloned());
        self.pending.push_back(Input::Look);
        let mut is_store_ready = false;
        loop {
            if let Some(exit) = self.exit_due() {
                return exit;
            }
            if let Some(until) = self.pause_until.take() {
                tokio::time::sleep_until(until).await;
            }
            let first = match self.pending.pop_front() {
                Some(input) => Some(input),
                None => {
                    if !is_store_ready && self.inputs.is_empty() {
                        is_store_ready = true;
                        tokio::task::block_in_place(|| self.store.get_ready());
                    }
                    let wake = self.next_wake();
                    tokio::select! {
                        input = self.inputs.recv() => input,
                        () = tokio::time::sleep_until(wake) => None,
                    }
                }
            };
            tokio::task::block_in_place(|| self.step(first));
        }
    }

    /// Takes in what there is, commits it, and acts.
    fn step(&mut self, first: Option<Input>) {
        let mut batch = Batch::new(now());
        let mut next = first;
        for _ in 0..MAX_INPUTS_PER_COMMIT {
            match next.take().or_else(|| self.pending.pop_front()).or_else(|| self.inputs.try_recv().ok()) {
                Some(input) => self.take_in(input, &mut batch),
                None => break,
            }
        }
        self.answer_late_waiters(&mut batch);
        self.drain_on(&mut batch);
        self.wake_chats(batch.now);
        batch.due = std::mem::take(&mut self.due);
        let due: BTreeSet<String> = batch.due.iter().chain(batch.touched()).cloned().collect();
        for key in due {
            self.advance(&key, &mut batch);
        }
        self.finish(batch);
        self.note_idleness();
    }

    pub(crate) fn has_followers(&self) -> bool {
        self.followers() > 0
    }

    /// The next input, for the end of the gateway.
    pub(crate) async fn next_input(&mut self) -> Option<Input> {
        match self.pending.pop_front() {
            Some(input) => Some(input),
            None => self.inputs.recv().await,
        }
    }

    /// Notes agents that are gone, at the end of the gateway. Clients are asked to try the next gateway.
    pub(crate) fn note_gone(&mut self, input: Input) {
        let (key, actor) = match input {
            Input::Agent { key, actor, event } if matches!(event.what, AgentNews::Gone { .. }) => (key, actor),
            Input::ActorOver { key, actor } => (key, actor),
            Input::Ask { to, .. } => {
                let _left = to.send(Err(ending()));
                return;
            }
            Input::Follow { to, .. } => {
                let _left = to.send(Err(ending()));
                return;
            }
            _ => return,
        };
        if let Some(live) = self.chats.get_mut(&key)
            && live.actor.as_ref().is_some_and(|own| own.number == actor)
        {
            live.actor = None;
        }
    }

    fn take_in(&mut self, input: Input, batch: &mut Batch) {
        match input {
            Input::Ask { request, by, to } => match self.check_asker(&request, &by) {
                Ok(()) => self.ask(request, by.user, to, batch),
                Err(error) => batch.answer(to, Err(error)),
            },
            Input::Follow { asked, by, to } => match self.check_follower(&asked, &by) {
                Ok(()) => batch.deed(Deed::Follow { asked, to }),
                Err(error) => {
                    // A client that has left needs no answer.
                    let _left = to.send(Err(error));
                }
            },
            Input::Left { follower } => self.unfollow(follower),
            Input::Parts { key, after, upto, to } => {
                crate::points::reach("gateway.page");
                // A follower that has left needs no answer.
                let _left = to.send(self.reading().page(&key, after, upto));
            }
            Input::Agent { key, actor, event } => self.agent_event(key, actor, *event, batch),
            Input::ActorOver { key, actor } => self.actor_over(&key, actor, batch),
            Input::CannotStart { key, head, attempt, why } => self.cannot_start(&key, head, attempt, why, batch),
            Input::NoticesOpen { sessions, connection } => self.notices_open(sessions, connection),
            Input::EngineLost => self.engine_lost(),
            Input::Taken { key, generation, connection, taken } => self.taken(key, &generation, connection, taken, batch),
            Input::Acknowledged { key, event_ids } => self.acknowledged(&key, &event_ids),
            Input::LookedUp { key, processes } => self.looked_up(&key, processes, batch),
            Input::Signal(signal) => self.on_signal(signal, batch),
            Input::Look => {}
        }
    }

    /// The next time at which something is due without an input.
    fn next_wake(&self) -> Instant {
        let longest = Instant::now() + MAX_SLEEP;
        let now = now();
        let chats = self.chats.values().filter_map(|live| live.wake_at).map(|at| Instant::now() + until(at, now));
        let waiters = self.waiters.iter().filter_map(|waiter| waiter.deadline);
        let own = [self.drain.as_ref().map(Drain::deadline), self.hold_until, self.idle_deadline()].into_iter().flatten();
        chats.chain(waiters).chain(own).fold(longest, Instant::min)
    }

    /// Conversations whose time has come may start something.
    fn wake_chats(&mut self, now: Time) {
        if self.hold_until.is_some_and(|until| until <= Instant::now()) {
            self.hold_until = None;
            self.due.extend(self.chats.keys().cloned());
        }
        for (key, live) in &mut self.chats {
            if live.wake_at.is_some_and(|at| at <= now) {
                live.wake_at = None;
                self.due.insert(key.clone());
            }
        }
    }

    /// Carries out what was committed.
    fn act(&mut self, deed: Deed) {
        match deed {
            Deed::Answer { to, answer } => {
                // A client that has left asks again.
                let _left = to.send(*answer);
            }
            Deed::AnswerAnyway { to, written, .. } => {
                let _left = to.send(Ok(ChatAnswer::Done(written)));
            }
            Deed::Accepted { key, turn, note, to } => {
                crate::points::reach("gateway.message.accepted");
                let _left = to.send(self.accepted(&key, turn, note));
            }
            Deed::Tell { request, to } => self.tell_client(request, to),
            Deed::Follow { asked, to } => self.follow(asked, to),
            Deed::Effect { key, effect } => self.carry_out(&key, effect),
            Deed::TakeNotices { key } => self.take_notices(&key),
            Deed::StopActor { key } => self.stop_actor(&key),
            Deed::PromptAgain { key } => self.prompt_again(&key),
            Deed::Allow { key, permission, decision } => self.decide(&key, &permission, decision),
        }
    }

    fn carry_out(&mut self, key: &str, effect: Effect) {
        match effect {
            Effect::Acknowledge { event_id } => self.acknowledge(key, event_id),
            Effect::Prompt(prompt) => self.prompt(key, &prompt),
            Effect::Cancel { head, attempt } => self.cancel(key, head, attempt),
            // Answers are given by those who asked, and lines were written in the same commit.
            Effect::Answer { .. } | Effect::Refuse { .. } | Effect::Tell(_) => {}
        }
    }
}

/// The time by the wall clock.
pub(crate) fn now() -> Time {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Time::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

/// A time after another.
pub(crate) fn later(at: Time, by: Duration) -> Time {
    Time::from_micros(at.micros().saturating_add(i64::try_from(by.as_micros()).unwrap_or(i64::MAX)))
}

/// How long until then. A time that has passed is now.
fn until(at: Time, now: Time) -> Duration {
    Duration::from_micros(u64::try_from(at.micros().saturating_sub(now.micros())).unwrap_or(0))
}
