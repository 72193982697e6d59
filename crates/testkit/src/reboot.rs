//! Simulates a restart of the machine: no process of the home runs, and every folder is from an earlier boot.

use crate::product::{Product, kill_and_wait};
use anyhow::{Context, Result};
use std::os::unix::fs::FileExt;

/// The bytes of `meta` that hold its boot.
const BOOT: std::ops::Range<usize> = 24..40;
/// How many bytes of `meta` its checksum covers.
const SUMMED: usize = 48;

/// Kills all processes of a home at once, and marks its folders as from another boot.
pub fn reboot(p: &Product) -> Result<()> {
    loop {
        let all = p.processes();
        if all.is_empty() {
            break;
        }
        // All are suspended first, so that none sees another die: a power cut ends all at the same moment.
        for (pid, _) in &all {
            let pid = rustix::process::Pid::from_raw(i32::try_from(*pid)?).context("a pid")?;
            // One that is gone need not be stopped.
            let _gone = rustix::process::kill_process(pid, rustix::process::Signal::STOP);
        }
        for (pid, _) in &all {
            kill_and_wait(*pid)?;
        }
    }
    for id in p.home().ids()? {
        let path = p.home().process(id).meta();
        let meta = std::fs::File::options().read(true).write(true).open(&path).with_context(|| format!("open {}", path.display()))?;
        let mut identity = [0; SUMMED];
        meta.read_exact_at(&mut identity, 0)?;
        identity[BOOT].iter_mut().for_each(|b| *b = !*b);
        meta.write_all_at(&identity, 0)?;
        meta.write_all_at(&crc32fast::hash(&identity).to_le_bytes(), SUMMED as u64)?;
    }
    Ok(())
}
