//! The loop of each sink: take what is due, call, settle.
//!
//! Decisions 55 and 56: docs/decisions/sinks.md.

use crate::coalesce::forgotten;
use crate::{Desk, DeskError, Gather, Plan, Policy, Settle, SinkConfig, Way, backoff, hook, plan, webhook};
use outlast_client::Delivery;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::{debug, error, info, warn};

/// How many deliveries of one conversation may wait for their turn. The rest is handed back for a while, so that others have room.
const IN_LINE: usize = 64;

/// How many deliveries a sink may have in hand beside those of the conversations that it calls.
const SPARE: usize = 64;

/// For how long what is too much for one conversation is handed back: this at first, and longer each time for as long as none of its calls ends. What has waited
/// for too long is handed back for as long as this, so that nothing behind it comes before it.
const HANDED_BACK: Duration = Duration::from_millis(250);
const LONGEST_HANDED_BACK: Duration = Duration::from_secs(5);

/// How many calls a sink may have under way, whatever is configured.
const MOST_AT_ONCE: usize = 64;

/// What has to wait longer than this is handed back instead of held: a lease is for what is about to be tried.
const LONGEST_HOLD: Duration = Duration::from_secs(5);

/// How many deliveries are asked for at once. An answer has to fit into a message, and a notice can be large.
const MOST_ASKED_FOR: usize = 8;

/// How long is waited before an engine that cannot answer is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// How long a settlement may take, and how often it is tried. After that the lease runs out, and the notice is told again.
const SETTLE_WITHIN: Duration = Duration::from_secs(10);
const SETTLE_TRIES: u32 = 3;

/// How long calls that are under way when the engine stops are waited for. A hook stops its command within this.
const STOP_WITHIN: Duration = Duration::from_secs(4);

/// Serves the sinks until the engine stops. Dropped, it stops what it started.
pub async fn run<D: Desk>(sinks: Vec<SinkConfig>, desk: Arc<D>) {
    let stop = watch::Sender::new(false);
    let mut loops = JoinSet::new();
    for sink in sinks {
        let teller = Teller::new(Arc::new(sink), Arc::clone(&desk), stop.clone());
        loops.spawn(teller.run());
    }
    while let Some(ended) = loops.join_next().await {
        if let Err(e) = ended {
            // The others go on; what this one had is lent again when the engine runs anew.
            error!("a sink broke down: {e}");
        }
    }
}

/// How a call went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Whoever was called has it.
    Done,
    /// It has to be tried again.
    Failed {
        /// Why.
        reason: String,
        /// For how long it asked to be left alone.
        wait: Option<Duration>,
    },
    /// Whoever was called wants no more, ever.
    Gone {
        /// What it said.
        reason: String,
    },
}

impl Outcome {
    pub(crate) fn failed(reason: String) -> Self {
        Self::Failed { reason, wait: None }
    }
}

/// What is to be said of each delivery of a call, in their order. Those that are tried again come back together.
fn verdicts(policy: &Policy, outcome: &Outcome, attempts: &[u32], random: f64) -> Vec<Settle> {
    let (reason, wait) = match outcome {
        Outcome::Done => return vec![Settle::Delivered; attempts.len()],
        Outcome::Gone { reason } => return vec![Settle::Dead { reason: reason.clone() }; attempts.len()],
        Outcome::Failed { reason, wait } => (reason, wait.unwrap_or_default()),
    };
    let waits: Vec<Option<Duration>> = attempts.iter().map(|before| backoff(policy, before.saturating_add(1), random)).collect();
    let longest = waits.iter().flatten().max().copied().unwrap_or_default();
    let judge = |(own, before): (&Option<Duration>, &u32)| match own {
        Some(_) => Settle::Retry { after: longest.max(wait), reason: reason.clone() },
        None => Settle::Dead { reason: format!("gave up after {} attempts, the last of which failed: {reason}", before.saturating_add(1)) },
    };
    waits.iter().zip(attempts).map(judge).collect()
}

/// From 0 up to 1.
fn random() -> f64 {
    let mut bytes = [0; 8];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(8) => (u64::from_le_bytes(bytes) >> 11) as f64 / (1u64 << 53) as f64,
        // It is only for spreading attempts out.
        _ => 0.5,
    }
}

