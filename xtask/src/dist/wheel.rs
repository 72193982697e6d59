//! A wheel that carries the programs: `pip install` and `uv tool install` put them beside Python's own.

use super::{Release, SUMMARY, call, file_name, place, sha256};
use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(super) fn pack(release: &Release, to: &Path) -> Result<PathBuf> {
    let stem = format!("outlast-{}", release.version);
    let info = format!("{stem}.dist-info");
    // Static programs run with any C library, so one wheel serves both families.
    let tag = format!("py3-none-manylinux_2_17_{0}.manylinux2014_{0}.musllinux_1_1_{0}", release.arch);
    let stage = tempfile::tempdir()?;
    let root = stage.path();
    for (program, path) in release.programs() {
        place(&path, &root.join(format!("{stem}.data/scripts")).join(program), 0o755)?;
    }
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        place(&release.share.join(licence), &root.join(&info).join("licenses").join(licence), 0o644)?;
    }
    let metadata = format!(
        "Metadata-Version: 2.4\nName: outlast\nVersion: {}\nSummary: {SUMMARY}\nLicense-Expression: MIT OR Apache-2.0\n\
         License-File: LICENSE-APACHE\nLicense-File: LICENSE-MIT\nRequires-Python: >=3.8\n",
        release.version
    );
    std::fs::write(root.join(&info).join("METADATA"), metadata)?;
    let tags: String =
        tag.split('-').next_back().context("a tag has platforms")?.split('.').map(|p| format!("Tag: py3-none-{p}\n")).collect();
    std::fs::write(root.join(&info).join("WHEEL"), format!("Wheel-Version: 1.0\nGenerator: outlast\nRoot-Is-Purelib: false\n{tags}"))?;
    let record = format!("{info}/RECORD");
    let mut lines = String::new();
    for path in files_below(root)? {
        let name = path.strip_prefix(root)?.display().to_string();
        let hash = URL_SAFE_NO_PAD.encode(sha256(&path)?);
        lines.push_str(&format!("{name},sha256={hash},{}\n", std::fs::metadata(&path)?.len()));
    }
    std::fs::write(root.join(&record), format!("{lines}{record},,\n"))?;
    let wheel = to.join(format!("{stem}-{tag}.whl"));
    // `zip` adds to an archive that is there.
    let _absent = std::fs::remove_file(&wheel);
    let entries: Vec<String> = std::fs::read_dir(root)?.map(|e| Ok(file_name(&e?.path())?.to_owned())).collect::<Result<_>>()?;
    call(Command::new("zip").current_dir(root).args(["-q", "-r", "-X"]).arg(&wheel).args(entries))
        .context("Debian: apt-get install zip")?;
    Ok(wheel)
}

/// All files below a directory, sorted by path.
fn files_below(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir)? {
            let path = entry?.path();
            if path.is_dir() { dirs.push(path) } else { files.push(path) }
        }
    }
    files.sort();
    Ok(files)
}
