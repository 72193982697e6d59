use super::act::{Act, SIGNALS};
use super::app::{App, Overlay};
use super::command::{ListRequest, LogPart, SearchFrom, TopCommand};
use super::detail::{LogPosition, TypedInput};
use super::lines::{LogLine, Piece, Words};
use super::news::News;
use super::view::{self, TopPaint};
use crate::cli::terminal::Key;
use crate::os::Usage;
use outlast_client::{ProcessId, ProcessInfo, Reason, Scope, Status};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use unicode_width::UnicodeWidthStr as _;

fn process(n: u64, command: &str) -> ProcessInfo {
    serde_json::from_value(serde_json::json!({
        "session_id": format!("proc_{n:012x}"), "command": command, "status": "running", "phase": "running", "pid": 1000 + n % 1000,
        "cwd": "/src/app", "started_at": "2023-11-14T22:13:20.000000Z", "uptime_seconds": 200, "output_bytes": 1536,
    }))
    .unwrap()
}

fn changed(mut process: ProcessInfo, change: impl FnOnce(&mut ProcessInfo)) -> ProcessInfo {
    change(&mut process);
    process
}

fn some() -> Vec<ProcessInfo> {
    vec![
        changed(process(0xab12_0000_0001, "npm run dev -- --port 3000"), |p| {
            p.name = Some("dev-server".into());
            p.session_key = Some("chat:42".into());
            p.output_preview = Some("GET /items 200\n\nGET /items/7 404 in 3 ms\n".into());
            (p.pty, p.takes_input) = (true, true);
        }),
        changed(process(0xab12_0000_0002, "cargo test --workspace --all-features"), |p| {
            p.session_key = Some("chat:42".into());
            p.uptime_seconds = 45;
            p.labels.insert("app".into(), "shop".into());
            p.takes_input = true;
            p.output_preview = Some("   Compiling serde v1.0.229".into());
        }),
        changed(process(0xcd34_0000_0003, "printf '\x1b[31mred'\nsecond"), |p| {
            p.task_id = Some("日本語の仕事".into());
            p.uptime_seconds = 400_000;
            p.output_preview = Some("done \x1b[31mred\x1b[0m".into());
        }),
        changed(process(0xef56_0000_0004, "make release"), |p| {
            (p.status, p.phase) = (Status::Exited, "exited".into());
            (p.fate.exit_code, p.fate.completion_reason) = (Some(Some(101)), Some(Reason::Exited));
        }),
    ]
}

fn listed(processes: Vec<ProcessInfo>, at: Instant) -> News {
    let usage = processes.iter().filter(|p| p.status == Status::Running).filter_map(|p| p.pid).map(|pid| {
        let cpu = Some(f64::from(pid % 7) * 16.6);
        (pid, Usage { cpu, memory: u64::from(pid) << 16, processes: 3 })
    });
    News::Listed { usage: usage.collect(), processes, at }
}

fn app(processes: Vec<ProcessInfo>) -> App {
    let mut app = App::new(ListRequest { scope: Scope::default(), all: true });
    app.resize(80, 24);
    assert_eq!(app.news(listed(processes, Instant::now())), []);
    app
}

fn keys(app: &mut App, keys: &str) -> Vec<TopCommand> {
    keys.chars().flat_map(|c| app.key(Key::Char(c))).collect()
}

fn chosen(app: &App) -> ProcessId {
    app.list.chosen().unwrap().id()
}

fn screen(app: &mut App, cols: u16, rows: u16) -> String {
    app.resize(cols, rows);
    let mut terminal = Terminal::new(TestBackend::new(cols, rows)).unwrap();
    terminal.draw(|frame| view::draw(frame, app, TopPaint::Plain)).unwrap();
    let buffer = terminal.backend().buffer();
    let row = |y| {
        let (mut text, mut x) = (String::new(), 0);
        while x < cols {
            let symbol = buffer[(x, y)].symbol();
            text += symbol;
            // What lies under a wide character is not seen.
            x += symbol.width().max(1) as u16;
        }
        text.trim_end().to_owned() + "\n"
    };
    (0..rows).map(row).collect()
}

