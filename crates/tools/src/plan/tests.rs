use super::*;
use outlast_client::caller;
use proptest::prelude::*;

fn host() -> Host {
    Host::new(caller([("HOME".into(), "/home/me".into())], Path::new("/src")))
}

fn plan(arguments: Value) -> Plan {
    Plan::of(&arguments, &host()).unwrap_or_else(|e| panic!("{arguments}: {e:?}"))
}

fn refusal(arguments: Value) -> Answer {
    Plan::of(&arguments, &host()).map(|p| p.notes).unwrap_err()
}

fn limit(plan: &Plan) -> Option<u64> {
    match plan.mode {
        Mode::Foreground { limit, .. } => Some(limit.as_secs()),
        Mode::Background => None,
    }
}

/// A call with any values for these arguments, as an object, as its text, or any value in place of the object.
pub(crate) fn any_call(names: &'static [&'static str]) -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        "[-+]?[0-9e.]{0,40}".prop_map(Value::from),
        proptest::sample::select(vec![
            "true",
            "no",
            "wait",
            "log",
            "submit",
            "kill",
            "sleep 1 &",
            "npm run dev",
            "a;b",
            "~/x",
            "null",
            "[\"a\"]",
            "{}"
        ])
        .prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(2, 8, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[a-z]{0,3}", inner, 0..3).prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    });
    let object = proptest::collection::btree_map(proptest::sample::select(names).prop_map(str::to_owned), value.clone(), 0..=names.len());
    let object = object.prop_map(|m| Value::Object(m.into_iter().collect()));
    prop_oneof![8 => object.clone(), 1 => object.prop_map(|o| Value::String(o.to_string())), 1 => value]
}

#[test]
fn case_240_a_command_that_is_not_text_is_an_error() {
    for (command, got) in
        [(json!(null), "null"), (json!(5), "number"), (json!(true), "boolean"), (json!(["ls"]), "array"), (json!({"a": 1}), "object")]
    {
        let want =
            json!({"output": "", "exit_code": -1, "error": format!("Invalid command: expected string, got {got}"), "status": "error"});
        assert_eq!(json!(refusal(json!({"command": command}))), want);
    }
    assert_eq!(refusal(json!({}))["error"], "Invalid command: expected string, got null");
    assert_eq!(refusal(json!({"command": " \n"}))["status"], "error");
    assert_eq!(refusal(json!([]))["status"], "error");
}

#[test]
fn case_236_the_foreground_has_a_limit() {
    let error = refusal(json!({"command": "make", "timeout": 9999}));
    assert_eq!(error.len(), 1, "{error:?}");
    for part in ["9999", "600", "background=true", "notify_on_complete=true"] {
        assert!(error["error"].as_str().unwrap().contains(part), "{error:?}");
    }
    assert_eq!(limit(&plan(json!({"command": "make", "timeout": 600}))), Some(600));
    assert_eq!(limit(&plan(json!({"command": "make", "timeout": "300"}))), Some(300));
    assert_eq!(limit(&plan(json!({"command": "make"}))), Some(180));
    assert_eq!(plan(json!({"command": "make", "timeout": 9999, "background": true})).mode, Mode::Background);
    // In the background the timeout is ignored.
    assert_eq!(plan(json!({"command": "make", "timeout": "soon", "background": "yes"})).mode, Mode::Background);
    let configured = Host { default_timeout: Duration::from_secs(900), ..host() };
    assert_eq!(limit(&Plan::of(&json!({"command": "make"}), &configured).unwrap()), Some(900));
    for bad in [json!(0), json!(-1), json!("soon"), json!([1])] {
        assert_eq!(refusal(json!({"command": "make", "timeout": bad}))["status"], "error", "{bad}");
    }
    assert!(refusal(json!({"command": "make", "timeout": 1e300}))["error"].as_str().unwrap().contains("600"));
}

#[test]
fn the_checks_come_in_the_contracts_order() {
    // Each call has its fault and all later ones; the first fault is reported.
    let faults = [
        (json!({"command": 5, "timeout": 9999, "workdir": "a;b"}), "expected string"),
        (json!({"command": "nohup x", "timeout": 9999, "workdir": "a;b"}), "9999"),
        (json!({"command": "nohup x", "workdir": "a;b"}), "nohup"),
        (json!({"command": "x", "workdir": "a;b"}), "workdir"),
    ];
    for (call, want) in faults {
        assert!(refusal(call.clone())["error"].as_str().unwrap().contains(want), "{call}");
    }
}

