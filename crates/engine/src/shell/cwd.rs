//! Where a command runs when the directory it was meant for is gone.

use std::path::{Path, PathBuf};

/// The directory a command is started in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SafeCwd {
    /// A directory that exists.
    pub path: PathBuf,
    /// The one that was wanted, if it was not there.
    pub replaced: Option<PathBuf>,
}

/// The wanted directory, or its nearest ancestor that exists, or the system's temporary directory.
///
/// Agents delete the directory they stand in, and without this every later start would fail before
/// the shell could say anything. Nothing wanted means `fallback`, and what is relative is relative
/// to it. A directory that exists but may not be entered is not replaced: that is for the start to
/// report.
pub fn safe_cwd(wanted: Option<&Path>, fallback: &Path) -> SafeCwd {
    let wanted = wanted.map_or_else(|| fallback.to_owned(), |wanted| fallback.join(wanted));
    let existing = wanted.ancestors().find(|path| path.is_absolute() && path.is_dir());
    let path = match existing {
        Some(path) if path == wanted => {
            return SafeCwd { path: wanted, replaced: None };
        }
        Some(path) => path.to_owned(),
        None => PathBuf::from("/tmp"),
    };
    SafeCwd { path, replaced: Some(wanted) }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_directory_that_exists_is_kept_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let kept = SafeCwd { path: dir.path().to_owned(), replaced: None };
        assert_eq!(safe_cwd(Some(dir.path()), Path::new("/")), kept);
        assert_eq!(safe_cwd(None, dir.path()), kept);
        fs::create_dir(dir.path().join("sub")).unwrap();
        assert_eq!(safe_cwd(Some(Path::new("sub")), dir.path()).path, dir.path().join("sub"));
    }

    #[test]
    fn case_007_a_directory_that_is_gone_gives_its_nearest_ancestor() {
        let dir = tempfile::tempdir().unwrap();
        let gone = dir.path().join("gone/deeper/still");
        let replaced = SafeCwd { path: dir.path().to_owned(), replaced: Some(gone.clone()) };
        assert_eq!(safe_cwd(Some(&gone), Path::new("/")), replaced);
        assert_eq!(safe_cwd(None, &gone), replaced);
        assert_eq!(safe_cwd(Some(Path::new("/gone-for-good/x")), dir.path()).path, Path::new("/"));

        fs::write(dir.path().join("file"), "").unwrap();
        assert_eq!(safe_cwd(Some(&dir.path().join("file")), Path::new("/")).path, dir.path());
    }

    #[test]
    fn with_no_ancestor_the_temporary_directory_is_the_last_resort() {
        let lost = safe_cwd(Some(Path::new("neither/here")), Path::new("nor/there"));
        assert_eq!(lost.path, Path::new("/tmp"));
        assert_eq!(lost.replaced.as_deref(), Some(Path::new("nor/there/neither/here")));
    }
}
