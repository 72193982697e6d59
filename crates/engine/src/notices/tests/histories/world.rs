//! The tables and the oracle, side by side.

use super::super::*;
use super::act::*;
use super::oracle::*;
use std::collections::{HashMap, HashSet};

/// Checks invariants that hold under any reading of the rules, from the answers alone.
#[derive(Default)]
pub(super) struct Witness {
    /// Until when a taker has it.
    pub(super) held: HashMap<u64, i64>,
    /// Given, and not returned since.
    pub(super) out: HashSet<u64>,
    /// Whether it may have been delivered.
    pub(super) maybe: HashSet<u64>,
    pub(super) over: HashSet<u64>,
}

impl Witness {
    pub(super) fn given(&mut self, entry: &NoticeEntry, session: &str, now: Moment, lease: i64) -> Result<(), String> {
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

    pub(super) fn settled(&mut self, seq: u64, how: How, sure: bool) {
        self.held.remove(&seq);
        if how != How::Released {
            self.over.insert(seq);
        } else if self.out.remove(&seq) && !sure {
            self.maybe.insert(seq);
        }
    }
}

/// The tables, the oracle and the witness, side by side.
pub(super) struct World<'a> {
    pub(super) db: &'a Connection,
    pub(super) oracle: Oracle,
    pub(super) witness: Witness,
    pub(super) words: u32,
    /// The lease tokens of each notice, and the ids of notices.
    pub(super) given: HashMap<u64, Vec<u32>>,
    pub(super) taken: HashMap<u64, u32>,
    pub(super) last_given: Vec<u64>,
    pub(super) last_taken: Vec<u64>,
    pub(super) names: Vec<String>,
    pub(super) boot: u32,
}