/// The one owner of all that a sink has in hand.
struct Teller<D> {
    sink: Arc<SinkConfig>,
    desk: Arc<D>,
    stop: watch::Sender<bool>,
    lease: Duration,
    began: Instant,
    /// One permit for each delivery that may be taken.
    room: Arc<Semaphore>,
    /// How many settlements are under way that hand something back. Until the engine knows of them it would give what is behind.
    handing_back: watch::Sender<usize>,
    lines: BTreeMap<String, Line>,
    /// Calls and settlements, each of which ends with what a receiver said that wants no more.
    errands: JoinSet<Option<String>>,
    /// What each of them is for.
    places: HashMap<Id, Place>,
    calling: usize,
    /// What a receiver said that wants no more.
    gone: Option<String>,
}

/// One conversation.
struct Line {
    waiting: BTreeMap<u64, Held>,
    calls: Vec<Duration>,
    calling: bool,
    /// Some were handed back until then; later ones must not overtake them.
    away: Duration,
    /// For how long the next ones are handed back.
    hand_back: Duration,
}

impl Default for Line {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), calls: Vec::new(), calling: false, away: Duration::ZERO, hand_back: HANDED_BACK }
    }
}

impl Line {
    /// All that waits, in order.
    fn empty(&mut self) -> Vec<Lent> {
        std::mem::take(&mut self.waiting).into_values().map(|h| h.lent).collect()
    }
}

/// What was lent. Whatever becomes of it, its place is free again once it is let go of.
struct Lent {
    delivery: Delivery,
    place: OwnedSemaphorePermit,
}

/// What was lent and waits for its turn.
struct Held {
    lent: Lent,
    taken: Duration,
}

/// What an errand is for.
struct Place {
    /// The conversation that it calls.
    line: Option<String>,
    hands_back: bool,
}

impl<D: Desk> Teller<D> {
    fn new(sink: Arc<SinkConfig>, desk: Arc<D>, stop: watch::Sender<bool>) -> Self {
        let lease = longest_call(&sink) * 2 + LONGEST_HOLD + gather(&sink).window;
        let room = at_once(&sink) * (gather(&sink).most + IN_LINE) + SPARE;
        Self {
            sink,
            desk,
            stop,
            lease,
            began: Instant::now(),
            room: Arc::new(Semaphore::new(room)),
            handing_back: watch::Sender::new(0),
            lines: BTreeMap::new(),
            errands: JoinSet::new(),
            places: HashMap::new(),
            calling: 0,
            gone: None,
        }
    }

