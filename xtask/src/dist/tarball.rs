//! An archive to be unpacked anywhere: programs, manual pages, completion scripts and licences in one directory.

use super::{Release, file_name, place, place_all, tar_gz};
use anyhow::Result;
use std::path::{Path, PathBuf};

pub(super) fn pack(release: &Release, to: &Path) -> Result<PathBuf> {
    let name = format!("outlast-{}-linux-{}", release.version, release.arch);
    let stage = tempfile::tempdir()?;
    let root = stage.path().join(&name);
    for (program, path) in release.programs() {
        place(&path, &root.join("bin").join(program), 0o755)?;
    }
    place_all(&release.share, &root)?;
    place_all(&release.share.join("man"), &root.join("share/man/man1"))?;
    for (file, dir) in super::deb::COMPLETIONS {
        let from = release.share.join("completions").join(file);
        place(&from, &root.join("share").join(dir).join(file_name(&from)?), 0o644)?;
    }
    let archive = to.join(format!("{name}.tar.gz"));
    tar_gz(stage.path(), &name, &archive)?;
    Ok(archive)
}
