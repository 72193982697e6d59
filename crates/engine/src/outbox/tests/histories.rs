//! Histories of any kind against a second reading of the rules, which keeps no state: each time it looks at everything that happened.
//! `cargo xtask campaign histories` plays as many as one likes.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};

const PROCESSES: u8 = 5;
const SESSIONS: [&str; 3] = ["a", "b", ""];

/// The conversation of a process, and its life.
fn whose(p: u8) -> (&'static str, &'static str) {
    [("a", ""), ("a", "g1"), ("a", "g2"), ("b", "g1"), ("", "")][p as usize]
}

/// Whose word comes with a settlement.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Word {
    /// Of whoever was given it last.
    Newest,
    /// Of whoever was given it first.
    First,
    Guessed,
    None,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum How {
    Delivered,
    Released,
    Dropped,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Push4 {
    Delivered,
    Again(i64),
    Later(i64),
    Dead,
}

/// What happens next. Notices are picked by a number: an even one means one of those that were given last, if there are any.
#[derive(Debug, Clone)]
enum Act {
    Complete {
        p: u8,
        repeat: bool,
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
    },
    Claim {
        session: &'static str,
        life: &'static str,
        taker: Taker,
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
    /// Done, and then the engine dies before it is on disk.
    Lost(Box<Act>),
    Forget {
        p: u8,
    },
    Take {
        limit: usize,
        lease: i64,
    },
    Pushed {
        pick: usize,
        right: bool,
        how: Push4,
    },
    Revive {
        pick: Option<usize>,
        session: Option<&'static str>,
    },
}

fn act() -> impl Strategy<Value = Act> {
    // Few, so that much happens to each.
    let p = || prop_oneof![4 => Just(0), 3 => Just(1), 2 => Just(3), 2 => 0..PROCESSES];
    let session = || prop_oneof![6 => Just("a"), 2 => Just("b"), 1 => Just("")];
    let life = || prop_oneof![7 => Just(""), 2 => Just("g1"), 1 => Just("g2")];
    let taker = || select(vec![Taker::Terminal, Taker::Gateway]);
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
    let clock = select(vec![-1_000_000_000_000_i64, -1_000, -1, 1, 1_000, 1_000_000_000_000]);
    let plain = prop_oneof![
        8 => (p(), proptest::bool::weighted(0.1)).prop_map(|(p, repeat)| Act::Complete { p, repeat }),
        5 => (p(), 0..3_u64).prop_map(|(p, at)| Act::Match { p, at }),
        2 => (session(), life(), 0..3_u8).prop_map(|(session, life, name)| Act::Post { session, life, name }),
        1 => (session(), life()).prop_map(|(session, life)| Act::Live { session, life }),
        14 => (session(), life(), taker(), 1..4_usize, lease())
            .prop_map(|(session, life, taker, limit, lease)| Act::Claim { session, life, taker, limit, lease }),
        12 => (0..20_usize, word(), some(), proptest::bool::weighted(0.8), how())
            .prop_map(|(pick, word, by, own, how)| Act::Settle { pick, word, by, own, how }),
        4 => p().prop_map(|p| Act::Consume { p }),
        3 => p().prop_map(|p| Act::Observe { p }),
        4 => p().prop_map(|p| Act::Hold { p }),
        2 => p().prop_map(|p| Act::LetGo { p }),
        3 => p().prop_map(|p| Act::Supersede { p }),
        8 => select(vec![1_i64, 9, 10, 90, 100, 60_000_000]).prop_map(|micros| Act::Pass { micros }),
        2 => clock.prop_map(|by| Act::SetClock { by }),
        2 => (0..20_usize, some()).prop_map(|(pick, session)| Act::Replay { pick, session }),
        2 => age().prop_map(|age| Act::Prune { age }),
        1 => age().prop_map(|age| Act::Expire { age }),
        2 => proptest::bool::weighted(0.3).prop_map(|reboot| Act::Begin { reboot }),
        1 => p().prop_map(|p| Act::Forget { p }),
        8 => (1..3_usize, lease()).prop_map(|(limit, lease)| Act::Take { limit, lease }),
        5 => (0..20_usize, proptest::bool::weighted(0.8), push).prop_map(|(pick, right, how)| Act::Pushed { pick, right, how }),
        1 => (proptest::option::of(0..20_usize), some()).prop_map(|(pick, session)| Act::Revive { pick, session }),
    ];
    let plain = plain.boxed();
    prop_oneof![20 => plain.clone(), 1 => plain.prop_map(|act| Act::Lost(Box::new(act)))]
}

/// What an act is answered with, in the same words by both.
#[derive(Debug, Clone, PartialEq)]
enum Answer {
    Nothing,
    Made(Option<u64>),
    /// Place, repeat, how often it was given; and how long the next who finds nothing would wait.
    Given(Vec<(u64, bool, u32)>, Option<i64>),
    Settled(Settled),
    Count(u64),
    Taken(Vec<(u64, bool, u32)>, Option<i64>),
    Kept(bool),
}

/// What a notice is about.
#[derive(Debug, Clone, Copy, PartialEq)]
enum About {
    End(u8),
    Line(u8),
    Other,
}

/// One thing that happened. Answers are things that happened, too: whom something was given is remembered here and nowhere else.
#[derive(Debug, Clone)]
enum What {
    Made { seq: u64, about: About, session: &'static str, life: &'static str, repeat: bool },
    Lived { session: &'static str, life: &'static str },
    Asked { session: &'static str, taker: Taker, word: u32, until: i64, given: Vec<u64>, seen_to: u64 },
    Told { seq: u64 },
    Returned { seq: u64, sure: bool },
    Refused { seq: u64 },
    Seen { p: u8 },
    Looked { p: u8 },
    Answering { p: u8 },
    Left { p: u8 },
    RunAgain { p: u8 },
    Replayed { seqs: Vec<u64> },
    Removed { seqs: Vec<u64>, sessions: Vec<&'static str> },
    Expired { before: i64 },
    Began { reboot: bool },
    Taken { seqs: Vec<u64>, word: u32, until: i64 },
    Pushed { seq: u64, how: Push4 },
    Revived { seqs: Vec<u64> },
}

#[derive(Debug)]
struct Past {
    what: What,
    up: i64,
    utc: i64,
}

/// Where a notice stands.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Where {
    Waits,
    /// Somebody has it; no word: whoever is just answered.
    With {
        word: Option<u32>,
        until: i64,
    },
    Over {
        state: &'static str,
        utc: i64,
    },
}

/// All there is to say of a notice.
#[derive(Debug, Clone)]
struct Story {
    seq: u64,
    about: About,
    session: &'static str,
    life: &'static str,
    at: Where,
    repeat: bool,
    given: u32,
    looked_at: bool,
    run_again: bool,
    open_since: i64,
}

impl Story {
    fn is_free(&self, up: i64) -> bool {
        match self.at {
            Where::Waits => true,
            Where::With { until, .. } => until <= up,
            Where::Over { .. } => false,
        }
    }
}

/// Where the push of a notice stands.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Due {
    At(i64),
    With { word: u32, until: i64 },
    Delivered,
    Dead { utc: i64 },
}

#[derive(Debug, Clone)]
struct Parcel {
    seq: u64,
    session: &'static str,
    due: Due,
    tries: u32,
    maybe_told: bool,
}

/// The second reading: everything that happened, and questions to it.
#[derive(Default)]
struct Oracle {
    past: Vec<Past>,
    forgotten: BTreeSet<u8>,
    up: i64,
    utc: i64,
}

impl Oracle {
    fn add(&mut self, what: What) {
        let (up, utc) = (self.up, self.utc);
        self.past.push(Past { what, up, utc });
    }

    fn made(&self) -> impl Iterator<Item = (usize, u64)> {
        self.past.iter().enumerate().filter_map(|(i, p)| if let What::Made { seq, .. } = p.what { Some((i, seq)) } else { None })
    }

    /// The notice that tells the end of a process, of those there ever were.
    fn ends(&self, p: u8, seq: u64) -> bool {
        self.past.iter().any(|past| matches!(past.what, What::Made { seq: s, about: About::End(of), .. } if s == seq && of == p))
    }

    /// Whether the owner of a process had seen its end before something happened: the last word about that counts.
    fn seen(&self, p: u8, before: usize) -> bool {
        let word = |past: &Past| match &past.what {
            What::Seen { p: of } if *of == p => Some(true),
            What::Told { seq } if self.ends(p, *seq) => Some(true),
            What::Replayed { seqs } if seqs.iter().any(|seq| self.ends(p, *seq)) => Some(false),
            _ => None,
        };
        self.past[..before].iter().rev().find_map(word).unwrap_or(false)
    }

    /// The life of a conversation that came last, of those that were heard of since nothing was known of it.
    fn life(&self, session: &str, before: usize) -> Option<&'static str> {
        let past = &self.past[..before];
        let since = past.iter().rposition(|p| matches!(&p.what, What::Removed { sessions, .. } if sessions.contains(&session)));
        let mut order: Vec<&'static str> = Vec::new();
        for p in &past[since.map_or(0, |i| i + 1)..] {
            if let What::Lived { session: s, life } = p.what
                && s == session
                && !order.contains(&life)
            {
                order.push(life);
            }
        }
        order.pop()
    }

    /// What a claim finds out about a notice that nobody has: that it is over, or that it may be given.
    fn fate(&self, story: &Story, taker: Taker, now: usize) -> Result<bool, &'static str> {
        let ended = self.life(story.session, now).is_some_and(|life| !story.life.is_empty() && story.life != life);
        match story.about {
            _ if ended => Err("dropped"),
            About::End(p) if self.seen(p, now) => Err("consumed"),
            About::End(_) if story.run_again => Err("superseded"),
            About::End(_) => Ok(taker == Taker::Gateway || !story.looked_at),
            About::Line(p) if taker == Taker::Gateway && self.seen(p, now) => Err("dropped"),
            About::Line(_) | About::Other => Ok(true),
        }
    }

    /// What became of the notice that was made as the `from`th thing.
    fn story(&self, from: usize) -> Option<Story> {
        let What::Made { seq, about, session, life, repeat } = self.past[from].what else { return None };
        let mut s = Story {
            seq,
            about,
            session,
            life,
            at: Where::Waits,
            repeat,
            given: 0,
            looked_at: false,
            run_again: false,
            open_since: self.past[from].utc,
        };
        let over = |state, past: &Past| Where::Over { state, utc: past.utc };
        if let About::End(p) = about
            && self.seen(p, from)
        {
            s.at = over("consumed", &self.past[from]);
        }
        let of = |p: u8| about == About::End(p);
        for (i, past) in self.past.iter().enumerate().skip(from + 1) {
            let (free, up) = (s.is_free(past.up), past.up);
            let answered = matches!(s.at, Where::With { word: None, .. });
            match &past.what {
                What::Asked { session: asker, taker, word, until, given, seen_to } => {
                    if *asker != session || seq > *seen_to || !free {
                        continue;
                    }
                    match self.fate(&s, *taker, i) {
                        Err(state) => s.at = over(state, past),
                        Ok(_) if given.contains(&seq) => {
                            s.repeat |= s.at != Where::Waits;
                            s.given += 1;
                            s.at = Where::With { word: Some(*word), until: *until };
                        }
                        Ok(_) => {}
                    }
                }
                What::Told { seq: n } if *n == seq => s.at = over("delivered", past),
                What::Refused { seq: n } if *n == seq => s.at = over("dropped", past),
                What::Returned { seq: n, sure } if *n == seq => {
                    s.at = match about {
                        About::End(p) if self.seen(p, i) => over("consumed", past),
                        About::End(_) if s.run_again => over("superseded", past),
                        _ => {
                            s.repeat |= !sure;
                            Where::Waits
                        }
                    };
                }
                What::Seen { p } if of(*p) && (free || answered) => s.at = over("consumed", past),
                What::Looked { p } if of(*p) => s.looked_at |= !matches!(s.at, Where::Over { .. }),
                What::Answering { p } if of(*p) && !free => s.repeat |= matches!(s.at, Where::With { .. }),
                What::Answering { p } if of(*p) => {
                    s.repeat |= s.at != Where::Waits;
                    s.given += 1;
                    s.at = Where::With { word: None, until: up + 60_000_000 };
                }
                What::Left { p } if of(*p) && answered => (s.at, s.repeat) = (Where::Waits, true),
                What::RunAgain { p } if of(*p) && free => s.at = over("superseded", past),
                What::RunAgain { p } if of(*p) => s.run_again |= matches!(s.at, Where::With { .. }),
                What::Replayed { seqs } if seqs.contains(&seq) => {
                    (s.at, s.repeat, s.looked_at, s.run_again, s.open_since) = (Where::Waits, true, false, false, past.utc);
                }
                What::Removed { seqs, .. } if seqs.contains(&seq) => return None,
                What::Expired { before } if free && s.open_since < *before => s.at = over("dropped", past),
                What::Began { .. } if answered => (s.at, s.repeat) = (Where::Waits, true),
                What::Began { reboot: true } => {
                    if let Where::With { until, .. } = &mut s.at {
                        *until = i64::MIN;
                    }
                }
                _ => {}
            }
        }
        Some(s)
    }

    /// All notices that are kept, in order.
    fn stories(&self) -> Vec<Story> {
        self.made().filter_map(|(i, _)| self.story(i)).collect()
    }

    /// What became of the push of a notice, if there is one.
    fn parcel(&self, from: usize) -> Option<Parcel> {
        let What::Made { seq, about: About::End(_), session, repeat, .. } = self.past[from].what else { return None };
        let mut d = Parcel { seq, session, due: Due::At(0), tries: 0, maybe_told: repeat };
        for past in &self.past[from + 1..] {
            let had = matches!(d.due, Due::With { .. });
            match &past.what {
                What::Taken { seqs, word, until } if seqs.contains(&seq) => {
                    d.maybe_told |= had;
                    d.tries += 1;
                    d.due = Due::With { word: *word, until: *until };
                }
                What::Pushed { seq: n, how } if *n == seq => match *how {
                    Push4::Delivered => d.due = Due::Delivered,
                    Push4::Again(after) => d.due = Due::At(past.up + after),
                    Push4::Later(after) => (d.due, d.tries) = (Due::At(past.up + after), d.tries - 1),
                    Push4::Dead => d.due = Due::Dead { utc: past.utc },
                },
                What::Revived { seqs } if seqs.contains(&seq) => (d.due, d.tries, d.maybe_told) = (Due::At(0), 0, true),
                What::Began { .. } if had => (d.due, d.maybe_told) = (Due::At(0), true),
                What::Began { reboot: true } if matches!(d.due, Due::At(_)) => d.due = Due::At(0),
                What::Removed { seqs, .. } if seqs.contains(&seq) => return None,
                _ => {}
            }
        }
        Some(d)
    }

    fn parcels(&self) -> Vec<Parcel> {
        self.made().filter_map(|(i, _)| self.parcel(i)).collect()
    }

    fn last(&self) -> u64 {
        self.made().map(|(_, seq)| seq).max().unwrap_or(0)
    }

    fn make(&mut self, about: About, same: bool, session: &'static str, life: &'static str, repeat: bool) -> Answer {
        if same {
            return Answer::Made(None);
        }
        let seq = self.last() + 1;
        self.add(What::Made { seq, about, session, life, repeat });
        Answer::Made(Some(seq))
    }

    fn ask(&mut self, (session, life, taker): (&'static str, &'static str, Taker), limit: usize, word: u32, lease: i64) -> Answer {
        if !life.is_empty() {
            self.add(What::Lived { session, life });
        }
        let now = self.past.len();
        let mut given = Vec::new();
        if life.is_empty() || self.life(session, now) == Some(life) {
            let mine = self.stories().into_iter().filter(|s| s.session == session && s.is_free(self.up));
            let can = mine.filter(|s| self.fate(s, taker, now) == Ok(true)).take(limit);
            given = can.map(|s| (s.seq, s.repeat || s.at != Where::Waits, s.given + 1)).collect::<Vec<_>>();
            let seqs: Vec<u64> = given.iter().map(|(seq, ..)| *seq).collect();
            // Whoever has enough looks no further.
            let seen_to = if seqs.len() == limit { seqs[limit - 1] } else { u64::MAX };
            self.add(What::Asked { session, taker, word, until: self.up + lease, given: seqs, seen_to });
        }
        let held = self.stories().into_iter().filter(|s| s.session == session).filter_map(|s| match s.at {
            Where::With { until, .. } if until > self.up => Some(until - self.up),
            _ => None,
        });
        Answer::Given(given, held.min())
    }

    fn settle(&mut self, seq: u64, word: Option<u32>, by: Option<&str>, how: How) -> Settled {
        let Some(story) = self.stories().into_iter().find(|s| s.seq == seq) else { return Settled::Unknown };
        if by.is_some_and(|by| by != story.session) {
            return Settled::Unknown;
        }
        match story.at {
            Where::Over { .. } => return Settled::Already,
            Where::Waits if how == How::Released => return Settled::Already,
            Where::With { word: has, .. } if word.is_some() && word != has => return Settled::Lost,
            Where::Waits | Where::With { .. } => {}
        }
        self.add(match how {
            How::Delivered => What::Told { seq },
            How::Released => What::Returned { seq, sure: word.is_some() },
            How::Dropped => What::Refused { seq },
        });
        Settled::Done
    }

    fn take(&mut self, limit: usize, word: u32, lease: i64) -> Answer {
        let (all, up) = (self.parcels(), self.up);
        let stories: BTreeMap<u64, bool> = self.stories().into_iter().map(|s| (s.seq, s.repeat)).collect();
        let mut taken = Vec::new();
        let mut closed = BTreeSet::new();
        for d in all {
            let (due, put_off) = match d.due {
                Due::At(at) => (at <= up, at > up && d.tries == 0),
                Due::With { until, .. } => (until <= up, false),
                Due::Delivered | Due::Dead { .. } => (false, false),
            };
            if put_off {
                closed.insert(d.session);
            }
            if due && !closed.contains(d.session) && taken.len() < limit {
                taken.push((d.seq, stories[&d.seq] || d.maybe_told || matches!(d.due, Due::With { .. }), d.tries));
            }
        }
        if !taken.is_empty() {
            self.add(What::Taken { seqs: taken.iter().map(|(seq, ..)| *seq).collect(), word, until: up + lease });
        }
        let later = self.parcels().into_iter().filter_map(|d| match d.due {
            Due::At(at) | Due::With { until: at, .. } if at > up => Some(at - up),
            _ => None,
        });
        Answer::Taken(taken, later.min())
    }

    fn push(&mut self, seq: u64, word: Option<u32>, how: Push4) -> Answer {
        let has = self.parcels().into_iter().any(|d| d.seq == seq && matches!(d.due, Due::With { word: has, .. } if Some(has) == word));
        if has {
            self.add(What::Pushed { seq, how });
        }
        Answer::Kept(has)
    }

    fn prune(&mut self, before: i64) {
        let parcels = self.parcels();
        let wanted = |seq| {
            let wants = |d: &Parcel| match d.due {
                Due::At(_) | Due::With { .. } => true,
                Due::Delivered => false,
                Due::Dead { utc } => utc >= before,
            };
            parcels.iter().any(|d| d.seq == seq && wants(d))
        };
        let stories = self.stories();
        let old = |s: &&Story| matches!(s.at, Where::Over { utc, .. } if utc < before) && !wanted(s.seq);
        let seqs: Vec<u64> = stories.iter().filter(old).map(|s| s.seq).collect();
        let known = |session: &str| {
            stories.iter().any(|s| s.session == session && !seqs.contains(&s.seq))
                || (0..PROCESSES).any(|p| whose(p).0 == session && !self.forgotten.contains(&p))
        };
        let sessions = SESSIONS.into_iter().filter(|s| !known(s)).collect();
        self.add(What::Removed { seqs, sessions });
    }
}

