//! What a person orders: /stop, /new, /resume.

use crate::support::{Bench, KEY, acp_config, cat, scripted};
use outlast_client::{AgentChoice, ChatEvent, Content, Heard, Standing, TurnOutcome, TurnState};
use outlast_testkit::product::Product;

#[test]
fn stop_cancels_the_running_turn_and_the_queue_continues() {
    let bench = Bench::new();
    let agent = bench.gated();
    let (first, second) = (bench.send("one", &agent).turn, bench.send("two", &agent).turn);
    bench.wait_for_prompts(1);
    let changed = bench.block(bench.chat().stop(KEY)).unwrap();
    assert_eq!(changed.said, "Stopped.");
    let stopped = bench.wait(first);
    assert_eq!((stopped.outcome, stopped.why.as_deref()), (Some(TurnOutcome::Cancelled), Some("stopped")));
    bench.wait_for_prompts(2);
    bench.open_gate();
    assert_eq!(bench.wait(second).reply.as_deref(), Some("did: two"));
    assert_eq!(bench.block(bench.chat().stop(KEY)).unwrap().said, "Nothing is running.");
}

#[test]
fn what_a_stopped_agent_had_said_is_kept() {
    let bench = Bench::new();
    let turn = bench.send("count", &AgentChoice::Command("cat > /dev/null; echo one; echo two; exec sleep 1000".into())).turn;
    let mut feed = bench.chat().follow(KEY);
    bench.block(async {
        let mut said = String::new();
        while said != "one\ntwo\n" {
            if let Heard::Event(ChatEvent::Draft { text, .. }) = feed.next().await.unwrap() {
                said.push_str(&text);
            }
        }
    });
    bench.block(bench.chat().stop(KEY)).unwrap();
    assert_eq!(bench.wait(turn).reply.as_deref(), Some("one\ntwo"));
    assert_eq!(bench.parts().iter().map(|(kind, _)| kind.as_str()).collect::<Vec<_>>(), ["words", "text", "line"]);
}

#[test]
fn new_ends_the_running_turn_and_starts_a_generation_whose_agent_works_alone() {
    let bench = Bench::new();
    let agent = bench.gated();
    let (first, second) = (bench.send("one", &agent).turn, bench.send("two", &agent).turn);
    bench.wait_for_prompts(1);
    let changed = bench.block(bench.chat().start_anew(KEY)).unwrap();
    assert_eq!((changed.generation, changed.said.as_str()), (2, "Started a new generation: the agent forgets what was said."));
    let shown = bench.block(bench.chat().show(KEY, Some(1))).unwrap();
    let outcomes: Vec<_> = shown.turns.iter().map(|turn| (turn.id, turn.outcome.clone())).collect();
    assert_eq!(outcomes, [(first, Some(TurnOutcome::Cancelled)), (second, Some(TurnOutcome::Cancelled))]);
    let next = bench.send("three", &cat()).turn;
    assert_eq!(bench.wait(next).reply.as_deref(), Some("three"));
    assert_eq!(bench.prompts(), ["one"]);
}

#[test]
fn an_order_that_is_sent_again_changes_nothing() {
    use outlast_wire::v1::chat::{Changed, ChatReply, ChatRequest};
    let bench = Bench::new();
    bench.send("x", &cat());
    let order = || {
        let request = ChatRequest::New { key: KEY.into(), request_id: Some("req:1".into()) };
        let reply: ChatReply<Changed> = bench.ask_raw(&request);
        reply.answer.unwrap()
    };
    let first = order();
    assert_eq!((order(), order().generation), (first, 2));
    let pid = bench.kill();
    bench.next_after(pid);
    assert_eq!(order().generation, 2, "also over a restart");
}

#[test]
fn a_suspended_conversation_continues_after_resume() {
    let bench = Bench::new();
    // Dies with each prompt while the file is there: three turns, a strike for each death.
    let work = bench.work();
    std::fs::write(work.join("deadly"), "").unwrap();
    let line = format!("words=$(cat); if [ -e {0}/deadly ]; then kill -9 $$; fi; echo \"$words\"", work.display());
    let agent = outlast_client::AgentChoice::Command(line);
    let first = bench.send("one", &agent).turn;
    bench.wait(first);
    let second = bench.send("two", &agent).turn;
    let third = bench.send("three", &agent).turn;
    bench.until("suspended", |shown| shown.conversation.standing == Standing::Suspended);
    assert_eq!(bench.wait(second).outcome, Some(TurnOutcome::GaveUp));
    let waiting = bench.show().turns.into_iter().find(|turn| turn.id == third).unwrap();
    assert_eq!(waiting.state, TurnState::Queued);
    std::fs::remove_file(work.join("deadly")).unwrap();
    let changed = bench.block(bench.chat().resume(KEY)).unwrap();
    assert_eq!((changed.standing, changed.said.as_str()), (Standing::Active, "Continuing this conversation."));
    assert_eq!(bench.wait(third).reply.as_deref(), Some("three"));
    assert_eq!(bench.show().conversation.strikes, 0);
}

#[test]
fn in_mode_interrupt_a_message_cancels_the_running_turn() {
    let bench = Bench::configured("[gateway]\nmode = \"interrupt\"\n");
    let agent = bench.gated();
    let first = bench.send("one", &agent).turn;
    bench.wait_for_prompts(1);
    let second = bench.send("two", &agent).turn;
    let cancelled = bench.wait(first);
    assert_eq!((cancelled.outcome, cancelled.why.as_deref()), (Some(TurnOutcome::Cancelled), Some("newer_message")));
    bench.wait_for_prompts(2);
    bench.open_gate();
    assert_eq!(bench.wait(second).reply.as_deref(), Some("did: two"));
}

#[test]
fn a_person_answers_what_an_agent_asks_for() {
    let product = Product::new(env!("CARGO_BIN_EXE_outlast"));
    product.configure(&acp_config(&product.work()));
    let bench = Bench::stopped(product);
    bench.start();
    let turn = bench.send("may I", &scripted()).turn;
    bench.block(async {
        let chat = bench.chat_now().await;
        let mut feed = chat.follow(KEY).attended();
        let mut is_asked = false;
        loop {
            let Heard::Event(ChatEvent::Part { part }) = feed.next().await.unwrap() else { continue };
            let Content::Permission(body) = part.content() else { continue };
            match &body.answer {
                None => {
                    assert_eq!((body.question.as_str(), body.options.len()), ("rm -r target", 2));
                    let wrong = chat.allow(KEY, &body.permission, "maybe").await.unwrap_err();
                    assert!(wrong.hint().contains("yes, no"), "{wrong}");
                    chat.allow(KEY, &body.permission, "no").await.unwrap();
                    is_asked = true;
                }
                Some(answer) => {
                    assert_eq!((answer.as_str(), body.by.as_deref(), is_asked), ("no", Some("a person"), true));
                    break;
                }
            }
        }
    });
    assert_eq!(bench.wait(turn).outcome, Some(TurnOutcome::Completed));
    let answers = std::fs::read_to_string(bench.work().join("answers")).unwrap();
    assert!(answers.contains("\"optionId\":\"no\""), "{answers}");
}
