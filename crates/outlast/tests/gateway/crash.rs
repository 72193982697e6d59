//! Crashes: of the gateway, of the engine, of agents.

use crate::support::{Bench, KEY, acp_config, cat, scripted};
use outlast_client::{AgentChoice, Standing, TurnOutcome, TurnState};
use outlast_testkit::product::{Product, eventually, wait_for_end};
use std::time::Duration;

const RESUMED: &str = "Resumed after an interruption of the gateway.";

fn with_acp() -> Bench {
    let product = Product::new(env!("CARGO_BIN_EXE_outlast"));
    product.configure(&acp_config(&product.work()));
    let bench = Bench::stopped(product);
    bench.start();
    bench
}

#[test]
fn a_turn_that_a_killed_gateway_left_is_resumed_once_with_the_note_and_the_person_is_told() {
    let bench = with_acp();
    let turn = bench.send("build it", &scripted()).turn;
    bench.wait_for_prompts(1);
    let pid = bench.kill();
    // The engine starts the next one.
    bench.next_after(pid);
    let prompts = bench.wait_for_prompts(2);
    assert!(!prompts[0].contains("Note from the gateway"), "{prompts:?}");
    assert!(prompts[1].contains("This turn was interrupted by a gateway interruption"), "{prompts:?}");
    assert!(prompts[1].contains("build it"), "{prompts:?}");
    bench.open_gate();
    let ended = bench.wait(turn);
    assert_eq!((ended.outcome, ended.attempt, ended.reply.as_deref()), (Some(TurnOutcome::Completed), 2, Some("all done")));
    assert_eq!(ended.interrupt_reason.as_deref(), Some("restart_interrupted"));
    assert_eq!(bench.lines(), [RESUMED]);
    assert_eq!((bench.prompts().len(), bench.show().conversation.strikes), (2, 0));
}

#[test]
fn three_crashes_in_a_row_suspend_the_conversation_and_a_message_starts_anew() {
    let bench = with_acp();
    let turn = bench.send("deadly", &scripted()).turn;
    for attempt in 1..=3 {
        bench.wait_for_prompts(attempt);
        let pid = bench.kill();
        bench.next_after(pid);
    }
    let shown = bench.until("suspended", |shown| shown.conversation.standing == Standing::Suspended);
    assert_eq!((shown.conversation.strikes, shown.turns[0].outcome.clone()), (3, Some(TurnOutcome::GaveUp)));
    assert_eq!(bench.wait(turn).attempt, 3);
    assert_eq!(bench.prompts().len(), 3, "nothing is started for it again");
    assert!(bench.lines().iter().any(|line| line.starts_with("Suspended:")), "{:?}", bench.lines());
    let next = bench.send("hello", &cat()).turn;
    assert_eq!(bench.wait(next).reply.as_deref(), Some("hello"));
    let shown = bench.show();
    assert_eq!((shown.conversation.generation, shown.conversation.standing), (2, Standing::Active));
}

#[test]
fn a_command_that_outlives_the_gateway_is_followed_and_nothing_is_interrupted() {
    let bench = Bench::new();
    let agent = bench.gated();
    let turn = bench.send("long", &agent).turn;
    bench.wait_for_prompts(1);
    let pid = bench.kill();
    bench.next_after(pid);
    assert_eq!(bench.show().turns[0].state, TurnState::Running);
    bench.open_gate();
    let ended = bench.wait(turn);
    assert_eq!((ended.outcome, ended.attempt, ended.reply.as_deref()), (Some(TurnOutcome::Completed), 1, Some("did: long")));
    assert_eq!(bench.prompts(), ["long"]);
    assert_eq!(bench.parts().iter().filter(|(kind, _)| kind == "text").count(), 1, "{:?}", bench.parts());
}

/// It was stopped beside everything else. A message that came meanwhile started another agent, which could be stopped in its place.
#[test]
fn a_command_whose_turn_is_given_up_is_gone_before_messages_are_taken() {
    let bench = Bench::new();
    let noted = bench.work().join("pid");
    // It ends with SIGKILL only, after the time that an agent has to end.
    let agent = AgentChoice::Command(format!("trap '' TERM; cat > /dev/null; echo $$ > {}; exec sleep 1000", noted.display()));
    let turn = bench.send("deadly", &agent).turn;
    let command: u32 = eventually("the command", || std::fs::read_to_string(&noted).ok()?.trim().parse().ok());
    for _ in 0..3 {
        let pid = bench.kill();
        bench.next_after(pid);
    }
    assert!(wait_for_end(command, Duration::ZERO), "{}", bench.log());
    assert_eq!(bench.show().conversation.standing, Standing::Suspended);
    assert_eq!(bench.wait(turn).outcome, Some(TurnOutcome::GaveUp));
    let next = bench.wait(bench.send("hello", &cat()).turn);
    assert_eq!((next.reply.as_deref(), next.attempt), (Some("hello"), 1));
}

/// The same for a command from the configuration: its reply is written down with the end of the turn, because the next gateway reads it again.
#[test]
fn the_reply_of_a_configured_command_is_there_once_after_a_crash() {
    let bench = Bench::configured("[gateway.agents.repeat]\ncommand = \"cat\"\n");
    let points = bench.product().points();
    points.arm("gateway.turn.reply").unwrap();
    let turn = bench.send("once", &outlast_client::AgentChoice::Agent("repeat".into())).turn;
    let held = outlast_testkit::product::eventually("the reply", || points.held("gateway.turn.reply"));
    outlast_testkit::product::kill_and_wait(held).unwrap();
    bench.reap();
    let ended = bench.wait(turn);
    assert_eq!((ended.outcome, ended.attempt, ended.reply.as_deref()), (Some(TurnOutcome::Completed), 1, Some("once")));
    let texts: Vec<_> = bench.parts().into_iter().filter(|(kind, _)| kind == "text").collect();
    assert_eq!(texts.len(), 1, "{texts:?}");
}