/// What no reading of the rules may break, from the answers alone.
#[derive(Default)]
struct Witness {
    /// Until when somebody has it.
    held: HashMap<u64, i64>,
    /// Given, and not returned since.
    out: HashSet<u64>,
    /// May have been told.
    maybe: HashSet<u64>,
    over: HashSet<u64>,
}

impl Witness {
    fn given(&mut self, entry: &Entry, session: &str, now: Moment, lease: i64) -> Result<(), String> {
        let (seq, notice) = (entry.notice.seq, &entry.notice);
        if notice.session_key != session {
            return Err(format!("{seq} was given to {session:?}"));
        }
        if self.over.contains(&seq) {
            return Err(format!("{seq} was settled and given again"));
        }
        if self.held.get(&seq).is_some_and(|until| *until > now.up) {
            return Err(format!("{seq} was given to two at once"));
        }
        if !self.out.insert(seq) {
            self.maybe.insert(seq);
        }
        if self.maybe.contains(&seq) && !notice.repeat {
            return Err(format!("{seq} may have been told, and is not marked"));
        }
        self.held.insert(seq, now.up + lease);
        Ok(())
    }

    fn settled(&mut self, seq: u64, how: How, sure: bool) {
        self.held.remove(&seq);
        if how != How::Released {
            self.over.insert(seq);
        } else if self.out.remove(&seq) && !sure {
            self.maybe.insert(seq);
        }
    }
}

