//! Facts about a process from the kernel.

use anyhow::{Context, Result};
use std::path::Path;

/// The processor time of all its living threads, in seconds.
pub(crate) fn spent(pid: u32) -> Result<f64> {
    let mut all = 0;
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).with_context(|| format!("{pid} is not there"))? {
        let text = std::fs::read_to_string(task?.path().join("schedstat"))?;
        all += text.split_whitespace().next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(all as f64 / 1e9)
}

/// A field of its status that is in KiB, in bytes.
pub(crate) fn status_bytes(pid: u32, name: &str) -> Result<f64> {
    field(&format!("/proc/{pid}/status"), name)
}

/// A field of its summed up mappings, in bytes.
pub(crate) fn mapped_bytes(pid: u32, name: &str) -> Result<f64> {
    field(&format!("/proc/{pid}/smaps_rollup"), name)
}

fn field(path: &str, name: &str) -> Result<f64> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).with_context(|| format!("{path} has no {name}"))?;
    Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? * 1024.0)
}

/// How many threads it has.
pub(crate) fn threads(pid: u32) -> Result<usize> {
    Ok(std::fs::read_dir(format!("/proc/{pid}/task"))?.count())
}

/// How many descriptors it has open.
pub(crate) fn descriptors(pid: u32) -> Result<usize> {
    Ok(std::fs::read_dir(format!("/proc/{pid}/fd"))?.count())
}

/// How many files and directories there are below a directory, and how many bytes of disk they take. What vanishes meanwhile is not counted.
pub(crate) fn below(dir: &Path) -> (usize, u64) {
    use std::os::unix::fs::MetadataExt;
    let (mut many, mut bytes) = (0, 0);
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let Ok(meta) = entry.metadata() else { continue };
        many += 1;
        bytes += meta.blocks() * 512;
        if meta.is_dir() {
            let (inner, inner_bytes) = below(&entry.path());
            many += inner;
            bytes += inner_bytes;
        }
    }
    (many, bytes)
}
