//! The list: which processes are shown, in which order, and which one is chosen.

use super::row::Row;
use crate::cli::terminal::Key;
use crate::os::Usage;
use outlast_client::{ProcessId, ProcessInfo};
use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::time::Instant;
use unicode_width::UnicodeWidthStr as _;

/// The order of the rows. Running processes always come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// The newest first.
    Age,
    /// The highest use first.
    Cpu,
    Memory,
    /// The most output first.
    Rate,
    Process,
    Owner,
}

impl Order {
    const ALL: [Self; 6] = [Self::Age, Self::Cpu, Self::Memory, Self::Rate, Self::Process, Self::Owner];

    fn next(self) -> Self {
        let at = Self::ALL.iter().position(|o| *o == self).unwrap_or(0);
        Self::ALL[(at + 1) % Self::ALL.len()]
    }

    /// Whether the values become less from row to row, unless the order is reversed.
    pub(super) fn is_falling(self) -> bool {
        match self {
            Self::Cpu | Self::Memory | Self::Rate => true,
            Self::Age | Self::Process | Self::Owner => false,
        }
    }

    /// Its name in the head of the list.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Age => "age",
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Rate => "output",
            Self::Process => "process",
            Self::Owner => "owner",
        }
    }

    fn compare(self, a: &Row, b: &Row) -> Ordering {
        let used = |row: &Row, what: fn(&Usage) -> f64| row.usage.as_ref().map_or(-1.0, what);
        match self {
            Self::Age => b.info.started_at.cmp(&a.info.started_at),
            Self::Cpu => used(b, |u| u.cpu.unwrap_or(0.0)).total_cmp(&used(a, |u| u.cpu.unwrap_or(0.0))),
            Self::Memory => used(b, |u| u.memory as f64).total_cmp(&used(a, |u| u.memory as f64)),
            Self::Rate => b.rate.unwrap_or(0.0).total_cmp(&a.rate.unwrap_or(0.0)),
            Self::Process => a.title().to_lowercase().cmp(&b.title().to_lowercase()),
            Self::Owner => a.owner().cmp(&b.owner()),
        }
    }
}

/// Totals of the shown processes.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(super) struct Totals {
    pub(super) shown: usize,
    pub(super) running: usize,
    /// Finished, but neither with exit code 0 nor stopped by a user.
    pub(super) failed: usize,
    /// In percent of one core, if it is known for any.
    pub(super) cpu: Option<f64>,
    /// In bytes, if it is known for any.
    pub(super) memory: Option<u64>,
}

/// The list: all rows, which of them are shown, and which one is chosen.
#[derive(Debug)]
pub(super) struct Listing {
    rows: Vec<Row>,
    /// Indexes of the shown rows, in order.
    shown: Vec<usize>,
    chosen: Option<ProcessId>,
    /// The process to choose as soon as it is listed.
    next_chosen: Option<ProcessId>,
    /// The processes that the next act applies to, as far as they are shown.
    marked: BTreeSet<ProcessId>,
    /// Whether finished processes are shown, too.
    pub(super) all: bool,
    /// The first row on the screen.
    top: usize,
    pub(super) order: Order,
    pub(super) reversed: bool,
    /// Text that a row must contain.
    pub(super) filter: String,
    /// Whether keys go into the filter.
    pub(super) is_typing: bool,
    /// Show only the processes of this session; for a conversation, also its agent.
    pub(super) session: Option<String>,
    /// The number of rows for it on the screen.
    height: usize,
    before: HashMap<ProcessId, (u64, Instant)>,
    /// Whether a list has arrived.
    pub(super) is_known: bool,
}

impl Listing {
    pub(super) fn new(all: bool) -> Self {
        Self {
            rows: Vec::new(),
            shown: Vec::new(),
            chosen: None,
            next_chosen: None,
            marked: BTreeSet::new(),
            all,
            top: 0,
            order: Order::Age,
            reversed: false,
            filter: String::new(),
            is_typing: false,
            session: None,
            height: 1,
            before: HashMap::new(),
            is_known: false,
        }
    }

