//! Leases that run out. Time passes only while all tasks wait.

use crate::webhook::sink;
use outlast_client::{Body, Delivery, Notice, Owner, Route, Time};
use outlast_sinks::{DeliveryQueue, Growth, Policy, QueueError, Settle};
use serde_json::json;
use std::collections::VecDeque;
use std::io::Write;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// A queue whose leases run out after the time that was asked for.
#[derive(Default)]
struct Clocked {
    state: Mutex<State>,
    news: Notify,
}

#[derive(Default)]
struct State {
    rows: Vec<Row>,
    words: u64,
    lapses: u64,
}

struct Row {
    delivery: Delivery,
    stands: Stands,
    /// How many calls came too late.
    failures: u32,
}

enum Stands {
    Due(Instant),
    Lent(Instant),
    Over,
}

impl Clocked {
    fn post(&self, session: &str) {
        let mut state = self.state.lock().unwrap();
        let seq = state.rows.len() as u64 + 1;
        let owner = Owner { session: Some(session.into()), task: None, generation: None };
        let body = Body::Posted(json!({"type": "custom"}).as_object().unwrap().clone());
        let mut event = Notice::new(format!("evt_{seq}"), Time::from_micros(0), None, &owner, Route::default(), body);
        event.seq = seq;
        let delivery = Delivery::new(event, "x", 0, Time::from_micros(0), "");
        state.rows.push(Row { delivery, stands: Stands::Due(Instant::now()), failures: 0 });
    }

    fn lapses(&self) -> u64 {
        self.state.lock().unwrap().lapses
    }

    fn calls(&self) -> u32 {
        self.state.lock().unwrap().rows.iter().map(|r| r.failures).sum()
    }

    fn open(&self) -> usize {
        self.state.lock().unwrap().rows.iter().filter(|r| !matches!(r.stands, Stands::Over)).count()
    }
}

impl DeliveryQueue for Clocked {
    async fn take(&self, _: &str, lease: Duration, limit: usize) -> Result<Vec<Delivery>, QueueError> {
        loop {
            let news = self.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            let next = {
                let now = Instant::now();
                let state = &mut *self.state.lock().unwrap();
                state.words += 1;
                let mut taken = Vec::new();
                for row in &mut state.rows {
                    let lapsed = match row.stands {
                        Stands::Due(at) if at <= now => false,
                        Stands::Lent(until) if until <= now => true,
                        Stands::Due(_) | Stands::Lent(_) | Stands::Over => continue,
                    };
                    if taken.len() == limit {
                        break;
                    }
                    state.lapses += u64::from(lapsed);
                    row.stands = Stands::Lent(now + lease);
                    row.delivery.lease = format!("lease-{}", state.words);
                    taken.push(row.delivery.clone());
                    row.delivery.attempts += 1;
                }
                if !taken.is_empty() {
                    return Ok(taken);
                }
                let times = state.rows.iter().filter_map(|r| match r.stands {
                    Stands::Due(at) | Stands::Lent(at) => Some(at),
                    Stands::Over => None,
                });
                times.min()
            };
            tokio::select! {
                () = &mut news => {}
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
            }
        }
    }

    async fn settle(&self, _: &str, delivery: &Delivery, settle: Settle) -> Result<(), QueueError> {
        let now = Instant::now();
        let mut state = self.state.lock().unwrap();
        let row = state.rows.iter_mut().find(|r| r.delivery.event.seq == delivery.event.seq).unwrap();
        if row.delivery.lease != delivery.lease {
            return Err(QueueError::NotOurs);
        }
        row.delivery.lease.clear();
        row.stands = match settle {
            Settle::Delivered => Stands::Over,
            Settle::Later { after } => {
                row.delivery.attempts -= 1;
                Stands::Due(now + after)
            }
            Settle::Retry { after, .. } => {
                row.failures += 1;
                assert_eq!(row.delivery.attempts, row.failures, "what was not tried counts as no attempt");
                Stands::Due(now + after)
            }
            Settle::Dead { reason } => panic!("{reason}"),
        };
        drop(state);
        self.news.notify_waiters();
        Ok(())
    }
}

/// A receiver that takes every connection, and answers once it is well.
fn receiver(well: Arc<AtomicBool>) -> u16 {
    let door = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = door.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut held = VecDeque::new();
        for stream in door.incoming() {
            let mut stream = stream.unwrap();
            if well.load(Ordering::SeqCst) {
                // A client that gave up before does not miss the answer.
                let _gone = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            }
            held.push_back(stream);
            // By now the first of them has given up.
            held.drain(..held.len().saturating_sub(64));
        }
    });
    port
}

#[tokio::test(start_paused = true)]
async fn what_waits_behind_a_hung_receiver_is_handed_back_before_its_lease_ends() {
    let well = Arc::new(AtomicBool::new(false));
    let port = receiver(Arc::clone(&well));
    let mut sink = sink(&format!("http://127.0.0.1:{port}/"), |_| {});
    sink.retry = Policy { growth: Growth::Steps(vec![Duration::from_millis(1)]), jitter: 0.0, give_up: Duration::from_secs(600) };
    let queue = Arc::new(Clocked::default());
    // More sessions than calls at once, and one session with many notices.
    for n in 0..40 {
        queue.post(&format!("s{n}"));
    }
    for _ in 0..10 {
        queue.post("long");
    }
    let sinks = tokio::spawn(outlast_sinks::run(vec![sink], Arc::clone(&queue)));
    sleep(Duration::from_secs(3_600)).await;
    assert_eq!((queue.lapses(), queue.open()), (0, 50));
    assert!(queue.calls() > 600, "four at a time, each of which takes 20 s at most: {}", queue.calls());
    tokio::time::resume();
    well.store(true, Ordering::SeqCst);
    let told = async {
        while queue.open() > 0 {
            // No event says when the last notice was delivered; the test has to ask the queue.
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(60), told).await.expect("everything is told");
    assert_eq!(queue.lapses(), 0);
    sinks.abort();
}
