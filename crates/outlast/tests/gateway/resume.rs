//! `/resume N`: an earlier generation is continued in a new one.

use crate::support::{Bench, KEY, cat, scripted};
use outlast_client::{AgentChoice, code};
use outlast_testkit::product::{Product, eventually};
use std::path::Path;

/// An agent that can load sessions, notes what it is asked, and answers each prompt at once.
fn loading(work: &Path, can_load: bool) -> String {
    let script = work.join("loading.sh");
    let text = r#"
count=0
while read -r line; do
  printf '%s\n' "$line" >> WORK/asked
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p' | head -n 1)
  case "$line" in
    *'"initialize"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":CAN_LOAD}}}' ;;
    *'"session/new"'*) if [ -p WORK/gate ]; then read -r go < WORK/gate; fi; count=$((count + 1)); echo '{"jsonrpc":"2.0","id":'$id',"result":{"sessionId":"'$$-$count'"}}' ;;
    *'"session/load"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{}}' ;;
    *'"session/prompt"'*)
      session=$(printf '%s' "$line" | sed -n 's/.*"sessionId":"\([^"]*\)".*/\1/p')
      echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"'$session'","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"from '$session'"}}}}'
      echo '{"jsonrpc":"2.0","id":'$id',"result":{"stopReason":"end_turn"}}' ;;
  esac
done
"#;
    let text = text.replace("WORK", &work.display().to_string()).replace("CAN_LOAD", if can_load { "true" } else { "false" });
    std::fs::write(&script, text).unwrap();
    format!("[gateway.agents.scripted]\nargv = [\"/bin/sh\", {:?}]\n", script.display().to_string())
}

fn with_agent(can_load: bool) -> Bench {
    let product = Product::new(env!("CARGO_BIN_EXE_outlast"));
    product.configure(&format!("[gateway]\nlog = \"debug\"\n{}", loading(&product.work(), can_load)));
    let bench = Bench::stopped(product);
    bench.start();
    bench
}

fn reply(bench: &Bench, words: &str, agent: &AgentChoice) -> String {
    bench.wait(bench.send(words, agent).turn).reply.unwrap()
}

fn asked(bench: &Bench) -> String {
    std::fs::read_to_string(bench.work().join("asked")).unwrap()
}

#[test]
fn an_earlier_generation_is_continued_in_the_session_of_its_agent_also_after_a_restart() {
    let bench = with_agent(true);
    let first = reply(&bench, "the first plan", &scripted());
    bench.block(bench.chat().start_anew(KEY)).unwrap();
    assert_ne!(reply(&bench, "another plan", &scripted()), first);
    let changed = bench.block(bench.chat().resume_generation(KEY, 1)).unwrap();
    assert_eq!((changed.generation, changed.said.as_str()), (3, "Continuing where generation 1 ended."));
    assert_eq!(reply(&bench, "and now?", &scripted()), first, "it is the session of the first generation");
    let pid = bench.kill();
    bench.next_after(pid);
    assert_eq!(reply(&bench, "still?", &scripted()), first);
    let words: Vec<_> = bench.show().turns.iter().map(|turn| turn.words.clone().unwrap()).collect();
    assert_eq!(words, ["and now?", "still?"], "earlier turns stay with their generation");
}

/// It said that the agent continues where generation 1 ended, although the agent also knew what generation 3 had said in the same session.
#[test]
fn what_a_later_generation_said_in_the_same_session_is_not_hidden() {
    let bench = with_agent(true);
    let resume = |number| bench.block(bench.chat().resume_generation(KEY, number)).unwrap().said;
    reply(&bench, "the first plan", &scripted());
    bench.block(bench.chat().start_anew(KEY)).unwrap();
    reply(&bench, "another plan", &scripted());
    assert_eq!(resume(1), "Continuing where generation 1 ended.");
    // Nothing was said in generation 3.
    assert_eq!(resume(1), "Continuing where generation 1 ended.");
    reply(&bench, "and now?", &scripted());
    let later = "Continuing generation 1. The agent also knows what was said in generation 4, which continued it.";
    assert_eq!((resume(2).as_str(), resume(1).as_str()), ("Continuing where generation 2 ended.", later));
}

