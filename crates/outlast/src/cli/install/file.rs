//! A configuration file of another program: read, copied before a change loses something in it, and replaced atomically.
//!
//! Decisions 134 and 135: docs/decisions/install.md.

use super::super::Failure;
use outlast_client::code;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// A larger file is refused: it cannot be a configuration.
const MAX_FILE_BYTES: u64 = 64 << 20;
/// How many copies of one file are kept.
const MAX_COPIES: u32 = 99;

/// A file as it was read.
#[derive(Debug)]
pub(super) struct File {
    /// The path after all links.
    path: PathBuf,
    text: String,
    /// None if there is no such file.
    was: Option<FileState>,
}

/// Metadata that shows whether another program changed the file, and that a new file copies.
#[derive(Debug, PartialEq, Eq)]
struct FileState {
    inode: (u64, u64),
    size: u64,
    changed: (i64, i64),
    mode: u32,
    owner: (u32, u32),
}

impl FileState {
    fn of(meta: &fs::Metadata) -> Self {
        Self {
            inode: (meta.dev(), meta.ino()),
            size: meta.size(),
            changed: (meta.mtime(), meta.mtime_nsec()),
            mode: meta.mode() & 0o7777,
            owner: (meta.uid(), meta.gid()),
        }
    }
}

impl File {
    /// Reads a file. A missing file is empty.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let cannot = |e: io::Error| Failure::fault(format!("cannot read {}: {e}", path.display()), "nothing was changed");
        let real = resolve_links(path).map_err(cannot)?;
        let meta = match fs::metadata(&real) {
            Ok(meta) => meta,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Self { path: real, text: String::new(), was: None }),
            Err(e) => return Err(cannot(e)),
        };
        if !meta.is_file() || meta.size() > MAX_FILE_BYTES {
            return Err(Failure::refused(
                format!("{} cannot be a configuration: it is not a regular file, or it is too large", path.display()),
                "nothing was changed",
            ));
        }
        let bytes = fs::read(&real).map_err(cannot)?;
        let text = String::from_utf8(bytes).map_err(|e| {
            let line = 1 + e.as_bytes()[..e.utf8_error().valid_up_to()].iter().filter(|b| **b == b'\n').count();
            Failure::refused(
                format!("{}, line {line}: that is not UTF-8", path.display()),
                "correct it, or move it out of the way; nothing was changed",
            )
        })?;
        Ok(Self { path: real, text, was: Some(FileState::of(&meta)) })
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn exists(&self) -> bool {
        self.was.is_some()
    }

    /// Refuses a read-only file. A new file could replace it, but the user made it read-only on purpose.
    pub(super) fn may_be_changed(&self) -> Result<(), Failure> {
        match &self.was {
            Some(was) if was.mode & 0o200 == 0 => {
                let what = format!("{} is read-only, and is left as it is", self.path.display());
                Err(Failure::refused(what, "make it writable (chmod u+w), or paste what `--print` shows; nothing was changed"))
            }
            _ => Ok(()),
        }
    }

    /// Saves a copy, unless there is no file or the newest copy is equal.
    pub(super) fn keep(&self) -> Result<Option<PathBuf>, Failure> {
        let Some(was) = &self.was else { return Ok(None) };
        let copies = self.copies();
        if let Some(newest) = copies.last().filter(|(_, path)| fs::read(path).is_ok_and(|there| there == self.text.as_bytes())) {
            return Ok(Some(newest.1.clone()));
        }
        let number = copies.last().map_or(1, |(n, _)| n + 1);
        if number > MAX_COPIES {
            let what = format!("there are {MAX_COPIES} copies of {} already", self.path.display());
            return Err(Failure::refused(what, "remove copies that are not needed; nothing was changed"));
        }
        let copy = self.copy(number);
        create(&copy, &self.text, Some(was), 0o600).map_err(|e| self.cannot("keep a copy of", e))?;
        Ok(Some(copy))
    }

    /// The text of the first copy. If it has no entries of ours, it is the file from before the first install.
    pub(super) fn first_copy(&self) -> Result<Option<String>, Failure> {
        let Some((_, path)) = self.copies().into_iter().next() else { return Ok(None) };
        fs::read_to_string(&path)
            .map(Some)
            .map_err(|e| Failure::fault(format!("cannot read {}: {e}", path.display()), "nothing was changed"))
    }

    /// Removes the copies that are not needed any more. Returns a note about the others.
    pub(super) fn forget_copies(&self, is_obsolete: impl Fn(&str) -> bool) -> Result<Option<String>, Failure> {
        let mut left = Vec::new();
        for (_, path) in self.copies() {
            match fs::read_to_string(&path).is_ok_and(|there| is_obsolete(&there)) {
                true => fs::remove_file(&path).map_err(|e| Failure::fault(format!("cannot remove {}: {e}", path.display()), ""))?,
                false => left.push(path.display().to_string()),
            }
        }
        Ok((!left.is_empty()).then(|| format!("what was there before is still in {}: remove it if you do not need it", left.join(", "))))
    }

    /// Replaces the file atomically: a reader sees the old or the new text. `private` sets the mode of a new file.
    pub(super) fn write(&self, text: &str, private: bool) -> Result<(), Failure> {
        let dir = self.path.parent().unwrap_or(Path::new("/"));
        make_dirs(dir, private).map_err(|e| self.cannot("make the directory of", e))?;
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let beside = dir.join(format!(".{name}.outlast-new-{}", std::process::id()));
        let made = create(&beside, text, self.was.as_ref(), if private { 0o600 } else { 0o644 });
        let done = made.map_err(|e| self.cannot("write", e)).and_then(|()| {
            self.check_unchanged()?;
            fs::rename(&beside, &self.path).map_err(|e| self.cannot("write", e))
        });
        if done.is_err() {
            // It may not exist.
            let _gone = fs::remove_file(&beside);
        }
        done?;
        sync(dir).map_err(|e| self.cannot("write", e))
    }

    pub(super) fn remove(&self) -> Result<(), Failure> {
        self.check_unchanged()?;
        fs::remove_file(&self.path).map_err(|e| self.cannot("remove", e))?;
        sync(self.path.parent().unwrap_or(Path::new("/"))).map_err(|e| self.cannot("remove", e))
    }

    /// Refuses if the file changed since it was read. Clients write their files too, and their changes must not be lost.
    fn check_unchanged(&self) -> Result<(), Failure> {
        let now = fs::metadata(&self.path).ok().map(|meta| FileState::of(&meta));
        if now == self.was {
            return Ok(());
        }
        let what = format!("{} changed while it was edited; nothing was written", self.path.display());
        Err(Failure::new(code::UNAVAILABLE, what, "try again, preferably while the client is not running"))
    }

    fn cannot(&self, what: &str, e: io::Error) -> Failure {
        Failure::fault(format!("cannot {what} {}: {e}", self.path.display()), "check the permissions there; the file is unchanged")
    }

    fn copy(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".outlast-backup-{number}"));
        name.into()
    }

    /// The existing copies, oldest first.
    fn copies(&self) -> Vec<(u32, PathBuf)> {
        (1..=MAX_COPIES).map(|n| (n, self.copy(n))).filter(|(_, path)| path.is_file()).collect()
    }
}

