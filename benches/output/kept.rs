//! Checks that the kept output is the printed output.

use anyhow::{Result, ensure};
use outlast_client::{Chunk, Client, From};

/// The parts of a long output that must be kept: its beginning, and this much of its end.
const HEAD: u64 = 1 << 20;
const TAIL: u64 = 64 << 20;

/// Reads the kept parts of an output that repeats `unit` up to a number of bytes and then has `last`. Counts the missing and the wrong bytes.
pub(super) async fn wrong(client: &Client, id: &str, unit: &[u8], bytes: u64, last: &[u8]) -> Result<u64> {
    let all = bytes + last.len() as u64;
    let mut chunks = client.read(id, From::Byte(0));
    let (mut wrong, mut next) = (0, 0);
    while let Some(chunk) = chunks.next().await? {
        match chunk {
            Chunk::Bytes { at, bytes: text } => {
                ensure!(at == next, "byte {next} should follow, not {at}");
                let (data, behind) = text.split_at(text.len().min(bytes.saturating_sub(at) as usize));
                wrong += differing(data, unit, at) + differing(behind, last, at.saturating_sub(bytes));
                next = at + text.len() as u64;
            }
            Chunk::Gap { from, to, .. } => {
                ensure!(from == next, "byte {next} should follow, not a gap from {from}");
                // Retention may only remove bytes between head and tail.
                let may = HEAD..all.saturating_sub(TAIL);
                wrong += may.start.saturating_sub(from) + to.saturating_sub(may.end.max(from));
                next = to;
            }
        }
    }
    ensure!(next == all, "it ends at byte {next} instead of {all}");
    Ok(wrong)
}

fn differing(bytes: &[u8], unit: &[u8], at: u64) -> u64 {
    let (mut rest, mut phase, mut wrong) = (bytes, (at % unit.len() as u64) as usize, 0);
    while !rest.is_empty() {
        let many = rest.len().min(unit.len() - phase);
        let (one, other) = (&rest[..many], &unit[phase..phase + many]);
        if one != other {
            wrong += one.iter().zip(other).filter(|(a, b)| a != b).count() as u64;
        }
        (rest, phase) = (&rest[many..], 0);
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_byte_is_found_wherever_reading_began() {
        assert_eq!(differing(b"cabcab", b"abc", 2), 0);
        assert_eq!(differing(b"cabXab", b"abc", 2), 1);
        assert_eq!(differing(b"abcabc", b"abc", 1), 6);
    }
}
