//! What an interrupted attempt leaves: calls and questions are closed, and the model is told what is unknown.

use crate::support::{Bench, KEY, acp_config, cat, scripted};
use outlast_client::{AgentChoice, ChatEvent, Content, Heard, Part, Setup, ToolState, TurnOutcome};
use outlast_testkit::product::{Product, eventually};

fn with_acp() -> Bench {
    let product = Product::new(env!("CARGO_BIN_EXE_outlast"));
    product.configure(&acp_config(&product.work()));
    let bench = Bench::stopped(product);
    bench.start();
    bench
}

fn parts(bench: &Bench) -> Vec<Part> {
    bench.block(async {
        let mut feed = bench.chat_now().await.follow(KEY);
        let mut all = Vec::new();
        loop {
            match feed.next().await.unwrap() {
                Heard::Event(ChatEvent::Part { part }) => all.push(*part),
                Heard::Event(ChatEvent::CaughtUp { .. }) => return all,
                _ => {}
            }
        }
    })
}

/// Each part about a tool call: its attempt, and how the call goes.
fn calls(bench: &Bench) -> Vec<(u32, ToolState)> {
    let state = |part: &Part| match part.content() {
        Content::Tool(tool) => Some((part.attempt, tool.state)),
        _ => None,
    };
    parts(bench).iter().filter_map(state).collect()
}

/// Each part about a permission: what was answered, and who did.
fn answers(bench: &Bench) -> Vec<(Option<String>, Option<String>)> {
    let answer = |part: &Part| match part.content() {
        Content::Permission(asked) => Some((asked.answer, asked.by)),
        _ => None,
    };
    parts(bench).iter().filter_map(answer).collect()
}

#[test]
fn case_147_a_call_that_was_open_in_a_crash_is_closed_as_unknown_and_named_to_the_model() {
    let bench = with_acp();
    let turn = bench.send("build it", &scripted()).turn;
    eventually("a tool call", || (!calls(&bench).is_empty()).then_some(()));
    let pid = bench.kill();
    bench.next_after(pid);
    let prompts = bench.wait_for_prompts(2);
    assert!(prompts[1].contains("The tool call `make` was open then. Its outcome is unknown."), "{prompts:?}");
    bench.open_gate();
    bench.wait(turn);
    let expected = [(1, ToolState::Running), (1, ToolState::Unknown), (2, ToolState::Running), (2, ToolState::Completed)];
    assert_eq!(calls(&bench), expected);
    let export = bench.product().call(["chat", "export", "main"]).good().text();
    assert!(export.contains("- `make` was interrupted: its outcome is unknown\n"), "{export}");
    assert_eq!(export.matches("- `make`").count(), 3, "{export}");
}

#[test]
fn a_call_that_was_open_when_a_person_stopped_the_turn_is_named_in_the_next_one_only() {
    let bench = with_acp();
    let first = bench.send("build it", &scripted()).turn;
    eventually("a tool call", || (!calls(&bench).is_empty()).then_some(()));
    bench.block(bench.chat().stop(KEY)).unwrap();
    assert_eq!(bench.wait(first).outcome, Some(TurnOutcome::Cancelled));
    let second = bench.send("and now", &scripted()).turn;
    let prompts = bench.wait_for_prompts(2);
    assert!(prompts[1].contains("The tool call `make` was open. Its outcome is unknown."), "{prompts:?}");
    bench.open_gate();
    bench.wait(second);
    let third = bench.send("thanks", &scripted()).turn;
    let prompts = bench.wait_for_prompts(3);
    assert!(!prompts[2].contains("Note from the gateway"), "{prompts:?}");
    bench.open_gate();
    bench.wait(third);
}

#[test]
fn a_question_that_its_attempt_left_open_is_closed_once() {
    let refused = (Some("no".to_owned()), Some("the end of the turn".to_owned()));
    // By a person who stops the turn, and by a crash.
    for is_crash in [false, true] {
        let bench = with_acp();
        bench.send("may I", &scripted());
        eventually("a question", || (!answers(&bench).is_empty()).then_some(()));
        if is_crash {
            let pid = bench.kill();
            bench.next_after(pid);
        } else {
            bench.block(bench.chat().stop(KEY)).unwrap();
        }
        eventually("its answer", || (answers(&bench).len() >= 2).then_some(()));
        let all = answers(&bench);
        assert_eq!(all[..2], [(None, None), refused.clone()], "{is_crash}");
        assert_eq!(all.iter().filter(|one| **one == refused).count(), 1, "{is_crash}: {all:?}");
    }
}

