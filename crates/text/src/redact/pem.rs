//! Private keys in PEM form.

use super::mask::Edit;
use super::place::Place;
use memchr::{memchr, memmem};

const REDACTED: &str = "[REDACTED PRIVATE KEY]";
const DASHES: &str = "-----";
const END: &str = "-----END ";
/// Labels are short; what is longer is not one.
const LONGEST_LABEL: usize = 64;

/// The largest keys take less than this; two marks farther apart are not of one block.
const LONGEST_BODY: usize = 16 * 1024;

/// The block that begins here, to its end mark.
///
/// A block whose end is not there (yet) goes as far as its lines look like one.
pub(crate) fn from_begin(place: Place<'_>, marks: &mut EndMarks) -> Option<Edit> {
    let after_label = key_label(place)?;
    let end = match marks.next(place.text, after_label) {
        Some((at, end)) if at - after_label <= LONGEST_BODY => end,
        _ => after_label + body_length(&place.text[after_label..]),
    };
    (end > after_label).then(|| (place.start..end, REDACTED.to_owned()))
}

/// The block that ends here, and whose beginning is not in the text.
pub(crate) fn up_to_end(place: Place<'_>) -> Option<Edit> {
    let end = key_label(place)?;
    let before = &place.text.as_bytes()[place.floor..place.start];
    let is_body = |b: &&u8| is_base64(**b) || matches!(b, b'\n' | b'\r');
    let run = before.iter().rev().take_while(is_body).count();
    let mut start = place.start - run;
    // Words end in letters too: only whole lines are taken, and none from before a blank one.
    let body = &place.text[start..place.start];
    if run < before.len() && before[before.len() - run - 1] != b'\n' {
        start += body.find('\n')? + 1;
    }
    if let Some(blank) = place.text[start..place.start].rfind("\n\n") {
        start += blank + 2;
    }
    let has_body = !place.text[start..place.start].trim().is_empty();
    has_body.then(|| (start..end, REDACTED.to_owned()))
}

/// The end marks of one text, from left to right.
#[derive(Default)]
pub(crate) struct EndMarks {
    /// The last search: from where, and what it found.
    last: Option<(usize, Option<usize>)>,
}

impl EndMarks {
    /// Where the next end mark begins and ends, if it is that of a private key.
    fn next(&mut self, text: &str, from: usize) -> Option<(usize, usize)> {
        let at = match self.last {
            Some((searched, None)) if searched <= from => return None,
            Some((searched, Some(at))) if searched <= from && from <= at => at,
            _ => {
                let found = memmem::find(&text.as_bytes()[from..], END.as_bytes());
                self.last = Some((from, found.map(|at| from + at)));
                from + found?
            }
        };
        let place = Place { text, start: at, end: at + END.len(), floor: 0 };
        Some((at, key_label(place)?))
    }
}

/// The index after the dashes after the label at `place.end`, if it is that of a private key.
fn key_label(place: Place<'_>) -> Option<usize> {
    let rest = &place.text.as_bytes()[place.end..];
    let label = &rest[..rest.len().min(LONGEST_LABEL)];
    let length = memmem::find(label, DASHES.as_bytes())?;
    let label = &label[..length];
    let is_key = label.ends_with(b"PRIVATE KEY") || label.ends_with(b"PRIVATE KEY BLOCK");
    is_key.then_some(place.end + length + DASHES.len())
}

/// How much of the text looks like the inside of a block: lines of base64 and headers.
fn body_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut length = 0;
    while length < bytes.len() {
        let line = &bytes[length..];
        let run = match HEADERS.iter().any(|header| line.starts_with(header)) {
            true => memchr(b'\n', line).unwrap_or(line.len()),
            false => line.iter().take_while(|&&b| is_base64(b) || b == b'\r').count(),
        };
        match line.get(run) {
            Some(b'\n') => length += run + 1,
            Some(_) => break,
            None => length += run,
        }
    }
    text[..length].trim_end().len()
}

const HEADERS: &[&[u8]] = &[b"Proc-Type:", b"DEK-Info:", b"Version:", b"Comment:", b"Hash:"];

/// Base64, and the backslash of line ends that are spelled out in a JSON string.
fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'\\')
}
