//! The whole of what is shown, changed by keys and by news. It knows no terminal and no engine: what it wants done it returns as wishes.

use super::act::{Act, SIGNALS};
use super::detail::{Detail, Entry};
use super::feed::{News, Wanted};
use super::lines::Words;
use super::listing::Listing;
use super::reading::{Part, Way};
use super::row::Row;
use super::view;
use crate::cli::out::Tone;
use crate::cli::terminal::Key;
use outlast_client::ProcessId;

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wish {
    Leave,
    /// List these from now on.
    List(Wanted),
    /// Follow the end of a log; what comes carries the number.
    Follow(ProcessId, u64),
    /// Follow no more.
    Pause,
    Read(ProcessId, Part, u64),
    Search(ProcessId, Words, Way, u64),
    StopSearching,
    /// Read nothing of any process any more.
    LetGo,
    /// Do this to these.
    Do(Act, Vec<ProcessId>),
    /// Give this text to the terminal, for its clipboard.
    Copy(String),
    Submit(ProcessId, String),
    EndInput(ProcessId),
    /// List again at once.
    LookAgain,
    /// Give the terminal to a process.
    Attach(ProcessId),
}

/// What lies over everything else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Over {
    /// The keys, from this line on if they do not fit.
    Help(usize),
    /// Whether to do this to these, with what is known of them.
    Confirm(Act, Vec<ProcessId>, Vec<String>),
    /// Which signal to send to these; the chosen one of [`SIGNALS`].
    Signals(Vec<ProcessId>, Vec<String>, usize),
}

/// Rows that are not the list's: its head, the heads of its columns, the chosen one and the keys.
const AROUND_LIST: usize = 4;
/// Rows that are not the log's: three of facts, a rule and the keys.
pub(super) const AROUND_LOG: usize = 5;

/// Everything.
#[derive(Debug)]
pub(super) struct App {
    pub(super) list: Listing,
    pub(super) detail: Option<Detail>,
    pub(super) over: Option<Over>,
    pub(super) message: Option<(String, Tone)>,
    /// Why nothing new comes from the engine.
    pub(super) trouble: Option<String>,
    wanted: Wanted,
    cols: usize,
    rows: usize,
    asked: u64,
}

impl App {
    pub(super) fn new(wanted: Wanted) -> Self {
        let list = Listing::new(wanted.all);
        Self { list, detail: None, over: None, message: None, trouble: None, wanted, cols: 80, rows: 24, asked: 0 }
    }

    /// Which conversation or task was asked for, in words.
    pub(super) fn scope(&self) -> Option<String> {
        let scope = &self.wanted.scope;
        scope.session.as_ref().map(|s| format!("session {s}")).or_else(|| scope.task.as_ref().map(|t| format!("task {t}")))
    }

    pub(super) fn resize(&mut self, cols: u16, rows: u16) {
        (self.cols, self.rows) = (usize::from(cols), usize::from(rows));
        self.list.resize(self.rows.saturating_sub(AROUND_LIST));
        if let Some(detail) = &mut self.detail {
            detail.resize(self.cols, self.rows.saturating_sub(AROUND_LOG));
        }
    }

    /// The process that keys are about.
    fn row(&self) -> Option<&Row> {
        self.detail.as_ref().map_or_else(|| self.list.chosen(), |detail| Some(&detail.row))
    }

    pub(super) fn key(&mut self, key: Key) -> Vec<Wish> {
        if key == Key::Ctrl('c') {
            return vec![Wish::Leave];
        }
        self.message = None;
        if let Some(over) = self.over.take() {
            return self.answer(over, key);
        }
        if let Some(detail) = &mut self.detail
            && let Some(wishes) = detail.key(key)
        {
            self.asked = detail.asked();
            return wishes;
        }
        if self.detail.is_none() && self.list.key(key) {
            return self.listed_as_wanted();
        }
        match key {
            Key::Char('?') => self.over = Some(Over::Help(0)),
            Key::Ctrl('k') => self.ask(Act::Stop),
            Key::Ctrl('d') | Key::Delete => self.ask(Act::Remove),
            Key::Char('r') => self.ask(Act::Rerun),
            Key::Char('S') | Key::F9 => self.ask(Act::Signal(SIGNALS[0])),
            Key::Char('c') => return self.copy(),
            Key::Char('i') => return self.begin_typing(),
            Key::Enter if self.detail.is_none() => return self.open(),
            Key::Char('q') | Key::Escape if self.detail.is_some() => {
                self.detail = None;
                return [Wish::LetGo].into_iter().chain(self.listed_as_wanted()).collect();
            }
            Key::Char('q') | Key::Escape => return vec![Wish::Leave],
            _ => {}
        }
        Vec::new()
    }

