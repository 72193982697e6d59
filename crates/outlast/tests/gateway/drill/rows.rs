//! The rows of the drill, in the order of the table.

use super::Row;
use super::scene::{Agent, Facts, Scene};
use outlast_testkit::product::{eventually, kill_and_wait, terminate};
use std::time::{Duration, Instant};

const BOTH: &[Agent] = &[Agent::Acp, Agent::PerTurn];
/// A drain that does not wait for long.
const SHORT_DRAIN: &str = "drain_timeout_seconds = 0.3";

pub(super) const ROWS: &[Row] = &[
    Row { what: "`gateway stop`, nothing runs", agents: BOTH, run: stop_idle },
    Row { what: "`gateway stop`, the turn finishes in time", agents: BOTH, run: stop_in_time },
    Row { what: "`gateway stop`, the turn takes too long", agents: BOTH, run: stop_too_long },
    Row { what: "`gateway stop` while a message waits", agents: BOTH, run: stop_with_a_queue },
    Row { what: "`gateway stop` before the agent has its prompt", agents: &[Agent::Acp], run: stop_before_the_prompt },
    Row { what: "a message during a stop", agents: BOTH, run: message_during_a_stop },
    Row { what: "a message during a restart", agents: BOTH, run: message_during_a_restart },
    Row { what: "`gateway restart`, the turn finishes in time", agents: BOTH, run: restart_in_time },
    Row { what: "`gateway restart`, the turn takes too long", agents: BOTH, run: restart_too_long },
    Row { what: "the agent asks for a restart, and finishes", agents: BOTH, run: restart_inside },
    Row { what: "a process of the agent asks for a restart", agents: BOTH, run: restart_from_the_background },
    Row { what: "the agent asks for a restart, and waits for it", agents: BOTH, run: restart_inside_and_wait },
    Row { what: "the agent asks for a restart in every attempt", agents: BOTH, run: restart_again },
    Row { what: "the agent asks for a stop, and finishes", agents: BOTH, run: stop_inside },
    Row { what: "SIGTERM that no client asked for", agents: BOTH, run: sigterm },
    Row { what: "Ctrl-C of `gateway run`", agents: BOTH, run: ctrl_c },
    Row { what: "nothing to do for long enough", agents: BOTH, run: idle },
    Row { what: "crash (`kill -9`, out of memory)", agents: BOTH, run: crash },
    Row { what: "crash while it drains", agents: BOTH, run: crash_while_draining },
    Row { what: "three crashes in a row", agents: BOTH, run: three_crashes },
    Row { what: "three crashes in a row, a turn of the last one", agents: &[Agent::Acp], run: breaker },
    Row { what: "everything killed at once (power cut)", agents: BOTH, run: everything },
    Row { what: "the agent dies in its turn", agents: BOTH, run: agent_dies },
    Row { what: "the agent dies in every attempt", agents: BOTH, run: agent_dies_again },
];

fn stop_idle(agent: Agent) -> Facts {
    let mut scene = Scene::new(agent);
    scene.works_on("hello");
    scene.bench.until("the reply", |shown| shown.turns[0].is_finished());
    scene.ends_by(|scene| scene.outlast(&["gateway", "stop"]));
    scene.starts_again();
    scene.facts()
}

fn stop_in_time(agent: Agent) -> Facts {
    let mut scene = Scene::new(agent);
    scene.works_on("HOLD");
    scene.ends_by(|scene| {
        scene.outlast_meanwhile(&["gateway", "stop"], || {
            scene.bench.until_line("shutting down");
            scene.bench.open_gate();
        });
    });
    scene.starts_again();
    scene.facts()
}

fn stop_too_long(agent: Agent) -> Facts {
    let mut scene = Scene::new(agent);
    scene.works_on("HOLD");
    scene.ends_by(|scene| scene.outlast(&["gateway", "stop", "--timeout", "0.3"]));
    scene.starts_again();
    resumed(scene)
}

/// The second attempt finishes.
fn resumed(scene: Scene) -> Facts {
    scene.bench.wait_for_prompts(2);
    scene.bench.open_gate();
    scene.facts()
}

fn stop_with_a_queue(agent: Agent) -> Facts {
    let mut scene = Scene::new(agent);
    scene.works_on("HOLD");
    scene.says("and then?");
    scene.ends_by(|scene| {
        scene.outlast_meanwhile(&["gateway", "stop"], || {
            scene.bench.until_line("shutting down");
            scene.bench.open_gate();
        });
    });
    scene.starts_again();
    scene.facts()
}

