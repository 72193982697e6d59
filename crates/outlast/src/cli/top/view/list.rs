//! The list of processes.

use super::{Paint, last_row, put, put_right, trouble};
use crate::cli::conversation::name_of;
use crate::cli::out::{Tone, tame};
use crate::cli::top::app::App;
use crate::cli::top::listing::Order;
use crate::cli::top::row::{Row, short_age, short_percent, short_size};
use ratatui::buffer::Buffer;
use ratatui::style::Style;

const KEYS: &str = "Enter open  / filter  a all  s session  o order  k stop  ? help  q quit";
/// From this width on, a name and a command have a column each, and an id all its digits.
const WIDE: usize = 120;

/// What a column shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
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

impl Column {
    fn head(self) -> &'static str {
        match self {
            Self::Id => "ID",
            Self::Process => "PROCESS",
            Self::Name => "NAME",
            Self::State => "STATE",
            Self::Cpu => "CPU%",
            Self::Memory => "MEM",
            Self::Rate => "OUT/s",
            Self::Age => "AGE",
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

    fn cell(self, row: &Row, paint: Paint) -> (String, Style) {
        let plain = |text| (text, Style::new());
        let quiet = |text| (text, paint.tone(Tone::Quiet));
        let usage = row.usage.as_ref();
        match self {
            Self::Id => quiet(row.digits()),
            Self::Process => plain(row.title()),
            Self::Name => plain(tame(row.info.name.as_deref().unwrap_or_default())),
            Self::State => {
                let (text, tone) = row.standing();
                (text, paint.tone(tone))
            }
            Self::Cpu => plain(usage.and_then(|u| u.cpu).map(short_percent).unwrap_or_default()),
            Self::Memory => plain(usage.map(|u| short_size(u.memory as f64)).unwrap_or_default()),
            Self::Rate => plain(row.rate.filter(|_| row.is_running()).map(short_size).unwrap_or_default()),
            Self::Age => plain(short_age(row.info.uptime_seconds)),
            Self::Owner => plain(row.owner()),
            Self::Command => plain(row.command()),
            Self::LastLine => quiet(row.last_line()),
        }
    }
}

/// The columns for a width, each with its own: what matters less gives way. `longest`: the longest name there is to show.
fn columns(width: usize, owned: bool, longest: usize) -> Vec<(Column, usize)> {
    use Column::*;
    let mut fixed = vec![(State, 10), (Cpu, 5), (Memory, 5), (Rate, 5), (Age, 4)];
    if owned && width >= 72 {
        fixed.push((Owner, if width >= WIDE { 14 } else { 8 }));
    }
    if width >= WIDE {
        let rest = width.saturating_sub(12 + 1 + taken(&fixed));
        let (name, command) = (rest * 2 / 10, rest * 4 / 10);
        let last = rest.saturating_sub(name + command + 2);
        return [vec![(Id, 12), (Name, name)], fixed, vec![(Command, command), (LastLine, last)]].concat();
    }
    if width < 48 {
        fixed.retain(|(c, _)| !matches!(c, Rate | Memory));
    }
    let rest = width.saturating_sub(6 + 1 + taken(&fixed));
    if width < 60 {
        return [vec![(Id, 6), (Process, rest)], fixed].concat();
    }
    let process = longest.clamp(7, (rest * 2 / 5).max(7));
    [vec![(Id, 6), (Process, process)], fixed, vec![(LastLine, rest.saturating_sub(process + 1))]].concat()
}

fn taken(columns: &[(Column, usize)]) -> usize {
    columns.iter().map(|(_, width)| width + 1).sum()
}

/// Draws the list. Where the cursor is, if something is typed.
pub(super) fn draw(buffer: &mut Buffer, app: &App, paint: Paint) -> Option<u16> {
    let (width, height) = (usize::from(buffer.area.width), buffer.area.height);
    draw_head(buffer, app, paint);
    let columns = columns(width, app.list.is_owned(), app.list.longest_title());
    let mut x = 0;
    for (column, room) in &columns {
        let is_order = column.is_ordered_by(app.list.order);
        let arrow = if app.list.reversed { "▲" } else { "▼" };
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
            let style = if is_chosen { paint.chosen() } else { style };
            put_cell(buffer, x, y, (*column, *room), &text, style);
            x += *room as u16 + 1;
        }
    }
    if app.list.counts().1 == 0 {
        put(buffer, 0, 3, width, &nothing(app), paint.tone(Tone::Quiet));
    }
    if let Some(row) = app.list.chosen() {
        let used = put(buffer, 0, height - 2, width, &row.id().to_string(), paint.head());
        put(buffer, used as u16 + 2, height - 2, width.saturating_sub(used + 2), &row.command(), Style::new());
    }
    let typed = app.list.is_typing.then_some(("filter: ", app.list.filter.as_str()));
    last_row(buffer, app, typed, KEYS, paint)
}

fn put_cell(buffer: &mut Buffer, x: u16, y: u16, (column, room): (Column, usize), text: &str, style: Style) {
    use unicode_width::UnicodeWidthStr as _;
    // An id is shortened to what still names it, and needs no mark for that.
    let text = if column == Column::Id { &text[..text.len().min(room)] } else { text };
    let before = if column.is_number() { room.saturating_sub(text.width()) } else { 0 };
    put(buffer, x + before as u16, y, room - before, text, style);
}

fn draw_head(buffer: &mut Buffer, app: &App, paint: Paint) {
    let list = &app.list;
    let (running, shown) = list.counts();
    let mut head = format!("{running} running, {shown} shown");
    let mut add = |text: String| head += &format!("  {text}");
    if list.all {
        add("finished too".into());
    }
    if let Some(scope) = app.scope() {
        add(tame(&scope));
    }
    if let Some(session) = &list.session {
        add(format!("only {}", tame(name_of(session))));
    }
    if !list.filter.is_empty() && !list.is_typing {
        add(format!("filter {:?}", list.filter));
    }
    let right = match trouble(app) {
        Some(trouble) => put_right(buffer, 0, &trouble, paint.tone(Tone::Bad)),
        None => put_right(buffer, 0, &format!("by {}", list.order.word()), paint.tone(Tone::Quiet)),
    };
    let room = usize::from(buffer.area.width).saturating_sub(right + 1);
    let used = put(buffer, 0, 0, room, "outlast", paint.head());
    put(buffer, used as u16 + 2, 0, room.saturating_sub(used + 2), &head, Style::new());
}

fn nothing(app: &App) -> String {
    let list = &app.list;
    if !list.is_known {
        return "asking the engine …".into();
    }
    if !list.filter.is_empty() || list.session.is_some() {
        return "nothing has that; Esc shows the others".into();
    }
    if list.all { "no processes".into() } else { "nothing runs; a shows finished processes".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_fill_any_width_and_never_more() {
        for (width, owned) in (20..400).flat_map(|width| [(width, true), (width, false)]) {
            let columns = columns(width, owned, 30);
            let sum = taken(&columns) - 1;
            assert!(width < 40 || sum <= width, "{width}: {sum} {columns:?}");
            assert!(width < 48 || sum + 3 >= width, "{width}: {sum} {columns:?}");
        }
        assert!(columns(80, true, 30).iter().any(|(c, room)| *c == Column::LastLine && *room >= 16));
    }
}
