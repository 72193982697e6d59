//! The list of processes.

use super::{TopPaint, fitting, last_row, put, put_right, trouble};
use crate::cli::conversation::name_of;
use crate::cli::ending;
use crate::cli::out::{Tone, tame};
use crate::cli::top::app::App;
use crate::cli::top::listing::Order;
use crate::cli::top::row::{Row, short_age, short_percent, short_size};
use ratatui::buffer::Buffer;
use ratatui::style::Style;

const KEYS: [&str; 9] = ["Enter open", "/ filter", "a all", "Space mark", "^K stop", "^D remove", "r rerun", "S signal", "s session"];
const LAST_KEYS: [&str; 2] = ["? help", "q quit"];
/// From this width on, name and command have a column each, and the id is shown whole.
const WIDE: usize = 120;

/// What a column shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TopColumn {
    Id,
    /// The name, or the command where there is none.
    Process,
    Name,
    State,
    Cpu,
    Memory,
    Rate,
    Age,
    Owner,
    Command,
    LastLine,
}

impl TopColumn {
    fn head(self) -> &'static str {
        match self {
            Self::Id => "ID",
            Self::Process => "PROCESS",
            Self::Name => "NAME",
            Self::State => "STATE",
            Self::Cpu => "CPU%",
            Self::Memory => "MEM",
            Self::Rate => "OUT/s",
            Self::Age => "TIME",
            Self::Owner => "OWNER",
            Self::Command => "COMMAND",
            Self::LastLine => "LAST LINE",
        }
    }

    fn is_number(self) -> bool {
        matches!(self, Self::Cpu | Self::Memory | Self::Rate | Self::Age)
    }

    fn is_ordered_by(self, order: Order) -> bool {
        match order {
            Order::Age => self == Self::Age,
            Order::Cpu => self == Self::Cpu,
            Order::Memory => self == Self::Memory,
            Order::Rate => self == Self::Rate,
            Order::Process => matches!(self, Self::Process | Self::Name),
            Order::Owner => self == Self::Owner,
        }
    }

    fn cell(self, row: &Row, paint: TopPaint) -> (String, Style) {
        let plain = |text| (text, Style::new());
        let quiet = |text| (text, paint.tone(Tone::Quiet));
        let usage = row.usage.as_ref();
        match self {
            Self::Id => quiet(row.digits()),
            Self::Process => plain(row.title()),
            Self::Name => plain(tame(row.info.name.as_deref().unwrap_or_default())),
            Self::State => {
                let (text, tone) = row.short_standing();
                (text, paint.tone(tone))
            }
            Self::Cpu => plain(usage.and_then(|u| u.cpu).map(short_percent).unwrap_or_default()),
            Self::Memory => plain(usage.map(|u| short_size(u.memory as f64)).unwrap_or_default()),
            Self::Rate => plain(row.rate.filter(|_| row.is_running()).map(short_size).unwrap_or_default()),
            Self::Age => plain(ending::time(&row.info, short_age).unwrap_or_default()),
            Self::Owner => plain(row.owner()),
            Self::Command => plain(row.command()),
            Self::LastLine => quiet(row.last_line()),
        }
    }
}

/// The widths of the longest texts on the screen, which decide how wide columns are.
#[derive(Debug, Clone, Copy)]
struct Longest {
    /// 0 if no process has an owner.
    owner: usize,
    name: usize,
    title: usize,
    state: usize,
}

/// The columns for a width, each with its width. If there is little room, the less important ones are left out.
fn columns(width: usize, longest: Longest) -> Vec<(TopColumn, usize)> {
    use TopColumn::*;
    let is_wide = width >= WIDE;
    let state = longest.state.clamp(7, if width >= 72 { 16 } else { 10 });
    let mut fixed = vec![(State, state), (Cpu, 5), (Memory, 5), (Rate, 5), (Age, if width < 32 { 4 } else { 5 })];
    if longest.owner > 0 && width >= 72 {
        fixed.push((Owner, longest.owner.clamp(6, if is_wide { 16 } else { 8 })));
    }
    if is_wide {
        let rest = width.saturating_sub(12 + 1 + taken(&fixed));
        let name = longest.name.clamp(4, rest / 3);
        let command = (rest - name) / 2;
        let last = rest.saturating_sub(name + command + 2);
        return [vec![(Id, 12), (Name, name)], fixed, vec![(Command, command), (LastLine, last)]].concat();
    }
    if width < 48 {
        fixed.retain(|(c, _)| !matches!(c, Rate | Memory));
    }
    if width < 40 {
        fixed.retain(|(c, _)| *c != Cpu);
    }
    let id = if width < 32 { Vec::new() } else { vec![(Id, 6)] };
    let rest = width.saturating_sub(taken(&id) + taken(&fixed));
    if width < 60 {
        return [id, vec![(Process, rest)], fixed].concat();
    }
    let process = longest.title.clamp(7, (rest * 2 / 5).max(7));
    [id, vec![(Process, process)], fixed, vec![(LastLine, rest.saturating_sub(process + 1))]].concat()
}

fn taken(columns: &[(TopColumn, usize)]) -> usize {
    columns.iter().map(|(_, width)| width + 1).sum()
}

