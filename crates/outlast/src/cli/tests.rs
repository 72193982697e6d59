use super::out::Out;
use super::*;
use clap::CommandFactory as _;
use outlast_client::{Fate, ProcessInfo, Reason, Status, Time, Waited};

/// 200 s after what `process` started.
fn now() -> Time {
    "2023-11-14T22:16:40Z".parse().unwrap()
}

fn process(digit: u8, command: &str) -> ProcessInfo {
    serde_json::from_value(serde_json::json!({
        "session_id": format!("proc_{digit:012x}"), "command": command, "status": "running", "phase": "running", "pid": 4321,
        "cwd": "/src", "started_at": "2023-11-14T22:13:20.000000Z", "uptime_seconds": 200, "output_bytes": 1536,
    }))
    .unwrap()
}

fn changed(mut process: ProcessInfo, change: impl FnOnce(&mut ProcessInfo)) -> ProcessInfo {
    change(&mut process);
    process
}

fn ended(fate: Fate) -> ProcessInfo {
    changed(process(9, "sleep 1"), |p| {
        p.status = Status::Exited;
        p.phase = "exited".into();
        p.fate = fate;
        p.fate.ended_at = Some("2023-11-14T22:14:30Z".parse().unwrap());
    })
}

fn fate(code: Option<i32>, signal: Option<&str>, reason: Reason, source: &str) -> Fate {
    let mut fate = Fate::default();
    fate.exit_code = Some(code);
    fate.signal = signal.map(Into::into);
    fate.completion_reason = Some(reason);
    fate.termination_source = Some(source.into());
    fate
}

/// Found dead after 70 s; its last output came after 4 s.
fn lost() -> ProcessInfo {
    changed(ended(fate(None, None, Reason::Lost, "backend_lost")), |p| {
        p.phase = "lost".into();
        p.fate.found_ended_at = p.fate.ended_at.take();
        (p.uptime_seconds, p.is_uptime_at_least) = (4, true);
        p.last_output_at = Some("2023-11-14T22:13:24Z".parse().unwrap());
    })
}

fn some() -> Vec<ProcessInfo> {
    vec![
        process(1, "cargo test --workspace --all-features -- --nocapture"),
        changed(process(2, "printf '\x1b[31mred\x1b[0m\\n'\nsecond line"), |p| {
            p.name = Some("日本語サーバ".into());
            p.uptime_seconds = 7500;
        }),
        changed(ended(fate(Some(0), None, Reason::Exited, "")), |p| p.uptime_seconds = 45),
        ended(fate(Some(3), None, Reason::Exited, "")),
        ended(fate(Some(-9), Some("SIGKILL"), Reason::Killed, "process.kill")),
        lost(),
        changed(process(3, "é"), |p| (p.phase, p.notify_on_complete) = ("stopping".into(), true)),
        changed(process(4, "serve"), |p| (p.watch_patterns, p.watch_hit) = (vec!["ERROR".into()], Some(true))),
        changed(process(5, "yes"), |p| {
            (p.notify_on_complete, p.watch_patterns, p.watch_disabled) = (true, vec!["x".into()], true);
        }),
    ]
}

#[test]
fn the_command_line_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn a_list_lines_up() {
    insta::assert_snapshot!(list::lines(&some(), now(), &Out::plain(None)).join("\n"));
}

#[test]
fn a_list_shows_which_conversation_owns_a_process() {
    let of = |digit, command: &str, session: &str| changed(process(digit, command), |p| p.session_key = Some(session.into()));
    let agent = r#"/bin/sh -c 'eval "$OUTLAST_START"' outlast-agent opencode acp"#;
    let all = [
        of(1, "make release", "agent:main:local:dm:main"),
        changed(of(2, agent, "outlast:agent:agent:main:local:dm:main"), |p| p.name = Some("agent".into())),
        of(3, "pytest -x", "agent:main:local:dm:a-long-name-of-a-conversation"),
        of(4, "sleep 1", "chat:42"),
    ];
    let mut shown = Vec::new();
    for width in [60, 80, 200] {
        let lines = list::lines(&all, now(), &Out::plain(Some(width)));
        assert!(lines.iter().all(|line| unicode_width::UnicodeWidthStr::width(&**line) <= width), "{lines:#?}");
        shown.push(format!("{width} columns\n\n{}", lines.join("\n")));
    }
    insta::assert_snapshot!(shown.join("\n\n"));
}

