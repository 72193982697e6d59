//! Cuts a text to its end or its beginning, and says where it was cut.

use memchr::{memchr, memrchr};

/// What a cut removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// How many characters are missing.
    pub removed_chars: usize,
    /// Where the cut is.
    pub at: CutAt,
}

/// Where a cut is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutAt {
    /// Between two lines.
    Line,
    /// Inside a line that is too long to be shown whole.
    Char,
}

/// A part of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece<'a> {
    /// The part that was kept.
    pub text: &'a str,
    /// What was removed, if anything.
    pub cut: Option<Cut>,
}

/// At most the last `n` characters, from the start of a line if possible.
///
/// A text is cut inside a line only if its last line alone is too long.
pub fn tail_chars(text: &str, n: usize) -> Piece<'_> {
    let Some(at) = nth_char_from_end(text, n) else {
        return whole(text);
    };
    let bytes = text.as_bytes();
    // A line end right before the tail counts; the line end at the end of the text does not.
    let from = at.saturating_sub(1);
    let to = text.len().saturating_sub(1).max(from);
    let (start, cut_at) = match memchr(b'\n', &bytes[from..to]) {
        Some(newline) => (from + newline + 1, CutAt::Line),
        None => (at, CutAt::Char),
    };
    piece(&text[start..], &text[..start], cut_at)
}

/// At most the first `n` characters, up to the end of a line if possible.
///
/// A text is cut inside a line only if its first line alone is too long.
pub fn head_chars(text: &str, n: usize) -> Piece<'_> {
    let Some((at, _)) = text.char_indices().nth(n) else {
        return whole(text);
    };
    let (end, cut_at) = match memrchr(b'\n', &text.as_bytes()[..at]) {
        Some(newline) => (newline + 1, CutAt::Line),
        None => (at, CutAt::Char),
    };
    piece(&text[..end], &text[end..], cut_at)
}

/// Where the last `n` characters begin, if there are more than that.
fn nth_char_from_end(text: &str, n: usize) -> Option<usize> {
    if text.len() <= n {
        return None;
    }
    let at = match n.checked_sub(1) {
        Some(before) => text.char_indices().nth_back(before)?.0,
        None => text.len(),
    };
    (at > 0).then_some(at)
}

/// The last place at or before `at` where a text can be cut.
pub(crate) fn boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0)
}

fn whole(text: &str) -> Piece<'_> {
    Piece { text, cut: None }
}

fn piece<'a>(kept: &'a str, removed: &str, at: CutAt) -> Piece<'a> {
    Piece { text: kept, cut: Some(Cut { removed_chars: removed.chars().count(), at }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cut(removed_chars: usize, at: CutAt) -> Option<Cut> {
        Some(Cut { removed_chars, at })
    }

    #[test]
    fn case_083_the_last_thousand_characters() {
        let text = "é".repeat(3000);
        let tail = tail_chars(&text, 1000);
        assert_eq!(tail.text.chars().count(), 1000);
        assert_eq!(tail.cut, cut(2000, CutAt::Char));
    }

    #[test]
    fn a_tail_starts_at_a_line() {
        let table = [
            ("one\ntwo\nthree\n", 8, "three\n", cut(8, CutAt::Line)),
            ("one\ntwo\nthree\n", 6, "three\n", cut(8, CutAt::Line)),
            ("one\ntwo\nthree\n", 5, "hree\n", cut(9, CutAt::Char)),
            ("one\ntwo", 4, "two", cut(4, CutAt::Line)),
            ("one\ntwo", 7, "one\ntwo", None),
            ("one\ntwo", 0, "", cut(7, CutAt::Char)),
            ("one", 2, "ne", cut(1, CutAt::Char)),
            ("", 0, "", None),
        ];
        for (text, n, kept, cut) in table {
            assert_eq!(tail_chars(text, n), Piece { text: kept, cut }, "{text:?} {n}");
        }
    }

    #[test]
    fn a_head_ends_at_a_line() {
        let table = [
            ("one\ntwo\nthree", 9, "one\ntwo\n", cut(5, CutAt::Line)),
            ("one\ntwo\nthree", 8, "one\ntwo\n", cut(5, CutAt::Line)),
            ("one\ntwo\nthree", 3, "one", cut(10, CutAt::Char)),
            ("one\ntwo", 7, "one\ntwo", None),
            ("one", 0, "", cut(3, CutAt::Char)),
        ];
        for (text, n, kept, cut) in table {
            assert_eq!(head_chars(text, n), Piece { text: kept, cut }, "{text:?} {n}");
        }
    }

    proptest! {
        #[test]
        fn the_sum_is_the_whole(text in "[aé🦀\n]{0,40}", n in 0usize..45) {
            for part in [tail_chars(&text, n), head_chars(&text, n)] {
                let kept = part.text.chars().count();
                let removed = part.cut.map_or(0, |cut| cut.removed_chars);
                prop_assert!(kept <= n || part.cut.is_none());
                prop_assert!(part.cut.is_some() || part.text == text);
                prop_assert_eq!(kept + removed, text.chars().count());
            }
            prop_assert!(text.ends_with(tail_chars(&text, n).text));
            prop_assert!(text.starts_with(head_chars(&text, n).text));
        }
    }
}
