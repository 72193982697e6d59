use std::fmt::Write as _;

use outlast_core::{Body, Completion, Notice, Owner, ProcessId, Reason, Route, WatchMatch};
use proptest::prelude::*;

use crate::rules::shown::*;
use crate::rules::tables::NOW;

const MODES: [NoticeMode; 5] = [NoticeMode::All, NoticeMode::Result, NoticeMode::Error, NoticeMode::Concise, NoticeMode::Off];

fn notice(body: Body) -> Notice {
    let process = Some(ProcessId::from_bytes([1, 2, 3, 4, 5, 255]));
    Notice::new("evt_1".into(), NOW, process, &Owner::session("agent:main:local:dm:main"), Route::default(), body)
}

fn end(exit_code: Option<i32>, reason: Reason) -> Completion {
    let mut end = Completion::new("make test", exit_code, reason);
    end.output = "compiling\n2 tests failed\n".into();
    end
}

/// The same, changed.
fn with<T>(mut it: T, change: impl FnOnce(&mut T)) -> T {
    change(&mut it);
    it
}

fn ended(exit_code: i32) -> Notice {
    notice(Body::Completion(Box::new(end(Some(exit_code), Reason::Exited))))
}

fn posted(fields: serde_json::Value) -> Notice {
    notice(Body::Posted(fields.as_object().unwrap().clone()))
}

fn kinds() -> Vec<(&'static str, Notice)> {
    let completion = |end: Completion| notice(Body::Completion(Box::new(end)));
    let killed = with(end(Some(-15), Reason::Killed), |end| end.signal = Some("SIGTERM".into()));
    let oom = with(end(Some(-9), Reason::Exited), |end| (end.signal, end.oom) = (Some("SIGKILL".into()), true));
    let adopted = with(end(None, Reason::Lost), |end| {
        (end.handoff_note, end.output) = (Some("Its output was not kept.".into()), String::new());
    });
    let failed_start = with(end(None, Reason::FailedStart), |end| end.output = "execute /nowhere: no such file".into());
    let cut = with(end(Some(1), Reason::Exited), |end| end.output_cut = Some(3000));
    let found = with(WatchMatch::new("serve", "ready", "listening\nready\n"), |found| found.suppressed = 4);
    let words = |text: &str| text.to_owned();
    vec![
        ("success", ended(0)),
        ("failure", ended(3)),
        ("failure, cut before", completion(cut)),
        ("failure, may be a repeat", with(ended(3), |notice| notice.repeat = true)),
        ("stopped", completion(killed)),
        ("out of memory", completion(oom)),
        ("lost", completion(end(None, Reason::Lost))),
        ("lost, adopted", completion(adopted)),
        ("failed to start", completion(failed_start)),
        ("match", notice(Body::WatchMatch(found))),
        ("no longer watched", notice(named_disabled(None))),
        ("of a process with a name", completion(with(end(Some(1), Reason::Exited), |end| end.name = Some("tests".into())))),
        ("match of a process with a name", notice(Body::WatchMatch(with(WatchMatch::new("serve", "ready", "ready"), named)))),
        ("no longer watched, with a name", notice(named_disabled(Some("web")))),
        ("overflow", notice(Body::WatchOverflowTripped { message: words("x") })),
        ("overflow over", notice(Body::WatchOverflowReleased { message: words("x"), suppressed: 40 })),
        ("barrier", notice(Body::Until { barrier: words("bar_1"), why: words("time"), message: words("x") })),
        ("delegation", posted(serde_json::json!({"type": "async_delegation", "delegation_id": "deleg_1", "summary": "Found\nit."}))),
        ("posted", posted(serde_json::json!({"type": "deploy", "message": "Version 3\nis out."}))),
        ("posted without words", posted(serde_json::json!({"type": "deploy", "code": 3}))),
    ]
}

fn named(found: &mut WatchMatch) {
    found.name = Some("web".into());
}

fn named_disabled(name: Option<&str>) -> Body {
    Body::WatchDisabled { name: name.map(str::to_owned), command: "serve".into(), message: "x".into(), suppressed: 9 }
}

