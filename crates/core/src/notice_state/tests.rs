//! The whole of both functions as tables, and what holds for any history.

use super::*;
use NoticeGeneration::{Current, Ended, Future};
use proptest::prelude::*;

const NOW: Moment = Moment { utc: Time::from_micros(1_000), up: 1_000 };
/// A lease that has not ended, and one that has.
const LIVE: Uptime = 2_000;
const OVER: Uptime = 500;
const END: NoticeSubject = NoticeSubject::End { seen: false };
const SEEN_END: NoticeSubject = NoticeSubject::End { seen: true };

/// Every state that the table distinguishes.
fn states() -> Vec<(&'static str, TrackedNotice)> {
    let pending = TrackedNotice { given: 1, ..TrackedNotice::new(END, false, WrittenFor::AnyTaker, Moment { up: 0, ..NOW }) };
    let pending = TrackedNotice { open_since: Time::from_micros(1), ..pending };
    let at = |given, state| TrackedNotice { state, given, ..pending.clone() };
    let leased = |holder, until| at(1, NoticeState::Leased { holder, token: "t".into(), until });
    let settled = |how| at(1, NoticeState::Settled { how, reason: "r".into(), at: Time::from_micros(2) });
    vec![
        ("P0", at(0, NoticeState::Pending)),
        ("P", pending.clone()),
        ("R", at(0, NoticeState::Reserved { until: LIVE })),
        ("R'", at(0, NoticeState::Reserved { until: OVER })),
        ("A1", at(1, NoticeState::Answering { until: LIVE })),
        ("A", at(2, NoticeState::Answering { until: LIVE })),
        ("A'", at(2, NoticeState::Answering { until: OVER })),
        ("L", leased(LeaseHolder::Taker, LIVE)),
        ("L'", leased(LeaseHolder::Taker, OVER)),
        ("K", leased(LeaseHolder::Sink, LIVE)),
        ("K'", leased(LeaseHolder::Sink, OVER)),
        ("De", settled(Settlement::Delivered)),
        ("Dr", settled(Settlement::Dropped)),
    ]
}

/// The name of a state in the table.
fn name(notice: &TrackedNotice) -> String {
    let over = |until: Uptime| if until <= NOW.up { "'" } else { "" };
    match &notice.state {
        NoticeState::Pending if notice.given == 0 => "P0".into(),
        NoticeState::Pending => "P".into(),
        NoticeState::Reserved { until } => format!("R{}", over(*until)),
        NoticeState::Answering { until } => format!("A{}{}", if notice.given == 1 { "1" } else { "" }, over(*until)),
        NoticeState::Leased { holder: LeaseHolder::Taker, until, .. } => format!("L{}", over(*until)),
        NoticeState::Leased { holder: LeaseHolder::Sink, until, .. } => format!("K{}", over(*until)),
        NoticeState::Settled { how: Settlement::Delivered, .. } => "De".into(),
        NoticeState::Settled { how: Settlement::Consumed, .. } => "Co".into(),
        NoticeState::Settled { how: Settlement::Superseded, .. } => "Su".into(),
        NoticeState::Settled { how: Settlement::Dropped, .. } => "Dr".into(),
    }
}

/// What a step does, in a few letters.
fn cell(before: &TrackedNotice, step: &NoticeStep) -> String {
    let mut cell = match (&step.next, step.reply) {
        (None, NoticeReply::None) => "·".to_owned(),
        (None, reply) => format!("{reply:?}").to_lowercase(),
        (Some(next), _) if next.state == before.state => "=".into(),
        (Some(next), _) => name(next),
    };
    if let Some(next) = &step.next {
        let news = [
            (next.maybe_told && !before.maybe_told, '*'),
            (next.observed && !before.observed, 'o'),
            (next.superseded_reason.is_some() && before.superseded_reason.is_none(), 's'),
        ];
        cell.extend(news.iter().filter(|(is_new, _)| *is_new).map(|(_, sign)| sign));
    }
    cell.extend(step.effects.iter().map(|effect| match effect {
        NoticeEffect::MarkEndSeen(_) => 'm',
        NoticeEffect::ForgetEndSeen => 'f',
        NoticeEffect::CancelQuietDeliveries => 'c',
        NoticeEffect::FreeQuietDeliveries => 'q',
    }));
    cell
}

