//! `cargo xtask dist`: builds the packages of the programs, which need no compiler.
//!
//! All three programs are static, so one build serves every distribution. For the keeper this also saves time: there are two for each
//! running command, and a static program starts in two thirds of the time and touches fewer pages.

mod deb;
mod npm;
mod sbom;
mod tarball;
mod trial;
mod wheel;

use crate::Flags;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAMS: [&str; 3] = ["outlast", "outlast-gateway", "outlast-keeper"];
const SUMMARY: &str = "Runs background processes that outlive the program that started them";

pub(crate) fn run(flags: &Flags<'_>) -> Result<()> {
    let to = flags.get::<PathBuf>("--to")?.unwrap_or_else(|| "dist".into());
    std::fs::create_dir_all(&to).with_context(|| format!("make {}", to.display()))?;
    let to = to.canonicalize()?;
    let programs = to.join("bin");
    build_into(&programs)?;
    let release = Release::gather(programs, to.join("share"))?;
    let packages = [tarball::pack(&release, &to)?, deb::pack(&release, &to)?, wheel::pack(&release, &to)?, npm::pack(&release, &to)?];
    let mut files = packages.to_vec();
    for package in &packages {
        files.push(sbom::write_beside(package, &release)?);
    }
    let sums: Vec<String> = files.iter().map(|file| Ok(format!("{}  {}\n", sha256_hex(file)?, file_name(file)?))).collect::<Result<_>>()?;
    std::fs::write(to.join("SHA256SUMS"), sums.concat())?;
    print!("{}", sums.concat());
    if flags.has("--try") {
        trial::run(&packages, &release)?;
    }
    Ok(())
}

/// What every package holds.
struct Release {
    version: String,
    /// As Rust calls it: `x86_64`, `aarch64`.
    arch: &'static str,
    /// The directory of the programs.
    programs: PathBuf,
    /// Licences, manual pages (`man`) and completion scripts (`completions`).
    share: PathBuf,
}

impl Release {
    fn gather(programs: PathBuf, share: PathBuf) -> Result<Self> {
        if share.exists() {
            std::fs::remove_dir_all(&share)?;
        }
        std::fs::create_dir_all(share.join("completions"))?;
        for name in ["LICENSE-APACHE", "LICENSE-MIT", "README.md", "CHANGELOG.md"] {
            std::fs::copy(name, share.join(name)).with_context(|| format!("copy {name}"))?;
        }
        let outlast = programs.join("outlast");
        call(Command::new(&outlast).arg("__man").arg(share.join("man")))?;
        for (shell, file) in [("bash", "outlast.bash"), ("zsh", "_outlast"), ("fish", "outlast.fish")] {
            std::fs::write(share.join("completions").join(file), call(Command::new(&outlast).args(["completions", shell]))?)?;
        }
        let said = String::from_utf8(call(Command::new(&outlast).arg("--version"))?)?;
        let version = said.trim().rsplit(' ').next().context("`outlast --version` names its version")?.to_owned();
        Ok(Self { version, arch: std::env::consts::ARCH, programs, share })
    }

