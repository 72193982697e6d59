//! What a text costs a model.
//!
//! Decision 62: docs/decisions/text.md.

use memchr::memchr_iter;
use std::sync::LazyLock;
use tiktoken::CoreBpe;

/// A text longer than this is counted in pieces.
const PIECE: usize = 16 * 1024;

/// How many tokens a text has in `o200k_base`.
///
/// Models differ in their vocabularies, but not by much on what programs print. The vocabulary is unpacked at the first call, which takes a fifth of a second
/// and 24 MB; nothing is paid before.
pub fn count_tokens(text: &str) -> usize {
    let mut rest = text;
    let mut sum = 0;
    while let Some(at) = seam(rest) {
        sum += VOCABULARY.count(&rest[..at]);
        rest = &rest[at..];
    }
    sum + VOCABULARY.count(rest)
}

static VOCABULARY: LazyLock<&'static CoreBpe> =
    LazyLock::new(|| tiktoken::get_encoding("o200k_base").expect("the vocabulary is compiled in: it is a feature of the dependency"));

/// Whether counting a text takes time in proportion to its length: it does unless a long stretch of it cannot be parted.
pub(crate) fn is_cheap_to_count(text: &str) -> bool {
    let mut rest = text;
    while let Some(at) = seam(rest) {
        if at > LONGEST_STRETCH {
            return false;
        }
        rest = &rest[at..];
    }
    rest.len() <= LONGEST_STRETCH
}

/// Past this the time grows too fast: 4 MB without a seam take seconds, 64 KiB a few milliseconds.
pub(crate) const LONGEST_STRETCH: usize = 64 * 1024;

/// Where a long text can be parted without changing its tokens: no token of this vocabulary has both a line end and a letter or digit behind it. A text that was
/// all one piece would be held twice, once as text and once as tokens.
fn seam(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let beyond = bytes.get(PIECE..)?;
    let parts = |at: &usize| beyond.get(at + 1).is_some_and(u8::is_ascii_alphanumeric);
    memchr_iter(b'\n', beyond).find(parts).map(|at| PIECE + at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn counts_are_those_of_the_published_vocabulary() {
        for (text, tokens) in [("", 0), ("hello world", 2), ("error[E0308]: mismatched types\n", 9), (&"a".repeat(800), 100)] {
            assert_eq!(count_tokens(text), tokens, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_count_in_pieces_is_the_count_of_the_whole(lines in proptest::collection::vec("[ -~]{0,12}[\n /}]{1,3}", 1..12)) {
            let text = lines.concat().repeat(1 + 3 * PIECE / lines.concat().len());
            prop_assert_eq!(count_tokens(&text), VOCABULARY.count(&text));
        }
    }
}
