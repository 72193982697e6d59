//! Conversations at the command line, against a gateway that is played by the test.

use crate::support::*;
use crate::tmux::Tmux;
use outlast_client::{Content, LineBody, PermissionBody, PermissionOption, TextBody, ToolBody, ToolState, TurnOutcome, TurnState};
use outlast_testkit::fake_gateway::{FakeGateway, Fault};
use outlast_wire::v1::chat::{AgentChoice, ChatRequest};

const KEY: &str = "agent:main:local:dm:main";

fn gateway(p: &Product) -> FakeGateway {
    FakeGateway::alone(&p.home().root)
}

#[test]
fn a_script_sends_and_waits() {
    let p = product();
    let gateway = gateway(&p);
    let reply = p.call(["chat", "send", "main", "--command", "cat", "--wait", "hello"]);
    assert_eq!((reply.code, reply.text()), (Some(0), "you said: hello\n".into()), "{reply:?}");
    let ChatRequest::Send { agent, cwd, .. } = gateway.wait_for("a send", |r| matches!(r, ChatRequest::Send { .. })) else { panic!() };
    assert_eq!(agent, Some(AgentChoice::Command("cat".into())));
    assert_eq!(cwd.as_ref().map(|dir| dir.as_path().to_owned()), Some(p.work()));
    let reply = p.call_with_input(["chat", "send", "main", "--wait", "--json", "-"], b"two\nlines\n");
    let answer = reply.json();
    assert_eq!((reply.code, &answer["status"], &answer["outcome"]), (Some(0), &json!("completed"), &json!("completed")));
    assert_eq!(answer["reply"], "you said: two\nlines");
    let sent = p.call(["chat", "send", "main", "--id", "nightly", "--json", "once"]).json();
    let again = p.call(["chat", "send", "main", "--id", "nightly", "--json", "once"]).json();
    assert_eq!((&sent["turn"], &sent["message_id"]), (&again["turn"], &json!("msg:nightly")));
    assert_eq!(gateway.turns(KEY).len(), 3);
}

#[test]
fn other_outcomes_are_named_and_a_time_that_is_over_is_124() {
    let p = product();
    let gateway = gateway(&p);
    gateway.hold_turns();
    let late = p.call(["chat", "send", "main", "--wait", "--timeout", "0.1", "slow"]);
    assert_eq!(late.code, Some(124), "{late:?}");
    assert!(late.err.contains("not complete yet"), "{late:?}");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            gateway.wait_for("a second wait", |r| matches!(r, ChatRequest::Wait { turn: 2, .. }));
            gateway.change(KEY, 2, |t| {
                (t.state, t.outcome, t.why) = (TurnState::Finished, Some(TurnOutcome::Failed), Some("agent_ended".into()));
            });
        });
        let failed = p.call(["chat", "send", "main", "--wait", "fail"]);
        assert_eq!((failed.code, failed.text()), (Some(1), "".into()), "{failed:?}");
        assert!(failed.err.contains("failed: agent ended"), "{failed:?}");
    });
}

#[test]
fn a_message_outlives_the_gateway_that_got_it() {
    let p = product();
    let gateway = gateway(&p);
    gateway.hold_turns();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            gateway.wait_for("a wait", |r| matches!(r, ChatRequest::Wait { .. }));
            gateway.kill();
            gateway.listen();
            gateway.reply(KEY, 1, "after the restart");
        });
        let reply = p.call(["chat", "send", "main", "--wait", "hello"]);
        assert_eq!((reply.code, reply.text()), (Some(0), "after the restart\n".into()), "{reply:?}");
    });
}

