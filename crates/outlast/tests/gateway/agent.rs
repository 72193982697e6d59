//! Hostile agents: real programs that hang, exit, flood, or speak nonsense. Each turn ends with an outcome, and no other conversation is harmed.

use crate::support::{Bench, cat};
use outlast_client::{AgentChoice, Client, Connect, Content, Heard, Scope, TurnInfo, TurnOutcome};
use outlast_testkit::product::{Product, eventually};
use std::path::Path;

/// An agent in which the words of a message say what it does wrong.
const HOSTILE: &str = r#"
say() { printf '%s\n' "$1"; }
update() { say '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"'"$1"'","update":'"$2"'}}'; }
text() { update "$1" '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'"$2"'"}}'; }
end() { say '{"jsonrpc":"2.0","id":'"$1"',"result":{"stopReason":"end_turn"}}'; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p' | head -n 1)
  case "$line" in
    *'"initialize"'*) say '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":1,"agentCapabilities":{}}}' ;;
    *'"session/new"'*) say '{"jsonrpc":"2.0","id":'$id',"result":{"sessionId":"s1"}}' ;;
    *'"session/cancel"'*) ;;
    *'"session/prompt"'*)
      text s1 'begun '
      case "$line" in
        # First, as a summary before it has the words of earlier turns.
        *'fine?'*) text s1 'fine'; end $id ;;
        *'do hang'*) touch WORK/hangs; exec sleep 1000 ;;
        *'do exit'*) echo 'no luck today' >&2; exit 3 ;;
        *'do die'*) kill -9 $$ ;;
        *'do fork'*) sleep 1000 & exit 0 ;;
        *'do flood text'*) exec awk 'BEGIN { s = sprintf("%1000s", "x"); while (1) print "{\"method\":\"session/update\",\"params\":{\"sessionId\":\"s1\",\"update\":{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"" s "\"}}}}" }' ;;
        *'do flood tools'*) awk 'BEGIN { while (n < 20001) print "{\"method\":\"session/update\",\"params\":{\"sessionId\":\"s1\",\"update\":{\"sessionUpdate\":\"tool_call\",\"toolCallId\":\"" ++n "\",\"title\":\"t\"}}}" }'; exec sleep 1000 ;;
        *'do flood questions'*) exec awk 'BEGIN { while (1) print "{\"id\":" ++n ",\"method\":\"session/request_permission\",\"params\":{\"toolCall\":{\"toolCallId\":\"t\"},\"options\":[]}}" }' ;;
        *'do flood stderr'*) head -c 20000000 /dev/zero | tr '\0' e >&2; end $id ;;
        *'do long line'*) head -c 70000000 /dev/zero | tr '\0' x; exec sleep 1000 ;;
        *'do bytes'*) printf '{"method":"\377"}\n'; exec sleep 1000 ;;
        *'do broken'*) say '{"method":'; exec sleep 1000 ;;
        *'do prose'*) say 'Warning: this is no protocol'; exec sleep 1000 ;;
        *'do unknown'*) say '{"jsonrpc":"2.0","id":77,"method":"fs/write_text_file","params":{"path":"/etc/passwd","content":""}}'; read -r answer
          say '{"jsonrpc":"2.0","method":"no/such/thing"}'; text s1 "$(printf '%s' "$answer" | grep -o '[-]32601')"; end $id ;;
        *'do answer wrongly'*) end 999; say '{"jsonrpc":"2.0","id":"x","result":{}}'; text s1 'and ended'; end $id ;;
        *'do answer twice'*) end $id; end $id; say '{"jsonrpc":"2.0","id":'$id',"error":{"code":1,"message":"no"}}' ;;
        *'do speak elsewhere'*) text s2 'not here'; end $id; text s1 'too late' ;;
        *'may I'*) say '{"jsonrpc":"2.0","id":900,"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"c0","title":"rm -r \u001b[2Jtarget"},"options":[{"optionId":"yes","name":"Allow","kind":"allow_once"},{"optionId":"no","name":"Deny","kind":"reject_once"}]}}'
          read -r answer; text s1 "$(printf '%s' "$answer" | grep -o '"optionId":"[a-z]*"' | tr -d '\"')"; end $id ;;
        *) text s1 'fine'; end $id ;;
      esac ;;
  esac