#[test]
fn a_list_fits_the_terminal() {
    let mut all = Vec::new();
    for width in [40, 60, 80, 200] {
        let lines = list::lines(&some(), now(), &Out::plain(Some(width)));
        assert!(lines.iter().all(|l| unicode_width::UnicodeWidthStr::width(l.as_str()) <= width), "{lines:#?}");
        all.push(format!("{width} columns\n\n{}", lines.join("\n")));
    }
    insta::assert_snapshot!(all.join("\n\n"));
}

#[test]
fn no_list_no_head() {
    assert!(list::lines(&[], now(), &Out::plain(None)).is_empty());
}

#[test]
fn a_poll_in_words() {
    let p = changed(some().remove(1), |p| {
        p.fate = fate(Some(-15), Some("SIGTERM"), Reason::Killed, "process.kill");
        p.fate.ended_at = Some(outlast_client::Time::from_micros(0));
    });
    let lines: Vec<_> =
        poll::fields(&p, now(), &jiff::tz::TimeZone::UTC).into_iter().map(|(n, v)| format!("{n}: {}", out::tame(&v))).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn what_is_not_known_of_a_lost_process_is_not_made_up() {
    let shown = |p: &ProcessInfo| {
        let fields = poll::fields(p, now(), &jiff::tz::TimeZone::UTC);
        fields.into_iter().filter(|(name, _)| ["ended", "time"].contains(name)).map(|(_, text)| text).collect::<Vec<_>>()
    };
    assert_eq!(shown(&lost()), ["unknown; found ended at 22:14:30 (last output at 22:13:24)", "at least 4s"]);
    let silent = changed(lost(), |p| (p.uptime_seconds, p.last_output_at) = (0, None));
    assert_eq!(shown(&silent), ["unknown; found ended at 22:14:30", "unknown"]);
    let line = &list::lines(&[lost()], now(), &Out::plain(None))[1];
    assert!(line.contains("≥4s") && line.contains("≥2m 10s ago"), "{line}");
    assert!(!list::lines(&[silent], now(), &Out::plain(None))[0].contains("TIME"));
}

#[test]
fn failed_does_not_include_what_was_stopped() {
    let of = |p: ProcessInfo| (ending::is_failed(&p), ending::was_stopped(&p));
    assert_eq!(of(ended(fate(Some(0), None, Reason::Exited, ""))), (false, false));
    assert_eq!(of(ended(fate(Some(3), None, Reason::Exited, ""))), (true, false));
    assert_eq!(of(ended(fate(Some(-15), Some("SIGTERM"), Reason::Killed, "process.kill"))), (false, true));
    assert_eq!(of(ended(fate(Some(-15), Some("SIGTERM"), Reason::Killed, "timeout"))), (true, false));
    assert_eq!((of(lost()), of(process(1, "x"))), ((true, false), (false, false)));
}

#[test]
fn exit_codes_are_the_commands_own() {
    let start = |code| {
        let mut fate = fate(None, None, Reason::FailedStart, "failed_start");
        fate.start_code = code;
        fate
    };
    for (fate, want) in [
        (fate(Some(0), None, Reason::Exited, ""), 0),
        (fate(Some(3), None, Reason::Exited, ""), 3),
        (fate(Some(255), None, Reason::Exited, ""), 255),
        (fate(Some(-9), Some("SIGKILL"), Reason::Exited, ""), 137),
        (fate(Some(-15), Some("SIGTERM"), Reason::Killed, "process.kill"), 143),
        (fate(Some(-15), Some("SIGTERM"), Reason::Killed, "timeout"), 124),
        (fate(None, None, Reason::Lost, "backend_lost"), 125),
        (start(Some(127)), 127),
        (start(Some(126)), 126),
        (start(None), 126),
    ] {
        assert_eq!(ending::exit_code(&fate), want, "{fate:?}");
    }
}

#[test]
fn a_wait_that_saw_no_end_says_so() {
    let id = "proc_ab12000000ff".parse().unwrap();
    let waited = |status: &str| Waited::new(status, id, "", fate(Some(3), None, Reason::Exited, ""));
    assert_eq!(["exited", "timeout", "interrupted"].map(|s| wait::code(&waited(s))), [3, 124, 125]);
}

#[test]
fn ages_are_short() {
    let got = [0, 45, 60, 200, 3599, 3600, 7500, 90_000, 700_000].map(times::age);
    assert_eq!(got, ["0s", "45s", "1m 0s", "3m 20s", "59m 59s", "1h 0m", "2h 5m", "1d 1h", "8d 2h"]);
    assert_eq!([0, 1023, 1536, 64 << 20].map(times::size), ["0 B", "1023 B", "1.5 KiB", "64 MiB"]);
}

#[test]
fn case_099_a_time_of_nothing_is_an_error() {
    assert!(some_seconds("0").is_err() && some_seconds("-1").is_err() && some_seconds("soon").is_err() && some_seconds("nan").is_err());
    assert_eq!(some_seconds("0.5"), Ok(std::time::Duration::from_millis(500)));
    assert_eq!(seconds("0"), Ok(std::time::Duration::ZERO));
    assert_eq!(millis(std::time::Duration::from_micros(1)), 1);
}

#[test]
fn times_are_written_in_seconds_or_with_units() {
    let cases =
        [("90", 90_000), ("0.5", 500), ("90s", 90_000), ("5m", 300_000), ("1h30m", 5_400_000), ("1.5h", 5_400_000), ("3d 4h", 273_600_000)];
    for (text, ms) in cases.into_iter().chain([("250ms", 250), ("1w", 604_800_000), (" 2m ", 120_000)]) {
        assert_eq!(seconds(text), Ok(std::time::Duration::from_millis(ms)), "{text}");
    }
    // What `list` shows can be given back.
    assert_eq!(seconds(&times::age(93_784)), Ok(std::time::Duration::from_secs(26 * 3600)));
    for text in ["", "s", "5x", "5m3", "30m1h", "5m5m", "1h-5m", "-5m", "5 m", "1..5h", "five"] {
        assert!(seconds(text).is_err(), "{text}");
    }
    assert!(seconds("soon").unwrap_err().contains("1h30m"));
}

fn parsed(words: &[&str]) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(std::iter::once("outlast").chain(words.iter().copied()))
}