    /// Takes a new list. The chosen process stays chosen; if it is gone, the one in its place is chosen.
    pub(super) fn update(&mut self, processes: Vec<ProcessInfo>, usage: &HashMap<u32, Usage>, at: Instant) {
        self.is_known = true;
        let place = self.place().unwrap_or(0);
        let before = std::mem::take(&mut self.before);
        self.rows = processes
            .into_iter()
            .map(|info| {
                let rate = before.get(&info.session_id).and_then(|(bytes, then)| {
                    let passed = at.saturating_duration_since(*then).as_secs_f64();
                    (passed > 0.0).then(|| info.output_bytes.saturating_sub(*bytes) as f64 / passed)
                });
                self.before.insert(info.session_id, (info.output_bytes, at));
                let usage = info.pid.and_then(|pid| usage.get(&pid)).copied();
                Row { info, rate, usage }
            })
            .collect();
        let rows = &self.rows;
        self.marked.retain(|id| rows.iter().any(|row| row.id() == *id));
        if let Some(next) = self.next_chosen.take_if(|next| rows.iter().any(|row| row.id() == *next)) {
            self.chosen = Some(next);
        }
        self.arrange(place);
    }

    /// Chooses a process as soon as it is listed.
    pub(super) fn choose_next(&mut self, id: ProcessId) {
        self.next_chosen = Some(id);
    }

    pub(super) fn is_marked(&self, row: &Row) -> bool {
        self.marked.contains(&row.id())
    }

    /// The processes that are marked and shown, in order.
    pub(super) fn marked(&self) -> impl Iterator<Item = &Row> {
        self.shown.iter().map(|i| &self.rows[*i]).filter(|row| self.is_marked(row))
    }

    /// Sets the number of rows on the screen.
    pub(super) fn resize(&mut self, height: usize) {
        self.height = height.max(1);
        self.keep_in_sight();
    }

    pub(super) fn find(&self, id: ProcessId) -> Option<&Row> {
        self.rows.iter().find(|r| r.id() == id)
    }

    pub(super) fn chosen(&self) -> Option<&Row> {
        self.find(self.chosen?)
    }

    /// Totals of the shown processes.
    pub(super) fn totals(&self) -> Totals {
        let mut totals = Totals { shown: self.shown.len(), ..Totals::default() };
        for row in self.shown.iter().map(|i| &self.rows[*i]) {
            totals.running += usize::from(row.is_running());
            totals.failed += usize::from(row.is_failed());
            let Some(usage) = &row.usage else { continue };
            totals.memory = Some(totals.memory.unwrap_or(0) + usage.memory);
            totals.cpu = totals.cpu.into_iter().chain(usage.cpu).reduce(|a, b| a + b);
        }
        totals
    }

    /// The position of the chosen process among the shown ones, counted from 1.
    pub(super) fn position(&self) -> Option<usize> {
        self.place().map(|place| place + 1)
    }

    /// The width of the longest of these texts on the screen.
    pub(super) fn longest(&self, text: impl Fn(&Row) -> String) -> usize {
        self.visible().map(|(row, _)| text(row).width()).max().unwrap_or(0)
    }

    /// The rows on the screen, and whether each is the chosen one.
    pub(super) fn visible(&self) -> impl Iterator<Item = (&Row, bool)> {
        let rows = self.shown.iter().skip(self.top).take(self.height).map(|i| &self.rows[*i]);
        rows.map(|row| (row, Some(row.id()) == self.chosen))
    }

