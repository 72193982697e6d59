//! Random histories against a second reading of the rules. `cargo xtask campaign histories` plays any number of them.

mod act;
mod oracle;
mod world;

use super::*;
use act::{Act, PROCESSES, act, whose};
use oracle::Oracle;
use proptest::collection::vec;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use world::{Witness, World};

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
