//! Folders that are made before a process needs them: a file system takes time to allocate a new file.
//!
//! A spare folder is not named like a process, so it is never taken for one. A spare folder that an engine left behind is removed
//! by [`Home::sweep`].
//!
//! Decision 98: docs/decisions/store.md.

use crate::dir::{Home, ProcessDir, SPARE};
use crate::meta::Meta;
use crate::spec::{Kept, Launch, SpecError, SpecFile};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;

/// A spare folder, with an empty `spec` and a `meta` full of zeros.
#[derive(Debug)]
pub struct Blank {
    dir: ProcessDir,
}

impl Blank {
    /// Makes spare folder number `n`. The caller holds the home's lock.
    pub fn make(home: &Home, n: u64) -> io::Result<Self> {
        let spare = Self { dir: ProcessDir { path: home.processes().join(format!("{SPARE}{n}")) } };
        spare.dir.create()?;
        let spec = OpenOptions::new().write(true).create_new(true).mode(0o600).open(spare.dir.spec());
        let filled = spec.and_then(|_| Meta::make_room(&spare.dir));
        if let Err(error) = filled {
            spare.remove();
            return Err(error);
        }
        Ok(spare)
    }

    /// Reads a request from the bytes of a `spec`, which another home has. The spare folder stays empty.
    pub fn read_request(&self, bytes: &[u8]) -> Result<(Kept, Option<Launch>), SpecError> {
        let failed = |source| SpecError::Io { path: self.dir.spec(), doing: "take in", source };
        std::fs::write(self.dir.spec(), bytes).map_err(failed)?;
        let read = SpecFile::read(&self.dir);
        OpenOptions::new().write(true).truncate(true).open(self.dir.spec()).map_err(failed)?;
        read
    }

    /// Turns it into the folder of a process. It is an error if the process has a folder already. After any error, the spare folder
    /// is gone.
    pub fn become_process(self, dir: &ProcessDir, kept: &Kept, launch: &Launch) -> Result<(), SpecError> {
        let failed = |source| SpecError::Io { path: dir.spec(), doing: "write", source };
        let named = SpecFile::fill(&self.dir, kept, launch).and_then(|()| {
            crate::points::reach("blank.filled");
            renameat_with(CWD, &self.dir.path, CWD, &dir.path, RenameFlags::NOREPLACE).map_err(|e| failed(e.into()))
        });
        if named.is_err() {
            self.remove();
        }
        named
    }

    /// Removes the spare folder.
    pub fn remove(self) {
        // If this fails, the next engine removes it.
        let _later = std::fs::remove_dir_all(&self.dir.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::{MetaError, Snapshot};
    use outlast_core::{ProcessId, Time};

    #[test]
    fn a_spare_folder_becomes_the_folder_of_one_process_and_is_none_before() {
        let tmp = tempfile::tempdir().unwrap();
        let home = Home::new(tmp.path().join("home"));
        home.create().unwrap();
        let spares = [Blank::make(&home, 1).unwrap(), Blank::make(&home, 2).unwrap(), Blank::make(&home, 3).unwrap()];
        assert_eq!(home.ids().unwrap(), []);
        let (kept, launch) = crate::spec::tests::request();
        let dir = home.process(kept.id);
        let [first, second, third] = spares;
        first.become_process(&dir, &kept, &launch).unwrap();
        assert_eq!(home.ids().unwrap(), [kept.id]);
        assert_eq!(SpecFile::read(&dir).unwrap(), (kept.clone(), Some(launch.clone())));
        // No keeper has written to it.
        assert!(matches!(Snapshot::read(&dir), Err(MetaError::Missing { .. })));
        let meta = Meta::hold(&dir, kept.id, Time::from_micros(5)).unwrap().unwrap();
        assert_eq!(Snapshot::read(&dir).unwrap().id, kept.id);
        drop(meta);
        // An id is used only once.
        assert!(second.become_process(&dir, &kept, &launch).is_err());
        assert_eq!(SpecFile::read(&dir).unwrap(), (kept, Some(launch)));
        drop(third);
        home.sweep().unwrap();
        let left: Vec<_> = std::fs::read_dir(home.processes()).unwrap().flatten().map(|e| e.file_name()).collect();
        assert_eq!(left.len(), 1, "{left:?}");
        let _: ProcessId = left[0].to_str().unwrap().parse().unwrap();
    }
}
