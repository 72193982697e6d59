//! The tables and the transition functions, side by side: each act is done on both, and after each act both must agree on every notice and
//! every delivery. `OUTLAST_LOCKSTEP` is the number of histories to play.
//!
//! `histories` has an oracle that knows the rules but not the functions. This test knows the functions but not the rules: it finds a verb
//! that selects the wrong rows, or loads or stores a state wrongly.

use super::*;
use outlast_core::notice_state as ns;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Sessions and generations of the processes.
const OWNERS: [(&str, &str); 4] = [("a", ""), ("a", "g1"), ("a", "g2"), ("b", "")];
const HOOK: &str = "hook";
const WAKER: &str = "waker";

/// A small random number generator, so that a history can be played again by its number.
struct Random(u64);

impl Random {
    fn of_history(n: u64) -> Self {
        let mut random = Self(0x9e37_79b9_7f4a_7c15 ^ (n + 1).wrapping_mul(0x2545_f491_4f6c_dd1d));
        (0..4).for_each(|_| _ = random.next());
        random
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of the last three.
    fn recent<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        let newest = all.len().checked_sub(1)?;
        all.get(newest - self.below(all.len().min(3))).cloned()
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    End,
    Output,
    Posted,
}

struct Tracked {
    notice: ns::TrackedNotice,
    kind: Kind,
    process: Option<u8>,
    session: &'static str,
    generation: &'static str,
    /// Its name in the tables.
    id: String,
}

/// All that the tables hold, as values that only the functions change.
struct Model {
    notices: BTreeMap<u64, Tracked>,
    deliveries: BTreeMap<(&'static str, u64), ns::Delivery>,
    /// Processes whose end was seen.
    seen: BTreeSet<u8>,
    generations: HashMap<&'static str, Vec<&'static str>>,
    /// Notices with an answer that was prepared as they were written.
    prepared: BTreeSet<u64>,
    /// Every lease that a taker or a sink was given, newest last.
    leases: Vec<(u64, String)>,
    /// Every lease of a delivery, newest last.
    lent: Vec<(&'static str, u64, String)>,
    now: ns::Moment,
    words: u32,
    boot: u32,
}

impl Model {
    fn new() -> Self {
        Self {
            notices: BTreeMap::new(),
            deliveries: BTreeMap::new(),
            seen: BTreeSet::new(),
            generations: HashMap::new(),
            prepared: BTreeSet::new(),
            leases: Vec::new(),
            lent: Vec::new(),
            now: ns::Moment { utc: Time::from_micros(1_000_000_000_000_000), up: 1_000_000 },
            words: 0,
            boot: 0,
        }
    }

    fn word(&mut self) -> String {
        self.words += 1;
        format!("word {}", self.words)
    }

    fn subject(&self, kind: Kind, process: Option<u8>) -> ns::NoticeSubject {
        let seen = process.is_some_and(|p| self.seen.contains(&p));
        match kind {
            Kind::End => ns::NoticeSubject::End { seen },
            Kind::Output => ns::NoticeSubject::Output { end_seen: seen },
            Kind::Posted => ns::NoticeSubject::Other,
        }
    }

    fn generation(&self, of: &Tracked) -> ns::NoticeGeneration<'static> {
        let known = self.generations.get(of.session).map_or(&[][..], Vec::as_slice);
        match known.last() {
            Some(newest) if !of.generation.is_empty() && *newest != of.generation => match known.contains(&of.generation) {
                true => ns::NoticeGeneration::Ended { name: of.generation },
                false => ns::NoticeGeneration::Future,
            },
            Some(_) | None => ns::NoticeGeneration::Current,
        }
    }

    fn note_generation(&mut self, session: &'static str, generation: &'static str) {
        let known = self.generations.entry(session).or_default();
        if !generation.is_empty() && !known.contains(&generation) {
            known.push(generation);
        }
    }

    fn seqs(&self) -> Vec<u64> {
        self.notices.keys().copied().collect()
    }

    fn of_session(&self, session: &str) -> Vec<u64> {
        self.notices.iter().filter(|(_, n)| n.session == session).map(|(seq, _)| *seq).collect()
    }

    fn end_of(&self, process: u8) -> Option<u64> {
        self.notices.iter().find(|(_, n)| n.kind == Kind::End && n.process == Some(process)).map(|(seq, _)| *seq)
    }

    /// Applies an event to a notice, with its effects.
    fn on(&mut self, seq: u64, event: ns::NoticeEvent<'_>) -> ns::NoticeReply {
        let of = &self.notices[&seq];
        let process = of.process;
        let step = ns::transition(&of.notice, event, self.subject(of.kind, process), self.now);
        if let (Some(next), Some(of)) = (step.next, self.notices.get_mut(&seq)) {
            of.notice = next;
        }
        for effect in step.effects {
            match effect {
                ns::NoticeEffect::MarkEndSeen(_) => self.seen.extend(process),
                ns::NoticeEffect::ForgetEndSeen => _ = process.map(|p| self.seen.remove(&p)),
                ns::NoticeEffect::CancelQuietDeliveries => self.on_deliveries(seq, ns::DeliveryEvent::Answered),
                ns::NoticeEffect::FreeQuietDeliveries => self.on_deliveries(seq, ns::DeliveryEvent::NotAnswered),
            }
        }
        step.reply
    }

    fn on_end(&mut self, process: u8, event: ns::NoticeEvent<'_>) {
        if let Some(seq) = self.end_of(process) {
            self.on(seq, event);
        }
    }

    fn claims(&mut self, seq: u64, taker: TakerKind, holder: ns::LeaseHolder, token: &str, until: i64) -> ns::NoticeReply {
        let generation = self.generation(&self.notices[&seq]);
        self.on(seq, ns::NoticeEvent::Claim { taker, holder, token, until, generation })
    }

    fn on_deliveries(&mut self, seq: u64, event: ns::DeliveryEvent<'_>) {
        for sink in [HOOK, WAKER] {
            self.on_delivery(sink, seq, event);
        }
    }

    /// Applies an event to a delivery. Whether the caller had it.
    fn on_delivery(&mut self, sink: &'static str, seq: u64, event: ns::DeliveryEvent<'_>) -> bool {
        let Some(delivery) = self.deliveries.get(&(sink, seq)) else { return false };
        match ns::deliver(delivery, event, self.now) {
            ns::DeliveryStep::Same => {}
            ns::DeliveryStep::Next(next) => _ = self.deliveries.insert((sink, seq), next),
            ns::DeliveryStep::Removed => _ = self.deliveries.remove(&(sink, seq)),
            ns::DeliveryStep::Lost => return false,
        }
        true
    }

    /// A sink that wakes agents has no open deliveries of settled notices.
    fn remove_settled(&mut self) {
        for seq in self.seqs() {
            if self.notices[&seq].notice.is_settled() {
                self.on_delivery(WAKER, seq, ns::DeliveryEvent::NoticeSettled);
            }
        }
    }

    /// Which deliveries a sink leases. A delivery that the sink put off untried holds back later ones of its session.
    fn take(&mut self, sink: &'static str, limit: usize, token: &str, until: i64) -> Vec<u64> {
        let up = self.now.up;
        let of_sink = || self.deliveries.iter().filter(|((of, _), _)| *of == sink).map(|((_, seq), d)| (*seq, d, &self.notices[seq]));
        let is_held_back = |d: &ns::Delivery| d.quiet && d.first_try.is_none();
        let is_put_off = |d: &ns::Delivery| d.tries == 0 && !is_held_back(d) && matches!(d.state, ns::DeliveryState::Due { at } if at > up);
        let mut put_off: HashMap<&str, u64> = HashMap::new();
        // A generation that is not the newest may never begin.
        let holds_up = |n: &Tracked| sink == HOOK || self.generation(n) == ns::NoticeGeneration::Current;
        for (seq, _, n) in of_sink().filter(|(_, d, n)| is_put_off(d) && holds_up(n)) {
            put_off.entry(n.session).or_insert(seq);
        }
        let is_due = |d: &ns::Delivery| match d.state {
            ns::DeliveryState::Due { at } | ns::DeliveryState::Leased { until: at, .. } => at <= up,
            ns::DeliveryState::Delivered | ns::DeliveryState::Dead { .. } => false,
        };
        let may_wake = |n: &Tracked| n.notice.is_free(up) || n.notice.is_settled();
        let lent: Vec<u64> = of_sink()
            .filter(|(seq, d, n)| is_due(d) && put_off.get(n.session).is_none_or(|first| seq < first) && (sink == HOOK || may_wake(n)))
            .map(|(seq, ..)| seq)
            .take(limit)
            .collect();
        for seq in &lent {
            self.on_delivery(sink, *seq, ns::DeliveryEvent::Take { token, until });
            self.lent.push((sink, *seq, token.to_owned()));
        }
        lent
    }
}

fn sinks() -> [Push; 2] {
    [Push::observer(HOOK), Push { wakes: true, ..Push::observer(WAKER) }]
}

const ACTS: [&str; 38] = [
    "complete",
    "complete",
    "match",
    "post",
    "generation",
    "claim",
    "claim",
    "claim",
    "settle",
    "settle",
    "settle",
    "end_seen",
    "answered",
    "observe",
    "answer_begins",
    "answer_begins",
    "answer_failed",
    "waiters_left",
    "waiters_left",
    "run_again",
    "pass",
    "pass",
    "replay",
    "expire",
    "engine_started",
    "take",
    "wake_take",
    "wake_take",
    "wake_begin",
    "wake_begin",
    "push",
    "wake_push",
    "wake_push",
    "revive",
    "taker_gone",
    "claim_cancelled",
    "waiting",
    "drop",
];

/// Plays one history. Returns what happened if the two disagree.
fn play(db: &Connection, n: u64) -> Result<(), String> {
    let (mut random, mut m, mut log) = (Random::of_history(n), Model::new(), Vec::new());
    db.execute_batch("BEGIN").unwrap();
    engine_started(db, "boot 0", false, m.now).unwrap();
    for _ in 0..10 + random.below(50) {
        let what = random.pick(&ACTS);
        let played = act(db, &mut m, &mut random, what);
        log.push(format!("{what} at {}: {played:?}", m.now.up));
        played.and_then(|_| compare(db, &m)).map_err(|wrong| format!("history {n}: {wrong}\nafter {log:#?}"))?;
    }
    db.execute_batch("ROLLBACK").unwrap();
    Ok(())
}

fn same<T: PartialEq + std::fmt::Debug>(tables: &T, functions: &T) -> Result<String, String> {
    match tables == functions {
        true => Ok(format!("{tables:?}")),
        false => Err(format!("tables answered {tables:?}, functions {functions:?}")),
    }
}

fn act(db: &Connection, m: &mut Model, random: &mut Random, what: &str) -> Result<String, String> {
    let p = random.pick(&[0_u8, 0, 0, 1, 1, 2, 3]);
    let (process, key, now) = (id(p).to_string(), completion(p, Owner::default()).key, m.now);
    match what {
        "complete" | "match" | "post" => return write(db, m, random, what, p),
        "generation" => {
            let (session, generation) = random.pick(&OWNERS);
            note_generation(db, session, generation, NamedBy::Client).unwrap();
            m.note_generation(session, generation);
        }
        "claim" => return claim_some(db, m, random),
        "settle" => return settle_one(db, m, random),
        "end_seen" => {
            end_seen(db, &process, "wait", now).unwrap();
            match m.end_of(p) {
                Some(seq) => _ = m.on(seq, ns::NoticeEvent::EndSeen { by: "wait" }),
                None => _ = m.seen.insert(p),
            }
        }
        "answered" => {
            answered(db, &key, now).unwrap();
            m.on_end(p, ns::NoticeEvent::Answered);
        }
        "observe" => {
            observe(db, &process, now).unwrap();
            m.on_end(p, ns::NoticeEvent::Observed);
        }
        "answer_begins" => {
            // A prepared answer needs no write.
            if !m.end_of(p).is_some_and(|seq| m.prepared.remove(&seq)) {
                answer_begins(db, &end_key(process), now).unwrap();
                m.on_end(p, ns::NoticeEvent::AnswerBegins);
            }
        }
        "answer_failed" => {
            answer_failed(db, &end_key(process), now).unwrap();
            m.on_end(p, ns::NoticeEvent::AnswerFailed);
        }
        "waiters_left" => {
            let Some(seq) = m.end_of(p) else { return Ok(String::new()) };
            let is_prepared = m.prepared.remove(&seq);
            waiters_left(db, &key, is_prepared, now).unwrap();
            m.on(seq, ns::NoticeEvent::WaitersLeft { is_prepared });
        }
        "run_again" => {
            supersede(db, &process, "another", now).unwrap();
            m.on_end(p, ns::NoticeEvent::RunAgain { by: "another" });
        }
        "pass" => {
            let micros = random.pick(&[1_i64, 9, 10, 90, 100, 2_000_000, 60_000_000]);
            let set = if random.chance(10) { random.pick(&[-1_000_000_000_i64, 1_000_000_000]) } else { 0 };
            m.now = ns::Moment { utc: Time::from_micros(m.now.utc.micros() + micros + set), up: m.now.up + micros };
        }
        "replay" => {
            let (from, session) = (1 + random.below(1 + m.notices.len()) as u64, random.pick(&[None, Some("a"), Some("b")]));
            assert_eq!(replay(db, from, session, &sinks(), now).unwrap().1, None);
            let is_replayed = |(seq, n): &(&u64, &Tracked)| {
                let is_delivered = matches!(n.notice.state, ns::NoticeState::Settled { how: ns::Settlement::Delivered, .. });
                **seq >= from && session.is_none_or(|s| s == n.session) && is_delivered
            };
            for seq in m.notices.iter().filter(is_replayed).map(|(seq, _)| *seq).collect::<Vec<_>>() {
                m.on(seq, ns::NoticeEvent::Replay);
                match m.deliveries.contains_key(&(WAKER, seq)) {
                    true => _ = m.on_delivery(WAKER, seq, ns::DeliveryEvent::Replay),
                    false => _ = m.deliveries.insert((WAKER, seq), ns::Delivery::new(true, None)),
                }
            }
        }
        "expire" => {
            let before = Time::from_micros(m.now.utc.micros() - random.pick(&[-5_i64, 0, 20, 100]));
            expire(db, before, now).unwrap();
            m.seqs().into_iter().for_each(|seq| _ = m.on(seq, ns::NoticeEvent::Expire { before, reason: "expired" }));
        }
        "drop" => {
            let Some(seq) = m.of_session("a").into_iter().find(|seq| m.notices[seq].notice.is_free(m.now.up)).filter(|_| random.chance(20))
            else {
                return Ok(String::new());
            };
            rows::on_each(db, &[seq as i64], ns::NoticeEvent::Drop { reason: "room" }, now).unwrap();
            m.on(seq, ns::NoticeEvent::Drop { reason: "room" });
        }
        "engine_started" => {
            let rebooted = random.chance(30);
            if rebooted {
                (m.boot, m.now.up) = (m.boot + 1, 1_000);
            }
            engine_started(db, &format!("boot {}", m.boot), false, m.now).unwrap();
            m.prepared.clear();
            for seq in m.seqs() {
                m.on(seq, ns::NoticeEvent::EngineStarted { rebooted });
                m.on_deliveries(seq, ns::DeliveryEvent::EngineStarted { rebooted });
            }
        }
        "take" | "wake_take" => {
            let (token, limit, lease_for) = (m.word(), 1 + random.below(3), random.pick(&[10_i64, 100]));
            let (sink, lent) = match what {
                "take" => (HOOK, take(db, HOOK, limit, &token, lease_for, now).unwrap()),
                _ => {
                    m.remove_settled();
                    (WAKER, wake::take(db, WAKER, limit, &token, lease_for, now).unwrap())
                }
            };
            let until = m.now.up + lease_for;
            return same(&lent.iter().map(|o| o.entry.notice.seq).collect(), &m.take(sink, limit, &token, until));
        }
        "wake_begin" => return wake_begin(db, m, random),
        "push" | "wake_push" => return push(db, m, random, if what == "push" { HOOK } else { WAKER }),
        "revive" => {
            revive(db, None, None, None, now).unwrap();
            m.seqs().into_iter().for_each(|seq| m.on_deliveries(seq, ns::DeliveryEvent::Revive));
        }
        "taker_gone" => {
            let Some((seq, token)) = random.recent(&m.leases) else { return Ok(String::new()) };
            taker_gone(db, std::slice::from_ref(&m.notices[&seq].id), &token, now).unwrap();
            m.on(seq, ns::NoticeEvent::TakerGone { token: &token });
        }
        "claim_cancelled" => {
            let Some((seq, token)) = random.recent(&m.leases) else { return Ok(String::new()) };
            let session = m.notices[&seq].session;
            let claim = Claim { session: session.into(), lease: token.clone(), limit: 3, ..asks(now) };
            claim_cancelled(db, &claim, now).unwrap();
            m.of_session(session).into_iter().for_each(|seq| _ = m.on(seq, ns::NoticeEvent::ClaimCancelled { token: &token }));
        }
        "waiting" => return count_waiting(db, m, random),
        other => unreachable!("{other}"),
    }
    Ok(String::new())
}

/// Writes a notice, for a waiter or not, with its deliveries.
fn write(db: &Connection, m: &mut Model, random: &mut Random, what: &str, p: u8) -> Result<String, String> {
    let (session, generation) = OWNERS[usize::from(p)];
    let (of, place) = (owner(session, generation), random.below(2) as u64);
    let (draft, kind, process) = match what {
        "complete" => (completion(p, of), Kind::End, Some(p)),
        "match" => (matched(p, place, of), Kind::Output, Some(p)),
        _ => (posted(&format!("{session}{place}"), of, ""), Kind::Posted, None),
    };
    let draft = NoticeDraft { repeat: random.chance(10), ..draft };
    let (waits, is_announced, is_quiet) = (random.chance(30), random.chance(20), random.chance(30));
    let (waits, is_announced) = (waits && kind == Kind::End, is_announced && kind == Kind::End);
    let timeout = if waits { ns::ANSWER_TIMEOUT } else { ns::ANNOUNCED_WAIT_TIMEOUT };
    let until = m.now.up + timeout;
    let written_for = match (waits, is_announced) {
        (true, _) => ns::WrittenFor::Answer,
        (false, true) => ns::WrittenFor::Waiter { until },
        (false, false) => ns::WrittenFor::AnyTaker,
    };
    let held_until = (is_quiet && (waits || is_announced)).then_some(until);
    let written = write_for(db, &draft, written_for, held_until, m.now);
    if let Some((seq, id)) = &written {
        let subject = m.subject(kind, process);
        let notice = ns::TrackedNotice::new(subject, draft.repeat, written_for, m.now);
        let sinks = if notice.is_settled() { &[HOOK][..] } else { &[HOOK, WAKER] };
        m.deliveries.extend(sinks.iter().map(|sink| ((*sink, *seq), ns::Delivery::new(draft.repeat, held_until))));
        if waits {
            m.prepared.insert(*seq);
        }
        m.notices.insert(*seq, Tracked { notice, kind, process, session, generation, id: id.clone() });
    } else if waits || is_announced {
        m.on_end(p, ns::NoticeEvent::Reserve { until });
    }
    Ok(format!("{} {written:?} {written_for:?} {held_until:?}", draft.key))
}

/// A claim with default values.
fn asks(now: Moment) -> Claim {
    let (session, generation, lease) = ("a".into(), String::new(), String::new());
    Claim {
        session,
        generation,
        named_by: NamedBy::Client,
        taker: TakerKind::Gateway,
        asker: None,
        asked: false,
        limit: 1,
        lease,
        lease_for: 10,
        now,
    }
}

fn claim_some(db: &Connection, m: &mut Model, random: &mut Random) -> Result<String, String> {
    let (session, generation) = (random.pick(&["a", "a", "b"]), random.pick(&["", "", "", "g1", "g2"]));
    let (taker, limit, lease_for) =
        (random.pick(&[TakerKind::Terminal, TakerKind::Gateway]), 1 + random.below(3), random.pick(&[10_i64, 100]));
    let (token, until) = (m.word(), m.now.up + lease_for);
    let asks =
        Claim { session: session.into(), generation: generation.into(), taker, limit, lease: token.clone(), lease_for, ..asks(m.now) };
    let claimed = claim(db, &asks).unwrap().given;
    m.note_generation(session, generation);
    let mut given = Vec::new();
    if generation.is_empty() || m.generations[session].last() == Some(&generation) {
        for seq in m.of_session(session) {
            if given.len() < limit && m.claims(seq, taker, ns::LeaseHolder::Taker, &token, until) == ns::NoticeReply::Given {
                given.push((seq, m.notices[&seq].notice.maybe_told, m.notices[&seq].notice.given));
                m.leases.push((seq, token.clone()));
            }
        }
    }
    same(&claimed.iter().map(|e| (e.notice.seq, e.notice.repeat, e.attempts)).collect(), &given)
}

/// How many notices a terminal would be given is what a claim gives.
fn count_waiting(db: &Connection, m: &mut Model, random: &mut Random) -> Result<String, String> {
    let session = random.pick(&["a", "b"]);
    let count = waiting(db, session, None, m.now).unwrap();
    let would_be_given = |seq: &u64| {
        let of = &m.notices[seq];
        let (taker, holder, generation) = (ns::TakerKind::Terminal, ns::LeaseHolder::Taker, m.generation(of));
        let event = ns::NoticeEvent::Claim { taker, holder, token: "", until: i64::MAX, generation };
        ns::transition(&of.notice, event, m.subject(of.kind, of.process), m.now).reply == ns::NoticeReply::Given
    };
    let given = m.of_session(session).iter().filter(|seq| would_be_given(seq)).count() as u64;
    same(&count, &given)
}

fn settle_one(db: &Connection, m: &mut Model, random: &mut Random) -> Result<String, String> {
    let seqs = m.seqs();
    if seqs.is_empty() {
        return Ok(String::new());
    }
    let (mut seq, mut token) = (random.pick(&seqs), random.pick(&[None, Some("guessed")]).map(str::to_owned));
    if let Some((of, lease)) = random.recent(&m.leases).filter(|_| random.chance(70)) {
        seq = of;
        token = if random.chance(80) { Some(lease) } else { token };
    }
    let (verdict, of_core) = match random.below(5) {
        0 | 1 => (Verdict::Delivered, ns::Verdict::Delivered),
        2 | 3 => (Verdict::Released, ns::Verdict::Released),
        _ => (Verdict::Dropped { reason: "no".into() }, ns::Verdict::Dropped("no")),
    };
    let settled = settle(db, &m.notices[&seq].id, None, token.as_deref(), &verdict, m.now).unwrap().settled;
    let reply = match m.on(seq, ns::NoticeEvent::Settle { token: token.as_deref(), verdict: of_core }) {
        ns::NoticeReply::Done => SettleReply::Done,
        ns::NoticeReply::Already => SettleReply::Already,
        ns::NoticeReply::Lost => SettleReply::Lost,
        reply => return Err(format!("{reply:?} to a settlement")),
    };
    same(&settled, &reply).map(|settled| format!("{seq} {token:?} {verdict:?}: {settled}"))
}

fn wake_begin(db: &Connection, m: &mut Model, random: &mut Random) -> Result<String, String> {
    let lent: Vec<(u64, String)> = m.lent.iter().filter(|(sink, ..)| *sink == WAKER).map(|(_, seq, token)| (*seq, token.clone())).collect();
    let Some((seq, token)) = random.recent(&lent) else { return Ok(String::new()) };
    let (go, _) = wake::begin(db, WAKER, &[(seq, token.clone())], m.now).unwrap();
    let lent = match m.deliveries.get(&(WAKER, seq)).map(|d| (&d.state, d.maybe_told)) {
        Some((ns::DeliveryState::Leased { token: has, until }, maybe_told)) if *has == token && *until > m.now.up => {
            Some((*until, maybe_told))
        }
        Some(_) | None => None,
    };
    let mut told = Vec::new();
    if let Some((until, maybe_told)) = lent {
        let not_tried = |at| ns::DeliveryEvent::Report { token: &token, outcome: ns::DeliveryOutcome::NotTried { at } };
        match m.claims(seq, TakerKind::Gateway, ns::LeaseHolder::Sink, &token, until) {
            ns::NoticeReply::Given => {
                told.push((seq, m.notices[&seq].notice.maybe_told || maybe_told));
                m.leases.push((seq, token.clone()));
            }
            ns::NoticeReply::Done | ns::NoticeReply::Already => _ = m.deliveries.remove(&(WAKER, seq)),
            ns::NoticeReply::Busy => _ = m.on_delivery(WAKER, seq, not_tried(m.now.up)),
            ns::NoticeReply::Skipped => _ = m.on_delivery(WAKER, seq, not_tried(m.now.up + 60_000_000)),
            reply => return Err(format!("{reply:?} to a claim")),
        }
    }
    same(&go.iter().map(|o| (o.entry.notice.seq, o.entry.notice.repeat)).collect(), &told)
}

fn push(db: &Connection, m: &mut Model, random: &mut Random, sink: &'static str) -> Result<String, String> {
    let lent: Vec<(u64, String)> = m.lent.iter().filter(|(of, ..)| *of == sink).map(|(_, seq, token)| (*seq, token.clone())).collect();
    let Some((seq, token)) = random.recent(&lent) else { return Ok(String::new()) };
    let token = if random.chance(90) { token } else { "guessed".into() };
    let wait = random.pick(&[5_i64, 100]);
    let (after, due) = (Duration::from_micros(wait as u64), m.now.up + wait);
    let (how, outcome, call) = match random.below(5) {
        0 | 1 => (PushResult::Delivered, ns::DeliveryOutcome::Delivered, ns::SinkCall::Told),
        2 => (
            PushResult::Again { after, reason: "busy".into() },
            ns::DeliveryOutcome::Retry { at: due, error: "busy" },
            ns::SinkCall::Failed,
        ),
        3 => (PushResult::Later { after }, ns::DeliveryOutcome::NotTried { at: due }, ns::SinkCall::NotTried),
        _ => (PushResult::Dead { reason: "gone".into() }, ns::DeliveryOutcome::Dead { error: "gone" }, ns::SinkCall::Failed),
    };
    let kept = match sink {
        HOOK => pushed(db, HOOK, seq, &token, &how, m.now).unwrap(),
        _ => wake::pushed(db, WAKER, seq, &token, &how, m.now).unwrap().0,
    };
    let is_ours = m.on_delivery(sink, seq, ns::DeliveryEvent::Report { token: &token, outcome });
    if is_ours && sink == WAKER {
        m.on(seq, ns::NoticeEvent::SinkReport { token: &token, call });
    }
    same(&kept, &is_ours).map(|kept| format!("{seq} {token} {how:?}: {kept}"))
}

#[test]
fn tables_and_functions_agree() {
    let many: u64 = std::env::var("OUTLAST_LOCKSTEP").ok().and_then(|n| n.parse().ok()).unwrap_or(2_000);
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64).min(many).max(1);
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || {
                    let db = tables();
                    (thread..many).step_by(threads as usize).find_map(|n| play(&db, n).err())
                })
            })
            .collect();
        all.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{many} histories: tables and functions agree");
}

