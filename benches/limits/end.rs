//! The time from the last action of a program to a record of its end.

use super::disk::RECORD;
use super::spawn::{readable, spawn};
use crate::bench_suite::tools;
use anyhow::{Context, Result};
use rustix::pipe::{PipeFlags, pipe_with};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::Path;

/// How long until the kernel reports an end, and until a record of it is on disk, for programs that print when they end.
pub(crate) fn records(stamp: &Path, dir: &Path, many: usize, lived: &str) -> Result<(Vec<f64>, Vec<f64>)> {
    let path = dir.join("limit-record");
    let mut file = File::create(&path).with_context(|| format!("cannot make {}", path.display()))?;
    let (mut told, mut recorded) = (Vec::new(), Vec::new());
    for _ in 0..many {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        let child = spawn(&[&stamp.to_string_lossy(), lived], Some(writer.as_raw_fd()))?;
        drop(writer);
        let handle = child.handle()?;
        readable(&handle)?;
        let seen = tools::clock();
        file.write_all(&RECORD)?;
        file.sync_data()?;
        let synced = tools::clock();
        child.reap()?;
        let mut text = String::new();
        File::from(reader).read_to_string(&mut text)?;
        told.push(tools::since(&text, seen)?);
        recorded.push(tools::since(&text, synced)?);
    }
    std::fs::remove_file(&path)?;
    Ok((told, recorded))
}
