//! Finds the values of secret variables in output, without keeping them.
//!
//! A process keeps a random key and, for each value that it was given under a secret's name, its length, a tag of eight bits and an
//! HMAC-SHA256 of 16 bytes. Text is searched with a rolling hash over windows of that length. Where the upper eight bits of the hash equal
//! the tag, the HMAC decides. A reader of the folder can check a guess against the HMAC. The tag reveals eight bits of the value, so
//! guessing becomes at most 256 times easier.
//!
//! Each byte of a value becomes a `*`, so that offsets into the output do not change. A value of several lines is found line by line.
//! Control sequences (`ESC [ …`), such as colours, are passed over, so that a value in two colours is found. Encoded values (base64,
//! percent signs) are not.
//!
//! Decision 171: docs/decisions/text.md.

use crate::bytes::{hex, unhex};
use outlast_core::EnvVar;
use outlast_store::spec::{MaskedValue, Masks};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Shorter lines of a value are not searched for: they would be found by chance.
const SHORTEST: usize = 8;
/// Longer lines are found in pieces of this length.
const LONGEST: usize = 4 << 10;
/// How many bytes of control sequences a value may contain in output.
const ROOM: usize = 512;
/// How many pieces of values are kept for one process.
const MOST: usize = 1_024;

/// The pieces of a value that are searched for.
pub(crate) fn pieces(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value
        .split(|b| matches!(b, b'\n' | b'\r'))
        .map(<[u8]>::trim_ascii)
        .flat_map(|line| line.chunks(LONGEST))
        .filter(|p| p.len() >= SHORTEST)
}

/// The digests of these variables' values. None if no value is long enough. The flag is true if all values are covered.
pub(crate) fn keep(secrets: &[EnvVar], key: [u8; 32]) -> (Option<Masks>, bool) {
    let all = || secrets.iter().flat_map(|variable| pieces(variable.value.as_bytes()));
    let hash = KeyedHash::new(&key);
    let mut values: Vec<MaskedValue> = Vec::new();
    for piece in all() {
        let value = MaskedValue { length: piece.len() as u32, tag: hash.tag_of(piece), digest: hex(&hash.digest(piece)) };
        if !values.contains(&value) {
            values.push(value);
        }
    }
    let complete = values.len() <= MOST;
    values.truncate(MOST);
    ((!values.is_empty()).then(|| Masks { key: hex(&key), values }), complete)
}

/// The rolling hash and the HMAC, with the key of one process.
struct KeyedHash {
    multiplier: u64,
    inner: Sha256,
    outer: Sha256,
}

impl KeyedHash {
    fn new(key: &[u8; 32]) -> Self {
        // HMAC of RFC 2104, with both padded keys hashed in advance.
        let padded = |with: u8| -> Vec<u8> { (0..64).map(|n| key.get(n).copied().unwrap_or(0) ^ with).collect() };
        let seed = Sha256::digest([key.as_slice(), b"rolling"].concat());
        let multiplier = seed.iter().take(8).fold(0, |all, byte| all << 8 | u64::from(*byte)) | 1;
        Self { multiplier, inner: Sha256::new_with_prefix(padded(0x36)), outer: Sha256::new_with_prefix(padded(0x5c)) }
    }

    fn digest(&self, value: &[u8]) -> [u8; 16] {
        let inner = self.inner.clone().chain_update(value).finalize();
        let whole = self.outer.clone().chain_update(inner).finalize();
        let mut short = [0; 16];
        short.copy_from_slice(&whole[..16]);
        short
    }

    fn add(&self, sum: u64, byte: u8) -> u64 {
        sum.wrapping_mul(self.multiplier).wrapping_add(u64::from(byte) + 1)
    }

    fn tag_of(&self, value: &[u8]) -> u8 {
        tag(value.iter().fold(0, |sum, byte| self.add(sum, *byte)))
    }
}

fn tag(sum: u64) -> u8 {
    (sum >> 56) as u8
}

/// Finds the values of one process.
pub(crate) struct Finder {
    hash: KeyedHash,
    by_length: BTreeMap<usize, ValuesOfLength>,
}

/// The values of one length.
struct ValuesOfLength {
    tags: [bool; 256],
    digests: Vec<[u8; 16]>,
    /// The factor of the byte that leaves the window.
    leaving: u64,
}