    /// Handles a key. Returns whether the list has a meaning for it.
    pub(super) fn key(&mut self, key: Key) -> bool {
        if self.is_typing {
            self.type_filter(key);
            return true;
        }
        let place = self.place().unwrap_or(0);
        let page = self.height.saturating_sub(1).max(1) as isize;
        match key {
            Key::Up | Key::Char('k') => self.step(-1),
            Key::Down | Key::Char('j') => self.step(1),
            Key::PageUp => self.step(-page),
            Key::PageDown => self.step(page),
            Key::Home | Key::Char('g') => self.step(isize::MIN / 2),
            Key::End | Key::Char('G') => self.step(isize::MAX / 2),
            Key::Char(' ') => {
                if let Some(id) = self.chosen
                    && !self.marked.remove(&id)
                {
                    self.marked.insert(id);
                }
                self.step(1);
            }
            Key::Char('U') => self.marked.clear(),
            Key::Char('a') => self.all = !self.all,
            Key::Char('/') => self.is_typing = true,
            Key::Char('o') => self.order_by(self.order.next()),
            Key::Char('O') => self.reversed = !self.reversed,
            Key::Char('P') => self.order_by(Order::Cpu),
            Key::Char('M') => self.order_by(Order::Memory),
            Key::Char('T') => self.order_by(Order::Age),
            Key::Char('s') => {
                let own = self.chosen().and_then(|r| r.session().map(str::to_owned));
                self.session = if self.session.is_some() { None } else { own };
            }
            Key::Escape if !self.filter.is_empty() => self.filter.clear(),
            Key::Escape if self.session.is_some() => self.session = None,
            Key::Escape if !self.marked.is_empty() => self.marked.clear(),
            _ => return false,
        }
        self.arrange(place);
        true
    }

    fn type_filter(&mut self, key: Key) {
        let place = self.place().unwrap_or(0);
        match key {
            Key::Char(c) => self.filter.push(c),
            Key::Backspace => drop(self.filter.pop()),
            Key::Ctrl('u') => self.filter.clear(),
            Key::Enter => self.is_typing = false,
            Key::Escape => {
                self.is_typing = false;
                self.filter.clear();
            }
            Key::Up => self.step(-1),
            Key::Down => self.step(1),
            _ => {}
        }
        self.arrange(place);
    }

    fn order_by(&mut self, order: Order) {
        (self.order, self.reversed) = (order, false);
    }

    fn place(&self) -> Option<usize> {
        self.shown.iter().position(|i| Some(self.rows[*i].id()) == self.chosen)
    }

    fn step(&mut self, by: isize) {
        let Some(last) = self.shown.len().checked_sub(1) else { return };
        let at = self.place().unwrap_or(0).saturating_add_signed(by).min(last);
        self.chosen = Some(self.rows[self.shown[at]].id());
        self.keep_in_sight();
    }

    /// Selects and orders the shown rows. If the chosen process is not among them, the one at `place` is chosen.
    fn arrange(&mut self, place: usize) {
        let text = self.filter.to_lowercase();
        let is_shown = |row: &Row| {
            let is_wanted = row.is_running() || row.has_left() || (self.all && !row.is_finished_agent());
            let is_of_session = self.session.is_none() || row.session() == self.session.as_deref();
            is_wanted && is_of_session && (text.is_empty() || row.has(&text))
        };
        let mut shown: Vec<usize> = (0..self.rows.len()).filter(|i| is_shown(&self.rows[*i])).collect();
        let rows = &self.rows;
        shown.sort_by(|a, b| {
            let (a, b) = (&rows[*a], &rows[*b]);
            let by = self.order.compare(a, b);
            let by = if self.reversed { by.reverse() } else { by };
            b.is_running().cmp(&a.is_running()).then(by).then_with(|| a.id().cmp(&b.id()))
        });
        self.shown = shown;
        if self.place().is_none() {
            let at = place.min(self.shown.len().saturating_sub(1));
            self.chosen = self.shown.get(at).map(|i| self.rows[*i].id());
        }
        self.keep_in_sight();
    }

    fn keep_in_sight(&mut self) {
        let at = self.place().unwrap_or(0);
        let last_top = self.shown.len().saturating_sub(self.height);
        self.top = self.top.min(last_top).min(at).max((at + 1).saturating_sub(self.height));
    }
}
