//! Finds the transport of an environment by its name.

use crate::bwrap::Bwrap;
use crate::local::Local;
use crate::{KeeperFile, Opened, Transport, TransportError, Working};
use outlast_core::EnvironmentName;
use std::path::{Path, PathBuf};

/// The transport of an environment. `dir` is a directory of the environment's own on this machine. Settings that are not valid
/// make one that refuses everything, and says what is wrong.
pub fn backend(on: &EnvironmentName, keeper: KeeperFile, dir: &Path) -> Box<dyn Transport> {
    find(on, keeper, dir).unwrap_or_else(|error| Box::new(Refusing(error)))
}

fn find(on: &EnvironmentName, keeper: KeeperFile, dir: &Path) -> Result<Box<dyn Transport>, TransportError> {
    match (on.backend(), on.target()) {
        ("bwrap", profile) => Ok(Box::new(Bwrap::new(profile, keeper, dir)?)),
        ("local", Some(home)) if home.starts_with('/') => Ok(Box::new(Local::new(PathBuf::from(home), keeper))),
        _ => Err(TransportError::refused(format!("{on} is no environment"), "environments are bwrap, bwrap:offline and bwrap:/DIR")),
    }
}

/// Stands for an environment whose settings are not valid.
struct Refusing(TransportError);

impl Transport for Refusing {
    fn ensure(&self) -> Working<'_, PathBuf> {
        Box::pin(async { Err(self.0.clone()) })
    }

    fn open<'a>(&'a self, _: &'a Path) -> Working<'a, Opened> {
        Box::pin(async { Err(self.0.clone()) })
    }
}
