//! What cargo knows of the packages of the workspace and of those that they use.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// The packages, and which of them use which.
#[derive(Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    /// Absent if only the packages of the workspace were asked for.
    pub(crate) resolve: Option<Resolve>,
}

#[derive(Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) license: Option<String>,
    /// Absent for a package of this workspace.
    pub(crate) source: Option<String>,
    pub(crate) dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Absent for one that is used by the library or program itself.
    pub(crate) kind: Option<String>,
    pub(crate) path: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct Resolve {
    pub(crate) nodes: Vec<Node>,
}

#[derive(Deserialize)]
pub(crate) struct Node {
    pub(crate) id: String,
    pub(crate) deps: Vec<Edge>,
}

#[derive(Deserialize)]
pub(crate) struct Edge {
    pub(crate) pkg: String,
    pub(crate) dep_kinds: Vec<EdgeKind>,
}

#[derive(Deserialize)]
pub(crate) struct EdgeKind {
    /// Absent for an ordinary dependency, else `dev` or `build`.
    pub(crate) kind: Option<String>,
}

impl Metadata {
    /// Asks cargo about this workspace.
    pub(crate) fn read(flags: &[&str]) -> Result<Self> {
        let mut command = crate::cargo();
        command.args(["metadata", "--format-version", "1", "--locked"]).args(flags);
        let out = command.current_dir(env!("CARGO_MANIFEST_DIR")).output().context("cannot run cargo metadata")?;
        ensure!(out.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&out.stderr));
        serde_json::from_slice(&out.stdout).context("cargo metadata")
    }
}
