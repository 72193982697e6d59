//! A second reading of the rules, which keeps no state: each answer is computed from everything that happened.

use super::super::*;
use super::act::*;
use std::collections::{BTreeMap, BTreeSet};

/// The answer to an act, in the same form from both sides.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    Nothing,
    Made(Option<u64>),
    /// Number, repeat mark and count of leases of each notice; and how long a taker that gets nothing would wait.
    Given(Vec<(u64, bool, u32)>, Option<i64>),
    Settled(SettleReply),
    Count(u64),
    Taken(Vec<(u64, bool, u32)>, Option<i64>),
    Kept(bool),
}

/// What a notice is about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum About {
    End(u8),
    Line(u8),
    Other,
}

/// One thing that happened. Answers are among them: only here it is remembered who leased what.
#[derive(Debug, Clone)]
pub(super) enum What {
    Made { seq: u64, about: About, session: &'static str, life: &'static str, repeat: bool },
    Lived { session: &'static str, life: &'static str, by: NamedBy },
    Asked { session: &'static str, taker: TakerKind, decides: bool, word: u32, until: i64, given: Vec<u64>, seen_to: u64 },
    Told { seq: u64 },
    Returned { seq: u64, sure: bool },
    Refused { seq: u64 },
    Seen { p: u8 },
    Looked { p: u8 },
    Answering { p: u8 },
    Left { p: u8 },
    Kept { p: u8, until: i64 },
    GivenBack { p: u8 },
    RunAgain { p: u8 },
    Replayed { seqs: Vec<u64> },
    Removed { seqs: Vec<u64>, sessions: Vec<&'static str> },
    Expired { before: i64 },
    Began { reboot: bool },
    Taken { seqs: Vec<u64>, word: u32, until: i64 },
    PushResult { seq: u64, how: Push4 },
    Revived { seqs: Vec<u64> },
}

#[derive(Debug)]
pub(super) struct Past {
    pub(super) what: What,
    pub(super) up: i64,
    pub(super) utc: i64,
}

/// Where a notice stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Where {
    Waits,
    /// Leased. Without a token, it is held for an answer.
    With {
        word: Option<u32>,
        until: i64,
    },
    Over {
        state: &'static str,
        utc: i64,
    },
}

/// Everything about a notice.
#[derive(Debug, Clone)]
pub(super) struct Story {
    pub(super) seq: u64,
    pub(super) about: About,
    pub(super) session: &'static str,
    pub(super) life: &'static str,
    pub(super) at: Where,
    pub(super) repeat: bool,
    pub(super) given: u32,
    pub(super) looked_at: bool,
    pub(super) run_again: bool,
    pub(super) open_since: i64,
}

impl Story {
    pub(super) fn is_free(&self, up: i64) -> bool {
        match self.at {
            Where::Waits => true,
            Where::With { until, .. } => until <= up,
            Where::Over { .. } => false,
        }
    }
}

/// The state of a delivery.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Due {
    At(i64),
    With { word: u32, until: i64 },
    Delivered,
    Dead { utc: i64 },
}

#[derive(Debug, Clone)]
pub(super) struct Parcel {
    pub(super) seq: u64,
    pub(super) session: &'static str,
    pub(super) due: Due,
    pub(super) tries: u32,
    pub(super) maybe_told: bool,
}

/// The second reading: everything that happened, and questions to it.
#[derive(Default)]
pub(super) struct Oracle {
    pub(super) past: Vec<Past>,
    pub(super) forgotten: BTreeSet<u8>,
    pub(super) up: i64,
    pub(super) utc: i64,
}

impl Oracle {
    pub(super) fn add(&mut self, what: What) {
        let (up, utc) = (self.up, self.utc);
        self.past.push(Past { what, up, utc });
    }

    pub(super) fn made(&self) -> impl Iterator<Item = (usize, u64)> {
        self.past.iter().enumerate().filter_map(|(i, p)| if let What::Made { seq, .. } = p.what { Some((i, seq)) } else { None })
    }

    /// The notice of the end of a process, among all that ever existed.
    pub(super) fn ends(&self, p: u8, seq: u64) -> bool {
        self.past.iter().any(|past| matches!(past.what, What::Made { seq: s, about: About::End(of), .. } if s == seq && of == p))
    }