/// Cases 186 to 194 as one table.
#[test]
fn every_notice_in_every_mode() {
    let mut table = String::new();
    for (name, notice) in kinds() {
        writeln!(table, "## {name}").unwrap();
        for mode in MODES {
            let text = shown(&notice, mode).unwrap_or("(nothing)".into());
            writeln!(table, "{:<8} {}", format!("{mode:?}"), text.replace('\n', "\n         ")).unwrap();
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn case_187_and_188_and_192_there_is_one_message_at_the_end_and_none_before() {
    // A process that tells nothing makes no notice, and one that does makes one at its end: nothing is shown while it runs.
    for mode in [NoticeMode::All, NoticeMode::Result] {
        let text = shown(&ended(0), mode).unwrap();
        assert_eq!(text, "A process ended (exit code 0): make test\ncompiling\n2 tests failed");
    }
}

#[test]
fn case_189_in_mode_error_only_a_known_failure_is_shown() {
    let text = |exit_code, reason| shown(&notice(Body::Completion(Box::new(end(exit_code, reason)))), NoticeMode::Error);
    assert_eq!(text(Some(0), Reason::Exited), None);
    assert!(text(Some(2), Reason::Exited).is_some());
    assert_eq!(text(None, Reason::Lost), None, "an unknown exit code is silent");
}

#[test]
fn case_190_in_mode_off_nothing_is_shown() {
    assert!(kinds().iter().all(|(_, notice)| shown(notice, NoticeMode::Off).is_none()));
}

#[test]
fn case_182_and_183_an_overflow_is_a_message_of_its_own_and_no_end_of_a_process() {
    for body in [
        Body::WatchOverflowTripped { message: "x".into() },
        Body::WatchOverflowReleased { message: "x".into(), suppressed: 3 },
        Body::WatchDisabled { name: None, command: "serve".into(), message: "x".into(), suppressed: 3 },
    ] {
        for mode in [NoticeMode::All, NoticeMode::Concise] {
            let text = shown(&notice(body.clone()), mode).unwrap();
            assert!(!text.contains("ended") && !text.contains("exit code"), "{text}");
        }
    }
}

#[test]
fn case_166_a_long_output_begins_with_a_line_and_says_that_it_was_cut() {
    let lines: String = (0..1000).map(|n| format!("line {n}\n")).collect();
    let long = with(end(Some(1), Reason::Exited), |end| (end.output, end.output_cut) = (lines, Some(7)));
    for (mode, most) in [(NoticeMode::All, MAX_SHOWN_OUTPUT_CHARS), (NoticeMode::Concise, MAX_CONCISE_OUTPUT_CHARS)] {
        let text = shown(&notice(Body::Completion(Box::new(long.clone()))), mode).unwrap();
        let rest: Vec<&str> = text.lines().skip(2).collect();
        assert!(text.lines().nth(1).unwrap().ends_with("characters before this are left out)"), "{text}");
        assert!(rest.iter().all(|line| line.starts_with("line ")) && rest.last() == Some(&"line 999"), "{text}");
        assert!(rest.join("\n").chars().count() <= most);
    }
}

proptest! {
    #[test]
    fn case_195_no_escape_code_and_no_id_of_ours_is_shown(
        command in ".*", name in "(?s).*", output in "(?s).*", pattern in ".*", mode in 0..MODES.len()
    ) {
        let name = Some(name);
        let completion = with(Completion::new(command.clone(), Some(1), Reason::Exited), |end| {
            (end.name, end.output) = (name.clone(), output.clone());
        });
        let found = with(WatchMatch::new(command.clone(), pattern, output), |found| found.name.clone_from(&name));
        let disabled = Body::WatchDisabled { name, command, message: "of proc_0102030405ff".into(), suppressed: 1 };
        for body in [Body::Completion(Box::new(completion)), Body::WatchMatch(found), disabled] {
            let text = shown(&notice(body), MODES[mode]).unwrap_or_default();
            prop_assert!(text.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'), "{:?}", text);
            prop_assert!(!text.contains("proc_0102030405ff"), "{:?}", text);
        }
    }
}