fn stop_before_the_prompt(agent: Agent) -> Facts {
    let mut scene = Scene::new(agent);
    let slow = scene.bench.work().join("slow");
    assert!(std::process::Command::new("mkfifo").arg(&slow).status().unwrap().success());
    scene.says("hello");
    let is_there = || scene.bench.product().json(["list"])["processes"].as_array().is_some_and(|all| !all.is_empty());
    eventually("an agent that is being started", || is_there().then_some(()));
    // Without a limit: nothing is waited for.
    scene.ends_by(|scene| scene.outlast(&["gateway", "stop"]));
    std::fs::remove_file(slow).unwrap();
    scene.starts_again();
    scene.facts()
}

fn message_during_a_stop(agent: Agent) -> Facts {
    let mut scene = Scene::new(agent);
    scene.works_on("HOLD");
    scene.ends_by(|scene| {
        scene.outlast_meanwhile(&["gateway", "stop"], || {
            scene.bench.until_line("shutting down");
            assert!(scene.says("and then?").unwrap().contains("kept"));
            scene.bench.open_gate();
        });
    });
    scene.starts_again();
    scene.facts()
}

fn message_during_a_restart(agent: Agent) -> Facts {
    let mut scene = Scene::new(agent);
    scene.works_on("HOLD");
    scene.ends_by(|scene| {
        scene.bench.block(scene.bench.chat().restart(None)).unwrap();
        scene.bench.until_line("restarting");
        assert!(scene.says("and then?").unwrap().contains("kept"));
        scene.bench.open_gate();
    });
    scene.starts_again();
    scene.facts()
}

fn restart_in_time(agent: Agent) -> Facts {
    let mut scene = Scene::new(agent);
    scene.works_on("HOLD");
    restart_by_a_person(&mut scene, |scene| {
        scene.bench.until_line("restarting");
        scene.bench.open_gate();
    });
    scene.facts()
}

fn restart_too_long(agent: Agent) -> Facts {
    let mut scene = Scene::configured(agent, SHORT_DRAIN);
    scene.works_on("HOLD");
    restart_by_a_person(&mut scene, |_| ());
    resumed(scene)
}

/// `outlast gateway restart` in a person's shell, which returns when the next gateway serves.
fn restart_by_a_person(scene: &mut Scene, meanwhile: impl FnOnce(&Scene)) {
    let mut child = None;
    scene.ends_by(|scene| {
        child = Some(scene.bench.product().command(["gateway", "restart"]).spawn().unwrap());
        meanwhile(scene);
    });
    scene.starts_again();
    assert!(child.unwrap().wait().unwrap().success());
}

fn restart_inside(agent: Agent) -> Facts {
    let mut scene = Scene::new(agent);
    scene.ends_by(|scene| {
        scene.says("RESTART the gateway");
        assert!(scene.answer_to_the_agent().contains("restarting"));
    });
    scene.starts_again();
    scene.facts()
}

fn restart_from_the_background(agent: Agent) -> Facts {
    let mut scene = Scene::new(agent);
    scene.ends_by(|scene| {
        scene.says("restart it in the BACKGROUND");
        assert!(scene.answer_to_the_agent().contains("restarting"));
    });
    scene.starts_again();
    scene.facts()
}

fn restart_inside_and_wait(agent: Agent) -> Facts {
    let mut scene = Scene::new(agent);
    let mut began = Instant::now();
    scene.ends_by(|scene| {
        scene.works_on("RESTART the gateway and WAIT for it");
        assert!(scene.answer_to_the_agent().contains("restarting"));
        began = Instant::now();
    });
    // Longer than an agent takes for its last words, and less than the limit for others.
    let took = began.elapsed();
    assert!(took > Duration::from_secs(15) && took < Duration::from_secs(50), "{took:?}");
    scene.starts_again();
    scene.facts()
}

/// What it asks for again is answered and not done, so that the turn comes to its end.
fn restart_again(agent: Agent) -> Facts {
    let mut scene = Scene::configured(agent, "drain_timeout_seconds = 2");
    scene.ends_by(|scene| {
        scene.works_on("RESTART the gateway and WAIT for it, STUBBORN");
        assert!(scene.answer_to_the_agent().contains("restarting"));
    });
    scene.starts_again();
    scene.bench.wait_for_prompts(2);
    eventually("the second answer", || scene.answer_to_the_agent().contains("restarted").then_some(()));
    scene.bench.open_gate();
    scene.facts()
}