    /// Whether the owner of a process had seen its end before something happened. The last event about that counts.
    pub(super) fn seen(&self, p: u8, before: usize) -> bool {
        let word = |past: &Past| match &past.what {
            What::Seen { p: of } if *of == p => Some(true),
            What::Told { seq } if self.ends(p, *seq) => Some(true),
            What::Replayed { seqs } if seqs.iter().any(|seq| self.ends(p, *seq)) => Some(false),
            _ => None,
        };
        self.past[..before].iter().rev().find_map(word).unwrap_or(false)
    }

    /// The newest generation of a session: the one that the gateway named last, or else the one whose first request came last.
    pub(super) fn life(&self, session: &str, before: usize) -> Option<&'static str> {
        let named = self.named(session, before);
        let of_gateway = named.iter().rev().find(|(_, by)| *by == NamedBy::Gateway);
        let is_new = |at: &usize| named[..*at].iter().all(|(life, _)| *life != named[*at].0);
        of_gateway.or_else(|| (0..named.len()).rev().find(is_new).map(|at| &named[at])).map(|(life, _)| *life)
    }

    /// Each time that a generation of a session was named since its index was empty, and by whom.
    fn named(&self, session: &str, before: usize) -> Vec<(&'static str, NamedBy)> {
        let past = &self.past[..before];
        let since = past.iter().rposition(|p| matches!(&p.what, What::Removed { sessions, .. } if sessions.contains(&session)));
        let of_session = |p: &Past| match p.what {
            What::Lived { session: s, life, by } if s == session => Some((life, by)),
            _ => None,
        };
        past[since.map_or(0, |i| i + 1)..].iter().filter_map(of_session).collect()
    }

    /// What a claim decides about a free notice: how it is settled, or that it may be leased. `decides`: the gateway claims for a generation of its
    /// session, so notices of any other are dropped.
    pub(super) fn fate(&self, story: &Story, taker: TakerKind, decides: bool, now: usize) -> Result<bool, &'static str> {
        let for_another = !story.life.is_empty() && self.life(story.session, now).is_some_and(|life| story.life != life);
        let was_named = || self.named(story.session, now).iter().any(|(life, _)| *life == story.life);
        match story.about {
            _ if for_another && (decides || was_named()) => Err("dropped"),
            _ if for_another => Ok(false),
            About::End(p) if self.seen(p, now) => Err("consumed"),
            About::End(_) if story.run_again => Err("superseded"),
            About::End(_) => Ok(taker == TakerKind::Gateway || !story.looked_at),
            About::Line(p) if taker == TakerKind::Gateway && self.seen(p, now) => Err("dropped"),
            About::Line(_) | About::Other => Ok(true),
        }
    }

    /// What became of the notice that was made as the `from`th thing.
    pub(super) fn story(&self, from: usize) -> Option<Story> {
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
            // It is held for an answer, or reserved for one.
            let answered = matches!(s.at, Where::With { word: None, .. });
            // A notice that was not leased, or was only reserved, cannot have been delivered.
            let touched = s.at != Where::Waits && s.given > 0;
            match &past.what {
                What::Asked { session: asker, taker, decides, word, until, given, seen_to } => {
                    if *asker != session || seq > *seen_to || !free {
                        continue;
                    }
                    match self.fate(&s, *taker, *decides, i) {
                        Err(state) => s.at = over(state, past),
                        Ok(_) if given.contains(&seq) => {
                            s.repeat |= touched;
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
                What::Answering { p } if of(*p) && !free && !answered => s.repeat |= matches!(s.at, Where::With { .. }),
                What::Answering { p } if of(*p) => {
                    s.repeat |= touched;
                    s.given += 1;
                    s.at = Where::With { word: None, until: up + 60_000_000 };
                }
                What::Left { p } if of(*p) && answered && touched => (s.at, s.repeat) = (Where::Waits, true),
                What::Kept { p, until } if of(*p) && s.at == Where::Waits && s.given == 0 => {
                    s.at = Where::With { word: None, until: *until }
                }
                What::GivenBack { p } if of(*p) && answered && !touched => s.at = Where::Waits,
                What::RunAgain { p } if of(*p) && free => s.at = over("superseded", past),
                What::RunAgain { p } if of(*p) => s.run_again |= matches!(s.at, Where::With { .. }),
                What::Replayed { seqs } if seqs.contains(&seq) => {
                    (s.at, s.repeat, s.looked_at, s.run_again, s.open_since) = (Where::Waits, true, false, false, past.utc);
                }
                What::Removed { seqs, .. } if seqs.contains(&seq) => return None,
                What::Expired { before } if free && s.open_since < *before => s.at = over("dropped", past),
                What::Began { .. } if answered && touched => (s.at, s.repeat) = (Where::Waits, true),
                What::Began { reboot } => {
                    if let Where::With { word, until } = &mut s.at {
                        // A client that waited may come back to the next engine, but not after a reboot.
                        *until = match (reboot, word) {
                            (true, _) => i64::MIN,
                            (false, None) => up.saturating_add(ANNOUNCED_WAIT_TIMEOUT).min(*until),
                            (false, Some(_)) => *until,
                        };
                    }
                }
                _ => {}
            }
        }
        Some(s)
    }

    /// All notices that are kept, in order.
    pub(super) fn stories(&self) -> Vec<Story> {
        self.made().filter_map(|(i, _)| self.story(i)).collect()
    }

    /// The delivery of a notice, if there is one.
    pub(super) fn parcel(&self, from: usize) -> Option<Parcel> {
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
                What::PushResult { seq: n, how } if *n == seq => match *how {
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

    pub(super) fn parcels(&self) -> Vec<Parcel> {
        self.made().filter_map(|(i, _)| self.parcel(i)).collect()
    }

    pub(super) fn last(&self) -> u64 {
        self.made().map(|(_, seq)| seq).max().unwrap_or(0)
    }

    pub(super) fn make(&mut self, about: About, same: bool, session: &'static str, life: &'static str, repeat: bool) -> Answer {
        if same {
            return Answer::Made(None);
        }
        let seq = self.last() + 1;
        self.add(What::Made { seq, about, session, life, repeat });
        Answer::Made(Some(seq))
    }

    pub(super) fn ask(
        &mut self,
        (session, life, by, taker): (&'static str, &'static str, NamedBy, TakerKind),
        limit: usize,
        word: u32,
        lease: i64,
    ) -> Answer {
        if !life.is_empty() {
            self.add(What::Lived { session, life, by });
        }
        let decides = by == NamedBy::Gateway && !life.is_empty();
        let now = self.past.len();
        let mut given = Vec::new();
        if life.is_empty() || self.life(session, now) == Some(life) {
            let mine = self.stories().into_iter().filter(|s| s.session == session && s.is_free(self.up));
            let can = mine.filter(|s| self.fate(s, taker, decides, now) == Ok(true)).take(limit);
            given = can.map(|s| (s.seq, s.repeat || (s.at != Where::Waits && s.given > 0), s.given + 1)).collect::<Vec<_>>();
            let seqs: Vec<u64> = given.iter().map(|(seq, ..)| *seq).collect();
            // A claim that has reached its limit reads no further.
            let seen_to = if seqs.len() == limit { seqs[limit - 1] } else { u64::MAX };
            self.add(What::Asked { session, taker, decides, word, until: self.up + lease, given: seqs, seen_to });
        }
        let held = self.stories().into_iter().filter(|s| s.session == session).filter_map(|s| match s.at {
            Where::With { until, .. } if until > self.up => Some(until - self.up),
            _ => None,
        });
        Answer::Given(given, held.min())
    }

    pub(super) fn settle(&mut self, seq: u64, word: Option<u32>, by: Option<&str>, how: How) -> SettleReply {
        let Some(story) = self.stories().into_iter().find(|s| s.seq == seq) else { return SettleReply::Unknown };
        if by.is_some_and(|by| by != story.session) {
            return SettleReply::Unknown;
        }
        match story.at {
            Where::Over { .. } => return SettleReply::Already,
            Where::Waits if word.is_some() && story.given == 0 && !story.repeat => return SettleReply::Lost,
            Where::Waits if how == How::Released => return SettleReply::Already,
            Where::With { word: has, .. } if word.is_some() && word != has => return SettleReply::Lost,
            Where::Waits | Where::With { .. } => {}
        }
        self.add(match how {
            How::Delivered => What::Told { seq },
            How::Released => What::Returned { seq, sure: word.is_some() },
            How::Dropped => What::Refused { seq },
        });
        SettleReply::Done
    }

    pub(super) fn take(&mut self, limit: usize, word: u32, lease: i64) -> Answer {
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

    pub(super) fn push(&mut self, seq: u64, word: Option<u32>, how: Push4) -> Answer {
        let has = self.parcels().into_iter().any(|d| d.seq == seq && matches!(d.due, Due::With { word: has, .. } if Some(has) == word));
        if has {
            self.add(What::PushResult { seq, how });
        }
        Answer::Kept(has)
    }

    pub(super) fn prune(&mut self, before: i64) {
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

impl Oracle {
    pub(super) fn note(&mut self, what: What) -> Answer {
        self.add(what);
        Answer::Nothing
    }
}
