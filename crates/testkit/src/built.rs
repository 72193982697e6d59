//! Programs of this workspace that cargo has built.

use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// The program of this name, from the same profile as the caller. For those to whom cargo does not say where it is: documentation examples, and tests of
/// another package than the program's.
///
/// # Panics
///
/// If it was not built, so that nothing passes that did not run.
pub fn program(name: &str) -> PathBuf {
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    let path = target().join(profile).join(name);
    assert!(
        path.exists(),
        "{} is missing: `cargo test --workspace` builds it first; alone, `cargo build -p outlast` or `cargo build --examples -p …` does",
        path.display()
    );
    path
}

/// Where cargo builds, which environment and configuration may say.
fn target() -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    let told = command.output().expect("cargo runs");
    let told: Value = serde_json::from_slice(&told.stdout).expect("cargo tells where it builds");
    told["target_directory"].as_str().expect("a directory").into()
}
