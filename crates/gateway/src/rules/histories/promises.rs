//! What the design promises of every conversation, whatever happened.

use std::collections::BTreeSet;

use crate::rules::conversation::Conversation;
use crate::rules::step::{MAX_STRIKES, MAX_TURN_ATTEMPTS};
use crate::rules::turn::{Turn, TurnKind};

pub(super) fn broken(c: &Conversation) -> Option<&'static str> {
    let is_running = |turn: &Turn| matches!(turn, Turn::Running { .. });
    let running: BTreeSet<_> = c.rows.iter().filter(|row| is_running(&row.turn)).map(|row| row.head).collect();
    let causes: BTreeSet<_> = c.rows.iter().map(|row| row.cause.to_string()).collect();
    let attempts = c.rows.iter().filter_map(|row| match row.turn {
        Turn::Running { attempt, .. } | Turn::Interrupted { attempt, .. } => Some(attempt),
        Turn::Queued | Turn::Finished(_) => None,
    });
    let is_together = |head| {
        let mut group = c.group(head).map(|row| row.turn);
        let first = group.next();
        group.all(|turn| Some(turn) == first)
    };
    let open = || c.rows.iter().filter(|row| row.turn.is_open());
    let all = [
        (running.len() > 1, "two turns run"),
        (causes.len() != c.rows.len(), "a cause has two turns"),
        (attempts.clone().any(|attempt| attempt == 0 || attempt > MAX_TURN_ATTEMPTS), "a turn has more than three attempts, or none"),
        (c.strikes >= MAX_STRIKES && c.suspended_at.is_none(), "three strikes do not suspend"),
        (c.suspended_at.is_some() && !running.is_empty(), "a turn runs in a suspended conversation"),
        (open().any(|row| row.generation != c.generation.number), "an open turn is of another generation"),
        (c.rows.iter().any(|row| !is_together(row.head)), "one of several rows moved alone"),
        (open().any(|row| row.turn == Turn::Queued && row.head != row.id), "a queued row is in a prompt"),
        (open().any(|row| row.cause.kind() == TurnKind::Message && row.head != row.id), "a message shares a prompt"),
        (c.rows.windows(2).any(|pair| pair[0].id >= pair[1].id), "the rows are out of order"),
    ];
    all.into_iter().find(|(is_broken, _)| *is_broken).map(|(_, what)| what)
}
