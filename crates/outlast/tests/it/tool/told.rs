//! What a call answers, and what is told instead or besides.

use super::*;

/// A home in which no shell line can be started.
fn without_a_shell() -> Product {
    let p = product();
    let bin = p.work().join("bin");
    std::fs::create_dir(&bin).unwrap();
    std::fs::write(bin.join("bash"), "#!/nonexistent/interpreter\n").unwrap();
    std::fs::set_permissions(bin.join("bash"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    p.with_env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
}

#[test]
fn a_foreground_start_that_fails_is_answered_and_not_told() {
    let p = without_a_shell().with_env("OUTLAST_SESSION", "talk");
    let hooked = p.work().join("hooked");
    p.configure(&format!("[[hook]]\nname = \"told\"\ncommand = [\"/bin/touch\", {hooked:?}]\n"));
    let said = terminal(&p, json!({"command": "true"}));
    assert!(said["error"].as_str().unwrap().starts_with("Failed to start the command: "), "{said}");
    let told = p.json(["events", "history"]);
    assert_eq!(told["notices"][0]["event"]["session_id"], said["session_id"], "{told}");
    assert_eq!(told["notices"][0]["state"], "consumed", "{told}");
    assert_eq!((given(&p, "3"), hooked.exists()), (vec![], false));
}

#[test]
fn case_033_a_start_that_fails_is_told_and_can_be_looked_at() {
    let p = without_a_shell();
    let said = terminal(&p, json!({"command": "true", "background": true}));
    assert!(said["error"].as_str().unwrap().starts_with("Failed to start background process: "), "{said}");
    assert_eq!((&said["exit_code"], &said["output"], &said["status"]), (&json!(-1), &json!(""), &json!("error")), "{said}");
    let polled = process(&p, json!({"action": "poll", "session_id": said["session_id"]}));
    assert_eq!((&polled["completion_reason"], &polled["exit_code"]), (&json!("failed_start"), &json!(null)), "{polled}");
    assert!(polled["start_error"].is_string(), "{polled}");
    let said = terminal(&p, json!({"command": "true"}));
    assert!(said["error"].as_str().unwrap().starts_with("Failed to start the command: "), "{said}");
}

#[test]
fn what_the_engine_refuses_is_an_answer() {
    let p = product();
    for background in [true, false] {
        let call = json!({"command": "x".repeat(200_000), "background": background}).to_string();
        let said = p.call_with_input(["tool", "terminal", "-"], call.as_bytes()).good().json();
        assert!(said["status"] == "error" && said["error"].as_str().unwrap().starts_with("Failed to start"), "{said:.300}");
    }
    assert_eq!(p.json(["list", "--all"])["processes"], json!([]));
}

/// What a conversation is told, by kind and process.
fn drained(p: &Product, session: &str) -> Vec<(Value, Value)> {
    let all = p.json(["events", "drain", "--session", session]);
    let events = all["events"].as_array().unwrap_or_else(|| panic!("{all}"));
    events.iter().map(|e| (e["event"]["type"].clone(), e["event"]["session_id"].clone())).collect()
}

#[test]
fn what_was_answered_is_not_told_and_what_was_handed_over_is() {
    let p = product().with_env("OUTLAST_SESSION", "talk");
    let gate = Gate::new(&p, "gate");
    terminal(&p, json!({"command": "echo quick"}));
    assert_eq!(drained(&p, "talk"), []);
    let said = terminal(&p, json!({"command": gate.wait(), "timeout": 1}));
    assert_eq!(drained(&p, "talk"), []);
    gate.open();
    let told = eventually("the notice", || Some(drained(&p, "talk")).filter(|all| !all.is_empty()));
    assert_eq!(told, [(json!("completion"), said["session_id"].clone())]);
    // Asked for, and then answered by a wait: told once.
    let id = started(&p, json!({"command": "true", "notify_on_complete": true}));
    process(&p, json!({"action": "wait", "session_id": id}));
    assert_eq!(drained(&p, "talk"), []);
    // With a place in a chat.
    let flags = ["--route", "platform=telegram", "--route", "chat=7"];
    let said = call_with(&p, &flags, "terminal", json!({"command": "true", "background": true, "notify_on_complete": true}));
    let event = eventually("the notice", || p.json(["events", "drain"])["events"].get(0).cloned());
    assert_eq!(event["event"]["session_id"], said["session_id"]);
    assert_eq!((&event["event"]["platform"], &event["event"]["chat_id"]), (&json!("telegram"), &json!("7")), "{event}");
}

/// What a taker is given, by process, and whether as a repeat.
fn given(p: &Product, wait: &str) -> Vec<(Value, bool)> {
    let all = p.json(["events", "next", "--session", "talk", "--lease", "0.01", "--wait", wait]);
    all["notices"].as_array().unwrap().iter().map(|n| (n["event"]["session_id"].clone(), n["event"].get("repeat").is_some())).collect()
}

#[test]
fn a_foreground_command_that_ends_before_the_wait_is_answered_without_a_notice() {
    let p = product().with_env("OUTLAST_SESSION", "talk");
    for killed in [false, true] {
        p.points().arm("run.before_answer").unwrap();
        let mut call = under_way(&p, &[], &json!({"command": "true"}));
        eventually("the start", || p.points().held("run.before_answer"));
        let told = eventually("the notice", || p.json(["events", "history", "--state", "leased"])["notices"].get(0).cloned());
        assert_eq!(given(&p, "0"), [], "it is kept for the waiter");
        if killed {
            // The waiter is gone: the notice is delivered, and is no repeat.
            call.kill().unwrap();
            call.wait().unwrap();
            assert_eq!(given(&p, "20"), [(told["event"]["session_id"].clone(), false)]);
            p.points().release("run.before_answer").unwrap();
        } else {
            p.points().release("run.before_answer").unwrap();
            assert_eq!(answer(call)["exit_code"], 0);
            assert_eq!(given(&p, "3"), []);
        }
    }
}

#[test]
fn case_233_a_secret_is_masked_in_what_is_told() {
    let p = product().with_env("OUTLAST_SESSION", "talk");
    let token = ["gh", "p_", &"a1B2".repeat(9)].concat();
    std::fs::write(p.work().join("token"), &token).unwrap();
    started(&p, json!({"command": "cat token", "notify_on_complete": true}));
    let event = eventually("the notice", || p.json(["events", "drain"])["events"].get(0).cloned());
    assert!(!event.to_string().contains(&token) && event["text"].as_str().unwrap().contains("ghp_"), "{event}");
}

#[test]
fn output_can_be_had_within_a_number_of_tokens() {
    let p = product();
    let line = "echo begin; seq 5000; echo 'error: it broke'; seq 5000; echo the end; exit 3";
    let said = terminal(&p, json!({"command": line, "max_output_tokens": "200"}));
    let output = said["output"].as_str().unwrap();
    assert!(said["output_tokens"].as_u64().unwrap() <= 200 && said["exit_code"] == 3, "{said}");
    for part in ["begin", "error: it broke", "the end", "process(action=\"log\", offset="] {
        assert!(output.contains(part), "{part}: {output}");
    }
    let id = said["session_id"].as_str().unwrap_or_else(|| panic!("there is more to read: {said}"));
    for (action, field) in [("log", "output"), ("wait", "output"), ("poll", "output_preview")] {
        let short = process(&p, json!({"action": action, "session_id": id, "max_output_tokens": 50}));
        let text = short[field].as_str().unwrap();
        assert!(text.contains("the end") && text.len() < 400, "{action}: {short}");
    }
    // What fits is whole, and leaves nothing behind.
    let said = terminal(&p, json!({"command": "echo short", "max_output_tokens": 50}));
    assert_eq!(said, json!({"output": "short", "exit_code": 0, "error": null, "output_tokens": 1}));
    for bad in [json!(0), json!("few"), json!(-1)] {
        assert!(terminal(&p, json!({"command": "true", "max_output_tokens": bad}))["error"].is_string());
        assert!(process(&p, json!({"action": "log", "session_id": id, "max_output_tokens": bad}))["error"].is_string());
    }
}

#[test]
fn the_first_error_of_a_long_log_is_worth_its_tokens() {
    let p = product();
    let line = "echo 'error[E0308]: mismatched types'; seq -f '   Compiling crate-%.0f v1.0.0 (registry)' 12000; echo the end; exit 3";
    let said = terminal(&p, json!({"command": line, "max_output_tokens": 400}));
    let id = said["session_id"].as_str().unwrap_or_else(|| panic!("there is more to read: {said}"));
    let asked = |more: Value| {
        let mut all = json!({"session_id": id, "max_output_tokens": 400});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        process(&p, all)
    };
    let limited = asked(json!({"action": "log", "limit": 12_002}));
    let from = asked(json!({"action": "log", "offset": 0}));
    for said in [&said, &limited, &from, &asked(json!({"action": "log"})), &asked(json!({"action": "wait"}))] {
        let output = said["output"].as_str().unwrap();
        let whole = ["error[E0308]", "crate-1 v1", "[… 11,998 lines like these (2–11999)", "crate-12000 v1", "the end"];
        assert!(whole.iter().all(|part| output.contains(part)), "{said}");
    }
    assert_eq!((&limited["showing"], &limited["at_end"], &limited["first_line"]), (&json!("12002 lines"), &json!(true), &json!(0)));
    let some = asked(json!({"action": "log", "offset": 1, "limit": 9_000}));
    assert_eq!((&some["showing"], &some["at_end"], &some["first_line"]), (&json!("9000 lines"), &json!(false), &json!(1)), "{some}");
    assert!(some["output"].as_str().unwrap().ends_with("crate-9000 v1.0.0 (registry)"), "{some}");
}

#[test]
fn lines_of_a_log_too_long_to_be_read_have_their_numbers() {
    let p = product();
    let line = "echo 'error: it broke'; seq -f '%.0f is a line of some length, as lines are' 150000; echo the end; exit 3";
    let said = terminal(&p, json!({"command": line, "max_output_tokens": 200}));
    let output = said["output"].as_str().unwrap();
    assert!(output.starts_with("error: it broke\n") && output.ends_with("\nthe end"), "{output}");
    let lines: Vec<&str> = output.lines().collect();
    let behind: Vec<_> = lines.windows(2).filter_map(|pair| Some((pair[0].strip_prefix("[… ")?, pair[1]))).collect();
    assert!(behind.len() == 3 && behind[1].0.contains("lines left out"), "{output}");
    for (marker, line) in behind {
        let last: u64 = marker.split(['–', ')']).find_map(|number| number.parse().ok()).unwrap();
        assert!(line.starts_with(&format!("{} is", last + 1)), "{output}");
    }
}

#[test]
fn one_giant_line_is_shown_by_its_ends() {
    let p = product();
    let line = "printf 'begin '; head -c 900000 /dev/zero | tr '\\0' x; printf '\\033[1m the end'";
    let said = terminal(&p, json!({"command": line, "max_output_tokens": 300}));
    let output = said["output"].as_str().unwrap();
    assert!(output.starts_with("begin x") && output.ends_with("x the end") && said["output_tokens"].as_u64().unwrap() <= 300, "{said}");
}

/// What was marked by hand in a recorded log.
fn marked(log: &std::path::Path, mark: &str) -> Option<String> {
    let marks: toml::Table = std::fs::read_to_string(log.with_extension("toml")).unwrap().parse().unwrap();
    Some(marks.get(mark)?["text"].as_str().unwrap().chars().take(160).collect())
}

#[test]
fn every_recorded_log_shows_its_first_error_and_its_end_at_half_the_price() {
    const CODEX_TOKENS: usize = 10_000;
    let p = product();
    let logs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/logs");
    let mut paths: Vec<_> = std::fs::read_dir(logs).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "log"));
    assert!(paths.len() >= 20, "{} logs", paths.len());
    for path in paths {
        let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
        let whole = if text.len() > 80_000 { CODEX_TOKENS } else { outlast_text::count_tokens(&text) };
        let most = (whole.min(CODEX_TOKENS) / 2).min(outlast_text::DEFAULT_TOKENS);
        let said = terminal(&p, json!({"command": format!("cat {}", path.display()), "max_output_tokens": most}));
        assert!(said["output_tokens"].as_u64().unwrap() as usize <= most, "{}: {said}", path.display());
        let output = said["output"].as_str().unwrap();
        for mark in ["first_error", "final_status"] {
            let shown = marked(&path, mark).is_none_or(|text| output.lines().any(|line| line.starts_with(&text)));
            assert!(shown, "{mark} of {} in {} tokens:\n{output}", path.display(), said["output_tokens"]);
        }
    }
}
