//! The time to write a record to disk.

use anyhow::{Context, Result};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Instant;

/// The length of a record.
pub(crate) const RECORD: [u8; 256] = [b'r'; 256];

/// How long it takes to append a record to a file and have it on disk.
pub(crate) fn sync(dir: &Path, many: usize) -> Result<Vec<f64>> {
    let path = dir.join("limit-sync");
    let mut file = File::create(&path).with_context(|| format!("cannot make {}", path.display()))?;
    let mut times = Vec::new();
    for _ in 0..many {
        let began = Instant::now();
        file.write_all(&RECORD)?;
        file.sync_data()?;
        times.push(began.elapsed().as_secs_f64());
    }
    std::fs::remove_file(&path)?;
    Ok(times)
}
