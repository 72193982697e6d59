//! Where the files of clients are.

use super::Failure;
use crate::config::World;
use std::path::{Path, PathBuf};

/// Where the files to change are.
#[derive(Clone, Copy)]
pub(super) struct InstallPlace<'a> {
    pub(super) world: &'a World,
    /// The configuration file of Outlast.
    pub(super) config: &'a Path,
    pub(super) scope: Scope,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    User,
    Project,
}

/// Where a file of the user's is: below a directory that a variable names, else below the home directory.
#[derive(Debug)]
pub(super) struct UserFile {
    /// The first of these variables that is set counts.
    pub(super) variables: &'static [(&'static str, VariableMeaning)],
    pub(super) home: &'static str,
    /// The names of the file; the first that exists is meant.
    pub(super) names: &'static [&'static str],
}

#[derive(Debug, Clone, Copy)]
pub(super) enum VariableMeaning {
    /// The file is below this path in the directory.
    Directory(&'static str),
    /// It names the file.
    File,
}
impl UserFile {
    pub(super) fn paths(&self, place: &InstallPlace<'_>) -> Result<Vec<PathBuf>, Failure> {
        let dir = self.variables.iter().find_map(|(name, meaning)| Some((place.world.path(place.world.var(name)?), *meaning)));
        let dir = match dir {
            Some((file, VariableMeaning::File)) => return Ok(vec![file]),
            Some((dir, VariableMeaning::Directory(below))) => dir.join(below),
            None => place.world.user.home.as_ref().ok_or_else(|| self.no_home())?.join(self.home),
        };
        Ok(self.names.iter().map(|name| dir.join(name)).collect())
    }

    fn no_home(&self) -> Failure {
        let names: Vec<&str> = ["HOME"].into_iter().chain(self.variables.iter().map(|(name, _)| *name)).collect();
        Failure::refused("no home directory is known", format!("set {}", names.join(" or ")))
    }
}
