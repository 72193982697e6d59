//! `cargo xtask check`: what no compiler checks. Licences, sources and duplicate versions against `deny.toml`; dependencies between our
//! crates and between modules; that every test named in `docs/promises.md` exists; that `docs/requirements.md` has the number of every test that
//! has one; and that the crates for embedders build alone.

use crate::metadata::{Metadata, Package};
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Which of our crates may use which. Nothing points up.
const ARROWS: &[(&str, &[&str])] = &[
    ("outlast-core", &[]),
    ("outlast-text", &["outlast-core"]),
    ("outlast-wire", &["outlast-core"]),
    ("outlast-store", &["outlast-core"]),
    ("outlast-client", &["outlast-core", "outlast-wire"]),
    ("outlast-sinks", &["outlast-client", "outlast-core", "outlast-text"]),
    ("outlast-tools", &["outlast-client", "outlast-core", "outlast-text"]),
    ("outlast-mcp", &["outlast-client", "outlast-core", "outlast-tools"]),
    ("outlast-acp", &["outlast-client", "outlast-core", "outlast-text"]),
    ("outlast-gateway", &["outlast-agents", "outlast-client", "outlast-core", "outlast-store", "outlast-text", "outlast-wire"]),
    ("outlast-agents", &["outlast-acp", "outlast-client", "outlast-core"]),
    ("outlast-keeper", &["outlast-core", "outlast-store", "outlast-text", "outlast-wire"]),
    ("outlast-engine", &["outlast-core", "outlast-store", "outlast-text", "outlast-wire"]),
    (
        "outlast",
        &[
            "outlast-acp",
            "outlast-client",
            "outlast-core",
            "outlast-engine",
            "outlast-gateway",
            "outlast-keeper",
            "outlast-mcp",
            "outlast-sinks",
            "outlast-store",
            "outlast-text",
            "outlast-tools",
            "outlast-wire",
        ],
    ),
    ("outlast-testkit", &["outlast-core", "outlast-store", "outlast-wire"]),
    ("xtask", &["outlast-client", "outlast-core", "outlast-store", "outlast-testkit", "outlast-text", "outlast-wire"]),
];

/// Checks everything, and tells all that is wrong before it fails.
pub(crate) fn run() -> Result<()> {
    let root = root()?;
    let policy: Policy = toml::from_str(&read(&root.join("deny.toml"))?).context("deny.toml")?;
    let mut wrong = Vec::new();
    let mut packages = BTreeMap::new();
    for target in &policy.graph.targets {
        packages.extend(Metadata::read(target, &["--all-features"])?.packages.into_iter().map(|p| (p.id.clone(), p)));
    }
    let packages: Vec<Package> = packages.into_values().collect();
    wrong.extend(licences(&policy, &packages));
    wrong.extend(sources(&policy, &packages));
    wrong.extend(duplicates(&policy, &packages));
    wrong.extend(arrows(&packages));
    wrong.extend(crate::modules::check(&root)?);
    wrong.extend(named_tests(&root)?);
    wrong.extend(requirements(&root)?);
    wrong.extend(crate::features::check(&root)?);
    for what in &wrong {
        eprintln!("check: {what}");
    }
    if !wrong.is_empty() {
        bail!("{} things are not as they should be", wrong.len());
    }
    println!("check: {} packages, licences, sources, versions, arrows, modules, named tests and features are in order", packages.len());
    Ok(())
}

#[derive(Deserialize)]
struct Policy {
    graph: Graph,
    licenses: Licences,
    bans: Bans,
    sources: Sources,
}

#[derive(Deserialize)]
struct Graph {
    targets: Vec<String>,
}

