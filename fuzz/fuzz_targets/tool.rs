//! Any call of a model is parsed or refused, and any command is judged.
#![no_main]

use libfuzzer_sys::fuzz_target;
use outlast_tools::{Host, Plan, Policy, ProcessCall, misuse};
use serde_json::{Value, json};

fuzz_target!(|input: (&str, &str, bool)| {
    let (command, text, script) = input;
    misuse(command);
    let caller = outlast_client::caller([("HOME".into(), "/home".into())], std::path::Path::new("/"));
    let mut host = Host::new(caller);
    if script {
        host.policy = Policy::CodeExecution;
    }
    let given: Value = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
    let fields = [
        "background",
        "timeout",
        "workdir",
        "pty",
        "notify_on_complete",
        "watch_patterns",
        "action",
        "session_id",
        "data",
        "offset",
        "limit",
    ];
    let each = fields.map(|name| json!({"command": command, "action": command, "session_id": "proc_ab12", name: given}));
    for call in each.into_iter().chain([given]) {
        if let Err(refusal) = Plan::of(&call, &host) {
            assert!(refusal["error"].is_string());
        }
        if let Err(refusal) = ProcessCall::of(&call) {
            assert!(refusal["error"].is_string());
        }
    }
});
