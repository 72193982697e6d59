//! A tar.gz of a few small texts: the formats without what they are not needed for here.

use super::Entry;

const BLOCK: usize = 512;
/// The most that one stored block of deflate has.
const MAX_STORED: usize = 65_535;

/// The entries in a directory of this name. Nothing is compressed, so that any program that reads the formats can read it.
pub(super) fn tar_gz(directory: &str, entries: &[Entry], seconds: u64) -> Vec<u8> {
    let mut tar = Vec::new();
    for entry in entries {
        tar.extend(header(&format!("{directory}/{}", entry.name), entry.text.len(), seconds));
        tar.extend(entry.text.as_bytes());
        tar.resize(tar.len().next_multiple_of(BLOCK), 0);
    }
    // Two empty blocks end an archive.
    tar.resize(tar.len() + 2 * BLOCK, 0);
    gzip(&tar)
}

/// A ustar header of a plain file.
fn header(name: &str, size: usize, seconds: u64) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    // Names of ours are short; a longer one would be cut.
    put(0, &name.as_bytes()[..name.len().min(100)]);
    put(100, b"0000600\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{size:011o}\0").as_bytes());
    put(136, format!("{seconds:011o}\0").as_bytes());
    // The sum is made with spaces in its own place.
    put(148, b"        ");
    put(156, b"0");
    put(257, b"ustar\x0000");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    // The magic number, deflate, no flags, no time, an unknown system.
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
    let mut chunks = bytes.chunks(MAX_STORED).peekable();
    while let Some(chunk) = chunks.next() {
        out.push(u8::from(chunks.peek().is_none()));
        let length = chunk.len() as u16;
        out.extend(length.to_le_bytes());
        out.extend((!length).to_le_bytes());
        out.extend(chunk);
    }
    out.extend(crc32fast::hash(bytes).to_le_bytes());
    out.extend((bytes.len() as u32).to_le_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn tar_reads_what_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let long = "line\n".repeat(40_000);
        let entry = |name, text: &str| Entry { name, about: "", text: text.into() };
        let all = [entry("a.txt", "first\n"), entry("empty.txt", ""), entry("long.txt", &long)];
        let file = dir.path().join("x.tar.gz");
        std::fs::write(&file, tar_gz("report", &all, 1_700_000_000)).unwrap();
        let done = Command::new("tar").arg("-xzf").arg(&file).arg("-C").arg(dir.path()).output().unwrap();
        assert!(done.status.success() && done.stderr.is_empty(), "{done:?}");
        for entry in &all {
            assert_eq!(std::fs::read_to_string(dir.path().join("report").join(entry.name)).unwrap(), entry.text);
        }
    }
}
