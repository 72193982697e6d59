//! What a text is made of.

use super::{GRAM, gram};

/// How often each four bytes are in a text; the default is one of which nothing is known.
#[derive(Debug, Default)]
pub(super) struct Sample {
    /// By a hash of the four bytes; different ones may share a number. Empty where nothing is known.
    counts: Vec<u16>,
}

/// So many bits of the hash are used.
const BITS: u32 = 16;

impl Sample {
    pub(super) fn of(text: &[u8]) -> Self {
        let mut counts = vec![0_u16; 1 << BITS];
        for bytes in text.windows(GRAM) {
            let count = &mut counts[place(gram(bytes))];
            *count = count.saturating_add(1);
        }
        Self { counts }
    }

    /// What it costs to look for these four bytes: how often they are there first, and how usual each of them is in any text second.
    pub(super) fn price(&self, gram: u32) -> u64 {
        let seen = self.counts.get(place(gram)).copied().unwrap_or(0);
        let usual: u64 = gram.to_le_bytes().iter().map(|b| usual(*b)).sum();
        u64::from(seen) << 8 | usual
    }
}

fn place(gram: u32) -> usize {
    (gram.wrapping_mul(0x9E37_79B1) >> (32 - BITS)) as usize
}

/// Roughly how usual a byte is in what programs print; 60 at most.
fn usual(byte: u8) -> u64 {
    match byte {
        b' ' | b'e' | b't' | b'a' | b'i' | b'n' | b'o' | b's' | b'r' => 16,
        b'a'..=b'z' => 10,
        b'0'..=b'9' => 8,
        b'A'..=b'Z' => 4,
        b'.' | b'-' | b'/' | b':' | b'_' => 6,
        _ => 1,
    }
}