#[derive(Deserialize)]
struct Licences {
    allow: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Bans {
    skip: Vec<Skip>,
}

#[derive(Deserialize)]
struct Skip {
    #[serde(rename = "crate")]
    package: String,
    reason: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    allow_registry: Vec<String>,
}

fn root() -> Result<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(own.parent().context("xtask lies in the workspace")?.to_owned())
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn licences(policy: &Policy, packages: &[Package]) -> Vec<String> {
    let judge = |p: &Package| match &p.license {
        None => Some(format!("{} {} names no licence", p.name, p.version)),
        Some(text) => match allowed(text, &policy.licenses.allow) {
            Some(true) => None,
            Some(false) => Some(format!("{} {} is under {text}, which deny.toml does not allow", p.name, p.version)),
            None => Some(format!("{} {}: the licence {text:?} cannot be read", p.name, p.version)),
        },
    };
    packages.iter().filter_map(judge).collect()
}

/// Whether an SPDX expression can be met with `allow` alone; nothing if it is not one. `/` is how `OR` used to be written.
fn allowed(text: &str, allow: &BTreeSet<String>) -> Option<bool> {
    let spaced = text.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let met = either(&words, &mut at, allow)?;
    (at == words.len()).then_some(met)
}

fn either(words: &[&str], at: &mut usize, allow: &BTreeSet<String>) -> Option<bool> {
    let mut met = both(words, at, allow)?;
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        met |= both(words, at, allow)?;
    }
    Some(met)
}

fn both(words: &[&str], at: &mut usize, allow: &BTreeSet<String>) -> Option<bool> {
    let mut met = one(words, at, allow)?;
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        met &= one(words, at, allow)?;
    }
    Some(met)
}

fn one(words: &[&str], at: &mut usize, allow: &BTreeSet<String>) -> Option<bool> {
    let word = *words.get(*at)?;
    *at += 1;
    if word == "(" {
        let met = either(words, at, allow)?;
        let closed = words.get(*at) == Some(&")");
        *at += 1;
        return closed.then_some(met);
    }
    if matches!(word, ")" | "OR" | "AND" | "WITH") {
        return None;
    }
    if words.get(*at) == Some(&"WITH") {
        let whole = format!("{word} WITH {}", words.get(*at + 1)?);
        *at += 2;
        return Some(allow.contains(&whole));
    }
    Some(allow.contains(word))
}

fn sources(policy: &Policy, packages: &[Package]) -> Vec<String> {
    let known = |source: &str| policy.sources.allow_registry.iter().any(|r| source.strip_prefix("registry+") == Some(r));
    // No source: a path in this workspace.
    let strange = packages.iter().filter(|p| p.source.as_deref().is_some_and(|s| !known(s)));
    strange.map(|p| format!("{} {} comes from {}", p.name, p.version, p.source.as_deref().unwrap_or_default())).collect()
}

fn duplicates(policy: &Policy, packages: &[Package]) -> Vec<String> {
    let mut wrong = Vec::new();
    let skipped: BTreeSet<&str> = policy.bans.skip.iter().map(|s| s.package.as_str()).collect();
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for p in packages {
        versions.entry(&p.name).or_default().insert(&p.version);
    }
    for (name, all) in &versions {
        let counted: Vec<&str> = all.iter().copied().filter(|v| !skipped.contains(format!("{name}@{v}").as_str())).collect();
        if counted.len() > 1 {
            wrong.push(format!("{name} is there in versions {}: unite them, or say in deny.toml why not", counted.join(" and ")));
        }
    }
    for skip in &policy.bans.skip {
        let (name, version) = skip.package.split_once('@').unwrap_or((&skip.package, ""));
        if versions.get(name).is_none_or(|all| all.len() < 2 || !all.contains(version)) {
            wrong.push(format!("deny.toml skips {}, which is no duplicate any more", skip.package));
        }
        if skip.reason.is_empty() {
            wrong.push(format!("deny.toml skips {} without a reason", skip.package));
        }
    }
    wrong
}

fn arrows(packages: &[Package]) -> Vec<String> {
    let mut wrong = Vec::new();
    for p in packages.iter().filter(|p| p.source.is_none()) {
        let Some((_, may)) = ARROWS.iter().find(|(name, _)| *name == p.name) else {
            wrong.push(format!("{} is new: give it its arrows in xtask/src/check.rs and its place in docs/ARCHITECTURE.md", p.name));
            continue;
        };
        let used = p.dependencies.iter().filter(|d| d.path.is_some() && d.kind.is_none());
        wrong.extend(used.filter(|d| !may.contains(&d.name.as_str())).map(|d| format!("{} must not use {}", p.name, d.name)));
    }
    wrong
}