#[test]
fn a_conversation_is_shown_as_data() {
    let p = product();
    assert_eq!(p.call(["chat", "list", "--json"]).json(), json!({"conversations": []}));
    let none = p.call(["chat", "show", "main", "--json"]);
    assert_eq!((none.code, &none.json()["code"]), (Some(1), &json!("no_conversation")));
    let gateway = gateway(&p);
    p.call(["chat", "send", "main", "hello"]);
    let shown = p.call(["chat", "show", "main", "--json"]).json();
    assert_eq!((&shown["standing"], &shown["strikes"], &shown["key"]), (&json!("active"), &json!(0), &json!(KEY)));
    let turn = &shown["turns"][0];
    for (field, want) in [
        ("id", json!(1)),
        ("kind", json!("message")),
        ("state", json!("finished")),
        ("attempt", json!(1)),
        ("interrupt_reason", Value::Null),
        ("outcome", json!("completed")),
        ("reply", json!("you said: hello")),
    ] {
        assert_eq!(turn.get(field), Some(&want), "{field}");
    }
    assert!(turn["cause"].as_str().unwrap().starts_with("msg:"));
    assert_eq!(p.call(["chat", "list", "--json"]).json()["conversations"][0]["name"], "main");
    assert!(p.call(["chat", "list"]).text().contains("main  active"));
    assert!(p.call(["chat", "show"]).text().contains("‹ you said: hello"));
    gateway.part(KEY, None, &Content::Line(LineBody::new("resumed after a restart", "resumed")));
    let text = p.call(["chat", "export", "main"]).text();
    assert!(text.starts_with("# main\n") && text.contains("> hello") && text.contains("*resumed after a restart*"), "{text}");
    assert_eq!(p.call(["chat", "export", "--json"]).json()["parts"].as_array().unwrap().len(), 3);
    let near = p.call(["chat", "show", "mian"]);
    assert!(near.code == Some(1) && near.err.contains("did you mean main?"), "{near:?}");
    let missing = p.call(["chat", "show", "other"]);
    assert!(missing.code == Some(1) && missing.err.contains("no conversation other"), "{missing:?}");
}

#[test]
fn what_an_agent_runs_is_shown_its_own_conversation_unless_it_names_one() {
    let p = product().with_env("OUTLAST_SESSION", "agent:main:local:dm:plans");
    let _gateway = gateway(&p);
    for name in ["main", "plans"] {
        p.call(["chat", "send", name, "hello"]).good();
    }
    assert_eq!(p.call(["chat", "show", "--json"]).json()["name"], "plans");
    assert!(p.call(["chat", "export"]).text().starts_with("# plans\n"));
    assert_eq!(p.call(["chat", "show", "main", "--json"]).json()["name"], "main");
}

#[test]
fn a_pipe_is_a_conversation_in_plain_text() {
    let p = product();
    let _gateway = gateway(&p);
    let said = p.call_with_input(["chat"], b"one\n\n**two**");
    assert_eq!((said.code, said.text()), (Some(0), "you said: one\nyou said: **two**\n".into()), "{said:?}");
    let said = p.call_with_input(["chat", "main", "--json"], b"three\n");
    assert_eq!(said.json()["reply"], "you said: three");
}

