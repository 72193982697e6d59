use super::super::out::Out;
use super::markdown::{ChatPaint, StyledLine};
use super::questions::choices;
use super::view::ChatView;
use super::*;
use crate::cli::gateway::not_installed;
use outlast_client::{
    ChatEvent, Content, ConversationInfo, GenerationInfo, LineBody, Part, PermissionBody, PermissionOption, Shown, Standing, TextBody,
    Time, ToolBody, ToolState, TurnInfo, TurnKind, TurnOutcome, TurnState, WordsBody,
};
use std::path::Path;

mod order;

fn at() -> Time {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

/// A conversation as a terminal hears it, and everything that it showed.
struct Screenplay {
    view: ChatView,
    next_part: u64,
    shown: Vec<String>,
}

impl Screenplay {
    fn new(seen: Option<u64>) -> Self {
        Self { view: ChatView::new("main", seen, Standing::Active), next_part: 1, shown: Vec::new() }
    }

    fn show(&mut self, lines: &[StyledLine]) -> &mut Self {
        self.shown.extend(lines.iter().map(|line| line.paint(ChatPaint::Plain)));
        self
    }

    fn event(&mut self, event: &ChatEvent) -> &mut Self {
        let lines = self.view.event(event);
        self.show(&lines)
    }

    fn part(&mut self, content: Content) -> &mut Self {
        let part = Part::new(self.next_part, Some(1), 1, &content, at());
        self.next_part += 1;
        self.event(&ChatEvent::Part { part: Box::new(part) })
    }

    fn words(&mut self, text: &str) -> &mut Self {
        let id = format!("msg:{}", self.next_part);
        self.part(Content::Words(WordsBody::new(text, id)))
    }

    fn text(&mut self, text: &str) -> &mut Self {
        self.part(Content::Text(TextBody::new(text)))
    }

    fn line(&mut self, text: &str, about: &str) -> &mut Self {
        self.part(Content::Line(LineBody::new(text, about)))
    }

    fn tool(&mut self, call: &str, title: &str, state: ToolState, result: Option<&str>) -> &mut Self {
        let mut body = ToolBody::new(call, title, state);
        body.result = result.map(Into::into);
        self.part(Content::Tool(body))
    }

    fn draft(&mut self, attempt: u32, from: u64, text: &str) -> &mut Self {
        self.event(&ChatEvent::Draft { turn: 1, attempt, from, text: text.into() });
        self.live()
    }

    fn turn(&mut self, state: TurnState, outcome: Option<TurnOutcome>, why: Option<&str>) -> &mut Self {
        let mut turn = TurnInfo::queued(1, TurnKind::Message, "msg:1");
        (turn.state, turn.attempt, turn.outcome, turn.why) = (state, 1, outcome, why.map(Into::into));
        self.event(&ChatEvent::Turn { turn: Box::new(turn) })
    }

    fn running(&mut self) -> &mut Self {
        self.turn(TurnState::Running, None, None)
    }

    fn completed(&mut self) -> &mut Self {
        self.turn(TurnState::Finished, Some(TurnOutcome::Completed), None)
    }

    fn caught_up(&mut self) -> &mut Self {
        self.event(&ChatEvent::CaughtUp { last_part: Some(self.next_part - 1) })
    }

    /// What stands below what is finished now.
    fn live(&mut self) -> &mut Self {
        let live = self.view.live();
        self.shown.extend(live.iter().map(|line| format!("    (live) {}", line.paint(ChatPaint::Plain))));
        self
    }

    fn all(&self) -> String {
        self.shown.join("\n")
    }
}

#[test]
fn a_reply_is_written_as_it_comes_and_never_twice() {
    let mut play = Screenplay::new(None);
    play.caught_up();
    let own = play.view.said("msg:1", "what is **left**?\nbe brief");
    play.show(&own);
    // The gateway tells it back to every terminal.
    play.part(Content::Words(WordsBody::new("what is **left**?\nbe brief", "msg:1")));
    play.running().draft(1, 0, "# Pl").draft(1, 4, "an\n- one `x`\n- t").draft(1, 20, "wo\n\nDo");
    assert!(play.view.is_busy() && play.view.can_stop());
    play.text("# Plan\n- one `x`\n- two\n\nDone.\n").completed();
    assert!(!play.view.is_busy());
    play.words("from another terminal").text("yes");
    insta::assert_snapshot!(play.all());
}

#[test]
fn the_time_of_a_reply_counts_from_its_start_and_not_from_when_the_terminal_was_opened() {
    let mut view = ChatView::new("main", None, Standing::Active);
    assert_eq!(view.busy_since(), None);
    let mut turn = TurnInfo::queued(1, TurnKind::Message, "msg:1");
    (turn.state, turn.attempt, turn.started_at) = (TurnState::Running, 1, Some(at()));
    view.event(&ChatEvent::Turn { turn: Box::new(turn) });
    assert_eq!(view.busy_since(), Some(at()));
}

#[test]
fn tools_are_one_line_each() {
    let mut play = Screenplay::new(None);
    play.words("test it").running().draft(1, 0, "I run the tests:\n");
    play.tool("1", "cargo test", ToolState::Pending, None).tool("1", "cargo test", ToolState::Running, None);
    play.tool("1", "cargo test", ToolState::Completed, None);
    play.tool("2", "cargo clippy\n--all", ToolState::Running, None).tool("2", "cargo clippy", ToolState::Failed, Some("exit code 101"));
    play.text("One is red.").completed();
    insta::assert_snapshot!(play.all());
}

#[test]
fn what_happened_meanwhile_is_marked() {
    let mut play = Screenplay::new(Some(2));
    play.words("build it").text("It runs.").line("process web ended with code 0", "notice").text("The build is done.").caught_up();
    play.line("the gateway restarts; I'll try to resume", "banner");
    insta::assert_snapshot!(play.all());
    let mut nothing_new = Screenplay::new(Some(2));
    nothing_new.words("build it").text("It runs.").caught_up().text("And more.");
    assert!(!nothing_new.all().contains("away"), "{}", nothing_new.all());
    let mut never_seen = Screenplay::new(None);
    never_seen.words("from a script").text("yes").caught_up();
    assert!(!never_seen.all().contains("away"));
}

#[test]
fn a_question_is_answered_with_a_key() {
    let options = vec![
        PermissionOption::new("once", "Allow once", "allow_once"),
        PermissionOption::new("always", "Always allow", "allow_always"),
        PermissionOption::new("no", "Reject", "reject_once"),
        PermissionOption::new("other", "Ask my manager", "escalate"),
        PermissionOption::new("no2", "Reject twice", "reject_once"),
    ];
    let mut body = PermissionBody::new("p1", "rm -rf target", options);
    let keys: Vec<char> = choices(&body).iter().map(|(key, _)| *key).collect();
    assert_eq!(keys, ['y', 'a', 'n', '4', '5']);
    let mut play = Screenplay::new(None);
    play.words("clean up").running().part(Content::Permission(body.clone())).live();
    assert_eq!(play.view.answer("n"), Ok(Some(("p1", "no"))));
    // Words for the usual answers, capital letters, and the number of each answer.
    for line in ["n", "N", " no ", "No", "3"] {
        assert_eq!(play.view.answer(line), Ok(Some(("p1", "no"))), "{line}");
    }
    for (line, option) in
        [("Y", "once"), ("yes", "once"), ("1", "once"), ("always", "always"), ("2", "always"), ("4", "other"), ("5", "no2")]
    {
        assert_eq!(play.view.answer(line), Ok(Some(("p1", option))), "{line}");
    }
    for line in ["x", "d", "9", "0", "?", "never"] {
        assert_eq!(play.view.answer(line), Err("answer with y, a, n, 4 or 5; to send it as a message, write more".into()), "{line}");
    }
    assert_eq!(play.view.answer("not that one"), Ok(None));
    assert_eq!(play.view.answer(""), Ok(None));
    (body.answer, body.by) = (Some("no".into()), Some("another terminal".into()));
    play.part(Content::Permission(body)).live();
    assert_eq!(play.view.answer("n"), Ok(None), "no question is open");
    play.text("I did not.").completed();
    insta::assert_snapshot!(play.all());
}

/// The second question took the place of the first, which then could not be answered at all.
#[test]
fn several_questions_are_answered_one_after_the_other() {
    let options = || vec![PermissionOption::new("yes", "Allow", "allow_once"), PermissionOption::new("no", "Deny", "reject_once")];
    let mut play = Screenplay::new(None);
    play.words("clean up").running();
    let ask = |play: &mut Screenplay, name: &str, answer: Option<&str>| {
        let mut body = PermissionBody::new(name, format!("rm {name}"), options());
        (body.answer, body.by) = (answer.map(Into::into), answer.map(|_| "a person".into()));
        play.part(Content::Permission(body)).live();
    };
    ask(&mut play, "one", None);
    ask(&mut play, "two", None);
    ask(&mut play, "three", None);
    assert_eq!((play.view.question(), play.view.answer("y")), (Some("one"), Ok(Some(("one", "yes")))));
    ask(&mut play, "one", Some("yes"));
    assert_eq!(play.view.answer("n"), Ok(Some(("two", "no"))));
    // Another terminal answers a later one.
    ask(&mut play, "three", Some("no"));
    assert_eq!(play.view.answer("n"), Ok(Some(("two", "no"))));
    // The end of another turn leaves it open.
    let mut other = TurnInfo::queued(7, TurnKind::Message, "msg:other");
    (other.state, other.outcome) = (TurnState::Finished, Some(TurnOutcome::Completed));
    play.event(&ChatEvent::Turn { turn: Box::new(other) });
    assert_eq!(play.view.question(), Some("two"));
    ask(&mut play, "two", Some("no"));
    assert!(!play.view.has_question());
    insta::assert_snapshot!(play.all());
    ask(&mut play, "four", None);
    play.completed();
    assert!(!play.view.has_question(), "its own turn has ended");
}

/// A call that a rule allowed was shown as refused, because it has no options.
#[test]
fn what_a_rule_allowed_or_denied_is_shown_so() {
    let mut play = Screenplay::new(None);
    play.caught_up();
    for (answer, by) in [("allowed", "permission = \"always\""), ("allowed", "the allow-list"), ("denied", "no answer within 60 s")] {
        let mut body = PermissionBody::new(by, "Bash: ls", Vec::new());
        (body.answer, body.by) = (Some(answer.into()), Some(by.into()));
        play.part(Content::Permission(body));
    }
    let want =
        ["allowed: Bash: ls (permission = \"always\")", "allowed: Bash: ls (the allow-list)", "refused: Bash: ls (no answer within 60 s)"];
    assert_eq!(play.shown, want);
}

#[test]
fn an_agent_that_answers_nothing_is_said_to_have_done_so() {
    let mut play = Screenplay::new(None);
    play.caught_up().words("//compact").running().completed();
    assert_eq!(play.shown, ["› //compact", "(the agent answered nothing)"]);
    let mut answered = Screenplay::new(None);
    answered.caught_up().words("hi").running().text("hello").completed();
    assert_eq!(answered.shown, ["› hi", "hello"]);
}

#[test]
fn a_new_generation_needs_no_second_line_about_the_turn_that_it_cancels() {
    let mut play = Screenplay::new(None);
    play.caught_up().words("think").running().part(Content::Line(LineBody::new("Started a new generation.", "new")));
    play.turn(TurnState::Finished, Some(TurnOutcome::Cancelled), Some("new_generation"));
    assert_eq!(play.shown, ["› think", "Started a new generation."]);
}

/// It began with the end of a reply.
#[test]
fn a_conversation_that_is_opened_again_begins_with_a_message() {
    let all = view::CONTEXT_PARTS + 1;
    let mut play = Screenplay::new(Some(u64::from(all)));
    play.text("the end of a reply").tool("1", "ls", ToolState::Completed, None).words("a question");
    (3..all).for_each(|n| _ = play.text(&format!("answer {n}")));
    play.caught_up();
    assert_eq!(play.shown[..4], ["… earlier: `outlast chat export main`", "", "› a question", "answer 3"]);
    // All there is.
    let mut whole = Screenplay::new(Some(2));
    whole.words("a question").text("an answer").caught_up();
    assert_eq!(whole.shown, ["› a question", "an answer"]);
}

#[test]
fn an_interrupted_reply_stays_and_the_next_attempt_begins_anew() {
    let mut play = Screenplay::new(None);
    play.caught_up().words("think").running().draft(1, 0, "First,\nI thi");
    let lines = play.view.regained();
    play.show(&lines).line("resumed after an interruption", "resumed").running();
    play.draft(2, 0, "First,\nI looked");
    let part = Part::new(9, Some(1), 2, &Content::Text(TextBody::new("First,\nI looked at it.")), at());
    play.event(&ChatEvent::Part { part: Box::new(part) }).completed();
    insta::assert_snapshot!(play.all());
}

#[test]
fn a_draft_that_is_sent_again_is_not_shown_again() {
    let mut play = Screenplay::new(None);
    play.running().draft(1, 0, "one\ntw").draft(1, 0, "one\ntwo\n").draft(1, 99, "lost").text("one\ntwo\nthree");
    assert_eq!(play.shown.iter().filter(|line| !line.contains("(live)")).collect::<Vec<_>>(), ["one", "two", "three"]);
    // A gateway that keeps the text at the end of the turn only.
    let mut late = Screenplay::new(None);
    late.running().draft(1, 0, "one tw").tool("1", "ls", ToolState::Running, None).draft(1, 6, "o\nthree").text("one two\nthree");
    assert_eq!(late.shown.iter().filter(|line| !line.contains("(live)")).collect::<Vec<_>>(), ["one tw", "· ls", "o", "three"]);
    // The end of the last line was shown, and is not kept.
    let mut printed = Screenplay::new(None);
    printed.running().draft(1, 0, "one\ntwo\n\n").text("one\ntwo");
    assert_eq!(printed.shown, ["one", "two", ""]);
    let mut other = Screenplay::new(None);
    other.running().draft(1, 0, "one\n").text("something else");
    assert_eq!(other.shown, ["one", "", "[the reply as it was kept]", "something else"]);
}

#[test]
fn a_reply_that_comes_after_its_turn_was_interrupted_is_not_shown_again() {
    let mut play = Screenplay::new(None);
    play.caught_up().running().draft(1, 0, "one\ntwo\n").turn(TurnState::Interrupted, None, None).text("one\ntwo\nthree");
    assert_eq!(play.shown, ["one", "two", "", "[interrupted; it will be resumed]", "three"]);
}

#[test]
fn a_turn_without_a_reply_says_why_once() {
    let mut play = Screenplay::new(None);
    play.caught_up().words("a").running().turn(TurnState::Finished, Some(TurnOutcome::Cancelled), Some("stopped"));
    play.words("b").running().line("the agent cannot be started: no such program", "failed");
    play.turn(TurnState::Finished, Some(TurnOutcome::Failed), Some("cannot_start"));
    play.words("c").running().turn(TurnState::Interrupted, None, None);
    assert!(play.view.can_stop() && !play.view.is_busy());
    play.running().turn(TurnState::Finished, Some(TurnOutcome::GaveUp), None);
    play.event(&ChatEvent::Standing { standing: Standing::Suspended, strikes: 3, generation: 1 }).live();
    insta::assert_snapshot!(play.all());
}

#[test]
fn an_answer_that_is_also_a_line_is_shown_once() {
    for is_answer_first in [true, false] {
        let mut play = Screenplay::new(None);
        play.caught_up();
        for is_answer in [is_answer_first, !is_answer_first] {
            if is_answer {
                let lines = play.view.answered("a new conversation begins");
                play.show(&lines);
            } else {
                play.line("a new conversation begins", "new");
            }
        }
        assert_eq!(play.shown, ["a new conversation begins"]);
    }
}

/// The answer came first, then the end of the reply, then the line.
#[test]
fn an_answer_is_shown_once_if_other_parts_come_between_it_and_its_line() {
    let mut play = Screenplay::new(None);
    play.caught_up().words("think").running().draft(1, 0, "I th");
    for line in ["Stopped.", "Stopped."] {
        let lines = play.view.answered(line);
        play.show(&lines).text("I th").line(line, "stopped");
    }
    // Another terminal stops, and then this one.
    play.line("Stopped.", "stopped").line("Stopped.", "stopped");
    let lines = play.view.answered("Stopped.");
    play.show(&lines);
    assert_eq!(play.shown.iter().filter(|line| *line == "Stopped.").count(), 4, "{}", play.all());
}

#[test]
fn going_back_to_a_generation_needs_no_second_line_about_the_turn_that_it_cancels() {
    let mut play = Screenplay::new(None);
    play.caught_up().words("think").running().text("I thought.").line("Continuing where generation 1 ended.", "returned");
    play.turn(TurnState::Finished, Some(TurnOutcome::Cancelled), Some("new_generation"));
    assert_eq!(play.shown, ["› think", "I thought.", "", "Continuing where generation 1 ended."]);
}

#[test]
fn what_a_command_prints_is_set_apart() {
    let mut play = Screenplay::new(None);
    play.caught_up().words("a");
    for text in ["/help shows", "no such command"] {
        let lines = play.view.output([StyledLine::of(markdown::TextStyle::Quiet, text)]);
        play.show(&lines);
    }
    play.text("b").line("Stopped.", "stopped");
    assert_eq!(play.shown, ["› a", "/help shows", "", "no such command", "", "b", "", "Stopped."]);
}

#[test]
fn a_status_shows_the_turn_that_runs_and_the_last_one() {
    let turn = |id: u64, state: TurnState| {
        let mut turn = TurnInfo::queued(id, TurnKind::Message, format!("msg:{id}"));
        turn.state = state;
        turn
    };
    let shown = |turns: Vec<TurnInfo>| open::at_work_and_last(turns).iter().map(|turn| turn.id).collect::<Vec<_>>();
    let all = [turn(1, TurnState::Finished), turn(2, TurnState::Running), turn(3, TurnState::Queued), turn(4, TurnState::Queued)];
    assert_eq!(shown(all.to_vec()), [2, 4]);
    assert_eq!((shown(all[..2].to_vec()), shown(all[..1].to_vec()), shown(Vec::new())), (vec![2], vec![1], vec![]));
}

#[test]
fn a_message_on_its_way_can_be_stopped_and_a_refused_one_cannot() {
    let mut view = ChatView::new("main", None, Standing::Active);
    view.said("msg:1", "hello");
    assert!(view.can_stop() && !view.is_busy());
    view.unsaid("msg:1");
    assert!(!view.can_stop());
}

#[test]
fn what_an_agent_says_cannot_touch_the_terminal() {
    let mut play = Screenplay::new(None);
    play.words("\x1b[2J").text("\x1b]0;title\x07\u{202e}x").tool("1", "\x1b[31m", ToolState::Running, None).line("\x1b[H", "banner");
    assert!(!play.all().contains('\x1b') && !play.all().contains('\u{202e}'), "{:?}", play.all());
    play.event(&ChatEvent::Unknown);
}

#[test]
fn conversations_line_up() {
    let mut main = ConversationInfo::new("agent:main:local:dm:main", "main", 1);
    (main.agent, main.last_message_at) = (Some("codex".into()), Some(at()));
    let mut broken = ConversationInfo::new("agent:main:local:dm:broken", "a-rather-long-name-of-a-conversation", 7);
    (broken.standing, broken.strikes, broken.open_turns) = (Standing::Suspended, 3, 2);
    let mut odd = ConversationInfo::new("agent:main:local:dm:odd", "odd", 1);
    odd.standing = Standing::Other("asleep".into());
    let now = "2026-01-01T00:03:20Z".parse().unwrap();
    let all = [main, broken, odd];
    let tables = [None, Some(40)].map(|width| list::lines(&all, now, &Out::plain(width)).join("\n"));
    insta::assert_snapshot!(tables.join("\n\n"));
}

#[test]
fn a_conversation_is_shown_turn_by_turn() {
    let mut info = ConversationInfo::new("agent:main:local:dm:main", "main", 2);
    (info.standing, info.strikes, info.agent) = (Standing::ResumePending, 1, Some("command `cat`".into()));
    // As the gateway says it.
    info.waits_for = Some(outlast_gateway::rules::text::Line::Waiting(outlast_gateway::rules::turn::WaitReason::Age).to_string());
    let turn = |id: u64, kind: TurnKind, change: &dyn Fn(&mut TurnInfo)| {
        let mut turn = TurnInfo::queued(id, kind, "c");
        (turn.words, turn.accepted_at) = (Some(format!("words {id}\nmore")), Some(at()));
        change(&mut turn);
        turn
    };
    let turns = vec![
        turn(1, TurnKind::Message, &|t| {
            (t.state, t.outcome, t.reply, t.attempt) = (TurnState::Finished, Some(TurnOutcome::Completed), Some("the reply".into()), 2);
        }),
        turn(2, TurnKind::Notice, &|t| {
            (t.state, t.outcome, t.why) = (TurnState::Finished, Some(TurnOutcome::Obsolete), Some("earlier_generation".into()));
        }),
        turn(3, TurnKind::Message, &|t| {
            (t.state, t.attempt, t.interrupt_reason) = (TurnState::Interrupted, 1, Some("restart_interrupted".into()));
        }),
        turn(4, TurnKind::Message, &|_| ()),
    ];
    let now = "2026-01-01T00:03:20Z".parse().unwrap();
    let (mut shown, out) = (Shown::new(info, turns), Out::plain(None));
    let lines = [show::head(&shown, &out), show::turns(&shown, read::ChatSource::Gateway, now, &out)].concat();
    insta::assert_snapshot!(lines.join("\n"));
    shown.conversation.waits_for = None;
    let text = show::turns(&shown, read::ChatSource::Gateway, now, &out).join("\n");
    assert!(text.contains("interrupted (restart interrupted), not resumed yet"), "{text}");
    // A question of the agent says nothing about the turn that was interrupted.
    shown.conversation.waits_for = Some("The agent waits for a permission.".into());
    (shown.turns[3].state, shown.turns[3].attempt) = (TurnState::Running, 1);
    let text = show::turns(&shown, read::ChatSource::Gateway, now, &out).join("\n");
    assert!(text.contains("not resumed yet") && text.contains("#4 running, waits for permission"), "{text}");
}

/// The end of the turn was among the events that were left out.
#[test]
fn a_terminal_that_fell_behind_is_not_busy_with_a_turn_that_has_ended() {
    let mut play = Screenplay::new(None);
    play.words("build").running();
    let options = vec![PermissionOption::new("yes", "Allow", "allow_once")];
    play.part(Content::Permission(PermissionBody::new("p1", "make", options)));
    play.view.fell_behind();
    assert_eq!(play.view.answer("y"), Ok(Some(("p1", "yes"))), "a question that was shown can still be answered");
    play.text("all of the reply").event(&ChatEvent::CaughtUp { last_part: Some(3) });
    assert!(!play.view.is_busy() && !play.view.can_stop());

    let mut play = Screenplay::new(None);
    play.words("build").running().draft(1, 0, "one\ntw");
    play.view.fell_behind();
    // The draft comes again from its beginning, and pieces of it are missing before.
    play.running().draft(1, 0, "one\ntwo\nthr").text("one\ntwo\nthree");
    assert_eq!(play.shown.iter().filter(|line| ["one", "two", "three"].contains(&line.as_str())).count(), 3, "{:?}", play.shown);
}

#[test]
fn generations_are_listed_so_that_one_can_be_chosen() {
    let mut shown = Shown::new(ConversationInfo::new("agent:main:local:dm:main", "main", 3), Vec::new());
    let now = "2026-01-01T00:03:20Z".parse().unwrap();
    let history = |shown: &Shown, width| open::history(shown, now, &Out::plain(width));
    let older_gateway = history(&shown, None);
    shown.generations = (1..=3).map(|n| GenerationInfo::new(n, at())).collect();
    let [first, second, third] = &mut shown.generations[..] else { panic!() };
    (first.ended_at, first.turns, first.last_turn_at) = (Some(at()), 12, Some(at()));
    first.first_words = Some(format!("build the\n\x1b[2Jdocs, {}", "and more ".repeat(20)));
    second.ended_at = Some(at());
    (third.turns, third.last_turn_at, third.first_words, third.resumed_from) = (1, Some(now), Some("once more".into()), Some(1));
    let mut only = shown.clone();
    only.generations.drain(..2);
    insta::assert_snapshot!(
        [older_gateway, history(&shown, None), history(&shown, Some(60)), history(&shown, Some(24)), history(&only, None)].join("\n\n")
    );
}

#[test]
fn an_export_has_everything_that_was_said() {
    let mut failed = ToolBody::new("1", "cargo test", ToolState::Failed);
    failed.result = Some("exit code 101".into());
    let mut asked = PermissionBody::new("p", "rm -rf target", vec![PermissionOption::new("y", "Yes", "allow_once")]);
    asked.answer = Some("y".into());
    let contents = [
        Content::Words(WordsBody::new("test it\n\nplease", "msg:1")),
        Content::Tool(ToolBody::new("1", "cargo test", ToolState::Running)),
        Content::Tool(failed),
        Content::Permission(asked),
        Content::Text(TextBody::new("It is **red**.\n")),
        Content::Line(LineBody::new("resumed after a restart", "resumed")),
        Content::Line(LineBody::new("A process ended (exit code 1): make\nerror: a *star*", "notice")),
        Content::Tool(ToolBody::new("2", "cargo doc", ToolState::Unknown)),
    ];
    let parts: Vec<Part> = contents.iter().enumerate().map(|(n, c)| Part::new(n as u64 + 1, Some(1), 1, c, at())).collect();
    let shown = Shown::new(ConversationInfo::new("agent:main:local:dm:main", "main", 1), Vec::new());
    insta::assert_snapshot!(export::markdown(&shown, &parts));
}

#[test]
fn an_export_has_each_reply_below_its_message() {
    let words = |turn: u64, text: &str| (Some(turn), Content::Words(WordsBody::new(text, format!("msg:{turn}"))));
    let text = |turn: u64, text: &str| (Some(turn), Content::Text(TextBody::new(text)));
    let line = |text: &str, about: &str| (None, Content::Line(LineBody::new(text, about)));
    let all = [
        words(1, "first"),
        text(1, "one"),
        words(2, "second"),
        line("Your message is kept.", "kept"),
        words(3, "third"),
        line("Resumed after a restart of the gateway.", "resumed"),
        text(1, "and one"),
        line("Stopped.", "stopped"),
        text(3, "three"),
    ];
    let parts: Vec<Part> = all.iter().enumerate().map(|(n, (turn, c))| Part::new(n as u64 + 1, *turn, 1, c, at())).collect();
    let mut silent = TurnInfo::queued(2, TurnKind::Message, "msg:2");
    (silent.state, silent.outcome) = (TurnState::Finished, Some(TurnOutcome::Completed));
    let shown = Shown::new(ConversationInfo::new("agent:main:local:dm:main", "main", 1), vec![silent]);
    let text = export::markdown(&shown, &parts);
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let want = [
        "> first",
        "one",
        "*Resumed after a restart of the gateway.*",
        "and one",
        "*Stopped.*",
        "> second",
        "*Your message is kept.*",
        "*(the agent answered nothing)*",
        "> third",
        "three",
    ];
    assert_eq!(lines, want);
}

#[test]
fn a_name_is_a_key_and_no_path() {
    let name = |text: &str| text.parse::<ChatName>().map(|name| name.key);
    assert_eq!(name("main").unwrap(), "agent:main:local:dm:main");
    assert_eq!(name("agent:main:telegram:dm:7").unwrap(), "agent:main:telegram:dm:7");
    for bad in ["", "..", ".", "a/b", "a b", "ä", "a:b", "agent:", "agent:\n", "list", "help", &"x".repeat(65)] {
        assert!(name(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn a_session_with_escape_sequences_is_no_conversation_of_ours() {
    assert_eq!(ChatName::of_session(Some("agent:main:local:dm:a")).key, "agent:main:local:dm:a");
    for other in [None, Some("a"), Some("list"), Some("agent:"), Some("agent:\x1b[2J"), Some("agent:a\nb")] {
        assert_eq!(ChatName::of_session(other).key, "agent:main:local:dm:main", "{other:?}");
    }
}

/// It said that outlast-gateway is not in /proc/self.
#[test]
fn without_proc_the_missing_proc_is_named() {
    let known = not_installed(Path::new("/opt/bin/outlast"));
    assert!(known.error().ends_with("outlast-gateway, which is not in /opt/bin"), "{}", known.error());
    let unknown = not_installed(Path::new("/proc/self/exe"));
    assert!(unknown.error().contains("/proc/self/exe cannot be read") && unknown.hint().starts_with("mount /proc"), "{}", unknown.error());
}