    /// The programs, each with its name.
    fn programs(&self) -> impl Iterator<Item = (&'static str, PathBuf)> + '_ {
        PROGRAMS.into_iter().map(|name| (name, self.programs.join(name)))
    }
}

/// Builds the programs and puts them into `to`.
pub(crate) fn build_into(to: &Path) -> Result<()> {
    std::fs::create_dir_all(to).with_context(|| format!("make {}", to.display()))?;
    let target = target_directory(Path::new("."))?;
    let (triple, library) = static_target()?;
    let built = match build(&["--target", &triple], Some("-C target-feature=+crt-static")) {
        Ok(()) => {
            println!("the programs are static ({library})");
            target.join(&triple).join("release")
        }
        Err(e) => {
            build(&[], None)?;
            println!("the programs are dynamic: this toolchain cannot link them statically ({e:#})");
            target.join("release")
        }
    };
    PROGRAMS.iter().try_for_each(|name| put(&built.join(name), to))
}

/// Where Cargo puts what it builds of the workspace around `dir`.
pub(crate) fn target_directory(dir: &Path) -> Result<PathBuf> {
    let told = call(crate::cargo().args(["metadata", "--no-deps", "--locked", "--format-version", "1"]).current_dir(dir))?;
    let told: Value = serde_json::from_slice(&told).context("cargo metadata")?;
    Ok(told["target_directory"].as_str().context("cargo says where it builds")?.into())
}

fn build(args: &[&str], rustflags: Option<&str>) -> Result<()> {
    let mut command = crate::cargo();
    command.args(["build", "--release", "--locked", "--package", "outlast", "--bins"]).args(args);
    if let Some(flags) = rustflags {
        command.env("RUSTFLAGS", flags);
    }
    ensure!(command.status()?.success(), "cargo build {} failed", args.join(" "));
    Ok(())
}

/// musl where its libraries are installed, else the host's own C library.
fn static_target() -> Result<(String, &'static str)> {
    let rustc = |args: &[&str]| -> Result<String> {
        let out = Command::new("rustc").args(args).output().context("rustc")?;
        Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned())
    };
    let version = rustc(&["-vV"])?;
    let host = version.lines().find_map(|l| l.strip_prefix("host: ")).context("rustc does not name its host")?.to_owned();
    let musl = host.replace("-gnu", "-musl");
    let libraries = rustc(&["--print", "target-libdir", "--target", &musl])?;
    if musl != host && Path::new(&libraries).is_dir() { Ok((musl, "musl")) } else { Ok((host, "the host's C library")) }
}

fn put(from: &Path, to: &Path) -> Result<()> {
    let name = from.file_name().context("a file name")?;
    let new = to.join(name).with_extension("new");
    std::fs::copy(from, &new).with_context(|| format!("copy {}", from.display()))?;
    // A program that runs cannot be overwritten, but replaced.
    std::fs::rename(&new, to.join(name))?;
    Ok(())
}

/// Copies a file and its missing parent directories, with a mode.
fn place(from: &Path, to: &Path, mode: u32) -> Result<()> {
    std::fs::create_dir_all(to.parent().context("a parent directory")?)?;
    std::fs::copy(from, to).with_context(|| format!("copy {}", from.display()))?;
    std::fs::set_permissions(to, std::fs::Permissions::from_mode(mode))?;
    Ok(())
}

/// Copies all files of a directory, with a mode for plain files.
fn place_all(from: &Path, to: &Path) -> Result<()> {
    for entry in std::fs::read_dir(from).with_context(|| format!("read {}", from.display()))? {
        let path = entry?.path();
        if path.is_file() {
            place(&path, &to.join(file_name(&path)?), 0o644)?;
        }
    }
    Ok(())
}

/// `tar` of a directory's entries that comes out the same for the same contents.
fn tar_gz(dir: &Path, entry: &str, archive: &Path) -> Result<()> {
    let same = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0", "--use-compress-program=gzip -n -9"];
    call(Command::new("tar").args(same).arg("-C").arg(dir).arg("-cf").arg(archive).arg(entry))?;
    Ok(())
}

fn file_name(path: &Path) -> Result<&str> {
    path.file_name().and_then(|name| name.to_str()).with_context(|| format!("{} has no name", path.display()))
}

fn sha256(path: &Path) -> Result<[u8; 32]> {
    Ok(Sha256::digest(std::fs::read(path).with_context(|| format!("read {}", path.display()))?).into())
}

fn sha256_hex(path: &Path) -> Result<String> {
    Ok(sha256(path)?.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Runs a program to its end and returns what it printed.
fn call(command: &mut Command) -> Result<Vec<u8>> {
    let name = command.get_program().display().to_string();
    let done = command.output().with_context(|| format!("cannot run {name}"))?;
    ensure!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr).trim());
    Ok(done.stdout)
}
