//! The loop of each sink: lease the due deliveries, call, settle.
//!
//! Decisions 55 and 56: docs/decisions/sinks.md.

use crate::call_result::CallResult;
use crate::coalesce::forgotten;
use crate::{DeliveryQueue, Gather, Plan, Policy, QueueError, Settle, SinkConfig, Way, backoff, hook, plan, webhook};
use outlast_client::Delivery;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::{debug, error, info, warn};

/// How many deliveries of one session may wait for their turn. The others are handed back for a while, so that other sessions have room.
const MAX_WAITING_PER_SESSION: usize = 64;

/// How many deliveries a sink may hold beside those of the sessions that it calls.
const SPARE_DELIVERIES: usize = 64;

/// How long the deliveries that exceed a session's share are handed back: the first time, and at most. The time doubles until one of the
/// session's calls ends. Deliveries that waited too long are handed back for the first time's length, so that later ones cannot overtake
/// them.
const FIRST_HAND_BACK: Duration = Duration::from_millis(250);
const MAX_HAND_BACK: Duration = Duration::from_secs(5);

/// The most calls that a sink makes at once, whatever is configured.
const MAX_CONCURRENT_CALLS: usize = 64;

/// A delivery that has to wait longer is handed back: a lease is for a delivery whose call is near.
const MAX_HOLD: Duration = Duration::from_secs(5);

/// The most deliveries in one request. The answer has to fit into a message, and a notice can be large.
const MAX_DELIVERIES_PER_REQUEST: usize = 8;

/// How long a sink waits before it asks an engine again that could not answer.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// How long a report to the engine may take, and how often it is tried. After that the lease runs out, and the call is made again.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_SETTLE_ATTEMPTS: u32 = 3;

/// How long running calls may take to end when the engine stops. A hook stops its command within this time.
const STOP_TIMEOUT: Duration = Duration::from_secs(4);

/// Serves the sinks until the engine stops. If it is dropped, it stops the calls that it started.
pub async fn run<D: DeliveryQueue>(sinks: Vec<SinkConfig>, queue: Arc<D>) {
    let stop = watch::Sender::new(false);
    let mut loops = JoinSet::new();
    for sink in sinks {
        let sink_loop = SinkLoop::new(Arc::new(sink), Arc::clone(&queue), stop.clone());
        loops.spawn(sink_loop.run());
    }
    while let Some(ended) = loops.join_next().await {
        if let Err(e) = ended {
            // The other loops keep running. The deliveries of this one are leased again by the next engine.
            error!("a sink broke down: {e}");
        }
    }
}

/// The report for each delivery of a call, in their order. Deliveries that are retried are due again at the same time.
fn verdicts(policy: &Policy, outcome: &CallResult, attempts: &[u32], random: f64) -> Vec<Settle> {
    let (reason, wait) = match outcome {
        CallResult::Done => return vec![Settle::Delivered; attempts.len()],
        CallResult::Gone { reason } => return vec![Settle::Dead { reason: reason.clone() }; attempts.len()],
        CallResult::Failed { reason, wait } => (reason, wait.unwrap_or_default()),
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
        // This number only spreads the attempts.
        _ => 0.5,
    }
}

/// The loop of one sink. It owns all deliveries that the sink holds.
struct SinkLoop<D> {
    sink: Arc<SinkConfig>,
    queue: Arc<D>,
    stop: watch::Sender<bool>,
    lease: Duration,
    began: Instant,
    /// One permit for each delivery that may be leased.
    room: Arc<Semaphore>,
    /// How many hand-backs are being reported. Until the engine has recorded them, it would lease later deliveries first.
    handing_back: watch::Sender<usize>,
    sessions: BTreeMap<String, SessionQueue>,
    /// Calls and reports. The result is the reason of a receiver that unsubscribed.
    tasks: JoinSet<Option<String>>,
    /// The purpose of each task.
    purposes: HashMap<Id, TaskPurpose>,
    calling: usize,
    /// The reason of a receiver that unsubscribed.
    gone: Option<String>,
}

