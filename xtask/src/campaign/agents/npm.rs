//! Agents that come from npm.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A directory with packages.
pub(crate) struct Npm {
    root: PathBuf,
}

impl Npm {
    pub(crate) fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Installs packages unless they are there. Why it cannot, where there is no npm.
    pub(crate) fn get(&self, packages: &[&str]) -> Result<Option<String>> {
        if packages.iter().all(|p| self.has(p)) {
            return Ok(None);
        }
        if !Command::new("npm").arg("--version").output().is_ok_and(|o| o.status.success()) {
            return Ok(Some(format!("npm is not installed, and {} is not in {}", packages.join(" and "), self.root.display())));
        }
        std::fs::create_dir_all(&self.root).with_context(|| format!("cannot create {}", self.root.display()))?;
        let mut install = Command::new("npm");
        install.args(["install", "--no-audit", "--no-fund", "--loglevel", "error", "--prefix"]).arg(&self.root).args(packages);
        ensure!(install.status()?.success(), "npm could not install {}", packages.join(" and "));
        Ok(None)
    }

    /// A program of one of the packages.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.bin().join(name)
    }

    /// Where the programs are.
    pub(super) fn bin(&self) -> PathBuf {
        self.root.join("node_modules/.bin")
    }

    /// Whether a package is there in the version that is asked for.
    fn has(&self, package: &str) -> bool {
        let at = package.rfind('@').filter(|at| *at > 0).unwrap_or(package.len());
        let (name, version) = (&package[..at], package[at..].trim_start_matches('@'));
        self.version(name).is_some_and(|there| there == version || there.starts_with(&format!("{version}.")))
    }

    /// The version of a package that is there.
    pub(super) fn version(&self, name: &str) -> Option<String> {
        let file = self.root.join("node_modules").join(name).join("package.json");
        let text = std::fs::read_to_string(file).ok()?;
        let package: serde_json::Value = serde_json::from_str(&text).ok()?;
        package["version"].as_str().map(str::to_owned)
    }
}
