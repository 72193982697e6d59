//! Credentials in headers.

use super::mask::{Edit, is_reference, masked};
use super::place::Place;

/// Headers whose whole value is a credential, in lower case.
pub(crate) const KEY_HEADERS: &[&str] = &[
    "x-api-key",
    "x-apikey",
    "x-api-token",
    "x-auth-token",
    "x-auth-key",
    "x-access-token",
    "x-amz-security-token",
    "x-goog-api-key",
    "x-gitlab-token",
    "x-vault-token",
    "x-figma-token",
    "x-shopify-access-token",
    "x-subscription-token",
    "x-functions-key",
    "x-rapidapi-key",
    "x-postmark-server-token",
    "xi-api-key",
    "ocp-apim-subscription-key",
    "dd-api-key",
    "dd-application-key",
    "private-token",
    "job-token",
    "circle-token",
    "api-key",
    "apikey",
];

/// Schemes that one token follows.
const TOKEN_SCHEMES: &[&str] = &[
    "bearer",
    "basic",
    "token",
    "bot",
    "apikey",
    "api-key",
    "key",
    "jwt",
    "ssws",
    "negotiate",
    "ntlm",
    "splunk",
    "geniekey",
    "oauth2",
    "zoho-oauthtoken",
];

/// Schemes that the rest of the header belongs to.
const LIST_SCHEMES: &[&str] = &["digest", "hawk", "oauth", "aws4-hmac-sha256", "signature", "mac"];

/// `Authorization: Bearer …` and its kin; the scheme stays.
pub(crate) fn authorization(place: Place<'_>, tokens: &mut TokenEnds) -> Option<Edit> {
    let text = place.text;
    let header = Header::parse(place)?;
    let first_end = tokens.next(text, header.value);
    let first = &text[header.value..first_end];
    let second_start = skip_blanks(text, first_end);
    let second_end = match second_start > first_end {
        true => tokens.next(text, second_start),
        false => second_start,
    };
    let is_one_of = |schemes: &[&str]| schemes.iter().any(|s| s.eq_ignore_ascii_case(first));
    let only = second_start == second_end;
    if first.is_empty() || is_reference(&text[if only { header.value } else { second_start }..]) {
        return None;
    }
    let range = if only {
        if !looks_opaque(first) {
            return None;
        }
        header.value..first_end
    } else if is_one_of(TOKEN_SCHEMES) {
        second_start..second_end
    } else if is_one_of(LIST_SCHEMES) {
        second_start..header.end(text, second_start)
    } else if looks_opaque(&text[second_start..second_end]) {
        second_start..second_end
    } else {
        return None;
    };
    masked(text, range)
}

/// `x-api-key: …` and its kin.
pub(crate) fn key_header(place: Place<'_>, tokens: &mut TokenEnds) -> Option<Edit> {
    let text = place.text;
    let header = Header::parse(place)?;
    if header.separator != b':' {
        return None;
    }
    let end = tokens.next(text, header.value);
    let value = &text[header.value..end];
    let is_code = is_reference(value) || value.contains(['(', '[']);
    // In source code the value may be a name; in a header, and between quotes, it is the value.
    let is_value = header.value_quote.is_some() || !header.name_quoted;
    if is_code || !(is_value || looks_opaque(value)) {
        return None;
    }
    masked(text, header.value..end)
}

struct Header {
    name_quoted: bool,
    /// The quote that the whole header stands in, as on a command line.
    outer_quote: Option<u8>,
    separator: u8,
    value_quote: Option<u8>,
    value: usize,
}

impl Header {
    fn parse(place: Place<'_>) -> Option<Self> {
        let bytes = place.text.as_bytes();
        let before = place.start.checked_sub(1).map(|at| bytes[at]);
        // A name in the query of an address is left alone, and `_` belongs to another name.
        if before.is_some_and(|b| b.is_ascii_alphanumeric() || matches!(b, b'?' | b'&')) {
            return None;
        }
        let (name_quote, at) = quote_at(bytes, place.end);
        let at = skip_blanks(place.text, at);
        let separator = *bytes.get(at).filter(|b| matches!(b, b':' | b'='))?;
        let at = skip_blanks(place.text, at + 1);
        let (value_quote, value) = quote_at(bytes, at);
        let outer_quote = before.filter(|b| matches!(b, b'"' | b'\'') && name_quote.is_none());
        Some(Self { name_quoted: name_quote.is_some(), outer_quote, separator, value_quote, value })
    }

    /// Where a value that may hold blanks ends: at its quote, or else at the end of the line.
    fn end(&self, text: &str, from: usize) -> usize {
        let quote = self.value_quote.or(self.outer_quote);
        let ends = |byte: u8| byte == b'\n' || byte == b'\r' || Some(byte) == quote;
        let rest = &text.as_bytes()[from..];
        let length = rest.iter().position(|&byte| ends(byte)).unwrap_or(rest.len());
        from + text[from..from + length].trim_end().len()
    }
}

/// A quote at `at`, or one with a backslash before it, and the index after it.
fn quote_at(bytes: &[u8], at: usize) -> (Option<u8>, usize) {
    match bytes.get(at..).unwrap_or_default() {
        [quote @ (b'"' | b'\''), ..] => (Some(*quote), at + 1),
        [b'\\', quote @ (b'"' | b'\''), ..] => (Some(*quote), at + 2),
        _ => (None, at),
    }
}

fn skip_blanks(text: &str, from: usize) -> usize {
    let rest = &text.as_bytes()[from..];
    from + rest.iter().take_while(|b| matches!(b, b' ' | b'\t')).count()
}

/// Where tokens end.
///
/// It remembers the last one: in a text without blanks every header name would else be followed to
/// the end of the text.
#[derive(Default)]
pub(crate) struct TokenEnds {
    last: std::ops::Range<usize>,
}

impl TokenEnds {
    fn next(&mut self, text: &str, from: usize) -> usize {
        if !self.last.contains(&from) {
            let ends = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '"' | '\'' | '`' | ',' | ';' | '\\' | ')' | '}' | ']');
            self.last = from..text[from..].find(ends).map_or(text.len(), |at| from + at);
        }
        self.last.end
    }
}

/// Whether a value looks made by a machine, and not like a word.
pub(crate) fn looks_opaque(value: &str) -> bool {
    let start = &value.as_bytes()[..value.len().min(256)];
    let has = |wanted: fn(&u8) -> bool| start.iter().any(wanted);
    let has_digit = has(u8::is_ascii_digit);
    let is_mixed = has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
    (value.len() >= 8 && has_digit) || (value.len() >= 20 && is_mixed)
}