fn claim(taker: TakerKind, token: &'static str, generation: NoticeGeneration<'static>) -> NoticeEvent<'static> {
    NoticeEvent::Claim { taker, holder: LeaseHolder::Taker, token, until: 9_000, generation }
}

/// Every event that the table distinguishes: its name, and what it is about.
fn events() -> Vec<(&'static str, NoticeEvent<'static>, NoticeSubject)> {
    use TakerKind::{Gateway, Terminal};
    let settle = |token, verdict| NoticeEvent::Settle { token, verdict };
    let lines = NoticeSubject::Output { end_seen: true };
    let ended = Ended { name: "g1" };
    vec![
        ("Reserve", NoticeEvent::Reserve { until: 9_000 }, END),
        ("AnswerBegins", NoticeEvent::AnswerBegins, END),
        ("AnswerFailed", NoticeEvent::AnswerFailed, END),
        ("WaitersLeft", NoticeEvent::WaitersLeft { is_prepared: false }, END),
        ("WaitersLeft, answer prepared", NoticeEvent::WaitersLeft { is_prepared: true }, END),
        ("EndSeen", NoticeEvent::EndSeen { by: "wait" }, END),
        ("Answered", NoticeEvent::Answered, NoticeSubject::Other),
        ("Observed", NoticeEvent::Observed, END),
        ("RunAgain", NoticeEvent::RunAgain { by: "p" }, END),
        ("Claim", claim(Gateway, "n", Current), END),
        ("Claim, same token", claim(Gateway, "t", Current), END),
        ("Claim, end seen", claim(Gateway, "n", Current), SEEN_END),
        ("Claim, lines after the end", claim(Gateway, "n", Current), lines),
        ("Claim, lines after the end, terminal", claim(Terminal, "n", Current), lines),
        ("Claim, generation ended", claim(Gateway, "n", ended), END),
        ("Claim, generation to come", claim(Gateway, "n", Future), END),
        ("Settle Delivered, token", settle(Some("t"), Verdict::Delivered), END),
        ("Settle Delivered, no token", settle(None, Verdict::Delivered), END),
        ("Settle Delivered, wrong token", settle(Some("w"), Verdict::Delivered), END),
        ("Settle Dropped, token", settle(Some("t"), Verdict::Dropped("x")), END),
        ("Settle Dropped, no token", settle(None, Verdict::Dropped("x")), END),
        ("Settle Released, token", settle(Some("t"), Verdict::Released), END),
        ("Settle Released, no token", settle(None, Verdict::Released), END),
        ("Settle Released, end seen", settle(None, Verdict::Released), SEEN_END),
        ("TakerGone", NoticeEvent::TakerGone { token: "t" }, END),
        ("TakerGone, wrong token", NoticeEvent::TakerGone { token: "w" }, END),
        ("ClaimCancelled", NoticeEvent::ClaimCancelled { token: "t" }, END),
        ("ClaimCancelled, wrong token", NoticeEvent::ClaimCancelled { token: "w" }, END),
        ("SinkReport Told", NoticeEvent::SinkReport { token: "t", call: SinkCall::Told }, END),
        ("SinkReport Failed", NoticeEvent::SinkReport { token: "t", call: SinkCall::Failed }, END),
        ("SinkReport NotTried", NoticeEvent::SinkReport { token: "t", call: SinkCall::NotTried }, END),
        ("SinkReport Told, wrong token", NoticeEvent::SinkReport { token: "w", call: SinkCall::Told }, END),
        ("Replay", NoticeEvent::Replay, END),
        ("Replay, no end", NoticeEvent::Replay, NoticeSubject::Other),
        ("Expire, old", NoticeEvent::Expire { before: Time::from_micros(2), reason: "x" }, END),
        ("Expire, new", NoticeEvent::Expire { before: Time::from_micros(1), reason: "x" }, END),
        ("Drop", NoticeEvent::Drop { reason: "x" }, END),
        ("EngineStarted", NoticeEvent::EngineStarted { rebooted: false }, END),
        ("EngineStarted, rebooted", NoticeEvent::EngineStarted { rebooted: true }, END),
    ]
}

