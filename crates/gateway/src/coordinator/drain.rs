//! A drain: turns may finish, then what is left is marked and cancelled. And the end of a gateway that has nothing to do.
//!
//! Decisions 203 and 205: docs/decisions/gateway.md.

use super::Coordinator;
use super::batch::Batch;
use super::live::Live;
use crate::exit::{EXIT_RESTART, EXIT_UNASKED, Exit, HOW_INTERRUPTED, HOW_STOPPED, StopSignal};
use crate::lock::LockWord;
use crate::rules::change::Event;
use crate::rules::text::Line;
use crate::rules::turn::{DrainKind, TurnKind};
use outlast_wire::v1::chat::{Content, TextBody};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// How long agents may take to answer the cancels when a drain timed out. A real end still counts until then.
const CANCEL_ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// How long a drain waits for the turn that asked for it, if no other turn runs. A turn that has its answer finishes within seconds; one that waits for the
/// restart itself would wait for as long as it is waited for.
const ASKING_TURN_LIMIT: Duration = Duration::from_secs(20);

/// A drain in progress.
#[derive(Debug, Clone)]
pub(crate) struct Drain {
    pub(crate) kind: DrainKind,
    exit: Exit,
    state: DrainState,
    /// The conversations whose agents asked for it, from within a turn, and until when that turn is waited for like all others.
    askers: BTreeMap<String, Instant>,
}

#[derive(Debug, Clone, Copy)]
enum DrainState {
    /// Turns may finish until then.
    Waiting { until: Instant },
    /// The marks are committed, and agents may answer the cancels until then.
    Cancelling { until: Instant },
}

impl Drain {
    pub(crate) fn restart(limit: Duration) -> Self {
        Self::new(DrainKind::Restart, limit, Exit { code: EXIT_RESTART, word: LockWord::AtWork, how: "restart", does_return: false })
    }

    pub(crate) fn stop(limit: Duration) -> Self {
        Self::new(DrainKind::Shutdown, limit, Exit { code: 0, word: LockWord::Stopped, how: HOW_STOPPED, does_return: false })
    }

    fn signal(limit: Duration, signal: StopSignal) -> Self {
        let exit = match signal {
            StopSignal::Terminate => Exit { code: EXIT_UNASKED, word: LockWord::Empty, how: "sigterm", does_return: true },
            StopSignal::Interrupt => Exit { code: 0, word: LockWord::Stopped, how: HOW_INTERRUPTED, does_return: false },
        };
        Self::new(DrainKind::Shutdown, limit, exit)
    }

    fn new(kind: DrainKind, limit: Duration, exit: Exit) -> Self {
        let now = Instant::now();
        let until = now.checked_add(limit).unwrap_or_else(|| now + Duration::from_secs(86_400));
        Self { kind, exit, state: DrainState::Waiting { until }, askers: BTreeMap::new() }
    }

    /// The same, asked for by the agent of this conversation.
    pub(crate) fn asked_by(mut self, from: Option<String>) -> Self {
        self.askers.extend(from.map(|key| (key, Instant::now() + ASKING_TURN_LIMIT)));
        self
    }

    /// The next time at which something is due without an input.
    pub(crate) fn deadline(&self) -> Instant {
        let (DrainState::Waiting { until } | DrainState::Cancelling { until }) = self.state;
        let now = Instant::now();
        self.askers.values().copied().filter(|until| *until > now).fold(until, Instant::min)
    }

    /// A later request: a stop after a restart is a stop, and one by a person stays stopped, whatever began the drain. A shorter limit counts. Everything else is
    /// under way already. True if it is another kind now.
    fn join(&mut self, later: Self) -> bool {
        for (key, until) in later.askers {
            // One that asks again gets no more time.
            self.askers.entry(key).or_insert(until);
        }
        let is_stop_now = self.kind == DrainKind::Restart && later.kind == DrainKind::Shutdown;
        if is_stop_now || (later.exit.word == LockWord::Stopped && self.exit.word != LockWord::Stopped) {
            (self.kind, self.exit) = (later.kind, later.exit);
        }
        if let (DrainState::Waiting { until }, DrainState::Waiting { until: sooner }) = (&mut self.state, later.state) {
            *until = sooner.min(*until);
        }
        is_stop_now
    }
}

impl Coordinator {
    /// Begins a drain. Chats whose agent works get a line about it. A prompt that still waits for its agent is withdrawn: no agent has seen it, so nothing is waited for
    /// and nothing is marked.
    pub(crate) fn begin_drain(&mut self, drain: Drain, batch: &mut Batch) {
        let kind = drain.kind;
        if let Some(current) = &mut self.drain {
            if !current.join(drain) {
                return;
            }
        } else {
            self.drain = Some(drain);
        }
        for key in self.busy() {
            let Some(live) = self.touch(&key, batch) else { continue };
            if live.has_prompt() {
                self.tell(&key, Line::Banner(kind), batch);
                continue;
            }
            let is_message = live.conversation.running().is_some_and(|row| row.cause.kind() == TurnKind::Message);
            self.apply(&key, Event::DrainTimedOut { kind, has_prompt: false }, batch);
            if is_message {
                self.tell(&key, Line::KeptWhileDraining(kind), batch);
            }
        }
    }

    /// The conversations with a running turn.
    fn busy(&self) -> Vec<String> {
        self.chats.iter().filter(|(_, live)| live.conversation.running().is_some()).map(|(key, _)| key.clone()).collect()
    }

