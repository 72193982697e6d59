//! A cgroup for the command alone, if one can be made. It contains the whole tree, whatever the tree does.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use std::io;
use std::path::{Path, PathBuf};

/// The leaf of one process.
#[derive(Debug)]
pub(crate) struct Leaf {
    path: PathBuf,
    dir: OwnedFd,
}

impl Leaf {
    /// Makes the leaf, or opens the one of an earlier attempt.
    pub(crate) fn make(parent: &Path, name: &str) -> io::Result<Self> {
        let path = parent.join(name);
        match std::fs::create_dir(&path) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
            Ok(()) | Err(_) => {}
        }
        let dir = rustix::fs::open(&path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { path, dir })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// Moves the calling process into the leaf. Allocates nothing, so that a child can call it before exec.
    pub(crate) fn enter(&self) -> io::Result<()> {
        let procs = rustix::fs::openat(&self.dir, c"cgroup.procs", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        rustix::io::write(procs, b"0")?;
        Ok(())
    }

    /// The pids inside, with those in cgroups below.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let mut all = Vec::new();
        // It is empty in most cases, and this file says so for the cgroups below, too.
        if std::fs::read(self.path.join("cgroup.events")).is_ok_and(|events| events.starts_with(b"populated 0\n")) {
            return all;
        }
        let mut folders = vec![self.path.clone()];
        while let Some(folder) = folders.pop() {
            if let Ok(text) = std::fs::read_to_string(folder.join("cgroup.procs")) {
                // A pid of 0 is in another pid namespace and cannot be signalled by number; cgroup.kill reaches it.
                all.extend(text.lines().filter_map(|l| l.parse::<u32>().ok()).filter(|p| *p != 0));
            }
            if let Ok(entries) = std::fs::read_dir(&folder) {
                folders.extend(entries.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()));
            }
        }
        all
    }

    /// Kills everything inside at once, also processes that are being forked.
    pub(crate) fn kill(&self) -> io::Result<()> {
        std::fs::write(self.path.join("cgroup.kill"), "1")
    }

    /// Removes it and the cgroups below if they are empty.
    pub(crate) fn remove(&self) {
        outlast_store::os::remove_cgroup(&self.path);
    }

    /// Moves this process out of the home's cgroup. Returns whether that cgroup may be removed now.
    pub(crate) fn leave_home(&self) -> bool {
        let above = self.home().and_then(Path::parent);
        above.is_some_and(|above| std::fs::write(above.join("cgroup.procs"), std::process::id().to_string()).is_ok())
    }

    /// Removes the home's cgroup, if no process is in it.
    pub(crate) fn remove_home(&self) {
        if let Some(home) = self.home() {
            // Other keepers use it: the last of them removes it.
            let _in_use = std::fs::remove_dir(home.join("engine")).and_then(|()| std::fs::remove_dir(home));
        }
    }

    fn home(&self) -> Option<&Path> {
        // A scope is removed by systemd.
        self.path.parent().filter(|home| home.extension().is_none())
    }
}