impl Finder {
    pub(crate) fn new(masks: &Masks) -> Option<Self> {
        let hash = KeyedHash::new(&unhex(&masks.key)?);
        let mut by_length: BTreeMap<usize, ValuesOfLength> = BTreeMap::new();
        for value in &masks.values {
            let (length, digest) = (value.length as usize, unhex(&value.digest)?);
            if !(SHORTEST..=LONGEST).contains(&length) {
                continue;
            }
            let leaving = (1..length).fold(1_u64, |power, _| power.wrapping_mul(hash.multiplier));
            let wanted = by_length.entry(length).or_insert_with(|| ValuesOfLength { tags: [false; 256], digests: Vec::new(), leaving });
            wanted.tags[usize::from(value.tag)] = true;
            wanted.digests.push(digest);
        }
        (!by_length.is_empty()).then_some(Self { hash, by_length })
    }

    /// How many bytes before or after a text may belong to a value that reaches into it.
    pub(crate) fn reach(&self) -> usize {
        self.by_length.keys().next_back().map_or(0, |longest| longest - 1 + ROOM)
    }

    /// How many bytes at the end of a text may be the beginning of a value.
    pub(crate) fn open_end(&self, text: &[u8]) -> usize {
        text.iter().rev().take(self.reach()).take_while(|b| !matches!(b, b'\n' | b'\r')).count()
    }

    /// Masks values in `text`, also those that begin before it or end after it.
    pub(crate) fn mask(&self, before: &[u8], text: &mut [u8], after: &[u8]) {
        let whole = [before, text, after].concat();
        let shown = PlainBytes::of(&whole);
        let bytes = shown.bytes.as_deref().unwrap_or(&whole);
        for (length, wanted) in &self.by_length {
            self.find(bytes, *length, wanted, |at| {
                for (from, to) in shown.ranges(at, at + length) {
                    let (from, to) = (from.max(before.len()), to.min(before.len() + text.len()));
                    if from < to {
                        text[from - before.len()..to - before.len()].fill(b'*');
                    }
                }
            });
        }
    }

    /// A copy of the text with its values masked.
    pub(crate) fn masked(&self, text: &str) -> String {
        let mut bytes = text.as_bytes().to_vec();
        self.mask(&[], &mut bytes, &[]);
        // A value consists of whole characters. If a match by chance does not, the rest of a character is shown as a replacement character.
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn find(&self, text: &[u8], length: usize, wanted: &ValuesOfLength, mut found: impl FnMut(usize)) {
        if text.len() < length {
            return;
        }
        let mut sum = text[..length].iter().fold(0, |sum, byte| self.hash.add(sum, *byte));
        let mut at = 0;
        loop {
            if wanted.tags[usize::from(tag(sum))] && wanted.digests.contains(&self.hash.digest(&text[at..at + length])) {
                found(at);
            }
            let Some(next) = text.get(at + length) else { return };
            let gone = (u64::from(text[at]) + 1).wrapping_mul(wanted.leaving);
            sum = self.hash.add(sum.wrapping_sub(gone), *next);
            at += 1;
        }
    }
}

/// A text without its control sequences.
struct PlainBytes {
    /// The bytes, if there are any sequences.
    bytes: Option<Vec<u8>>,
    /// Where each run of bytes begins: in these bytes, and in the text.
    runs: Vec<(usize, usize)>,
}

impl PlainBytes {
    fn of(text: &[u8]) -> Self {
        let mut shown = Self { bytes: None, runs: vec![(0, 0)] };
        let mut done = 0;
        while let Some(at) = text[done..].windows(2).position(|two| two == b"\x1b[").map(|n| done + n) {
            let parameters = text[at + 2..].iter().take_while(|b| matches!(b, 0x20..=0x3f)).count();
            let end = (at + 2 + parameters + 1).min(text.len());
            let bytes = shown.bytes.get_or_insert_default();
            bytes.extend_from_slice(&text[done..at]);
            shown.runs.push((bytes.len(), end));
            done = end;
        }
        if let Some(bytes) = &mut shown.bytes {
            bytes.extend_from_slice(&text[done..]);
        }
        shown
    }

