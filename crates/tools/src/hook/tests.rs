use super::*;
use outlast_core::{Body, Owner, Route, Time};

fn notice(id: &str, session: &str) -> Notice {
    let fields = json!({"type": "note", "message": "hello"});
    let body = Body::Posted(fields.as_object().unwrap().clone());
    Notice::new(id.into(), Time::from_micros(0), None, &Owner::session(session), Route::default(), body)
}

fn refused(input: &[u8]) -> String {
    HookInput::parse(input).expect_err("it makes no sense")
}

fn called(input: &Value) -> Called {
    match HookInput::parse(input.to_string().as_bytes()).unwrap() {
        HookInput::Called(called) => called,
        HookInput::Told(told) => panic!("{told:?}"),
    }
}

#[test]
fn what_makes_no_sense_is_refused_and_not_quoted() {
    for (input, why) in [
        (&b""[..], "is empty"),
        (b" \n", "is empty"),
        (b"{", "no JSON: line 1, column 1"),
        (b"\xff", "no JSON"),
        (b"[]", "neither"),
        (b"7", "neither"),
        (br#"{"session_id": "hush"}"#, "neither"),
        (br#"{"hook_event_name": 7, "x": "hush"}"#, "must be text"),
        (br#"{"hook_event_name": "", "x": "hush"}"#, "printable text"),
        (br#"{"hook_event_name": "a\u0000b"}"#, "printable text"),
        (br#"{"hook_event_name": "Stop", "stop_hook_active": "hush"}"#, "true or false"),
        (br#"{"event": {"type": "hush"}}"#, "no notice of ours"),
        (br#"{"events": []}"#, "nothing to tell"),
        (br#"{"events": {"hush": 1}}"#, "no notice of ours"),
    ] {
        let said = refused(input);
        assert!(said.contains(why) && !said.contains("hush"), "{said}");
    }
    assert!(refused(&vec![b' '; LONGEST_HOOK_INPUT + 1]).contains("at most"));
}

#[test]
fn an_agent_is_told_where_it_reads_and_kept_from_stopping_once() {
    let at = |event: &str, goes_on: bool| {
        called(&json!({"hook_event_name": event, "session_id": "s", "cwd": "/w", "stop_hook_active": goes_on, "more": [1]}))
    };
    let start = at("SessionStart", false);
    assert_eq!((start.conversation.as_str(), start.dir.as_path()), ("s", std::path::Path::new("/w")));
    for event in ["SessionStart", "UserPromptSubmit", "PostToolUse"] {
        assert_eq!(at(event, true).can_be_told(), Ok(true));
        assert_eq!(at(event, false).answer("t"), json!({"hookSpecificOutput": {"hookEventName": event, "additionalContext": "t"}}));
    }
    assert_eq!(at("Stop", false).can_be_told(), Ok(true));
    assert_eq!(at("Stop", false).answer("t"), json!({"decision": "block", "reason": "t"}));
    assert_eq!(at("Stop", true).can_be_told(), Ok(false));
    assert!(at("PreToolUse", false).can_be_told().unwrap_err().contains("SessionStart"));
}

#[test]
fn one_notice_or_several_of_one_conversation_are_told() {
    let one = json!({"event": notice("evt_1", "s"), "text": "x", "attempt": 1, "repeat": false});
    let several = json!({"events": [one, {"event": notice("evt_2", "s"), "text": "x", "attempt": 2, "repeat": true}]});
    for (input, ids) in [(&one, &["evt_1"][..]), (&several, &["evt_1", "evt_2"])] {
        let HookInput::Told(told) = HookInput::parse(input.to_string().as_bytes()).unwrap() else { panic!("{input}") };
        assert_eq!((told.session.as_str(), told.ids().collect::<Vec<_>>().as_slice()), ("s", ids));
        assert!(told.text().contains("hello") && !told.text().contains("repeat"), "{}", told.text());
        assert_eq!(told.without(|id| id == "evt_1").ids().count(), ids.len() - 1);
    }
    let mixed = json!({"events": [{"event": notice("evt_1", "s")}, {"event": notice("evt_2", "t")}]});
    assert!(refused(mixed.to_string().as_bytes()).contains("several conversations"));
    let odd = json!({"event": notice("evt 1\n", "s")});
    assert!(refused(odd.to_string().as_bytes()).contains("event_id"));
}
