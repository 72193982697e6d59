//! The directory that a command starts in.

use std::io;
use std::path::{Path, PathBuf};

/// Why a command cannot start in the wanted directory.
#[derive(Debug)]
pub(crate) struct NoDirectory {
    /// The wanted directory, or the caller's own.
    pub(crate) wanted: PathBuf,
    /// Why it cannot be used.
    pub(crate) why: io::Error,
    /// The nearest parent that can be entered.
    pub(crate) nearest: PathBuf,
}

impl std::fmt::Display for NoDirectory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let wanted = self.wanted.display();
        match self.why.kind() {
            io::ErrorKind::NotFound => write!(f, "directory {wanted} does not exist"),
            io::ErrorKind::NotADirectory => write!(f, "{wanted} is not a directory"),
            io::ErrorKind::PermissionDenied => write!(f, "directory {wanted} cannot be entered: permission denied"),
            _ => write!(f, "cannot use directory {wanted}: {}", self.why),
        }
    }
}

impl NoDirectory {
    /// What the caller can do about it.
    pub(crate) fn hint(&self) -> String {
        let nearest = self.nearest.display();
        match self.why.kind() {
            // That / exists helps no caller.
            io::ErrorKind::NotFound if self.nearest == Path::new("/") => {
                "give a directory that exists, or create this one first".to_owned()
            }
            io::ErrorKind::NotFound => format!("{nearest} exists; give a directory that exists, or create this one first"),
            io::ErrorKind::PermissionDenied => {
                format!("{nearest} can be entered; check the permissions of what is below it, or of this user")
            }
            _ => format!("{nearest} is a directory; give a path to a directory"),
        }
    }
}

/// The wanted directory, or `inherited` if none is given. A relative path is relative to `inherited`.
///
/// A directory that does not exist or cannot be entered is refused, also an inherited one: in another directory the same command can do
/// harm.
pub(crate) fn existing_cwd(wanted: Option<&Path>, inherited: &Path) -> Result<PathBuf, NoDirectory> {
    let wanted = wanted.map_or_else(|| inherited.to_owned(), |wanted| inherited.join(wanted));
    let why = match enter(&wanted) {
        Ok(()) => return Ok(wanted),
        Err(error) => error,
    };
    let nearest = wanted.ancestors().skip(1).find(|path| path.is_absolute() && enter(path).is_ok()).unwrap_or(Path::new("/")).to_owned();
    Err(NoDirectory { wanted, why, nearest })
}

/// Whether a command can be started in this directory.
fn enter(path: &Path) -> io::Result<()> {
    if !std::fs::metadata(path)?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    match rustix::fs::access(path, rustix::fs::Access::EXEC_OK) {
        Err(rustix::io::Errno::ACCESS) => Err(io::ErrorKind::PermissionDenied.into()),
        // If the check itself fails, the start reports what is wrong.
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_directory_that_exists_is_kept_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(existing_cwd(Some(dir.path()), Path::new("/")).unwrap(), dir.path());
        assert_eq!(existing_cwd(None, dir.path()).unwrap(), dir.path());
        fs::create_dir(dir.path().join("sub")).unwrap();
        assert_eq!(existing_cwd(Some(Path::new("sub")), dir.path()).unwrap(), dir.path().join("sub"));
    }

    #[test]
    fn a_directory_that_does_not_exist_is_refused_with_its_nearest_parent() {
        let dir = tempfile::tempdir().unwrap();
        let gone = dir.path().join("gone/deeper/still");
        for refused in [existing_cwd(Some(&gone), Path::new("/")), existing_cwd(None, &gone)] {
            let refused = refused.unwrap_err();
            assert_eq!(refused.to_string(), format!("directory {} does not exist", gone.display()));
            assert!(refused.hint().starts_with(&format!("{} exists;", dir.path().display())), "{}", refused.hint());
        }
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let refused = existing_cwd(Some(&file), Path::new("/")).unwrap_err();
        assert_eq!((refused.to_string(), refused.nearest.as_path()), (format!("{} is not a directory", file.display()), dir.path()));
        assert_eq!(refused.hint(), format!("{} is a directory; give a path to a directory", dir.path().display()));
        let refused = existing_cwd(Some(&file.join("below")), Path::new("/")).unwrap_err();
        assert_eq!(refused.nearest, dir.path());
        let refused = existing_cwd(Some(Path::new("/gone-for-good/x")), dir.path()).unwrap_err();
        assert_eq!(refused.nearest, Path::new("/"));
        assert_eq!(refused.hint(), "give a directory that exists, or create this one first");
    }
}
