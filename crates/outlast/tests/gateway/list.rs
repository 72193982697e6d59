//! `outlast list` in a home with conversations, and conversations that are read while no gateway runs.

use crate::support::*;
use outlast_testkit::product::{eventually, kill_and_wait};
use std::process::Stdio;
use std::time::Duration;

#[test]
fn the_agent_of_a_conversation_is_listed_by_its_own_command() {
    let bench = Bench::new();
    let agent = bench.gated();
    let turn = bench.send("busy", &agent).turn;
    bench.wait_for_prompts(1);
    let text = |args: &[&str]| bench.product().call(args).good().text();
    assert_eq!(text(&["list"]), "", "people look for what was started, and not for our own");
    let all = text(&["list", "--all"]);
    let [head, line] = all.lines().collect::<Vec<_>>()[..] else { panic!("{all}") };
    assert!(head.contains("CHAT") && line.contains("  main  agent  /bin/sh -c "), "{all}");
    assert!(line.contains("words=$(cat)") && !line.contains("OUTLAST"), "{all}");
    let listed = bench.product().json(["list"]);
    assert_eq!((&listed["processes"][0]["conversation"], &listed["processes"][0]["is_agent"]), (&"main".into(), &true.into()), "{listed}");
    bench.open_gate();
    bench.wait(turn);
}

/// Reading used to start the gateway, which resumed what had been stopped.
#[test]
fn list_show_and_export_leave_a_stopped_gateway_stopped() {
    let bench = Bench::new();
    bench.wait(bench.send_to(KEY, "hi", &cat()).turn);
    let other = "agent:main:local:dm:other";
    bench.send_to(other, "secret", &cat());
    eventually("its turn", || bench.try_show(other)?.turns[0].is_finished().then_some(()));
    let turn = bench.send("long", &bench.gated()).turn;
    bench.wait_for_prompts(1);
    bench.block(bench.chat().shutdown(Some(Duration::ZERO))).unwrap();
    assert_eq!((bench.ended().code(), bench.word().as_str()), (Some(0), "stopped"));

    let json = |verb: &str| bench.product().call(["chat", verb, "--json"]).good().json();
    let all = json("list");
    let main = all["conversations"].as_array().unwrap().iter().find(|one| one["name"] == "main").unwrap();
    assert_eq!((&main["standing"], &main["open_turns"]), (&"resume_pending".into(), &1.into()), "{all}");
    let shown = json("show");
    let states: Vec<_> = shown["turns"].as_array().unwrap().iter().map(|turn| (turn["state"].clone(), turn["reply"].clone())).collect();
    assert_eq!(states, [("finished".into(), "hi".into()), ("interrupted".into(), serde_json::Value::Null)], "{shown}");
    let told = bench.product().command(["chat", "show"]).output().unwrap();
    assert!(String::from_utf8_lossy(&told.stderr).contains("no gateway runs, and open turns wait for one"), "{told:?}");
    let exported = bench.product().call(["chat", "export"]).good().text();
    assert!(exported.contains("> hi") && exported.contains("> long"), "{exported}");
    for (name, env) in [("nobody", None), ("other", Some(("OUTLAST_SESSION", KEY)))] {
        let refused = bench.product().command(["chat", "show", name, "--json"]).envs(env).output().unwrap();
        let said = String::from_utf8_lossy(&refused.stdout).into_owned() + &String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && said.contains("no_conversation"), "{name}: {said}");
    }
    assert_eq!((bench.word().as_str(), bench.try_pid()), ("stopped", None), "{}", bench.log());
    assert_eq!(bench.prompts().len(), 1, "nothing was resumed");
    bench.start();
    bench.wait_for_prompts(2);
    bench.open_gate();
    bench.wait(turn);
}

/// A turn was shown as running while everything was dead.
#[test]
fn a_turn_whose_gateway_was_killed_is_not_shown_as_running() {
    let bench = Bench::new();
    let turn = bench.send("long", &bench.gated()).turn;
    bench.wait_for_prompts(1);
    let gateway = bench.pid();
    // The engine starts none after a stop.
    std::fs::write(bench.home().join("gateway.lock"), "stopped\n").unwrap();
    kill_and_wait(gateway).unwrap();
    bench.reap();
    let text = bench.product().call(["chat", "show"]).good().text();
    assert!(text.contains("#1 was running when the gateway ended, is resumed when a gateway starts"), "{text}");
    let shown = bench.product().call(["chat", "show", "--json"]).good().json();
    assert_eq!(shown["turns"][0]["state"], "running", "what the journal says: {shown}");
    bench.start();
    assert!(bench.product().call(["chat", "show"]).good().text().contains("#1 running"));
    bench.open_gate();
    bench.wait(turn);
}

#[test]
fn a_reader_waits_for_a_gateway_that_starts() {
    let bench = Bench::new();
    bench.wait(bench.send("hi", &cat()).turn);
    let points = bench.product().points();
    points.arm("gateway.before_marks").unwrap();
    bench.kill();
    // It has the lock, and does not listen yet.
    eventually("the next gateway", || points.held("gateway.before_marks"));
    let reader = bench.product().command(["chat", "show"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    points.release("gateway.before_marks").unwrap();
    let said = reader.wait_with_output().unwrap();
    assert!(said.status.success() && String::from_utf8_lossy(&said.stdout).contains("hi"), "{said:?}");
}

/// The feed waited for the next gateway, which no program starts after a stop.
#[test]
fn an_export_is_finished_although_the_gateway_ends_meanwhile_and_stays_stopped() {
    let bench = Bench::new();
    bench.wait(bench.send("hi", &cat()).turn);
    let gateway = bench.pid();
    let points = bench.product().points();
    points.arm("gateway.page").unwrap();
    let reader = bench.product().command(["chat", "export"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("that the gateway is asked for parts", || points.held("gateway.page"));
    // As a stop leaves it, in the middle of an answer.
    std::fs::write(bench.home().join("gateway.lock"), "stopped\n").unwrap();
    kill_and_wait(gateway).unwrap();
    bench.reap();
    let said = reader.wait_with_output().unwrap();
    assert!(said.status.success() && String::from_utf8_lossy(&said.stdout).contains("> hi"), "{said:?}");
    assert_eq!((bench.word().as_str(), bench.try_pid()), ("stopped", None), "{}", bench.log());
    // The next one removes the socket of the one that was killed.
    bench.start();
}

/// The socket of a gateway that was killed is still there, and reading failed with an error about the database.
#[test]
fn a_database_that_was_deleted_after_a_crash_has_no_conversations() {
    let bench = Bench::new();
    bench.wait(bench.send("hi", &cat()).turn);
    let gateway = bench.pid();
    // The engine starts none after a stop.
    std::fs::write(bench.home().join("gateway.lock"), "stopped\n").unwrap();
    kill_and_wait(gateway).unwrap();
    bench.reap();
    for end in ["", "-wal"] {
        std::fs::remove_file(bench.home().join(format!("gateway.db{end}"))).unwrap();
    }
    assert_eq!(bench.product().call(["chat", "list", "--json"]).good().json()["conversations"], serde_json::json!([]));
    for verb in ["show", "export"] {
        let refused = bench.product().call(["chat", verb, "main", "--json"]);
        assert_eq!((refused.code, refused.json()["code"].as_str()), (Some(1), Some("no_conversation")), "{refused:?}");
    }
    assert!(!bench.home().join("gateway.db").exists(), "reading makes no database");
    bench.start();
}
