//! Agents that come from the Python package index, in an environment of their own.

use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

/// Installs packages into `venv` below a directory unless they are there. Why it cannot, where there is no Python that makes such environments.
pub(super) fn get(root: &Path, packages: &[&str]) -> Result<Option<String>> {
    let venv = root.join("venv");
    if packages.iter().all(|package| has(&venv, package)) {
        return Ok(None);
    }
    if !Command::new("python3").args(["-c", "import venv, ensurepip"]).output().is_ok_and(|o| o.status.success()) {
        return Ok(Some(format!("python3 with venv is not installed, and {} is not in {}", packages.join(" and "), venv.display())));
    }
    std::fs::create_dir_all(root).with_context(|| format!("cannot create {}", root.display()))?;
    ensure!(Command::new("python3").args(["-m", "venv"]).arg(&venv).status()?.success(), "no environment in {}", venv.display());
    let mut install = Command::new(venv.join("bin/pip"));
    install.args(["install", "--quiet", "--disable-pip-version-check"]).args(packages);
    ensure!(install.status()?.success(), "pip could not install {}", packages.join(" and "));
    Ok(None)
}

/// Whether a package is there, in the version that is asked for if one is: `name[extras]==version`. Its files are in a directory with both in its name.
fn has(venv: &Path, package: &str) -> bool {
    let (name, version) = package.split_once("==").unwrap_or((package, ""));
    let name = name.split('[').next().unwrap_or(name).replace('-', "_");
    let is_it = |file: String| file.starts_with(&format!("{name}-{version}")) && file.ends_with(".dist-info");
    let pythons = std::fs::read_dir(venv.join("lib")).into_iter().flatten().flatten();
    let packages = pythons.flat_map(|python| std::fs::read_dir(python.path().join("site-packages")).into_iter().flatten().flatten());
    packages.map(|entry| entry.file_name().to_string_lossy().into_owned()).any(is_it)
}