/// The deliveries of one session.
struct SessionQueue {
    waiting: BTreeMap<u64, WaitingDelivery>,
    calls: Vec<Duration>,
    calling: bool,
    /// Some were handed back until this time. Later ones must not overtake them.
    away: Duration,
    /// How long the next ones are handed back.
    hand_back: Duration,
}

impl Default for SessionQueue {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), calls: Vec::new(), calling: false, away: Duration::ZERO, hand_back: FIRST_HAND_BACK }
    }
}

impl SessionQueue {
    /// Removes and returns all waiting deliveries, in order.
    fn take_all(&mut self) -> Vec<LeasedDelivery> {
        std::mem::take(&mut self.waiting).into_values().map(|h| h.leased).collect()
    }
}

/// A leased delivery. Its permit is free again once it is dropped.
struct LeasedDelivery {
    delivery: Delivery,
    permit: OwnedSemaphorePermit,
}

/// A leased delivery that waits for its turn.
struct WaitingDelivery {
    leased: LeasedDelivery,
    taken: Duration,
}

/// The purpose of a task.
struct TaskPurpose {
    /// The session that it calls.
    session: Option<String>,
    hands_back: bool,
}

impl<D: DeliveryQueue> SinkLoop<D> {
    fn new(sink: Arc<SinkConfig>, queue: Arc<D>, stop: watch::Sender<bool>) -> Self {
        let lease = longest_call(&sink) * 2 + MAX_HOLD + gather(&sink).window;
        let room = at_once(&sink) * (gather(&sink).most + MAX_WAITING_PER_SESSION) + SPARE_DELIVERIES;
        Self {
            sink,
            queue,
            stop,
            lease,
            began: Instant::now(),
            room: Arc::new(Semaphore::new(room)),
            handing_back: watch::Sender::new(0),
            sessions: BTreeMap::new(),
            tasks: JoinSet::new(),
            purposes: HashMap::new(),
            calling: 0,
            gone: None,
        }
    }

    async fn run(mut self) {
        // Polling is a task of its own: if a request is dropped half-way, deliveries that it leased already would wait until their lease runs out.
        let (sender, mut taken) = mpsc::channel(1);
        let mut poller = JoinSet::new();
        poller.spawn(poll(PollTask {
            sink: Arc::clone(&self.sink),
            queue: Arc::clone(&self.queue),
            lease: self.lease,
            room: Arc::clone(&self.room),
            handing_back: self.handing_back.subscribe(),
            to: sender,
        }));
        let mut stop = self.stop.subscribe();
        let mut unseen = None;
        loop {
            let next = self.start_due_calls();
            // By now it is decided which deliveries of the last batch are handed back, so the next batch may be asked for.
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
                Some(done) = self.tasks.join_next_with_id() => self.note(done),
                () = alarm => {}
                () = stopped(&mut stop) => break,
            }
        }
        // This stops the running hooks, and the loops of the other sinks, which may be in a call.
        self.stop.send_replace(true);
        let ends = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(STOP_TIMEOUT, ends).await.is_err() {
            info!(sink = self.sink.name, "calls were under way when the engine stopped; they are made again");
        }
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Adds leased deliveries to the queues of their sessions.
    fn accept(&mut self, batch: Vec<LeasedDelivery>) {
        let now = self.now();
        let mut back: HashMap<Duration, Vec<LeasedDelivery>> = HashMap::new();
        for leased in batch {
            if let Some(reason) = &self.gone {
                let settle = Settle::Dead { reason: reason.clone() };
                self.settle(vec![(leased, settle)]);
                continue;
            }
            let session = self.sessions.entry(leased.delivery.event.session_key.clone()).or_default();
            // Leased again while it still waits: the first lease ran out, as after a sleep of the machine, and its token is no longer valid.
            let _lapsed = session.waiting.remove(&leased.delivery.event.seq);
            if session.away <= now && session.waiting.len() >= MAX_WAITING_PER_SESSION {
                session.away = now + session.hand_back;
                session.hand_back = MAX_HAND_BACK.min(session.hand_back * 2);
            }
            match session.away > now {
                true => back.entry(session.away - now).or_default().push(leased),
                false => {
                    session.waiting.insert(leased.delivery.event.seq, WaitingDelivery { leased, taken: now });
                }
            }
        }
        for (after, leased) in back {
            self.hand_back(leased, after);
        }
    }

