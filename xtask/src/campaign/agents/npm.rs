//! Agents that come from npm, each in a directory of its own.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is installed, and where.
pub(super) struct Installed {
    root: PathBuf,
}

impl Installed {
    /// Installs packages with a node that can run them, unless they are there. Nothing if there is no npm, which is told; where tests must be complete it is an error.
    pub(super) fn get(root: PathBuf, packages: &[&str]) -> Result<Option<Self>> {
        let here = Self { root };
        if packages.iter().all(|p| here.has(p)) {
            return Ok(Some(here));
        }
        if !Command::new("npm").arg("--version").output().is_ok_and(|o| o.status.success()) {
            ensure!(std::env::var_os("CI").is_none(), "npm is not installed");
            println!("skipped: npm is not installed, and {} is not in {}", packages.join(" and "), here.root.display());
            return Ok(None);
        }
        std::fs::create_dir_all(&here.root).with_context(|| format!("cannot create {}", here.root.display()))?;
        let mut install = Command::new("npm");
        install.args(["install", "--no-audit", "--no-fund", "--loglevel", "error", "--prefix"]).arg(&here.root).args(packages);
        ensure!(install.status()?.success(), "npm could not install {}", packages.join(" and "));
        Ok(Some(here))
    }

    /// A program of one of the packages.
    pub(super) fn program(&self, name: &str) -> PathBuf {
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
        let file = Path::new(&self.root).join("node_modules").join(name).join("package.json");
        let text = std::fs::read_to_string(file).ok()?;
        let package: serde_json::Value = serde_json::from_str(&text).ok()?;
        package["version"].as_str().map(str::to_owned)
    }
}