/// It was called unknown, although the agent waited for the answer.
#[test]
fn a_call_that_was_not_allowed_when_the_gateway_was_killed_is_known_not_to_have_run() {
    let bench = with_acp();
    bench.send("may I call it", &scripted());
    eventually("a question", || (!answers(&bench).is_empty()).then_some(()));
    let pid = bench.kill();
    bench.next_after(pid);
    let prompts = bench.wait_for_prompts(2);
    assert!(prompts[1].contains("Note from the gateway") && !prompts[1].contains("outcome is unknown"), "{prompts:?}");
    let exported = bench.product().call(["chat", "export"]).good().text();
    assert!(exported.contains("- `rm -r target` failed: it was not allowed, and did not run"), "{exported}");
}

/// Agents ask again about a call that has run, such as one that failed in their sandbox. It was shown as one that did not run.
#[test]
fn a_call_that_was_allowed_before_it_was_asked_about_again_may_have_run() {
    let bench = with_acp();
    bench.send("may I call it twice", &scripted());
    let asked = |count: usize| {
        eventually("a question", || {
            let asked = |part: &Part| match part.content() {
                Content::Permission(asked) if asked.answer.is_none() => Some(asked.permission),
                _ => None,
            };
            parts(&bench).iter().filter_map(asked).nth(count)
        })
    };
    let first = asked(0);
    bench.block(async { bench.chat_now().await.allow(KEY, &first, "yes").await }).unwrap();
    asked(1);
    let pid = bench.kill();
    bench.next_after(pid);
    let prompts = bench.wait_for_prompts(2);
    assert!(prompts[1].contains("The tool call `rm -r target` was open then. Its outcome is unknown."), "{prompts:?}");
}

#[test]
fn case_134_and_150_the_note_is_given_and_not_stored() {
    let bench = Bench::configured("[gateway]\ndrain_timeout_seconds = 0.2\n");
    let agent = bench.gated();
    let turn = bench.send("deploy it", &agent).turn;
    bench.wait_for_prompts(1);
    let pid = bench.pid();
    bench.block(bench.chat().restart(None)).unwrap();
    bench.reap();
    bench.next_after(pid);
    let prompts = bench.wait_for_prompts(2);
    assert_eq!(prompts[1].matches("Note from the gateway").count(), 1, "{prompts:?}");
    assert!(prompts[1].contains("interrupted by a gateway restart") && prompts[1].ends_with("deploy it"), "{prompts:?}");
    bench.open_gate();
    assert_eq!(bench.wait(turn).words.as_deref(), Some("deploy it"));
    assert!(bench.parts().iter().all(|(_, text)| !text.contains("Note from the gateway")), "{:?}", bench.parts());
    // What was said so far, as an agent gets it that knows nothing of it, has no note in it either.
    let next = bench.send("and then?", &agent).turn;
    let prompts = bench.wait_for_prompts(3);
    assert_eq!(prompts[2], "and then?");
    bench.open_gate();
    bench.wait(next);
}

#[test]
fn case_144_a_blank_message_reaches_no_model() {
    let bench = Bench::new();
    bench.wait(bench.send("hi", &cat()).turn);
    let setup = Setup::default();
    for blank in ["", " ", "\n\t"] {
        let refused = bench.block(async { bench.chat_now().await.send(KEY, "msg:blank", blank, &setup).await }).unwrap_err();
        assert!(refused.to_string().contains("empty"), "{refused}");
    }
    assert_eq!(bench.show().turns.len(), 1);
}

#[test]
fn a_reply_is_told_to_an_agent_that_forgot_it_and_a_notice_is_not_told_as_the_users_words() {
    let bench = with_acp();
    bench.wait(bench.send("hi", &AgentChoice::Command("echo hello".into())).turn);
    let generation = bench.generation();
    let env = [("OUTLAST_SESSION", KEY), ("OUTLAST_GENERATION", generation.as_str())];
    assert!(bench.product().command(["run", "--notify", "--", "echo built"]).envs(env).output().unwrap().status.success());
    bench.until("the turn about it", |shown| shown.turns.len() == 2 && shown.turns[1].is_finished());
    let turn = bench.send("go on", &scripted()).turn;
    let prompts = bench.wait_for_prompts(1);
    assert!(prompts[0].contains("User: hi\\nYou: hello") && prompts[0].contains("Notice: [IMPORTANT: Background process"), "{prompts:?}");
    bench.open_gate();
    bench.wait(turn);
}
