//! What happens in a history.

use super::super::*;
use proptest::prelude::*;
use proptest::sample::select;

pub(super) const PROCESSES: u8 = 5;
pub(super) const SESSIONS: [&str; 3] = ["a", "b", ""];

/// The session of a process, and its generation.
pub(super) fn whose(p: u8) -> (&'static str, &'static str) {
    [("a", ""), ("a", "g1"), ("a", "g2"), ("b", "g1"), ("", "")][p as usize]
}

/// Which lease token comes with a settlement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Word {
    /// That of the last taker.
    Newest,
    /// That of the first taker.
    First,
    Guessed,
    None,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum How {
    Delivered,
    Released,
    Dropped,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Push4 {
    Delivered,
    Again(i64),
    Later(i64),
    Dead,
}

/// What happens next. Notices are picked by a number: an even one means one of those that were given last, if there are any.
#[derive(Debug, Clone)]
pub(super) enum Act {
    Complete {
        p: u8,
        repeat: bool,
        /// How long it is reserved for a client that waits.
        kept: Option<i64>,
    },
    Match {
        p: u8,
        at: u64,
    },
    Post {
        session: &'static str,
        life: &'static str,
        name: u8,
    },
    Live {
        session: &'static str,
        life: &'static str,
        by: NamedBy,
    },
    Claim {
        session: &'static str,
        life: &'static str,
        by: NamedBy,
        taker: TakerKind,
        limit: usize,
        lease: i64,
    },
    Settle {
        pick: usize,
        word: Word,
        by: Option<&'static str>,
        own: bool,
        how: How,
    },
    Consume {
        p: u8,
    },
    Observe {
        p: u8,
    },
    Hold {
        p: u8,
    },
    LetGo {
        p: u8,
    },
    GiveBack {
        p: u8,
    },
    Supersede {
        p: u8,
    },
    Pass {
        micros: i64,
    },
    SetClock {
        by: i64,
    },
    Replay {
        pick: usize,
        session: Option<&'static str>,
    },
    Prune {
        age: i64,
    },
    Expire {
        age: i64,
    },
    Begin {
        reboot: bool,
    },
    /// An act after which the engine dies before it is on disk.
    Lost(Box<Act>),
    Forget {
        p: u8,
    },
    Take {
        limit: usize,
        lease: i64,
    },
    PushResult {
        pick: usize,
        right: bool,
        how: Push4,
    },
    Revive {
        pick: Option<usize>,
        session: Option<&'static str>,
    },
}

pub(super) fn act() -> impl Strategy<Value = Act> {
    // Few notices, so that much happens to each.
    let p = || prop_oneof![4 => Just(0), 3 => Just(1), 2 => Just(3), 2 => 0..PROCESSES];
    let session = || prop_oneof![6 => Just("a"), 2 => Just("b"), 1 => Just("")];
    let life = || prop_oneof![7 => Just(""), 2 => Just("g1"), 1 => Just("g2")];
    let taker = || select(vec![TakerKind::Terminal, TakerKind::Gateway]);
    let by = || select(vec![NamedBy::Client, NamedBy::Client, NamedBy::Gateway]);
    let lease = || select(vec![10_i64, 100]);
    let some = || prop_oneof![2 => Just(None), 3 => session().prop_map(Some)];
    let word = || select(vec![Word::Newest, Word::Newest, Word::Newest, Word::First, Word::Guessed, Word::None]);
    let how = || select(vec![How::Delivered, How::Delivered, How::Released, How::Released, How::Dropped]);
    let age = || select(vec![-5_i64, 0, 20, 100, 70_000_000]);
    let push = prop_oneof![
        2 => Just(Push4::Delivered),
        1 => select(vec![5_i64, 100]).prop_map(Push4::Again),
        3 => select(vec![5_i64, 100]).prop_map(Push4::Later),
        2 => Just(Push4::Dead),
    ];
    let kept = prop_oneof![2 => Just(None), 1 => select(vec![10_i64, ANNOUNCED_WAIT_TIMEOUT, ANSWER_TIMEOUT]).prop_map(Some)];
    let clock = select(vec![-1_000_000_000_000_i64, -1_000, -1, 1, 1_000, 1_000_000_000_000]);
    let plain = prop_oneof![
        8 => (p(), proptest::bool::weighted(0.1), kept).prop_map(|(p, repeat, kept)| Act::Complete { p, repeat, kept }),
        5 => (p(), 0..3_u64).prop_map(|(p, at)| Act::Match { p, at }),
        2 => (session(), life(), 0..3_u8).prop_map(|(session, life, name)| Act::Post { session, life, name }),
        2 => (session(), life(), by()).prop_map(|(session, life, by)| Act::Live { session, life, by }),
        14 => (session(), life(), by(), taker(), 1..4_usize, lease())
            .prop_map(|(session, life, by, taker, limit, lease)| Act::Claim { session, life, by, taker, limit, lease }),
        12 => (0..20_usize, word(), some(), proptest::bool::weighted(0.8), how())
            .prop_map(|(pick, word, by, own, how)| Act::Settle { pick, word, by, own, how }),
        4 => p().prop_map(|p| Act::Consume { p }),
        3 => p().prop_map(|p| Act::Observe { p }),
        4 => p().prop_map(|p| Act::Hold { p }),
        2 => p().prop_map(|p| Act::LetGo { p }),
        2 => p().prop_map(|p| Act::GiveBack { p }),
        3 => p().prop_map(|p| Act::Supersede { p }),
        8 => select(vec![1_i64, 9, 10, 90, 100, 60_000_000]).prop_map(|micros| Act::Pass { micros }),
        2 => clock.prop_map(|by| Act::SetClock { by }),
        2 => (0..20_usize, some()).prop_map(|(pick, session)| Act::Replay { pick, session }),
        2 => age().prop_map(|age| Act::Prune { age }),
        1 => age().prop_map(|age| Act::Expire { age }),
        2 => proptest::bool::weighted(0.3).prop_map(|reboot| Act::Begin { reboot }),
        1 => p().prop_map(|p| Act::Forget { p }),
        8 => (1..3_usize, lease()).prop_map(|(limit, lease)| Act::Take { limit, lease }),
        5 => (0..20_usize, proptest::bool::weighted(0.8), push).prop_map(|(pick, right, how)| Act::PushResult { pick, right, how }),
        1 => (proptest::option::of(0..20_usize), some()).prop_map(|(pick, session)| Act::Revive { pick, session }),
    ];
    let plain = plain.boxed();
    prop_oneof![20 => plain.clone(), 1 => plain.prop_map(|act| Act::Lost(Box::new(act)))]
}
