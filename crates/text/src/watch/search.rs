//! Where in a text a pattern is.
//!
//! Few patterns are found by three bytes of each, many at a time (Teddy, of `aho-corasick`). That slows down past a few dozen. Many patterns of some length are
//! found by looking at four bytes in every so many instead: a pattern of eleven bytes has, wherever it lies, four bytes of its own at one of every eight places.
//!
//! Which bytes of a pattern are looked for is free to choose, and what they cost is how often they are there without the pattern: `work` of `worker died` in the
//! log of a program that speaks of its workers. Where that happens often, others are chosen by what the text at hand is made of.
//!
//! Decision 68: docs/decisions/watch.md.

mod sample;

use aho_corasick::{AhoCorasick, MatchKind, Span, packed};
use sample::Sample;
use std::ops::Range;

/// So many patterns are found by three bytes of each.
const FEW: usize = 16;
/// How many bytes are looked at where there are few. A fourth costs half as much again, and hardly anything needs it.
const PART: usize = 3;
/// How many bytes are looked at where there are many.
const GRAM: usize = 4;
/// Patterns shorter than this are always found by their first bytes.
const LONG: usize = 7;
/// Others are chosen where one of so many bytes was the beginning of nothing.
const RARE: usize = 2048;
/// So often at least, the first time.
const PATIENCE: usize = 64;
/// A text shorter than this says too little of what comes.
const TELLING: usize = 4 << 10;
/// What is longer ago than this counts no more.
const RECENT: usize = 1 << 20;

/// Finds patterns.
#[derive(Debug)]
pub(super) struct Search {
    few: Option<Few>,
    many: Option<Grams>,
    longest: usize,
    literal: bool,
    /// How much was searched lately.
    searched: usize,
    /// How often something was found that was no pattern, and how often that may be before other bytes are chosen.
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

    /// Whether patterns are in the bytes of a line exactly if they are in its text. Not so for one that looks for what replaces invalid bytes.
    pub(super) fn is_literal(&self) -> bool {
        self.literal
    }

    /// The longest pattern's bytes.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// Where a pattern begins, if one is there.
    pub(super) fn find(&mut self, text: &[u8]) -> Option<usize> {
        self.few_from(text, 0).or_else(|| self.many_from(text, 0))
    }

    fn few_from(&mut self, text: &[u8], from: usize) -> Option<usize> {
        Some(from + self.few.as_ref()?.find(&text[from..], &mut self.wasted)?)
    }

    fn many_from(&mut self, text: &[u8], from: usize) -> Option<usize> {
        Some(from + self.many.as_ref()?.find(&text[from..], &mut self.wasted)?)
    }

    /// Chooses anew after every piece.
    #[cfg(test)]
    pub(super) fn never_content(&mut self) {
        self.patience = 0;
    }

    /// This text was searched: chooses other bytes to look for if those now looked for are in it too often. Each time it takes four times as much of that, so that
    /// the choosing never costs more than what it saves.
    pub(super) fn learn(&mut self, text: &[u8]) {
        self.searched += text.len();
        let often = self.wasted >= self.patience && self.wasted >= self.searched / RARE;
        if often && text.len() >= self.patience.min(TELLING) {
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

/// Few patterns, by three bytes of each.
#[derive(Debug)]
struct Few {
    /// Each with the place of the bytes that are looked for.
    patterns: Vec<(Box<[u8]>, usize)>,
    finder: Finder,
}

#[derive(Debug)]
enum Finder {
    /// Two and more, where the processor can do it: the same as what `AhoCorasick` begins with, and quicker to begin again behind each line that matched.
    Packed(packed::Searcher),
    /// One, or too many: by all of their bytes.
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
            // Mostly it is the one whose part was found. Others may have the same, or a longer one that begins with it.
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

/// Where in the pattern the three bytes are that the sample has least of.
fn rarest(pattern: &[u8], sample: &Sample<PART>) -> usize {
    let places = windows::<PART>(pattern).enumerate();
    places.min_by_key(|(_, part)| sample.price(part)).map_or(0, |(place, _)| place)
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

/// Many patterns, by groups of four of their bytes.
#[derive(Debug)]
struct Grams {
    patterns: Vec<Box<[u8]>>,
    /// A bit for each group that may be in a pattern.
    bits: Box<[u64; WORDS]>,
    /// Where each group is, those of one bucket together.
    places: Vec<Place>,
    /// The patterns of each place, by number.
    members: Vec<u32>,
    /// Where in `places` each bucket begins, and the last one ends.
    buckets: Box<[u32; BUCKETS + 1]>,
    /// One in so many places is looked at: as many as there are groups of each pattern in `places`, one for each way the pattern can lie between two of them.
    step: usize,
    /// The longest step the shortest pattern allows.
    longest_step: usize,
}

/// Groups of which every pattern has one at one of every `step` places, wherever it lies.
#[derive(Debug)]
struct Cover {
    step: usize,
    /// A pattern by number, and where in it the group is.
    groups: Vec<(u32, usize)>,
    /// What a byte of a text like the sample costs, in nanoseconds or thereabouts.
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

/// What it costs to look at a place, and to see that what is there is no pattern, as measured; only how they compare counts.
const A_LOOK: f64 = 0.75;
const A_DOUBT: f64 = 10.0;

/// A group in all patterns that begin with the same bytes and have it at the same place.
#[derive(Debug)]
struct Place {
    gram: u32,
    at: usize,
    /// The first four bytes: most of what is no pattern ends there.
    head: u32,
    members: Range<usize>,
}

/// 16 KiB of bits: they stay in the fastest cache.
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

    /// Any group of a pattern will do that lies as it has to. The best is the one that the sample has least of. Where a long step leaves too little choice, a shorter
    /// one is quicker in the end.
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
            self.places.push(Place { gram, at, head, members: from..from + alike.len() });
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

    /// Steps are at least as long as a group, so that each has one whole.
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
        // What is left, with what is less than a step.
        (0..=rest.len()).find_map(|n| self.at(text, behind + n * STEP, wasted))
    }

    /// The lowest bit says whether the group may be in a pattern, the others nothing.
    fn bit(&self, gram: u32) -> u64 {
        let (word, bit) = slot(gram);
        self.bits[word] >> bit
    }

    /// Where a pattern begins that has a group at one of the eight steps from `from` on. Apart from the loop that asks for it, which then has all registers for itself.
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

    /// Where a pattern begins that has the group at `at`.
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

/// Every `N` bytes that stand together.
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
