//! The whole of what is shown, changed by keys and by news. It knows no terminal and no engine: what it wants done it says.

use super::detail::{Detail, Entry};
use super::feed::{News, Wanted};
use super::lines::Words;
use super::listing::Listing;
use super::reading::{Part, Way};
use super::row::Row;
use crate::cli::out::Tone;
use crate::cli::terminal::Key;
use crate::cli::{ending, times};
use outlast_client::{Killed, ProcessId};

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
    Stop(ProcessId),
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
    Help,
    /// Whether to stop a process, with what is known of it.
    Confirm(ProcessId, Vec<String>),
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
            Key::Char('?') => self.over = Some(Over::Help),
            Key::Char('k') => self.ask_to_stop(),
            Key::Char('i') if self.detail.is_some() => return self.begin_typing(),
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
        let Over::Confirm(id, _) = &over else { return Vec::new() };
        match key {
            Key::Char('y' | 'Y') => {
                self.message = Some((format!("stopping {id} …"), Tone::Busy));
                vec![Wish::Stop(*id)]
            }
            Key::Char('n' | 'N' | 'q') | Key::Escape => {
                self.message = Some(("nothing was stopped".into(), Tone::Plain));
                Vec::new()
            }
            _ => {
                self.over = Some(over);
                Vec::new()
            }
        }
    }

    /// Asks for finished ones where they are wanted, and where the one that is open has finished.
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

    fn ask_to_stop(&mut self) {
        let Some(row) = self.row() else { return };
        if !row.is_running() {
            self.message = Some((format!("{} {}", row.id(), ending::sentence(&row.info.fate)), Tone::Plain));
            return;
        }
        let what = row.info.name.as_deref().map(|name| format!("{name}: ")).unwrap_or_default();
        let tree = match row.usage.map(|u| u.processes) {
            Some(1) => ", 1 process".into(),
            Some(n) => format!(", {n} processes"),
            None => String::new(),
        };
        let mut lines = vec![
            format!("Stop {}?", row.id()),
            crate::cli::out::tame(&format!("{what}{}", row.command())),
            format!("{} for {}{tree}", row.info.phase, times::age(row.info.uptime_seconds)),
        ];
        lines.extend(match row.conversation() {
            Some(of) if of.is_agent => Some(format!("It is the agent of the conversation {}.", of.name())),
            Some(of) => Some(format!("It belongs to the conversation {}.", of.name())),
            None => Some(row.owner()).filter(|owner| !owner.is_empty()).map(|owner| format!("It belongs to {owner}.")),
        });
        self.over = Some(Over::Confirm(row.id(), lines));
    }

    fn begin_typing(&mut self) -> Vec<Wish> {
        let Some(detail) = &mut self.detail else { return Vec::new() };
        let info = &detail.row.info;
        if info.takes_input && info.pty {
            return vec![Wish::Attach(detail.id())];
        }
        if info.takes_input {
            detail.entry = Entry::Line(String::new());
        } else if detail.row.is_running() {
            self.message = Some(("it takes no input: it was started without --pty and --stdin, or its input has ended".into(), Tone::Busy));
        } else {
            self.message = Some(("it is over and takes no input".into(), Tone::Busy));
        }
        Vec::new()
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
            News::Stopped { id, how } => {
                self.message = Some(match how {
                    Ok(killed) => (stopped(&killed), Tone::Good),
                    Err(why) => (format!("{id}: {why}"), Tone::Bad),
                });
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
            News::Listed { .. } | News::Trouble(_) | News::Stopped { .. } | News::Typed(_) => Vec::new(),
        };
        self.asked = detail.asked();
        wishes
    }
}

/// What became of a stop, in words that fit a small screen.
fn stopped(killed: &Killed) -> String {
    let how = match (&killed.fate.signal, killed.fate.exit_code.flatten()) {
        (Some(signal), _) => format!(" by {signal}"),
        (None, Some(code)) => format!(" and exited {code}"),
        (None, None) => String::new(),
    };
    let tree = killed.seen_dead.filter(|n| *n > 1).map(|n| format!(", {n} processes in all")).unwrap_or_default();
    format!("{} was stopped{how}{tree}", killed.session_id)
}
