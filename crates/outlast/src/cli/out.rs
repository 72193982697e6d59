//! Saying things: answers on standard output, remarks on standard error.

use super::Failure;
use serde::Serialize;
use std::io::{IsTerminal, Write as _};

/// How to speak.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Out {
    pub(crate) json: bool,
    colour: bool,
    /// The columns of the terminal, if output goes to one.
    pub(crate) width: Option<usize>,
}

/// What a word is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Bad,
    Busy,
    Quiet,
    Plain,
}

impl Out {
    /// Speaks JSON if asked; otherwise to a person, in colours where they are welcome and a terminal shows them.
    pub(crate) fn new(json: bool, plain: bool) -> Self {
        let stdout = std::io::stdout();
        let terminal = stdout.is_terminal();
        let width =
            if terminal { rustix::termios::tcgetwinsize(&stdout).ok().map(|w| usize::from(w.ws_col)).filter(|w| *w > 0) } else { None };
        Self { json, colour: terminal && !plain && !json, width }
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

    /// A remark for a person; programs find the same in the answer.
    pub(crate) fn remark(&self, text: &str) {
        if !self.json {
            // A remark that cannot be made changes nothing.
            let _ = writeln!(std::io::stderr(), "{text}");
        }
    }

    /// A remark that only somebody at a terminal needs.
    pub(crate) fn tip(&self, text: &str) {
        if std::io::stderr().is_terminal() {
            self.remark(text);
        }
    }

    /// The text in the colour of its tone.
    pub(crate) fn paint(&self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Good => "32",
            Tone::Bad => "31",
            Tone::Busy => "33",
            Tone::Quiet => "2",
            Tone::Plain => return text.to_owned(),
        };
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Text from outside on one line of a terminal: no control character gets through.
pub(crate) fn tame(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\r' | '\t' => ' ',
            c if c.is_control() => char::REPLACEMENT_CHARACTER,
            c => c,
        })
        .collect()
}