done
"#;

fn bench(toml: &str) -> Bench {
    let product = Product::new(env!("CARGO_BIN_EXE_outlast"));
    let script = product.work().join("hostile.sh");
    std::fs::write(&script, HOSTILE.replace("WORK", &product.work().display().to_string())).unwrap();
    let agents = [("hostile", vec!["/bin/sh", script.to_str().unwrap()]), ("deaf", vec!["sleep", "1000"]), ("absent", vec!["false"])];
    let agents = agents.map(|(name, argv)| format!("[gateway.agents.{name}]\nargv = {argv:?}\n")).concat();
    product.configure(&format!("[gateway]\n{toml}\n{agents}"));
    let bench = Bench::stopped(product);
    bench.start();
    bench
}

fn key(name: &str) -> String {
    format!("agent:main:local:dm:{}", name.replace(' ', "-"))
}

fn hostile() -> AgentChoice {
    AgentChoice::Agent("hostile".into())
}

fn ended(bench: &Bench, key: &str, turn: u64) -> TurnInfo {
    bench.block(async { bench.chat_now().await.wait(key, turn, None).await }).unwrap().unwrap()
}

/// Lets an agent do something wrong in a conversation of its own, while another conversation is answered. How the turn ended, and how many agents are left.
fn tried(bench: &Bench, words: &str, agent: &AgentChoice) -> (TurnInfo, usize) {
    let key = key(words);
    let turn = bench.send_to(&key, words, agent).turn;
    let other = bench.send("and me?", &cat()).turn;
    assert_eq!(ended(bench, crate::support::KEY, other).reply.as_deref(), Some("and me?"), "{words}");
    let ended = ended(bench, &key, turn);
    (ended, agents(bench, &key))
}

/// How many agents of a conversation run.
fn agents(bench: &Bench, key: &str) -> usize {
    bench.block(async {
        let client = Client::connect(&Connect::to(bench.home())).await.unwrap();
        client.list(&Scope::session(format!("outlast:agent:{key}")), false).await.unwrap().len()
    })
}

fn failed(bench: &Bench, words: &str, agent: &AgentChoice, why: &str) {
    let (turn, _) = tried(bench, words, agent);
    assert_eq!(turn.outcome, Some(TurnOutcome::Failed), "{words}: {turn:?}");
    let said = turn.why.clone().unwrap();
    assert!(said.contains(why) && said.len() < 1000 && !said.contains(|c: char| c.is_control()), "{words}: {said:?}");
    let key = key(words);
    eventually("no agent", || (agents(bench, &key) == 0).then_some(()));
    // The next message has another agent.
    let next = bench.send_to(&key, "on", &cat()).turn;
    // A note about a tool call that was left open may stand before the words.
    assert!(ended(bench, &key, next).reply.is_some_and(|reply| reply.ends_with("on")), "{words}");
}

/// What a person had seen was gone.
#[test]
fn what_an_agent_streamed_that_ignores_the_cancel_of_a_stop_is_kept() {
    let bench = bench("");
    let words = |strikes: u32| format!("do hang, strike {strikes}");
    for strikes in 1..=3 {
        if strikes > 1 {
            bench.start();
        }
        let hangs = bench.work().join("hangs");
        if strikes == 1 {
            bench.send(&words(strikes), &hostile());
        }
        eventually("an agent that hangs", || hangs.exists().then_some(()));
        std::fs::remove_file(&hangs).unwrap();
        bench.until_draft("begun ");
        let stopped = bench.product().json(["gateway", "stop", "--timeout", "0.1"]);
        assert_eq!((&stopped["status"], bench.ended().code()), (&"stopped".into(), Some(0)), "{stopped}");
        // Also of the attempt with which the turn is given up.
        let shown = bench.product().call(["chat", "show", "--json"]).good().json();
        let state = if strikes < 3 { "interrupted" } else { "finished" };
        assert_eq!((&shown["turns"][0]["state"], &shown["turns"][0]["reply"]), (&state.into(), &"begun ".into()), "{shown}");
    }
    let text = bench.product().call(["chat", "export"]).good().text();
    assert_eq!(text.matches("begun").count(), 3, "each once: {text}");
    bench.start();
}

