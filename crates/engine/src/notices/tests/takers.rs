//! Concurrent takers, and an engine that dies: `shuttle` explores the orders in which their requests reach the writer.
//!
//! The writer is the index's: it takes everything that waits, does it in one transaction, and answers only then. `OUTLAST_SHUTTLE` is the
//! number of orders to try.

use super::*;
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::mpsc::{Receiver, Sender, channel};
use shuttle::{Config, Runner, scheduler::RandomScheduler, thread};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

const LEASE: i64 = 10;
const KILLS: u32 = 2;

/// Work for the writer. Its result sends the answer to the task that asked. If it is dropped, the task gets no answer.
type Job = Box<dyn FnOnce(&Connection) -> Box<dyn FnOnce() + Send> + Send>;

/// A delivery of the end of the process.
#[derive(Debug, Clone, PartialEq)]
struct Telling {
    who: &'static str,
    /// When the taker got it, in the order of all events.
    given: u64,
    told: u64,
    repeat: bool,
}

/// A sink that observes, and one that wakes the agent.
fn sinks() -> Vec<Push> {
    vec![Push::observer("hook"), Push { wakes: true, ..Push::observer("waker") }]
}

/// The state that all tasks share.
#[derive(Clone)]
struct World {
    jobs: Sender<Job>,
    up: Arc<AtomicI64>,
    /// How many engines there were.
    lives: Arc<AtomicU64>,
    /// How many clients wait.
    waits: Arc<AtomicU64>,
    /// Whether the notice was written with the answer prepared, and no client has taken the permit yet. Lost with the engine.
    ahead: Arc<AtomicBool>,
    tickets: Arc<AtomicU64>,
    words: Arc<AtomicU64>,
    tellings: Arc<Mutex<Vec<Telling>>>,
    pushes: Arc<Mutex<Vec<Telling>>>,
}

impl World {
    fn now(&self) -> Moment {
        let up = self.up.load(SeqCst);
        Moment { utc: Time::from_micros(100 * DAY + up), up }
    }