/// The tables, the oracle and the witness, side by side.
struct World<'a> {
    db: &'a Connection,
    oracle: Oracle,
    witness: Witness,
    words: u32,
    /// The words with which a notice was given, and names of notices.
    given: HashMap<u64, Vec<u32>>,
    taken: HashMap<u64, u32>,
    last_given: Vec<u64>,
    last_taken: Vec<u64>,
    names: Vec<String>,
    boot: u32,
}

impl World<'_> {
    fn now(&self) -> Moment {
        Moment { utc: Time::from_micros(self.oracle.utc), up: self.oracle.up }
    }

    fn begin(&self) {
        begun(self.db, &format!("boot {}", self.boot), false, self.now().utc).unwrap();
    }

    fn known(&self, key: &str) -> bool {
        by_key(self.db, key).unwrap().is_some()
    }

    /// Does an act here and there, and compares what comes of it.
    fn play(&mut self, act: &Act) -> Result<(), String> {
        if let Act::Lost(act) = act {
            if !matches!(**act, Act::Pass { .. } | Act::SetClock { .. } | Act::Lost(_) | Act::Begin { .. } | Act::Forget { .. }) {
                self.db.prepare_cached("SAVEPOINT lost").unwrap().execute([]).unwrap();
                let word = self.words;
                self.act(act);
                self.words = word;
                self.db.execute_batch("ROLLBACK TO lost; RELEASE lost").unwrap();
            }
            self.oracle.add(What::Began { reboot: false });
            self.begin();
            return Ok(());
        }
        // The names of facts are unique, and whether one is there is no question of state.
        let same = match act {
            Act::Complete { p, .. } => self.known(&completion(*p, Owner::default()).key),
            Act::Match { p, at } => self.known(&matched(*p, *at, Owner::default()).key),
            Act::Post { session, name, .. } => self.known(&format!("posted/{session}{name}")),
            _ => false,
        };
        let word = self.words + 1;
        let (pick, count) = (|n: usize| (n % self.names.len().max(1)) as u64 + 1, self.names.len());
        let expected = match act {
            Act::Complete { p, .. } | Act::Match { p, .. } if self.oracle.forgotten.contains(p) => return Ok(()),
            Act::Complete { p, repeat } => self.oracle.make(About::End(*p), same, whose(*p).0, whose(*p).1, *repeat),
            Act::Match { p, .. } => self.oracle.make(About::Line(*p), same, whose(*p).0, whose(*p).1, false),
            Act::Post { session, life, .. } => self.oracle.make(About::Other, same, session, life, false),
            Act::Live { session, life } => {
                if !life.is_empty() {
                    self.oracle.add(What::Lived { session, life });
                }
                Answer::Nothing
            }
            Act::Claim { session, life, taker, limit, lease } => self.oracle.ask((session, life, *taker), *limit, word, *lease),
            Act::Settle { pick: n, word, by, own, how } => {
                if count == 0 {
                    return Ok(());
                }
                let seq = self.named(self.chosen(*n, &self.last_given));
                Answer::Settled(self.oracle.settle(seq, self.word_of(seq, *word), self.by(seq, *by, *own), *how))
            }
            Act::Consume { p } => self.oracle.note(What::Seen { p: *p }),
            Act::Observe { p } => self.oracle.note(What::Looked { p: *p }),
            Act::Hold { p } => self.oracle.note(What::Answering { p: *p }),
            Act::LetGo { p } => self.oracle.note(What::Left { p: *p }),
            Act::Supersede { p } => self.oracle.note(What::RunAgain { p: *p }),
            Act::Pass { micros } => {
                (self.oracle.up, self.oracle.utc) = (self.oracle.up + micros, self.oracle.utc + micros);
                return Ok(());
            }
            Act::SetClock { by } => {
                self.oracle.utc += by;
                return Ok(());
            }
            Act::Replay { pick: n, session } => {
                let from = pick(*n);
                let told = |s: &Story| {
                    s.seq >= from && session.is_none_or(|of| of == s.session) && matches!(s.at, Where::Over { state: "delivered", .. })
                };
                let seqs: Vec<u64> = self.oracle.stories().into_iter().filter(told).map(|s| s.seq).collect();
                let count = seqs.len() as u64;
                self.witness.over.retain(|seq| !seqs.contains(seq));
                self.witness.maybe.extend(&seqs);
                self.oracle.note(What::Replayed { seqs });
                Answer::Count(count)
            }
            Act::Prune { age } => {
                self.oracle.prune(self.oracle.utc - age);
                Answer::Nothing
            }
            Act::Expire { age } => {
                let before = self.oracle.utc - age;
                let old = |s: &Story| s.is_free(self.oracle.up) && s.open_since < before;
                let count = self.oracle.stories().into_iter().filter(old).count() as u64;
                self.oracle.note(What::Expired { before });
                Answer::Count(count)
            }
            Act::Begin { reboot } => {
                if *reboot {
                    self.boot += 1;
                    self.oracle.up = 1_000;
                    self.witness.held.clear();
                }
                self.oracle.note(What::Began { reboot: *reboot })
            }
            Act::Forget { p } => {
                self.oracle.forgotten.insert(*p);
                Answer::Nothing
            }
            Act::Take { limit, lease } => self.oracle.take(*limit, word, *lease),
            Act::Pushed { pick: n, right, how } => {
                let seq = self.chosen(*n, &self.last_taken);
                self.oracle.push(seq, self.taken.get(&seq).filter(|_| *right).copied(), *how)
            }
            Act::Revive { pick: n, session } => {
                let only = n.map(|n| if count == 0 { 0 } else { self.named(pick(n)) });
                let dead = |d: &Parcel| {
                    matches!(d.due, Due::Dead { .. }) && only.is_none_or(|seq| seq == d.seq) && session.is_none_or(|s| s == d.session)
                };
                let seqs: Vec<u64> = self.oracle.parcels().into_iter().filter(dead).map(|d| d.seq).collect();
                let count = seqs.len() as u64;
                self.oracle.note(What::Revived { seqs });
                Answer::Count(count)
            }
            Act::Lost(_) => unreachable!("dealt with above"),
        };
        let have = self.act(act);
        if have != expected {
            return Err(format!("{act:?} was answered {have:?}, and should have been {expected:?}"));
        }
        self.remember(act, &have)
    }

    /// The place that a number stands for.
    fn chosen(&self, pick: usize, last: &[u64]) -> u64 {
        match last.len() {
            many if many > 0 && pick.is_multiple_of(2) => last[many - 1 - (pick / 2) % many.min(3)],
            _ => (pick % self.names.len().max(1)) as u64 + 1,
        }
    }

    /// The place of the newest notice that has this one's name: a fact that is read again after its notice was removed is told under the same.
    fn named(&self, seq: u64) -> u64 {
        let name = &self.names[seq as usize - 1];
        self.names.iter().rposition(|n| n == name).map_or(seq, |at| at as u64 + 1)
    }

    fn word_of(&self, seq: u64, word: Word) -> Option<u32> {
        let given = self.given.get(&seq);
        match word {
            Word::Newest => Some(given.and_then(|g| g.last().copied()).unwrap_or(0)),
            Word::First => Some(given.and_then(|g| g.first().copied()).unwrap_or(0)),
            Word::Guessed => Some(0),
            Word::None => None,
        }
    }

    fn by(&self, seq: u64, by: Option<&'static str>, own: bool) -> Option<&'static str> {
        let session = self.oracle.past.iter().find_map(|p| match p.what {
            What::Made { seq: n, session, .. } if n == seq => Some(session),
            _ => None,
        });
        if own { by.and(session) } else { by }
    }

    /// Does an act on the tables.
    fn act(&mut self, act: &Act) -> Answer {
        let (db, now, sinks) = (self.db, self.now(), sinks());
        let put = |draft: &Draft| Answer::Made(insert(db, draft, &sinks, now).unwrap());
        let nth = |n: usize| n % self.names.len().max(1);
        let name = |p: &u8| id(*p).to_string();
        match act {
            Act::Complete { p, repeat } => put(&Draft { repeat: *repeat, ..completion(*p, owner(whose(*p).0, whose(*p).1)) }),
            Act::Match { p, at } => put(&matched(*p, *at, owner(whose(*p).0, whose(*p).1))),
            Act::Post { session, life, name } => put(&posted(&format!("{session}{name}"), owner(session, life), "")),
            Act::Live { session, life } => done(lives(db, session, life)),
            Act::Claim { session, life, taker, limit, lease } => {
                self.words += 1;
                let asks = Claim {
                    session: (*session).into(),
                    generation: (*life).into(),
                    taker: *taker,
                    limit: *limit,
                    lease: self.words.to_string(),
                    lease_for: *lease,
                    now,
                };
                let given = claim(db, &asks).unwrap();
                let lapse = next_lapse(db, session, now).unwrap().map(|d| d.as_micros() as i64);
                Answer::Given(given.iter().map(|e| (e.notice.seq, e.notice.repeat, e.attempts)).collect(), lapse)
            }
            Act::Settle { pick, word, by, own, how } => {
                if self.names.is_empty() {
                    return Answer::Nothing;
                }
                let seq = self.named(self.chosen(*pick, &self.last_given));
                let id = &self.names[seq as usize - 1];
                let verdict = match how {
                    How::Delivered => Verdict::Delivered,
                    How::Released => Verdict::Released,
                    How::Dropped => Verdict::Dropped("no".into()),
                };
                let word = self.word_of(seq, *word).map(|w| w.to_string());
                Answer::Settled(judge(db, id, self.by(seq, *by, *own), word.as_deref(), &verdict, now.utc).unwrap().settled)
            }
            Act::Consume { p } => done(consume(db, &name(p), "wait", now)),
            Act::Observe { p } => done(observe(db, &name(p))),
            Act::Hold { p } => done(hold(db, &name(p), now)),
            Act::LetGo { p } => done(let_go(db, &name(p))),
            Act::Supersede { p } => done(supersede(db, &name(p), "another", now)),
            Act::Replay { pick, session } => Answer::Count(replay(db, nth(*pick) as u64 + 1, *session, now.utc).unwrap()),
            Act::Prune { age } => {
                let before = Time::from_micros(now.utc.micros() - age);
                while prune(db, before, &sinks).unwrap() {}
                done(sweep(db, before))
            }
            Act::Expire { age } => Answer::Count(expire(db, Time::from_micros(now.utc.micros() - age), now).unwrap()),
            Act::Begin { .. } => {
                self.begin();
                Answer::Nothing
            }
            Act::Forget { p } => {
                db.prepare_cached("DELETE FROM process WHERE id = ?1").unwrap().execute([name(p)]).unwrap();
                Answer::Nothing
            }
            Act::Take { limit, lease } => {
                self.words += 1;
                let taken = take(db, "hook", *limit, &self.words.to_string(), *lease, now).unwrap();
                let later = next_due(db, "hook", now).unwrap().map(|d| d.as_micros() as i64);
                Answer::Taken(taken.iter().map(|o| (o.entry.notice.seq, o.entry.notice.repeat, o.attempts)).collect(), later)
            }
            Act::Pushed { pick, right, how } => {
                let seq = self.chosen(*pick, &self.last_taken);
                let after = |micros: i64| Duration::from_micros(micros as u64);
                let how = match *how {
                    Push4::Delivered => Pushed::Delivered,
                    Push4::Again(micros) => Pushed::Again { after: after(micros), reason: "busy".into() },
                    Push4::Later(micros) => Pushed::Later { after: after(micros) },
                    Push4::Dead => Pushed::Dead { reason: "gone".into() },
                };
                let word = self.taken.get(&seq).filter(|_| *right).map_or_else(|| "guessed".into(), ToString::to_string);
                Answer::Kept(pushed(db, "hook", seq, &word, &how, now).unwrap())
            }
            Act::Revive { pick, session } => {
                let id = pick.map(|n| self.names.get(nth(n)).cloned().unwrap_or_default());
                Answer::Count(revive(db, id.as_deref(), None, *session).unwrap())
            }
            Act::Pass { .. } | Act::SetClock { .. } | Act::Lost(_) => Answer::Nothing,
        }
    }

    /// What later acts refer to, and what the witness saw.
    fn remember(&mut self, act: &Act, answer: &Answer) -> Result<(), String> {
        match (act, answer) {
            (_, Answer::Made(Some(seq))) => {
                let id = self.db.prepare_cached("SELECT id FROM notice WHERE seq = ?1").unwrap().query_row([*seq as i64], |r| r.get(0));
                self.names.push(id.unwrap());
                if *seq != self.names.len() as u64 || last_seq(self.db).unwrap() != *seq {
                    return Err(format!("{seq} is not the next place"));
                }
            }
            (Act::Claim { session, lease, .. }, Answer::Given(given, _)) => {
                self.last_given.extend(given.iter().map(|(seq, ..)| *seq));
                for (seq, ..) in given {
                    self.given.entry(*seq).or_default().push(self.words);
                    let entry = by_id(self.db, &self.names[*seq as usize - 1]).unwrap().unwrap();
                    self.witness.given(&entry, session, self.now(), *lease)?;
                }
            }
            (Act::Settle { pick, word, how, .. }, Answer::Settled(Settled::Done)) => {
                self.witness.settled(self.named(self.chosen(*pick, &self.last_given)), *how, *word != Word::None);
            }
            (_, Answer::Taken(taken, _)) => {
                self.last_taken.extend(taken.iter().map(|(seq, ..)| *seq));
                self.taken.extend(taken.iter().map(|(seq, ..)| (*seq, self.words)));
            }
            _ => {}
        }
        Ok(())
    }

    /// Compares all that is left.
    fn compare(&self) -> Result<(), String> {
        type State = (u64, String, u32, bool, bool, String);
        let have: Vec<State> = {
            let mut all = self
                .db
                .prepare_cached(
                    "SELECT seq, state, attempts, maybe_told, observed AND settled_at = 0, lease, reason FROM notice ORDER BY seq",
                )
                .unwrap();
            let row = |r: &rusqlite::Row<'_>| {
                let (state, reason): (String, String) = (r.get(1)?, r.get(6)?);
                assert!(!reason.is_empty() || !["consumed", "superseded", "dropped"].contains(&state.as_str()), "{state} without a reason");
                Ok((r.get::<_, i64>(0)? as u64, state, r.get(2)?, r.get(3)?, r.get(4)?, r.get(5)?))
            };
            all.query_map([], row).unwrap().map(Result::unwrap).collect()
        };
        let want: Vec<State> = self
            .oracle
            .stories()
            .into_iter()
            .map(|s| {
                let (state, lease) = match s.at {
                    Where::Waits => ("pending", String::new()),
                    Where::With { word: Some(word), .. } => ("leased", word.to_string()),
                    Where::With { word: None, .. } => ("leased", "answer".into()),
                    Where::Over { state, .. } => (state, String::new()),
                };
                let open = !matches!(s.at, Where::Over { .. });
                (s.seq, state.into(), s.given, s.repeat, s.looked_at && open, lease)
            })
            .collect();
        if have != want {
            return Err(format!("notices are {have:#?}, and should be {want:#?}"));
        }
        let mut pushes = self.db.prepare_cached("SELECT seq, state, attempts, maybe_told FROM delivery ORDER BY seq").unwrap();
        let have: Vec<(u64, String, u32, bool)> = pushes
            .query_map([], |r| Ok((r.get::<_, i64>(0)? as u64, r.get(1)?, r.get(2)?, r.get(3)?)))
            .unwrap()
            .map(Result::unwrap)
            // Those of notices that are gone are swept up later, and nobody is given them.
            .filter(|d: &(u64, String, u32, bool)| want.iter().any(|w| w.0 == d.0))
            .collect();
        let state = |due: &Due| match due {
            Due::At(_) => "pending",
            Due::With { .. } => "leased",
            Due::Delivered => "delivered",
            Due::Dead { .. } => "dead",
        };
        let want: Vec<_> = self.oracle.parcels().iter().map(|d| (d.seq, state(&d.due).to_owned(), d.tries, d.maybe_told)).collect();
        if have != want {
            return Err(format!("pushes are {have:#?}, and should be {want:#?}"));
        }
        for p in (0..PROCESSES).filter(|p| !self.oracle.forgotten.contains(p)) {
            let (have, want) = (is_consumed(self.db, &id(p).to_string()).unwrap(), self.oracle.seen(p, self.oracle.past.len()));
            if have != want {
                return Err(format!("that the end of {p} was seen is {have}, and should be {want}"));
            }
        }
        Ok(())
    }
}

