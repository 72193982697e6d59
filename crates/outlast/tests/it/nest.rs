//! The nest of keepers and those who wait in it, killed.

use crate::gate::{Gate, until_printed};
use crate::support::*;
use outlast_store::dir::UNNAMED;

/// The nest, and those it has forked ahead.
fn nest(p: &Product) -> (u32, Vec<u32>) {
    let all: Vec<u32> = p.processes().into_iter().filter(|(_, line)| line.contains(UNNAMED)).map(|(pid, _)| pid).collect();
    let parent = |pid: u32| -> Option<u32> {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        status.lines().find_map(|l| l.strip_prefix("PPid:"))?.trim().parse().ok()
    };
    let (waiting, nests): (Vec<u32>, Vec<u32>) = all.iter().partition(|pid| parent(**pid).is_some_and(|p| all.contains(&p)));
    assert!(nests.len() <= 1, "{nests:?}");
    (nests.first().copied().unwrap_or(0), waiting)
}

/// Waits until the nest is full.
fn full_nest(p: &Product) -> (u32, Vec<u32>) {
    eventually("a full nest", || Some(nest(p)).filter(|(nest, waiting)| *nest != 0 && waiting.len() == 4))
}

#[test]
fn a_killed_fork_server_harms_no_process_and_is_replaced() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let before = p.run(&format!("echo first; {}; exit 4", gate.wait()));
    until_printed(&p, &before, "first");
    let (old, waiting) = full_nest(&p);
    kill_and_wait(old).unwrap();
    let after = p.run("echo second; exit 6");
    assert_eq!(p.wait(&after)["exit_code"], 6);
    let (new, _) = full_nest(&p);
    assert_ne!(new, old);
    // Processes that waited in the old fork server cannot be used any more.
    eventually("the old ones have left", || p.processes().iter().all(|(pid, _)| !waiting.contains(pid)).then_some(()));
    gate.open();
    let ended = p.wait(&before);
    assert_eq!((ended["exit_code"].as_i64(), ended["output"].as_str()), (Some(4), Some("first\n")), "{ended}");
    p.shut_down().unwrap();
}

#[test]
fn those_who_wait_in_the_nest_are_replaced_when_killed() {
    let p = product();
    let id = p.run("true");
    assert_eq!(p.wait(&id)["exit_code"], 0);
    let (nest, waiting) = full_nest(&p);
    for pid in &waiting {
        kill_and_wait(*pid).unwrap();
    }
    for code in 1..=6 {
        let id = p.run(&format!("exit {code}"));
        assert_eq!(p.wait(&id)["exit_code"], code);
    }
    assert_eq!(full_nest(&p).0, nest);
    p.shut_down().unwrap();
}

#[test]
fn a_nest_that_hangs_is_replaced() {
    let p = product();
    let id = p.run("true");
    assert_eq!(p.wait(&id)["exit_code"], 0);
    let (nest, _) = full_nest(&p);
    let pid = rustix::process::Pid::from_raw(nest as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    // Four are waiting in it; the fifth has to be forked.
    for code in 1..=6 {
        let id = p.run(&format!("exit {code}"));
        assert_eq!(p.wait(&id)["exit_code"], code);
    }
    let others = eventually("another nest", || {
        let all: Vec<u32> = p.processes().into_iter().filter(|(_, line)| line.contains(UNNAMED)).map(|(pid, _)| pid).collect();
        Some(all).filter(|all| all.iter().any(|pid| *pid != nest))
    });
    assert!(others.contains(&nest), "{others:?}");
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    eventually("the old one has left", || p.processes().iter().all(|(pid, _)| *pid != nest).then_some(()));
    p.shut_down().unwrap();
}

#[test]
fn a_nest_leaves_with_its_engine_and_its_commands_stay() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let id = p.run(&format!("echo here; {}; exit 2", gate.wait()));
    until_printed(&p, &id, "here");
    full_nest(&p);
    p.kill_engine();
    eventually("the nest has left", || (nest(&p) == (0, vec![])).then_some(()));
    gate.open();
    assert_eq!(p.wait(&id)["exit_code"], 2);
    p.shut_down().unwrap();
}