    /// Asks the writer. None if the engine died before it answered; the work may be done or not.
    fn ask<T: Send + 'static>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static) -> Option<T> {
        let (answer, answered) = channel();
        let job = move |db: &Connection| -> Box<dyn FnOnce() + Send> {
            let done = work(db).unwrap();
            // The task that asked may have left.
            Box::new(move || drop(answer.send(done)))
        };
        self.jobs.send(Box::new(job)).unwrap();
        answered.recv().ok()
    }

    fn ticket(&self) -> u64 {
        self.tickets.fetch_add(1, SeqCst)
    }

    fn word(&self) -> String {
        format!("word {}", self.words.fetch_add(1, SeqCst))
    }

    /// Writes the end of the process, as often as it takes: the folder still has it.
    fn write_end(&self) {
        let write = || {
            let (now, waits, ahead) = (self.now(), Arc::clone(&self.waits), Arc::clone(&self.ahead));
            self.ask(move |db| {
                let end = completion(1, owner("a", ""));
                let new = insert(db, &end, &sinks(), now)?.is_some();
                if new && waits.load(SeqCst) > 0 {
                    reserve(db, &end.key, ANSWER_TIMEOUT, now)?;
                    answer_begins(db, &end_key(id(1).to_string()), now)?;
                    ahead.store(true, SeqCst);
                }
                Ok(())
            })
        };
        while write().is_none() {}
    }

    /// A client that waited is about to be answered. Returns when that was settled, in the order of all events; none if the engine died
    /// first.
    fn hold(&self) -> Option<u64> {
        if self.ahead.swap(false, SeqCst) {
            return Some(self.ticket());
        }
        let (process, now, world) = (id(1).to_string(), self.now(), self.clone());
        self.ask(move |db| answer_begins(db, &end_key(process), now).map(|()| world.ticket()))
    }

    /// Claims notices once, delivers them, and settles them.
    fn take_once(&self, who: &'static str, taker: TakerKind) {
        let (now, word, world) = (self.now(), self.word(), self.clone());
        let asks = Claim {
            session: "a".into(),
            generation: String::new(),
            named_by: NamedBy::Client,
            taker,
            asker: None,
            asked: false,
            limit: 10,
            lease: word.clone(),
            lease_for: LEASE,
            now,
        };
        let Some((given, ticket)) = self.ask(move |db| Ok((claim(db, &asks)?.given, world.ticket()))) else { return };
        for entry in given {
            let mut verdict = Verdict::Delivered;
            match thread_rng().gen_range(0..6) {
                // It dies before it delivers.
                0 => return,
                1 => verdict = Verdict::Released,
                // It is too slow: another taker has the notice by now, or has delivered it.
                2 => self.pass(LEASE),
                _ => {}
            }
            if verdict == Verdict::Delivered {
                thread::yield_now();
                let telling = Telling { who, given: ticket, told: self.ticket(), repeat: entry.notice.repeat };
                self.tellings.lock().unwrap().push(telling);
                // It dies before it can settle.
                if thread_rng().gen_ratio(1, 6) {
                    return;
                }
            }
            let id = entry.notice.event_id;
            let settle = || {
                let (id, word, verdict) = (id.clone(), word.clone(), verdict.clone());
                self.ask(move |db| settle(db, &id, Some("a"), Some(&word), &verdict, now))
            };
            while settle().is_none() {}
        }
    }

    /// Waits for the end; asks again if the engine dies before it answers.
    fn wait(&self) {
        self.waits.fetch_add(1, SeqCst);
        loop {
            self.write_end();
            let life = self.lives.load(SeqCst);
            let Some(ticket) = self.hold() else { continue };
            self.waits.fetch_sub(1, SeqCst);
            thread::yield_now();
            if self.lives.load(SeqCst) != life {
                self.waits.fetch_add(1, SeqCst);
                continue;
            }
            let telling = Telling { who: "wait", given: ticket, told: self.ticket(), repeat: false };
            self.tellings.lock().unwrap().push(telling);
            let (process, now) = (id(1).to_string(), self.now());
            // Not waited for: if it is lost, the client has its answer all the same.
            self.jobs
                .send(Box::new(move |db| {
                    end_seen(db, &process, "wait", now).unwrap();
                    Box::new(|| ())
                }))
                .unwrap();
            return;
        }
    }

    /// A client that waits leaves before there is anything to answer.
    fn leave(&self) {
        self.waits.fetch_add(1, SeqCst);
        self.write_end();
        self.waits.fetch_sub(1, SeqCst);
        let (waits, ahead) = (Arc::clone(&self.waits), Arc::clone(&self.ahead));
        let (key, now) = (completion(1, owner("a", "")).key, self.now());
        // Lost with the engine, it comes free by itself.
        let _perhaps = self.ask(move |db| match () {
            () if waits.load(SeqCst) > 0 => Ok(false),
            () if ahead.swap(false, SeqCst) => waiters_left(db, &key, true, now),
            () => waiters_left(db, &key, false, now),
        });
    }

    /// A client that waits has left when the answer comes.
    fn wait_unanswered(&self) {
        self.write_end();
        if self.hold().is_some() {
            let (process, now) = (id(1).to_string(), self.now());
            // No task waits for the result.
            let _perhaps = self.ask(move |db| answer_failed(db, &end_key(process), now));
        }
    }

    /// One round of a sink, which ends with the engine.
    fn push_once(&self) {
        let (now, life, word, world) = (self.now(), self.lives.load(SeqCst), self.word(), self.clone());
        let lease = word.clone();
        let Some((taken, ticket)) = self.ask(move |db| Ok((take(db, "hook", 10, &lease, LEASE, now)?, world.ticket()))) else { return };
        for owed in taken {
            thread::yield_now();
            if self.lives.load(SeqCst) != life {
                return;
            }
            let telling = Telling { who: "hook", given: ticket, told: self.ticket(), repeat: owed.entry.notice.repeat };
            self.pushes.lock().unwrap().push(telling);
            let (seq, word, now) = (owed.entry.notice.seq, word.clone(), self.now());
            // If this is lost, this sink has ended with its engine.
            let _perhaps = self.ask(move |db| pushed(db, "hook", seq, &word, &PushResult::Delivered, now));
        }
    }

    /// One round of a sink that wakes the agent, which also ends with the engine.
    fn wake_once(&self) {
        let (now, life, word) = (self.now(), self.lives.load(SeqCst), self.word());
        let lease = word.clone();
        let Some(taken) = self.ask(move |db| wake::take(db, "waker", 10, &lease, LEASE, now)) else { return };
        let lent: Vec<(u64, String)> = taken.iter().map(|owed| (owed.entry.notice.seq, word.clone())).collect();
        let (now, world) = (self.now(), self.clone());
        let Some((go, ticket)) = self.ask(move |db| Ok((wake::begin(db, "waker", &lent, now)?.0, world.ticket()))) else { return };
        for owed in go {
            if thread_rng().gen_ratio(1, 6) {
                // It is too slow.
                self.pass(LEASE);
            }
            thread::yield_now();
            if self.lives.load(SeqCst) != life {
                return;
            }
            let came_through = thread_rng().gen_ratio(3, 4);
            if came_through {
                let telling = Telling { who: "waker", given: ticket, told: self.ticket(), repeat: owed.entry.notice.repeat };
                self.tellings.lock().unwrap().push(telling);
            }
            let failed = PushResult::Again { after: Duration::from_micros(1), reason: "busy".into() };
            // A successful call may look like a failure.
            let how = if came_through && thread_rng().gen_ratio(2, 3) { PushResult::Delivered } else { failed };
            let (seq, word, now) = (owed.entry.notice.seq, word.clone(), self.now());
            // If this is lost, this sink has ended with its engine.
            let _perhaps = self.ask(move |db| wake::pushed(db, "waker", seq, &word, &how, now).map(|_| ()));
        }
    }

    fn pass(&self, micros: i64) {
        self.up.fetch_add(micros, SeqCst);
    }
}

