//! The notices: those that reached nobody.

use super::{Check, SOME};
use outlast_client::{DeadLetter, Told};
use std::collections::BTreeMap;

pub(super) fn checks(dead: &[DeadLetter], dropped: &[Told]) -> Vec<Check> {
    let mut sinks: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for letter in dead {
        let (count, why) = sinks.entry(&letter.sink).or_default();
        (*count, *why) = (*count + 1, &letter.reason);
    }
    let of_a_sink = |(sink, (count, why)): (&str, (usize, &str))| {
        Check::degraded("sink", &["P4"], format!("the sink {sink} gave up on {}, the last because: {why}", notices(count)))
            .means("whoever is behind it was not told")
            .hint(format!("`outlast events dead` shows them; `outlast events replay --dead --sink {sink}` tries again"))
    };
    let mut all: Vec<Check> = sinks.into_iter().map(of_a_sink).collect();
    // What was dropped by hand, or with the life of its conversation, was meant to be.
    let unread = dropped.iter().filter(|told| told.reason.contains("nobody asked for it")).count();
    if unread > 0 {
        all.push(
            Check::degraded("notices", &["P4"], format!("nobody asked for {} until they were dropped", notices(unread)))
                .means("the owners were never told; the processes themselves are as they were")
                .hint("`outlast events history --state dropped` shows them; `outlast events drain` asks for what is left"),
        );
    }
    if all.is_empty() {
        all.push(Check::ok("notices", "none was given up or dropped unread"));
    }
    all
}

fn notices(n: usize) -> String {
    match n {
        1 => "1 notice".into(),
        n if n >= SOME as usize => format!("{n} or more notices"),
        n => format!("{n} notices"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;
    use serde_json::json;

    fn told(reason: &str) -> Told {
        let event = json!({"type": "x", "event_id": "evt_1", "seq": 1, "created_at": "2023-11-14T22:13:20Z", "session_key": ""});
        serde_json::from_value(json!({"event": event, "text": "", "state": "dropped", "reason": reason, "attempts": 0})).unwrap()
    }

    #[test]
    fn what_reached_nobody_is_told_and_what_was_meant_to_is_not() {
        assert_eq!(checks(&[], &[told("dropped by hand")])[0].state, State::Ok);
        let unread = checks(&[], &[told("expired: nobody asked for it in 28 days")]);
        assert!(unread[0].what.starts_with("nobody asked for 1 notice"), "{unread:?}");
        let first_at = "2023-11-14T22:13:20Z".parse().unwrap();
        let letter = |sink: &str| DeadLetter::new(sink, told("").event, 9, first_at, "410 Gone");
        let dead = checks(&[letter("a"), letter("b"), letter("b")], &[]);
        assert_eq!(dead.len(), 2);
        assert_eq!(dead[1].what, "the sink b gave up on 2 notices, the last because: 410 Gone");
        assert!(dead[1].hint.contains("--sink b"));
    }
}