/// Draws the list. Returns the column of the cursor if the user is typing.
pub(super) fn draw(buffer: &mut Buffer, app: &App, paint: TopPaint) -> Option<u16> {
    let (width, height) = (usize::from(buffer.area.width), buffer.area.height);
    let list = &app.list;
    let longest = Longest {
        owner: list.longest(Row::owner),
        name: list.longest(|row| tame(row.info.name.as_deref().unwrap_or_default())),
        title: list.longest(Row::title),
        state: list.longest(|row| row.short_standing().0),
    };
    let columns = columns(width, longest);
    draw_head(buffer, app, columns.iter().any(|(column, _)| column.is_ordered_by(list.order)), paint);
    let mut x = 0;
    for (column, room) in &columns {
        let is_order = column.is_ordered_by(app.list.order);
        let arrow = if app.list.order.is_falling() == app.list.reversed { "▲" } else { "▼" };
        let head = if is_order { format!("{arrow}{}", column.head()) } else { column.head().to_owned() };
        put_cell(buffer, x, 1, (*column, *room), &head, paint.tone(Tone::Quiet));
        x += *room as u16 + 1;
    }
    for (y, (row, is_chosen)) in (2..).zip(app.list.visible()) {
        if is_chosen {
            buffer.set_style(ratatui::layout::Rect::new(0, y, buffer.area.width, 1), paint.chosen());
        }
        let mut x = 0;
        for (column, room) in &columns {
            let (text, style) = column.cell(row, paint);
            let style = match (list.is_marked(row), is_chosen) {
                (true, true) => paint.marked().patch(paint.chosen()),
                (true, false) => paint.marked(),
                (false, true) => paint.chosen(),
                (false, false) => style,
            };
            put_cell(buffer, x, y, (*column, *room), &text, style);
            x += *room as u16 + 1;
        }
        if list.is_marked(row)
            && let Some((_, first)) = columns.first()
        {
            // Between the first two columns, so that it is visible without colours.
            put(buffer, *first as u16, y, 1, "*", if is_chosen { paint.chosen() } else { paint.marked() });
        }
    }
    if app.list.totals().shown == 0 {
        put(buffer, 0, 3, width, &nothing(app), paint.tone(Tone::Quiet));
    }
    if let Some(row) = app.list.chosen() {
        let used = put(buffer, 0, height - 2, width, &row.id().to_string(), paint.head());
        put(buffer, used as u16 + 2, height - 2, width.saturating_sub(used + 2), &row.command(), Style::new());
    }
    let typed = app.list.is_typing.then_some(("filter: ", app.list.filter.as_str()));
    last_row(buffer, app, typed, &fitting(&KEYS, &LAST_KEYS, width), paint)
}

fn put_cell(buffer: &mut Buffer, x: u16, y: u16, (column, room): (TopColumn, usize), text: &str, style: Style) {
    use unicode_width::UnicodeWidthStr as _;
    // A shortened id still names the process, so it needs no mark.
    let text = if column == TopColumn::Id { &text[..text.len().min(room)] } else { text };
    let before = if column.is_number() { room.saturating_sub(text.width()) } else { 0 };
    put(buffer, x + before as u16, y, room - before, text, style);
}

/// The first row: totals and what narrows the list on the left, the position on the right.
fn draw_head(buffer: &mut Buffer, app: &App, is_order_shown: bool, paint: TopPaint) {
    let list = &app.list;
    let totals = list.totals();
    let mut parts = vec![match totals.running == totals.shown {
        true => format!("{} running", totals.running),
        false => format!("{} of {} running", totals.running, totals.shown),
    }];
    parts.extend(list.all.then(|| format!("{} finished", totals.shown - totals.running - totals.failed)));
    parts.extend((totals.failed > 0).then(|| format!("{} failed", totals.failed)));
    let marked = list.marked().count();
    parts.extend((marked > 0).then(|| format!("{marked} marked")));
    parts.extend(app.scope().map(|scope| tame(&scope)));
    parts.extend(list.session.as_ref().map(|session| format!("only {}", tame(name_of(session)))));
    parts.extend((!list.filter.is_empty() && !list.is_typing).then(|| format!("filter {:?}", list.filter)));
    parts.extend(totals.cpu.map(|cpu| format!("cpu {}%", short_percent(cpu))));
    parts.extend(totals.memory.map(|memory| format!("mem {}", short_size(memory as f64))));
    parts.extend((!is_order_shown).then(|| format!("by {}", list.order.word())));
    let right = match (trouble(app), list.position()) {
        (Some(trouble), _) => put_right(buffer, 0, &trouble, paint.tone(Tone::Bad)),
        (None, Some(position)) => put_right(buffer, 0, &format!("{position}/{}", totals.shown), paint.tone(Tone::Quiet)),
        (None, None) => 0,
    };
    let room = usize::from(buffer.area.width).saturating_sub(right + 1);
    let used = put(buffer, 0, 0, room, "outlast", paint.head());
    let room = room.saturating_sub(used + 2);
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    put(buffer, used as u16 + 2, 0, room, &fitting(&parts, &[], room), Style::new());
}

fn nothing(app: &App) -> String {
    let list = &app.list;
    if !list.is_known {
        return "asking the engine …".into();
    }
    if !list.filter.is_empty() || list.session.is_some() {
        return "no process matches; Esc shows the others".into();
    }
    if list.all { "no processes".into() } else { "nothing runs; a shows finished processes".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_fill_any_width_and_never_more() {
        for (width, owner, other) in (20..400).flat_map(|width| [(width, 30, 30), (width, 0, 7), (width, 3, 0)]) {
            let columns = columns(width, Longest { owner, name: other, title: other, state: other });
            let sum = taken(&columns) - 1;
            assert!(sum <= width, "{width}: {sum} {columns:?}");
            assert!(sum + 3 >= width, "{width}: {sum} {columns:?}");
            let process = columns.iter().find(|(c, _)| matches!(c, TopColumn::Process | TopColumn::Name)).map(|(_, room)| *room);
            assert!(process >= Some(4), "{width}: {columns:?}");
        }
        let columns = columns(80, Longest { owner: 30, name: 30, title: 30, state: 10 });
        assert!(columns.iter().any(|(c, room)| *c == TopColumn::LastLine && *room >= 16));
    }
}