fn piece(from: u64, texts: impl IntoIterator<Item = String>) -> Piece {
    let (mut at, mut lines) = (from, Vec::new());
    for text in texts {
        let next = at + text.len() as u64 + 1;
        lines.push(LogLine { at, text, missing: false });
        at = next;
    }
    Piece { from, to: at, lines, is_last: true }
}

/// Opens the chosen process, with a log of `lines` lines at its end.
fn open(app: &mut App, lines: u64) -> ProcessId {
    let id = chosen(app);
    let commands = app.key(Key::Enter);
    let [TopCommand::Follow(of_id, of)] = commands[..] else { panic!("{commands:?}") };
    assert_eq!(of_id, id);
    let piece = piece(0, (0..lines).map(|i| format!("line {i:04}")));
    app.detail.as_mut().unwrap().row.info.output_bytes = piece.to;
    assert_eq!(app.news(News::Output { of, piece, fresh: true }), []);
    id
}

#[test]
fn a_list_on_a_small_screen() {
    let mut app = app(some());
    insta::assert_snapshot!(screen(&mut app, 80, 24));
}

#[test]
fn a_list_on_a_wide_screen() {
    let mut app = app(some());
    let later = Instant::now() + Duration::from_secs(2);
    let more = some().into_iter().map(|p| changed(p, |p| p.output_bytes = 4096)).collect();
    app.news(listed(more, later));
    insta::assert_snapshot!(screen(&mut app, 160, 12));
}

#[test]
fn every_size_can_be_drawn() {
    let mut app = app(some());
    for state in 0..5 {
        for (cols, rows) in [(1, 1), (19, 5), (20, 6), (40, 10), (48, 12), (60, 20), (71, 24), (100, 30), (300, 100)] {
            screen(&mut app, cols, rows);
        }
        match state {
            0 => drop(app.key(Key::Char('?'))),
            1 => drop((app.key(Key::Escape), app.key(Key::Ctrl('k')))),
            2 => drop((app.key(Key::Escape), keys(&mut app, "Sjjjjjjj"))),
            3 => {
                app.key(Key::Escape);
                open(&mut app, 50);
                keys(&mut app, "/words");
            }
            _ => {}
        }
    }
}

