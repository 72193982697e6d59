//! The machine was restarted: nothing of ours runs, and every folder is of an earlier boot.

use crate::product::{Product, kill_and_wait};
use anyhow::{Context, Result};
use std::os::unix::fs::FileExt;

/// Where `meta` holds the boot it was made in, and the sum over what comes before.
const BOOT: std::ops::Range<usize> = 24..40;
const SUMMED: usize = 48;

/// Kills everything of a home at once, and makes its folders those of another boot.
pub fn reboot(p: &Product) -> Result<()> {
    loop {
        let all = p.processes();
        if all.is_empty() {
            break;
        }
        // Stopped first, so that nobody sees another die: the power goes for all in one instant.
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
