//! Output of a verb: answers on standard output, remarks on standard error.

pub(crate) use super::one_line::tame;

use super::Failure;
use super::follow::Sgr;
use crate::config::Colours;
use rustix::termios::{Winsize, tcgetwinsize};
use serde::Serialize;
use std::io::{IsTerminal, Write as _};

/// A number with its noun: `1 line`, `2 lines`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// How output is written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Out {
    pub(crate) json: bool,
    colour: bool,
    /// Whether remarks may be in colour.
    remark_colour: bool,
    /// The columns of the terminal, if output goes to one.
    pub(crate) width: Option<usize>,
    /// How many lines fit on the terminal, if output goes to one.
    pub(crate) height: Option<usize>,
}

/// The height of a terminal that does not report it.
const USUAL_HEIGHT: usize = 24;

/// What a word stands for, which decides its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Bad,
    Busy,
    Quiet,
    Plain,
    /// One of several that differ only by their colour.
    Of(usize),
}

/// Colours that differ on light and on dark backgrounds.
const APART: [&str; 6] = ["36", "35", "34", "33", "32", "31"];

impl Tone {
    fn code(self) -> Option<&'static str> {
        match self {
            Self::Good => Some("32"),
            Self::Bad => Some("31"),
            Self::Busy => Some("33"),
            Self::Quiet => Some("2"),
            Self::Plain => None,
            Self::Of(n) => Some(APART[n % APART.len()]),
        }
    }
}

impl Out {
    /// JSON if asked for; otherwise text, in colours where the settings allow them.
    pub(crate) fn new(json: bool, colours: Colours) -> Self {
        let terminal = std::io::stdout().is_terminal();
        let size = size();
        let width = columns();
        let height = size.map(|size| usize::from(size.ws_row)).map(|rows| if rows > 0 { rows } else { USUAL_HEIGHT });
        let welcome = |terminal: bool| match colours {
            _ if json => false,
            Colours::Never => false,
            Colours::OnTerminals => terminal,
            Colours::Always => true,
        };
        Self { json, colour: welcome(terminal), remark_colour: welcome(std::io::stderr().is_terminal()), width, height }
    }

    /// Text without colours, in this number of columns.
    pub(crate) fn plain(width: Option<usize>) -> Self {
        Self { json: false, colour: false, remark_colour: false, width, height: None }
    }

    /// The answer, as one line of JSON.
    pub(crate) fn object(&self, answer: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(answer).map_err(|e| Failure::fault(format!("cannot write the answer: {e}"), ""))?;
        self.line(&text)
    }

    /// A line of the answer.
    pub(crate) fn line(&self, text: &str) -> Result<(), Failure> {
        Ok(writeln!(std::io::stdout(), "{text}")?)
    }

    /// Text of the answer that ends in a newline, if there is any.
    pub(crate) fn text(&self, text: &str) -> Result<(), Failure> {
        match text {
            "" => Ok(()),
            text if text.ends_with('\n') => Ok(write!(std::io::stdout(), "{text}")?),
            text => self.line(text),
        }
    }

    /// A remark for users. Programs find the same in the answer.
    pub(crate) fn remark(&self, text: &str) {
        if !self.json {
            // A remark that cannot be made changes nothing.
            let _ = writeln!(std::io::stderr(), "{text}");
        }
    }

    /// A remark that only a user at a terminal needs.
    pub(crate) fn tip(&self, text: &str) {
        if self.has_person() {
            self.remark(text);
        }
    }

    /// Whether a user at a terminal reads remarks.
    pub(crate) fn has_person(&self) -> bool {
        !self.json && std::io::stderr().is_terminal()
    }

    /// Whether the colours of a command may be in an answer.
    pub(crate) fn sgr(&self) -> Sgr {
        if self.colour { Sgr::Shown } else { Sgr::Removed }
    }

    /// The text of an answer in the colour of its tone.
    pub(crate) fn paint(&self, tone: Tone, text: &str) -> String {
        paint(self.colour, tone, text)
    }

    /// The text of a remark in the colour of its tone.
    pub(crate) fn paint_remark(&self, tone: Tone, text: &str) -> String {
        paint(self.remark_colour, tone, text)
    }
}

/// The size of the terminal that output goes to.
fn size() -> Option<Winsize> {
    let stdout = std::io::stdout();
    tcgetwinsize(&stdout).ok().filter(|_| stdout.is_terminal())
}

/// Its columns, if it knows them.
pub(crate) fn columns() -> Option<usize> {
    size().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

fn paint(colour: bool, tone: Tone, text: &str) -> String {
    match tone.code().filter(|_| colour && !text.is_empty()) {
        Some(code) => format!("\x1b[{code}m{text}\x1b[0m"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_used_only_where_they_are_seen() {
        let mut out = Out::plain(None);
        assert_eq!(out.paint(Tone::Bad, "x"), "x");
        out.colour = true;
        assert_eq!((out.paint(Tone::Bad, "x"), out.paint_remark(Tone::Bad, "x")), ("\x1b[31mx\x1b[0m".into(), "x".into()));
        assert_eq!(out.paint(Tone::Of(APART.len()), "x"), out.paint(Tone::Of(0), "x"));
    }
}