    pub(crate) fn on_signal(&mut self, signal: StopSignal, batch: &mut Batch) {
        tracing::info!(?signal, "asked to end");
        self.begin_drain(Drain::signal(self.settings.drain_timeout, signal), batch);
    }

    /// At the limit of a drain all marks are one commit, and the cancels come after it.
    pub(crate) fn drain_on(&mut self, batch: &mut Batch) {
        let Some(Drain { kind, state: DrainState::Waiting { until }, .. }) = self.drain else { return };
        if until > Instant::now() && !self.waits_for_askers_alone() {
            return;
        }
        for key in self.busy() {
            let Some(live) = self.touch(&key, batch) else { continue };
            let has_prompt = live.has_prompt();
            let open = live.actor.as_ref().and_then(|actor| actor.open.as_ref());
            let unfinished =
                open.map(|open| (open.head, open.attempt, [open.texts.as_slice(), std::slice::from_ref(&open.draft)].concat()));
            self.apply(&key, Event::DrainTimedOut { kind, has_prompt }, batch);
            // A turn that was given up takes no more text of its agent. Any other one may still get the whole text.
            if let (Some((head, attempt, texts)), false) = (unfinished, self.chats.get(&key).is_some_and(Live::is_attempt_current)) {
                for text in texts.iter().map(|text| text.trim_end_matches('\n')).filter(|text| !text.trim().is_empty()) {
                    self.part(&key, Some(head), attempt, &Content::Text(TextBody::new(text)), batch);
                }
            }
        }
        if let Some(drain) = &mut self.drain {
            drain.state = DrainState::Cancelling { until: Instant::now() + CANCEL_ANSWER_LIMIT };
        }
    }

    /// Writes down what agents streamed that have not answered their cancels in time. Not at the marks: an agent that answers sends the whole text. Without a
    /// mark the next gateway may follow the same process, and read all of it.
    pub(crate) fn keep_unfinished_texts(&mut self) {
        let mut batch = Batch::new(super::now());
        let is_cut = |live: &Live| {
            let open = live.actor.as_ref().and_then(|actor| actor.open.as_ref());
            open.and_then(|open| live.conversation.row(open.head)).is_some_and(|row| row.turn.interruption().is_some())
        };
        let cut: Vec<String> = self.chats.iter().filter(|(_, live)| is_cut(live)).map(|(key, _)| key.clone()).collect();
        for key in cut {
            self.keep_draft(&key, &mut batch);
        }
        self.finish(batch);
    }

    /// Whether only turns are left that asked for the drain, and these had their time.
    fn waits_for_askers_alone(&self) -> bool {
        let Some(drain) = &self.drain else { return false };
        let now = Instant::now();
        let mut working = self.chats.iter().filter(|(_, live)| live.is_agent_working());
        working.all(|(key, _)| drain.askers.get(key).is_some_and(|until| *until <= now))
    }

    /// How to end, if it is time.
    pub(crate) fn exit_due(&self) -> Option<Exit> {
        if let Some(drain) = &self.drain {
            let is_working = self.chats.values().any(|live| live.is_agent_working());
            let is_late = matches!(drain.state, DrainState::Cancelling { until } if until <= Instant::now());
            return (!is_working || is_late).then_some(drain.exit);
        }
        let is_idle = self.idle_deadline().is_some_and(|at| at <= Instant::now());
        is_idle.then_some(Exit { code: 0, word: LockWord::Empty, how: "idle", does_return: false })
    }

    /// When it exits because it has nothing to do.
    pub(crate) fn idle_deadline(&self) -> Option<Instant> {
        if self.settings.idle_exit.is_zero() {
            return None;
        }
        // A time too far away to be an instant does not come.
        self.idle_since?.checked_add(self.settings.idle_exit)
    }

    /// Notes whether there is something to do.
    pub(crate) fn note_idleness(&mut self) {
        let is_busy = self.has_work() || self.has_followers();
        self.idle_since = if is_busy { None } else { self.idle_since.or_else(|| Some(Instant::now())) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_turn_that_asks_has_its_own_time_and_only_a_stop_or_less_time_changes_a_drain() {
        let limit = Duration::from_secs(60);
        let mut drain = Drain::restart(limit).asked_by(Some("a".into()));
        let first = drain.askers["a"];
        assert_eq!(drain.deadline(), first, "it is looked at before the limit");
        assert!(!drain.join(Drain::restart(Duration::from_secs(600)).asked_by(Some("a".into()))));
        assert!(!drain.join(Drain::restart(limit).asked_by(Some("b".into()))));
        assert_eq!((drain.askers["a"], drain.askers["b"] > first), (first, true));
        assert!(drain.join(Drain::stop(Duration::from_secs(1))), "now it is a stop");
        assert_eq!((drain.kind, drain.exit.word), (DrainKind::Shutdown, LockWord::Stopped));
        assert!(drain.deadline() < first, "the limit of the stop counts");
        assert!(!drain.join(Drain::restart(limit)), "a stop stays a stop");
        assert_eq!(drain.exit.word, LockWord::Stopped);
        for stop in [Drain::stop(limit), Drain::signal(limit, StopSignal::Interrupt)] {
            let (exit, mut drain) = (stop.exit, Drain::signal(limit, StopSignal::Terminate));
            assert!(!drain.join(stop), "the people were told of a stop already");
            assert_eq!((drain.exit, drain.exit.word, drain.exit.does_return), (exit, LockWord::Stopped, false));
            assert!(!drain.join(Drain::signal(limit, StopSignal::Terminate)));
            assert_eq!(drain.exit, exit, "a signal after it does not undo the stop of a person");
        }
    }
}
