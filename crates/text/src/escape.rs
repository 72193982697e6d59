//! Finds the ends of escape sequences.

use memchr::{memchr_iter, memchr2, memchr2_iter};

pub(crate) const ESC: u8 = 0x1B;
const BEL: u8 = 0x07;
/// The first byte of U+0080 to U+00BF in UTF-8, and so of every 8-bit control character.
const C1_LEAD: u8 = 0xC2;

/// What begins at an ESC or an 8-bit control character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sequence {
    /// A whole sequence that ends before this index.
    Whole(usize),
    /// Bytes that cannot become a sequence; the introducer ends before this index.
    Broken(usize),
    /// The text ends inside it.
    Open {
        /// The end of its introducer, for the end of the text.
        introducer_end: usize,
        /// Whether it is a string (OSC, DCS and the like), which may be of any length.
        string: bool,
    },
}

/// The next ESC or 8-bit control character at or after `from`.
pub(crate) fn next_introducer(bytes: &[u8], mut from: usize) -> Option<usize> {
    loop {
        let at = from + memchr2(ESC, C1_LEAD, bytes.get(from..)?)?;
        let is_c1 = matches!(bytes.get(at + 1), Some(0x80..=0x9F));
        if bytes[at] == ESC || is_c1 {
            return Some(at);
        }
        from = at + 1;
    }
}

/// Every ESC and every 8-bit control character.
pub(crate) fn introducers(bytes: &[u8]) -> impl Iterator<Item = usize> {
    memchr2_iter(ESC, C1_LEAD, bytes).filter(|&at| bytes[at] == ESC || matches!(bytes.get(at + 1), Some(0x80..=0x9F)))
}

/// Reads the sequence whose introducer is at `at`, as [`next_introducer`] found it.
pub(crate) fn sequence_at(bytes: &[u8], at: usize, ends: &mut StringEnds) -> Sequence {
    if bytes[at] != ESC {
        let after = at + 2;
        return match bytes[at + 1] {
            0x9B => control_sequence(bytes, after),
            0x9D => string(bytes, after, StringKind::EightBitOsc, ends),
            _ => Sequence::Whole(after),
        };
    }
    let after = at + 2;
    match bytes.get(at + 1) {
        None => open(at + 1),
        Some(b'[') => control_sequence(bytes, after),
        Some(b']') => string(bytes, after, StringKind::Osc, ends),
        Some(b'P' | b'X' | b'^' | b'_') => string(bytes, after, StringKind::Dcs, ends),
        Some(0x20..=0x2F) => {
            let end = skip(bytes, after, |byte| matches!(byte, 0x20..=0x2F));
            match bytes.get(end) {
                None => open(at + 1),
                Some(0x30..=0x7E) => Sequence::Whole(end + 1),
                Some(_) => Sequence::Broken(at + 1),
            }
        }
        Some(0x30..=0x7E) => Sequence::Whole(after),
        Some(_) => Sequence::Broken(at + 1),
    }
}

/// The parameters and the final byte of the control sequence that ends before `end`, if the
/// sequence from `start` is one.
pub(crate) fn control_parts(bytes: &[u8], start: usize, end: usize) -> Option<(&[u8], u8)> {
    let is_csi = matches!(bytes.get(start..start + 2)?, [ESC, b'['] | [C1_LEAD, 0x9B]);
    let body = bytes.get(start + 2..end)?;
    let (&last, parameters) = body.split_last()?;
    is_csi.then_some((parameters, last))
}

fn control_sequence(bytes: &[u8], from: usize) -> Sequence {
    let end = skip(bytes, from, |byte| matches!(byte, 0x30..=0x3F));
    let end = skip(bytes, end, |byte| matches!(byte, 0x20..=0x2F));
    match bytes.get(end) {
        None => open(from),
        Some(0x40..=0x7E) => Sequence::Whole(end + 1),
        Some(_) => Sequence::Broken(from),
    }
}

fn string(bytes: &[u8], from: usize, kind: StringKind, ends: &mut StringEnds) -> Sequence {
    match ends.next(bytes, from, kind) {
        Some(end) => Sequence::Whole(end),
        None => Sequence::Open { introducer_end: from, string: true },
    }
}

fn open(introducer_end: usize) -> Sequence {
    Sequence::Open { introducer_end, string: false }
}

fn skip(bytes: &[u8], from: usize, wanted: impl Fn(u8) -> bool) -> usize {
    let run = bytes[from..].iter().take_while(|&&byte| wanted(byte));
    from + run.count()
}

/// The strings, by what may end them.
#[derive(Debug, Clone, Copy)]
enum StringKind {
    /// BEL or ESC \.
    Osc,
    /// ESC \ alone: DCS, SOS, PM, APC.
    Dcs,
    /// BEL or U+009C.
    EightBitOsc,
}

/// Remembers how far each string end was looked for.
///
/// Without it, a text with many introducers and no end would be searched to its last byte from each of them. So would a string that arrives
/// one byte at a time.
#[derive(Debug, Default, Clone)]
pub(crate) struct StringEnds {
    kinds: [Searched; 3],
}

#[derive(Debug, Default, Clone, Copy)]
struct Searched {
    /// No end starts before this index, from where the search began.
    clear_to: usize,
    /// The first end at or after that: its start, and the index after it.
    found: Option<(usize, usize)>,
}

impl StringEnds {
    /// Adjusts to a text that lost its first `count` bytes.
    pub(crate) fn shift(&mut self, count: usize) {
        for kind in &mut self.kinds {
            kind.clear_to = kind.clear_to.saturating_sub(count);
            kind.found = None;
        }
    }

    /// The index after the first end of this kind at or after `from`; `from` never goes back.
    fn next(&mut self, bytes: &[u8], from: usize, kind: StringKind) -> Option<usize> {
        let searched = &mut self.kinds[kind as usize];
        if let Some((start, end)) = searched.found
            && start >= from
        {
            return Some(end);
        }
        let begin = from.max(searched.clear_to).min(bytes.len());
        searched.found = find_end(&bytes[begin..], kind).map(|(start, end)| (begin + start, begin + end));
        searched.clear_to = match searched.found {
            Some((start, _)) => start,
            // The last byte may be the first half of an end.
            None => bytes.len().saturating_sub(1),
        };
        searched.found.map(|(_, end)| end)
    }
}

fn find_end(bytes: &[u8], kind: StringKind) -> Option<(usize, usize)> {
    let pair = |at: usize, second: u8| bytes.get(at + 1) == Some(&second);
    let end_at = |at: usize| match bytes[at] {
        BEL => Some((at, at + 1)),
        ESC if pair(at, b'\\') => Some((at, at + 2)),
        C1_LEAD if pair(at, 0x9C) => Some((at, at + 2)),
        _ => None,
    };
    match kind {
        StringKind::Osc => memchr2_iter(BEL, ESC, bytes).find_map(end_at),
        StringKind::Dcs => memchr_iter(ESC, bytes).find_map(end_at),
        StringKind::EightBitOsc => memchr2_iter(BEL, C1_LEAD, bytes).find_map(end_at),
    }
}
