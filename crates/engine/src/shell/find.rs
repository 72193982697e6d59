//! Finds the shell that runs a shell command line.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::program::is_program;

/// A shell, and whether it is bash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shell {
    /// The program, as an absolute path.
    pub(crate) path: PathBuf,
    /// What it supports.
    pub(crate) kind: ShellKind,
}

/// What a shell supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShellKind {
    /// Functions, aliases and a login snapshot.
    Bash,
    /// `-c` and nothing more.
    Other,
}

impl Shell {
    /// The shell at `path`. It is bash if its name is: `/bin/sh` is not, whatever it links to, because under that name bash lacks features
    /// that we use.
    pub(crate) fn at(path: impl Into<PathBuf>) -> Shell {
        let path = path.into();
        let kind = if path.file_name() == Some(OsStr::new("bash")) { ShellKind::Bash } else { ShellKind::Other };
        Shell { path, kind }
    }
}

/// Finds the shell for a caller: bash on its PATH, `/usr/bin/bash`, `/bin/bash`, its `$SHELL`,
/// `/bin/sh`.
///
/// Only absolute entries of PATH count, so that the shell does not depend on the directory the
/// command happens to run in.
pub(crate) fn find(path: Option<&[u8]>, shell: Option<&[u8]>) -> Shell {
    find_among(path, &["/usr/bin/bash", "/bin/bash"], shell)
}

fn find_among(path: Option<&[u8]>, usual: &[&str], shell: Option<&[u8]>) -> Shell {
    let on_path = path.unwrap_or_default().split(|byte| *byte == b':').map(|dir| Path::new(OsStr::from_bytes(dir)).join("bash"));
    let usual = usual.iter().map(PathBuf::from);
    let own = shell.map(|shell| PathBuf::from(OsStr::from_bytes(shell)));
    on_path
        .chain(usual)
        .chain(own)
        .find(|candidate| candidate.is_absolute() && is_program(candidate))
        .map_or_else(|| Shell::at("/bin/sh"), Shell::at)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn program(path: &Path, mode: u32) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn bash_on_the_callers_path_comes_first() {
        let dir = tempfile::tempdir().unwrap();
        let (plain, good) = (dir.path().join("plain/bash"), dir.path().join("good/bash"));
        program(&plain, 0o644);
        program(&good, 0o755);
        fs::create_dir_all(dir.path().join("folder/bash")).unwrap();
        let path = format!("relative:{0}/folder:{0}/plain:{0}/good:/usr/bin", dir.path().display());
        let found = find(Some(path.as_bytes()), None);
        assert_eq!(found, Shell { path: good, kind: ShellKind::Bash });
    }

    #[test]
    fn then_the_usual_places_then_the_callers_shell_then_sh() {
        let dir = tempfile::tempdir().unwrap();
        let (usual, own) = (dir.path().join("bash"), dir.path().join("zsh"));
        program(&usual, 0o755);
        program(&own, 0o755);
        let own_bytes = own.as_os_str().as_bytes();
        let usual_text = usual.to_str().unwrap();
        assert_eq!(find_among(None, &[usual_text], Some(own_bytes)), Shell::at(&usual));
        assert_eq!(find_among(Some(b""), &["/absent/bash"], Some(own_bytes)), Shell::at(&own));
        assert_eq!(Shell::at(&own).kind, ShellKind::Other);
        assert_eq!(find_among(None, &[], Some(b"zsh")), Shell::at("/bin/sh"));
        assert_eq!(find_among(None, &[], None).kind, ShellKind::Other);
    }
}
