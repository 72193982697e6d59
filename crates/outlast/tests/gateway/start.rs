//! Agents that do not get as far as their prompt, and agents that say nothing about it.

use crate::support::{Bench, KEY, acp_config, cat, scripted};
use outlast_client::{AgentChoice, TurnOutcome};
use outlast_testkit::product::Product;

/// An agent that runs these lines first. They see how often it was started before in `$starts`.
fn that_begins_with(lines: &str) -> Bench {
    let product = Product::new(env!("CARGO_BIN_EXE_outlast"));
    let work = product.work();
    product.configure(&acp_config(&work));
    let (script, count) = (work.join("agent.sh"), work.join("starts"));
    let rest = std::fs::read_to_string(&script).unwrap();
    let begin = format!("starts=$(wc -l < {0} 2>/dev/null || echo 0); echo x >> {0}\n{lines}\n{rest}", count.display());
    std::fs::write(&script, begin).unwrap();
    let bench = Bench::stopped(product);
    bench.start();
    bench
}

fn starts(bench: &Bench) -> usize {
    std::fs::read_to_string(bench.work().join("starts")).unwrap().lines().count()
}

#[test]
fn an_agent_that_is_killed_while_it_starts_is_started_once_more() {
    let bench = that_begins_with("[ \"$starts\" -gt 0 ] || kill -9 $$");
    let turn = bench.send("work", &scripted()).turn;
    bench.open_gate();
    let ended = bench.wait(turn);
    assert_eq!((ended.outcome, ended.attempt, starts(&bench)), (Some(TurnOutcome::Completed), 1, 2));
    assert!(bench.lines().is_empty(), "{:?}", bench.lines());
}

#[test]
fn an_agent_that_is_killed_at_each_start_fails_its_turn_and_costs_no_strike() {
    let bench = that_begins_with("kill -9 $$");
    let ended = bench.wait(bench.send("work", &scripted()).turn);
    assert_eq!((ended.outcome, starts(&bench)), (Some(TurnOutcome::Failed), 2));
    assert_eq!(bench.lines(), ["Failed: the agent was killed while it started.", "the agent was killed by SIGKILL"]);
    assert_eq!(bench.show().conversation.strikes, 0);
}

#[test]
fn an_agent_that_exits_by_itself_while_it_starts_is_not_started_again() {
    let bench = that_begins_with("echo 'no key' >&2; exit 3");
    let ended = bench.wait(bench.send("work", &scripted()).turn);
    assert_eq!((ended.outcome, starts(&bench)), (Some(TurnOutcome::Failed), 1));
    assert_eq!(bench.lines(), ["Failed: the agent cannot be started.", "the agent exited with code 3: no key"]);
}

/// The line was the terminal's own, so it was gone when the conversation was opened again.
#[test]
fn a_reply_without_words_is_written_down_as_such() {
    let bench = Bench::new();
    bench.wait(bench.send("hi", &AgentChoice::Command("cat > /dev/null".into())).turn);
    bench.wait(bench.send("hi", &cat()).turn);
    assert_eq!(bench.lines(), ["(the agent answered nothing)"]);
    let export = bench.product().call(["chat", "export", "main"]).good();
    assert_eq!(export.text().matches("answered nothing").count(), 1, "{}", export.text());
}

#[test]
fn an_agent_whose_program_does_not_exist_is_refused_with_its_name() {
    let bench = Bench::configured("[gateway.agents.gone]\nargv = [\"/nonexistent/x\", \"--acp\"]\n");
    let refused = bench.product().call(["chat", "send", "main", "--agent", "gone", "hi"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    for want in ["there is no program /nonexistent/x", "`argv` in [gateway.agents.gone]"] {
        assert!(refused.err.contains(want), "{want}: {refused:?}");
    }
}

#[test]
fn a_turn_whose_agent_asks_is_shown_as_waiting_for_permission() {
    let bench = that_begins_with("");
    let turn = bench.send("may I", &scripted()).turn;
    bench.until("a question", |shown| shown.conversation.waits_for.is_some());
    let shown = bench.product().call(["chat", "show", "main"]).good();
    assert!(shown.text().contains(&format!("#{turn} running, waits for permission")), "{}", shown.text());
    // A message behind it waits for that turn, and no person is named as what it waits for.
    bench.send("and then", &scripted());
    let waited = bench.product().call(["chat", "send", "main", "--wait", "--timeout", "0.1", "and then"]);
    assert_eq!(waited.code, Some(124), "{waited:?}");
    bench.block(bench.chat().stop(KEY)).unwrap();
    bench.block(bench.chat().start_anew(KEY)).unwrap();
}

/// A misspelt flag was sent as a message.
#[test]
fn a_message_that_begins_with_two_dashes_needs_two_dashes_before_it() {
    let bench = Bench::new();
    let send = |args: &[&str]| bench.product().call([&["chat", "send", "main", "--command", "cat"], args].concat());
    let refused = send(&["--wiat"]);
    assert!(refused.code == Some(1) && refused.err.contains("`chat send` has no flag --wiat"), "{refused:?}");
    assert_eq!(send(&["--wait", "--", "--wiat"]).good().text(), "--wiat\n");
    assert_eq!(send(&["--wait", "- a list"]).good().text(), "- a list\n");
    assert_eq!(send(&["- a list", "--wait"]).good().text(), "- a list\n");
}
