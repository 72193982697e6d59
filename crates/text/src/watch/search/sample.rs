//! Counts which bytes a text has.

/// How often each group of `N` bytes is in a text. The default is an unknown text.
#[derive(Debug, Default)]
pub(super) struct Sample<const N: usize> {
    /// Counts by a hash of the bytes; different groups may share one. Empty for an unknown text.
    counts: Vec<u16>,
    /// The length of the text in bytes.
    len: usize,
}

/// How many bits of the hash are used.
const BITS: u32 = 16;

impl<const N: usize> Sample<N> {
    pub(super) fn of(text: &[u8]) -> Self {
        let mut counts = vec![0_u16; 1 << BITS];
        for bytes in super::windows::<N>(text) {
            let count = &mut counts[place(bytes)];
            *count = count.saturating_add(1);
        }
        Self { counts, len: text.len() }
    }

    /// The price of searching these bytes: first how often the text has them, then how common each byte is in any text.
    pub(super) fn price(&self, bytes: &[u8; N]) -> u64 {
        let usual: u64 = bytes.iter().map(|b| usual(*b)).sum();
        u64::from(self.seen(bytes)) << 8 | usual
    }

    /// The share of places in the text that have these bytes, from 0 to 1.
    pub(super) fn share(&self, bytes: &[u8; N]) -> f64 {
        f64::from(self.seen(bytes)) / self.len.max(1) as f64
    }

    fn seen(&self, bytes: &[u8; N]) -> u16 {
        self.counts.get(place(bytes)).copied().unwrap_or(0)
    }
}

fn place(bytes: &[u8]) -> usize {
    let number = bytes.iter().rev().fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
    (number.wrapping_mul(0x9E37_79B1) >> (32 - BITS)) as usize
}

/// Roughly how common a byte is in the output of programs.
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
