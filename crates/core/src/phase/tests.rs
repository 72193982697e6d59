use super::*;
use crate::{GapWhy, Owner, Role, StartFailure, StopWay};
use proptest::prelude::*;
use std::time::Duration;

const LIFE: Incarnation = Incarnation { pid: 7, start_ticks: 70, boot: 1 };
const STRANGER: Incarnation = Incarnation { pid: 7, start_ticks: 71, boot: 1 };
const AT: Time = Time::from_micros(1_000_000);

fn ending(outcome: Outcome) -> Ending {
    Ending { outcome, cause: Cause::OfItsOwn, at: AT, oom: false }
}

fn stop() -> Stop {
    Stop {
        cause: Cause::Asked { by: Owner::default(), source: "process.kill".into() },
        way: StopWay::Escalate { grace: Duration::from_secs(2) },
    }
}

const OUT: OutputEnd = OutputEnd { end: 5, left_running: 0 };

fn phases() -> Vec<Phase> {
    vec![
        Phase::Accepted,
        Phase::Running { of: LIFE, closed: None },
        Phase::Running { of: LIFE, closed: Some(OUT) },
        Phase::Stopping { of: LIFE, stop: stop(), closed: None },
        Phase::Draining { ending: ending(Outcome::Code(3)) },
        Phase::Done { ending: ending(Outcome::Code(3)), output: OUT },
        Phase::Orphaned { of: LIFE },
        Phase::Lost { last_seen: Some(LIFE), at: AT },
    ]
}

fn records() -> Vec<Record> {
    let failed = StartFailure { errno: 2, what: "execute /nowhere".into() };
    vec![
        Record::Accepted { at: AT },
        Record::Started { at: AT, of: LIFE },
        Record::Started { at: AT, of: STRANGER },
        Record::Adopted { at: AT, of: LIFE },
        Record::StopAsked { at: AT, stop: stop() },
        Record::Ended { ending: ending(Outcome::Code(3)), log_end: 5 },
        Record::Ended { ending: ending(Outcome::NeverStarted(failed)), log_end: 0 },
        Record::OutputClosed { at: AT, output: OUT },
        Record::TakenOver { at: AT, role: Role::Pump, times: 1 },
        Record::Gap { at: AT, from: 1, to: 2, why: GapWhy::DiskFull },
        Record::Orphaned { at: AT, of: LIFE },
        Record::Lost { at: AT },
    ]
}

fn short(record: &Record) -> String {
    match record {
        Record::Started { of, .. } if *of == STRANGER => "started (a stranger)".into(),
        Record::Ended { ending: Ending { outcome: Outcome::NeverStarted(_), .. }, .. } => "ended (never started)".into(),
        r => serde_json::to_value(r).unwrap()["record"].as_str().unwrap().to_owned(),
    }
}

#[test]
fn the_whole_table_of_apply() {
    let mut table = String::new();
    for phase in phases() {
        let closed = matches!(phase, Phase::Running { closed: Some(_), .. });
        table += &format!("{}{}\n", phase.word(), if closed { ", output closed" } else { "" });
        for record in records() {
            let next = match apply(phase.clone(), record.clone()) {
                Ok(p) if p == phase => "=".to_owned(),
                Ok(p) => p.word().to_owned(),
                Err(_) => "impossible".to_owned(),
            };
            table += &format!("  {:<24}{next}\n", short(&record));
        }
    }
    insta::assert_snapshot!(table);
}

proptest! {
    /// In any order of records, an ended process stays ended and keeps its ending.
    #[test]
    fn an_end_is_never_undone(picks in proptest::collection::vec(0..12_usize, 0..40)) {
        let all = records();
        let mut phase = Phase::Accepted;
        let mut first_end: Option<Ending> = None;
        let mut was_final = false;
        for i in picks {
            if let Ok(next) = apply(phase.clone(), all[i].clone()) {
                phase = next;
            }
            if let Some(e) = &first_end {
                prop_assert_eq!(phase.ending(), Some(e));
            }
            first_end = first_end.or_else(|| phase.ending().cloned());
            prop_assert!(!was_final || phase.is_final());
            was_final = phase.is_final();
        }
    }

    /// Replaying a record twice in a row has the effect of replaying it once.
    #[test]
    fn a_fact_known_already_changes_nothing(picks in proptest::collection::vec(0..12_usize, 0..20)) {
        let all = records();
        let mut phase = Phase::Accepted;
        for i in picks {
            if let Ok(next) = apply(phase.clone(), all[i].clone()) {
                if let Ok(again) = apply(next.clone(), all[i].clone()) {
                    prop_assert_eq!(&again, &next);
                }
                phase = next;
            }
        }
    }
}

#[test]
fn codes_are_never_made_up() {
    assert_eq!(Outcome::Code(3).exit_code(), Some(3));
    assert_eq!(Outcome::Signal { number: 15, dumped_core: false }.exit_code(), Some(-15));
    assert_eq!(Outcome::Unknown.exit_code(), None);
    let failed = StartFailure { errno: 2, what: String::new() };
    assert_eq!(failed.shell_code(), 127);
    assert_eq!(Outcome::NeverStarted(failed).exit_code(), None);
}

/// Keepers of earlier releases are sent these bytes.
#[test]
fn a_stop_is_sent_to_keepers_the_same_way_in_every_release() {
    let by = || Owner { session: Some("s".into()), task: Some("t".into()), generation: Some("g".into()) };
    let all = [
        (stop(), r#"{"cause":{"asked":{"by":{},"source":"process.kill"}},"way":{"escalate":{"grace":{"secs":2,"nanos":0}}}}"#),
        (
            Stop { cause: Cause::Asked { by: by(), source: "x".into() }, ..stop() },
            r#"{"cause":{"asked":{"by":{"session":"s","task":"t","generation":"g"},"source":"x"}},"way":{"escalate":{"grace":{"secs":2,"nanos":0}}}}"#,
        ),
        (Stop { cause: Cause::Deadline, ..stop() }, r#"{"cause":"deadline","way":{"escalate":{"grace":{"secs":2,"nanos":0}}}}"#),
        (Stop { cause: Cause::OfItsOwn, way: StopWay::TermOnly }, r#"{"cause":"of_its_own","way":"term_only"}"#),
    ];
    for (stop, text) in all {
        assert_eq!(serde_json::to_string(&stop).unwrap(), text);
        assert_eq!(serde_json::from_str::<Stop>(text).unwrap(), stop);
    }
}
