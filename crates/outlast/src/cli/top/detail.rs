//! The open process: the position in its log, the search, and what the user types.

mod search;

pub(super) use search::{Search, SearchState};

use super::command::{LogPart, SearchFrom, TopCommand};
use super::lines::{Piece, Words};
use super::row::Row;
use super::window::{RowPosition, Window};
use crate::cli::terminal::Key;
use outlast_client::ProcessId;

/// The open process.
#[derive(Debug)]
pub(super) struct Detail {
    /// The process as it was listed last.
    pub(super) row: Row,
    /// It is no longer listed, not even among finished processes.
    pub(super) is_gone: bool,
    pub(super) window: Window,
    pub(super) place: LogPosition,
    pub(super) entry: TypedInput,
    pub(super) search: Option<Search>,
    cols: usize,
    rows: usize,
    /// The number of the last command. News for an earlier one are ignored.
    asked: u64,
    reading: Option<u64>,
    searching: Option<u64>,
    /// The end of the window after which nothing was found, and the length of the log at that time.
    end_seen: Option<(u64, u64)>,
    start_seen: bool,
}

/// Which part of the log is on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LogPosition {
    /// The end, as it grows.
    Following,
    /// This is the first row on the screen.
    At(RowPosition),
}

/// What the user types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TypedInput {
    None,
    /// The words to search for.
    Words(String),
    /// A line for the process.
    Line(String),
}

impl Detail {
    /// Opens a process at the end of its log. Its commands have numbers above `asked`.
    pub(super) fn open(row: Row, asked: u64, cols: usize, rows: usize) -> (Self, TopCommand) {
        let mut detail = Self {
            row,
            is_gone: false,
            window: Window::default(),
            place: LogPosition::Following,
            entry: TypedInput::None,
            search: None,
            cols: cols.max(1),
            rows: rows.max(1),
            asked,
            reading: None,
            searching: None,
            end_seen: None,
            start_seen: false,
        };
        let command = detail.follow();
        (detail, command)
    }

    pub(super) fn id(&self) -> ProcessId {
        self.row.id()
    }

    /// The number of its last command.
    pub(super) fn asked(&self) -> u64 {
        self.asked
    }

    pub(super) fn resize(&mut self, cols: usize, rows: usize) {
        (self.cols, self.rows) = (cols.max(1), rows.max(1));
    }

    /// The first row on the screen.
    pub(super) fn top(&self) -> RowPosition {
        match self.place {
            LogPosition::Following => self.window.bottom(self.cols, self.rows),
            LogPosition::At(spot) => spot,
        }
    }

    /// The position of the screen in the log, in percent.
    pub(super) fn percent(&self) -> u64 {
        let end = self.row.info.output_bytes.max(self.window.to()).max(1);
        let shown = self.window.rows(self.top(), self.cols, self.rows);
        let last = shown.last().map_or(0, |(line, _)| line.at + line.text.len() as u64 + 1);
        (last.saturating_mul(100) / end).min(100)
    }

    /// The commands of a key. None if the key has no meaning here.
    pub(super) fn key(&mut self, key: Key) -> Option<Vec<TopCommand>> {
        let mut commands = match &mut self.entry {
            TypedInput::None => self.go(key)?,
            TypedInput::Words(_) | TypedInput::Line(_) => self.type_in(key),
        };
        commands.extend(self.wants());
        Some(commands)
    }

    fn go(&mut self, key: Key) -> Option<Vec<TopCommand>> {
        let page = self.rows.saturating_sub(1).max(1);
        Some(match key {
            Key::Up | Key::Char('k') => self.up(1),
            Key::PageUp => self.up(page),
            Key::Down | Key::Char('j') => self.down(1),
            Key::PageDown | Key::Char(' ') => self.down(page),
            Key::Home | Key::Char('g') => {
                self.place = LogPosition::At(RowPosition::default());
                vec![self.read(LogPart::First)]
            }
            Key::End | Key::Char('f' | 'G') => vec![self.follow()],
            Key::Char('/') => {
                self.entry = TypedInput::Words(String::new());
                Vec::new()
            }
            Key::Char('n') => self.search_on(SearchFrom::Down).into_iter().collect(),
            Key::Char('N') => self.search_on(SearchFrom::Up).into_iter().collect(),
            Key::Escape if self.searching.take().is_some() => {
                self.search = None;
                vec![TopCommand::StopSearching]
            }
            Key::Escape if self.search.take().is_some() => Vec::new(),
            _ => return None,
        })
    }