#[test]
fn an_agent_that_speaks_nonsense_fails_its_turn_and_is_stopped() {
    let bench = bench("");
    failed(&bench, "do bytes", &hostile(), "no JSON message");
    failed(&bench, "do broken", &hostile(), "no JSON message");
    failed(&bench, "do prose", &hostile(), "this is no protocol");
    failed(&bench, "do long line", &hostile(), "a line of more than 67108864 bytes");
    assert!(bench.block(bench.chat().list()).unwrap().iter().all(|chat| chat.strikes == 0), "a failure is no strike");
}

#[test]
fn an_agent_that_floods_fails_its_turn_and_is_stopped() {
    let bench = bench("");
    failed(&bench, "do flood text", &hostile(), "a reply of more than 2097152 bytes");
    failed(&bench, "do flood questions", &hostile(), "does not read its input");
    let flood = |line: &str| AgentChoice::Command(line.into());
    failed(&bench, "x", &flood("yes"), "more than 2097152 bytes");
    let (turn, _) = tried(&bench, "do flood stderr", &hostile());
    assert_eq!((turn.outcome, turn.reply.as_deref()), (Some(TurnOutcome::Completed), Some("begun ")));
}

#[test]
fn an_agent_that_floods_tool_calls_leaves_a_bounded_number_of_rows() {
    let bench = bench("");
    failed(&bench, "do flood tools", &hostile(), "more than 20000 things in one turn");
    bench.block(bench.chat().shutdown(None)).unwrap();
    bench.ended();
    // Each call that was left open has a part that closes it.
    let rows = parts_kept(&bench.home());
    assert!((20_000..40_100).contains(&rows), "{rows}");
    bench.start();
}

fn parts_kept(home: &Path) -> i64 {
    let db = rusqlite::Connection::open(home.join("gateway.db")).unwrap();
    db.query_row("SELECT COUNT(*) FROM part", [], |row| row.get(0)).unwrap()
}

#[test]
fn an_agent_that_exits_with_the_prompt_is_tried_once_more_and_then_the_turn_fails() {
    let bench = bench("");
    for (words, why) in
        [("do exit", "exited with code 3: no luck today"), ("do die", "was killed by SIGKILL"), ("do fork", "exited with code 0")]
    {
        let (turn, left) = tried(&bench, words, &hostile());
        assert_eq!((turn.outcome, turn.attempt, left), (Some(TurnOutcome::Failed), 2, 0), "{words}");
        assert!(turn.why.as_deref().unwrap().contains(why), "{words}: {:?}", turn.why);
    }
    failed(&bench, "absent", &AgentChoice::Agent("absent".into()), "exited with code 1");
    failed(&bench, "gone", &AgentChoice::Command("cat > /dev/null; kill -9 $$".into()), "was killed by SIGKILL");
    // What a command leaves behind that holds its output keeps the turn open for a moment only.
    let line = format!("echo done; while ! [ -e {}/go ]; do sleep 0.01; done &", bench.work().display());
    let (turn, _) = tried(&bench, "left behind", &AgentChoice::Command(line));
    assert_eq!((turn.outcome, turn.reply.as_deref()), (Some(TurnOutcome::Completed), Some("done")));
    std::fs::write(bench.work().join("go"), "").unwrap();
}

#[test]
fn an_agent_that_hangs_is_stopped_when_its_time_is_over() {
    let bench = bench("silence_seconds = 2\nagent_start_seconds = 2");
    failed(&bench, "do hang", &hostile(), "said nothing for 2 s");
    failed(&bench, "deaf", &AgentChoice::Agent("deaf".into()), "did not open a session within 2 s");
    failed(&bench, "silent", &AgentChoice::Command("cat > /dev/null; sleep 1000".into()), "printed nothing for 2 s");
    failed(&bench, "closed", &AgentChoice::Command("exec > /dev/null; sleep 1000".into()), "closed its output and did not end");
    let lines = bench.block(async {
        let mut feed = bench.chat_now().await.follow(&key("do hang"));
        loop {
            let Heard::Event(outlast_client::ChatEvent::Part { part }) = feed.next().await.unwrap() else { continue };
            let Content::Line(body) = part.content() else { continue };
            return body.text;
        }
    });
    assert_eq!(lines, "Failed: the agent was silent for too long and was stopped.");
}