    async fn run(mut self) {
        // A task of its own: a question that is dropped half-way may have been answered, and what was lent then would wait for the end of its lease.
        let (sender, mut taken) = mpsc::channel(1);
        let mut taker = JoinSet::new();
        taker.spawn(take(Taking {
            sink: Arc::clone(&self.sink),
            desk: Arc::clone(&self.desk),
            lease: self.lease,
            room: Arc::clone(&self.room),
            handing_back: self.handing_back.subscribe(),
            to: sender,
        }));
        let mut stop = self.stop.subscribe();
        let mut unseen = None;
        loop {
            let next = self.start_what_may();
            // By now it is known what of the last batch is handed back, and the next may be asked for.
            drop(unseen.take());
            let alarm = alarm(next.map(|at| self.began + at));
            tokio::select! {
                batch = taken.recv() => match batch {
                    Some((batch, seen)) => {
                        self.accept(batch);
                        unseen = Some(seen);
                    }
                    None => break,
                },
                Some(done) = self.errands.join_next_with_id() => self.note(done),
                () = alarm => {}
                () = stopped(&mut stop) => break,
            }
        }
        // Told to the hooks that run now, and to the loops of the other sinks, which may be in the middle of a call.
        self.stop.send_replace(true);
        let ends = async { while self.errands.join_next().await.is_some() {} };
        if timeout(STOP_WITHIN, ends).await.is_err() {
            info!(sink = self.sink.name, "calls were under way when the engine stopped; they are made again");
        }
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Puts what was lent in line.
    fn accept(&mut self, batch: Vec<Lent>) {
        let now = self.now();
        let mut back: HashMap<Duration, Vec<Lent>> = HashMap::new();
        for lent in batch {
            if let Some(reason) = &self.gone {
                let settle = Settle::Dead { reason: reason.clone() };
                self.settle(vec![(lent, settle)]);
                continue;
            }
            let line = self.lines.entry(lent.delivery.event.session_key.clone()).or_default();
            // Lent anew while it still waits: its lease is over, as after a sleep of the machine, and with it the word by which it could be settled.
            let _lapsed = line.waiting.remove(&lent.delivery.event.seq);
            if line.away <= now && line.waiting.len() >= IN_LINE {
                line.away = now + line.hand_back;
                line.hand_back = LONGEST_HANDED_BACK.min(line.hand_back * 2);
            }
            match line.away > now {
                true => back.entry(line.away - now).or_default().push(lent),
                false => {
                    line.waiting.insert(lent.delivery.event.seq, Held { lent, taken: now });
                }
            }
        }
        for (after, lent) in back {
            self.hand_back(lent, after);
        }
    }

    /// Starts every call that may be made now, and says when to look again.
    fn start_what_may(&mut self) -> Option<Duration> {
        let now = self.now();
        let gather = gather(&self.sink).clone();
        self.lines.retain(|_, line| {
            line.calls.drain(..forgotten(&gather, &line.calls, now));
            !line.waiting.is_empty() || line.calling || !line.calls.is_empty() || line.away > now
        });
        let mut next = self.hand_back_the_old(now);
        // The oldest first, so that a conversation with much to say does not go before the others.
        let mut order: Vec<(u64, String)> =
            self.lines.iter().filter(|(_, l)| !l.calling).filter_map(|(k, l)| Some((*l.waiting.keys().next()?, k.clone()))).collect();
        order.sort();
        for (_, key) in order {
            let Some(line) = self.lines.get_mut(&key) else { continue };
            let arrived: Vec<Duration> = line.waiting.values().map(|h| h.taken).collect();
            match plan(&gather, &arrived, &line.calls, now) {
                Plan::Nothing => {}
                Plan::Wait(until) if until.saturating_sub(now) > LONGEST_HOLD => {
                    line.away = until;
                    let all = line.empty();
                    self.hand_back(all, until - now);
                }
                Plan::Wait(until) => next = earlier(next, until),
                Plan::Tell(_) if self.calling >= at_once(&self.sink) => {}
                Plan::Tell(count) => {
                    let batch = std::iter::from_fn(|| line.waiting.pop_first()).take(count).map(|(_, h)| h.lent).collect();
                    self.call(key, batch, now);
                }
            }
        }
        next
    }

    /// Gives back what has waited for so long that its lease might end while it is told, whatever it waits for, and says when to look again.
    ///
    /// A lease that ends counts as an attempt, and marks the next as a repeat; what is handed back in time was never tried. It goes with all that waits in its
    /// conversation, so that they stay in order.
    fn hand_back_the_old(&mut self, now: Duration) -> Option<Duration> {
        let at_most = self.lease.saturating_sub(longest_call(&self.sink));
        let mut next = None;
        let mut old = Vec::new();
        for line in self.lines.values_mut() {
            let Some(first) = line.waiting.values().map(|h| h.taken).min() else { continue };
            let until = first.saturating_add(at_most);
            if until > now {
                next = earlier(next, until);
                continue;
            }
            line.away = line.away.max(now + HANDED_BACK);
            old.extend(line.empty());
        }
        if !old.is_empty() {
            debug!(sink = self.sink.name, count = old.len(), "handed back: there was no turn for them while they were lent");
            self.hand_back(old, HANDED_BACK);
        }
        next
    }

    fn call(&mut self, key: String, batch: Vec<Lent>, now: Duration) {
        if let Some(line) = self.lines.get_mut(&key) {
            line.calling = true;
            line.calls.push(now);
        }
        self.calling += 1;
        let (sink, desk, stop) = (Arc::clone(&self.sink), Arc::clone(&self.desk), self.stop.clone());
        let errand = self.errands.spawn(async move {
            // The places are taken until all is settled.
            let (batch, _places): (Vec<Delivery>, Vec<OwnedSemaphorePermit>) = batch.into_iter().map(|l| (l.delivery, l.place)).unzip();
            let batch = match &sink.way {
                Way::Hook(hook) if hook.wakes => may_be_told(&sink.name, &*desk, &stop, batch).await,
                Way::Hook(_) | Way::Webhook(_) => batch,
            };
            if batch.is_empty() {
                return None;
            }
            let outcome = match &sink.way {
                Way::Hook(hook) => hook::tell(hook, &batch, stop.subscribe()).await,
                Way::Webhook(webhook) => match batch.first() {
                    Some(delivery) => webhook::tell(webhook, delivery).await,
                    None => Outcome::Done,
                },
            };
            let attempts: Vec<u32> = batch.iter().map(|d| d.attempts).collect();
            for (delivery, verdict) in batch.into_iter().zip(verdicts(&sink.retry, &outcome, &attempts, random())) {
                settle(&sink.name, &*desk, &stop, &delivery, verdict).await;
            }
            match outcome {
                Outcome::Gone { reason } => Some(reason),
                Outcome::Done | Outcome::Failed { .. } => None,
            }
        });
        self.places.insert(errand.id(), Place { line: Some(key), hands_back: false });
    }

    /// Gives back what is not tried yet.
    fn hand_back(&mut self, lent: Vec<Lent>, after: Duration) {
        self.handing_back.send_modify(|n| *n += 1);
        self.errand(lent.into_iter().map(|l| (l, Settle::Later { after })).collect(), true);
    }

    /// Settles apart from the loop.
    fn settle(&mut self, all: Vec<(Lent, Settle)>) {
        self.errand(all, false);
    }

    fn errand(&mut self, all: Vec<(Lent, Settle)>, hands_back: bool) {
        let (sink, desk, stop) = (Arc::clone(&self.sink), Arc::clone(&self.desk), self.stop.clone());
        let errand = self.errands.spawn(async move {
            for (lent, verdict) in all {
                settle(&sink.name, &*desk, &stop, &lent.delivery, verdict).await;
            }
            None
        });
        self.places.insert(errand.id(), Place { line: None, hands_back });
    }

    /// Takes note of an errand that is over.
    fn note(&mut self, done: Result<(Id, Option<String>), JoinError>) {
        let (id, gone) = done.unwrap_or_else(|e| {
            // A fault of ours. What it had is lent again when its lease is over.
            error!(sink = self.sink.name, "a call broke down: {e}");
            (e.id(), None)
        });
        let Some(place) = self.places.remove(&id) else { return };
        if place.hands_back {
            self.handing_back.send_modify(|n| *n -= 1);
        }
        if let Some(key) = place.line {
            self.calling -= 1;
            if let Some(line) = self.lines.get_mut(&key) {
                line.calling = false;
                line.hand_back = HANDED_BACK;
            }
        }
        if let Some(reason) = gone {
            self.close(reason);
        }
    }

    /// The receiver wants no more: neither what waits, nor what is still to come while this engine runs.
    fn close(&mut self, reason: String) {
        warn!(sink = self.sink.name, "nothing more is sent until the engine starts anew: {reason}");
        let mut rest = Vec::new();
        for line in self.lines.values_mut() {
            rest.extend(line.empty().into_iter().map(|lent| (lent, Settle::Dead { reason: reason.clone() })));
        }
        self.settle(rest);
        self.gone = Some(reason);
    }
}

/// What it takes to take.
struct Taking<D> {
    sink: Arc<SinkConfig>,
    desk: Arc<D>,
    lease: Duration,
    room: Arc<Semaphore>,
    handing_back: watch::Receiver<usize>,
    to: mpsc::Sender<(Vec<Lent>, oneshot::Sender<()>)>,
}

/// Takes what is due, as far as there is room, until the engine stops.
async fn take<D: Desk>(mut with: Taking<D>) {
    let mut failures = 0u32;
    // Until then one is asked for at a time.
    let mut one_by_one = Instant::now();
    loop {
        if with.handing_back.wait_for(|n| *n == 0).await.is_err() {
            return;
        }
        let Ok(first) = with.room.acquire().await else { return };
        // Nobody else takes permits, so what is free now stays free.
        let limit = if Instant::now() < one_by_one { 1 } else { MOST_ASKED_FOR.min(1 + with.room.available_permits()) };
        drop(first);
        match with.desk.take(&with.sink.name, with.lease, limit).await {
            Ok(batch) => {
                failures = 0;
                let mut lent = Vec::new();
                // More than was asked for is not ours to hold.
                for delivery in batch.into_iter().take(limit) {
                    let Ok(place) = Arc::clone(&with.room).acquire_owned().await else { return };
                    lent.push(Lent { delivery, place });
                }
                let (seen, was_seen) = oneshot::channel();
                if with.to.send((lent, seen)).await.is_err() {
                    return;
                }
                // Dropped rather than answered.
                let _dropped = was_seen.await;
            }
            Err(DeskError::Stopping) => return,
            Err(DeskError::Unreadable(e)) => {
                failures += 1;
                // What was lent with it comes again when its lease is over. Alone, what can be read is read, and what cannot be stands in nobody's way.
                one_by_one = Instant::now() + with.lease * 2;
                warn!(sink = with.sink.name, failures, limit, "what is due cannot be read, and is asked for one at a time: {e}");
                // No descriptor tells when it can be read.
                sleep(ASK_AGAIN).await;
            }
            Err(e @ (DeskError::NotOurs | DeskError::Failed(_))) => {
                failures += 1;
                warn!(sink = with.sink.name, failures, "cannot ask what is due: {e}");
                // No descriptor tells when an engine is able again.
                sleep(ASK_AGAIN).await;
            }
        }
    }
}

/// Of what is about to be told to an agent, what may be: the rest it has by other ways.
async fn may_be_told<D: Desk>(sink: &str, desk: &D, stop: &watch::Sender<bool>, batch: Vec<Delivery>) -> Vec<Delivery> {
    let error = match timeout(SETTLE_WITHIN, desk.wake(sink, &batch)).await {
        Ok(Ok(may)) => return may,
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {SETTLE_WITHIN:?}"),
    };
    // Not tried, so it counts as no attempt.
    warn!(sink, "cannot ask what may be told: {error}");
    for delivery in &batch {
        settle(sink, desk, stop, delivery, Settle::Later { after: ASK_AGAIN }).await;
    }
    Vec::new()
}

async fn settle<D: Desk>(sink: &str, desk: &D, stop: &watch::Sender<bool>, delivery: &Delivery, verdict: Settle) {
    let event = &delivery.event.event_id;
    match &verdict {
        Settle::Delivered | Settle::Later { .. } => debug!(sink, event, "{verdict:?}"),
        Settle::Retry { after, reason } => info!(sink, event, "not delivered, next in {after:?}: {reason}"),
        Settle::Dead { reason } => warn!(sink, event, "dead: {reason}"),
    }
    for _ in 0..SETTLE_TRIES {
        match timeout(SETTLE_WITHIN, desk.settle(sink, delivery, verdict.clone())).await {
            Ok(Ok(())) => return,
            Ok(Err(DeskError::Stopping)) => {
                stop.send_replace(true);
                return;
            }
            Ok(Err(DeskError::NotOurs)) => {
                info!(sink, event, "somebody else has it: its lease ended before this");
                return;
            }
            Ok(Err(DeskError::Failed(e) | DeskError::Unreadable(e))) => {
                warn!(sink, event, "cannot say what became of it: {e}");
                sleep(ASK_AGAIN).await;
            }
            Err(_) => warn!(sink, event, "cannot say what became of it: no answer within {SETTLE_WITHIN:?}"),
        }
    }
}

fn gather(sink: &SinkConfig) -> &Gather {
    static NONE: Gather = Gather { window: Duration::ZERO, budget: None, most: 1 };
    match &sink.way {
        Way::Hook(hook) => &hook.gather,
        // Each request has the id of one notice.
        Way::Webhook(_) => &NONE,
    }
}

fn at_once(sink: &SinkConfig) -> usize {
    sink.at_once.clamp(1, MOST_AT_ONCE)
}

fn earlier(one: Option<Duration>, other: Duration) -> Option<Duration> {
    Some(one.map_or(other, |one| one.min(other)))
}

async fn alarm(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // A sender that is gone means the same.
    drop(stop.wait_for(|stop| *stop).await);
}

/// How long a call can take.
fn longest_call(sink: &SinkConfig) -> Duration {
    match &sink.way {
        Way::Hook(hook) => hook.time_limit + hook.grace * 2,
        Way::Webhook(webhook) => webhook.connect + webhook.whole,
    }
}

#[cfg(test)]
mod tests;
