//! Where in a text a pattern is.
//!
//! Few patterns are found by their bytes, many at a time (Teddy, of `aho-corasick`). That slows down past a few dozen. Many patterns of some length are found by
//! looking at four bytes in every so many instead: a pattern of eleven bytes has, wherever it lies, four bytes of its own at one of every eight places.

use aho_corasick::{AhoCorasick, MatchKind, packed};
use std::collections::HashMap;

/// So many patterns are found by their bytes.
const FEW: usize = 16;
/// How many bytes are looked at.
const GRAM: usize = 4;
/// Patterns shorter than this are always found by their bytes.
const LONG: usize = 7;

/// Finds patterns.
#[derive(Debug)]
pub(super) struct Search {
    few: Option<Few>,
    many: Option<Grams>,
    longest: usize,
    literal: bool,
}

impl Search {
    pub(super) fn new(patterns: &[String]) -> Self {
        let useful: Vec<&str> = patterns.iter().map(String::as_str).filter(|p| !p.is_empty() && !p.contains('\n')).collect();
        let (long, short): (Vec<&str>, Vec<&str>) = match useful.len() <= FEW {
            true => (Vec::new(), useful.clone()),
            false => useful.iter().partition(|p| p.len() >= LONG),
        };
        Self {
            few: Few::new(&short),
            many: if long.is_empty() { None } else { Some(Grams::new(&long)) },
            longest: useful.iter().map(|p| p.len()).max().unwrap_or(0),
            literal: !useful.iter().any(|p| p.contains(char::REPLACEMENT_CHARACTER)),
        }
    }

    /// Whether patterns are in the bytes of a line exactly if they are in its text. Not so for one that looks for what replaces invalid bytes.
    pub(super) fn is_literal(&self) -> bool {
        self.literal
    }

    /// The longest pattern's bytes.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// Where a pattern begins, if one is there.
    pub(super) fn find(&self, text: &[u8]) -> Option<usize> {
        self.few_from(text, 0).or_else(|| self.many_from(text, 0))
    }

    fn few_from(&self, text: &[u8], from: usize) -> Option<usize> {
        Some(from + self.few.as_ref()?.find(&text[from..])?)
    }

    fn many_from(&self, text: &[u8], from: usize) -> Option<usize> {
        Some(from + self.many.as_ref()?.find(&text[from..])?)
    }
}

/// Few patterns, by their bytes.
#[derive(Debug)]
enum Few {
    /// Two and more, where the processor can do it: the same as what `AhoCorasick` begins with, and quicker to begin again behind each line that matched.
    Packed(packed::Searcher),
    Other(AhoCorasick),
}

impl Few {
    fn new(patterns: &[&str]) -> Option<Self> {
        let packed = if (2..=FEW).contains(&patterns.len()) { packed::Searcher::new(patterns) } else { None };
        match packed {
            Some(packed) => Some(Self::Packed(packed)),
            None if patterns.is_empty() => None,
            None => AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(patterns).ok().map(Self::Other),
        }
    }

    fn find(&self, text: &[u8]) -> Option<usize> {
        match self {
            Self::Packed(packed) => packed.find(text),
            Self::Other(other) => other.find(text),
        }
        .map(|m| m.start())
    }
}

/// The lines of one text that have a pattern, in order.
#[derive(Debug, Default)]
pub(super) struct Hits {
    few: Next,
    many: Next,
}

#[derive(Debug, Default, Clone, Copy)]
enum Next {
    #[default]
    Unknown,
    At(usize),
    None,
}

impl Hits {
    /// The beginning of a pattern in the first line at or behind `from` that has one; `from` is the start of a line, and never goes back.
    pub(super) fn next(&mut self, search: &Search, text: &[u8], from: usize) -> Option<usize> {
        let few = self.few.after(from, || search.few_from(text, from));
        let many = self.many.after(from, || search.many_from(text, from));
        few.into_iter().chain(many).min()
    }
}

impl Next {
    fn after(&mut self, from: usize, find: impl FnOnce() -> Option<usize>) -> Option<usize> {
        match *self {
            Self::At(at) if at >= from => {}
            Self::None => {}
            Self::At(_) | Self::Unknown => *self = find().map_or(Self::None, Self::At),
        }
        match *self {
            Self::At(at) => Some(at),
            Self::Unknown | Self::None => None,
        }
    }
}

