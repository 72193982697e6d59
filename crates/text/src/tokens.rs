//! Counts the tokens of a text.
//!
//! Decision 62: docs/decisions/text.md.

use memchr::memchr_iter;
use std::sync::LazyLock;
use tiktoken::CoreBpe;

/// A longer text is counted in pieces.
const PIECE_BYTES: usize = 16 * 1024;

/// How many tokens a text has in `o200k_base`.
///
/// The vocabularies of models differ, but not by much for the output of programs. The first call unpacks the vocabulary, which takes a fifth
/// of a second and 24 MB.
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

/// Whether counting a text takes linear time: it does unless the text has a long stretch without a seam.
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

/// Beyond this the time grows too fast: 4 MB without a seam take seconds, 64 KiB a few milliseconds.
pub(crate) const LONGEST_STRETCH: usize = 64 * 1024;

/// Where a long text can be split without changing its tokens: no token of this vocabulary has a line end followed by a letter or digit. In
/// one piece, the whole text would be held twice, as text and as tokens.
fn seam(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let beyond = bytes.get(PIECE_BYTES..)?;
    let parts = |at: &usize| beyond.get(at + 1).is_some_and(u8::is_ascii_alphanumeric);
    memchr_iter(b'\n', beyond).find(parts).map(|at| PIECE_BYTES + at + 1)
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
            let text = lines.concat().repeat(1 + 3 * PIECE_BYTES / lines.concat().len());
            prop_assert_eq!(count_tokens(&text), VOCABULARY.count(&text));
        }
    }
}
