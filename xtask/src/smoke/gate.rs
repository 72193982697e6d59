//! A command waits at a gate until its check opens it. A FIFO needs no space on a full disk.

use anyhow::{Context, Result};
use outlast_testkit::product::Product;
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

static MADE: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Gate {
    path: PathBuf,
    /// Open for reading too, so that the written byte stays until the command reads it.
    ends: OwnedFd,
}

impl Gate {
    pub(crate) fn new(product: &Product) -> Result<Self> {
        let path = product.work().join(format!("gate-{}", MADE.fetch_add(1, SeqCst)));
        let owner = Mode::RUSR | Mode::WUSR;
        mknodat(CWD, &path, FileType::Fifo, owner, 0).with_context(|| format!("make {}", path.display()))?;
        let ends = open(&path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { path, ends })
    }

    /// The shell command that waits at the gate.
    pub(crate) fn wait(&self) -> String {
        format!("read _ < '{}'", self.path.display())
    }

    pub(crate) fn open(&self) -> Result<()> {
        rustix::io::write(&self.ends, b"\n").context("open the gate")?;
        Ok(())
    }
}
