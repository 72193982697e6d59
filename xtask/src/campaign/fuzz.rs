//! `cargo xtask campaign fuzz`: fuzzes every parser of outside input for a while.

use crate::Flags;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::{Command, Stdio};

/// The compiler flags for coverage. They need no nightly compiler; `cargo fuzz` adds checks of memory.
const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table -Cdebug-assertions=on -Ccodegen-units=1";
/// The longest input that is tried. Short inputs find the failures.
const LONGEST: u32 = 4_096;

pub(crate) fn run(flags: &Flags<'_>) -> Result<()> {
    let seconds = flags.get("--seconds")?.unwrap_or(120_u64);
    let only = flags.get::<String>("--target")?;
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("no workspace")?.join("fuzz");
    let targets = targets(&std::fs::read_to_string(fuzz.join("Cargo.toml"))?);
    let targets: Vec<&String> = targets.iter().filter(|t| only.as_ref().is_none_or(|only| only == *t)).collect();
    ensure!(!targets.is_empty(), "there is no target {}", only.unwrap_or_default());
    let build = std::env::current_exe()?.with_file_name("fuzz");
    // With a named target, programs that run during the build have no coverage.
    let host = host()?;
    let mut building = crate::cargo();
    building.args(["build", "--quiet", "--release", "--locked", "--bins", "--target", &host]).current_dir(&fuzz);
    ensure!(building.env("CARGO_TARGET_DIR", &build).env("RUSTFLAGS", COVERAGE).status()?.success(), "the targets do not build");
    println!("campaign fuzz: {} targets, {seconds} s each", targets.len());
    for target in targets {
        let scratch = tempfile::Builder::new().prefix("ol-fuzz-").tempdir()?;
        let corpus = scratch.path().join("corpus");
        std::fs::create_dir(&corpus)?;
        let done = Command::new(build.join(&host).join("release").join(target))
            .arg(format!("-max_total_time={seconds}"))
            .arg(format!("-max_len={LONGEST}"))
            .arg(format!("-artifact_prefix={}/", scratch.path().display()))
            .arg("-print_final_stats=1")
            .arg(&corpus)
            .current_dir(scratch.path())
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("{target} cannot be run"))?;
        let said = String::from_utf8_lossy(&done.stderr);
        if !done.status.success() {
            let kept = scratch.keep();
            let end: Vec<&str> = said.lines().rev().take(30).collect();
            let end: Vec<&str> = end.into_iter().rev().collect();
            anyhow::bail!("{target} broke; the input is in {}\n{}", kept.display(), end.join("\n"));
        }
        let of = |name: &str| said.lines().find_map(|l| l.strip_prefix(&format!("stat::{name}:"))).map_or("?", str::trim).to_owned();
        println!("  {target:<10} {} inputs, {} MB at most", of("number_of_executed_units"), of("peak_rss_mb"));
    }
    Ok(())
}

/// The names of the programs in a manifest.
fn targets(manifest: &str) -> Vec<String> {
    let bins = manifest.split("[[bin]]").skip(1);
    bins.filter_map(|bin| bin.lines().find_map(|l| l.strip_prefix("name = \"")?.strip_suffix('"').map(str::to_owned))).collect()
}

/// The machine that programs are built for.
fn host() -> Result<String> {
    let said = Command::new("rustc").arg("-vV").output()?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    said.lines().find_map(|l| l.strip_prefix("host: ")).map(str::to_owned).context("rustc does not say what it builds for")
}
