//! What waits for a person: it is told once, keeps no gateway running, and holds up nothing else.

use crate::support::{Bench, KEY, cat};
use outlast_client::{AgentChoice, Client, Connect, Owner, Shown, Standing, TurnKind, TurnOutcome, TurnState};
use outlast_testkit::machine::{in_own_mounts, mount_tmpfs, remount, skipped};
use outlast_testkit::product::{Product, eventually};
use std::process::Stdio;
use std::time::Duration;

const LONG_AGO: &str = "A turn was interrupted long ago. Write, or use /resume to continue it.";

/// An agent that speaks ACP, and dies with each prompt in which it is told to.
fn mortal(product: &Product) {
    let script = product.work().join("mortal.sh");
    let text = r#"
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p' | head -n 1)
  case "$line" in
    *'"initialize"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":1,"agentCapabilities":{}}}' ;;
    *'"session/new"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"sessionId":"s1"}}' ;;
    *'"session/prompt"'*) case "$line" in *'do die'*) kill -9 $$ ;; esac
      echo '{"jsonrpc":"2.0","id":'$id',"result":{"stopReason":"end_turn"}}' ;;
  esac
done
"#;
    std::fs::write(&script, text).unwrap();
    product.configure(&format!("[gateway.agents.mortal]\nargv = [\"/bin/sh\", {:?}]\n", script.display().to_string()));
}

/// A script waited for days, said nothing, and kept the gateway running.
#[test]
fn a_script_is_told_that_its_message_waits_because_the_conversation_was_suspended() {
    let product = Product::new(env!("CARGO_BIN_EXE_outlast"));
    mortal(&product);
    let bench = Bench::stopped(product);
    bench.start();
    let agent = AgentChoice::Agent("mortal".into());
    bench.product().call(["gateway", "drain"]).good();
    bench.send("do die", &agent);
    bench.send("do die, too", &agent);
    let script = |json: &[&str]| {
        let args = [&["chat", "send", "main", "--wait", "and then?"], json].concat();
        bench.product().command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let (script, program) = (script(&[]), script(&["--json"]));
    bench.until("four messages", |shown| shown.turns.len() == 4);
    bench.product().call(["gateway", "drain", "--off"]).good();
    let said = script.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.status.code() == Some(1) && told.contains("waits for a person: Suspended. Write to start a new"), "{told}");
    let said = program.wait_with_output().unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!((said.status.code(), &answer["status"], &answer["reply"]), (Some(1), &"waiting".into(), &serde_json::Value::Null));
    let shown = bench.show();
    assert_eq!((shown.conversation.standing, &shown.turns[2].state), (Standing::Suspended, &TurnState::Queued));
    assert!(bench.block(bench.chat().status()).unwrap().idle, "it keeps no gateway running");
    // One that comes later is told at once.
    let late = bench.block(async { bench.chat_now().await.wait(KEY, shown.turns[2].id, None).await }).unwrap();
    assert_eq!(late, None);
    bench.block(bench.chat().resume(KEY)).unwrap();
    assert_eq!(bench.wait(shown.turns[3].id).outcome, Some(TurnOutcome::Completed));
}

fn run(bench: &Bench, line: &str) {
    let ran = bench.product().command(["run", "--notify", "--session", KEY, "--", line]).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
}

fn finished_notices(shown: &Shown) -> usize {
    shown.turns.iter().filter(|turn| turn.kind == TurnKind::Notice && turn.is_finished()).count()
}

/// A gateway that finds a turn which was interrupted long ago. Its agent is `cat` now.
fn with_old_turn(config: &str) -> (Bench, u64) {
    let bench = Bench::configured(config);
    let turn = bench.send("long", &bench.gated()).turn;
    bench.wait_for_prompts(1);
    bench.block(bench.chat().shutdown(Some(Duration::ZERO))).unwrap();
    bench.ended();
    bench.sql(
        "UPDATE turn SET interrupted_at = interrupted_at - 2 * 3600 * 1000000; UPDATE conversation SET agent = '{\"command\":\"cat\"}'",
    );
    bench.start();
    bench.until_line(LONG_AGO);
    (bench, turn)
}

