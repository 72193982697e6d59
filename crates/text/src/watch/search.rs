//! Finds patterns in a text.
//!
//! Few patterns are searched by three bytes of each, many places at a time (Teddy, of `aho-corasick`), which slows down beyond a few dozen.
//! Many longer patterns are searched by n-grams instead, at every eighth place for example: a pattern of eleven bytes has four bytes of its
//! own at one of every eight places, wherever it lies.
//!
//! Any bytes of a pattern may be searched. The fewer of them the text has without the pattern, the faster the search: `work` of
//! `worker died` is a poor choice in the log of a program that mentions its workers. If false hits are frequent, other bytes are chosen by a
//! sample of the text.
//!
//! Decision 68: docs/decisions/watch.md.

mod sample;

use aho_corasick::{AhoCorasick, MatchKind, Span, packed};
use sample::Sample;
use std::ops::Range;

/// Up to this many patterns are searched by three bytes of each.
const FEW: usize = 16;
/// How many bytes of each pattern are searched if there are few. A fourth costs half as much again, and is hardly ever needed.
const PART: usize = 3;
/// How many bytes of each pattern are searched if there are many.
const GRAM: usize = 4;
/// Shorter patterns are never searched by n-grams.
const LONG: usize = 7;
/// Other bytes are chosen if more than one of this many bytes was a false hit.
const RARE: usize = 2048;
/// The least false hits before other bytes are chosen for the first time.
const PATIENCE: usize = 64;
/// A shorter text is too small a sample.
const MIN_SAMPLE_BYTES: usize = 4 << 10;
/// False hits are counted over this many bytes, then from zero again.
const RECENT: usize = 1 << 20;

/// Finds patterns.
#[derive(Debug)]
pub(super) struct Search {
    few: Option<Few>,
    many: Option<Grams>,
    longest: usize,
    literal: bool,
    /// How many bytes were searched since the counts began.
    searched: usize,
    /// How many hits were false, and how many may be before other bytes are chosen.
    wasted: usize,
    patience: usize,
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
            searched: 0,
            wasted: 0,
            patience: PATIENCE,
        }
    }

    /// Whether a pattern is in the bytes of a line exactly if it is in its text. This is false if a pattern has the replacement character, which
    /// only the text has.
    pub(super) fn is_literal(&self) -> bool {
        self.literal
    }

    /// The length of the longest pattern in bytes.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// Where a pattern begins, if the text has one.
    pub(super) fn find(&mut self, text: &[u8]) -> Option<usize> {
        self.few_from(text, 0).or_else(|| self.many_from(text, 0))
    }

    fn few_from(&mut self, text: &[u8], from: usize) -> Option<usize> {
        Some(from + self.few.as_ref()?.find(&text[from..], &mut self.wasted)?)
    }

    fn many_from(&mut self, text: &[u8], from: usize) -> Option<usize> {
        Some(from + self.many.as_ref()?.find(&text[from..], &mut self.wasted)?)
    }

    /// Makes it choose other bytes after every piece.
    #[cfg(test)]
    pub(super) fn never_content(&mut self) {
        self.patience = 0;
    }

    /// Learns from a text that was searched: chooses other bytes if there were too many false hits. Each choice needs four times as many as the
    /// one before, so that choosing never costs more than it saves.
    pub(super) fn learn(&mut self, text: &[u8]) {
        self.searched += text.len();
        let often = self.wasted >= self.patience && self.wasted >= self.searched / RARE;
        if often && text.len() >= self.patience.min(MIN_SAMPLE_BYTES) {
            if let Some(few) = &mut self.few {
                few.choose(&Sample::of(text));
            }
            if let Some(many) = &mut self.many {
                many.choose(&Sample::of(text));
            }
            self.patience = self.patience.saturating_mul(4);
        } else if self.searched < RECENT {
            return;
        }
        (self.searched, self.wasted) = (0, 0);
    }
}

/// Searches few patterns by three bytes of each.
#[derive(Debug)]
struct Few {
    /// Each pattern with the place of the bytes that are searched.
    patterns: Vec<(Box<[u8]>, usize)>,
    finder: Finder,
}

#[derive(Debug)]
enum Finder {
    /// Two and more patterns, if the processor supports it: the same as the prefilter of `AhoCorasick`, and faster to restart after each
    /// matched line.
    Packed(packed::Searcher),
    /// One pattern, or too many: by all of their bytes.
    Whole(AhoCorasick),
}

impl Few {
    fn new(patterns: &[&str]) -> Option<Self> {
        if patterns.is_empty() {
            return None;
        }
        if (2..=FEW).contains(&patterns.len()) {
            let sample = Sample::default();
            let patterns: Vec<_> = patterns.iter().map(|p| (p.as_bytes().into(), rarest(p.as_bytes(), &sample))).collect();
            if let Some(packed) = packed::Searcher::new(parts(&patterns)) {
                return Some(Self { patterns, finder: Finder::Packed(packed) });
            }
        }
        let whole = AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(patterns).ok()?;
        Some(Self { patterns: Vec::new(), finder: Finder::Whole(whole) })
    }

