//! What owners were told, for the tests of notices.

use crate::support::*;

/// The events that a drain prints, and so acknowledges.
pub(crate) fn drained(p: &Product, session: &str) -> Vec<Value> {
    drained_with_texts(p, session).into_iter().map(|(event, _)| event).collect()
}

/// The same, each with its text.
pub(crate) fn drained_with_texts(p: &Product, session: &str) -> Vec<(Value, String)> {
    let said = p.json(["events", "drain", "--session", session]);
    let events = said["events"].as_array().unwrap_or_else(|| panic!("no events: {said}"));
    events.iter().map(|e| (e["event"].clone(), e["text"].as_str().expect("a text").to_owned())).collect()
}

/// The processes that events are about, in order.
pub(crate) fn about(events: &[Value]) -> Vec<&str> {
    events.iter().map(|e| e["session_id"].as_str().expect("a process id")).collect()
}

/// The notices there are, as a person sees them.
pub(crate) fn history(p: &Product, flags: &[&str]) -> Vec<Value> {
    let said = p.json(["events", "history"].iter().chain(flags));
    said["notices"].as_array().unwrap_or_else(|| panic!("no notices: {said}")).clone()
}

/// The states of the completions of a process.
pub(crate) fn states(p: &Product, id: &str) -> Vec<String> {
    let of = history(p, &["--process", id, "--kind", "completion"]);
    of.iter().map(|told| told["state"].as_str().expect("a state").to_owned()).collect()
}

/// A call that speaks for a conversation.
pub(crate) fn call_in(p: &Product, session: &str, args: &[&str]) -> Answer {
    p.command(args).env("OUTLAST_SESSION", session).output().expect("outlast runs").into()
}

/// Runs a shell line for a conversation that wants to be told of its end, and returns when it has ended. A person waits, so that nothing is consumed.
pub(crate) fn ended(p: &Product, session: &str, line: &str) -> String {
    let id = p.run_with(&["--notify", "--session", session], line);
    assert_eq!(p.wait(&id)["status"], "exited");
    id
}