#[test]
fn names_of_conversations_are_completed() {
    let p = product();
    let _gateway = gateway(&p);
    for name in ["plans", "planes", "other"] {
        p.call(["chat", "send", name, "hello"]);
    }
    let complete = |words: &[&str]| {
        let index = words.len().to_string();
        let all = [&["__complete", "--index", &index, "--", "outlast"], words].concat();
        let found = p.call(all).text();
        found.lines().filter_map(|line| line.split('\t').next().map(str::to_owned)).collect::<Vec<_>>()
    };
    assert_eq!(complete(&["chat", "show", "pl"]), ["planes", "plans"]);
    assert_eq!(complete(&["chat", "send", "o"]), ["other"]);
    assert_eq!(complete(&["chat", "pl"]), ["planes", "plans"]);
    p.configure("[gateway.agents.kite]\ncommand = \"cat\"\n");
    assert_eq!(complete(&["chat", "--agent", "ki"]), ["kimi", "kite"]);
    assert_eq!(complete(&["chat", "send", "--agent", "g"]), ["gemini"]);
    assert!(complete(&["chat", "sh"]).contains(&"show".to_owned()));
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_started() {
    let p = product();
    for (args, want) in [
        (&["chat", "a/b"][..], "up to 64 letters"),
        (&["chat", "--command", "cat", "list"], "`list` is a command of `outlast chat`, not a conversation; it comes before all options"),
        (&["chat", "send", "main", ""], "the message is empty"),
        (&["chat", "send", "main", "--agent", "a", "--command", "b", "x"], "cannot be used with"),
        (&["chat", "send", "main", "--timeout", "3", "x"], "--wait"),
    ] {
        let refused = p.call(args.iter().copied());
        assert!(refused.code != Some(0) && refused.err.contains(want), "{args:?}: {refused:?}");
    }
}

#[test]
fn help_is_a_word_in_place_of_a_verb() {
    let p = product();
    for verb in ["chat", "gateway"] {
        let help = p.call([verb, "help"]);
        assert_eq!((help.code, help.text()), (Some(0), p.call([verb, "--help"]).text()), "{help:?}");
    }
}

#[test]
fn a_person_talks_and_leaves_and_comes_back() {
    let p = product();
    let gateway = gateway(&p);
    gateway.hold_turns();
    let Some(t) = Tmux::calls("a_person_talks_and_leaves_and_comes_back", &p, (80, 24), &["chat"]) else { return };
    t.sees("/help shows the commands");
    t.types("hello");
    t.presses(&["Enter"]);
    t.sees("Ctrl-C stops");
    gateway.draft(KEY, 1, 0, "# Plan\n- one\nhalf a li");
    t.sees("half a li");
    gateway.part(KEY, Some(1), &Content::Tool(ToolBody::new("1", "cargo test", ToolState::Running)));
    gateway.draft(KEY, 1, 22, "ne\n");
    gateway.reply(KEY, 1, "# Plan\n- one\nhalf a line\nand **done**");
    let screen = t.sees("and done");
    for want in ["› hello", "Plan", "• one", "· cargo test"] {
        assert!(screen.contains(want), "{want}: {screen}");
    }
    assert_eq!(screen.matches("› hello").count(), 1, "{screen}");
    gateway.wait_for("that it was seen", |r| matches!(r, ChatRequest::Seen { .. }));
    t.presses(&["C-d"]);
    assert_eq!(t.left(), 0);
    // Meanwhile.
    gateway.part(KEY, None, &Content::Line(LineBody::new("process web ended with code 0", "notice")));
    gateway.part(KEY, None, &Content::Text(TextBody::new("The build is done.")));
    drop(t);
    let Some(t) = Tmux::calls("a_person_talks_and_leaves_and_comes_back", &p, (80, 24), &["chat", "main"]) else { return };
    let screen = t.sees("The build is done.");
    let (before, after) = screen.split_once("while you were away").expect("a mark");
    assert!(before.contains("and done") && after.contains("process web ended"), "{screen}");
    t.types("/q");
    t.presses(&["Tab", "Enter"]);
    assert_eq!(t.left(), 0);
}

#[test]
fn ctrl_c_stops_the_reply_and_leaves_only_when_it_is_pressed_twice() {
    let p = product();
    let gateway = gateway(&p);
    gateway.hold_turns();
    let Some(t) = Tmux::calls("ctrl_c_stops_the_reply", &p, (60, 20), &["chat"]) else { return };
    t.sees("/help shows the commands");
    t.types("think");
    t.presses(&["Enter"]);
    t.sees("Ctrl-C stops");
    t.presses(&["C-c"]);
    t.sees("[cancelled: stopped]");
    assert_eq!(gateway.turns(KEY)[0].outcome, Some(TurnOutcome::Cancelled));
    t.types("not sent");
    t.presses(&["C-c"]);
    t.shows("an empty prompt", |screen| !screen.contains("not sent"));
    t.presses(&["C-c"]);
    t.sees("press Ctrl-C again");
    t.presses(&["C-c"]);
    assert_eq!(t.left(), 0);
    assert_eq!(gateway.turns(KEY).len(), 1);
}

#[test]
fn a_question_is_answered_with_a_key_and_enter() {
    let p = product();
    let gateway = gateway(&p);
    gateway.hold_turns();
    let Some(t) = Tmux::calls("a_question_is_answered_with_a_key_and_enter", &p, (80, 24), &["chat"]) else { return };
    t.sees("/help shows the commands");
    assert_eq!(gateway.followers(KEY), [true], "a person is there");
    t.types("clean up");
    t.presses(&["Enter"]);
    t.sees("Ctrl-C stops");
    let options = vec![PermissionOption::new("opt-1", "Allow once", "allow_once"), PermissionOption::new("opt-2", "Reject", "reject_once")];
    let mut question = PermissionBody::new("perm-1", "rm -rf target", options);
    gateway.part(KEY, Some(1), &Content::Permission(question.clone()));
    t.sees("[y] Allow once   [n] Reject   then Enter");
    // A message that begins with a key is a message. It once granted what was asked.
    t.types("yes, but tell me why");
    t.presses(&["Enter"]);
    let said = gateway.wait_for("a message", |r| matches!(r, ChatRequest::Send { words, .. } if words.starts_with("yes")));
    assert!(matches!(said, ChatRequest::Send { words, .. } if words == "yes, but tell me why"));
    // What is as short as an answer and none is sent nowhere.
    t.types("x");
    t.presses(&["Enter"]);
    t.sees("answer with y or n; to send it as a message, write more");
    t.types("Y");
    t.sees("\n› Y");
    assert!(!gateway.asked().iter().any(|request| matches!(request, ChatRequest::Allow { .. })), "before Enter");
    t.presses(&["Enter"]);
    let allowed = gateway.wait_for("an answer", |r| matches!(r, ChatRequest::Allow { .. }));
    assert_eq!(allowed, ChatRequest::Allow { key: KEY.into(), permission: "perm-1".into(), option: "opt-1".into() });
    (question.answer, question.by) = (Some("opt-1".into()), Some("person".into()));
    gateway.part(KEY, Some(1), &Content::Permission(question));
    t.shows("the answer", |screen| screen.contains("allowed by you: rm -rf target") && !screen.contains("[n]"));
    // What was begun before the question is a message, too.
    t.types("y");
    t.shows("the letter", |screen| screen.lines().any(|line| line.trim_end() == "› y"));
    let options = vec![PermissionOption::new("opt-1", "Allow once", "allow_once")];
    gateway.part(KEY, Some(1), &Content::Permission(PermissionBody::new("perm-2", "rm -rf src", options)));
    t.sees("? rm -rf src");
    t.presses(&["Enter"]);
    gateway.wait_for("a message", |r| matches!(r, ChatRequest::Send { words, .. } if words == "y"));
    assert!(!gateway.asked().iter().any(|r| matches!(r, ChatRequest::Send { words, .. } if words == "x")));
    t.presses(&["C-d"]);
    let screen = t.sees("`outlast chat main` comes back");
    assert!(screen.contains("the agent waits for your answer; without one it is refused after 60 s"), "{screen}");
    assert_eq!(t.left(), 0);
}

#[test]
fn a_terminal_survives_a_restart_of_the_gateway() {
    let p = product();
    let gateway = gateway(&p);
    let Some(t) = Tmux::calls("a_terminal_survives_a_restart_of_the_gateway", &p, (80, 24), &["chat"]) else { return };
    t.sees("/help shows the commands");
    gateway.kill();
    t.sees("connecting again");
    gateway.part(KEY, None, &Content::Text(TextBody::new("written while it was away")));
    gateway.listen();
    let screen = t.sees("written while it was away");
    assert_eq!(screen.matches("the gateway is connected again").count(), 1, "{screen}");
    // A message whose answer is lost is sent again, and answered once.
    gateway.fail_next("send", Fault::DieAfter);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            eventually("the gateway is gone", || (!p.home().root.join("run/gateway").exists()).then_some(()));
            gateway.listen();
        });
        t.types("hello");
        t.presses(&["Enter"]);
        t.sees("you said: hello");
    });
    assert_eq!(gateway.turns(KEY).len(), 1);
    let screen = t.screen();
    assert_eq!((screen.matches("› hello").count(), screen.matches("you said: hello").count()), (1, 1), "{screen}");
    t.presses(&["C-d"]);
    assert_eq!(t.left(), 0);
}