#[test]
fn case_237_misuse_is_refused_in_the_foreground_only() {
    let refused = refusal(json!({"command": "nohup pnpm dev > log 2>&1 &"}));
    assert_eq!((&refused["exit_code"], &refused["status"]), (&json!(-1), &json!("error")));
    let error = refused["error"].as_str().unwrap();
    assert!(error.contains("nohup") && error.contains("background=true"), "{error}");
    assert!(refusal(json!({"command": "pnpm dev"}))["error"].as_str().unwrap().contains("long-lived"));
    plan(json!({"command": "pnpm dev --help"}));
    plan(json!({"command": "pnpm dev", "background": true}));
}

#[test]
fn case_241_a_workdir_with_a_shell_character_is_blocked() {
    for (dir, bad) in
        [("/tmp; rm -rf x", "';'"), ("$HOME", "'$'"), ("a`b`", "'`'"), ("a\nb", "'\\n'"), ("a|b", "'|'"), ("a&b", "'&'"), ("a*", "'*'")]
    {
        let blocked = refusal(json!({"command": "ls", "workdir": dir}));
        assert_eq!((&blocked["status"], &blocked["exit_code"]), (&json!("blocked"), &json!(-1)));
        assert!(blocked["error"].as_str().unwrap().contains(bad), "{blocked:?}");
    }
    for (dir, want) in [
        ("/tmp/a b+c@d=e,f", "/tmp/a b+c@d=e,f"),
        ("sub/dir", "/src/sub/dir"),
        ("~", "/home/me"),
        ("~/x", "/home/me/x"),
        ("/home/jürgen", "/home/jürgen"),
    ] {
        assert_eq!(plan(json!({"command": "ls", "workdir": dir})).spec.cwd, Some(want.into()));
    }
    assert_eq!(plan(json!({"command": "ls", "workdir": ""})).spec.cwd, None);
    assert_eq!(plan(json!({"command": "ls", "workdir": null})).spec.cwd, None);
}

#[test]
fn case_242_a_token_on_standard_input_needs_no_terminal() {
    let call = |command: &str| plan(json!({"command": command, "pty": true, "background": true}));
    let dropped = call("echo $T | gh auth login --hostname x --with-token");
    assert!(!dropped.spec.pty && dropped.notes["pty_note"].as_str().unwrap().contains("--with-token"));
    assert!(call("gh auth login").spec.pty && !call("gh auth login").notes.contains_key("pty_note"));
    // Without a terminal there is nothing to drop.
    assert!(!plan(json!({"command": "gh auth login --with-token"})).notes.contains_key("pty_note"));
}

#[test]
fn case_234_a_silent_process_gets_a_hint() {
    let hint = plan(json!({"command": "make", "background": true})).notes["hint"].as_str().unwrap().to_owned();
    assert!(hint.contains("notify_on_complete") && hint.contains("silent"), "{hint}");
    let notify = plan(json!({"command": "make", "background": 1, "notify_on_complete": "true"}));
    assert_eq!(json!(notify.notes), json!({"notify_on_complete": true}));
    assert!(notify.spec.tell.completion);
    let watch = plan(json!({"command": "make", "background": true, "watch_patterns": ["READY"]}));
    assert_eq!(json!(watch.notes), json!({"watch_patterns": ["READY"]}));
    assert_eq!((watch.spec.tell.watch, watch.spec.tell.completion), (vec!["READY".to_owned()], false));
    assert!(plan(json!({"command": "make"})).notes.is_empty());
}

#[test]
fn a_poller_and_a_detached_command_get_a_hint() {
    let hint = |command: &str| {
        let notes = plan(json!({"command": command, "background": true, "notify_on_complete": true})).notes;
        notes.get("hint").map(|h| h.as_str().unwrap().to_owned()).unwrap_or_default()
    };
    assert!(hint("while true; do gh pr view 5 --json statusCheckRollup; sleep 9; done").contains("gh pr checks"));
    assert!(hint("until gh pr checks 5 --json state | jq -e .; do sleep 9; done").contains("gh pr checks"));
    assert!(hint("nohup ./server &").contains("Leave out '&'"));
    assert_eq!(hint("make a & make b & wait"), "");
    assert_eq!(hint("gh pr checks 5 --watch"), "");
}

