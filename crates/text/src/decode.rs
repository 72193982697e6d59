//! Decodes bytes into characters, wherever the reads were cut.

use std::borrow::Cow;
use std::str;

const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;

/// An incremental UTF-8 decoder.
///
/// A character that two reads tore apart comes out whole. Each maximal invalid part is replaced by one U+FFFD, so the result does not depend
/// on where the reads were cut. At most three bytes are held back.
#[derive(Debug, Default, Clone)]
pub struct Decoder {
    held: [u8; 4],
    len: usize,
}

impl Decoder {
    /// A decoder at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Decodes the next bytes, and holds back a character that they leave unfinished.
    pub fn push<'a>(&mut self, bytes: &'a [u8]) -> Cow<'a, str> {
        if self.len == 0 {
            match str::from_utf8(bytes) {
                Ok(text) => return Cow::Borrowed(text),
                Err(error) if error.error_len().is_none() => {
                    let (whole, rest) = bytes.split_at(error.valid_up_to());
                    self.hold(rest);
                    return String::from_utf8_lossy(whole);
                }
                Err(_) => {}
            }
        }
        let mut out = String::with_capacity(bytes.len() + 8);
        let rest = self.complete_held(bytes, &mut out);
        self.decode(rest, &mut out);
        Cow::Owned(out)
    }

    /// Ends the stream: one replacement character if it ended inside a character, else nothing.
    pub fn finish(&mut self) -> &'static str {
        if std::mem::take(&mut self.len) == 0 { "" } else { "\u{FFFD}" }
    }

    /// How many bytes are held back until the rest of their character comes.
    pub fn held(&self) -> usize {
        self.len
    }

    fn hold(&mut self, bytes: &[u8]) {
        self.held[..bytes.len()].copy_from_slice(bytes);
        self.len = bytes.len();
    }

    /// Adds bytes to the held ones, one at a time, until they are a character or invalid.
    fn complete_held<'a>(&mut self, mut bytes: &'a [u8], out: &mut String) -> &'a [u8] {
        while self.len > 0
            && let Some((&next, rest)) = bytes.split_first()
        {
            self.held[self.len] = next;
            match str::from_utf8(&self.held[..=self.len]) {
                Ok(whole) => {
                    out.push_str(whole);
                    self.len = 0;
                }
                Err(error) if error.error_len().is_none() => self.len += 1,
                Err(_) => {
                    // The held bytes are the invalid part; `next` begins another character.
                    out.push(REPLACEMENT);
                    self.len = 0;
                    return bytes;
                }
            }
            bytes = rest;
        }
        bytes
    }

    fn decode(&mut self, mut bytes: &[u8], out: &mut String) {
        for chunk in bytes.utf8_chunks() {
            out.push_str(chunk.valid());
            let invalid = chunk.invalid();
            bytes = &bytes[chunk.valid().len() + invalid.len()..];
            if invalid.is_empty() {
                continue;
            }
            let unfinished = bytes.is_empty() && str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
            if unfinished {
                self.hold(invalid);
            } else {
                out.push(REPLACEMENT);
            }
        }
    }
}

/// Decodes a piece of a log at once.
///
/// A piece that `starts_mid_stream` may begin inside a character. Its first continuation bytes, at most three, belong to a character before
/// the piece, so they are skipped and not shown as damage.
pub fn decode_lossy(bytes: &[u8], starts_mid_stream: bool) -> Cow<'_, str> {
    String::from_utf8_lossy(&bytes[torn_prefix(bytes, starts_mid_stream)..])
}

/// How many leading bytes are the rest of a character that began before this piece.
pub(crate) fn torn_prefix(bytes: &[u8], starts_mid_stream: bool) -> usize {
    let is_continuation = |byte: &&u8| matches!(byte, 0x80..=0xBF);
    match starts_mid_stream {
        true => bytes.iter().take(3).take_while(is_continuation).count(),
        false => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn in_pieces(pieces: &[&[u8]]) -> String {
        let mut decoder = Decoder::new();
        let mut out = String::new();
        for piece in pieces {
            out.push_str(&decoder.push(piece));
            assert!(decoder.held() <= 3);
        }
        out.push_str(decoder.finish());
        out
    }

    #[test]
    fn case_047_split_character_is_whole() {
        let bytes = "é".as_bytes();
        assert_eq!(in_pieces(&[&bytes[..1], &bytes[1..]]), "é");
    }

    #[test]
    fn case_048_four_bytes_over_three_reads() {
        let bytes = "a🦀b".as_bytes();
        assert_eq!(in_pieces(&[&bytes[..2], &bytes[2..4], &bytes[4..]]), "a🦀b");
        let singles: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(in_pieces(&singles), "a🦀b");
    }

    #[test]
    fn case_049_output_that_ends_inside_a_character() {
        for end in 1..4 {
            let bytes = &"🦀".as_bytes()[..end];
            assert_eq!(in_pieces(&[b"ok ", bytes]), "ok \u{FFFD}");
        }
    }

    #[test]
    fn case_050_a_byte_that_is_never_valid() {
        assert_eq!(in_pieces(&[b"a\xFFb"]), "a\u{FFFD}b");
        assert_eq!(in_pieces(&[b"a", b"\xC0", b"b"]), "a\u{FFFD}b");
    }

    #[test]
    fn an_unfinished_character_does_not_eat_what_follows() {
        assert_eq!(in_pieces(&[b"\xF0\x9F", b"\xF0\x9F\xA6\x80"]), "\u{FFFD}🦀");
        assert_eq!(in_pieces(&[b"\xE2\x82", b"x"]), "\u{FFFD}x");
    }

    #[test]
    fn a_page_that_begins_inside_a_character() {
        let bytes = "🦀ok".as_bytes();
        assert_eq!(decode_lossy(&bytes[1..], true), "ok");
        assert_eq!(decode_lossy(&bytes[3..], true), "ok");
        assert_eq!(decode_lossy(b"\x80\x80\x80\x80ok", true), "\u{FFFD}ok");
        assert_eq!(decode_lossy(&bytes[3..], false), "\u{FFFD}ok");
    }

    proptest! {
        #[test]
        fn pieces_decode_like_the_whole(
            bytes in proptest::collection::vec(
                prop_oneof![any::<u8>(), Just(0xF0), Just(0x9F), Just(0xA6), Just(0xE2), Just(b'a')],
                0..64,
            ),
            first in 0usize..64,
            second in 0usize..64,
        ) {
            let (first, second) = (first.min(second), first.max(second));
            let (first, second) = (first.min(bytes.len()), second.min(bytes.len()));
            let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
            prop_assert_eq!(in_pieces(&pieces), String::from_utf8_lossy(&bytes));
        }
    }
}
