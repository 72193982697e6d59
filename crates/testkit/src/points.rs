//! The test's side of a test point: a FIFO at which a process of Outlast is held.

use anyhow::{Context, Result};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// A directory of test points.
#[derive(Debug)]
pub struct Points {
    dir: PathBuf,
}

impl Points {
    /// Points in `dir`, which is passed to the processes as `OUTLAST_TEST_POINTS`.
    pub fn new(dir: impl Into<PathBuf>) -> Result<Self> {
        let dir = dir.into();
        std::fs::create_dir_all(&dir)?;
        Ok(Self { dir })
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The next process to reach `name` will be held there.
    pub fn arm(&self, name: &str) -> Result<()> {
        use rustix::fs::{CWD, FileType, Mode};
        let fifo = self.dir.join(name);
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).with_context(|| format!("make {}", fifo.display()))
    }

    /// Sets whether every process that reaches `name` panics there.
    pub fn panics(&self, name: &str, so: bool) -> Result<()> {
        let file = self.dir.join(format!("{name}.panics"));
        if so { std::fs::write(&file, "") } else { std::fs::remove_file(&file) }.with_context(|| format!("change {}", file.display()))
    }

    /// The pid of the process held at `name`, if one is.
    pub fn held(&self, name: &str) -> Option<u32> {
        let prefix = format!("{name}.held.");
        std::fs::read_dir(&self.dir).ok()?.flatten().find_map(|e| e.file_name().to_str()?.strip_prefix(&prefix)?.parse().ok())
    }

    /// Holds no process at `name` any more.
    pub fn disarm(&self, name: &str) {
        // If the file is gone, a process is held, and the caller has to release it.
        let _taken = std::fs::remove_file(self.dir.join(name));
    }

    /// Lets the process held at `name` continue.
    pub fn release(&self, name: &str) -> Result<()> {
        let prefix = format!("{name}.held.");
        for e in std::fs::read_dir(&self.dir)?.flatten() {
            if e.file_name().to_str().is_some_and(|n| n.starts_with(&prefix)) {
                let pid = e.file_name().to_str().and_then(|n| n.strip_prefix(&prefix)?.parse().ok());
                let began = std::time::Instant::now();
                // Opening for writing is what the held process waits for. Without a reader it fails: the process was killed, or is
                // between the rename and its own open, for which there is no descriptor to wait on.
                while rustix::fs::open(
                    e.path(),
                    rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::CLOEXEC,
                    rustix::fs::Mode::empty(),
                )
                .is_err_and(|error| error == rustix::io::Errno::NXIO)
                    && pid.is_some_and(|pid: u32| !crate::waiting::wait_for_end(pid, std::time::Duration::from_millis(1)))
                    && began.elapsed() < crate::waiting::PATIENCE
                {}
                std::fs::remove_file(e.path())?;
            }
        }
        Ok(())
    }
}

impl AsRef<OsStr> for Points {
    fn as_ref(&self) -> &OsStr {
        self.dir.as_os_str()
    }
}
