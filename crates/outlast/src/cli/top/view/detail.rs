//! The open process: facts above, its log below.

use super::{TopPaint, fitting, last_row, put, put_right, trouble};
use crate::cli::ending;
use crate::cli::out::{Tone, tame};
use crate::cli::times;
use crate::cli::top::app::{AROUND_LOG, App};
use crate::cli::top::detail::{Detail, LogPosition, SearchState, TypedInput};
use crate::cli::top::row::{short_percent, short_size};
use ratatui::buffer::Buffer;
use ratatui::style::Style;

/// Draws the open process. Returns the column of the cursor if the user is typing.
pub(super) fn draw(buffer: &mut Buffer, app: &App, detail: &Detail, paint: TopPaint) -> Option<u16> {
    let width = usize::from(buffer.area.width);
    draw_head(buffer, app, detail, paint);
    put(buffer, 0, 1, width, &detail.row.command(), Style::new());
    put(buffer, 0, 2, width, &facts(detail), paint.tone(Tone::Quiet));
    draw_rule(buffer, detail, paint);
    draw_log(buffer, detail, paint);
    let typed = match &detail.entry {
        TypedInput::None => None,
        TypedInput::Words(text) => Some(("search: ", text.as_str())),
        TypedInput::Line(text) => Some(("type a line, Esc leaves, Ctrl-D ends its input> ", text.as_str())),
    };
    let mut keys = vec!["j k PgUp PgDn scroll", "/ search"];
    keys.extend(detail.search.is_some().then_some("n N next"));
    keys.extend((detail.place != LogPosition::Following).then_some("f follow"));
    keys.extend(detail.row.info.takes_input.then_some("i type"));
    keys.push(if detail.row.is_running() || detail.row.has_left() { "^K stop" } else { "^D remove" });
    keys.push("r rerun");
    let keys = fitting(&keys, &["? help", "q back"], width);
    last_row(buffer, app, typed, &keys, paint)
}

fn draw_head(buffer: &mut Buffer, app: &App, detail: &Detail, paint: TopPaint) {
    let (standing, tone) = match detail.is_gone {
        true => ("no longer kept".into(), Tone::Bad),
        false => detail.row.standing(),
    };
    let (right, style) = match trouble(app) {
        Some(trouble) => (trouble, paint.tone(Tone::Bad)),
        None => (standing, paint.tone(tone)),
    };
    let used = put_right(buffer, 0, &right, style);
    let room = usize::from(buffer.area.width).saturating_sub(used + 1);
    let name = detail.row.info.name.as_deref().map(|n| format!("  {}", tame(n))).unwrap_or_default();
    put(buffer, 0, 0, room, &format!("{}{name}", detail.row.id()), paint.head());
}

/// The facts about it, the most important first.
fn facts(detail: &Detail) -> String {
    let (row, info) = (&detail.row, &detail.row.info);
    let mut facts = Vec::new();
    if let Some(pid) = info.pid.filter(|_| row.is_running()) {
        facts.push(format!("pid {pid}"));
    }
    facts.extend(ending::time(info, times::age));
    if let Some(usage) = &row.usage {
        let cpu = usage.cpu.map(|cpu| format!("cpu {}%  ", short_percent(cpu))).unwrap_or_default();
        facts.push(format!("{cpu}mem {}", short_size(usage.memory as f64)));
        facts.push(format!("{} {}", usage.processes, if usage.processes == 1 { "process" } else { "processes" }));
    }
    facts.push(format!("output {}", times::size(info.output_bytes)));
    let rate = row.rate.filter(|rate| *rate >= 1.0 && row.is_running());
    facts.extend(rate.map(|rate| format!("{}/s", short_size(rate))));
    facts.extend(match detail.row.conversation() {
        Some(of) if of.is_agent => Some(format!("agent of chat {}", tame(of.name()))),
        Some(of) => Some(format!("chat {}", tame(of.name()))),
        None => info.session_key.as_ref().map(|s| format!("session {}", tame(s))),
    });
    facts.extend(info.task_id.as_ref().map(|t| format!("task {}", tame(t))));
    facts.push(tame(&info.cwd));
    facts.extend(info.warnings.iter().map(|w| tame(w)));
    facts.join("  ")
}

/// The line above the log: the position of the screen in it, and the state of the search.
fn draw_rule(buffer: &mut Buffer, detail: &Detail, paint: TopPaint) {
    let width = usize::from(buffer.area.width);
    put(buffer, 0, 3, width, &"─".repeat(width), paint.tone(Tone::Quiet));
    let place = match detail.place {
        LogPosition::Following if detail.row.is_running() => " following ".to_owned(),
        LogPosition::Following => " end ".to_owned(),
        LogPosition::At(_) => format!(" {}% of {} ", detail.percent(), times::size(detail.row.info.output_bytes)),
    };
    put_right(buffer, 3, &place, paint.head());
    if let Some(search) = &detail.search {
        let words = tame(search.words.text());
        let (text, tone) = match search.state {
            SearchState::Looking(at) => (format!(" looking for {words:?} at {}, Esc stops ", times::size(at)), Tone::Busy),
            SearchState::Found => (format!(" {words:?}  n down  N up "), Tone::Good),
            SearchState::Nowhere if search.last.is_some() => (format!(" no further {words:?} that way "), Tone::Bad),
            SearchState::Nowhere => (format!(" {words:?} is nowhere in the log "), Tone::Bad),
        };
        put(buffer, 2, 3, width.saturating_sub(place.len() + 3), &text, paint.tone(tone));
    }
}

fn draw_log(buffer: &mut Buffer, detail: &Detail, paint: TopPaint) {
    let width = usize::from(buffer.area.width);
    let rows = usize::from(buffer.area.height).saturating_sub(AROUND_LOG);
    let first = AROUND_LOG as u16 - 1;
    if detail.window.is_empty() {
        put(buffer, 0, first, width, "no output yet", paint.tone(Tone::Quiet));
    }
    for (i, (line, text)) in detail.window.rows(detail.top(), width, rows).into_iter().enumerate() {
        let y = first + i as u16;
        let style = if line.missing { paint.tone(Tone::Busy) } else { Style::new() };
        let text = tame(text);
        put(buffer, 0, y, width, &text, style);
        if let Some(search) = &detail.search {
            use unicode_width::UnicodeWidthStr as _;
            for (from, to) in search.words.in_text(&text) {
                put(buffer, text[..from].width() as u16, y, text[from..to].width(), &text[from..to], paint.found());
            }
        }
    }
}