/// The session of the agent that `/new` replaced was stored with the new generation, whose agent continued it.
#[test]
fn an_agent_that_gets_ready_while_it_is_replaced_does_not_hand_its_session_on() {
    let bench = with_agent(true);
    bench.make_gate();
    bench.send("the first plan", &scripted());
    eventually("an agent that opens its session", || {
        std::fs::read_to_string(bench.work().join("asked")).ok()?.contains("session/new").then_some(())
    });
    let said = || bench.log().matches("an agent has said something").count();
    let before = said();
    let points = bench.product().points();
    points.arm("gateway.before_commit").unwrap();
    let anew = bench.spawn({
        let chat = bench.chat();
        async move { chat.start_anew(KEY).await }
    });
    eventually("the commit of the new generation", || points.held("gateway.before_commit"));
    bench.open_gate();
    eventually("that the agent is ready", || (said() > before).then_some(()));
    std::fs::remove_file(bench.work().join("gate")).unwrap();
    points.release("gateway.before_commit").unwrap();
    bench.block(anew).unwrap().unwrap();
    reply(&bench, "another plan", &scripted());
    let asked = asked(&bench);
    assert_eq!((asked.matches("session/new").count(), asked.matches("session/load").count()), (2, 0), "{asked}");
}

#[test]
fn an_agent_that_cannot_load_is_told_what_was_said_in_what_was_continued() {
    let bench = with_agent(false);
    reply(&bench, "the first plan", &scripted());
    for (to, words) in [(1, "and now?"), (3, "and then?")] {
        bench.block(bench.chat().start_anew(KEY)).unwrap();
        reply(&bench, "another plan", &scripted());
        bench.block(bench.chat().resume_generation(KEY, to)).unwrap();
        reply(&bench, words, &scripted());
    }
    let asked = asked(&bench);
    let last = asked.lines().rev().find(|line| line.contains("session/prompt")).unwrap();
    let place = |words: &str| last.find(words);
    assert!(place("another plan").is_none(), "{last}");
    assert!(place("the first plan").is_some() && place("the first plan") < place("and now?"), "{last}");
    assert!(place("and now?") < place("and then?"), "{last}");
}

#[test]
fn only_a_generation_that_was_there_can_be_continued_and_the_current_one_is_resumed() {
    let bench = Bench::new();
    reply(&bench, "x", &cat());
    let refused = |number| bench.block(bench.chat().resume_generation(KEY, number)).unwrap_err();
    for number in [0, 2, u64::MAX] {
        assert_eq!(refused(number).code(), code::NOT_FOUND, "{number}");
    }
    let changed = bench.block(bench.chat().resume_generation(KEY, 1)).unwrap();
    let said = "Generation 1 is the current one, and nothing in it is interrupted or suspended.";
    assert_eq!((changed.generation, changed.said.as_str()), (1, said));
}

#[test]
fn the_agent_of_an_earlier_generation_comes_back_with_it() {
    let bench = Bench::new();
    reply(&bench, "x", &cat());
    bench.block(bench.chat().start_anew(KEY)).unwrap();
    assert_eq!(reply(&bench, "y", &AgentChoice::Command("echo other".into())), "other");
    bench.block(bench.chat().resume_generation(KEY, 1)).unwrap();
    assert_eq!(bench.show().conversation.agent.as_deref(), Some("command `cat`"));
}

#[test]
fn generations_can_be_found_and_one_that_is_not_there_is_refused() {
    let bench = Bench::new();
    let show = |args: &[&str]| bench.product().call([&["chat", "show"], args].concat());
    reply(&bench, "the first plan", &cat());
    assert!(!show(&["main"]).good().text().contains("GENERATION"), "one generation is not worth a table");
    bench.block(bench.chat().start_anew(KEY)).unwrap();
    bench.block(bench.chat().resume_generation(KEY, 1)).unwrap();
    reply(&bench, "and now?", &cat());
    let shown = show(&["main", "--json"]).json();
    let of = |n: usize| &shown["generations"][n];
    let found: Vec<_> = (0..3).map(|n| (of(n)["generation"].as_u64(), of(n)["turns"].as_u64(), of(n)["first_words"].as_str())).collect();
    assert_eq!(found, [(Some(1), Some(1), Some("the first plan")), (Some(2), Some(0), None), (Some(3), Some(1), Some("and now?"))]);
    assert_eq!((of(2)["resumed_from"].as_u64(), of(2)["ended_at"].is_null(), of(1)["ended_at"].is_null()), (Some(1), true, false));
    let text = show(&["main", "--generation", "1"]).good().text();
    assert!(text.contains("3 (current)") && text.contains("turns of generation 1;") && text.contains("› the first plan"), "{text}");
    assert!(!text.contains("› and now?"), "{text}");
    let missing = show(&["main", "--generation", "7", "--json"]);
    assert_eq!((missing.code, missing.json()["code"].as_str()), (Some(1), Some(code::NOT_FOUND)));
    assert!(missing.json()["hint"].as_str().unwrap().contains("/history"), "{missing:?}");
}
