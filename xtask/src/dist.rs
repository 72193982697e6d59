//! `cargo xtask dist`: the two programs as they are given to people, the keeper static where the toolchain can.
//!
//! There are two keepers for each running command, so what matters is how little each costs: a static program starts in two thirds of the time and
//! touches fewer pages than one that has to be linked at each start.

use crate::Flags;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) fn run(flags: &Flags<'_>) -> Result<()> {
    let to = flags.get::<PathBuf>("--to")?.unwrap_or_else(|| "dist".into());
    build_into(&to)
}

/// Builds the programs and puts them into `to`.
pub(crate) fn build_into(to: &Path) -> Result<()> {
    std::fs::create_dir_all(to).with_context(|| format!("make {}", to.display()))?;
    let target = target_directory(Path::new("."))?;
    build(&["--bin", "outlast"], None)?;
    put(&target.join("release/outlast"), to)?;
    build(&["--bin", "outlast-gateway"], None)?;
    put(&target.join("release/outlast-gateway"), to)?;
    let (triple, how) = static_target()?;
    match build(&["--bin", "outlast-keeper", "--target", &triple], Some("-C target-feature=+crt-static")) {
        Ok(()) => {
            put(&target.join(&triple).join("release/outlast-keeper"), to)?;
            println!("outlast-keeper is static ({how})");
        }
        Err(e) => {
            build(&["--bin", "outlast-keeper"], None)?;
            put(&target.join("release/outlast-keeper"), to)?;
            println!("outlast-keeper is dynamic: this toolchain cannot link it statically ({e:#})");
        }
    }
    Ok(())
}

/// Where Cargo puts what it builds of the workspace around `dir`, whoever said so.
pub(crate) fn target_directory(dir: &Path) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--no-deps", "--locked", "--format-version", "1"]).current_dir(dir);
    let out = command.output().context("cannot run cargo metadata")?;
    ensure!(out.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&out.stderr).trim());
    let told: Value = serde_json::from_slice(&out.stdout).context("cargo metadata")?;
    Ok(told["target_directory"].as_str().context("cargo says where it builds")?.into())
}

fn build(args: &[&str], rustflags: Option<&str>) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--release", "--package", "outlast"]).args(args);
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
