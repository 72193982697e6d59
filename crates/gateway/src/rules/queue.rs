//! Which turn of a conversation starts next, and what it waits for.

use std::time::Duration;

use outlast_core::Time;

use super::breaker::Breaker;
use super::conversation::{Conversation, TurnId, TurnRow};
use super::note::{self, Note, ToolTail};
use super::turn::{MarkWindow, TurnKind, WaitReason};

/// One prompt carries at most this many notices. The text of 32 is what a model still reads as a list.
pub const MAX_NOTICES_PER_TURN: usize = 32;

/// The gateway takes no more notices for a conversation in which this many wait; the engine keeps the others.
pub const MAX_QUEUED_NOTICES: usize = 1024;

/// At most this many unattended turns of a conversation start within [`BUDGET_SHORT_WINDOW`]: a loop of notices is slowed down at once.
pub const BUDGET_SHORT_STARTS: usize = 6;

/// See [`BUDGET_SHORT_STARTS`].
pub const BUDGET_SHORT_WINDOW: Duration = Duration::from_secs(60);

/// At most this many unattended turns of a conversation start within [`BUDGET_LONG_WINDOW`]: each costs a person money.
pub const BUDGET_LONG_STARTS: usize = 200;

/// See [`BUDGET_LONG_STARTS`].
pub const BUDGET_LONG_WINDOW: Duration = Duration::from_secs(24 * 3600);

/// What the coordinator knows when it asks for the next turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gates {
    /// Whether a drain holds back new turns.
    pub is_draining: bool,
    /// Whether the agent of the conversation can take a prompt: none works, and none is being stopped.
    pub is_agent_free: bool,
    /// Whether the engine has notices for this conversation.
    pub has_notices_due: bool,
    /// Whether interrupted turns are held back during this run.
    pub breaker: Breaker,
    /// Whether the owner may speak.
    pub owner: OwnerCheck,
    /// Whether replies reach the person. A conversation without an origin is not connected.
    pub is_channel_connected: bool,
    /// How long a mark is fresh.
    pub mark_window: MarkWindow,
    /// The starts of unattended turns of this conversation during the last [`BUDGET_LONG_WINDOW`], in any order, one for each prompt.
    pub unattended_starts: Vec<Time>,
    /// The tool call that the previous turn left open.
    pub tool_tail: Option<ToolTail>,
}

/// Whether the owner of a conversation may still speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerCheck {
    /// The stored owner is the user of the home or root, or no owner is stored.
    MaySpeak,
    /// The stored owner is another user.
    MayNotSpeak,
    /// The check failed. It counts as no.
    Failed,
}

/// What the coordinator does next in a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Start this turn.
    Start(Start),
    /// Take the notices that the engine has.
    TakeNotices,
    /// Ask again at this time.
    WaitUntil(Time),
    /// Ask again when a person writes, or when what is named has changed. The person gets one line about it.
    WaitForPerson(WaitReason),
    /// Ask again after the next event.
    Nothing,
}

/// A turn that starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// The row whose prompt carries the others.
    pub head: TurnId,
    /// All rows of the prompt, in order.
    pub rows: Vec<TurnId>,
    /// What the agent reads before the words.
    pub note: Option<Note>,
    /// Whether it counts towards the budget.
    pub is_unattended: bool,
}

/// Decides what happens next. A turn that may start comes before notices that could be taken: what the agent sees meanwhile needs no turn.
pub fn next(conversation: &Conversation, gates: &Gates, now: Time) -> Next {
    if gates.is_draining || !gates.is_agent_free || conversation.running().is_some() {
        return Next::Nothing;
    }
    let first = first_in_queue(conversation, gates, now);
    if let First::MayStart(start) = first {
        return Next::Start(start);
    }
    // Notices are taken even if they cannot start a turn. Otherwise the engine would start a gateway for it again and again.
    if gates.has_notices_due && conversation.queued(TurnKind::Notice).count() < MAX_QUEUED_NOTICES {
        return Next::TakeNotices;
    }
    match first {
        First::MayStart(start) => Next::Start(start),
        First::Held(Hold::Until(time)) => Next::WaitUntil(time),
        First::Held(Hold::ForPerson(reason)) => Next::WaitForPerson(reason),
        First::None => Next::Nothing,
    }
}

/// The turn that is first in the queue.
enum First {
    MayStart(Start),
    Held(Hold),
    None,
}

/// What holds a turn back.
#[derive(Clone, Copy)]
enum Hold {
    Until(Time),
    ForPerson(WaitReason),
}

