//! Limits output to a number of tokens, for models, which pay for each.

use crate::Host;
use crate::output::Output;
use crate::pages::Pages;
use outlast_client::{Client, ClientError, Page, Status};
use outlast_text::{Log, brief, count_tokens, tail_chars};
use std::ops::Range;

impl Output {
    /// The lines of a whole log that matter most, within `tokens`.
    pub(crate) async fn brief(client: &Client, host: &Host, id: &str, tokens: usize) -> Result<Self, ClientError> {
        Ok(Self::brief_of(&Pages::read(client, id, Page::default()).await?, host, tokens))
    }

    /// The lines of some pages that matter most, within `tokens`.
    pub(crate) fn brief_of(pages: &Pages, host: &Host, tokens: usize) -> Self {
        let read = |lines: Range<u64>| host.profile.read_lines(lines.start, Some(lines.end - lines.start));
        let page = &pages.page;
        let log =
            Log { first_line: page.first_line, continues: pages.continues, holes: &pages.holes, ..Log::whole(page.output.trim_end()) };
        let made = brief(&log, Some(tokens), &read);
        Self {
            text: made.text,
            cut: !made.left_out.is_empty() || !made.shortened.is_empty(),
            gaps: page.gaps.clone(),
            over: page.status == Status::Exited,
            tokens: Some(made.tokens),
        }
    }
}

/// The longest end of a text within `tokens`, and how many characters are missing before it.
pub(crate) fn end_of(text: &str, tokens: usize) -> (&str, usize) {
    let fits = |chars: usize| count_tokens(tail_chars(text, chars).text) <= tokens;
    let (mut good, mut bad) = (0, text.chars().count() + 1);
    // A longer text has more tokens, except at a few seams. The end that is found is within the limit in any case.
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        *(if fits(middle) { &mut good } else { &mut bad }) = middle;
    }
    let end = tail_chars(text, good);
    (end.text, end.cut.map_or(0, |cut| cut.removed_chars))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_end_of_a_text_is_as_long_as_may_be() {
        let text: String = (0..100).map(|n| format!("line {n}\n")).collect();
        let (end, cut) = end_of(&text, 20);
        assert!(end.ends_with("line 99\n") && end.starts_with("line 9") && count_tokens(end) <= 20, "{end:?}");
        assert_eq!(cut + end.chars().count(), text.chars().count());
        assert_eq!(end_of("short", 20), ("short", 0));
        assert_eq!(end_of("", 1), ("", 0));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn it_never_costs_more(text in ".{0,200}", tokens in 1usize..40) {
            let (end, cut) = end_of(&text, tokens);
            prop_assert!(count_tokens(end) <= tokens && text.ends_with(end));
            prop_assert_eq!(end.chars().count() + cut, text.chars().count());
        }
    }
}