    fn answer(&mut self, over: Over, key: Key) -> Vec<Wish> {
        match (over, key) {
            (Over::Help(from), Key::Down | Key::PageDown | Key::Char('j' | ' ')) if self.is_help_scrolled() => {
                self.over = Some(Over::Help((from + 1).min(self.last_of_help())));
            }
            (Over::Help(from), Key::Up | Key::PageUp | Key::Char('k')) if self.is_help_scrolled() => {
                self.over = Some(Over::Help(from.saturating_sub(1)));
            }
            (Over::Help(_), _) => {}
            (Over::Confirm(act, ids, _), Key::Char('y' | 'Y')) => return self.begin(act, ids),
            (Over::Signals(ids, _, at), Key::Enter) => return self.begin(Act::Signal(SIGNALS[at]), ids),
            (Over::Signals(ids, lines, at), Key::Up | Key::Char('k')) => {
                self.over = Some(Over::Signals(ids, lines, at.saturating_sub(1)));
            }
            (Over::Signals(ids, lines, at), Key::Down | Key::Char('j')) => {
                self.over = Some(Over::Signals(ids, lines, (at + 1).min(SIGNALS.len() - 1)));
            }
            (Over::Confirm(act, ..), Key::Char('n' | 'N' | 'q') | Key::Escape) => self.message = Some((act.declined().into(), Tone::Plain)),
            (Over::Signals(..), Key::Char('q') | Key::Escape) => {
                self.message = Some((Act::Signal(SIGNALS[0]).declined().into(), Tone::Plain));
            }
            (over @ (Over::Confirm(..) | Over::Signals(..)), _) => self.over = Some(over),
        }
        Vec::new()
    }

    /// The line of the help from which the last one is on the screen; 0 if all of it fits.
    fn last_of_help(&self) -> usize {
        view::help_lines(self.detail.is_some(), self.cols).len().saturating_sub(view::help_height(self.rows))
    }

    fn is_help_scrolled(&self) -> bool {
        self.last_of_help() > 0
    }

    fn begin(&mut self, act: Act, ids: Vec<ProcessId>) -> Vec<Wish> {
        self.message = Some((act.under_way(&ids), Tone::Busy));
        vec![Wish::Do(act, ids)]
    }

    /// Asks for finished ones if they are wanted, or if the one that is open has finished.
    fn listed_as_wanted(&mut self) -> Vec<Wish> {
        let open = self.detail.as_ref().is_some_and(|d| self.list.find(d.id()).is_none_or(|row| !row.is_running()));
        let wanted = Wanted { all: self.list.all || open, ..self.wanted.clone() };
        if wanted == self.wanted {
            return Vec::new();
        }
        self.wanted = wanted.clone();
        vec![Wish::List(wanted)]
    }

    fn open(&mut self) -> Vec<Wish> {
        let Some(row) = self.list.chosen().cloned() else { return Vec::new() };
        let (detail, wish) = Detail::open(row, self.asked, self.cols, self.rows.saturating_sub(AROUND_LOG));
        self.asked = detail.asked();
        self.detail = Some(detail);
        vec![wish]
    }

    /// The processes that an act is about: the open one, else those that are marked, else the chosen one.
    fn targets(&self) -> Vec<&Row> {
        let marked: Vec<&Row> = if self.detail.is_none() { self.list.marked().collect() } else { Vec::new() };
        if marked.is_empty() { self.row().into_iter().collect() } else { marked }
    }