    fn choose(&mut self, sample: &Sample<PART>) {
        let Finder::Packed(packed) = &mut self.finder else { return };
        for (pattern, part) in &mut self.patterns {
            *part = rarest(pattern, sample);
        }
        *packed = packed::Searcher::new(parts(&self.patterns)).expect("other parts of the same patterns, as many and as long");
    }

    fn find(&self, text: &[u8], wasted: &mut usize) -> Option<usize> {
        let packed = match &self.finder {
            Finder::Packed(packed) => packed,
            Finder::Whole(whole) => return whole.find(text).map(|m| m.start()),
        };
        let mut span = Span { start: 0, end: text.len() };
        while let Some(part) = packed.find_in(text, span) {
            let here = |(pattern, place): &(Box<[u8]>, usize)| {
                let start = part.start().checked_sub(*place)?;
                text[start..].starts_with(pattern).then_some(start)
            };
            // Usually it is the pattern whose part was found. Others may have the same part.
            if let Some(start) = here(&self.patterns[part.pattern()]).or_else(|| self.patterns.iter().find_map(here)) {
                return Some(start);
            }
            *wasted += 1;
            span.start = part.start() + 1;
        }
        None
    }
}

fn parts(patterns: &[(Box<[u8]>, usize)]) -> impl Iterator<Item = &[u8]> {
    patterns.iter().map(|(pattern, part)| &pattern[*part..pattern.len().min(part + PART)])
}

/// The place of the three bytes of a pattern that are rarest in the sample.
fn rarest(pattern: &[u8], sample: &Sample<PART>) -> usize {
    let places = windows::<PART>(pattern).enumerate();
    places.min_by_key(|(_, part)| sample.price(part)).map_or(0, |(place, _)| place)
}