impl Oracle {
    fn note(&mut self, what: What) -> Answer {
        self.add(what);
        Answer::Nothing
    }
}

fn done(result: rusqlite::Result<()>) -> Answer {
    result.unwrap();
    Answer::Nothing
}

fn sinks() -> Vec<Push> {
    vec![Push { name: "hook".into(), kinds: vec!["completion".into()], sessions: Vec::new() }]
}

fn history(db: &Connection, acts: &[Act]) -> Result<(), String> {
    db.prepare_cached("BEGIN").unwrap().execute([]).unwrap();
    for p in 0..PROCESSES {
        remember(db, p, whose(p).0);
    }
    let oracle = Oracle { up: 1_000_000, utc: 1_000_000_000_000_000, ..Oracle::default() };
    let mut world = World {
        db,
        oracle,
        witness: Witness::default(),
        words: 0,
        given: HashMap::new(),
        taken: HashMap::new(),
        last_given: Vec::new(),
        last_taken: Vec::new(),
        names: Vec::new(),
        boot: 0,
    };
    world.begin();
    let played = acts.iter().try_for_each(|act| world.play(act)).and_then(|()| world.compare());
    db.prepare_cached("ROLLBACK").unwrap().execute([]).unwrap();
    played
}

/// As many as `PROPTEST_CASES` says, on as many threads as there are cores.
#[test]
fn every_answer_is_that_of_the_whole_history() {
    let Config { cases, .. } = Config::default();
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(cases as usize).max(1) as u32;
    let (played, began) = (AtomicU64::new(0), Instant::now());
    let one = |n: u32| {
        let cases = cases / threads + u32::from(n < cases % threads);
        let config = Config { cases, failure_persistence: None, max_shrink_iters: 20_000, ..Config::default() };
        let db = tables();
        TestRunner::new(config).run(&vec(act(), 5..30), |acts| {
            let so_far = played.fetch_add(1, Ordering::Relaxed) + 1;
            if so_far.is_multiple_of(100_000) {
                println!("{so_far} histories of notices, {:.0} s", began.elapsed().as_secs_f64());
            }
            history(&db, &acts).map_err(TestCaseError::fail)
        })
    };
    let results: Vec<_> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|n| scope.spawn(move || one(n).map_err(|e| e.to_string()))).collect();
        all.into_iter().map(|t| t.join().unwrap()).collect()
    });
    for result in results {
        result.unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}