/// Many patterns, by groups of four of their bytes.
#[derive(Debug)]
struct Grams {
    patterns: Vec<Box<[u8]>>,
    /// A bit for each group that may be in a pattern.
    bits: Box<[u64; WORDS]>,
    /// Each group with the pattern and the place in it, those of one bucket together.
    places: Vec<(u32, u32, u32)>,
    /// Where in `places` each bucket begins, and the last one ends.
    buckets: Box<[u32; BUCKETS + 1]>,
    /// One in so many places is looked at: as many as there are groups of each pattern in `places`.
    step: usize,
}

/// 8 KiB of bits: they stay in the fastest cache.
const WORDS: usize = 1024;
const BUCKETS: usize = 2048;

impl Grams {
    fn new(patterns: &[&str]) -> Self {
        let patterns: Vec<Box<[u8]>> = patterns.iter().map(|p| p.as_bytes().into()).collect();
        let shortest = patterns.iter().map(|p| p.len()).min().unwrap_or(LONG);
        let step = (shortest + 1 - GRAM).min(8);
        let mut often: HashMap<u32, usize> = HashMap::new();
        for bytes in patterns.iter().flat_map(|p| p.windows(GRAM)) {
            *often.entry(gram(bytes)).or_default() += usize::from(bytes.iter().all(|b| b.is_ascii_lowercase() || *b == b' ')) + 1;
        }
        let mut bits = Box::new([0; WORDS]);
        let mut places = Vec::with_capacity(patterns.len() * step);
        for (pattern, number) in patterns.iter().zip(0..) {
            // Any stretch of it will do. The best is one that few others have, and of bytes that are not those of most words.
            let grams: Vec<u32> = pattern.windows(GRAM).map(gram).collect();
            let price = |from: &usize| grams[*from..from + step].iter().map(|g| often[g]).sum::<usize>();
            let from = (0..=grams.len() - step).min_by_key(price).unwrap_or(0);
            for (gram, place) in grams[from..from + step].iter().zip(from as u32..) {
                let (word, bit) = slot(*gram);
                bits[word] |= 1 << bit;
                places.push((*gram, number, place));
            }
        }
        places.sort_unstable_by_key(|(gram, ..)| bucket(*gram));
        let mut buckets = Box::new([0; BUCKETS + 1]);
        for (number, begin) in buckets.iter_mut().enumerate() {
            *begin = places.partition_point(|(gram, ..)| bucket(*gram) < number) as u32;
        }
        Self { patterns, bits, places, buckets, step }
    }

    fn find(&self, text: &[u8]) -> Option<usize> {
        match self.step {
            8 => self.find_in_steps::<8>(text),
            7 => self.find_in_steps::<7>(text),
            6 => self.find_in_steps::<6>(text),
            5 => self.find_in_steps::<5>(text),
            _ => self.find_in_steps::<4>(text),
        }
    }

    /// Steps are at least as long as a group, so that each has one whole.
    fn find_in_steps<const STEP: usize>(&self, text: &[u8]) -> Option<usize> {
        let (steps, _) = text.as_chunks::<STEP>();
        let (fours, threes) = steps.as_chunks::<4>();
        let is_set = |step: &[u8; STEP]| {
            let (word, bit) = slot(gram(step));
            self.bits[word] >> bit & 1
        };
        for (n, four) in fours.iter().enumerate() {
            if four.iter().fold(0, |any, step| any | is_set(step)) == 0 {
                continue;
            }
            for (k, step) in four.iter().enumerate() {
                if is_set(step) == 1
                    && let Some(found) = self.at(text, (n * 4 + k) * STEP)
                {
                    return Some(found);
                }
            }
        }
        let behind = fours.len() * 4 * STEP;
        // What is left, with what is less than a step.
        (0..=threes.len()).find_map(|n| self.at(text, behind + n * STEP))
    }

    /// Where a pattern begins that has the group at `at`.
    fn at(&self, text: &[u8], at: usize) -> Option<usize> {
        let gram = gram(text.get(at..at + GRAM)?);
        let bucket = bucket(gram);
        let here = &self.places[self.buckets[bucket] as usize..self.buckets[bucket + 1] as usize];
        here.iter()
            .filter(|(g, ..)| *g == gram)
            .filter_map(|&(_, pattern, place)| {
                let start = at.checked_sub(place as usize)?;
                text[start..].starts_with(&self.patterns[pattern as usize]).then_some(start)
            })
            .min()
    }
}

fn gram(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

fn bucket(gram: u32) -> usize {
    (gram.wrapping_mul(0x9E37_79B1) >> 21) as usize
}

fn slot(gram: u32) -> (usize, u32) {
    let hash = gram.wrapping_mul(0x9E37_79B1) >> 16;
    ((hash >> 6) as usize % WORDS, hash & 63)
}
