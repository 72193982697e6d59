//! Agents that come from the Python package index, in an environment of their own.

use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

/// Programs that may be a Python 3, in the order in which they are tried.
const PYTHONS: [&str; 5] = ["python3", "python3.14", "python3.13", "python3.12", "python3.11"];

/// Installs packages into `venv` below a directory, unless they are there. Returns why it cannot, if there is no Python 3 of at least this
/// minor version that can make environments.
pub(super) fn get(root: &Path, least: u32, packages: &[&str]) -> Result<Option<String>> {
    let venv = root.join("venv");
    if packages.iter().all(|package| has(&venv, package)) {
        return Ok(None);
    }
    let test = format!("import sys, venv, ensurepip; sys.exit(sys.version_info < (3, {least}))");
    let fits = |python: &&str| Command::new(python).args(["-c", &test]).output().is_ok_and(|o| o.status.success());
    let Some(python) = PYTHONS.into_iter().find(fits) else {
        let packages = packages.join(" and ");
        return Ok(Some(format!("no Python 3.{least} or newer with venv is installed, and {packages} is not in {}", venv.display())));
    };
    std::fs::create_dir_all(root).with_context(|| format!("cannot create {}", root.display()))?;
    ensure!(Command::new(python).args(["-m", "venv"]).arg(&venv).status()?.success(), "no environment in {}", venv.display());
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