#[test]
fn the_whole_table_of_transition() {
    let states = states();
    let line =
        |name: &str, cells: Vec<String>| format!("{name:<44}{}\n", cells.iter().map(|c| format!("{c:<8}")).collect::<String>().trim_end());
    let mut table = line("", states.iter().map(|(name, _)| (*name).to_owned()).collect());
    let mut row = |name: &str, change: &dyn Fn(&mut TrackedNotice), event: NoticeEvent<'_>, subject| {
        let cells = states.iter().map(|(_, state)| {
            let mut state = state.clone();
            change(&mut state);
            cell(&state, &transition(&state, event, subject, NOW))
        });
        table += &line(name, cells.collect());
    };
    for (name, event, subject) in events() {
        row(name, &|_| (), event, subject);
    }
    let superseded = |n: &mut TrackedNotice| n.superseded_reason = Some("run again as q".into());
    let observed = |n: &mut TrackedNotice| n.observed = true;
    let rewritten = |n: &mut TrackedNotice| n.maybe_told = true;
    row("Settle Delivered, token, index lost", &rewritten, NoticeEvent::Settle { token: Some("t"), verdict: Verdict::Delivered }, END);
    row("Claim, superseded", &superseded, claim(TakerKind::Gateway, "n", Current), END);
    row("Settle Released, token, superseded", &superseded, NoticeEvent::Settle { token: Some("t"), verdict: Verdict::Released }, END);
    row("Claim, observed", &observed, claim(TakerKind::Gateway, "n", Current), END);
    row("Claim, observed, terminal", &observed, claim(TakerKind::Terminal, "n", Current), END);
    insta::assert_snapshot!(table);
}