    /// Starts every call that may be made now, and returns when to look again.
    fn start_due_calls(&mut self) -> Option<Duration> {
        let now = self.now();
        let gather = gather(&self.sink).clone();
        self.sessions.retain(|_, session| {
            session.calls.drain(..forgotten(&gather, &session.calls, now));
            !session.waiting.is_empty() || session.calling || !session.calls.is_empty() || session.away > now
        });
        let mut next = self.hand_back_the_old(now);
        // The oldest delivery first, so that a session with many deliveries does not delay the others.
        let mut order: Vec<(u64, String)> =
            self.sessions.iter().filter(|(_, l)| !l.calling).filter_map(|(k, l)| Some((*l.waiting.keys().next()?, k.clone()))).collect();
        order.sort();
        for (_, key) in order {
            let Some(session) = self.sessions.get_mut(&key) else { continue };
            let arrived: Vec<Duration> = session.waiting.values().map(|h| h.taken).collect();
            match plan(&gather, &arrived, &session.calls, now) {
                Plan::Nothing => {}
                Plan::Wait(until) if until.saturating_sub(now) > MAX_HOLD => {
                    session.away = until;
                    let all = session.take_all();
                    self.hand_back(all, until - now);
                }
                Plan::Wait(until) => next = earlier(next, until),
                Plan::Tell(_) if self.calling >= at_once(&self.sink) => {}
                Plan::Tell(count) => {
                    let batch = std::iter::from_fn(|| session.waiting.pop_first()).take(count).map(|(_, h)| h.leased).collect();
                    self.call(key, batch, now);
                }
            }
        }
        next
    }

    /// Hands back deliveries that waited so long that their lease might run out during the call. Returns when to look again.
    ///
    /// A lease that runs out counts as an attempt and marks the next one as a repeat; a delivery that is handed back in time does not. All
    /// waiting deliveries of the session go with it, so that they stay in order.
    fn hand_back_the_old(&mut self, now: Duration) -> Option<Duration> {
        let at_most = self.lease.saturating_sub(longest_call(&self.sink));
        let mut next = None;
        let mut old = Vec::new();
        for session in self.sessions.values_mut() {
            let Some(first) = session.waiting.values().map(|h| h.taken).min() else { continue };
            let until = first.saturating_add(at_most);
            if until > now {
                next = earlier(next, until);
                continue;
            }
            session.away = session.away.max(now + FIRST_HAND_BACK);
            old.extend(session.take_all());
        }
        if !old.is_empty() {
            debug!(sink = self.sink.name, count = old.len(), "handed back: there was no turn for them while they were lent");
            self.hand_back(old, FIRST_HAND_BACK);
        }
        next
    }

    fn call(&mut self, key: String, batch: Vec<LeasedDelivery>, now: Duration) {
        if let Some(session) = self.sessions.get_mut(&key) {
            session.calling = true;
            session.calls.push(now);
        }
        self.calling += 1;
        let (sink, queue, stop) = (Arc::clone(&self.sink), Arc::clone(&self.queue), self.stop.clone());
        let task = self.tasks.spawn(async move {
            // The permits are held until all results are reported.
            let (batch, _permits): (Vec<Delivery>, Vec<OwnedSemaphorePermit>) = batch.into_iter().map(|l| (l.delivery, l.permit)).unzip();
            let batch = match &sink.way {
                Way::Hook(hook) if hook.wakes => claim(&sink.name, &*queue, &stop, batch).await,
                Way::Hook(_) | Way::Webhook(_) => batch,
            };
            if batch.is_empty() {
                return None;
            }
            let outcome = match &sink.way {
                Way::Hook(hook) => hook::deliver(hook, &batch, stop.subscribe()).await,
                Way::Webhook(webhook) => match batch.first() {
                    Some(delivery) => webhook::deliver(webhook, delivery).await,
                    None => CallResult::Done,
                },
            };
            let attempts: Vec<u32> = batch.iter().map(|d| d.attempts).collect();
            for (delivery, verdict) in batch.into_iter().zip(verdicts(&sink.retry, &outcome, &attempts, random())) {
                settle(&sink.name, &*queue, &stop, &delivery, verdict).await;
            }
            match outcome {
                CallResult::Gone { reason } => Some(reason),
                CallResult::Done | CallResult::Failed { .. } => None,
            }
        });
        self.purposes.insert(task.id(), TaskPurpose { session: Some(key), hands_back: false });
    }