    /// Asks before anything is done.
    fn ask(&mut self, act: Act) {
        let targets = match act {
            // Several commands at once are started with a command line, where their order can be seen.
            Act::Rerun => self.row().into_iter().collect(),
            Act::Stop | Act::Remove | Act::Signal(_) => self.targets(),
        };
        let Some(first) = targets.first() else { return };
        let suited: Vec<&Row> = targets.iter().copied().filter(|row| act.suits(row)).collect();
        if suited.is_empty() {
            let refusal = match (targets.len(), act) {
                (1, _) => act.refusal(first),
                (_, Act::Remove) => "the marked processes still run: stop them first".into(),
                (_, Act::Stop | Act::Signal(_) | Act::Rerun) => "the marked processes have finished".into(),
            };
            self.message = Some((refusal, Tone::Plain));
            return;
        }
        let lines = act.question(&suited, targets.len() - suited.len());
        let ids = suited.iter().map(|row| row.id()).collect();
        self.over = Some(match act {
            Act::Signal(_) => Over::Signals(ids, lines, 0),
            Act::Stop | Act::Remove | Act::Rerun => Over::Confirm(act, ids, lines),
        });
    }

    fn copy(&mut self) -> Vec<Wish> {
        let ids: Vec<String> = self.targets().iter().map(|row| row.id().to_string()).collect();
        let what = match &ids[..] {
            [] => return Vec::new(),
            [id] => id.clone(),
            ids => format!("{} ids", ids.len()),
        };
        // Terminals do not say whether they took it.
        self.message = Some((format!("sent {what} to the clipboard of the terminal (OSC 52)"), Tone::Good));
        vec![Wish::Copy(ids.join(" "))]
    }

    fn begin_typing(&mut self) -> Vec<Wish> {
        let Some(row) = self.row() else { return Vec::new() };
        let info = &row.info;
        if info.takes_input && info.pty {
            return vec![Wish::Attach(row.id())];
        }
        if !info.takes_input {
            let why = match row.is_running() {
                true => "it takes no input: it was started without --pty and --stdin, or its input has ended",
                false => "it has finished and takes no input",
            };
            self.message = Some((why.into(), Tone::Busy));
            return Vec::new();
        }
        let wishes = if self.detail.is_none() { self.open() } else { Vec::new() };
        if let Some(detail) = &mut self.detail {
            detail.entry = Entry::Line(String::new());
        }
        wishes
    }

    pub(super) fn news(&mut self, news: News) -> Vec<Wish> {
        match news {
            News::Listed { processes, usage, at } => {
                self.trouble = None;
                self.list.update(processes, &usage, at);
                if let Some(detail) = &mut self.detail {
                    let found = self.list.find(detail.id());
                    detail.is_gone = found.is_none() && self.wanted.all;
                    if let Some(row) = found {
                        detail.row = row.clone();
                    }
                }
                self.listed_as_wanted()
            }
            News::Trouble(why) => {
                self.trouble = Some(why);
                Vec::new()
            }
            News::Did { act, results, started } => {
                self.message = Some(act.outcome(&results));
                if let Some(id) = started {
                    self.list.choose_next(id);
                }
                vec![Wish::LookAgain]
            }
            News::Typed(how) => {
                self.message = Some(match how {
                    Ok(done) => (done.into(), Tone::Good),
                    Err(why) => (why, Tone::Bad),
                });
                vec![Wish::LookAgain]
            }
            news => self.read(news),
        }
    }

    /// News of the log that is open.
    fn read(&mut self, news: News) -> Vec<Wish> {
        let Some(detail) = &mut self.detail else { return Vec::new() };
        let wishes = match news {
            News::Output { of, piece, fresh } => {
                detail.output(of, piece, fresh);
                Vec::new()
            }
            News::Part { of, part, piece } => detail.part(of, part, piece).into_iter().collect(),
            News::Searched { of, at } => {
                detail.searched(of, at);
                Vec::new()
            }
            News::Found { of, at } => detail.found(of, at),
            News::Unread { of, why } => {
                if detail.unread(of) {
                    self.message = Some((why, Tone::Bad));
                }
                Vec::new()
            }
            News::Listed { .. } | News::Trouble(_) | News::Did { .. } | News::Typed(_) => Vec::new(),
        };
        self.asked = detail.asked();
        wishes
    }
}