    fn type_in(&mut self, key: Key) -> Vec<TopCommand> {
        let (text, is_line) = match &mut self.entry {
            TypedInput::None => return Vec::new(),
            TypedInput::Words(text) => (text, false),
            TypedInput::Line(text) => (text, true),
        };
        match key {
            Key::Char(c) => text.push(c),
            Key::Tab => text.push('\t'),
            Key::Backspace => drop(text.pop()),
            Key::Ctrl('u') => text.clear(),
            Key::Escape | Key::Ctrl('\\') => self.entry = TypedInput::None,
            Key::Ctrl('d') if is_line && text.is_empty() => {
                self.entry = TypedInput::None;
                return vec![TopCommand::EndInput(self.id())];
            }
            Key::Enter if is_line => {
                let line = std::mem::take(text);
                return vec![TopCommand::Submit(self.id(), line)];
            }
            Key::Enter => {
                let words = Words::new(text);
                self.entry = TypedInput::None;
                if !words.text().is_empty() {
                    let at = self.top().at;
                    return vec![self.look_for(words, SearchFrom::Nearest(at))];
                }
            }
            _ => {}
        }
        Vec::new()
    }

    fn up(&mut self, rows: usize) -> Vec<TopCommand> {
        let top = self.top();
        let is_following = self.place == LogPosition::Following;
        if is_following && self.window.from() == 0 && self.window.above(top, self.cols, 1) == 0 {
            return Vec::new();
        }
        self.place = LogPosition::At(self.window.up(top, self.cols, rows));
        if is_following { self.pause() } else { Vec::new() }
    }

    fn down(&mut self, rows: usize) -> Vec<TopCommand> {
        let LogPosition::At(spot) = self.place else { return Vec::new() };
        let spot = self.window.down(spot, self.cols, rows, self.rows);
        self.place = LogPosition::At(spot);
        let is_at_end = spot == self.window.bottom(self.cols, self.rows) && self.window.to() >= self.row.info.output_bytes;
        if is_at_end && self.reading.is_none() { vec![self.follow()] } else { Vec::new() }
    }

    fn number(&mut self) -> u64 {
        self.asked += 1;
        self.asked
    }

    fn follow(&mut self) -> TopCommand {
        self.place = LogPosition::Following;
        let of = self.number();
        self.reading = Some(of);
        TopCommand::Follow(self.id(), of)
    }

    /// Stops following. The screen stays where it is.
    fn pause(&mut self) -> Vec<TopCommand> {
        self.reading = None;
        (self.end_seen, self.start_seen) = (None, false);
        vec![TopCommand::Pause]
    }

    fn read(&mut self, part: LogPart) -> TopCommand {
        let of = self.number();
        self.reading = Some(of);
        TopCommand::Read(self.id(), part, of)
    }

    /// The read that is needed so that a page above and below is loaded.
    fn wants(&mut self) -> Option<TopCommand> {
        let LogPosition::At(spot) = self.place else { return None };
        if self.reading.is_some() {
            return None;
        }
        let margin = self.rows * 2;
        if self.window.from() > 0 && !self.start_seen && self.window.above(spot, self.cols, margin) < margin {
            return Some(self.read(LogPart::Before(self.window.from())));
        }
        let end = (self.window.to(), self.row.info.output_bytes);
        let below = self.window.rows(spot, self.cols, self.rows + margin).len();
        if end.0 < end.1 && self.end_seen != Some(end) && below < self.rows + margin {
            return Some(self.read(LogPart::After(self.window.resume())));
        }
        None
    }

    /// Takes output of the followed process.
    pub(super) fn output(&mut self, of: u64, piece: Piece, fresh: bool) {
        if self.reading != Some(of) || self.place != LogPosition::Following {
            return;
        }
        match fresh {
            true => self.window.replace(piece),
            false => self.window.append(piece),
        }
    }

    /// Takes the answer to a read.
    pub(super) fn part(&mut self, of: u64, part: LogPart, piece: Piece) -> Option<TopCommand> {
        if self.reading != Some(of) {
            return None;
        }
        self.reading = None;
        match part {
            LogPart::First | LogPart::Around(_) => {
                self.window.replace(piece);
                (self.end_seen, self.start_seen) = (None, false);
                if let LogPart::Around(at) = part {
                    self.show(at);
                }
            }
            LogPart::Before(_) => {
                self.start_seen = piece.from >= self.window.from();
                self.window.prepend(piece);
            }
            LogPart::After(_) => {
                if piece.to <= self.window.to() {
                    self.end_seen = Some((self.window.to(), self.row.info.output_bytes));
                }
                self.window.append(piece);
            }
        }
        self.wants()
    }

    /// Takes the failure of a read or search. Returns whether to report it.
    pub(super) fn unread(&mut self, of: u64) -> bool {
        if self.searching == Some(of) {
            (self.searching, self.search) = (None, None);
            return true;
        }
        if self.reading == Some(of) && self.place != LogPosition::Following {
            self.reading = None;
            return true;
        }
        self.reading == Some(of)
    }

    /// Puts a line on the screen, with some lines above it.
    fn show(&mut self, at: u64) {
        let spot = self.window.up(RowPosition { at, row: 0 }, self.cols, self.rows / 3);
        self.place = LogPosition::At(spot.min(self.window.bottom(self.cols, self.rows)));
    }
}
