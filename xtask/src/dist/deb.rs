//! A package for Debian and its relatives. The programs are static, so it depends on no other package.

use super::{Release, SUMMARY, call, place, place_all};
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Completion scripts, and the directories below `share` in which each shell looks for them.
pub(super) const COMPLETIONS: [(&str, &str); 3] = [
    ("outlast.bash", "bash-completion/completions"),
    ("_outlast", "zsh/vendor-completions"),
    ("outlast.fish", "fish/vendor_completions.d"),
];

pub(super) fn pack(release: &Release, to: &Path) -> Result<PathBuf> {
    let arch = match release.arch {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => bail!("Debian has no architecture that is known here for {other}"),
    };
    let stage = tempfile::tempdir()?;
    let root = stage.path().join("root");
    for (program, path) in release.programs() {
        place(&path, &root.join("usr/bin").join(program), 0o755)?;
    }
    place_all(&release.share.join("man"), &root.join("usr/share/man/man1"))?;
    for (file, dir) in COMPLETIONS {
        // bash loads the file that is called like the command.
        let name = file.strip_suffix(".bash").unwrap_or(file);
        place(&release.share.join("completions").join(file), &root.join("usr/share").join(dir).join(name), 0o644)?;
    }
    place_all(&release.share, &root.join("usr/share/doc/outlast"))?;
    let control = format!(
        "Package: outlast\nVersion: {}\nArchitecture: {arch}\nMaintainer: The Outlast developers <outlast@localhost>\nSection: utils\n\
         Priority: optional\nDescription: {SUMMARY}\n For agents and people: a command line, and a server for MCP and ACP.\n",
        release.version
    );
    std::fs::create_dir_all(root.join("DEBIAN"))?;
    std::fs::write(root.join("DEBIAN/control"), control)?;
    let package = to.join(format!("outlast_{}_{arch}.deb", release.version));
    // Times of 0, so that the same contents give the same package.
    call(
        Command::new("dpkg-deb").env("SOURCE_DATE_EPOCH", "0").args(["--root-owner-group", "-Zgzip", "--build"]).arg(&root).arg(&package),
    )?;
    Ok(package)
}
