//! The notices that were not delivered.

use super::super::out::counted;
use super::{Check, MAX_NOTICES};
use outlast_client::{Dead, DeadOfSink, Told};
use std::collections::BTreeMap;

pub(super) fn checks(dead: &Dead, dropped: &[Told]) -> Vec<Check> {
    let of_a_sink = |of: &DeadOfSink| {
        let DeadOfSink { sink, count, reason, .. } = of;
        Check::degraded("sink", &["P4"], format!("the sink {sink} gave up on {}, the last because: {reason}", counted(*count, "notice")))
            .means("its receiver was not notified")
            .hint(format!("`outlast events dead` shows them; `outlast events replay --dead --sink {sink}` sends them again"))
    };
    let mut all: Vec<Check> = by_sink(dead).iter().map(of_a_sink).collect();
    // A notice that was dropped by hand, or with the generation of its session, was meant to be.
    let unread = dropped.iter().filter(|told| is_unread(&told.reason)).count();
    if unread > 0 {
        all.push(
            Check::degraded("notices", &["P4"], format!("{} dropped, because no client of the session took them in time", were(unread)))
                .means("the sessions were never notified; the processes themselves are unaffected")
                .hint("`outlast events history --state dropped` shows them; `outlast events drain` takes those that are left"),
        );
    }
    if all.is_empty() {
        all.push(Check::ok("notices", "none was given up or dropped undelivered"));
    }
    all
}

/// The sinks that gave up. Engines of earlier versions only list notices.
fn by_sink(dead: &Dead) -> Vec<DeadOfSink> {
    if !dead.sinks.is_empty() {
        return dead.sinks.clone();
    }
    let mut sinks: BTreeMap<&str, (u64, &str)> = BTreeMap::new();
    for letter in &dead.letters {
        let (count, why) = sinks.entry(&letter.sink).or_default();
        (*count, *why) = (*count + 1, &letter.reason);
    }
    sinks.into_iter().map(|(sink, (count, why))| DeadOfSink::new(sink, count, why)).collect()
}

fn were(n: usize) -> String {
    format!("{} {}", notices(n), if n == 1 { "was" } else { "were" })
}

fn notices(n: usize) -> String {
    match n {
        1 => "1 notice".into(),
        n if n >= MAX_NOTICES as usize => format!("{n} or more notices"),
        n => format!("{n} notices"),
    }
}

/// Whether a notice was dropped because no client took it. The last text is that of earlier versions.
fn is_unread(reason: &str) -> bool {
    ["not taken within", "undelivered notices", "nobody asked for it"].iter().any(|text| reason.contains(text))
}

#[cfg(test)]
mod tests {
    use super::super::CheckState;
    use super::*;
    use outlast_client::DeadLetter;
    use serde_json::json;

    fn told(reason: &str) -> Told {
        let event = json!({"type": "x", "event_id": "evt_1", "seq": 1, "created_at": "2023-11-14T22:13:20Z", "session_key": ""});
        serde_json::from_value(json!({"event": event, "text": "", "state": "dropped", "reason": reason, "attempts": 0})).unwrap()
    }

    #[test]
    fn undelivered_notices_are_reported_unless_that_was_meant() {
        assert_eq!(checks(&Dead::default(), &[told("dropped by hand")])[0].state, CheckState::Ok);
        let unread = checks(&Dead::default(), &[told("expired: not taken within 28 days")]);
        assert!(unread[0].what.starts_with("1 notice was dropped"), "{unread:?}");
        let first_at = "2023-11-14T22:13:20Z".parse().unwrap();
        let letter = |sink: &str| DeadLetter::new(sink, told("").event, 9, first_at, "410 Gone");
        let letters = vec![letter("a"), letter("b"), letter("b")];
        let dead = checks(&Dead::new(letters.clone(), Vec::new()), &[]);
        assert_eq!(dead.len(), 2);
        assert_eq!(dead[1].what, "the sink b gave up on 2 notices, the last because: 410 Gone");
        assert!(dead[1].hint.contains("--sink b"));
        let counted = checks(&Dead::new(letters, vec![DeadOfSink::new("b", 195, "410 Gone")]), &[]);
        assert_eq!(counted[0].what, "the sink b gave up on 195 notices, the last because: 410 Gone");
    }
}