/// The index's writer, which is killed now and then: with everything that waits, before or after what it has done is on disk.
fn write_all(db: &Connection, jobs: &Receiver<Job>, lives: &AtomicU64, ahead: &AtomicBool, up: &AtomicI64) {
    let mut kills = 0;
    let begin = || engine_started(db, "boot", false, Moment { utc: Time::from_micros(DAY), up: up.load(SeqCst) }).unwrap();
    begin();
    while let Ok(first) = jobs.recv() {
        let group: Vec<Job> = std::iter::once(first).chain(std::iter::from_fn(|| jobs.try_recv().ok())).collect();
        db.execute_batch("SAVEPOINT step").unwrap();
        let answers: Vec<_> = group.into_iter().map(|job| job(db)).collect();
        let killed = kills < KILLS && thread_rng().gen_ratio(1, 8);
        if killed && thread_rng().gen_ratio(1, 2) {
            db.execute_batch("ROLLBACK TO step").unwrap();
        }
        db.execute_batch("RELEASE step").unwrap();
        if !killed {
            answers.into_iter().for_each(|answer| answer());
            continue;
        }
        kills += 1;
        // From here on the dead engine answers no task.
        lives.fetch_add(1, SeqCst);
        ahead.store(false, SeqCst);
        drop(answers);
        while jobs.try_recv().is_ok() {}
        begin();
    }
}

