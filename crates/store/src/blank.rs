//! Folders that are made before anybody asks for them: a file system takes its time to find room for a new file.
//!
//! No process has the name of a blank, so whatever happens to one, it is none. One that was left behind is removed with what else was cut short.
//!
//! Decision 98: docs/decisions/store.md.

use crate::dir::{Home, ProcessDir};
use crate::meta::Meta;
use crate::spec::{Kept, Launch, SpecError, SpecFile};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;

/// What the name of a blank begins with.
pub(crate) const BLANK: &str = ".blank-";

/// The folder of a process to come, with an empty `spec` and a `meta` full of zeros.
#[derive(Debug)]
pub struct Blank {
    dir: ProcessDir,
}

impl Blank {
    /// Makes one. Whoever calls has the home to itself, and counts.
    pub fn make(home: &Home, n: u64) -> io::Result<Self> {
        let blank = Self { dir: ProcessDir { path: home.processes().join(format!("{BLANK}{n}")) } };
        blank.dir.create()?;
        let spec = OpenOptions::new().write(true).create_new(true).mode(0o600).open(blank.dir.spec());
        let filled = spec.and_then(|_| Meta::make_room(&blank.dir));
        if let Err(error) = filled {
            blank.remove();
            return Err(error);
        }
        Ok(blank)
    }

    /// Makes it the folder of a process. That this has one already is an error; then, as after any other, the blank is gone.
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

    /// Removes it.
    pub fn remove(self) {
        // If it cannot be removed now, the next engine does.
        let _later = std::fs::remove_dir_all(&self.dir.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::{MetaError, Snapshot};
    use outlast_core::{ProcessId, Time};

    #[test]
    fn a_blank_becomes_the_folder_of_one_process_and_is_none_before() {
        let tmp = tempfile::tempdir().unwrap();
        let home = Home::new(tmp.path().join("home"));
        home.create().unwrap();
        let blanks = [Blank::make(&home, 1).unwrap(), Blank::make(&home, 2).unwrap(), Blank::make(&home, 3).unwrap()];
        assert_eq!(home.ids().unwrap(), []);
        let (kept, launch) = crate::spec::tests::request();
        let dir = home.process(kept.id);
        let [first, second, third] = blanks;
        first.become_process(&dir, &kept, &launch).unwrap();
        assert_eq!(home.ids().unwrap(), [kept.id]);
        assert_eq!(SpecFile::read(&dir).unwrap(), (kept.clone(), Some(launch.clone())));
        // Nobody has begun anything.
        assert!(matches!(Snapshot::read(&dir), Err(MetaError::Missing { .. })));
        let meta = Meta::hold(&dir, kept.id, Time::from_micros(5)).unwrap().unwrap();
        assert_eq!(Snapshot::read(&dir).unwrap().id, kept.id);
        drop(meta);
        // An id is used once.
        assert!(second.become_process(&dir, &kept, &launch).is_err());
        assert_eq!(SpecFile::read(&dir).unwrap(), (kept, Some(launch)));
        drop(third);
        home.sweep().unwrap();
        let left: Vec<_> = std::fs::read_dir(home.processes()).unwrap().flatten().map(|e| e.file_name()).collect();
        assert_eq!(left.len(), 1, "{left:?}");
        let _: ProcessId = left[0].to_str().unwrap().parse().unwrap();
    }
}
