//! The state of the screen, changed by keys and by news. It uses no terminal and no engine: it returns commands for what has to be done.

use super::act::{Act, SIGNALS};
use super::command::{ListRequest, TopCommand};
use super::detail::{Detail, TypedInput};
use super::help::{help_height, help_lines};
use super::listing::Listing;
use super::news::News;
use super::row::Row;
use crate::cli::out::Tone;
use crate::cli::terminal::Key;
use outlast_client::ProcessId;

/// A frame over the rest of the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Overlay {
    /// The help, from this line on if it does not fit.
    Help(usize),
    /// The question whether to apply an act to these processes, with the lines of the question.
    Confirm(Act, Vec<ProcessId>, Vec<String>),
    /// The question which signal to send to these processes, with its lines and the chosen index in [`SIGNALS`].
    Signals(Vec<ProcessId>, Vec<String>, usize),
}

/// Rows around the list: its head, the column heads, the chosen process and the keys.
const AROUND_LIST: usize = 4;
/// Rows around the log: three with facts, a rule and the keys.
pub(super) const AROUND_LOG: usize = 5;

/// The state of the screen: the list, the open process, a frame, and the last message.
#[derive(Debug)]
pub(super) struct App {
    pub(super) list: Listing,
    pub(super) detail: Option<Detail>,
    pub(super) over: Option<Overlay>,
    pub(super) message: Option<(String, Tone)>,
    /// Why the engine sends nothing new.
    pub(super) trouble: Option<String>,
    wanted: ListRequest,
    cols: usize,
    rows: usize,
    asked: u64,
}

impl App {
    pub(super) fn new(wanted: ListRequest) -> Self {
        let list = Listing::new(wanted.all);
        Self { list, detail: None, over: None, message: None, trouble: None, wanted, cols: 80, rows: 24, asked: 0 }
    }

    /// The session or task that is listed, for the head.
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

    /// The process that keys act on.
    fn row(&self) -> Option<&Row> {
        self.detail.as_ref().map_or_else(|| self.list.chosen(), |detail| Some(&detail.row))
    }

    pub(super) fn key(&mut self, key: Key) -> Vec<TopCommand> {
        if key == Key::Ctrl('c') {
            return vec![TopCommand::Leave];
        }
        self.message = None;
        if let Some(over) = self.over.take() {
            return self.answer(over, key);
        }
        if let Some(detail) = &mut self.detail
            && let Some(commands) = detail.key(key)
        {
            self.asked = detail.asked();
            return commands;
        }
        if self.detail.is_none() && self.list.key(key) {
            return self.listed_as_wanted();
        }
        match key {
            Key::Char('?') => self.over = Some(Overlay::Help(0)),
            Key::Ctrl('k') => self.ask(Act::Stop),
            Key::Ctrl('d') | Key::Delete => self.ask(Act::Remove),
            Key::Char('r') => self.ask(Act::Rerun),
            Key::Char('S') | Key::F9 => self.ask(Act::Signal(SIGNALS[0])),
            Key::Char('c') => return self.copy(),
            Key::Char('i') => return self.begin_typing(),
            Key::Enter if self.detail.is_none() => return self.open(),
            Key::Char('q') | Key::Escape if self.detail.is_some() => {
                self.detail = None;
                return [TopCommand::CloseLog].into_iter().chain(self.listed_as_wanted()).collect();
            }
            Key::Char('q') | Key::Escape => return vec![TopCommand::Leave],
            _ => {}
        }
        Vec::new()
    }

    fn answer(&mut self, over: Overlay, key: Key) -> Vec<TopCommand> {
        match (over, key) {
            (Overlay::Help(from), Key::Down | Key::PageDown | Key::Char('j' | ' ')) if self.is_help_scrolled() => {
                self.over = Some(Overlay::Help((from + 1).min(self.last_of_help())));
            }
            (Overlay::Help(from), Key::Up | Key::PageUp | Key::Char('k')) if self.is_help_scrolled() => {
                self.over = Some(Overlay::Help(from.saturating_sub(1)));
            }
            (Overlay::Help(_), _) => {}
            (Overlay::Confirm(act, ids, _), Key::Char('y' | 'Y')) => return self.begin(act, ids),
            (Overlay::Signals(ids, _, at), Key::Enter) => return self.begin(Act::Signal(SIGNALS[at]), ids),
            (Overlay::Signals(ids, lines, at), Key::Up | Key::Char('k')) => {
                self.over = Some(Overlay::Signals(ids, lines, at.saturating_sub(1)));
            }
            (Overlay::Signals(ids, lines, at), Key::Down | Key::Char('j')) => {
                self.over = Some(Overlay::Signals(ids, lines, (at + 1).min(SIGNALS.len() - 1)));
            }
            (Overlay::Confirm(act, ..), Key::Char('n' | 'N' | 'q') | Key::Escape) => {
                self.message = Some((act.declined().into(), Tone::Plain))
            }
            (Overlay::Signals(..), Key::Char('q') | Key::Escape) => {
                self.message = Some((Act::Signal(SIGNALS[0]).declined().into(), Tone::Plain));
            }
            (over @ (Overlay::Confirm(..) | Overlay::Signals(..)), _) => self.over = Some(over),
        }
        Vec::new()
    }