/// They asked as messages do, which starts a gateway and resumes what a person had stopped.
#[test]
fn status_and_history_in_a_terminal_leave_a_stopped_gateway_stopped() {
    let p = product();
    p.call(["chat", "send", "main", "--command", "cat", "--wait", "hello"]).good();
    let Some(t) = Tmux::calls("status_and_history_leave_a_stopped_gateway", &p, (80, 24), &["chat"]) else { return };
    t.sees("/help shows the commands");
    p.call(["gateway", "stop"]).good();
    t.sees("no gateway runs: your next message starts it");
    for (command, want) in [("/status", "#1 completed"), ("/history", "this is the only generation")] {
        t.types(command);
        t.presses(&["Enter"]);
        t.sees(want);
        assert_eq!(p.call(["gateway", "status", "--json"]).json()["status"], "not_running", "{command}");
    }
    t.presses(&["C-d"]);
    assert_eq!(t.left(), 0);
}

#[test]
fn a_restart_from_a_terminal_is_refused_if_the_configuration_became_unusable() {
    let p = product();
    let gateway = gateway(&p);
    let Some(t) = Tmux::calls("a_restart_from_a_terminal_is_refused", &p, (200, 24), &["chat"]) else { return };
    t.sees("/help shows the commands");
    p.configure("[gateway.agents.x]\npermission = \"sometimes\"\n");
    t.types("/restart");
    t.presses(&["Enter"]);
    t.sees("permission \"sometimes\" is not one of");
    t.presses(&["C-d"]);
    assert_eq!(t.left(), 0);
    assert!(!gateway.asked().iter().any(|request| matches!(request, ChatRequest::Restart { .. })));
}

