//! One process that is open: where in its log the person is, what is looked for, and what is typed.

mod search;

pub(super) use search::{Search, Searched};

use super::app::Wish;
use super::lines::{Piece, Words};
use super::reading::{Part, Way};
use super::row::Row;
use super::window::{Spot, Window};
use crate::cli::terminal::Key;
use outlast_client::ProcessId;

/// One process.
#[derive(Debug)]
pub(super) struct Detail {
    /// As it was when it was last listed.
    pub(super) row: Row,
    /// It is listed no more, finished ones included.
    pub(super) is_gone: bool,
    pub(super) window: Window,
    pub(super) place: Place,
    pub(super) entry: Entry,
    pub(super) search: Option<Search>,
    cols: usize,
    rows: usize,
    /// The number of what was asked for last; what comes under an earlier one comes too late.
    asked: u64,
    reading: Option<u64>,
    searching: Option<u64>,
    /// Where nothing more was found behind the window, and how long the log was then.
    end_seen: Option<(u64, u64)>,
    start_seen: bool,
}

/// Where in the log the person is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// At its end, wherever that is.
    Following,
    /// This is the first row on the screen.
    At(Spot),
}

/// What is being typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    None,
    /// What to look for.
    Words(String),
    /// A line for the process.
    Line(String),
}

impl Detail {
    /// Opens it at the end of its log. Numbers of what it asks for are above `asked`.
    pub(super) fn open(row: Row, asked: u64, cols: usize, rows: usize) -> (Self, Wish) {
        let mut detail = Self {
            row,
            is_gone: false,
            window: Window::default(),
            place: Place::Following,
            entry: Entry::None,
            search: None,
            cols: cols.max(1),
            rows: rows.max(1),
            asked,
            reading: None,
            searching: None,
            end_seen: None,
            start_seen: false,
        };
        let wish = detail.follow();
        (detail, wish)
    }

    pub(super) fn id(&self) -> ProcessId {
        self.row.id()
    }

    /// The number of what it asked for last.
    pub(super) fn asked(&self) -> u64 {
        self.asked
    }

    pub(super) fn resize(&mut self, cols: usize, rows: usize) {
        (self.cols, self.rows) = (cols.max(1), rows.max(1));
    }

    /// The first row on the screen.
    pub(super) fn top(&self) -> Spot {
        match self.place {
            Place::Following => self.window.bottom(self.cols, self.rows),
            Place::At(spot) => spot,
        }
    }

    /// How far into the log the screen is, in percent.
    pub(super) fn percent(&self) -> u64 {
        let end = self.row.info.output_bytes.max(self.window.to()).max(1);
        let shown = self.window.rows(self.top(), self.cols, self.rows);
        let last = shown.last().map_or(0, |(line, _)| line.at + line.text.len() as u64 + 1);
        (last.saturating_mul(100) / end).min(100)
    }

    /// What a key means here; nothing if it means nothing.
    pub(super) fn key(&mut self, key: Key) -> Option<Vec<Wish>> {
        let mut wishes = match &mut self.entry {
            Entry::None => self.go(key)?,
            Entry::Words(_) | Entry::Line(_) => self.type_in(key),
        };
        wishes.extend(self.wants());
        Some(wishes)
    }

    fn go(&mut self, key: Key) -> Option<Vec<Wish>> {
        let page = self.rows.saturating_sub(1).max(1);
        Some(match key {
            Key::Up | Key::Char('k') => self.up(1),
            Key::PageUp => self.up(page),
            Key::Down | Key::Char('j') => self.down(1),
            Key::PageDown | Key::Char(' ') => self.down(page),
            Key::Home | Key::Char('g') => {
                self.place = Place::At(Spot::default());
                vec![self.read(Part::First)]
            }
            Key::End | Key::Char('f' | 'G') => vec![self.follow()],
            Key::Char('/') => {
                self.entry = Entry::Words(String::new());
                Vec::new()
            }
            Key::Char('n') => self.search_on(Way::Down).into_iter().collect(),
            Key::Char('N') => self.search_on(Way::Up).into_iter().collect(),
            Key::Escape if self.searching.take().is_some() => {
                self.search = None;
                vec![Wish::StopSearching]
            }
            Key::Escape if self.search.take().is_some() => Vec::new(),
            _ => return None,
        })
    }