#[test]
fn case_147_both_flags_exclude_each_other() {
    let both = plan(json!({"command": "make", "background": true, "notify_on_complete": true, "watch_patterns": ["ERROR"]}));
    assert!(both.notes["watch_patterns_ignored"].as_str().unwrap().contains("duplicate notifications"));
    assert!(both.spec.tell.completion && both.spec.tell.watch.is_empty() && !both.notes.contains_key("watch_patterns"));
}

#[test]
fn case_235_a_host_that_cannot_notify_drops_the_flags() {
    let host = Host { can_notify: false, ..host() };
    for flags in
        [json!({"notify_on_complete": true}), json!({"watch_patterns": "x"}), json!({"notify_on_complete": true, "watch_patterns": ["x"]})]
    {
        let mut call = json!({"command": "make", "background": true});
        call.as_object_mut().unwrap().extend(flags.as_object().unwrap().clone());
        let plan = Plan::of(&call, &host).unwrap();
        let note = plan.notes["notify_unsupported"].as_str().unwrap();
        assert!(note.contains("poll") && note.contains("wait"), "{note}");
        assert!(plan.notes.len() == 1 && plan.spec.tell.is_nothing(), "{plan:?}");
    }
    assert!(Plan::of(&json!({"command": "make", "background": true}), &host).unwrap().notes.is_empty());
    assert!(Plan::of(&json!({"command": "make"}), &host).unwrap().spec.tell.is_nothing());
}

#[test]
fn case_243_a_script_has_the_foreground_alone() {
    let host = Host { policy: Policy::CodeExecution, ..host() };
    let call =
        json!({"command": "make", "background": true, "pty": "perhaps", "notify_on_complete": 7, "watch_patterns": {}, "timeout": 5});
    let plan = Plan::of(&call, &host).unwrap();
    assert_eq!(plan.mode, Mode::Foreground { limit: Duration::from_secs(5), at_limit: AtLimit::Kill });
    assert!(plan.notes.is_empty() && !plan.spec.pty && plan.spec.tell.is_nothing());
    let refused = Plan::of(&json!({"command": "npm start", "background": true}), &host).unwrap_err();
    assert!(refused["error"].as_str().unwrap().contains("long-lived"));
}

#[test]
fn case_245_a_terminal_in_the_foreground_is_honoured() {
    assert!(plan(json!({"command": "top -b -n1", "pty": "true"})).spec.pty);
}

#[test]
fn a_foreground_command_that_may_go_on_is_told_of_and_one_that_may_not_is_stopped() {
    let goes_on = plan(json!({"command": "make"}));
    assert!(goes_on.spec.tell.completion && goes_on.spec.timeout.is_none());
    let stopped = Plan::of(&json!({"command": "make", "timeout": 5}), &Host { at_limit: AtLimit::Kill, ..host() }).unwrap();
    assert!(!stopped.spec.tell.completion && stopped.spec.timeout == Some(Duration::from_secs(5)));
}

#[test]
fn the_route_goes_along() {
    let route = outlast_core::Route { platform: Some("telegram".into()), chat_id: Some("5".into()), ..Default::default() };
    let host = Host { route: route.clone(), ..host() };
    let plan = Plan::of(&json!({"command": "make", "background": true, "notify_on_complete": true}), &host).unwrap();
    assert_eq!(plan.spec.tell.route, route);
}

proptest! {
    #[test]
    fn any_arguments_are_read(
        arguments in any_call(&["command", "background", "timeout", "workdir", "pty", "notify_on_complete", "watch_patterns", "max_output_tokens"]),
        script: bool,
    ) {
        let host = Host { policy: if script { Policy::CodeExecution } else { Policy::Agent }, ..host() };
        if let Err(refusal) = Plan::of(&arguments, &host) {
            prop_assert!(refusal["error"].is_string());
        }
    }
}
