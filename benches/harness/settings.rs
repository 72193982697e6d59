//! How the benchmarks are to be run.

use super::board::Who;
use crate::{Flags, dist};
use anyhow::{Context, Result, bail};
use rustix::fs::IFlags;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

/// What `TMPFS_MAGIC` is to `statfs`: a sync costs nothing there.
const TMPFS: i64 = 0x0102_1994;

/// What was asked for on the command line.
pub(crate) struct Settings {
    /// The `outlast` that is measured.
    pub(crate) program: PathBuf,
    /// How often everything is measured.
    pub(crate) rounds: usize,
    /// Small sizes, to see that it works.
    pub(crate) quick: bool,
    /// How long to wait for the machine to be idle before each measurement.
    pub(crate) idle_wait: Duration,
    /// Who is left out.
    pub(crate) without: Vec<Who>,
    /// Where everything of the benchmarks is kept between runs.
    pub(crate) place: PathBuf,
    /// Where this run keeps its samples.
    pub(crate) results: PathBuf,
    /// Where homes are made: on a disk, so that a sync is one.
    pub(crate) disk: PathBuf,
    /// The same, removed with this.
    _disk: TempDir,
}

impl Settings {
    pub(crate) fn read(flags: &Flags<'_>) -> Result<Self> {
        let quick = flags.has("--quick");
        let place = target()?.join("bench");
        let program = match flags.get::<PathBuf>("--program")? {
            Some(path) => path.canonicalize().with_context(|| format!("cannot find {}", path.display()))?,
            None => {
                let to = place.join("dist");
                dist::build_into(&to)?;
                to.join("outlast")
            }
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let results = place.join(now.to_string());
        std::fs::create_dir_all(&results).with_context(|| format!("cannot make {}", results.display()))?;
        let disk = disk()?;
        let without = flags.get::<String>("--without")?.unwrap_or_default();
        Ok(Self {
            program,
            rounds: flags.get("--rounds")?.unwrap_or(if quick { 1 } else { 5 }),
            quick,
            idle_wait: Duration::from_secs(flags.get("--idle-wait")?.unwrap_or(if quick { 0 } else { 30 })),
            without: without.split(',').filter(|w| !w.is_empty()).map(peer).collect::<Result<_>>()?,
            disk: disk.path().to_owned(),
            _disk: disk,
            place,
            results,
        })
    }

    /// A size: the real one, or a small one to see that it works.
    pub(crate) fn size(&self, real: usize, small: usize) -> usize {
        if self.quick { small } else { real }
    }
}

fn peer(word: &str) -> Result<Who> {
    match Who::PEERS.iter().find(|who| who.word() == word) {
        Some(who) => Ok(*who),
        None => bail!("--without {word}: no such peer; there are {}", Who::PEERS.map(Who::word).join(", ")),
    }
}

/// Where Cargo puts what it builds, as this program was.
pub(crate) fn target() -> Result<PathBuf> {
    let here = std::env::current_exe()?;
    Ok(here.parent().and_then(Path::parent).context("this program lies in no target directory")?.to_owned())
}

/// A new directory among the temporary ones, unless those are in memory.
///
/// An ext4 without a journal checks every inode that was freed in the last minutes, one by one. After a build or a test run that removed
/// thousands of files, a new file costs ten times as much. So the files in here are spread over the disk, as top directories are.
pub(crate) fn disk() -> Result<TempDir> {
    let temp = std::env::temp_dir();
    let beside = if rustix::fs::statfs(&temp)?.f_type as i64 == TMPFS { target()? } else { temp };
    let own = tempfile::Builder::new().prefix("ol-bench-").tempdir_in(beside)?;
    let dir = std::fs::File::open(own.path())?;
    // Another file system has no such thing, and no need of it.
    let _other = rustix::fs::ioctl_getflags(&dir).and_then(|flags| rustix::fs::ioctl_setflags(&dir, flags | IFlags::TOPDIR));
    Ok(own)
}
