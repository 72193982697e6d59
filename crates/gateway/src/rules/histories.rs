//! Histories of any kind against a second reading of the design, which shares no code with the rules. After each act the two must agree on
//! every row, on the effects and on what starts next. As many histories as `PROPTEST_CASES` says, on as many threads as there are cores.

mod act;
mod oracle;
mod promises;
mod world;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use proptest::collection::vec;
use proptest::strategy::Strategy as _;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use super::conversation::BusyMode;
use act::{Act, act};
use world::World;

/// A history has at most this many acts: enough for three strikes, a suspension and what follows it.
const MAX_ACTS: usize = 60;

fn history(mode: BusyMode, does_forget: bool, acts: &[Act]) -> Result<(), String> {
    let mut world = World::new(mode, does_forget);
    acts.iter().enumerate().try_for_each(|(n, act)| world.play(act).map_err(|wrong| format!("act {n}, {act:?}: {wrong}")))
}

#[test]
fn every_history_is_read_alike_by_the_rules_and_by_the_design() {
    let Config { cases, .. } = Config::default();
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(cases as usize).max(1) as u32;
    let (played, began) = (AtomicU64::new(0), Instant::now());
    let one = |n: u32| {
        let cases = cases / threads + u32::from(n < cases % threads);
        let config = Config { cases, failure_persistence: None, max_shrink_iters: 50_000, ..Config::default() };
        let mode = proptest::bool::ANY.prop_map(|interrupts| if interrupts { BusyMode::Interrupt } else { BusyMode::Queue });
        let all = (mode, proptest::bool::weighted(0.8), vec(act(), 5..MAX_ACTS));
        TestRunner::new(config).run(&all, |(mode, does_forget, acts)| {
            let so_far = played.fetch_add(1, Ordering::Relaxed) + 1;
            if so_far.is_multiple_of(100_000) {
                println!("{so_far} histories of conversations, {:.0} s", began.elapsed().as_secs_f64());
            }
            history(mode, does_forget, &acts).map_err(TestCaseError::fail)
        })
    };
    let results: Vec<_> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|n| scope.spawn(move || one(n).map_err(|e| e.to_string()))).collect();
        all.into_iter().map(|thread| thread.join().expect("a history does not panic")).collect()
    });
    for result in results {
        result.unwrap_or_else(|wrong| panic!("{wrong}"));
    }
}
