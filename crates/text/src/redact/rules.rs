//! Secrets that have a form of their own.

use super::Mode;
use super::header::{self, TokenEnds};
use super::mask::{Edit, Edits, HIDDEN, masked};
use super::pem::{self, EndMarks};
use super::place::Place;
use super::url;
use super::vendor::{FAMILIES, begins_word, is_word};
use aho_corasick::{AhoCorasick, AhoCorasickBuilder, AhoCorasickKind, Input, MatchKind};
use std::sync::LazyLock;

/// Masks every secret that is known by its form.
///
/// One pass over the text looks for all words that any of them begins with or hangs on; only there
/// does the rule of that word look closer, from that place on. No rule looks at the same text again
/// for the next word, so the time is linear in the text.
pub(crate) fn mask_forms(text: &str, mode: Mode, edits: &mut Edits) {
    let keywords = &*KEYWORDS;
    let mut seen = SearchMemo::default();
    let mut from = 0;
    while let Some(found) = keywords.automaton.find(Input::new(text).range(from..)) {
        from = found.start() + 1;
        let mut candidate = Some(found.pattern().as_usize());
        while let Some(keyword) = candidate {
            let rule = keywords.rules[keyword];
            let end = found.start() + keywords.lengths[keyword];
            let place = Place { text, start: found.start(), end, floor: edits.end() };
            if let Some((range, with)) = rule.apply(place, mode, &mut seen) {
                from = range.end.max(from);
                edits.replace(range, with);
                break;
            }
            candidate = keywords.shorter[keyword];
        }
    }
}

/// What earlier searches in the same text found, so that none is made twice.
#[derive(Default)]
struct SearchMemo {
    tokens: TokenEnds,
    end_marks: EndMarks,
}

#[derive(Clone, Copy)]
enum Rule {
    Vendor(usize),
    Authorization,
    KeyHeader,
    Url,
    PemBegin,
    PemEnd,
    WebToken,
    BotToken,
    Phone,
}

impl Rule {
    fn apply(self, place: Place<'_>, mode: Mode, seen: &mut SearchMemo) -> Option<Edit> {
        match self {
            Rule::Vendor(family) => {
                let range = FAMILIES[family].token_at(place.text, place.start)?;
                masked(place.text, range)
            }
            Rule::Authorization => header::authorization(place, &mut seen.tokens),
            Rule::KeyHeader => header::key_header(place, &mut seen.tokens),
            Rule::Url => url::credentials(place, mode),
            Rule::PemBegin => pem::from_begin(place, &mut seen.end_marks),
            Rule::PemEnd => pem::up_to_end(place),
            Rule::WebToken => web_token(place),
            Rule::BotToken => bot_token(place),
            Rule::Phone => phone(place),
        }
    }
}

/// A JSON web token: a header and at least one more part.
fn web_token(place: Place<'_>) -> Option<Edit> {
    let bytes = place.text.as_bytes();
    if !begins_word(bytes, place.start) || !place.text[place.start..].starts_with("eyJ") {
        return None;
    }
    let rest = &bytes[place.end..];
    let header = rest.iter().take_while(|&&byte| is_word(byte)).count();
    if header < 10 || rest.get(header) != Some(&b'.') {
        return None;
    }
    let more = rest[header..].iter();
    let length = header + more.take_while(|&&b| is_word(b) || matches!(b, b'.' | b'=')).count();
    let token = place.text[place.start..place.end + length].trim_end_matches('.');
    let range = place.start..place.start + token.len();
    (range.len() >= 3 + header + 5).then(|| masked(place.text, range))?
}

