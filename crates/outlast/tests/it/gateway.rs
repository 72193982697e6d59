//! The gateway at the command line, played by the test.

use crate::support::*;
use outlast_testkit::fake_gateway::FakeGateway;
use outlast_wire::v1::chat::ChatRequest;

#[test]
fn a_status_never_starts_one() {
    let p = product();
    let none = p.call(["gateway", "status", "--json"]);
    assert_eq!(none.code, Some(0), "{none:?}");
    let answer = none.json();
    assert_eq!((&answer["pid"], &answer["running"], &answer["idle"]), (&Value::Null, &json!(0), &json!(true)));
    assert!(!p.home().root.exists(), "a look creates nothing");
    assert!(p.call(["gateway", "status"]).text().contains("no gateway runs"));
    let gateway = FakeGateway::alone(&p.home().root);
    gateway.hold_turns();
    p.call(["chat", "send", "main", "hello"]);
    let answer = p.call(["gateway", "status", "--json"]).json();
    assert_eq!((&answer["pid"], &answer["running"], &answer["idle"]), (&json!(std::process::id()), &json!(1), &json!(false)));
    assert!(p.call(["gateway", "status"]).text().contains("running    1 turn"));
}

#[test]
fn a_gateway_is_drained_and_stopped() {
    let p = product();
    for args in [&["gateway", "stop", "--json"][..], &["gateway", "drain", "--off", "--json"]] {
        assert_eq!(p.call(args.iter().copied()).json()["status"], "not_running");
    }
    let undrained = p.call(["gateway", "drain", "--json"]);
    assert_eq!((undrained.code, &undrained.json()["code"]), (Some(1), &json!("gateway_not_running")), "{undrained:?}");
    assert!(undrained.json()["error"].as_str().unwrap().contains("nothing was drained"), "{undrained:?}");
    let gateway = FakeGateway::alone(&p.home().root);
    assert_eq!(p.call(["gateway", "drain", "--for", "60", "--json"]).json()["status"], "ok");
    assert_eq!(gateway.asked().last(), Some(&ChatRequest::Drain { hold_seconds: Some(60) }));
    assert_eq!(p.call(["gateway", "status", "--json"]).json()["draining"], true);
    assert_eq!(p.call(["gateway", "drain", "--off", "--json"]).json()["status"], "ok");
    let stopped = p.call(["gateway", "stop", "--timeout", "5", "--json"]).json();
    assert_eq!((&stopped["status"], &stopped["pid"]), (&json!("stopped"), &json!(std::process::id())));
    assert_eq!(gateway.asked().last(), Some(&ChatRequest::Shutdown { timeout_ms: Some(5_000), from: None }));
    assert!(p.call(["gateway", "status"]).text().contains("no gateway runs"));
}

/// `kill --all; engine stop` left a gateway that started the engine again.
#[test]
fn a_stop_of_the_engine_names_the_gateway_that_starts_it_again() {
    let p = product();
    p.engine();
    assert_eq!(p.json(["engine", "stop"])["note"], Value::Null);
    p.engine();
    let _gateway = FakeGateway::alone(&p.home().root);
    let note = "a gateway runs and starts the engine again; run `outlast gateway stop` first";
    assert_eq!(p.call(["engine", "stop"]).good().err, format!("note: {note}\n"));
    p.engine();
    assert_eq!(p.json(["engine", "stop"])["note"], note);
}

/// A restart started a gateway that a person had stopped.
#[test]
fn a_restart_starts_no_gateway_where_none_runs() {
    let p = product();
    let none = p.call(["gateway", "restart", "--json"]);
    assert_eq!((none.code, &none.json()["status"]), (Some(0), &json!("not_running")), "{none:?}");
    assert!(!p.home().root.exists(), "nothing is created");
}

/// The gateway was ended, and the next one could not start.
#[test]
fn a_restart_with_a_configuration_that_cannot_be_used_ends_nothing() {
    let p = product();
    let gateway = FakeGateway::alone(&p.home().root);
    for (config, want) in [("[gateway.agents.x]\npermission = \"sometimes\"\n", "gateway.agents.x in "), ("[gateway\n", "cannot read ")] {
        p.configure(config);
        let refused = p.call(["gateway", "restart", "--json"]);
        let error = refused.json()["error"].as_str().unwrap_or_default().to_owned();
        assert_eq!((refused.code, &refused.json()["code"]), (Some(1), &json!("gateway_cannot_start")), "{refused:?}");
        assert!(error.contains(want) && error.contains("config.toml"), "{error}");
    }
    assert!(!gateway.asked().iter().any(|request| matches!(request, ChatRequest::Restart { .. })));
    drop(gateway);
    p.configure("[gateway.agents.x]\npermission = \"sometimes\"\n");
    let text = p.call(["gateway", "status"]).text();
    assert!(text.contains("none can start") && text.contains("\"sometimes\""), "{text}");
}

#[test]
fn a_restart_from_within_a_conversation_is_answered_at_once() {
    let p = product().with_env("OUTLAST_SESSION", "agent:main:local:dm:main");
    let gateway = FakeGateway::alone(&p.home().root);
    let answer = p.call(["gateway", "restart", "--json"]).json();
    assert_eq!(answer["status"], "restarting");
    let asked = gateway.wait_for("a restart", |r| matches!(r, ChatRequest::Restart { .. }));
    assert_eq!(asked, ChatRequest::Restart { from: Some("agent:main:local:dm:main".into()) });
}

#[test]
fn a_stop_from_within_a_conversation_is_answered_at_once() {
    let p = product().with_env("OUTLAST_SESSION", "agent:main:local:dm:main");
    let gateway = FakeGateway::alone(&p.home().root);
    let answer = p.call(["gateway", "stop", "--timeout", "5", "--json"]).json();
    assert_eq!(answer["status"], "stopping");
    let asked = gateway.wait_for("a stop", |r| matches!(r, ChatRequest::Shutdown { .. }));
    assert_eq!(asked, ChatRequest::Shutdown { timeout_ms: Some(5_000), from: Some("agent:main:local:dm:main".into()) });
}

/// The program is not part of every installation.
#[test]
fn a_missing_program_is_named_with_what_to_do() {
    let p = Product::new(env!("CARGO_BIN_EXE_outlast"));
    let alone = p.work().join("outlast");
    std::fs::copy(p.program(), &alone).unwrap();
    for args in [&["gateway", "run"][..], &["chat", "send", "main", "hello"], &["chat"]] {
        let command = p.command(args);
        let refused = std::process::Command::new(&alone)
            .args(args)
            .env_clear()
            .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{args:?}: {said}");
        assert!(said.contains("outlast-gateway") && said.contains("install it beside"), "{args:?}: {said}");
    }
}