#[test]
fn a_thousand_processes_are_one_screen_of_rows() {
    let many = |from: u64| (from..from + 1000).map(|n| changed(process(n, &format!("sleep {n}")), |p| p.uptime_seconds = n)).collect();
    let mut app = app(many(1));
    app.key(Key::End);
    let last = chosen(&app);
    let text = screen(&mut app, 80, 24);
    assert!(text.contains("1000 running  0 finished") && text.contains(" 1000/1000\n") && text.lines().count() == 24, "{text}");
    assert_eq!(app.list.visible().count(), 20);
    // Others come and go; what was chosen stays chosen, and in sight.
    app.news(listed(many(500), Instant::now()));
    assert_eq!(chosen(&app), last);
    assert!(app.list.visible().any(|(row, is_chosen)| is_chosen && row.id() == last));
    // When it goes itself, its place is kept.
    app.news(listed(many(5000), Instant::now()));
    assert!(app.list.visible().any(|(_, is_chosen)| is_chosen));
    let began = Instant::now();
    for _ in 0..20 {
        app.news(listed(many(1), Instant::now()));
        app.key(Key::PageDown);
        screen(&mut app, 80, 24);
    }
    // Far more than it takes, also where nothing is optimized: a refresh must not be felt.
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn filters_narrow_the_list_and_escape_widens_it() {
    let mut app = app(some());
    keys(&mut app, "/CARGO");
    assert_eq!(app.list.visible().count(), 1);
    assert!(screen(&mut app, 80, 24).contains("filter: CARGO"));
    app.key(Key::Enter);
    assert!(screen(&mut app, 80, 24).contains("filter \"CARGO\""));
    app.key(Key::Escape);
    assert_eq!(app.list.visible().count(), 4);
    let found = [
        ("cd34", 1),
        ("chat:42", 2),
        ("dev-s", 1),
        ("日本語", 1),
        ("exited 101", 1),
        ("running", 3),
        ("failed", 1),
        ("APP=sh", 1),
        ("404 in 3 MS", 1),
        ("GET /items 200", 0),
        ("nothing", 0),
    ];
    for (text, want) in found {
        keys(&mut app, &format!("/{text}"));
        assert_eq!(app.list.visible().count(), want, "{text}");
        app.key(Key::Escape);
    }
    keys(&mut app, "/dev-s");
    app.key(Key::Enter);
    keys(&mut app, "s");
    app.key(Key::Escape);
    assert_eq!(app.list.visible().count(), 2, "only its session");
    assert!(screen(&mut app, 80, 24).contains("only chat:42"));
    app.key(Key::Escape);
    assert_eq!(app.list.visible().count(), 4);
    assert_eq!(app.key(Key::Escape), [TopCommand::Leave]);
}

#[test]
fn finished_ones_are_asked_for_when_they_are_wanted() {
    let mut app = app(some());
    let wanted = |all| TopCommand::List(ListRequest { scope: Scope::default(), all });
    assert_eq!(keys(&mut app, "a"), [wanted(false)]);
    assert_eq!(app.list.visible().count(), 3);
    assert_eq!(keys(&mut app, "a"), [wanted(true)]);
    keys(&mut app, "a");
    // One that is open and ends is asked for, so that its end can be shown.
    let id = open(&mut app, 3);
    let others = some().into_iter().filter(|p| p.session_id != id && p.status == Status::Running).collect();
    assert_eq!(app.news(listed(others, Instant::now())), [wanted(true)]);
    let ended: Vec<_> = some()
        .into_iter()
        .map(|p| if p.session_id == id { changed(p, |p| (p.status, p.phase) = (Status::Exited, "lost".into())) } else { p })
        .collect();
    assert_eq!(app.news(listed(ended, Instant::now())), []);
    assert!(screen(&mut app, 80, 24).lines().next().unwrap().ends_with("lost"));
    assert_eq!(app.key(Key::Escape), [TopCommand::CloseLog, wanted(false)]);
}

#[test]
fn rows_are_ordered_and_those_that_run_come_first() {
    let mut app = app(some());
    let order = |app: &App| app.list.visible().map(|(row, _)| row.digits()[..4].to_owned()).collect::<Vec<_>>();
    keys(&mut app, "M");
    assert_eq!(order(&app), ["cd34", "ab12", "ab12", "ef56"]);
    keys(&mut app, "O");
    assert_eq!(order(&app), ["ab12", "ab12", "cd34", "ef56"]);
    keys(&mut app, "oo");
    assert!(screen(&mut app, 80, 24).contains("▲PROCESS"));
}

/// What a request of the feed came to, for one process.
fn did(act: Act, id: ProcessId, result: Result<&str, &str>) -> News {
    News::Did { act, results: vec![(id, result.map(Into::into).map_err(Into::into))], started: None }
}

#[test]
fn j_and_k_move_and_stop_nothing() {
    let mut app = app(some());
    let first = chosen(&app);
    assert!(screen(&mut app, 80, 24).lines().next().unwrap().ends_with(" 1/4"));
    assert_eq!(keys(&mut app, "j"), []);
    assert!(chosen(&app) != first && screen(&mut app, 80, 24).lines().next().unwrap().ends_with(" 2/4"));
    assert_eq!(keys(&mut app, "k"), []);
    assert_eq!((chosen(&app), &app.over), (first, &None));
    keys(&mut app, "G");
    assert!(screen(&mut app, 80, 24).lines().next().unwrap().ends_with(" 4/4"));
    keys(&mut app, "g");
    assert_eq!(chosen(&app), first);
    // In a log they scroll.
    open(&mut app, 100);
    assert_eq!(keys(&mut app, "k"), [TopCommand::Pause]);
    assert!(!screen(&mut app, 80, 24).contains("line 0099") && app.over.is_none());
    assert!(matches!(keys(&mut app, "j")[..], [TopCommand::Follow(..)]));
    assert!(screen(&mut app, 80, 24).contains("line 0099"));
}

#[test]
fn a_stop_is_asked_for_and_can_be_refused() {
    let mut app = app(some());
    let id = chosen(&app);
    assert_eq!(app.key(Key::Ctrl('k')), []);
    insta::assert_snapshot!(screen(&mut app, 80, 24));
    assert_eq!(app.key(Key::Enter), [], "only a clear yes stops");
    assert!(matches!(&app.over, Some(Overlay::Confirm(Act::Stop, of, _)) if *of == [id]));
    assert_eq!(app.key(Key::Escape), []);
    assert!(screen(&mut app, 80, 24).contains("nothing was stopped"));
    app.key(Key::Ctrl('k'));
    assert_eq!(keys(&mut app, "y"), [TopCommand::Do(Act::Stop, vec![id])]);
    app.news(did(Act::Stop, id, Ok("it was stopped by SIGTERM")));
    assert!(screen(&mut app, 80, 24).contains("it was stopped by SIGTERM"));
    app.news(did(Act::Stop, id, Err("no")));
    assert!(screen(&mut app, 80, 24).contains(&format!("{id}: no")));
    // What has finished is not stopped.
    app.key(Key::End);
    app.key(Key::Ctrl('k'));
    assert_eq!(app.over, None);
    assert!(screen(&mut app, 80, 24).contains("exited with code 101"));
}

#[test]
fn what_a_finished_process_left_running_is_stopped() {
    let left = serde_json::json!([{"pid": 1234, "command": "sleep 89"}]);
    let done = changed(process(1, "sleep 89 & echo y"), |p| {
        (p.status, p.phase, p.fate.exit_code) = (Status::Exited, "exited".into(), Some(Some(0)));
        p.left = serde_json::from_value(left).unwrap();
    });
    let mut app = app(vec![done]);
    keys(&mut app, "a");
    assert!(!app.list.all && app.list.visible().count() == 1, "it is shown without the other finished ones");
    let id = chosen(&app);
    app.key(Key::Enter);
    assert!(screen(&mut app, 80, 24).contains("^K stop"), "{}", screen(&mut app, 80, 24));
    app.key(Key::Escape);
    app.key(Key::Ctrl('k'));
    assert!(screen(&mut app, 80, 24).contains("It left running: 1234 sleep 89"));
    assert_eq!(keys(&mut app, "y"), [TopCommand::Do(Act::Stop, vec![id])]);
}

#[test]
fn several_are_marked_and_dealt_with_together() {
    let mut app = app(some());
    let all: Vec<ProcessId> = app.list.visible().map(|(row, _)| row.id()).collect();
    keys(&mut app, " j ");
    let text = screen(&mut app, 80, 24);
    assert!(text.contains("2 marked") && text.lines().next().unwrap().ends_with(" 4/4"), "{text}");
    app.key(Key::Ctrl('k'));
    insta::assert_snapshot!("a_stop_of_several", screen(&mut app, 80, 24));
    assert_eq!(keys(&mut app, "y"), [TopCommand::Do(Act::Stop, vec![all[0], all[2]])]);
    let results = vec![(all[0], Ok("done".into())), (all[2], Err("it is not yours".into()))];
    app.news(News::Did { act: Act::Stop, results, started: None });
    assert!(screen(&mut app, 80, 24).contains(&format!("1 stopped, 1 not: {}: it is not yours", all[2])));
    // Only finished ones are removed, and the question says so.
    keys(&mut app, " ");
    app.key(Key::Ctrl('d'));
    let text = screen(&mut app, 80, 24);
    assert!(text.contains(&format!("Remove {}?", all[3])) && text.contains("2 of the marked processes still run and stay."), "{text}");
    assert_eq!(keys(&mut app, "y"), [TopCommand::Do(Act::Remove, vec![all[3]])]);
    app.news(did(Act::Remove, all[3], Ok("removed")));
    // The ids are copied together.
    let ids = [all[0], all[2], all[3]].map(|id| id.to_string()).join(" ");
    assert_eq!(keys(&mut app, "c"), [TopCommand::Copy(ids)]);
    assert!(screen(&mut app, 80, 24).contains("sent 3 ids to the clipboard of the terminal (OSC 52)"));
    // A marked one that a filter hides is left alone.
    keys(&mut app, "/dev-s");
    app.key(Key::Enter);
    app.key(Key::Ctrl('k'));
    assert!(screen(&mut app, 80, 24).contains(&format!("Stop {}?", all[0])));
    app.key(Key::Escape);
    app.key(Key::Escape);
    keys(&mut app, "U");
    assert!(!screen(&mut app, 80, 24).contains("marked"));
    // Marks of processes that are gone are gone.
    keys(&mut app, "g ");
    app.news(listed(some().into_iter().skip(1).collect(), Instant::now()));
    app.news(listed(some(), Instant::now()));
    assert_eq!(app.list.marked().count(), 0);
    keys(&mut app, "g ");
    assert_eq!(app.key(Key::Escape), [], "Esc removes the marks before it quits");
    assert_eq!(app.list.marked().count(), 0);
}

#[test]
fn a_signal_is_chosen_from_a_list() {
    let mut app = app(some());
    let id = chosen(&app);
    assert_eq!(app.key(Key::F9), []);
    insta::assert_snapshot!("signals", screen(&mut app, 80, 24));
    app.key(Key::Escape);
    assert!(screen(&mut app, 80, 24).contains("no signal was sent"));
    keys(&mut app, "Sjjk");
    let commands = app.key(Key::Enter);
    assert_eq!(commands, [TopCommand::Do(Act::Signal(SIGNALS[1]), vec![id])]);
    assert_eq!((SIGNALS[1].name, SIGNALS[1].number), ("INT", 2));
    keys(&mut app, "Sjjjjjjjjjjjjjjj");
    assert!(screen(&mut app, 40, 10).contains("KILL"), "the chosen one is in sight on a low screen");
    app.key(Key::Escape);
    keys(&mut app, "GS");
    assert_eq!(app.over, None, "a finished process gets no signal");
}

#[test]
fn a_rerun_is_asked_for_and_the_new_process_is_chosen() {
    let mut app = app(some());
    keys(&mut app, "G");
    let id = chosen(&app);
    keys(&mut app, "r");
    let text = screen(&mut app, 80, 24);
    assert!(text.contains(&format!("Run {id} again?")) && text.contains("make release"), "{text}");
    assert_eq!(keys(&mut app, "y"), [TopCommand::Do(Act::Rerun, vec![id])]);
    let new = process(0x77, "make release");
    let started = Some(new.session_id);
    app.news(News::Did { act: Act::Rerun, results: vec![(id, Ok("it runs again".into()))], started });
    assert_eq!(chosen(&app), id, "it is not listed yet");
    app.news(listed(some().into_iter().chain([new]).collect(), Instant::now()));
    assert_eq!(Some(chosen(&app)), started);
}

#[test]
fn a_running_process_is_not_removed() {
    let mut app = app(some());
    app.key(Key::Delete);
    assert_eq!(app.over, None);
    assert!(screen(&mut app, 80, 24).contains("still runs: stop it first"));
}

#[test]
fn the_head_adds_up_what_is_shown() {
    let mut app = app(some());
    let head = |app: &mut App, cols| screen(app, cols, 24).lines().next().unwrap().to_owned();
    assert_eq!(head(&mut app, 80), "outlast  3 of 4 running  0 finished  1 failed  cpu 199%  mem 220M            1/4");
    keys(&mut app, "/exited");
    app.key(Key::Enter);
    assert!(head(&mut app, 80).starts_with("outlast  0 of 1 running  0 finished  1 failed  filter \"exited\""), "{}", head(&mut app, 80));
    app.key(Key::Escape);
    keys(&mut app, "a");
    app.news(listed(some().into_iter().take(3).collect(), Instant::now()));
    assert!(head(&mut app, 80).starts_with("outlast  3 running  cpu "), "{}", head(&mut app, 80));
    // What does not fit is left out whole.
    assert_eq!(head(&mut app, 30), "outlast  3 running         3/3");
}

#[test]
fn a_process_that_is_open() {
    let mut app = app(some());
    open(&mut app, 100);
    insta::assert_snapshot!(screen(&mut app, 80, 24));
}

#[test]
fn a_log_is_paged_back_and_followed_again() {
    let mut app = app(some());
    let id = open(&mut app, 100);
    assert_eq!(app.key(Key::PageUp), [TopCommand::Pause]);
    let text = screen(&mut app, 80, 24);
    assert!(text.contains("line 0063\n") && text.contains("line 0081\n") && !text.contains("line 0099"), "{text}");
    // What comes meanwhile moves nothing.
    app.news(News::Output { of: 1, piece: piece(1000, ["late".into()]), fresh: false });
    assert!(!screen(&mut app, 80, 24).contains("late"));
    let commands = app.key(Key::PageDown);
    assert!(matches!(commands[..], [TopCommand::Follow(of, _)] if of == id), "{commands:?}");
    let commands = app.key(Key::Home);
    let [TopCommand::Read(_, LogPart::First, of)] = commands[..] else { panic!("{commands:?}") };
    app.news(News::Part { of, part: LogPart::First, piece: piece(0, (0..100).map(|i| format!("line {i:04}"))) });
    assert!(screen(&mut app, 80, 24).contains("line 0000\nline 0001\n"));
    let commands = keys(&mut app, "f");
    assert!(matches!(commands[..], [TopCommand::Follow(..)]) && app.detail.as_ref().unwrap().place == LogPosition::Following);
}

#[test]
fn what_lies_before_and_behind_is_read_when_it_is_needed_and_not_for_ever() {
    let mut app = app(some());
    app.key(Key::Enter);
    let detail = app.detail.as_mut().unwrap();
    detail.row.info.output_bytes = 100_000;
    let of = detail.asked();
    app.news(News::Output { of, piece: piece(50_000, (0..30).map(|i| format!("here {i:04}"))), fresh: true });
    let commands = app.key(Key::PageUp);
    let [TopCommand::Pause, TopCommand::Read(_, LogPart::Before(50_000), of)] = commands[..] else { panic!("{commands:?}") };
    // One at a time.
    assert_eq!(app.key(Key::PageUp), []);
    let before = piece(49_000, (0..100).map(|i| format!("old {i:05}")));
    assert_eq!(before.to, 50_000);
    let commands = app.news(News::Part { of, part: LogPart::Before(50_000), piece: before });
    let [TopCommand::Read(_, LogPart::After(from), of)] = commands[..] else { panic!("{commands:?}") };
    assert_eq!(from, 50_290, "the last line may have been unfinished");
    // Nothing is there: it is not asked for again until the log is longer.
    let nothing = Piece { from, to: 50_300, lines: vec![LogLine { at: from, text: "here 0029".into(), missing: false }], is_last: true };
    assert_eq!(app.news(News::Part { of, part: LogPart::After(from), piece: nothing }), []);
    assert_eq!(app.key(Key::Up), []);
    assert!(screen(&mut app, 80, 24).contains("old 00099\nhere 0000\n"));
}

#[test]
fn a_search_goes_to_what_it_finds_and_can_be_called_off() {
    let mut app = app(some());
    let id = open(&mut app, 100);
    keys(&mut app, "/0042");
    let commands = app.key(Key::Enter);
    let TopCommand::Search(_, words, SearchFrom::Nearest(at), of) = &commands[0] else { panic!("{commands:?}") };
    assert_eq!((words, *at), (&Words::new("0042"), 810));
    app.news(News::Searched { of: *of, at: 4096 });
    assert!(screen(&mut app, 80, 24).contains("looking for \"0042\" at 4 KiB, Esc stops"));
    assert_eq!(app.news(News::Found { of: *of, at: Some(420) }), [TopCommand::Pause]);
    let text = screen(&mut app, 80, 24);
    assert!(text.contains("line 0042") && text.contains("\"0042\"  n down  N up"), "{text}");
    let commands = keys(&mut app, "N");
    let [TopCommand::Search(_, _, SearchFrom::Up(420), of)] = commands[..] else { panic!("{commands:?}") };
    app.news(News::Found { of, at: None });
    assert!(screen(&mut app, 80, 24).contains("no further \"0042\" that way"));
    // One that is far away is read around.
    let commands = keys(&mut app, "n");
    let [TopCommand::Search(_, _, SearchFrom::Down(420), of)] = commands[..] else { panic!("{commands:?}") };
    let commands = app.news(News::Found { of, at: Some(700_000) });
    assert!(matches!(commands[..], [TopCommand::Read(of, LogPart::Around(700_000), _)] if of == id), "{commands:?}");
    keys(&mut app, "n");
    assert_eq!(app.key(Key::Escape), [TopCommand::StopSearching]);
    assert!(app.detail.as_ref().unwrap().search.is_none());
    // What it finds now comes too late.
    app.news(News::Found { of: app.detail.as_ref().unwrap().asked(), at: Some(1) });
    assert_eq!(app.key(Key::Escape), [TopCommand::CloseLog]);
}

#[test]
fn who_can_be_typed_to_is() {
    let mut app = app(some());
    let find = |app: &mut App, text: &str| {
        keys(app, &format!("/{text}"));
        app.key(Key::Enter);
        app.key(Key::Enter);
    };
    find(&mut app, "dev-server");
    let id = app.detail.as_ref().unwrap().id();
    assert_eq!(keys(&mut app, "i"), [TopCommand::Attach(id)]);
    keys(&mut app, "q");
    app.key(Key::Escape);
    find(&mut app, "cargo");
    let id = app.detail.as_ref().unwrap().id();
    assert_eq!(keys(&mut app, "iyes"), []);
    assert!(screen(&mut app, 80, 24).ends_with("type a line, Esc leaves, Ctrl-D ends its input> yes\n"));
    assert_eq!(app.key(Key::Enter), [TopCommand::Submit(id, "yes".into())]);
    assert_eq!(app.key(Key::Ctrl('d')), [TopCommand::EndInput(id)]);
    assert_eq!(app.detail.as_ref().unwrap().entry, TypedInput::None);
    keys(&mut app, "q");
    app.key(Key::Escape);
    find(&mut app, "printf");
    assert_eq!(keys(&mut app, "i"), []);
    assert!(screen(&mut app, 80, 24).contains("it takes no input"));
    // From the list, too: with a terminal at once, with a pipe below its log.
    keys(&mut app, "q");
    app.key(Key::Escape);
    keys(&mut app, "/dev-server");
    app.key(Key::Enter);
    let id = chosen(&app);
    assert_eq!(keys(&mut app, "i"), [TopCommand::Attach(id)]);
    assert!(app.detail.is_none());
    app.key(Key::Escape);
    keys(&mut app, "/cargo");
    app.key(Key::Enter);
    assert!(matches!(keys(&mut app, "i")[..], [TopCommand::Follow(..)]));
    assert_eq!(app.detail.as_ref().unwrap().entry, TypedInput::Line(String::new()));
}

#[test]
fn trouble_with_the_engine_is_told_until_it_is_over() {
    let mut app = app(some());
    app.news(News::Trouble("the engine does not answer".into()));
    assert!(screen(&mut app, 80, 24).lines().next().unwrap().ends_with("reconnecting: the engine does not answer"));
    assert_eq!(app.list.visible().count(), 4, "what was there stays");
    app.news(News::Listed { processes: some(), usage: HashMap::new(), at: Instant::now() });
    assert!(!screen(&mut app, 80, 24).contains("reconnecting"));
}

#[test]
fn help_names_the_keys() {
    let mut app = app(some());
    keys(&mut app, "?");
    insta::assert_snapshot!("help_list", screen(&mut app, 80, 24));
    app.key(Key::Escape);
    open(&mut app, 3);
    keys(&mut app, "?");
    insta::assert_snapshot!("help_detail", screen(&mut app, 80, 24));
    assert_eq!(keys(&mut app, "q"), [], "any key closes it, and does nothing else");
    assert!(app.over.is_none() && app.detail.is_some());
}

#[test]
fn help_that_does_not_fit_is_scrolled() {
    let mut app = app(some());
    app.resize(40, 12);
    keys(&mut app, "?");
    insta::assert_snapshot!("help_narrow", screen(&mut app, 40, 12));
    for _ in 0..100 {
        keys(&mut app, "j");
    }
    let text = screen(&mut app, 40, 12);
    assert!(text.contains("notices still come.") && text.contains("q closes"), "{text}");
    for _ in 0..100 {
        app.key(Key::Up);
    }
    assert!(screen(&mut app, 40, 12).contains("↑ ↓ j k"));
    assert_eq!((keys(&mut app, "q"), &app.over), (Vec::new(), &None));
}

/// A build of a conversation, its agent, one that has ended, and a process of another session.
fn of_conversations() -> Vec<ProcessInfo> {
    let of = |n, command: &str, session: &str| changed(process(n, command), |p| p.session_key = Some(session.into()));
    let agent = r#"/bin/sh -c 'eval "$OUTLAST_START"' outlast-agent opencode acp"#;
    let name = |p: &mut ProcessInfo| p.name = Some("agent".into());
    vec![
        of(1, "make release", "agent:main:local:dm:main"),
        changed(of(2, agent, "outlast:agent:agent:main:local:dm:main"), name),
        changed(of(3, agent, "outlast:agent:agent:main:local:dm:main"), |p| {
            name(p);
            (p.status, p.phase) = (Status::Exited, "exited".into());
        }),
        of(4, "sleep 1", "main"),
    ]
}

#[test]
fn conversations_and_their_agents_are_named_and_finished_agents_left_out() {
    let mut app = app(of_conversations());
    insta::assert_snapshot!(screen(&mut app, 120, 10));
}

#[test]
fn the_processes_of_a_conversation_and_its_agent_are_one_session() {
    let mut app = app(of_conversations());
    let shown = |app: &App| app.list.visible().map(|(row, _)| row.id().bytes()[5]).collect::<Vec<_>>();
    assert_eq!(shown(&app), [1, 2, 4]);
    keys(&mut app, "s");
    assert_eq!(shown(&app), [1, 2], "a session of another program with the same name is none of them");
    assert!(screen(&mut app, 80, 10).contains("only main"));
    app.key(Key::Ctrl('k'));
    let Some(Overlay::Confirm(_, _, lines)) = &app.over else { panic!("{:?}", app.over) };
    assert_eq!(lines.last().unwrap(), "It belongs to the conversation main.");
}