/// Follows all links of a path. The file itself may be missing.
fn resolve_links(path: &Path) -> io::Result<PathBuf> {
    /// As many as the kernel follows.
    const MAX_LINKS: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&path) {
            Ok(to) => path = path.parent().unwrap_or(Path::new("/")).join(to),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many links lead to each other"))
}

/// Writes a new file with mode and owner of another one, and syncs it.
fn create(path: &Path, text: &str, like: Option<&FileState>, mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let filled = (|| {
        if let Some(was) = like {
            let meta = file.metadata()?;
            if (meta.uid(), meta.gid()) != was.owner {
                std::os::unix::fs::fchown(&file, Some(was.owner.0), Some(was.owner.1))?;
            }
        }
        file.write_all(text.as_bytes())?;
        file.set_permissions(fs::Permissions::from_mode(like.map_or(mode, |was| was.mode)))?;
        file.sync_all()
    })();
    if filled.is_err() {
        // A partial file must not be mistaken for a complete one.
        let _gone = fs::remove_file(path);
    }
    filled
}

fn make_dirs(dir: &Path, private: bool) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    fs::DirBuilder::new().recursive(true).mode(if private { 0o700 } else { 0o755 }).create(dir)
}

fn sync(dir: &Path) -> io::Result<()> {
    fs::File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_mode_and_links_and_has_a_copy() {
        let tmp = tempfile::tempdir().unwrap();
        let (real, link) = (tmp.path().join("real"), tmp.path().join("link"));
        fs::write(&real, "one").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("real", &link).unwrap();
        let file = File::read(&link).unwrap();
        let copy = file.keep().unwrap().unwrap();
        assert_eq!((file.keep().unwrap(), copy.file_name().unwrap().to_str()), (Some(copy.clone()), Some("real.outlast-backup-1")));
        file.write("two", true).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
        assert_eq!((fs::read_to_string(&link).unwrap().as_str(), mode(&real), mode(&copy)), ("two", 0o640, 0o640));
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&copy).unwrap(), "one");
        let file = File::read(&link).unwrap();
        assert!(file.keep().unwrap().unwrap().ends_with("real.outlast-backup-2"));
        assert!(file.forget_copies(|copy| copy == "two").unwrap().unwrap().contains("backup-1"));
        assert!(file.forget_copies(|copy| copy == "one").unwrap().is_none());
        assert_eq!(fs::read_dir(tmp.path()).unwrap().count(), 2, "nothing is left beside it");
    }

    #[test]
    fn what_another_program_wrote_meanwhile_is_not_lost() {
        let tmp = tempfile::tempdir().unwrap();
        let path = tmp.path().join("dir/new");
        let file = File::read(&path).unwrap();
        assert!(!file.exists() && file.keep().unwrap().is_none());
        file.write("ours", true).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let refused = file.write("again", true).unwrap_err();
        assert!(refused.error().contains("changed while it was edited"), "{refused:?}");
        let file = File::read(&path).unwrap();
        fs::write(&path, "theirs!").unwrap();
        assert!(file.write("ours", true).is_err() && file.remove().is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs!");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_that_leads_nowhere_is_filled_where_it_leads() {
        let tmp = tempfile::tempdir().unwrap();
        let link = tmp.path().join("link");
        std::os::unix::fs::symlink("deep/er/file", &link).unwrap();
        File::read(&link).unwrap().write("x", false).unwrap();
        assert_eq!(fs::read_to_string(tmp.path().join("deep/er/file")).unwrap(), "x");
        std::os::unix::fs::symlink("b", tmp.path().join("a")).unwrap();
        std::os::unix::fs::symlink("a", tmp.path().join("b")).unwrap();
        assert!(File::read(&tmp.path().join("a")).is_err());
        fs::write(tmp.path().join("bytes"), b"a\n\xff").unwrap();
        assert!(File::read(&tmp.path().join("bytes")).unwrap_err().error().contains("line 2: that is not UTF-8"));
    }
}