/// They waited behind it for as long as no person came.
#[test]
fn new_notices_pass_a_turn_that_its_age_holds_back_and_the_person_is_told_of_it_once() {
    let (bench, turn) = with_old_turn("");
    for count in 1..=2 {
        run(&bench, "true");
        let shown = bench.until("a turn about the notice", |shown| finished_notices(shown) == count);
        assert_eq!((&shown.turns[0].state, shown.conversation.standing), (&TurnState::Interrupted, Standing::ResumePending));
    }
    assert_eq!(bench.lines().iter().filter(|line| *line == LONG_AGO).count(), 1, "{:?}", bench.lines());
    // The gateway looks at the held turn again once the agent of the last notice has ended.
    eventually("that the turn is shown as waiting", || {
        let text = bench.product().call(["chat", "show"]).good().text();
        text.contains("#1 interrupted (shutdown timeout), waits for you").then_some(())
    });
    bench.block(bench.chat().resume(KEY)).unwrap();
    assert_eq!(bench.wait(turn).outcome, Some(TurnOutcome::Completed));
}

/// It took no more of them, and counted them as work all the same.
#[test]
fn a_gateway_exits_although_more_notices_wait_for_a_suspended_conversation_than_it_keeps() {
    let bench = Bench::configured("[gateway]\nidle_exit_seconds = 0.5\n");
    bench.wait(bench.send("hi", &cat()).turn);
    run(&bench, "true");
    bench.until("a turn about the notice", |shown| finished_notices(shown) == 1);
    assert_eq!(bench.ended().code(), Some(0));
    bench.sql(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1024)
         INSERT INTO turn SELECT 100 + i, key, generation, 'evt_' || i, kind, body, 'queued', 0, 0, 100 + i, NULL, NULL, NULL, NULL, NULL, 0,
                                 accepted_at, NULL, NULL FROM turn, n WHERE kind = 'notice';
         UPDATE conversation SET suspended_at = 1, strikes = 3",
    );
    bench.start();
    let owner = Owner { generation: Some(bench.generation()), ..Owner::session(KEY) };
    let post = async || {
        let client = Client::connect(&Connect::to(bench.home()).speaking_for(owner)).await.unwrap();
        let event = serde_json::json!({"type": "one more"}).as_object().unwrap().clone();
        client.post(None, event, outlast_client::Route::default()).await.unwrap();
    };
    bench.block(post());
    assert_eq!((bench.ended().code(), bench.word().as_str()), (Some(0), ""), "{}", bench.log());
    let pending = bench.product().json(["events", "history", "--state", "pending"]);
    assert_eq!(pending["notices"].as_array().map(Vec::len), Some(1), "the engine keeps it: {pending}");
    bench.start();
    bench.block(bench.chat().resume(KEY)).unwrap();
    eventually("that it is taken", || {
        let pending = bench.product().json(["events", "history", "--state", "pending"]);
        pending["notices"].as_array()?.is_empty().then_some(())
    });
}

#[test]
fn conversations_on_a_read_only_file_system_are_not_read_and_the_hint_says_what_to_do() {
    let ran = in_own_mounts(|| {
        let product = Product::new(env!("CARGO_BIN_EXE_outlast"));
        let home = product.home().root;
        mount_tmpfs(&home, "size=48m,mode=700").unwrap();
        product.call(["chat", "send", "main", "--command", "cat", "--wait", "hi"]).good();
        product.call(["gateway", "stop"]).good();
        product.call(["engine", "stop"]).good();
        // The kernel refuses while the last program is about to close its files.
        eventually("that no program writes in it", || remount(&home, "ro").ok());
        for verb in ["list", "show", "export"] {
            let refused = product.call(["chat", verb]);
            assert!(refused.code == Some(1) && refused.err.contains("`mount -o remount,rw` it"), "{verb}: {refused:?}");
        }
        remount(&home, "rw").unwrap();
        assert!(product.call(["chat", "show"]).good().text().contains("hi"));
        product.shut_down().unwrap();
    });
    if let Err(why) = ran {
        skipped("conversations_on_a_read_only_file_system_are_not_read_and_the_hint_says_what_to_do", format!("{why:#}"));
    }
}