fn stop_inside(agent: Agent) -> Facts {
    let mut scene = Scene::new(agent);
    scene.ends_by(|scene| {
        scene.says("STOP IT");
        assert!(scene.answer_to_the_agent().contains("stopping"));
    });
    scene.starts_again();
    scene.facts()
}

fn sigterm(agent: Agent) -> Facts {
    let mut scene = Scene::configured(agent, SHORT_DRAIN);
    scene.works_on("HOLD");
    scene.ends_by(|scene| terminate(scene.bench.pid()));
    let seconds = scene.returns_in_seconds();
    scene.starts_again();
    scene.starter(&format!("the engine after {seconds} s, or a person"));
    resumed(scene)
}

fn ctrl_c(agent: Agent) -> Facts {
    let mut scene = Scene::configured(agent, SHORT_DRAIN);
    scene.works_on("HOLD");
    scene.ends_by(|scene| {
        let pid = rustix::process::Pid::from_raw(i32::try_from(scene.bench.pid()).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    });
    scene.starts_again();
    resumed(scene)
}

fn idle(agent: Agent) -> Facts {
    let mut scene = Scene::configured(agent, "idle_exit_seconds = 0.3");
    scene.ends_by(|scene| scene.works_on("hello"));
    scene.reconfigure("");
    scene.starts_for_a_notice();
    scene.facts()
}

fn crash(agent: Agent) -> Facts {
    let mut scene = Scene::new(agent);
    scene.works_on("HOLD");
    scene.ends_by(|scene| kill_and_wait(scene.bench.pid()).unwrap());
    scene.starts_again();
    if agent == Agent::Acp {
        scene.bench.wait_for_prompts(2);
    }
    scene.bench.open_gate();
    scene.facts()
}

fn crash_while_draining(agent: Agent) -> Facts {
    let mut scene = Scene::new(agent);
    scene.works_on("HOLD");
    scene.ends_by(|scene| {
        let chat = scene.bench.chat();
        scene.bench.block(chat.begin_shutdown(None, None)).unwrap();
        scene.bench.until_line("shutting down");
        kill_and_wait(scene.bench.pid()).unwrap();
    });
    scene.starts_again();
    if agent == Agent::Acp {
        scene.bench.wait_for_prompts(2);
    }
    scene.bench.open_gate();
    scene.facts()
}

fn three_crashes(agent: Agent) -> Facts {
    let mut scene = Scene::new(agent);
    scene.works_on("HOLD");
    for crash in 1..=2 {
        let pid = scene.bench.kill();
        scene.bench.next_after(pid);
        if agent == Agent::Acp {
            scene.bench.wait_for_prompts(crash + 1);
        }
    }
    scene.hold_the_next();
    scene.bench.kill();
    scene.wait_for_the_next();
    scene.note_what_is_left();
    scene.note_exits();
    scene.starts_again();
    scene.facts()
}

fn breaker(agent: Agent) -> Facts {
    let mut scene = Scene::new(agent);
    scene.works_elsewhere_on("HOLD");
    for crash in 1..=2 {
        let pid = scene.bench.kill();
        scene.bench.next_after(pid);
        scene.bench.wait_for_prompts(crash + 1);
    }
    scene.works_on("HOLD");
    scene.hold_the_next();
    scene.bench.kill();
    scene.wait_for_the_next();
    scene.note_what_is_left();
    scene.note_exits();
    scene.starts_again();
    scene.resumes_when_asked();
    scene.bench.wait_for_prompts(5);
    scene.bench.open_gate();
    scene.facts()
}

fn everything(agent: Agent) -> Facts {
    let mut scene = Scene::new(agent);
    scene.works_on("HOLD");
    scene.hold_the_next();
    scene.kill_everything();
    scene.bench.reap();
    assert_eq!(scene.bench.product().processes(), [], "nothing of ours is left");
    // Any command starts an engine.
    scene.outlast(&["list"]);
    scene.note_what_is_left();
    scene.note_exits();
    scene.starts_again();
    scene.starter("the engine, once there is one");
    resumed(scene)
}

fn agent_dies(agent: Agent) -> Facts {
    let scene = Scene::new(agent);
    scene.says("DIE");
    scene.bench.wait_for_prompts(2);
    scene.facts_without_an_end("none: it keeps running")
}

fn agent_dies_again(agent: Agent) -> Facts {
    let scene = Scene::new(agent);
    scene.says("DIE, STUBBORN");
    scene.bench.wait_for_prompts(2);
    scene.facts_without_an_end("none: it keeps running")
}