    /// Hands back deliveries whose call was not made.
    fn hand_back(&mut self, leased: Vec<LeasedDelivery>, after: Duration) {
        self.handing_back.send_modify(|n| *n += 1);
        self.task(leased.into_iter().map(|l| (l, Settle::Later { after })).collect(), true);
    }

    /// Reports results in a task of their own, so that the loop does not wait.
    fn settle(&mut self, all: Vec<(LeasedDelivery, Settle)>) {
        self.task(all, false);
    }

    fn task(&mut self, all: Vec<(LeasedDelivery, Settle)>, hands_back: bool) {
        let (sink, queue, stop) = (Arc::clone(&self.sink), Arc::clone(&self.queue), self.stop.clone());
        let task = self.tasks.spawn(async move {
            for (leased, verdict) in all {
                settle(&sink.name, &*queue, &stop, &leased.delivery, verdict).await;
            }
            None
        });
        self.purposes.insert(task.id(), TaskPurpose { session: None, hands_back });
    }

    /// Handles the end of a task.
    fn note(&mut self, done: Result<(Id, Option<String>), JoinError>) {
        let (id, gone) = done.unwrap_or_else(|e| {
            // A bug. Its deliveries are leased again when their lease runs out.
            error!(sink = self.sink.name, "a call broke down: {e}");
            (e.id(), None)
        });
        let Some(purpose) = self.purposes.remove(&id) else { return };
        if purpose.hands_back {
            self.handing_back.send_modify(|n| *n -= 1);
        }
        if let Some(key) = purpose.session {
            self.calling -= 1;
            if let Some(session) = self.sessions.get_mut(&key) {
                session.calling = false;
                session.hand_back = FIRST_HAND_BACK;
            }
        }
        if let Some(reason) = gone {
            self.close(reason);
        }
    }

    /// Handles a receiver that unsubscribed: its waiting deliveries, and all that come while this engine runs, become dead letters.
    fn close(&mut self, reason: String) {
        warn!(sink = self.sink.name, "nothing more is sent until the engine starts anew: {reason}");
        let mut rest = Vec::new();
        for session in self.sessions.values_mut() {
            rest.extend(session.take_all().into_iter().map(|leased| (leased, Settle::Dead { reason: reason.clone() })));
        }
        self.settle(rest);
        self.gone = Some(reason);
    }
}

/// What the polling task needs.
struct PollTask<D> {
    sink: Arc<SinkConfig>,
    queue: Arc<D>,
    lease: Duration,
    room: Arc<Semaphore>,
    handing_back: watch::Receiver<usize>,
    to: mpsc::Sender<(Vec<LeasedDelivery>, oneshot::Sender<()>)>,
}