#[test]
fn words_after_the_dashes_belong_to_the_command() {
    let cli = parsed(&["run", "--", "grep", "--json", "-x"]).unwrap();
    assert!(!cli.json);
    assert!(parsed(&["list", "--json"]).unwrap().json);
    assert!(parsed(&["--json", "list"]).unwrap().json);
}

#[test]
fn what_contradicts_itself_is_refused() {
    for words in [
        &["run", "--pty", "--stdin", "--", "x"][..],
        &["run", "--follow", "--wait", "--", "x"],
        &["run"],
        &["run", "--id", "ab12", "--", "x"],
        &["run", "--timeout", "0", "--", "x"],
        &["run", "--timeout", "-1", "--", "x"],
        &["kill"],
        &["kill", "ab12", "--all"],
        &["kill", "ab12", "--grace", "1", "--no-escalate"],
        &["log", "ab12", "--limit", "0"],
        &["log", "ab12", "--offset", "1", "--from-byte", "2"],
        &["wait", "ab12", "--timeout", "0"],
        &["active", "--task", "t", "--session", "s"],
        &["active", "--max-age", "3"],
        &["interrupt"],
        &["run", "--route", "chat", "--", "x"],
        &["run", "--route", "room=7", "--", "x"],
        &["run", "--notify-chars", "many", "--", "x"],
        &["events", "ack"],
        &["events", "next", "--limit", "0"],
        &["events", "next", "--lease", "0"],
        &["events", "next", "--wait", "soon"],
        &["events", "follow", "--from", "3", "--ack"],
        &["events", "replay"],
        &["events", "replay", "--from", "3", "--dead"],
        &["events", "replay", "--from", "3", "--sink", "s"],
        &["until"],
        &["until", "ab12", "--pid", "7"],
        &["until", "--pid", "7", "--match"],
        &["until", "--at", "tomorrow"],
        &["until", "--list", "--clear"],
        &["until", "ab12", "--no-wait", "--timeout", "3"],
        &["view", "ab12"],
    ] {
        assert!(parsed(words).is_err(), "{words:?}");
    }
    for words in [
        &["kill", "ab12", "--grace", "0"][..],
        &["kill", "--all", "--task", "t"],
        &["write", "ab12", "-"],
        &["write", "ab12", "-n"],
        &["submit", "ab12", "--", "--offset"],
        &["signal", "ab12", "SIGUSR1"],
        &["log", "ab12", "--raw", "--from-byte", "7", "--follow"],
        &["run", "--notify", "--watch", "-x", "--watch", "b", "--route", "chat=a=b", "--notify-chars", "9", "--", "x"],
        &["events", "next", "--wait"],
        &["events", "next", "--wait", "--json", "--session", "s"],
        &["events", "--session", "s", "drain", "--wait", "3", "--limit", "2"],
        &["events", "replay", "--dead", "--id", "3", "--sink", "s"],
        &["until", "ab12", "--match", "--timeout", "3"],
        &["until", "--at", "2026-01-31T08:00:00+02:00"],
        &["until", "--for", "10m", "--no-wait", "--session", "s"],
        &["view", "close", "ab12"],
    ] {
        parsed(words).unwrap_or_else(|e| panic!("{words:?}: {e}"));
    }
}

