//! Assignments in a command line: `TOKEN=… make`, `export TOKEN=…`, `env TOKEN=…`, `--token=…`.

use super::fields::{is_plain, mask_value};
use super::mask::{Edits, is_masked};
use super::names::secret_name;
use std::ops::Range;

/// Masks the values that a command line assigns to variables and options with a secret's name. References such as `$TOKEN` are not values
/// and stay.
pub(crate) fn mask_assignments(line: &str, edits: &mut Edits) {
    let bytes = line.as_bytes();
    let (mut quote, mut word, mut at) = (None::<u8>, 0, 0);
    while at < bytes.len() {
        let byte = bytes[at];
        match (quote, byte) {
            (None | Some(b'"'), b'\\') => at += 1,
            (None, b'\'' | b'"') => {
                quote = Some(byte);
                word = at + 1;
            }
            (Some(open), _) if byte == open => quote = None,
            (_, b'=') if is_secret(&line[word..at]) => {
                let value = value(line, at + 1, quote);
                let inside = unquoted(line, value.clone());
                let secret = &line[inside.clone()];
                if !secret.is_empty() && !is_masked(secret) && !is_plain(secret) {
                    edits.replace(inside, mask_value(secret));
                }
                at = value.end.max(at + 1);
                continue;
            }
            // A single `&` is more often part of a URL than the end of a command.
            (_, b'&') if bytes.get(at.wrapping_sub(1)) != Some(&b'&') => {}
            (_, b' ' | b'\t' | b'\n' | b'\r' | b';' | b'&' | b'|' | b'(' | b'{' | b'`' | b'\'' | b'"') => word = at + 1,
            _ => {}
        }
        at += 1;
    }
}

/// Whether a word before a `=` names a variable or an option that holds a secret.
fn is_secret(name: &str) -> bool {
    let name = name.strip_suffix('+').unwrap_or(name);
    let is_option = name.starts_with('-');
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || (is_option && matches!(c, '-' | '.'));
    name.len() <= 128 && !name.starts_with(|c: char| c.is_ascii_digit()) && name.chars().all(plain) && secret_name(name)
}

/// The rest of the word that begins at `from`, inside of `outer` quotes if there are any.
fn value(line: &str, from: usize, outer: Option<u8>) -> Range<usize> {
    let bytes = line.as_bytes();
    let (mut inner, mut at) = (None::<u8>, from);
    while at < bytes.len() {
        let byte = bytes[at];
        match (inner, byte) {
            _ if Some(byte) == outer => break,
            (None | Some(b'"'), b'\\') if outer != Some(b'\'') || bytes.get(at + 1) != Some(&b'\'') => {
                let next = bytes.get(at + 1).copied();
                // Quotes inside of quotes are escaped.
                if outer == Some(b'"') && next == Some(b'"') {
                    inner = if inner.is_some() { None } else { Some(b'"') };
                }
                at += 1;
            }
            (Some(open), _) if byte == open => inner = None,
            (Some(_), _) => {}
            (None, b'\'' | b'"') => inner = Some(byte),
            (None, b' ' | b'\t' | b'\n' | b'\r' | b';' | b'&' | b'|' | b'(' | b')' | b'<' | b'>' | b'`') if at > from || byte != b'(' => {
                break;
            }
            (None, _) => {}
        }
        at += 1;
    }
    // An escape at the very end may be followed by a character of several bytes.
    let mut end = at.min(bytes.len());
    while !line.is_char_boundary(end) {
        end += 1;
    }
    from..end
}

/// A value without the quotes around it.
fn unquoted(line: &str, value: Range<usize>) -> Range<usize> {
    for quote in ["\\\"", "\"", "'"] {
        let text = &line[value.clone()];
        if text.len() >= 2 * quote.len() && text.starts_with(quote) && text.ends_with(quote) {
            return value.start + quote.len()..value.end - quote.len();
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use crate::Redactor;

    #[test]
    fn secrets_that_a_command_line_assigns_are_masked() {
        let cases = [
            ("AWS_SECRET_ACCESS_KEY=abc/def+ghi sh -c 'env'", "AWS_SECRET_ACCESS_KEY=*** sh -c 'env'"),
            ("export TOKEN=hunter22; make", "export TOKEN=***; make"),
            ("env DB_PASSWORD=hunter22 MODE=fast ./run", "env DB_PASSWORD=*** MODE=fast ./run"),
            ("cd x && API_KEY=hunter22 ./run", "cd x && API_KEY=*** ./run"),
            ("cd x &&API_KEY=hunter22 ./run", "cd x &&API_KEY=*** ./run"),
            ("TOKEN='a b;c' make", "TOKEN='***' make"),
            ("TOKEN=\"a b\\\" c\" make", "TOKEN=\"***\" make"),
            ("TOKEN=a'b c'd make", "TOKEN=*** make"),
            ("sh -c 'TOKEN=hunter22 make'", "sh -c 'TOKEN=*** make'"),
            ("sh -c 'TOKEN=hunter22'", "sh -c 'TOKEN=***'"),
            ("sh -c \"TOKEN=\\\"a b\\\" make\"", "sh -c \"TOKEN=\\\"***\\\" make\""),
            ("sh -c 'TOKEN=\"a b\" make'", "sh -c 'TOKEN=\"***\" make'"),
            ("deploy --api-key=hunter22 --auth-token='x y' now", "deploy --api-key=*** --auth-token='***' now"),
            ("TOKEN+=hunter22", "TOKEN+=***"),
            ("TOKEN=hunter22", "TOKEN=***"),
            ("(TOKEN=hunter22 make)", "(TOKEN=*** make)"),
            ("TOKEN=abcdefghijklmnopqrstuvwxyz make", "TOKEN=abcdef...wxyz make"),
            ("TOKEN=hünter\\é x", "TOKEN=*** x"),
        ];
        for (line, want) in cases {
            assert_eq!(Redactor::new(true).command_line(line), want, "{line}");
            assert_eq!(Redactor::new(true).command_line(want), want, "masking what is masked changes nothing");
        }
    }

    #[test]
    fn other_command_lines_stay_as_they_are() {
        let lines = [
            "TOKEN=$TOKEN make",
            "TOKEN=\"$(cat secret)\" make",
            "TOKEN= make",
            "MODE=fast make",
            "TOKEN_FILE=/run/secrets/x make",
            "USE_TOKEN=true make",
            "curl 'https://example.com/?token=abcdefgh&password=abcdefgh'",
            "[ \"$TOKEN\" = abc ]",
            "test $token == abcdefgh",
            "echo my.token=abcdefgh",
            "a=b; c = d",
        ];
        for line in lines {
            assert_eq!(Redactor::new(true).command_line(line), line);
        }
        assert_eq!(Redactor::new(false).command_line("TOKEN=hunter22"), "TOKEN=hunter22");
    }
}