/// A Telegram bot token: the number of the bot, a colon, the secret.
fn bot_token(place: Place<'_>) -> Option<Edit> {
    let bytes = place.text.as_bytes();
    let digits = bytes[..=place.start].iter().rev().take(17).take_while(|b| b.is_ascii_digit());
    let digits = digits.count();
    let first = place.start + 1 - digits;
    let is_number = (8..=16).contains(&digits) && (begins_word(bytes, first) || bytes[..first].ends_with(b"bot"));
    if !is_number {
        return None;
    }
    let secret = bytes[place.end..].iter().take_while(|&&byte| is_word(byte)).count();
    (secret >= 30).then(|| (place.end..place.end + secret, HIDDEN.to_owned()))
}

/// A phone number as E.164 writes it; its ends stay.
fn phone(place: Place<'_>) -> Option<Edit> {
    let bytes = place.text.as_bytes();
    let before = place.start.checked_sub(1).map(|at| bytes[at]);
    if before.is_some_and(|byte| is_word(byte) || byte == b'+') {
        return None;
    }
    let digits = bytes[place.start + 1..].iter().take_while(|b| b.is_ascii_digit()).count();
    let end = place.start + 1 + digits;
    let goes_on = bytes.get(end).is_some_and(|&byte| is_word(byte));
    if !(7..=15).contains(&digits) || goes_on {
        return None;
    }
    let shown = if digits < 8 { 2 } else { 4 };
    let (head, tail) = (place.start + shown, end - shown);
    let with = format!("{}****{}", &place.text[place.start..head], &place.text[tail..end]);
    Some((place.start..end, with))
}

struct Keywords {
    automaton: AhoCorasick,
    rules: Vec<Rule>,
    lengths: Vec<usize>,
    /// For each keyword the longest other one that it begins with, to be tried when it fails.
    shorter: Vec<Option<usize>>,
}

static KEYWORDS: LazyLock<Keywords> = LazyLock::new(|| {
    let mut words: Vec<(String, Rule)> = Vec::new();
    for (index, family) in FAMILIES.iter().enumerate() {
        words.push((family.prefix.to_owned(), Rule::Vendor(index)));
    }
    words.push(("authorization".to_owned(), Rule::Authorization));
    for name in header::KEY_HEADERS {
        words.push(((*name).to_owned(), Rule::KeyHeader));
    }
    words.push(("://".to_owned(), Rule::Url));
    words.push(("-----begin ".to_owned(), Rule::PemBegin));
    words.push(("-----end ".to_owned(), Rule::PemEnd));
    words.push(("eyJ".to_owned(), Rule::WebToken));
    for digit in 0..=9 {
        words.push((format!("{digit}:"), Rule::BotToken));
    }
    for digit in 1..=9 {
        words.push((format!("+{digit}"), Rule::Phone));
    }
    let shorter = words.iter().map(|(word, _)| {
        let begins = |other: &str| other.len() < word.len() && word[..other.len()].eq_ignore_ascii_case(other);
        let others = words.iter().enumerate().filter(|(_, (other, _))| begins(other));
        others.max_by_key(|(_, (other, _))| other.len()).map(|(index, _)| index)
    });
    let automaton = AhoCorasickBuilder::new()
        .match_kind(MatchKind::LeftmostLongest)
        .ascii_case_insensitive(true)
        .kind(Some(AhoCorasickKind::DFA))
        .build(words.iter().map(|(word, _)| word))
        .expect("the keywords are constant and few, and a test builds them");
    Keywords {
        automaton,
        lengths: words.iter().map(|(word, _)| word.len()).collect(),
        shorter: shorter.collect(),
        rules: words.iter().map(|(_, rule)| *rule).collect(),
    }
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_keyword_stands_twice() {
        let lengths = &KEYWORDS.lengths;
        assert_eq!(lengths.len(), KEYWORDS.rules.len());
        let mut prefixes: Vec<String> = FAMILIES.iter().map(|family| family.prefix.to_ascii_lowercase()).collect();
        prefixes.extend(header::KEY_HEADERS.iter().map(|&name| name.to_owned()));
        prefixes.sort_unstable();
        let count = prefixes.len();
        prefixes.dedup();
        assert_eq!(prefixes.len(), count);
    }
}
