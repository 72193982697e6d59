//! `cargo xtask check`: checks what the compiler does not. Licences, sources and duplicate versions follow `deny.toml`, by `cargo-deny`.
//! Dependencies between our crates follow [`ARROWS`], those between modules follow `modules.rs`. Names of types follow `types.rs`, and words
//! `words.rs`. Every test named in `docs/promises.md` exists. `docs/requirements.md` has the number of every numbered test. The crates for
//! embedders build alone.

use crate::metadata::{Metadata, Package};
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeSet;
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
    ("outlast-transport", &["outlast-core", "outlast-store", "outlast-wire"]),
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
            "outlast-transport",
            "outlast-wire",
        ],
    ),
    ("outlast-testkit", &["outlast-core", "outlast-store", "outlast-wire"]),
    ("xtask", &["outlast-client", "outlast-core", "outlast-store", "outlast-testkit", "outlast-text", "outlast-wire"]),
];

/// Runs all checks, and prints all problems before it fails.
pub(crate) fn run() -> Result<()> {
    let root = root()?;
    let mut wrong = Vec::new();
    wrong.extend(crate::deny::check(&root)?);
    wrong.extend(arrows(&Metadata::read(&["--no-deps", "--offline"])?.packages));
    wrong.extend(crate::modules::check(&root)?);
    wrong.extend(crate::types::check(&root)?);
    wrong.extend(crate::words::check(&root)?);
    wrong.extend(named_tests(&root)?);
    wrong.extend(requirements(&root)?);
    wrong.extend(crate::features::check(&root)?);
    for what in &wrong {
        eprintln!("check: {what}");
    }
    if !wrong.is_empty() {
        bail!("{} things are not as they should be", wrong.len());
    }
    println!("check: all that was checked is in order");
    Ok(())
}

fn root() -> Result<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(own.parent().context("xtask lies in the workspace")?.to_owned())
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn arrows(packages: &[Package]) -> Vec<String> {
    let mut wrong = Vec::new();
    for p in packages {
        let Some((_, may)) = ARROWS.iter().find(|(name, _)| *name == p.name) else {
            wrong.push(format!("{} is new: give it its arrows in xtask/src/check.rs and its place in docs/ARCHITECTURE.md", p.name));
            continue;
        };
        let used = p.dependencies.iter().filter(|d| d.path.is_some() && d.kind.is_none());
        wrong.extend(used.filter(|d| !may.contains(&d.name.as_str())).map(|d| format!("{} must not use {}", p.name, d.name)));
    }
    wrong
}

/// Tests that `docs/promises.md` names in backticks as `file::test` and that do not exist.
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

/// The numbers at the beginning of a test's name: `018_and_070_…`, `006_to_009_…`, `056_057_…`.
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
}
