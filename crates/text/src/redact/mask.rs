//! What a secret is replaced by.

use std::ops::Range;

pub(crate) const HIDDEN: &str = "***";
const GAP: &str = "...";
const SHOWN_FIRST: usize = 6;
const SHOWN_LAST: usize = 4;
const SHORTEST_SHOWN: usize = 18;

/// The mask of a value: nothing of a short one, both ends of a long one.
pub(crate) fn mask(value: &str) -> String {
    let count = value.chars().count();
    if count < SHORTEST_SHOWN {
        return HIDDEN.to_owned();
    }
    let first = value.chars().take(SHOWN_FIRST);
    let last = value.chars().skip(count - SHOWN_LAST);
    first.chain(GAP.chars()).chain(last).collect()
}

/// Whether a value is a mask already.
pub(crate) fn is_masked(value: &str) -> bool {
    if value == HIDDEN {
        return true;
    }
    let mut after_first = value.char_indices().skip(SHOWN_FIRST);
    let Some((at, _)) = after_first.next() else {
        return false;
    };
    let rest = value[at..].strip_prefix(GAP);
    rest.is_some_and(|last| last.chars().count() == SHOWN_LAST)
}

/// Whether a value stands for one that is filled in later: a variable, a template, a format.
pub(crate) fn is_reference(value: &str) -> bool {
    value.starts_with(['$', '{', '<', '%', '`', '(', '['])
        || value.starts_with("os.")
        || value.starts_with("process.env")
        || value.starts_with("env(")
        || value.starts_with("getenv")
}

/// The mask of a range, unless it is masked already.
pub(crate) fn masked(text: &str, range: Range<usize>) -> Option<Edit> {
    let value = &text[range.clone()];
    (!value.is_empty() && !is_masked(value)).then(|| (range, mask(value)))
}

/// A range of the text and what to put there.
pub(crate) type Edit = (Range<usize>, String);

/// Replacements in a text, from left to right.
#[derive(Default)]
pub(crate) struct Edits {
    list: Vec<Edit>,
}

impl Edits {
    /// Notes a replacement; one that reaches into the one before it is ignored.
    pub(crate) fn replace(&mut self, range: Range<usize>, with: String) {
        if range.start >= self.end() {
            self.list.push((range, with));
        }
    }

    /// Where the last replaced range ends.
    pub(crate) fn end(&self) -> usize {
        self.list.last().map_or(0, |(range, _)| range.end)
    }

    /// The text with the replacements, or nothing if there are none.
    pub(crate) fn apply(self, text: &str) -> Option<String> {
        if self.list.is_empty() {
            return None;
        }
        let mut out = String::with_capacity(text.len());
        let mut copied = 0;
        for (range, with) in self.list {
            out.push_str(&text[copied..range.start]);
            out.push_str(&with);
            copied = range.end;
        }
        out.push_str(&text[copied..]);
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_value_is_hidden_and_a_long_one_shows_its_ends() {
        assert_eq!(mask("a"), "***");
        assert_eq!(mask("12345678901234567"), "***");
        assert_eq!(mask("123456789012345678"), "123456...5678");
        assert_eq!(mask(&"é".repeat(20)), "éééééé...éééé");
        for value in ["a", "123456789012345678", "éééééééééééééééééééééé"] {
            assert!(is_masked(&mask(value)) && !is_masked(value));
        }
    }
}
