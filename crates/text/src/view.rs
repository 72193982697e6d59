//! All steps from the bytes of a log to the text that a reader sees.

use crate::bash_startup::{drop_end_noise, drop_head_noise};
use crate::collapse::collapse;
use crate::cut::{Cut, CutAt, tail_chars};
use crate::decode::{Decoder, torn_prefix};
use crate::redact::Redactor;
use crate::strip::{Stripper, strip};
use std::borrow::Cow;

/// The characters of output that a poll shows.
pub const POLL_PREVIEW: usize = 1_000;
/// The characters of output that an entry of a list shows.
pub const LIST_PREVIEW: usize = 200;
/// The characters of output that a finished wait and a completion notice show.
pub const FINAL_OUTPUT: usize = 2_000;
/// The characters of output that a reader gets who does not ask for a part.
pub const DEFAULT_VIEW: usize = 200_000;

/// How many bytes at the end of a log to hand to [`render`] for a tail of `n` characters.
///
/// Four bytes are the longest character. The rest is room for what does not show, and keeps the
/// start of the window, where a sequence or a secret may be torn, away from the tail.
pub fn window_bytes(n: usize) -> usize {
    n.saturating_mul(4).saturating_add(64 * 1024)
}

/// How to render a window of a log.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// Masks secrets.
    pub redact: &'a Redactor,
    /// The most characters to show, from the end; `None` for all.
    pub tail: Option<usize>,
    /// Whether the window begins somewhere inside the log.
    ///
    /// Its first line may then lack its beginning, and with it the part by which a secret is recognized or an escape sequence ends. So that
    /// line is dropped if another line follows; else the part before its first blank is dropped. A window that begins right after a `\n`
    /// does not begin mid-stream in this sense.
    pub starts_mid_stream: bool,
    /// Whether more may follow the window. If so, an unfinished character or escape sequence at its end is left out.
    pub ends_mid_stream: bool,
    /// Whether to leave out bash's warnings about a missing terminal, as [`drop_shell_noise`](crate::drop_shell_noise) does. Not for pages
    /// by line number, whose numbers would shift.
    pub drop_shell_noise: bool,
}

impl<'a> Options<'a> {
    /// Renders everything, from the start of the log to its end.
    pub fn new(redact: &'a Redactor) -> Self {
        Self { redact, tail: None, starts_mid_stream: false, ends_mid_stream: false, drop_shell_noise: false }
    }

    /// Renders the last `n` characters.
    pub fn tail(self, n: usize) -> Self {
        Self { tail: Some(n), ..self }
    }
}

/// Rendered text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// The text.
    pub text: String,
    /// The part of the window that a cut at its beginning left out.
    pub cut: Option<Cut>,
}

/// Renders a window of the log of `command`.
///
/// The steps are always in this order: decode, collapse redraws, strip escapes, mask secrets, cut.
pub fn render(bytes: &[u8], command: &str, options: &Options<'_>) -> View {
    let decoded = decode(bytes, options);
    let collapsed = collapse(&decoded);
    let stripped = match options.ends_mid_stream {
        // A stray introducer must not hide the end of a log for long.
        true => Stripper::with_limit(MAX_OPEN_SEQUENCE).push(&collapsed),
        false => strip(&collapsed),
    };
    let mut text: &str = &stripped;
    let mut torn = "";
    if options.starts_mid_stream {
        (torn, text) = split_torn_start(text);
    }
    let torn_chars = torn.chars().count();
    if options.drop_shell_noise {
        if !options.starts_mid_stream {
            text = drop_head_noise(text);
        }
        text = drop_end_noise(text);
    }
    let redacted = options.redact.output(command, text);
    let piece = match options.tail {
        Some(n) => tail_chars(&redacted, n),
        None => tail_chars(&redacted, usize::MAX),
    };
    let cut = match piece.cut {
        Some(cut) => Some(Cut { removed_chars: cut.removed_chars + torn_chars, ..cut }),
        None => {
            (torn_chars > 0).then_some(Cut { removed_chars: torn_chars, at: if torn.ends_with('\n') { CutAt::Line } else { CutAt::Char } })
        }
    };
    View { text: piece.text.to_owned(), cut }
}

/// A longer unfinished escape sequence is shown as text.
const MAX_OPEN_SEQUENCE: usize = 1024;
/// A longer run without a blank does not count as a torn word.
const MAX_WORD_BYTES: usize = 4096;

