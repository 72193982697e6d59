use super::*;
use crate::Growth;

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn policy() -> Policy {
    Policy { growth: Growth::Steps(vec![seconds(10), seconds(20), seconds(40)]), jitter: 0.0, give_up: seconds(70) }
}

#[test]
fn what_was_told_together_comes_back_together_or_dies_alone() {
    let failed = CallResult::failed("no".into());
    let verdicts = verdicts(&policy(), &failed, &[0, 1, 3], 0.0);
    let retry = Settle::Retry { after: seconds(20), reason: "no".into() };
    assert_eq!(verdicts[..2], [retry.clone(), retry]);
    assert!(matches!(&verdicts[2], Settle::Dead { reason } if reason == "gave up after 4 attempts, the last of which failed: no"));
}

#[test]
fn a_receiver_may_ask_for_more_time_but_not_for_less() {
    let asked = |wait| CallResult::Failed { reason: "no".into(), wait: Some(seconds(wait)) };
    let after = |wait| match verdicts(&policy(), &asked(wait), &[0], 0.0).remove(0) {
        Settle::Retry { after, .. } => after.as_secs(),
        other => panic!("{other:?}"),
    };
    assert_eq!((after(5), after(15)), (10, 15));
}

#[test]
fn who_wants_no_more_gets_no_more() {
    let gone = CallResult::Gone { reason: "gone".into() };
    assert_eq!(verdicts(&policy(), &gone, &[0], 0.5), [Settle::Dead { reason: "gone".into() }]);
    assert_eq!(verdicts(&policy(), &CallResult::Done, &[9, 9], 0.5), [Settle::Delivered, Settle::Delivered]);
}

#[test]
fn chance_stays_in_its_bounds() {
    assert!((0..1_000).map(|_| random()).all(|r| (0.0..1.0).contains(&r)));
}