#[test]
fn an_agent_that_does_not_answer_a_cancel_is_stopped_and_the_next_message_is_answered() {
    let bench = bench("");
    let key = key("do hang");
    let turn = bench.send_to(&key, "do hang", &hostile()).turn;
    eventually("the prompt", || bench.work().join("hangs").exists().then_some(()));
    bench.block(bench.chat().stop(&key)).unwrap();
    assert_eq!(ended(&bench, &key, turn).outcome, Some(TurnOutcome::Cancelled));
    let next = bench.send_to(&key, "fine?", &hostile()).turn;
    assert_eq!(ended(&bench, &key, next).reply.as_deref(), Some("begun fine"));
    // A command that ignores the polite signals is ended all the same.
    let stubborn =
        AgentChoice::Command(format!("trap '' TERM INT HUP; touch {}/stubborn; while :; do sleep 1; done", bench.work().display()));
    let turn = bench.send_to(&key, "stubborn", &stubborn).turn;
    eventually("the command", || bench.work().join("stubborn").exists().then_some(()));
    bench.block(bench.chat().stop(&key)).unwrap();
    assert_eq!(ended(&bench, &key, turn).outcome, Some(TurnOutcome::Cancelled));
    let next = bench.send_to(&key, "on", &cat()).turn;
    assert_eq!(ended(&bench, &key, next).reply.as_deref(), Some("on"));
    eventually("no agent", || (agents(&bench, &key) == 0).then_some(()));
}

#[test]
fn what_an_agent_says_beside_its_turn_changes_no_turn() {
    let bench = bench("");
    for (words, reply) in [
        ("do unknown", "begun -32601"),
        ("do answer wrongly", "begun and ended"),
        ("do answer twice", "begun "),
        ("do speak elsewhere", "begun "),
    ] {
        let (turn, _) = tried(&bench, words, &hostile());
        assert_eq!((turn.outcome, turn.reply.as_deref()), (Some(TurnOutcome::Completed), Some(reply)), "{words}");
        // The same agent answers the next message, with what belongs to it.
        let next = bench.send_to(&key(words), "fine?", &hostile()).turn;
        let next = ended(&bench, &key(words), next);
        assert_eq!((next.outcome, next.reply.as_deref(), next.attempt), (Some(TurnOutcome::Completed), Some("begun fine"), 1), "{words}");
    }
}

#[test]
fn a_question_that_no_person_sees_is_denied_when_its_time_is_over_and_shown_on_return() {
    let bench = bench("permission_seconds = 0.3");
    let (turn, _) = tried(&bench, "may I", &hostile());
    assert_eq!((turn.outcome, turn.reply.as_deref()), (Some(TurnOutcome::Completed), Some("begun optionId:no")));
    let parts = bench.block(async {
        let mut feed = bench.chat_now().await.follow(&key("may I"));
        let mut all = Vec::new();
        loop {
            match feed.next().await.unwrap() {
                Heard::Event(outlast_client::ChatEvent::Part { part }) => all.push(part.content()),
                Heard::Event(outlast_client::ChatEvent::CaughtUp { .. }) => return all,
                _ => {}
            }
        }
    });
    let asked: Vec<_> = parts.iter().filter_map(|part| if let Content::Permission(body) = part { Some(body) } else { None }).collect();
    let [question, answer] = asked[..] else { panic!("{asked:?}") };
    assert_eq!((question.question.as_str(), question.answer.as_deref()), ("rm -r [2Jtarget", None));
    assert_eq!((answer.answer.as_deref(), answer.by.as_deref()), (Some("no"), Some("no answer within 0.3 s")));
    let shown = bench.product().call(["chat", "export", "may-I"]).good().text();
    assert!(shown.contains("- refused: rm -r [2Jtarget (no answer within 0.3 s)"), "{shown}");
    // A script that waits for the reply is told, too.
    let waited = bench.product().call(["chat", "send", "may-I", "--wait", "may I"]).good();
    assert_eq!(waited.text(), "begun optionId:no\n");
    assert!(waited.err.contains("the agent asks for permission: rm -r [2Jtarget"), "{}", waited.err);
    assert!(waited.err.contains("refused: rm -r [2Jtarget (no answer within 0.3 s)"), "{}", waited.err);
}