fn decode<'a>(bytes: &'a [u8], options: &Options<'_>) -> Cow<'a, str> {
    let bytes = &bytes[torn_prefix(bytes, options.starts_mid_stream)..];
    if !options.ends_mid_stream {
        return String::from_utf8_lossy(bytes);
    }
    Decoder::new().push(bytes)
}

/// Splits off the first line, or the first word if there is only one line.
fn split_torn_start(text: &str) -> (&str, &str) {
    if let Some(newline) = text.find('\n')
        && newline + 1 < text.len()
    {
        return text.split_at(newline + 1);
    }
    let mut start = text.char_indices().take_while(|&(at, _)| at <= MAX_WORD_BYTES);
    match start.find(|&(_, c)| c.is_whitespace()) {
        Some((at, _)) if !text[at..].trim().is_empty() => text.split_at(at),
        _ => ("", text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn show(bytes: &[u8], change: impl Fn(&mut Options<'_>)) -> View {
        let redactor = Redactor::new(true);
        let mut options = Options::new(&redactor);
        change(&mut options);
        render(bytes, "make", &options)
    }

    fn token() -> String {
        ["gh", "p_", &"a1B2".repeat(9)].concat()
    }

    #[test]
    fn case_084_a_preview_shows_no_half_sequence() {
        let log = "x\x1b[31mred\x1b[0m".repeat(100);
        for n in 0..20 {
            let view = show(log.as_bytes(), |o| o.tail = Some(n));
            assert!(!view.text.contains('['), "{n}");
            assert_eq!(view.text.chars().count(), n);
        }
    }

    #[test]
    fn case_231_a_cut_does_not_uncover_a_token() {
        let log = format!("line\nuse {} now\n", token());
        for n in 0..log.len() {
            let view = show(log.as_bytes(), |o| o.tail = Some(n));
            assert!(!view.text.contains("a1B2a1B2"), "{n}: {}", view.text);
        }
    }

    #[test]
    fn the_cut_is_told() {
        let view = show(b"one\ntwo\nthree\n", |o| o.tail = Some(10));
        let cut = Cut { removed_chars: 4, at: CutAt::Line };
        assert_eq!(view, View { text: "two\nthree\n".to_owned(), cut: Some(cut) });
        assert_eq!(show(b"one\n", |o| o.tail = Some(10)).cut, None);
    }

    #[test]
    fn a_torn_first_line_is_dropped() {
        let secret = token();
        let log = format!("{}\nnext\n", &secret[8..]);
        let view = show(log.as_bytes(), |o| o.starts_mid_stream = true);
        assert_eq!(view.text, "next\n");
        assert_eq!(view.cut.map(|cut| cut.at), Some(CutAt::Line));
        let view = show(b"1mred end", |o| o.starts_mid_stream = true);
        assert_eq!(view.text, " end");
        let view = show("é".as_bytes().get(1..).unwrap(), |o| o.starts_mid_stream = true);
        assert_eq!(view.text, "");
        let view = show(b"all one word", |o| o.starts_mid_stream = false);
        assert_eq!(view.text, "all one word");
    }

    #[test]
    fn what_is_open_at_the_end_waits() {
        let view = show(b"ok \x1b[3", |o| o.ends_mid_stream = true);
        assert_eq!(view.text, "ok ");
        let view = show(b"ok \xF0\x9F", |o| o.ends_mid_stream = true);
        assert_eq!(view.text, "ok ");
        assert_eq!(show(b"ok \xF0\x9F", |_| {}).text, "ok \u{FFFD}");
        let long = [b"\x1b]".as_slice(), &[b'x'; 2000]].concat();
        assert_eq!(show(&long, |o| o.ends_mid_stream = true).text.len(), 2000);
    }

    #[test]
    fn case_051_noise_goes_only_when_asked() {
        let log = b"bash: no job control in this shell\r\nhello\r\n";
        assert_eq!(show(log, |o| o.drop_shell_noise = true).text, "hello\n");
        assert!(show(log, |_| {}).text.starts_with("bash: "));
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            tail in proptest::option::of(0usize..100),
            starts_mid_stream: bool,
            ends_mid_stream: bool,
        ) {
            let view = show(&bytes, |o| {
                o.tail = tail;
                o.starts_mid_stream = starts_mid_stream;
                o.ends_mid_stream = ends_mid_stream;
                o.drop_shell_noise = true;
            });
            prop_assert!(!view.text.contains('\x1b'));
            if let Some(n) = tail {
                prop_assert!(view.text.chars().count() <= n);
            }
        }
    }
}
