//! Secrets out of text.

mod assignments;
mod command;
mod fields;
mod form;
mod header;
mod letters;
mod mask;
mod names;
mod pem;
mod place;
mod rules;
mod url;
mod vendor;
mod words;

pub use names::secret_name;

use mask::Edits;
use std::borrow::Cow;

/// What masks secrets in what readers see.
///
/// It is made once, at the start, so that no command can switch it off later. What has a form of
/// its own is masked everywhere: tokens with a vendor's prefix, credentials in headers, private
/// keys, passwords in database addresses, JSON web tokens, phone numbers. What is secret only by
/// the name it goes under (`DB_PASSWORD=…`, `"token": "…"`) is masked where a command prints
/// configuration, since elsewhere that would rewrite source code. Tokens in the query of a web
/// address, and a user and password before its host, are left alone on purpose: such addresses are
/// there to be followed.
///
/// Fewer than 18 characters become `***`; of more, the first six and the last four stay. Masking
/// what is masked changes nothing. Mask before you cut: the part of a token that gives it away may
/// be the part that is cut off.
#[derive(Debug)]
pub struct Redactor {
    on: bool,
}

/// What a text is taken for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Source code, or anything: only what has a form of its own is masked.
    Source,
    /// A command line: values that it assigns to a secret's name are masked too.
    CommandLine,
    /// Configuration: what has a secret's name is masked too.
    Full,
}

/// Masking can bring a new secret to light: its start no longer has a letter before it, or what is left is a form's body. Real texts
/// take two passes, and invented ones took five. The bound keeps a text that was made for it from taking long.
const PASSES: usize = 32;

impl Redactor {
    /// A redactor that stays on or off.
    pub fn new(on: bool) -> Self {
        Self { on }
    }

    /// Whether anything is masked at all.
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// Masks what `command` printed.
    ///
    /// The command decides how much is masked: one that prints the environment, or reads a file
    /// that is made to hold secrets, is masked as by [`Redactor::full`].
    pub fn output<'a>(&self, command: &str, text: &'a str) -> Cow<'a, str> {
        match self.on && command::prints_configuration(command) {
            true => self.redact(text, Mode::Full),
            false => self.redact(text, Mode::Source),
        }
    }

    /// Masks a command line: as [`Redactor::command`] does, and also what it assigns to variables and options with a [`secret_name`].
    pub fn command_line<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.redact(text, Mode::CommandLine)
    }

    /// Masks the arguments of a command, one by one, as [`Redactor::command_line`] does. An argument is one word, whatever is in it: `TOKEN=a b` is one
    /// value, and so is what follows `--password`.
    pub fn arguments<'a>(&self, arguments: &'a [Cow<'a, str>]) -> Vec<Cow<'a, str>> {
        assignments::mask_arguments(self, arguments)
    }

    /// Masks source code, and keeps it readable as code.
    pub fn command<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.redact(text, Mode::Source)
    }

    /// Masks configuration: values with a secret's name too, in `KEY=value`, dotted keys, JSON
    /// and YAML.
    pub fn full<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.redact(text, Mode::Full)
    }

    fn redact<'a>(&self, text: &'a str, mode: Mode) -> Cow<'a, str> {
        if !self.on {
            return Cow::Borrowed(text);
        }
        let Some(mut masked) = self.pass(text, mode) else {
            return Cow::Borrowed(text);
        };
        for _ in 1..PASSES {
            match self.pass(&masked, mode) {
                Some(next) => masked = next,
                None => break,
            }
        }
        Cow::Owned(masked)
    }

    /// Masks once, or returns nothing if there is nothing to mask.
    fn pass(&self, text: &str, mode: Mode) -> Option<String> {
        let mut current = Cow::Borrowed(text);
        let mut step = |apply: &dyn Fn(&str, &mut Edits)| {
            let mut edits = Edits::default();
            apply(&current, &mut edits);
            if let Some(next) = edits.apply(&current) {
                current = Cow::Owned(next);
            }
        };
        step(&|text, edits| rules::mask_forms(text, mode, edits));
        step(&form::mask_form_body);
        match mode {
            Mode::Source => {}
            Mode::CommandLine => step(&assignments::mask_assignments),
            Mode::Full => step(&fields::mask_fields),
        }
        match current {
            Cow::Borrowed(_) => None,
            Cow::Owned(next) => (next != text).then_some(next),
        }
    }
}

#[cfg(test)]
mod tests;