/// Leases due deliveries while there is room, until the engine stops.
async fn poll<D: DeliveryQueue>(mut with: PollTask<D>) {
    let mut failures = 0u32;
    // Until then each request asks for one delivery.
    let mut one_by_one = Instant::now();
    loop {
        if with.handing_back.wait_for(|n| *n == 0).await.is_err() {
            return;
        }
        let Ok(first) = with.room.acquire().await else { return };
        // Only this task takes permits, so the free ones stay free.
        let limit = if Instant::now() < one_by_one { 1 } else { MAX_DELIVERIES_PER_REQUEST.min(1 + with.room.available_permits()) };
        drop(first);
        match with.queue.take(&with.sink.name, with.lease, limit).await {
            Ok(batch) => {
                failures = 0;
                let mut leased = Vec::new();
                // The engine may not lease more than was asked for; the rest is ignored.
                for delivery in batch.into_iter().take(limit) {
                    let Ok(permit) = Arc::clone(&with.room).acquire_owned().await else { return };
                    leased.push(LeasedDelivery { delivery, permit });
                }
                let (seen, was_seen) = oneshot::channel();
                if with.to.send((leased, seen)).await.is_err() {
                    return;
                }
                // The loop drops the sender when it has accepted the batch.
                let _dropped = was_seen.await;
            }
            Err(QueueError::Stopping) => return,
            Err(QueueError::Unreadable(e)) => {
                failures += 1;
                // The batch comes again when its lease runs out. Asked for one at a time, an unreadable delivery does not hold up the others.
                one_by_one = Instant::now() + with.lease * 2;
                warn!(sink = with.sink.name, failures, limit, "what is due cannot be read, and is asked for one at a time: {e}");
                // No event says when it becomes readable.
                sleep(RETRY_PAUSE).await;
            }
            Err(e @ (QueueError::NotOurs | QueueError::Failed(_))) => {
                failures += 1;
                warn!(sink = with.sink.name, failures, "cannot ask what is due: {e}");
                // No event says when the engine can answer again.
                sleep(RETRY_PAUSE).await;
            }
        }
    }
}

/// Claims the notices that an agent is about to be woken for, and returns those that may be delivered. The agent has the others already.
async fn claim<D: DeliveryQueue>(sink: &str, queue: &D, stop: &watch::Sender<bool>, batch: Vec<Delivery>) -> Vec<Delivery> {
    let error = match timeout(SETTLE_TIMEOUT, queue.wake(sink, &batch)).await {
        Ok(Ok(may)) => return may,
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {SETTLE_TIMEOUT:?}"),
    };
    // The call was not made, so it does not count as an attempt.
    warn!(sink, "cannot ask what may be told: {error}");
    for delivery in &batch {
        settle(sink, queue, stop, delivery, Settle::Later { after: RETRY_PAUSE }).await;
    }
    Vec::new()
}

async fn settle<D: DeliveryQueue>(sink: &str, queue: &D, stop: &watch::Sender<bool>, delivery: &Delivery, verdict: Settle) {
    let event = &delivery.event.event_id;
    match &verdict {
        Settle::Delivered | Settle::Later { .. } => debug!(sink, event, "{verdict:?}"),
        Settle::Retry { after, reason } => info!(sink, event, "not delivered, next in {after:?}: {reason}"),
        Settle::Dead { reason } => warn!(sink, event, "dead: {reason}"),
    }
    for _ in 0..MAX_SETTLE_ATTEMPTS {
        match timeout(SETTLE_TIMEOUT, queue.settle(sink, delivery, verdict.clone())).await {
            Ok(Ok(())) => return,
            Ok(Err(QueueError::Stopping)) => {
                stop.send_replace(true);
                return;
            }
            Ok(Err(QueueError::NotOurs)) => {
                info!(sink, event, "another taker has it: its lease ended before this");
                return;
            }
            Ok(Err(QueueError::Failed(e) | QueueError::Unreadable(e))) => {
                warn!(sink, event, "cannot report its result: {e}");
                sleep(RETRY_PAUSE).await;
            }
            Err(_) => warn!(sink, event, "cannot report its result: no answer within {SETTLE_TIMEOUT:?}"),
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
    sink.at_once.clamp(1, MAX_CONCURRENT_CALLS)
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
    // If the sender is gone, the engine dropped its sinks: the same.
    drop(stop.wait_for(|stop| *stop).await);
}

/// The longest time that a call can take.
fn longest_call(sink: &SinkConfig) -> Duration {
    match &sink.way {
        Way::Hook(hook) => hook.time_limit + hook.grace * 2,
        Way::Webhook(webhook) => webhook.connect + webhook.whole,
    }
}

#[cfg(test)]
mod tests;
