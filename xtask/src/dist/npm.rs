//! An npm package that carries the programs: `npm install -g` links them into its directory of programs. No script runs at install.

use super::{PROGRAMS, Release, SUMMARY, place, tar_gz};
use anyhow::{Result, bail};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

pub(super) fn pack(release: &Release, to: &Path) -> Result<PathBuf> {
    let cpu = match release.arch {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => bail!("npm has no processor that is known here for {other}"),
    };
    let stage = tempfile::tempdir()?;
    let root = stage.path().join("package");
    for (program, path) in release.programs() {
        place(&path, &root.join("bin").join(program), 0o755)?;
    }
    for name in ["LICENSE-APACHE", "LICENSE-MIT", "README.md"] {
        place(&release.share.join(name), &root.join(name), 0o644)?;
    }
    let bin: Map<String, Value> = PROGRAMS.iter().map(|name| ((*name).to_owned(), format!("bin/{name}").into())).collect();
    let manifest = json!({
        "name": "outlast",
        "version": release.version,
        "description": SUMMARY,
        "license": "MIT OR Apache-2.0",
        "os": ["linux"],
        "cpu": [cpu],
        "bin": bin,
        "files": ["bin", "LICENSE-APACHE", "LICENSE-MIT", "README.md"],
    });
    std::fs::write(root.join("package.json"), format!("{manifest:#}\n"))?;
    let archive = to.join(format!("outlast-{}-npm-linux-{cpu}.tgz", release.version));
    tar_gz(stage.path(), "package", &archive)?;
    Ok(archive)
}