    fn type_in(&mut self, key: Key) -> Vec<Wish> {
        let (text, is_line) = match &mut self.entry {
            Entry::None => return Vec::new(),
            Entry::Words(text) => (text, false),
            Entry::Line(text) => (text, true),
        };
        match key {
            Key::Char(c) => text.push(c),
            Key::Tab => text.push('\t'),
            Key::Backspace => drop(text.pop()),
            Key::Ctrl('u') => text.clear(),
            Key::Escape | Key::Ctrl('\\') => self.entry = Entry::None,
            Key::Ctrl('d') if is_line && text.is_empty() => {
                self.entry = Entry::None;
                return vec![Wish::EndInput(self.id())];
            }
            Key::Enter if is_line => {
                let line = std::mem::take(text);
                return vec![Wish::Submit(self.id(), line)];
            }
            Key::Enter => {
                let words = Words::new(text);
                self.entry = Entry::None;
                if !words.text().is_empty() {
                    let at = self.top().at;
                    return vec![self.look_for(words, Way::Nearest(at))];
                }
            }
            _ => {}
        }
        Vec::new()
    }

    fn up(&mut self, rows: usize) -> Vec<Wish> {
        let top = self.top();
        let is_following = self.place == Place::Following;
        if is_following && self.window.from() == 0 && self.window.above(top, self.cols, 1) == 0 {
            return Vec::new();
        }
        self.place = Place::At(self.window.up(top, self.cols, rows));
        if is_following { self.pause() } else { Vec::new() }
    }

    fn down(&mut self, rows: usize) -> Vec<Wish> {
        let Place::At(spot) = self.place else { return Vec::new() };
        let spot = self.window.down(spot, self.cols, rows, self.rows);
        self.place = Place::At(spot);
        let is_at_end = spot == self.window.bottom(self.cols, self.rows) && self.window.to() >= self.row.info.output_bytes;
        if is_at_end && self.reading.is_none() { vec![self.follow()] } else { Vec::new() }
    }

    fn number(&mut self) -> u64 {
        self.asked += 1;
        self.asked
    }

    fn follow(&mut self) -> Wish {
        self.place = Place::Following;
        let of = self.number();
        self.reading = Some(of);
        Wish::Follow(self.id(), of)
    }

    /// Stops following: what is shown stays where it is.
    fn pause(&mut self) -> Vec<Wish> {
        self.reading = None;
        (self.end_seen, self.start_seen) = (None, false);
        vec![Wish::Pause]
    }

    fn read(&mut self, part: Part) -> Wish {
        let of = self.number();
        self.reading = Some(of);
        Wish::Read(self.id(), part, of)
    }

    /// What has to be read so that a page above and below is there.
    fn wants(&mut self) -> Option<Wish> {
        let Place::At(spot) = self.place else { return None };
        if self.reading.is_some() {
            return None;
        }
        let margin = self.rows * 2;
        if self.window.from() > 0 && !self.start_seen && self.window.above(spot, self.cols, margin) < margin {
            return Some(self.read(Part::Before(self.window.from())));
        }
        let end = (self.window.to(), self.row.info.output_bytes);
        let below = self.window.rows(spot, self.cols, self.rows + margin).len();
        if end.0 < end.1 && self.end_seen != Some(end) && below < self.rows + margin {
            return Some(self.read(Part::Behind(self.window.resume())));
        }
        None
    }

    /// Output came.
    pub(super) fn output(&mut self, of: u64, piece: Piece, fresh: bool) {
        if self.reading != Some(of) || self.place != Place::Following {
            return;
        }
        match fresh {
            true => self.window.replace(piece),
            false => self.window.put_behind(piece),
        }
    }

    /// A part came that was asked for.
    pub(super) fn part(&mut self, of: u64, part: Part, piece: Piece) -> Option<Wish> {
        if self.reading != Some(of) {
            return None;
        }
        self.reading = None;
        match part {
            Part::First | Part::Around(_) => {
                self.window.replace(piece);
                (self.end_seen, self.start_seen) = (None, false);
                if let Part::Around(at) = part {
                    self.show(at);
                }
            }
            Part::Before(_) => {
                self.start_seen = piece.from >= self.window.from();
                self.window.put_before(piece);
            }
            Part::Behind(_) => {
                if piece.to <= self.window.to() {
                    self.end_seen = Some((self.window.to(), self.row.info.output_bytes));
                }
                self.window.put_behind(piece);
            }
        }
        self.wants()
    }

    /// What was asked for could not be had.
    pub(super) fn unread(&mut self, of: u64) -> bool {
        if self.searching == Some(of) {
            (self.searching, self.search) = (None, None);
            return true;
        }
        if self.reading == Some(of) && self.place != Place::Following {
            self.reading = None;
            return true;
        }
        self.reading == Some(of)
    }

    /// Puts a line on the screen, with some of what lies before it.
    fn show(&mut self, at: u64) {
        let spot = self.window.up(Spot { at, row: 0 }, self.cols, self.rows / 3);
        self.place = Place::At(spot.min(self.window.bottom(self.cols, self.rows)));
    }
}
