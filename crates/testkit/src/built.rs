//! Programs of this workspace that cargo has built.

use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// The path of a built program, from the caller's own profile. For callers to which cargo does not give the path: documentation
/// examples, and tests of another package than the program's.
/// another package than the program's.
///
/// # Panics
///
/// If it was not built: a test without it must not pass.
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

/// Cargo's target directory, which environment and configuration may set.
fn target() -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    let told = command.output().expect("cargo runs");
    let told: Value = serde_json::from_slice(&told.stdout).expect("cargo tells where it builds");
    told["target_directory"].as_str().expect("a directory").into()
}
