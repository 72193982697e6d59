//! Which reply stands below which message, and whose answer is whose.

use super::*;

/// After `/stop` the reply of the next message stood below the stopped one, as if it were its reply.
#[test]
fn a_message_is_repeated_above_its_reply_if_a_line_came_between() {
    let mut play = Screenplay::new(None);
    play.caught_up();
    let mut running = TurnInfo::queued(2, TurnKind::Message, "msg:2");
    (running.state, running.words) = (TurnState::Running, Some("second".into()));
    play.words("first").running();
    let own = play.view.said("msg:2", "second");
    play.show(&own).line("Stopped.", "stopped").event(&ChatEvent::Turn { turn: Box::new(running) });
    assert_eq!(play.shown, ["› first", "", "› second", "Stopped.", "", "› second"]);
}

/// On reopening, all messages stood above all replies.
#[test]
fn when_it_is_opened_again_each_reply_stands_below_its_message() {
    let said = |play: &mut Screenplay, turn: u64, content: Content| {
        let part = Part::new(play.next_part, Some(turn), 1, &content, at());
        play.next_part += 1;
        play.event(&ChatEvent::Part { part: Box::new(part) });
    };
    let words = |turn: u64, text: &str| Content::Words(WordsBody::new(text, format!("msg:{turn}")));
    let mut play = Screenplay::new(Some(3));
    said(&mut play, 1, words(1, "first"));
    said(&mut play, 2, words(2, "second"));
    said(&mut play, 1, Content::Text(TextBody::new("one")));
    said(&mut play, 2, Content::Text(TextBody::new("two")));
    said(&mut play, 3, words(3, "third"));
    said(&mut play, 4, words(4, "fourth"));
    said(&mut play, 3, Content::Text(TextBody::new("three")));
    let mut running = TurnInfo::queued(3, TurnKind::Message, "msg:3");
    (running.state, running.words) = (TurnState::Running, Some("third".into()));
    play.event(&ChatEvent::Turn { turn: Box::new(running) }).caught_up();
    // The third reply continues below a message that waits.
    said(&mut play, 3, Content::Text(TextBody::new("and more")));
    let want = [
        "› first",
        "one",
        "",
        "› second",
        "── while you were away ──",
        "two",
        "",
        "› third",
        "three",
        "",
        "› fourth",
        "",
        "› third",
        "and more",
    ];
    assert_eq!(play.shown, want);
}

#[test]
fn an_answer_of_this_terminal_is_shown_as_ones_own() {
    let mut play = Screenplay::new(None);
    play.words("clean up").running();
    let options = vec![PermissionOption::new("yes", "Allow", "allow_once")];
    let mut body = PermissionBody::new("p1", "rm -rf target", options);
    play.part(Content::Permission(body.clone())).live();
    play.view.answers("p1");
    (body.answer, body.by) = (Some("yes".into()), Some("a person".into()));
    play.part(Content::Permission(body));
    assert_eq!(play.shown, ["› clean up", "? rm -rf target", "    (live)   [y] Allow   then Enter", "allowed by you"]);
}

/// The answers of messages that were written in a row could not be told apart.
#[test]
fn a_message_that_waited_is_repeated_when_it_gets_its_turn() {
    let mut play = Screenplay::new(None);
    let turn = |id: u64, state: TurnState, words: &str| {
        let mut turn = TurnInfo::queued(id, TurnKind::Message, format!("msg:{id}"));
        (turn.state, turn.words) = (state, Some(words.into()));
        ChatEvent::Turn { turn: Box::new(turn) }
    };
    play.caught_up();
    let long = format!("and third\n{}", "x".repeat(200));
    for (id, words) in [(1, "first"), (2, "second"), (3, long.as_str())] {
        let lines = play.view.said(&format!("msg:{id}"), words);
        play.show(&lines);
        play.event(&turn(id, if id == 1 { TurnState::Running } else { TurnState::Queued }, words));
    }
    let shown = play.shown.len();
    play.text("one").event(&turn(2, TurnState::Running, "second")).text("two").event(&turn(3, TurnState::Running, &long)).text("three");
    // A gateway that is found again tells of it once more.
    let lines = play.view.regained();
    play.show(&lines).event(&turn(3, TurnState::Running, &long));
    let want = ["one", "", "› second", "two", "", "› and third …", "three", "", "— the gateway is connected again —"];
    assert_eq!(play.shown[shown..], want);
    // Written while nothing ran: it is the last thing that is shown.
    let mut idle = Screenplay::new(None);
    idle.caught_up();
    let lines = idle.view.said("msg:1", "hello");
    idle.show(&lines).event(&turn(1, TurnState::Running, "hello")).text("hi");
    assert_eq!(idle.shown, ["› hello", "hi"]);
}