/// A delivery without a repeat mark must not come from a lease that is later than another delivery.
fn told_once(what: &str, all: &[Telling]) {
    assert!(!all.is_empty(), "{what}: nothing was delivered");
    for one in all.iter().filter(|t| !t.repeat && t.who != "wait") {
        let before = all.iter().find(|other| other.told < one.given);
        assert!(before.is_none(), "{what}: {one:?} was given after {before:?} and is not marked");
    }
    let first_hand = all.iter().filter(|t| !t.repeat && t.who != "wait").count();
    assert!(first_hand <= 1, "{what}: told for the first time {first_hand} times: {all:?}");
}

fn scene(db: Connection, back: &Mutex<Vec<Connection>>) {
    db.execute_batch("BEGIN").unwrap();
    let (jobs, waiting) = channel();
    let world = World {
        jobs,
        up: Arc::new(AtomicI64::new(1_000)),
        lives: Arc::default(),
        waits: Arc::default(),
        ahead: Arc::default(),
        tickets: Arc::default(),
        words: Arc::default(),
        tellings: Arc::default(),
        pushes: Arc::default(),
    };
    let (lives, ahead, up) = (Arc::clone(&world.lives), Arc::clone(&world.ahead), Arc::clone(&world.up));
    let writer = thread::spawn(move || {
        write_all(&db, &waiting, &lives, &ahead, &up);
        db
    });
    let waiter = |w: &World| match thread_rng().gen_range(0..3) {
        0 => w.wait(),
        1 => w.wait_unanswered(),
        _ => w.leave(),
    };
    let act = |what: fn(&World)| {
        let world = world.clone();
        thread::spawn(move || what(&world))
    };
    let all = [
        act(World::write_end),
        act(|w| (0..2).for_each(|_| w.take_once("gateway", TakerKind::Gateway))),
        act(|w| (0..2).for_each(|_| w.take_once("terminal", TakerKind::Terminal))),
        act(waiter),
        act(waiter),
        act(|w| (0..2).for_each(|_| w.push_once())),
        act(|w| (0..3).for_each(|_| w.wake_once())),
        act(|w| {
            let now = w.now();
            let _perhaps = w.ask(move |db| observe(db, &id(1).to_string(), now));
            w.pass(LEASE);
        }),
    ];
    all.into_iter().for_each(|t| t.join().unwrap());
    // In the end all takers are gone, and a last one comes that does everything right.
    world.pass(100 * SECOND);
    let open = || {
        let left = world.ask(|db| db.query_row("SELECT COUNT(*) FROM notice WHERE settled_at = 0", [], |r| r.get::<_, i64>(0)));
        left.is_none_or(|n| n > 0)
    };
    while open() {
        match thread_rng().gen_ratio(1, 2) {
            true => world.take_once("last", TakerKind::Gateway),
            false => world.wake_once(),
        }
        world.pass(100 * SECOND);
    }
    // A notice that another taker delivered wakes the agent no more.
    let owes = |sinks: Vec<Push>| {
        let now = world.now();
        world.ask(move |db| owed(db, &sinks, now)).is_none_or(|n| n > 0)
    };
    while owes(sinks()[1..].to_vec()) {
        world.wake_once();
        world.pass(LEASE);
    }
    while owes(hook()) {
        world.push_once();
        world.pass(LEASE);
    }
    told_once("agent", &world.tellings.lock().unwrap());
    told_once("hook", &world.pushes.lock().unwrap());
    drop(world);
    let db = writer.join().unwrap();
    db.execute_batch("ROLLBACK").unwrap();
    back.lock().unwrap().push(db);
}

#[test]
fn an_end_is_delivered_once_in_any_order_of_takers() {
    let orders = std::env::var("OUTLAST_SHUTTLE").ok().and_then(|n| n.parse().ok()).unwrap_or(500);
    let mut config = Config::new();
    // SQLite and JSON need more than a small stack.
    config.stack_size = 1 << 20;
    let ready = Mutex::new(Vec::new());
    Runner::new(RandomScheduler::new(orders), config).run(move || {
        let db = ready.lock().unwrap().pop();
        scene(db.unwrap_or_else(tables), &ready);
    });
}
