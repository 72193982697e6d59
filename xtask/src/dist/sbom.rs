//! What a package is made of, in CycloneDX 1.5: every crate that is compiled into its programs, with version, licence and checksum.

use super::{Release, file_name, sha256_hex};
use crate::metadata::{Metadata, Node};
use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Writes the list beside a package, and returns its path.
pub(super) fn write_beside(package: &Path, release: &Release) -> Result<PathBuf> {
    let name = file_name(package)?;
    let path = package.with_file_name(format!("{name}.cdx.json"));
    let list = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": {
            "type": "application",
            "bom-ref": name,
            "name": "outlast",
            "version": release.version,
            "licenses": [{ "expression": "MIT OR Apache-2.0" }],
            "hashes": [{ "alg": "SHA-256", "content": sha256_hex(package)? }],
        }},
        "components": components(release)?,
    });
    std::fs::write(&path, format!("{list:#}\n"))?;
    Ok(path)
}

fn components(release: &Release) -> Result<Vec<Value>> {
    let target = format!("{}-unknown-linux-gnu", release.arch);
    let graph = Metadata::read(&["--filter-platform", &target])?;
    let checksums = checksums()?;
    let compiled = compiled_into(&graph, "outlast")?;
    let crates = graph.packages.iter().filter(|p| compiled.contains(p.id.as_str()) && p.source.is_some());
    Ok(crates
        .map(|p| {
            let purl = format!("pkg:cargo/{}@{}", p.name, p.version);
            let mut component = json!({ "type": "library", "bom-ref": purl, "name": p.name, "version": p.version, "purl": purl });
            if let Some(licence) = &p.license {
                // Some crates still write the older form with a slash.
                component["licenses"] = json!([{ "expression": licence.replace('/', " OR ") }]);
            }
            if let Some(sum) = checksums.get(&(p.name.clone(), p.version.clone())) {
                component["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
            }
            component
        })
        .collect())
}

/// The ids of all packages that end up in the programs of `name`: its dependencies, and theirs, but not those for tests or build scripts.
fn compiled_into<'a>(graph: &'a Metadata, name: &str) -> Result<BTreeSet<&'a str>> {
    let root = graph.packages.iter().find(|p| p.name == name && p.source.is_none()).context("the package is in the workspace")?;
    let resolve = graph.resolve.as_ref().context("cargo resolves dependencies")?;
    let nodes: BTreeMap<&str, &Node> = resolve.nodes.iter().map(|n| (n.id.as_str(), n)).collect();
    let mut seen = BTreeSet::new();
    let mut open = vec![root.id.as_str()];
    while let Some(id) = open.pop() {
        if seen.insert(id) {
            let deps = &nodes.get(id).with_context(|| format!("{id} is not in the graph"))?.deps;
            open.extend(deps.iter().filter(|d| d.dep_kinds.iter().any(|k| k.kind.is_none())).map(|d| d.pkg.as_str()));
        }
    }
    Ok(seen)
}

/// Checksums of `Cargo.lock`, by name and version.
fn checksums() -> Result<BTreeMap<(String, String), String>> {
    let lock: Lock = toml::from_str(&std::fs::read_to_string("Cargo.lock")?).context("Cargo.lock")?;
    Ok(lock.package.into_iter().filter_map(|p| Some(((p.name, p.version), p.checksum?))).collect())
}

#[derive(Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: String,
    version: String,
    checksum: Option<String>,
}