    /// The first visible help line when the help is scrolled to its end; 0 if all of it fits.
    fn last_of_help(&self) -> usize {
        help_lines(self.detail.is_some(), self.cols).len().saturating_sub(help_height(self.rows))
    }

    fn is_help_scrolled(&self) -> bool {
        self.last_of_help() > 0
    }

    fn begin(&mut self, act: Act, ids: Vec<ProcessId>) -> Vec<TopCommand> {
        self.message = Some((act.under_way(&ids), Tone::Busy));
        vec![TopCommand::Do(act, ids)]
    }

    /// Lists finished processes too, if the user wants them or if the open process has finished.
    fn listed_as_wanted(&mut self) -> Vec<TopCommand> {
        let open = self.detail.as_ref().is_some_and(|d| self.list.find(d.id()).is_none_or(|row| !row.is_running()));
        let wanted = ListRequest { all: self.list.all || open, ..self.wanted.clone() };
        if wanted == self.wanted {
            return Vec::new();
        }
        self.wanted = wanted.clone();
        vec![TopCommand::List(wanted)]
    }

    fn open(&mut self) -> Vec<TopCommand> {
        let Some(row) = self.list.chosen().cloned() else { return Vec::new() };
        let (detail, command) = Detail::open(row, self.asked, self.cols, self.rows.saturating_sub(AROUND_LOG));
        self.asked = detail.asked();
        self.detail = Some(detail);
        vec![command]
    }

    /// The processes that an act applies to: the open one, else the marked ones, else the chosen one.
    fn targets(&self) -> Vec<&Row> {
        let marked: Vec<&Row> = if self.detail.is_none() { self.list.marked().collect() } else { Vec::new() };
        if marked.is_empty() { self.row().into_iter().collect() } else { marked }
    }

    /// Asks the user before an act.
    fn ask(&mut self, act: Act) {
        let targets = match act {
            // Several commands are started again on the command line, where their order is visible.
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
            Act::Signal(_) => Overlay::Signals(ids, lines, 0),
            Act::Stop | Act::Remove | Act::Rerun => Overlay::Confirm(act, ids, lines),
        });
    }

    fn copy(&mut self) -> Vec<TopCommand> {
        let ids: Vec<String> = self.targets().iter().map(|row| row.id().to_string()).collect();
        let what = match &ids[..] {
            [] => return Vec::new(),
            [id] => id.clone(),
            ids => format!("{} ids", ids.len()),
        };
        // Terminals do not confirm it.
        self.message = Some((format!("sent {what} to the clipboard of the terminal (OSC 52)"), Tone::Good));
        vec![TopCommand::Copy(ids.join(" "))]
    }

    fn begin_typing(&mut self) -> Vec<TopCommand> {
        let Some(row) = self.row() else { return Vec::new() };
        let info = &row.info;
        if info.takes_input && info.pty {
            return vec![TopCommand::Attach(row.id())];
        }
        if !info.takes_input {
            let why = match row.is_running() {
                true => "it takes no input: it was started without --pty and --stdin, or its input has ended",
                false => "it has finished and takes no input",
            };
            self.message = Some((why.into(), Tone::Busy));
            return Vec::new();
        }
        let commands = if self.detail.is_none() { self.open() } else { Vec::new() };
        if let Some(detail) = &mut self.detail {
            detail.entry = TypedInput::Line(String::new());
        }
        commands
    }

    pub(super) fn news(&mut self, news: News) -> Vec<TopCommand> {
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
                vec![TopCommand::LookAgain]
            }
            News::Typed(how) => {
                self.message = Some(match how {
                    Ok(done) => (done.into(), Tone::Good),
                    Err(why) => (why, Tone::Bad),
                });
                vec![TopCommand::LookAgain]
            }
            news => self.read(news),
        }
    }

    /// News about the open log.
    fn read(&mut self, news: News) -> Vec<TopCommand> {
        let Some(detail) = &mut self.detail else { return Vec::new() };
        let commands = match news {
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
        commands
    }
}