/// Tests that `docs/promises.md` names in backticks as `file::test`, and that do not exist.
fn named_tests(root: &Path) -> Result<Vec<String>> {
    let promises = read(&root.join("docs/promises.md"))?;
    let rows = promises.lines().filter(|l| l.starts_with("| **P"));
    let named: Vec<&str> = rows.flat_map(|l| l.split('`').skip(1).step_by(2)).filter(|w| w.contains("::")).collect();
    ensure!(!named.is_empty(), "docs/promises.md names no tests");
    let mut sources = Vec::new();
    collect(&root.join("crates"), &mut sources)?;
    let mut wrong = Vec::new();
    for test in named {
        let (file, function) = test.rsplit_once("::").unwrap_or_default();
        let stem = file.rsplit("::").next().unwrap_or(file);
        let wanted = format!("fn {function}(");
        let is_there = |path: &PathBuf| {
            let named = path.with_extension("").iter().any(|part| part == stem);
            named && std::fs::read_to_string(path).is_ok_and(|text| text.contains(&wanted))
        };
        if !sources.iter().any(is_there) {
            wrong.push(format!("docs/promises.md names the test {test}, which does not exist"));
        }
    }
    Ok(wrong)
}

/// Tests that name a requirement which `docs/requirements.md` lacks. Tests of the gateway have numbers of their own.
fn requirements(root: &Path) -> Result<Vec<String>> {
    let page = read(&root.join("docs/requirements.md"))?;
    let (processes, gateway) = page.split_once("\n## Gateway\n").context("docs/requirements.md has no part about the gateway")?;
    let numbered = |line: &str| line.strip_prefix("- **")?.split_once("**")?.0.parse().ok();
    let [processes, gateway] = [processes, gateway].map(|part| part.lines().filter_map(numbered).collect::<BTreeSet<u32>>());
    let mut sources = Vec::new();
    collect(&root.join("crates"), &mut sources)?;
    let mut wrong = Vec::new();
    for path in sources {
        let is_gateway = path.starts_with(root.join("crates/gateway")) || path.starts_with(root.join("crates/outlast/tests/gateway"));
        let known = if is_gateway { &gateway } else { &processes };
        for line in read(&path)?.lines() {
            let name = line.trim_start().trim_start_matches("async ").strip_prefix("fn case_").and_then(|rest| rest.split_once('('));
            let (name, _) = name.unwrap_or_default();
            let missing = numbers(name).into_iter().filter(|number| !known.contains(number));
            wrong.extend(missing.map(|number| format!("docs/requirements.md has no number {number}, which the test case_{name} names")));
        }
    }
    Ok(wrong)
}

/// The numbers with which the name of a test begins: `018_and_070_…`, `006_to_009_…`, `056_057_…`.
fn numbers(name: &str) -> Vec<u32> {
    let mut found: Vec<u32> = Vec::new();
    let mut is_range = false;
    for word in name.split('_') {
        match (word, word.parse()) {
            (_, Ok(number)) => {
                let from = found.last().filter(|_| is_range).map_or(number, |last| last + 1);
                found.extend(from..=number);
                is_range = false;
            }
            ("to", _) => is_range = true,
            ("and" | "case", _) => {}
            _ => break,
        }
    }
    found
}

fn collect(dir: &Path, into: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, into)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            into.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_says_which_requirements_it_checks() {
        for (name, want) in [
            ("007_a_directory", &[7][..]),
            ("018_and_070_a_row", &[18, 70]),
            ("006_to_009_who_shares_3", &[6, 7, 8, 9]),
            ("120_case_122_a_fact", &[120, 122]),
            ("of_12", &[]),
        ] {
            assert_eq!(numbers(name), want, "{name}");
        }
    }

    #[test]
    fn licence_expressions_are_read_as_spdx_has_them() {
        let allow: BTreeSet<String> = ["MIT", "Apache-2.0", "Unicode-3.0"].map(str::to_owned).into();
        for (text, want) in [
            ("MIT", Some(true)),
            ("GPL-3.0-only", Some(false)),
            ("MIT/Apache-2.0", Some(true)),
            ("GPL-3.0-only OR MIT", Some(true)),
            ("GPL-3.0-only AND MIT", Some(false)),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", Some(true)),
            ("Apache-2.0 WITH LLVM-exception", Some(false)),
            ("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT", Some(true)),
            ("(MIT", None),
            ("MIT Apache-2.0", None),
            ("", None),
        ] {
            assert_eq!(allowed(text, &allow), want, "{text}");
        }
    }
}