/// Iterates over the lines of one text that have a pattern, in order.
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
    /// The beginning of a pattern in the first line at or after `from` that has one. `from` is the start of a line, and never goes back.
    pub(super) fn next(&mut self, search: &mut Search, text: &[u8], from: usize) -> Option<usize> {
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

/// Searches many patterns by groups of four of their bytes.
#[derive(Debug)]
struct Grams {
    patterns: Vec<Box<[u8]>>,
    /// A bit for each group that may be in a pattern.
    bits: Box<[u64; WORDS]>,
    /// The places of the groups, ordered by bucket.
    places: Vec<GramPlace>,
    /// The patterns of each place, by number.
    members: Vec<u32>,
    /// Where each bucket begins in `places`, and where the last one ends.
    buckets: Box<[u32; BUCKETS + 1]>,
    /// One in this many places of the text is checked. Each pattern has as many groups in `places`, one for each offset that it can have to a
    /// checked place.
    step: usize,
    /// The longest step the shortest pattern allows.
    longest_step: usize,
}

/// A choice of groups for a step: wherever a pattern lies, one of its groups is at a checked place.
#[derive(Debug)]
struct Cover {
    step: usize,
    /// The index of a pattern, and the place of the group in it.
    groups: Vec<(u32, usize)>,
    /// The cost of a byte of a text like the sample, in about nanoseconds.
    cost: f64,
}

impl Cover {
    fn new(patterns: &[Box<[u8]>], step: usize, sample: &Sample<GRAM>) -> Self {
        let mut groups = Vec::with_capacity(patterns.len() * step);
        let mut grams = Vec::with_capacity(patterns.len() * step);
        for (pattern, number) in patterns.iter().zip(0_u32..) {
            let all: Vec<&[u8; GRAM]> = windows(pattern).collect();
            for way in 0..step {
                let places = (way..all.len()).step_by(step);
                let at = places.min_by_key(|at| sample.price(all[*at])).expect("every pattern has as many groups as the longest step");
                grams.push(all[at]);
                groups.push((number, at));
            }
        }
        grams.sort_unstable();
        grams.dedup();
        let doubts: f64 = grams.iter().map(|gram| sample.share(gram)).sum();
        Self { step, groups, cost: (A_LOOK + A_DOUBT * doubts) / step as f64 }
    }
}

/// The measured costs of checking a place, and of a false hit. Only their ratio matters.
const A_LOOK: f64 = 0.75;
const A_DOUBT: f64 = 10.0;

/// A group at one place, for all patterns that have it there and begin with the same bytes.
#[derive(Debug)]
struct GramPlace {
    gram: u32,
    at: usize,
    /// The first four bytes of the patterns, which rule out most false hits.
    head: u32,
    members: Range<usize>,
}

/// 16 KiB of bits, which fit into the first-level cache.
const WORDS: usize = 2048;
const BUCKETS: usize = 2048;

impl Grams {
    fn new(patterns: &[&str]) -> Self {
        let patterns: Vec<Box<[u8]>> = patterns.iter().map(|p| p.as_bytes().into()).collect();
        let shortest = patterns.iter().map(|p| p.len()).min().unwrap_or(LONG);
        let step = (shortest + 1 - GRAM).min(8);
        let mut grams = Self {
            patterns,
            bits: Box::new([0; WORDS]),
            places: Vec::new(),
            members: Vec::new(),
            buckets: Box::new([0; BUCKETS + 1]),
            step,
            longest_step: step,
        };
        grams.choose(&Sample::default());
        grams
    }

    /// Chooses the groups: of those at a fitting place, the rarest in the sample. If a long step leaves too little choice, a shorter step is
    /// faster.
    fn choose(&mut self, sample: &Sample<GRAM>) {
        let covers = (GRAM..=self.longest_step).rev().map(|step| Cover::new(&self.patterns, step, sample));
        let best = covers.min_by(|a, b| a.cost.total_cmp(&b.cost)).expect("a step is at least as long as a group");
        self.step = best.step;
        let mut chosen: Vec<_> = best
            .groups
            .iter()
            .map(|(number, at)| {
                let pattern = &self.patterns[*number as usize];
                let gram = gram(&pattern[*at..]);
                (bucket(gram), gram, *at, self::gram(pattern), *number)
            })
            .collect();
        chosen.sort_unstable();
        self.bits.fill(0);
        self.places.clear();
        self.members = chosen.iter().map(|(.., number)| *number).collect();
        let mut from = 0;
        for alike in chosen.chunk_by(|a, b| (a.1, a.2, a.3) == (b.1, b.2, b.3)) {
            let (_, gram, at, head, _) = alike[0];
            let (word, bit) = slot(gram);
            self.bits[word] |= 1 << bit;
            self.places.push(GramPlace { gram, at, head, members: from..from + alike.len() });
            from += alike.len();
        }
        for (number, begin) in self.buckets.iter_mut().enumerate() {
            *begin = self.places.partition_point(|place| bucket(place.gram) < number) as u32;
        }
    }

    fn find(&self, text: &[u8], wasted: &mut usize) -> Option<usize> {
        match self.step {
            8 => self.find_in_steps::<8>(text, wasted),
            7 => self.find_in_steps::<7>(text, wasted),
            6 => self.find_in_steps::<6>(text, wasted),
            5 => self.find_in_steps::<5>(text, wasted),
            _ => self.find_in_steps::<4>(text, wasted),
        }
    }

    /// Steps are at least as long as a group, so that each step has a whole group.
    fn find_in_steps<const STEP: usize>(&self, text: &[u8], wasted: &mut usize) -> Option<usize> {
        let (steps, _) = text.as_chunks::<STEP>();
        let (eights, rest) = steps.as_chunks::<8>();
        for (n, eight) in eights.iter().enumerate() {
            if eight.iter().fold(0, |any, step| any | self.bit(gram(step))) & 1 == 1
                && let Some(found) = self.among(text, eight, n * 8 * STEP, wasted)
            {
                return Some(found);
            }
        }
        let behind = eights.len() * 8 * STEP;
        // The rest, also where it is shorter than a step.
        (0..=rest.len()).find_map(|n| self.at(text, behind + n * STEP, wasted))
    }

    /// The lowest bit says whether the group may be in a pattern. The other bits mean nothing.
    fn bit(&self, gram: u32) -> u64 {
        let (word, bit) = slot(gram);
        self.bits[word] >> bit
    }

    /// Where a pattern begins that has a group at one of the eight steps from `from` on. Not inlined, so that the calling loop keeps all
    /// registers.
    #[cold]
    fn among<const STEP: usize>(&self, text: &[u8], eight: &[[u8; STEP]; 8], from: usize, wasted: &mut usize) -> Option<usize> {
        let mut set = eight.iter().rev().fold(0, |set, step| set << 1 | self.bit(gram(step)) & 1);
        while set != 0 {
            let n = set.trailing_zeros() as usize;
            if let Some(found) = self.at(text, from + n * STEP, wasted) {
                return Some(found);
            }
            set &= set - 1;
        }
        None
    }

    /// Where a pattern begins that has its group at `at`.
    fn at(&self, text: &[u8], at: usize, wasted: &mut usize) -> Option<usize> {
        let gram = gram(text.get(at..at + GRAM)?);
        let bucket = bucket(gram);
        let here = &self.places[self.buckets[bucket] as usize..self.buckets[bucket + 1] as usize];
        let mut begun = false;
        let mut first: Option<usize> = None;
        for place in here.iter().filter(|place| place.gram == gram) {
            begun = true;
            let Some(start) = at.checked_sub(place.at) else { continue };
            if self::gram(&text[start..]) == place.head
                && self.members[place.members.clone()].iter().any(|n| text[start..].starts_with(&self.patterns[*n as usize]))
            {
                first = Some(first.map_or(start, |f| f.min(start)));
            }
        }
        *wasted += usize::from(begun && first.is_none());
        first
    }
}

/// All windows of `N` bytes.
fn windows<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = &[u8; N]> {
    bytes.windows(N).filter_map(<[u8]>::first_chunk)
}

fn gram(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

fn bucket(gram: u32) -> usize {
    (gram.wrapping_mul(0x9E37_79B1) >> 21) as usize
}

fn slot(gram: u32) -> (usize, u32) {
    let hash = gram.wrapping_mul(0x9E37_79B1) >> 15;
    ((hash >> 6) as usize % WORDS, hash & 63)
}