/// Once there were two agents at work: the process of the first attempt came up when the next gateway had started the second.
#[test]
fn a_command_that_the_engine_was_about_to_start_when_the_gateway_died_runs_once() {
    let bench = Bench::new();
    let agent = bench.gated();
    let points = bench.product().points();
    points.arm("run.before_commit").unwrap();
    let turn = bench.send("long", &agent).turn;
    eventually("the request", || points.held("run.before_commit"));
    let pid = bench.kill();
    bench.next_after(pid);
    bench.until("the next attempt", |shown| shown.turns[0].attempt == 2 && shown.turns[0].state == TurnState::Running);
    points.release("run.before_commit").unwrap();
    bench.wait_for_prompts(1);
    bench.open_gate();
    let ended = bench.wait(turn);
    assert_eq!((ended.outcome, ended.attempt, ended.reply.as_deref()), (Some(TurnOutcome::Completed), 2, Some("did: long")));
    assert_eq!(bench.prompts().len(), 1);
    let all = bench.product().json(["list", "--all"]);
    assert_eq!(all["processes"].as_array().unwrap().len(), 1, "{all}");
}

#[test]
fn an_agent_that_comes_up_late_has_no_prompt_and_ends_with_the_gateway() {
    let bench = with_acp();
    let points = bench.product().points();
    points.arm("run.before_commit").unwrap();
    let turn = bench.send("build it", &scripted()).turn;
    eventually("the request", || points.held("run.before_commit"));
    let pid = bench.kill();
    bench.next_after(pid);
    bench.wait_for_prompts(1);
    points.release("run.before_commit").unwrap();
    let agents = || bench.product().json(["list"])["processes"].as_array().unwrap().len();
    eventually("the late agent", || (agents() == 2).then_some(()));
    bench.open_gate();
    assert_eq!((bench.wait(turn).attempt, bench.prompts().len()), (2, 1));
    bench.block(bench.chat().shutdown(None)).unwrap();
    assert_eq!(agents(), 0);
}

#[test]
fn a_killed_engine_is_started_again_and_the_turn_continues() {
    let bench = Bench::new();
    let agent = bench.gated();
    let turn = bench.send("work", &agent).turn;
    bench.wait_for_prompts(1);
    bench.product().kill_engine();
    bench.open_gate();
    assert_eq!(bench.wait(turn).reply.as_deref(), Some("did: work"));
    assert_eq!(bench.prompts(), ["work"]);
}

#[test]
fn an_agent_that_dies_with_the_prompt_is_tried_again_once() {
    let bench = Bench::new();
    let agent = outlast_client::AgentChoice::Command(format!("cat >> {}/seen; kill -9 $$", bench.work().display()));
    let turn = bench.send("boom", &agent).turn;
    let ended = bench.wait(turn);
    assert_eq!((ended.outcome, ended.attempt, ended.interrupt_reason.as_deref()), (Some(TurnOutcome::Failed), 2, Some("agent_ended")));
    let lines = bench.lines();
    assert!(lines.iter().any(|line| line.contains("Trying again")), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("Failed: the agent ended again")), "{lines:?}");
    let seen = std::fs::read_to_string(bench.work().join("seen")).unwrap();
    assert_eq!(seen.matches("boom").count(), 2);
    assert_eq!(seen.matches("the end of your program").count(), 1, "{seen}");
}

/// Message → accepted → started → prompted → reply → recorded → shown: whichever step the gateway is killed at, the message is answered once.
#[test]
fn case_020_a_message_is_answered_once_whichever_step_the_gateway_is_killed_at() {
    for point in [
        "gateway.before_commit",
        "gateway.message.accepted",
        "gateway.turn.started",
        "gateway.turn.prompted",
        "gateway.turn.reply",
        "gateway.turn.recorded",
        "gateway.turn.shown",
    ] {
        let bench = Bench::new();
        let points = bench.product().points();
        points.arm(point).unwrap();
        let id = outlast_client::message_id().unwrap();
        let setup = outlast_client::Setup::default().answered_by(cat());
        let sending = bench.spawn({
            let (to, id) = (bench.to(), id.clone());
            async move {
                // Asked again over the next gateway, as a terminal does.
                loop {
                    if let Ok(chat) = outlast_client::Chat::connect(&to).await
                        && let Ok(accepted) = chat.send(KEY, &id, "once", &setup).await
                    {
                        return accepted;
                    }
                    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
                }
            }
        });
        let held = outlast_testkit::product::eventually(point, || points.held(point));
        outlast_testkit::product::kill_and_wait(held).unwrap();
        bench.reap();
        if !bench.home().join("gateway.db").exists() || bench.word() != "at work" {
            bench.start();
        }
        let accepted = bench.block(sending).unwrap();
        let ended = bench.wait(accepted.turn);
        // The agent repeats its prompt, and that begins with the note where a prompt may have been sent before.
        let is_answered = ended.reply.as_deref().is_some_and(|reply| reply.ends_with("once"));
        assert!(ended.outcome == Some(TurnOutcome::Completed) && is_answered, "{point}: {:?}", ended.reply);
        assert_eq!(bench.show().turns.len(), 1, "{point}");
        let texts: Vec<_> = bench.parts().into_iter().filter(|(kind, _)| kind == "text").collect();
        assert_eq!(texts.len(), 1, "{point}: {texts:?}");
    }
}