#[test]
fn words_of_the_command_are_not_ours() {
    let ours = |line: &str| {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        own_words(&words).iter().any(|word| word == "--json")
    };
    for line in [
        "o run --json make",
        "o --json run make",
        "o run --name x --json make",
        "o run --name=x --json",
        "o poll x --json",
        "o run -f --json x",
    ] {
        assert!(ours(line), "{line}");
    }
    for line in ["o run make --json", "o run -- make --json", "o run --name x make --json", "o run - --json", "o tool -- --json"] {
        assert!(!ours(line), "{line}");
    }
}

#[test]
fn a_command_begins_with_the_first_word_that_is_no_flag() {
    let command = |words: &[&str]| -> Result<Vec<String>, String> {
        let cli = Cli::try_parse_from([&["outlast", "run"], words].concat()).map_err(|e| e.to_string())?;
        let matched = Cli::command().try_get_matches_from([&["outlast", "run"], words].concat()).map_err(|e| e.to_string())?;
        let run = matched.subcommand_matches("run").unwrap();
        assert!(matches!(cli.verb, Verb::Run(_)));
        Ok(run.get_many::<OsString>("command").unwrap().map(|w| w.to_string_lossy().into_owned()).collect())
    };
    for (words, want) in [
        (&["make", "test"][..], &["make", "test"][..]),
        (&["--name", "x", "make", "-j4"], &["make", "-j4"]),
        (&["make", "--help"], &["make", "--help"]),
        (&["make", "--version"], &["make", "--version"]),
        (&["make", "--json", "--name", "y"], &["make", "--json", "--name", "y"]),
        (&["--pty", "--", "make", "--", "x"], &["make", "--", "x"]),
        (&["make", "--", "x"], &["make", "--", "x"]),
        (&["--", "--odd"], &["--odd"]),
        (&["-"], &["-"]),
        (&["make test"], &["make test"]),
        (&["-wq"][..0], &[][..]),
    ] {
        match command(words) {
            Ok(found) => assert_eq!(found, want, "{words:?}"),
            Err(_) => assert!(want.is_empty(), "{words:?}"),
        }
    }
    // A flag that is misspelt is no command.
    let refused = command(&["--nmae", "x", "make"]).unwrap_err();
    assert!(refused.contains("--name"), "{refused}");
}
