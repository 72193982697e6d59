//! A file of somebody else's: read, copied before something of it is lost, and replaced whole.
//!
//! Decisions 134 and 135: docs/decisions/install.md.

use super::super::Failure;
use outlast_client::code;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// A configuration that is larger is none.
const LARGEST: u64 = 64 << 20;
/// How many copies there may be of one file.
const COPIES: u32 = 99;

/// A file as it was read.
#[derive(Debug)]
pub(super) struct File {
    /// Where it really is, behind links.
    path: PathBuf,
    text: String,
    /// None where there is no such file.
    was: Option<Was>,
}

/// What tells whether somebody else has changed it since, and what is kept of it.
#[derive(Debug, PartialEq, Eq)]
struct Was {
    inode: (u64, u64),
    size: u64,
    changed: (i64, i64),
    mode: u32,
    owner: (u32, u32),
}

impl Was {
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
    /// Reads it; one that is not there is empty.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let cannot = |e: io::Error| Failure::fault(format!("cannot read {}: {e}", path.display()), "nothing was changed");
        let real = behind_links(path).map_err(cannot)?;
        let meta = match fs::metadata(&real) {
            Ok(meta) => meta,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Self { path: real, text: String::new(), was: None }),
            Err(e) => return Err(cannot(e)),
        };
        if !meta.is_file() || meta.size() > LARGEST {
            return Err(Failure::refused(
                format!("{} cannot be a configuration: it is not a regular file, or it is too large", path.display()),
                "nothing was changed",
            ));
        }
        let bytes = fs::read(&real).map_err(cannot)?;
        let text = String::from_utf8(bytes).map_err(|e| {
            let line = 1 + e.as_bytes()[..e.utf8_error().valid_up_to()].iter().filter(|b| **b == b'\n').count();
            Failure::refused(
                format!("{}, line {line}: that is no UTF-8", path.display()),
                "correct it, or move it out of the way; nothing was changed",
            )
        })?;
        Ok(Self { path: real, text, was: Some(Was::of(&meta)) })
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn exists(&self) -> bool {
        self.was.is_some()
    }

    /// Refuses one that its owner may not write: that was somebody's wish, though a new file could take its place.
    pub(super) fn may_be_changed(&self) -> Result<(), Failure> {
        match &self.was {
            Some(was) if was.mode & 0o200 == 0 => {
                let what = format!("{} is read-only, and is left as it is", self.path.display());
                Err(Failure::refused(what, "make it writable (chmod u+w), or paste what `--print` shows; nothing was changed"))
            }
            _ => Ok(()),
        }
    }

    /// Keeps a copy of it as it is, unless it is not there or the newest copy says the same.
    pub(super) fn keep(&self) -> Result<Option<PathBuf>, Failure> {
        let Some(was) = &self.was else { return Ok(None) };
        let copies = self.copies();
        if let Some(newest) = copies.last().filter(|(_, path)| fs::read(path).is_ok_and(|there| there == self.text.as_bytes())) {
            return Ok(Some(newest.1.clone()));
        }
        let number = copies.last().map_or(1, |(n, _)| n + 1);
        if number > COPIES {
            let what = format!("there are {COPIES} copies of {} already", self.path.display());
            return Err(Failure::refused(what, "remove copies that are not needed; nothing was changed"));
        }
        let copy = self.copy(number);
        create(&copy, &self.text, Some(was), 0o600).map_err(|e| self.cannot("keep a copy of", e))?;
        Ok(Some(copy))
    }

    /// What the first copy of it says: what was there before we came, if there is nothing of ours in it.
    pub(super) fn first_copy(&self) -> Result<Option<String>, Failure> {
        let Some((_, path)) = self.copies().into_iter().next() else { return Ok(None) };
        fs::read_to_string(&path)
            .map(Some)
            .map_err(|e| Failure::fault(format!("cannot read {}: {e}", path.display()), "nothing was changed"))
    }

    /// Removes copies that nobody needs, as the file itself says the same again. What to say of the others.
    pub(super) fn forget_copies(&self, says_the_same: impl Fn(&str) -> bool) -> Result<Option<String>, Failure> {
        let mut left = Vec::new();
        for (_, path) in self.copies() {
            match fs::read_to_string(&path).is_ok_and(|there| says_the_same(&there)) {
                true => fs::remove_file(&path).map_err(|e| Failure::fault(format!("cannot remove {}: {e}", path.display()), ""))?,
                false => left.push(path.display().to_string()),
            }
        }
        Ok((!left.is_empty()).then(|| format!("what was there before is still in {}: remove it if you do not need it", left.join(", "))))
    }

    /// Replaces it whole: whoever reads it sees what was there or what is there now. `private` is for a new one.
    pub(super) fn write(&self, text: &str, private: bool) -> Result<(), Failure> {
        let dir = self.path.parent().unwrap_or(Path::new("/"));
        make_dirs(dir, private).map_err(|e| self.cannot("make the directory of", e))?;
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let beside = dir.join(format!(".{name}.outlast-new-{}", std::process::id()));
        let made = create(&beside, text, self.was.as_ref(), if private { 0o600 } else { 0o644 });
        let done = made.map_err(|e| self.cannot("write", e)).and_then(|()| {
            self.is_as_it_was()?;
            fs::rename(&beside, &self.path).map_err(|e| self.cannot("write", e))
        });
        if done.is_err() {
            // It may be that it was never made.
            let _gone = fs::remove_file(&beside);
        }
        done?;
        sync(dir).map_err(|e| self.cannot("write", e))
    }

    pub(super) fn remove(&self) -> Result<(), Failure> {
        self.is_as_it_was()?;
        fs::remove_file(&self.path).map_err(|e| self.cannot("remove", e))?;
        sync(self.path.parent().unwrap_or(Path::new("/"))).map_err(|e| self.cannot("remove", e))
    }

    /// Clients write their own files too, and what they wrote meanwhile must not be lost.
    fn is_as_it_was(&self) -> Result<(), Failure> {
        let now = fs::metadata(&self.path).ok().map(|meta| Was::of(&meta));
        if now == self.was {
            return Ok(());
        }
        let what = format!("{} changed while it was edited; nothing was written", self.path.display());
        Err(Failure::new(code::UNAVAILABLE, what, "do it again, best while the client does not run"))
    }

    fn cannot(&self, what: &str, e: io::Error) -> Failure {
        Failure::fault(format!("cannot {what} {}: {e}", self.path.display()), "see who may write there; it is as it was")
    }

    fn copy(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".outlast-backup-{number}"));
        name.into()
    }

    /// The copies that there are, oldest first.
    fn copies(&self) -> Vec<(u32, PathBuf)> {
        (1..=COPIES).map(|n| (n, self.copy(n))).filter(|(_, path)| path.is_file()).collect()
    }
}

/// Where a file really is, also if it is yet to be made there.
fn behind_links(path: &Path) -> io::Result<PathBuf> {
    /// As many as the kernel follows.
    const LINKS: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        match fs::read_link(&path) {
            Ok(to) => path = path.parent().unwrap_or(Path::new("/")).join(to),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many links lead to each other"))
}

/// A new file, with mode and owner of another one; synced.
fn create(path: &Path, text: &str, like: Option<&Was>, mode: u32) -> io::Result<()> {
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
        // Not to be taken for a whole one.
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
    fn what_somebody_else_wrote_meanwhile_is_not_lost() {
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
        assert!(File::read(&tmp.path().join("bytes")).unwrap_err().error().contains("line 2: that is no UTF-8"));
    }
}