impl World<'_> {
    pub(super) fn now(&self) -> Moment {
        Moment { utc: Time::from_micros(self.oracle.utc), up: self.oracle.up }
    }

    pub(super) fn begin(&self) {
        engine_started(self.db, &format!("boot {}", self.boot), false, self.now()).unwrap();
    }

    pub(super) fn known(&self, key: &str) -> bool {
        by_key(self.db, key).unwrap().is_some()
    }

    /// Does an act on both sides, and compares the results.
    pub(super) fn play(&mut self, act: &Act) -> Result<(), String> {
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
            Act::Complete { p, repeat, kept } => {
                let made = self.oracle.make(About::End(*p), same, whose(*p).0, whose(*p).1, *repeat);
                if let Some(micros) = kept {
                    self.oracle.add(What::Kept { p: *p, until: self.oracle.up + micros });
                }
                made
            }
            Act::Match { p, .. } => self.oracle.make(About::Line(*p), same, whose(*p).0, whose(*p).1, false),
            Act::Post { session, life, .. } => self.oracle.make(About::Other, same, session, life, false),
            Act::Live { session, life, by } => {
                if !life.is_empty() {
                    self.oracle.add(What::Lived { session, life, by: *by });
                }
                Answer::Nothing
            }
            Act::Claim { session, life, by, taker, limit, lease } => self.oracle.ask((session, life, *by, *taker), *limit, word, *lease),
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
            Act::GiveBack { p } => self.oracle.note(What::GivenBack { p: *p }),
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
            Act::PushResult { pick: n, right, how } => {
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

    /// The notice that a number stands for.
    pub(super) fn chosen(&self, pick: usize, last: &[u64]) -> u64 {
        match last.len() {
            many if many > 0 && pick.is_multiple_of(2) => last[many - 1 - (pick / 2) % many.min(3)],
            _ => (pick % self.names.len().max(1)) as u64 + 1,
        }
    }

    /// The number of the newest notice with this one's id: a fact that is read again after its notice was removed gets the same id.
    pub(super) fn named(&self, seq: u64) -> u64 {
        let name = &self.names[seq as usize - 1];
        self.names.iter().rposition(|n| n == name).map_or(seq, |at| at as u64 + 1)
    }

    pub(super) fn word_of(&self, seq: u64, word: Word) -> Option<u32> {
        let given = self.given.get(&seq);
        match word {
            Word::Newest => Some(given.and_then(|g| g.last().copied()).unwrap_or(0)),
            Word::First => Some(given.and_then(|g| g.first().copied()).unwrap_or(0)),
            Word::Guessed => Some(0),
            Word::None => None,
        }
    }

    pub(super) fn by(&self, seq: u64, by: Option<&'static str>, own: bool) -> Option<&'static str> {
        let session = self.oracle.past.iter().find_map(|p| match p.what {
            What::Made { seq: n, session, .. } if n == seq => Some(session),
            _ => None,
        });
        if own { by.and(session) } else { by }
    }

    /// Does an act on the tables.
    pub(super) fn act(&mut self, act: &Act) -> Answer {
        let (db, now, sinks) = (self.db, self.now(), sinks());
        let put = |draft: &NoticeDraft| Answer::Made(insert(db, draft, &sinks, now).unwrap());
        let nth = |n: usize| n % self.names.len().max(1);
        let name = |p: &u8| id(*p).to_string();
        match act {
            Act::Complete { p, repeat, kept } => {
                let draft = NoticeDraft { repeat: *repeat, ..completion(*p, owner(whose(*p).0, whose(*p).1)) };
                let made = put(&draft);
                if let Some(micros) = kept {
                    reserve(db, &draft.key, *micros, now).unwrap();
                }
                made
            }
            Act::Match { p, at } => put(&matched(*p, *at, owner(whose(*p).0, whose(*p).1))),
            Act::Post { session, life, name } => put(&posted(&format!("{session}{name}"), owner(session, life), "")),
            Act::Live { session, life, by } => done(note_generation(db, session, life, *by)),
            Act::Claim { session, life, by, taker, limit, lease } => {
                self.words += 1;
                let asks = Claim {
                    session: (*session).into(),
                    generation: (*life).into(),
                    named_by: *by,
                    taker: *taker,
                    asker: None,
                    asked: false,
                    limit: *limit,
                    lease: self.words.to_string(),
                    lease_for: *lease,
                    now,
                };
                let given = claim(db, &asks).unwrap().given;
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
                    How::Dropped => Verdict::Dropped { reason: "no".into() },
                };
                let word = self.word_of(seq, *word).map(|w| w.to_string());
                Answer::Settled(settle(db, id, self.by(seq, *by, *own), word.as_deref(), &verdict, now).unwrap().settled)
            }
            Act::Consume { p } => done(end_seen(db, &name(p), "wait", now)),
            Act::Observe { p } => done(observe(db, &name(p), now)),
            Act::Hold { p } => done(answer_begins(db, &end_key(name(p)), now)),
            Act::LetGo { p } => done(answer_failed(db, &end_key(name(p)), now)),
            Act::GiveBack { p } => done(waiters_left(db, &completion(*p, Owner::default()).key, false, now).map(|_| ())),
            Act::Supersede { p } => done(supersede(db, &name(p), "another", now)),
            Act::Replay { pick, session } => Answer::Count(replay(db, nth(*pick) as u64 + 1, *session, &sinks, now).unwrap().0),
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
            Act::PushResult { pick, right, how } => {
                let seq = self.chosen(*pick, &self.last_taken);
                let after = |micros: i64| Duration::from_micros(micros as u64);
                let how = match *how {
                    Push4::Delivered => PushResult::Delivered,
                    Push4::Again(micros) => PushResult::Again { after: after(micros), reason: "busy".into() },
                    Push4::Later(micros) => PushResult::Later { after: after(micros) },
                    Push4::Dead => PushResult::Dead { reason: "gone".into() },
                };
                let word = self.taken.get(&seq).filter(|_| *right).map_or_else(|| "guessed".into(), ToString::to_string);
                Answer::Kept(pushed(db, "hook", seq, &word, &how, now).unwrap())
            }
            Act::Revive { pick, session } => {
                let id = pick.map(|n| self.names.get(nth(n)).cloned().unwrap_or_default());
                Answer::Count(revive(db, id.as_deref(), None, *session, now).unwrap())
            }
            Act::Pass { .. } | Act::SetClock { .. } | Act::Lost(_) => Answer::Nothing,
        }
    }

    /// Records what later acts refer to, and what the witness saw.
    pub(super) fn remember(&mut self, act: &Act, answer: &Answer) -> Result<(), String> {
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
            (Act::Settle { pick, word, how, .. }, Answer::Settled(SettleReply::Done)) => {
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
    pub(super) fn compare(&self) -> Result<(), String> {
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
                    // It is reserved, or being answered.
                    Where::With { word: None, .. } => (if s.given == 0 { "reserved" } else { "answering" }, String::new()),
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
            // Deliveries of removed notices are swept up later, and no sink gets them.
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

pub(super) fn done(result: rusqlite::Result<()>) -> Answer {
    result.unwrap();
    Answer::Nothing
}

pub(super) fn sinks() -> Vec<Push> {
    vec![Push { kinds: vec!["completion".into()], ..Push::observer("hook") }]
}
