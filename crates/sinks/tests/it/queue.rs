//! A delivery queue in memory. A retried delivery is due at once, so that no test waits for a schedule. A delivery that is handed back
//! does not come again.

use outlast_client::{Body, Delivery, Notice, Owner, ProcessId, Route, Time};
use outlast_sinks::{DeliveryQueue, QueueError, Settle, SinkConfig};
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

#[derive(Default)]
pub(crate) struct Memory {
    state: Mutex<State>,
    news: Notify,
}

#[derive(Default)]
struct State {
    rows: Vec<Row>,
    settled: Vec<(String, u64, Settle)>,
    stopping: bool,
    leases: u64,
    /// Texts of notices that the agent has already, and how often a sink asked which it may deliver.
    had: Vec<String>,
    asked: u32,
}

struct Row {
    sink: String,
    due: bool,
    delivery: Delivery,
}

/// No test waits longer than this for anything.
const PATIENCE: Duration = Duration::from_secs(60);

impl Memory {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Makes a notice of a session due for a sink, and returns its `seq`.
    pub(crate) fn post(&self, sink: &str, session: &str, text: &str) -> u64 {
        self.post_tried(sink, session, text, 0)
    }

    /// The same, as if calls had failed before.
    pub(crate) fn post_tried(&self, sink: &str, session: &str, text: &str, attempts: u32) -> u64 {
        let mut state = self.state.lock().unwrap();
        let seq = state.rows.len() as u64 + 1;
        let owner = Owner { session: Some(session.into()), task: None, generation: None };
        let body = Body::Posted(json!({"type": "custom", "note": text}).as_object().unwrap().clone());
        let process = Some(ProcessId::from_bytes([7; 6]));
        let mut notice = Notice::new(format!("evt_{seq}"), Time::from_micros(1_000_000), process, &owner, Route::default(), body);
        notice.seq = seq;
        let first_at = Time::from_micros(0);
        let delivery = Delivery::new(notice, text, attempts, first_at, "");
        state.rows.push(Row { sink: sink.into(), due: true, delivery });
        drop(state);
        self.news.notify_waiters();
        seq
    }

    /// The agent has the notice with this text already.
    pub(crate) fn has(&self, text: &str) {
        self.state.lock().unwrap().had.push(text.into());
    }

    /// How often a sink asked which notices it may deliver.
    pub(crate) fn asked(&self) -> u32 {
        self.state.lock().unwrap().asked
    }

    /// Ends a lease before its time.
    pub(crate) fn lapse(&self, seq: u64) {
        let mut state = self.state.lock().unwrap();
        let row = state.rows.iter_mut().find(|r| r.delivery.event.seq == seq).unwrap();
        row.delivery.lease.clear();
        row.due = true;
        drop(state);
        self.news.notify_waiters();
    }

    /// Waits until a notice was leased this often.
    pub(crate) async fn leased(&self, seq: u64, times: u32) {
        let attempts = || self.state.lock().unwrap().rows.iter().find(|r| r.delivery.event.seq == seq).unwrap().delivery.attempts;
        self.until(|_| attempts() >= times).await;
    }

    pub(crate) fn stop(&self) {
        self.state.lock().unwrap().stopping = true;
        self.news.notify_waiters();
    }

    /// The results reported so far, in order.
    pub(crate) fn settled(&self) -> Vec<(u64, Settle)> {
        self.state.lock().unwrap().settled.iter().map(|(_, seq, settle)| (*seq, settle.clone())).collect()
    }

    /// Waits for this many reports.
    pub(crate) async fn settlements(&self, count: usize) -> Vec<(u64, Settle)> {
        self.until(|settled| settled.len() >= count).await
    }

    /// Waits until a notice was settled.
    pub(crate) async fn end_of(&self, seq: u64) -> Settle {
        let over = |(s, settle): &(u64, Settle)| *s == seq && matches!(settle, Settle::Delivered | Settle::Dead { .. });
        let settled = self.until(|settled| settled.iter().any(over)).await;
        settled.into_iter().find(over).unwrap().1
    }

    async fn until(&self, enough: impl Fn(&[(u64, Settle)]) -> bool) -> Vec<(u64, Settle)> {
        let look = async {
            loop {
                let news = self.news.notified();
                tokio::pin!(news);
                news.as_mut().enable();
                let settled = self.settled();
                if enough(&settled) {
                    return settled;
                }
                news.await;
            }
        };
        match tokio::time::timeout(PATIENCE, look).await {
            Ok(settled) => settled,
            Err(_) => panic!("waited too long; settled were {:?}", self.settled()),
        }
    }
}

impl DeliveryQueue for Memory {
    async fn take(&self, sink: &str, lease: Duration, limit: usize) -> Result<Vec<Delivery>, QueueError> {
        assert!(limit > 0 && lease > Duration::ZERO);
        loop {
            let news = self.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            {
                let mut state = self.state.lock().unwrap();
                if state.stopping {
                    return Err(QueueError::Stopping);
                }
                state.leases += 1;
                let word = format!("lease-{}", state.leases);
                let mut taken = Vec::new();
                for row in state.rows.iter_mut().filter(|r| r.sink == sink && r.due).take(limit) {
                    row.due = false;
                    row.delivery.lease = word.clone();
                    taken.push(row.delivery.clone());
                    row.delivery.attempts += 1;
                }
                if !taken.is_empty() {
                    drop(state);
                    self.news.notify_waiters();
                    return Ok(taken);
                }
            }
            news.await;
        }
    }

    async fn wake(&self, _sink: &str, batch: &[Delivery]) -> Result<Vec<Delivery>, QueueError> {
        let mut state = self.state.lock().unwrap();
        state.asked += 1;
        if state.asked == 1 {
            return Err(QueueError::Failed("not now".into()));
        }
        let may = batch.iter().filter(|d| !state.had.contains(&d.text)).cloned().map(|mut d| {
            d.event.repeat = true;
            d
        });
        Ok(may.collect())
    }

    async fn settle(&self, sink: &str, delivery: &Delivery, settle: Settle) -> Result<(), QueueError> {
        let seq = delivery.event.seq;
        let mut state = self.state.lock().unwrap();
        if state.stopping {
            return Err(QueueError::Stopping);
        }
        let row = state.rows.iter_mut().find(|r| r.sink == sink && r.delivery.event.seq == seq).expect("only what was lent is settled");
        if row.delivery.lease != delivery.lease {
            return Err(QueueError::NotOurs);
        }
        match &settle {
            Settle::Delivered | Settle::Dead { .. } => row.delivery.lease.clear(),
            Settle::Retry { .. } => row.due = true,
            Settle::Later { .. } => row.delivery.attempts -= 1,
        }
        state.settled.push((sink.to_owned(), seq, settle));
        drop(state);
        self.news.notify_waiters();
        Ok(())
    }
}

/// Sinks that run until they are dropped.
pub(crate) struct Running {
    task: JoinHandle<()>,
}

pub(crate) fn start(queue: &Arc<Memory>, sinks: Vec<SinkConfig>) -> Running {
    Running { task: tokio::spawn(outlast_sinks::run(sinks, Arc::clone(queue))) }
}

impl Running {
    /// Waits until they end by themselves.
    pub(crate) async fn ended(mut self) {
        tokio::time::timeout(PATIENCE, &mut self.task).await.expect("sinks end when the engine does").unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}