/// A person's interrupted turn, messages, an interrupted turn about notices, notices. Only the first may start, except that a message does
/// not wait for an interrupted turn that is held back.
fn first_in_queue(conversation: &Conversation, gates: &Gates, now: Time) -> First {
    if conversation.suspended_at.is_some() {
        return First::Held(Hold::ForPerson(WaitReason::Suspended));
    }
    let start = |row: &TurnRow, rows: Vec<TurnId>, is_unattended: bool| {
        let note = note::note(row, gates.tool_tail.as_ref(), conversation.has_person_written, gates.mark_window, now);
        First::MayStart(Start { head: row.id, rows, note, is_unattended })
    };
    let restart = |row: &TurnRow| {
        let is_unattended = is_unattended(conversation, row);
        let hold = hold_of_interrupted(conversation, row, gates, now).or_else(|| hold_of_unattended(is_unattended, gates, now));
        match hold {
            Some(hold) => First::Held(hold),
            None => start(row, conversation.group(row.id).map(|row| row.id).collect(), is_unattended),
        }
    };
    let message = conversation.queued(TurnKind::Message).next();
    if let Some(row) = conversation.interrupted(TurnKind::Message) {
        let first = restart(row);
        if message.is_none() || matches!(first, First::MayStart(_)) {
            return first;
        }
    }
    if let Some(row) = message {
        return start(row, vec![row.id], false);
    }
    if let Some(row) = conversation.interrupted(TurnKind::Notice) {
        return restart(row);
    }
    let notices: Vec<&TurnRow> = conversation.queued(TurnKind::Notice).take(MAX_NOTICES_PER_TURN).collect();
    match (notices.first(), hold_of_unattended(true, gates, now)) {
        (None, _) => First::None,
        (Some(_), Some(hold)) => First::Held(hold),
        (Some(row), None) => start(row, notices.iter().map(|row| row.id).collect(), true),
    }
}

/// Whether a turn that was interrupted starts again without a person: it is about notices, or no person wrote since the gateway started.
fn is_unattended(conversation: &Conversation, row: &TurnRow) -> bool {
    row.cause.kind() == TurnKind::Notice || !conversation.has_person_written
}

/// Age and breaker hold back an interrupted turn until a person wrote in this run, or has a message waiting.
fn hold_of_interrupted(conversation: &Conversation, row: &TurnRow, gates: &Gates, now: Time) -> Option<Hold> {
    if conversation.has_person_written || conversation.queued(TurnKind::Message).next().is_some() {
        return hold_of_route(gates);
    }
    let is_stale = row.turn.interruption().is_some_and(|mark| mark.is_stale(gates.mark_window, now));
    match (is_stale, gates.breaker) {
        (true, _) => Some(Hold::ForPerson(WaitReason::Age)),
        (false, Breaker::Open) => Some(Hold::ForPerson(WaitReason::Breaker)),
        (false, Breaker::Closed) => hold_of_route(gates),
    }
}

fn hold_of_unattended(is_unattended: bool, gates: &Gates, now: Time) -> Option<Hold> {
    if !is_unattended {
        return None;
    }
    hold_of_route(gates).or_else(|| budget(&gates.unattended_starts, now).map(Hold::Until))
}

fn hold_of_route(gates: &Gates) -> Option<Hold> {
    match (gates.owner, gates.is_channel_connected) {
        (OwnerCheck::MayNotSpeak | OwnerCheck::Failed, _) => Some(Hold::ForPerson(WaitReason::Owner)),
        (OwnerCheck::MaySpeak, false) => Some(Hold::ForPerson(WaitReason::Channel)),
        (OwnerCheck::MaySpeak, true) => None,
    }
}

/// When the budget allows another unattended turn; `None`: now. A start ahead of the clock is left out, because a clock that was stepped
/// back must not hold turns for as long as the step.
fn budget(starts: &[Time], now: Time) -> Option<Time> {
    let mut past: Vec<i64> = starts.iter().map(|start| start.micros()).filter(|start| *start <= now.micros()).collect();
    past.sort_unstable_by(|a, b| b.cmp(a));
    let windows = [(BUDGET_SHORT_STARTS, BUDGET_SHORT_WINDOW), (BUDGET_LONG_STARTS, BUDGET_LONG_WINDOW)];
    let free_at = |(count, window): (usize, Duration)| {
        let oldest = past.get(count - 1)?;
        let window = i64::try_from(window.as_micros()).unwrap_or(i64::MAX);
        Some(oldest.saturating_add(window)).filter(|at| *at > now.micros())
    };
    windows.into_iter().filter_map(free_at).max().map(Time::from_micros)
}
