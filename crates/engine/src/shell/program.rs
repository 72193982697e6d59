//! Finds the program that an argv names.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use thiserror::Error;

/// Why no program can be started. A shell would exit with [`ProgramError::exit_code`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum ProgramError {
    /// Neither a file of that path nor one of that name on PATH.
    #[error("no program {name:?}: give its path, or a PATH that has it")]
    NotFound {
        /// The first word of the command.
        name: String,
    },
    /// There is a file, but it may not be run.
    #[error("{path} is not an executable file: check its mode, or run it with its interpreter")]
    NotExecutable {
        /// The file that was found.
        path: PathBuf,
    },
}

impl ProgramError {
    /// The exit code of a shell in this case: 127 or 126.
    pub(crate) fn exit_code(&self) -> i32 {
        match self {
            ProgramError::NotFound { .. } => 127,
            ProgramError::NotExecutable { .. } => 126,
        }
    }
}

/// Finds the program for the first word of an argv, as `execvp` would with this PATH in this directory. A name with a slash is a path; an
/// empty entry of PATH is `cwd`; an empty PATH finds nothing.
///
/// A file that may not be executed does not end the search. It is reported if no better one is found.
pub(crate) fn resolve_program(argv0: &[u8], path: &[u8], cwd: &Path) -> Result<PathBuf, ProgramError> {
    let not_found = || ProgramError::NotFound { name: String::from_utf8_lossy(argv0).into_owned() };
    if argv0.is_empty() {
        return Err(not_found());
    }
    let name = OsStr::from_bytes(argv0);
    if argv0.contains(&b'/') {
        let path = cwd.join(name);
        return if is_program(&path) {
            Ok(path)
        } else if path.exists() {
            Err(ProgramError::NotExecutable { path })
        } else {
            Err(not_found())
        };
    }
    let mut refused = None;
    for dir in path.split(|byte| *byte == b':').filter(|_| !path.is_empty()) {
        let candidate = cwd.join(OsStr::from_bytes(dir)).join(name);
        if is_program(&candidate) {
            return Ok(candidate);
        }
        if refused.is_none() && candidate.is_file() {
            refused = Some(candidate);
        }
    }
    Err(refused.map_or_else(not_found, |path| ProgramError::NotExecutable { path }))
}

/// Whether this is a regular file that we may execute.
pub(super) fn is_program(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_program_is_found_as_execvp_would() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        for (name, mode) in [("a/tool", 0o644), ("b/tool", 0o755), ("a/data", 0o644), ("own", 0o755)] {
            fs::create_dir_all(root.join(name).parent().unwrap()).unwrap();
            fs::write(root.join(name), "").unwrap();
            fs::set_permissions(root.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        let path = format!("{0}/a:{0}/b", root.display());
        let find = |name: &str, path: &str| resolve_program(name.as_bytes(), path.as_bytes(), root);

        assert_eq!(find("tool", &path).unwrap(), root.join("b/tool"));
        assert_eq!(find("tool", "a:b").unwrap(), root.join("b/tool"));
        assert_eq!(find("./own", "").unwrap(), root.join("./own"));
        assert_eq!(find("own", "a:").unwrap(), root.join("own"));
        assert_eq!(find("own", "").unwrap_err().exit_code(), 127);
        let refused = find("data", &path).unwrap_err();
        assert_eq!(refused, ProgramError::NotExecutable { path: root.join("a/data") });
        assert_eq!(refused.exit_code(), 126);
        assert_eq!(find("./a", "").unwrap_err().exit_code(), 126);
        assert_eq!(find("./none", &path).unwrap_err().exit_code(), 127);
        assert_eq!(find("", &path).unwrap_err().exit_code(), 127);
    }
}
