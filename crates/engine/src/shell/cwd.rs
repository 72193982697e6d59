//! The directory that a command starts in.

use std::io;
use std::path::{Path, PathBuf};

/// Why a command cannot start in the wanted directory.
#[derive(Debug)]
pub struct NoDirectory {
    /// The wanted directory, or the caller's own.
    pub wanted: PathBuf,
    /// Why it cannot be used.
    pub why: io::Error,
    /// Its nearest parent that exists.
    pub nearest: PathBuf,
}

impl std::fmt::Display for NoDirectory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let wanted = self.wanted.display();
        match self.why.kind() {
            io::ErrorKind::NotFound => write!(f, "directory {wanted} does not exist"),
            io::ErrorKind::NotADirectory => write!(f, "{wanted} is not a directory"),
            _ => write!(f, "cannot use directory {wanted}: {}", self.why),
        }
    }
}

impl NoDirectory {
    /// What the caller can do about it.
    pub fn hint(&self) -> String {
        format!("{} exists; give a directory that exists, or create this one first", self.nearest.display())
    }
}

/// The wanted directory, or `inherited` if none is given. A relative path is relative to `inherited`.
///
/// A directory that does not exist is refused, also an inherited one: in another directory the same command can do harm. Whether the
/// command may enter it shows at the start.
pub fn existing_cwd(wanted: Option<&Path>, inherited: &Path) -> Result<PathBuf, NoDirectory> {
    let wanted = wanted.map_or_else(|| inherited.to_owned(), |wanted| inherited.join(wanted));
    let why = match std::fs::metadata(&wanted) {
        Ok(found) if found.is_dir() => return Ok(wanted),
        Ok(_) => io::ErrorKind::NotADirectory.into(),
        Err(error) => error,
    };
    let nearest = wanted.ancestors().find(|path| path.is_absolute() && path.is_dir()).unwrap_or(Path::new("/")).to_owned();
    Err(NoDirectory { wanted, why, nearest })
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
        let refused = existing_cwd(Some(&file.join("below")), Path::new("/")).unwrap_err();
        assert_eq!(refused.nearest, dir.path());
        assert_eq!(existing_cwd(Some(Path::new("/gone-for-good/x")), dir.path()).unwrap_err().nearest, Path::new("/"));
    }
}