#[test]
fn the_states_in_which_a_notice_is_written() {
    let mut table = String::new();
    for (name, written_for) in
        [("any taker", WrittenFor::AnyTaker), ("a waiter", WrittenFor::Waiter { until: 9_000 }), ("an answer", WrittenFor::Answer)]
    {
        for (about, subject) in [("an end", END), ("a seen end", SEEN_END), ("lines", NoticeSubject::Output { end_seen: true })] {
            let new = TrackedNotice::new(subject, false, written_for, NOW);
            assert_eq!((new.open_since, new.maybe_told, new.observed, &new.superseded_reason), (NOW.utc, false, false, &None));
            table += &format!("{about}, for {name}: {}\n", self::name(&new));
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn the_whole_table_of_deliver() {
    let due = |at, tries, quiet| Delivery { tries, quiet, ..Delivery::new(false, Some(at)) };
    let at = |state| Delivery { state, ..due(0, 1, false) };
    let states = [
        ("due", due(OVER, 0, false)),
        ("later", due(LIVE, 1, false)),
        ("quiet", due(LIVE, 0, true)),
        ("quiet, due", due(OVER, 0, true)),
        ("quiet, tried", due(LIVE, 1, true)),
        ("leased", at(DeliveryState::Leased { token: "t".into(), until: LIVE })),
        ("overdue", at(DeliveryState::Leased { token: "t".into(), until: OVER })),
        ("delivered", at(DeliveryState::Delivered)),
        ("dead", at(DeliveryState::Dead { at: Time::from_micros(2) })),
    ];
    let report = |outcome| DeliveryEvent::Report { token: "t", outcome };
    let events = [
        ("Answered", DeliveryEvent::Answered),
        ("NotAnswered", DeliveryEvent::NotAnswered),
        ("Take", DeliveryEvent::Take { token: "n", until: 9_000 }),
        ("Report Delivered", report(DeliveryOutcome::Delivered)),
        ("Report Retry", report(DeliveryOutcome::Retry { at: 9_000, error: "e" })),
        ("Report NotTried", report(DeliveryOutcome::NotTried { at: 9_000 })),
        ("Report Dead", report(DeliveryOutcome::Dead { error: "e" })),
        ("Report, wrong token", DeliveryEvent::Report { token: "w", outcome: DeliveryOutcome::Delivered }),
        ("Unreadable", DeliveryEvent::Unreadable { reason: "e" }),
        ("Revive", DeliveryEvent::Revive),
        ("Replay", DeliveryEvent::Replay),
        ("NoticeSettled", DeliveryEvent::NoticeSettled),
        ("EngineStarted", DeliveryEvent::EngineStarted { rebooted: false }),
        ("EngineStarted, rebooted", DeliveryEvent::EngineStarted { rebooted: true }),
    ];
    let shown = |d: &Delivery| {
        let state = match &d.state {
            DeliveryState::Due { at } if *at <= NOW.up => "due".to_owned(),
            DeliveryState::Due { .. } => "later".into(),
            DeliveryState::Leased { token, .. } => format!("leased {token}"),
            DeliveryState::Delivered => "delivered".into(),
            DeliveryState::Dead { .. } => "dead".into(),
        };
        let signs = [(d.maybe_told, "*"), (d.quiet, "q"), (!d.last_error.is_empty(), "e")];
        format!("{state} {}{}", d.tries, signs.iter().filter(|(is, _)| *is).map(|(_, sign)| *sign).collect::<String>())
    };
    let mut table = format!("{:<26}{}\n", "", states.iter().map(|(name, _)| format!("{name:<14}")).collect::<String>().trim_end());
    for (name, event) in events {
        let cells = states.iter().map(|(_, state)| match deliver(state, event, NOW) {
            DeliveryStep::Same => "·".to_owned(),
            DeliveryStep::Next(next) => shown(&next),
            DeliveryStep::Removed => "removed".into(),
            DeliveryStep::Lost => "lost".into(),
        });
        table += &format!("{name:<26}{}\n", cells.map(|c| format!("{c:<14}")).collect::<String>().trim_end());
    }
    insta::assert_snapshot!(table);
}

/// A random event for a notice about an end, with a token that some lease had.
fn any_event() -> impl Strategy<Value = NoticeEvent<'static>> {
    let all: Vec<NoticeEvent<'static>> = events().into_iter().map(|(_, event, _)| event).collect();
    proptest::sample::select(all)
}

proptest! {
    /// Whatever happens in whatever order: what was settled stays settled unless a delivered notice is replayed, and a notice that may have
    /// been told is never given as if it had not.
    #[test]
    fn a_notice_that_may_have_been_told_stays_marked(steps in proptest::collection::vec((any_event(), 0..40_000_000_i64, any::<bool>()), 1..40)) {
        let mut now = NOW;
        let mut notice = TrackedNotice::new(END, false, WrittenFor::AnyTaker, now);
        for (event, pass, seen) in steps {
            now = Moment { utc: Time::from_micros(now.utc.micros() + pass), up: now.up + pass };
            let step = transition(&notice, event, NoticeSubject::End { seen }, now);
            let Some(next) = step.next else { continue };
            if notice.is_settled() {
                prop_assert_eq!(event, NoticeEvent::Replay);
                prop_assert!(next.maybe_told && next.state == NoticeState::Pending);
            }
            prop_assert!(next.maybe_told || !notice.maybe_told, "{:?} forgot that {:?} may have been told", event, notice);
            let takes_back = matches!(event, NoticeEvent::WaitersLeft { is_prepared: true });
            prop_assert!(next.given >= notice.given || takes_back);
            if let (NoticeState::Leased { .. }, NoticeReply::Given) = (&next.state, step.reply) {
                prop_assert!(notice.is_free(now.up), "{:?} was given to two", notice);
                let was_out = matches!(notice.state, NoticeState::Leased { .. } | NoticeState::Answering { .. });
                prop_assert!(next.maybe_told || !was_out, "{:?} is given again and is not marked", notice);
            }
            notice = next;
        }
    }
}
