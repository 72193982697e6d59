//! The model's record of a message or a notice. No other program of the round writes it.

use super::super::super::agents::model::{messages, text};
use super::model::{NOTE, REPEAT};
use serde_json::Value;
use std::collections::BTreeSet;

/// The model's record of one message or notice.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Given {
    /// How often at most one request has it without a mark.
    pub(super) unmarked: usize,
    /// The different marks with which it was given. Each note has the time of its interruption.
    pub(super) marks: BTreeSet<String>,
    /// Whether the last request that has it has it with a mark.
    pub(super) is_last_marked: bool,
    /// How many requests have it.
    pub(super) requests: usize,
}

impl Given {
    /// Looks for what tells the thing from all others in what users said. What a note quotes does not count.
    pub(super) fn of(turns: &[Value], needle: &str) -> Self {
        let mut given = Self::default();
        for request in turns {
            let (mut unmarked, mut marked) = (0, 0);
            for said in messages(request).filter(|m| m["role"] == "user").map(text) {
                let own: String = said.lines().filter(|line| !line.starts_with("> ")).map(|line| format!("{line}\n")).collect();
                // Some agents join what was said in a row. A note comes before the words that it is about.
                for (at, piece) in own.split(NOTE).enumerate() {
                    let times = piece.matches(needle).count();
                    if times == 0 {
                        continue;
                    }
                    if at > 0 || piece.contains(REPEAT) {
                        marked += 1;
                        given.marks.insert(mark(piece));
                    } else {
                        unmarked += times;
                    }
                }
            }
            if unmarked + marked > 0 {
                given.requests += 1;
                given.unmarked = given.unmarked.max(unmarked);
                given.is_last_marked = marked > 0;
            }
        }
        given
    }

    /// What is wrong with it, if the turn took this many attempts.
    pub(super) fn wrong(&self, attempt: u32) -> Option<String> {
        let again = attempt.saturating_sub(1) as usize;
        match () {
            () if self.requests == 0 => Some("the model was never given it".into()),
            () if self.unmarked > 1 => Some(format!("the model was given it {} times without a mark: {self:?}", self.unmarked)),
            // A notice that was delivered once may be marked as a repeat: the engine could not know.
            () if self.marks.len() > again.max(1) => {
                Some(format!("it was marked {} times in {attempt} attempts: {self:?}", self.marks.len()))
            }
            () if attempt > 1 && !self.is_last_marked => Some(format!("attempt {attempt} says nothing of the one before: {self:?}")),
            () => None,
        }
    }
}

/// What tells one mark from another: the line of the note that has the time of the interruption.
fn mark(piece: &str) -> String {
    piece.lines().find(|line| line.contains("interrupted by")).unwrap_or(REPEAT).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn given(said: &[&str]) -> Given {
        let messages: Vec<Value> = said.iter().map(|text| json!({"role": "user", "content": text})).collect();
        Given::of(&[json!({ "messages": messages })], "[[x]]")
    }

    #[test]
    fn words_are_counted_with_and_without_a_mark() {
        let note = |time: &str| format!("{NOTE}. x]\nThis turn was interrupted by a gateway interruption at {time}.\n\n[[x]] words");
        assert_eq!(given(&["[[x]] words", "other"]).wrong(1), None);
        assert_eq!(given(&["[[x]] words", &note("1")]).wrong(2), None);
        assert_eq!(given(&[&format!("[[x]] words\n\n{}", note("1"))]).wrong(2), None, "joined");
        assert_eq!(given(&[&note("1")]).wrong(2), None);
        assert_eq!(given(&[&format!("{NOTE}\n> [[x]]\nnew"), "[[x]]"]).unmarked, 1, "what is quoted does not count");
        for (said, attempt) in [
            (vec!["other".to_owned()], 1),
            (vec!["[[x]]".into(), "[[x]]".into()], 2),
            (vec!["[[x]] [[x]]".into()], 1),
            (vec!["[[x]]".into()], 2),
            (vec![note("1"), note("2")], 2),
        ] {
            let said: Vec<&str> = said.iter().map(String::as_str).collect();
            assert!(given(&said).wrong(attempt).is_some(), "{said:?}");
        }
    }
}
