//! Secrets out of text.

mod command;
mod fields;
mod form;
mod header;
mod mask;
mod names;
mod pem;
mod rules;
mod url;
mod vendor;

pub use names::secret_name;

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, MatchKind};
use mask::{Edits, mask};
use std::borrow::Cow;
use std::fmt;

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
pub struct Redactor {
    on: bool,
    known: Option<AhoCorasick>,
}

/// What a text is taken for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Source code, or anything: only what has a form of its own is masked.
    Source,
    /// Configuration: what has a secret's name is masked too.
    Full,
}

/// A known value shorter than this occurs by chance.
const SHORTEST_KNOWN: usize = 8;

/// Masking can bring a new secret to light: its start no longer has a letter before it, or what is
/// left is a form's body. Text that somebody wrote takes two passes; five were seen of made-up
/// ones. The bound is there so that nobody can have it go on for long.
const PASSES: usize = 32;

impl Redactor {
    /// A redactor that is on or off for good.
    pub fn new(on: bool) -> Self {
        Self { on, known: None }
    }

    /// Masks these values wherever they stand, as well; for example those of the environment
    /// variables with a [`secret_name`]. Values of fewer than eight characters are left out, since
    /// they would be found by chance. A second call replaces the values of the first.
    pub fn with_known<V: AsRef<str>>(mut self, values: impl IntoIterator<Item = V>) -> Self {
        let mut values: Vec<String> = values
            .into_iter()
            .map(|value| value.as_ref().trim().to_owned())
            .filter(|value| value.chars().count() >= SHORTEST_KNOWN && !mask::is_masked(value))
            .collect();
        values.sort_unstable();
        values.dedup();
        // The build fails only for more values than an environment can hold; masking by form
        // goes on without them then.
        self.known = match values.is_empty() {
            true => None,
            false => AhoCorasickBuilder::new().match_kind(MatchKind::LeftmostLongest).build(values).ok(),
        };
        self
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

    /// Masks a command line, or other source code, and leaves it readable as such.
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
        if let Some(known) = &self.known {
            step(&|text, edits| {
                for found in known.find_iter(text) {
                    edits.replace(found.range(), mask(&text[found.range()]));
                }
            });
        }
        step(&|text, edits| rules::mask_forms(text, mode, edits));
        step(&form::mask_form_body);
        if mode == Mode::Full {
            step(&fields::mask_fields);
        }
        match current {
            Cow::Borrowed(_) => None,
            Cow::Owned(next) => (next != text).then_some(next),
        }
    }
}

impl fmt::Debug for Redactor {
    /// Leaves out the known values: a debug print must not tell what this is there to hide.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.known.as_ref().map_or(0, AhoCorasick::patterns_len);
        f.debug_struct("Redactor").field("on", &self.on).field("known", &known).finish()
    }
}

#[cfg(test)]
mod tests;