    /// The parts of the text that make these bytes.
    fn ranges(&self, from: usize, to: usize) -> impl Iterator<Item = (usize, usize)> {
        let first = self.runs.partition_point(|run| run.0 <= from).saturating_sub(1);
        let ends = self.runs[first + 1..].iter().map(|run| run.0).chain([usize::MAX]);
        self.runs[first..].iter().zip(ends).take_while(move |(run, _)| run.0 < to).map(move |((begin, at), end)| {
            let (from, to) = (from.max(*begin), to.min(end).max(*begin));
            (at + (from - begin), at + (to - begin))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn finder(values: &[&str]) -> Finder {
        let secrets: Vec<EnvVar> = values.iter().map(|value| EnvVar { name: "TOKEN".into(), value: (*value).into() }).collect();
        Finder::new(&keep(&secrets, [7; 32]).0.unwrap()).unwrap()
    }

    #[test]
    fn a_value_is_masked_wherever_it_stands_and_nothing_else_is() {
        let finder = finder(&["hunter22", "correct horse battery", "hunter22"]);
        assert_eq!(finder.masked("hunter22"), "********");
        assert_eq!(finder.masked("xhunter22hunter22y hunter2 hunter23"), "x****************y hunter2 hunter23");
        assert_eq!(finder.masked("say: correct horse battery!\n"), "say: *********************!\n");
        assert_eq!(finder.masked("é hunter22 é"), "é ******** é");
        assert_eq!(finder.masked(""), "");
    }

    #[test]
    fn what_is_kept_says_nothing_but_the_length() {
        let secrets = [EnvVar { name: "TOKEN".into(), value: "hunter22".into() }];
        let (masks, complete) = keep(&secrets, [7; 32]);
        let masks = masks.unwrap();
        assert!(complete && masks.values.len() == 1 && masks.values[0].length == 8 && masks.values[0].digest.len() == 32);
        // Another process has another key, so that the same value cannot be recognised.
        let (other, _) = keep(&secrets, [8; 32]);
        assert_ne!(other.unwrap().values[0].digest, masks.values[0].digest);
        for short in ["", "hunter2", "a\nb\nc\nd\ne", "       x       "] {
            assert_eq!(keep(&[EnvVar { name: "TOKEN".into(), value: short.into() }], [7; 32]).0, None, "{short:?}");
        }
        let many: String = (0..2_000).map(|n| format!("line number {n}\n")).collect();
        let (masks, complete) = keep(&[EnvVar { name: "TOKEN".into(), value: many.into() }], [7; 32]);
        assert!(!complete && masks.unwrap().values.len() == MOST);
    }

    #[test]
    fn the_lines_and_parts_of_a_long_value_are_masked() {
        let long = "0123456789abcdef".repeat(600);
        let finder = finder(&["first line\r\nsecond line\n", &long]);
        assert_eq!(finder.masked("> second line\r\n> first line\n"), "> ***********\r\n> **********\n");
        assert_eq!(finder.masked(&format!("<{long}>")), format!("<{}>", "*".repeat(long.len())));
    }

    #[test]
    fn what_may_go_on_is_known() {
        let finder = finder(&["hunter22"]);
        assert_eq!(finder.reach(), 7 + ROOM);
        assert_eq!([&b"x\nhun"[..], b"", b"\n", &[b'x'; 2_000]].map(|text| finder.open_end(text)), [3, 0, 0, 7 + ROOM]);
    }

    #[test]
    fn a_value_in_two_colours_is_masked_and_its_colours_stay() {
        let finder = finder(&["hunter22"]);
        let table = [
            ("\x1b[31mhunt\x1b[1;32mer22\x1b[0m", "\x1b[31m****\x1b[1;32m****\x1b[0m"),
            ("h\x1b[mu\x1b[K\x1b[0mnter22 hunter22", "*\x1b[m*\x1b[K\x1b[0m****** ********"),
            ("hunter2\x1b[31m3", "hunter2\x1b[31m3"),
            ("\x1b[31m\x1b[", "\x1b[31m\x1b["),
        ];
        for (text, masked) in table {
            assert_eq!(finder.masked(text), masked, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn pieces_of_a_text_are_masked_as_the_whole_is(
            parts in proptest::collection::vec(prop_oneof![Just("hunter22"), Just("swordfish-and-chips"), Just("hunter2"), Just("\x1b[1m"), Just("\n"), Just("a"), Just("ch")], 0..30),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let finder = finder(&["hunter22", "swordfish-and-chips"]);
            let text = parts.concat().into_bytes();
            let mut whole = text.clone();
            finder.mask(&[], &mut whole, &[]);
            let mut cuts: Vec<usize> = cuts.iter().map(|at| at.index(text.len() + 1)).chain([0, text.len()]).collect();
            cuts.sort_unstable();
            let mut joined = Vec::new();
            for pair in cuts.windows(2) {
                let mut piece = text[pair[0]..pair[1]].to_vec();
                let before = &text[pair[0].saturating_sub(finder.reach())..pair[0]];
                let after = &text[pair[1]..(pair[1] + finder.reach()).min(text.len())];
                finder.mask(before, &mut piece, after);
                joined.extend(piece);
            }
            let plain = |text: Vec<u8>| String::from_utf8(text).unwrap().replace("\x1b[1m", "");
            let expected = plain(text).replace("hunter22", "********").replace("swordfish-and-chips", "*******************");
            prop_assert_eq!(&plain(whole.clone()), &expected);
            prop_assert_eq!(joined, whole);
        }
    }
}
