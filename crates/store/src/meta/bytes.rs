//! Reads single fields from the bytes of a `meta`.

use super::LEN;
use crate::live::{LIVE_AT, Live};
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;

/// Stored in the file instead of the command's pid while the holder is about to start it. It is not 0, so that no reader of any
/// version starts the command again.
pub(super) const BEGUN: u32 = u32::MAX;

pub(super) fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(b[at..at + 4].try_into().expect("four bytes"))
}

pub(super) fn u64_at(b: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(b[at..at + 8].try_into().expect("eight bytes"))
}

/// The pid at `at`, if there is one.
pub(super) fn pid_at(b: &[u8], at: usize) -> Option<u32> {
    Some(u32_at(b, at)).filter(|pid| *pid != 0 && *pid <= i32::MAX as u32)
}

/// The boot id with which a `meta` was made.
pub(super) fn boot_of(b: &[u8; LEN]) -> u128 {
    u128::from_le_bytes(b[24..40].try_into().expect("sixteen bytes"))
}

/// Reads the whole file. The reads are not atomic: if the field that selects a slot changes in between, the slot may be half old.
/// Then everything is read again.
pub(super) fn read_settled(file: &std::fs::File) -> io::Result<[u8; LEN]> {
    let current = [LIVE_AT + offset_of!(Live, commit), LIVE_AT + offset_of!(Live, watch)];
    let mut bytes = [0; LEN];
    for _ in 0..1000 {
        read_up_to_at(file, &mut bytes, 0)?;
        let mut now = [[0; 8]; 2];
        for (now, at) in now.iter_mut().zip(current) {
            read_up_to_at(file, now, at as u64)?;
        }
        if now.iter().zip(current).all(|(now, at)| now == &bytes[at..at + 8]) {
            break;
        }
    }
    Ok(bytes)
}

fn read_up_to_at(file: &std::fs::File, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    let mut n = 0;
    while n < bytes.len() {
        match file.read_at(&mut bytes[n..], at + n as u64)? {
            0 => break,
            k => n += k,
        }
    }
    Ok(n)
}