/// Writes a notice, or reserves the one there is.
fn write_for(
    db: &Connection,
    draft: &NoticeDraft,
    written_for: ns::WrittenFor,
    held_until: Option<i64>,
    now: Moment,
) -> Option<(u64, String)> {
    let written = insert_for(db, draft, &sinks(), written_for, held_until, now).unwrap();
    let timeout = match written_for {
        ns::WrittenFor::AnyTaker => None,
        ns::WrittenFor::Waiter { until } => Some(until - now.up),
        ns::WrittenFor::Answer => Some(ns::ANSWER_TIMEOUT),
    };
    if let (None, Some(timeout)) = (&written, timeout) {
        reserve(db, &draft.key, timeout, now).unwrap();
    }
    written.map(|entry| (entry.notice.seq, entry.notice.event_id))
}

/// Whether the tables agree with the functions.
fn compare(db: &Connection, m: &Model) -> Result<(), String> {
    type Row = (String, String, i64, i64, u32, bool, bool, String, i64);
    let columns = "state, lease, lease_up, settled_at, attempts, maybe_told, observed, stale, open_since";
    let mut stored = db.prepare_cached(&format!("SELECT seq, {columns} FROM notice ORDER BY seq")).unwrap();
    let stored = stored.query_map([], |r| {
        let row: Row = (r.get(1)?, r.get(2)?, r.get(3)?, r.get(4)?, r.get(5)?, r.get(6)?, r.get(7)?, r.get(8)?, r.get(9)?);
        Ok((r.get::<_, i64>(0)? as u64, row))
    });
    let stored: BTreeMap<u64, Row> = stored.unwrap().map(Result::unwrap).collect();
    if !stored.keys().eq(m.notices.keys()) {
        return Err(format!("there are notices {:?}", stored.keys()));
    }
    for (seq, row) in stored {
        let notice = &m.notices[&seq].notice;
        let (state, lease, lease_up, settled_at) = match &notice.state {
            ns::NoticeState::Pending => ("pending", "", 0, 0),
            ns::NoticeState::Reserved { until } => ("reserved", "", *until, 0),
            ns::NoticeState::Answering { until } => ("answering", "", *until, 0),
            ns::NoticeState::Leased { holder: ns::LeaseHolder::Taker, token, until } => ("leased", token.as_str(), *until, 0),
            ns::NoticeState::Leased { holder: ns::LeaseHolder::Sink, token, until } => ("waking", token.as_str(), *until, 0),
            ns::NoticeState::Settled { how, at, .. } => (settled(*how), "", 0, at.micros()),
        };
        let superseded_reason = notice.superseded_reason.clone().unwrap_or_default();
        let flags = (notice.given, notice.maybe_told, notice.observed, superseded_reason, notice.open_since.micros());
        let model = (state.into(), lease.into(), lease_up, settled_at, flags.0, flags.1, flags.2, flags.3, flags.4);
        if row != model {
            return Err(format!("{seq}: tables hold {row:?}, functions {notice:?}"));
        }
    }
    type Lent = (String, String, i64, i64, u32, bool, i64, String, bool);
    let columns = "state, lease, due_up, died_at, attempts, maybe_told, first_at, reason, quiet";
    let mut stored = db.prepare_cached(&format!("SELECT sink, seq, {columns} FROM delivery ORDER BY sink, seq")).unwrap();
    let stored = stored.query_map([], |r| {
        let row: Lent = (r.get(2)?, r.get(3)?, r.get(4)?, r.get(5)?, r.get(6)?, r.get(7)?, r.get(8)?, r.get(9)?, r.get(10)?);
        Ok(((r.get::<_, String>(0)?, r.get::<_, i64>(1)? as u64), row))
    });
    let stored: BTreeMap<(String, u64), Lent> = stored.unwrap().map(Result::unwrap).collect();
    let model: BTreeMap<(String, u64), Lent> =
        m.deliveries.iter().map(|((sink, seq), d)| (((*sink).to_owned(), *seq), row_of(d))).collect();
    match stored == model {
        true => {}
        false => return Err(format!("tables hold {stored:#?}, functions {model:#?}")),
    }
    for p in 0..4 {
        same(&is_consumed(db, &id(p).to_string()).unwrap(), &m.seen.contains(&p))
            .map_err(|e| format!("whether the end of {p} was seen: {e}"))?;
    }
    Ok(())
}

fn settled(how: ns::Settlement) -> &'static str {
    match how {
        ns::Settlement::Delivered => "delivered",
        ns::Settlement::Consumed => "consumed",
        ns::Settlement::Superseded => "superseded",
        ns::Settlement::Dropped => "dropped",
    }
}

fn row_of(d: &ns::Delivery) -> (String, String, i64, i64, u32, bool, i64, String, bool) {
    let (state, lease, due, died) = match &d.state {
        ns::DeliveryState::Due { at } => ("pending", "", *at, 0),
        ns::DeliveryState::Leased { token, until } => ("leased", token.as_str(), *until, 0),
        ns::DeliveryState::Delivered => ("delivered", "", 0, 0),
        ns::DeliveryState::Dead { at } => ("dead", "", 0, at.micros()),
    };
    let first_at = d.first_try.map_or(0, Time::micros);
    (state.into(), lease.into(), due, died, d.tries, d.maybe_told, first_at, d.last_error.clone(), d.quiet)
}