#[test]
fn two_terminals_share_a_conversation() {
    let p = product();
    let gateway = gateway(&p);
    let Some(t) = Tmux::calls("two_terminals_share_a_conversation", &p, (80, 24), &["chat"]) else { return };
    t.sees("/help shows the commands");
    t.types("half a thou");
    p.call(["chat", "send", "main", "from elsewhere"]);
    let screen = t.sees("you said: from elsewhere");
    assert!(screen.contains("› from elsewhere"), "{screen}");
    t.types("ght");
    let screen = t.sees("› half a thought");
    assert_eq!(screen.matches("half a thou").count(), 1, "what is typed stays at the prompt: {screen}");
    t.presses(&["Enter"]);
    t.sees("you said: half a thought");
    assert_eq!(gateway.turns(KEY).len(), 2);
    t.resizes(50, 20);
    t.types("/status");
    t.presses(&["Enter"]);
    t.sees("main: active");
    t.types("/status x");
    t.presses(&["Enter"]);
    t.sees("/status takes no arguments; `//status x` gives");
    t.types("/nonsense");
    t.presses(&["Enter"]);
    t.sees("there is no /nonsense");
    t.presses(&["C-d"]);
    assert_eq!(t.left(), 0);
}

#[test]
fn a_reply_that_comes_in_pieces_is_wrapped_at_words() {
    let p = product();
    let gateway = gateway(&p);
    gateway.hold_turns();
    let Some(t) = Tmux::calls("a_reply_that_comes_in_pieces_is_wrapped_at_words", &p, (40, 20), &["chat"]) else { return };
    t.sees("/help shows the commands");
    t.types("tell");
    t.presses(&["Enter"]);
    t.sees("Ctrl-C stops");
    let text = "- The first sentence of this reply is longer than a row.\n```\nlet answer = one_line_of_code_that_is_not_wrapped();\n```\n";
    let (mut from, mut rest) = (0, text);
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.len().min(7));
        gateway.draft(KEY, 1, from, piece);
        (from, rest) = (from + piece.len() as u64, after);
    }
    // The terminal breaks the code: all its columns are used.
    let screen = t.sees("let answer = one_line_of_code_that_is_no\nt_wrapped();");
    assert!(screen.contains("• The first sentence of this reply is\n  longer than a row.\n"), "{screen}");
    t.resizes(30, 20);
    gateway.reply(KEY, 1, &format!("{text}The last sentence is wrapped as well."));
    t.sees("The last sentence is wrapped\nas well.\n");
    t.presses(&["C-d"]);
    assert_eq!(t.left(), 0);
}

#[test]
fn without_colours_a_reply_is_still_bold_where_it_should_be() {
    let p = product().with_env("NO_COLOR", "1");
    let gateway = gateway(&p);
    let Some(t) = Tmux::calls("without_colours_a_reply_is_still_bold", &p, (60, 20), &["chat"]) else { return };
    t.sees("/help shows the commands");
    gateway.part(KEY, None, &Content::Text(TextBody::new("this is **bold**, and this is `code`")));
    t.sees("and this is code");
    let screen = t.painted_screen();
    assert!(screen.contains("\x1b[1mbold\x1b[0m") && screen.contains("and this is code"), "{screen:?}");
    let is_coloured = (30..38).any(|code| screen.contains(&format!("[{code}m")) || screen.contains(&format!(";{code}m")));
    assert!(!is_coloured, "{screen:?}");
    t.presses(&["C-d"]);
    assert_eq!(t.left(), 0);
}

#[test]
fn a_person_finds_an_earlier_generation_and_goes_back_to_it() {
    let p = product();
    let gateway = gateway(&p);
    let Some(t) = Tmux::calls("a_person_finds_an_earlier_generation", &p, (80, 24), &["chat"]) else { return };
    t.sees("/help shows the commands");
    let enters = |line: &str| {
        t.types(line);
        t.presses(&["Enter"]);
    };
    enters("/history");
    t.sees("this is the only generation: /new begins another");
    enters("/new");
    t.sees("a new conversation begins");
    enters("/history");
    let screen = t.sees("/resume N goes back to a generation");
    assert!(screen.contains("2 (current)"), "{screen}");
    enters("/resume two");
    t.sees("an earlier generation, not `two`");
    enters("/resume 1");
    let resumed = gateway.wait_for("a resume", |r| matches!(r, ChatRequest::Resume { .. }));
    assert!(matches!(resumed, ChatRequest::Resume { generation: Some(1), .. }), "{resumed:?}");
    t.presses(&["C-d"]);
    assert_eq!(t.left(), 0);
}
