//! `cargo xtask api`: compares the public interface with its record in `docs/api.txt`. Every difference has to be recorded, so that a review
//! sees it. A removed or changed item is a break. It can be recorded only under a version that may break, or while the version is not
//! released, that is, not yet in `CHANGELOG.md`.
//!
//! The items come from rustdoc. Its JSON does not follow re-exports into other crates, which are most of the client; this follows them into
//! our own crates.

mod list;
mod rustdoc;
mod show;

pub(crate) use rustdoc::stand_in;

use crate::Flags;
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The crates that embedders use. Items of our other crates are listed if one of these shows them.
const ROOTS: [&str; 3] = ["outlast_client", "outlast_engine", "outlast_tools"];

/// Traits of one type are on one line.
const IMPL: &str = "impl ";
const AND: &str = " + ";

/// Checks the record, or updates it with `--record` unless that breaks a release.
pub(crate) fn run(flags: &Flags<'_>) -> Result<()> {
    let root = root()?;
    let path = root.join("docs/api.txt");
    let library = rustdoc::Library::make(&root)?;
    let now = Listing { version: env!("CARGO_PKG_VERSION").into(), lines: list::of(&library, &ROOTS)? };
    let then = match std::fs::read_to_string(&path) {
        Ok(text) => Listing::parse(&text)?,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Listing { version: "0.0.0".into(), lines: BTreeMap::new() },
        Err(e) => return Err(e).with_context(|| format!("cannot read {}", path.display())),
    };
    let Change { broken, added } = then.change(&now);
    for what in &broken {
        eprintln!("api: broken: {what}");
    }
    for what in &added {
        eprintln!("api: new: {what}");
    }
    let changes = std::fs::read_to_string(root.join("CHANGELOG.md")).context("cannot read CHANGELOG.md")?;
    if !broken.is_empty() && is_released(&changes, &then.version) && are_compatible(&then.version, &now.version) {
        bail!(
            "{} things that users of {} rely on are gone or different: keep them, or raise the version to one that may break{}",
            broken.len(),
            then.version,
            library.note()
        );
    }
    if flags.has("--record") {
        std::fs::write(&path, now.to_string()).with_context(|| format!("cannot write {}", path.display()))?;
        println!("api: {} lines are on record for {}", now.lines.len(), now.version);
    } else if then != now {
        bail!("docs/api.txt is not what there is: `cargo xtask api --record` writes it{}", library.note());
    } else {
        println!("api: {} lines are as they are on record for {}", now.lines.len(), now.version);
    }
    Ok(())
}

fn root() -> Result<PathBuf> {
    Ok(Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask lies in the workspace")?.to_owned())
}

/// The interface of one version: each path and its signature.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Listing {
    version: String,
    lines: BTreeMap<String, BTreeSet<String>>,
}

/// The changes.
#[derive(Debug, PartialEq, Eq)]
struct Change {
    broken: Vec<String>,
    added: Vec<String>,
}

impl Listing {
    fn parse(text: &str) -> Result<Self> {
        let mut all = text.lines();
        let version =
            all.next().and_then(|first| first.strip_prefix("version ")).context("docs/api.txt begins with its version")?.to_owned();
        let mut lines = BTreeMap::<_, BTreeSet<_>>::new();
        for line in all.filter(|line| !line.is_empty()) {
            let (path, what) = line.split_once(": ").with_context(|| format!("docs/api.txt: {line:?} says nothing"))?;
            let all: BTreeSet<_> = match what.strip_prefix(IMPL) {
                Some(traits) => traits.split(AND).map(|name| format!("{IMPL}{name}")).collect(),
                None => [what.to_owned()].into(),
            };
            lines.entry(path.to_owned()).or_default().extend(all);
        }
        Ok(Self { version, lines })
    }

    fn change(&self, now: &Self) -> Change {
        let (was, is) = (self.pairs(), now.pairs());
        let gone = was.difference(&is).map(|(path, what)| format!("{path}: {what}"));
        let new: Vec<_> = is.difference(&was).collect();
        let breaks = |path: &str| self.is_complete(parent(path));
        let stops = new.iter().filter(|(path, what)| is_part(what) && breaks(path));
        let broken =
            gone.chain(stops.map(|(path, what)| format!("{path}: {what} (new in something that users may write out or match in full)")));
        Change { broken: broken.collect(), added: new.iter().map(|(path, what)| format!("{path}: {what}")).collect() }
    }

    fn pairs(&self) -> BTreeSet<(&str, &str)> {
        self.lines.iter().flat_map(|(path, all)| all.iter().map(move |what| (path.as_str(), what.as_str()))).collect()
    }

    /// Whether users may write this out, match it, or implement it in full.
    fn is_complete(&self, path: &str) -> bool {
        let complete =
            |what: &String| matches!(what.as_str(), "struct" | "enum") || what.starts_with("variant") || what.starts_with("trait");
        self.lines.get(path).is_some_and(|all| all.iter().any(complete))
    }
}

impl std::fmt::Display for Listing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "version {}", self.version)?;
        let mut of = "";
        for (path, all) in &self.lines {
            let of_this = path.split("::").next().unwrap_or_default();
            if of_this != of {
                writeln!(f)?;
                of = of_this;
            }
            let traits: Vec<&str> = all.iter().filter_map(|what| what.strip_prefix(IMPL)).collect();
            all.iter().filter(|what| !what.starts_with(IMPL)).try_for_each(|what| writeln!(f, "{path}: {what}"))?;
            if !traits.is_empty() {
                writeln!(f, "{path}: {IMPL}{}", traits.join(AND))?;
            }
        }
        Ok(())
    }
}

fn parent(path: &str) -> &str {
    path.rsplit_once("::").map_or("", |(parent, _)| parent)
}

/// Whether it is a part of its type, such as a field, and not only a method.
fn is_part(what: &str) -> bool {
    what.starts_with("field ") || what.starts_with("variant") || what.starts_with("required ")
}

fn is_released(changes: &str, version: &str) -> bool {
    changes.lines().any(|line| line.strip_prefix("## [").and_then(|rest| rest.split(']').next()) == Some(version))
}

/// Whether the two versions have to be compatible.
fn are_compatible(one: &str, other: &str) -> bool {
    let part = |version: &str| {
        let mut numbers = version.split(['.', '-']).map(str::to_owned);
        match numbers.next().as_deref() {
            Some("0") => numbers.next().map(|minor| format!("0.{minor}")),
            major => major.map(str::to_owned),
        }
    };
    part(one) == part(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(lines: &[&str]) -> Listing {
        Listing::parse(&format!("version 0.1.0\n\n{}\n", lines.join("\n"))).unwrap()
    }

    #[test]
    fn what_is_gone_or_different_is_a_break_and_what_is_new_is_not() {
        let then = listing(&["a::F: fn()", "a::G: fn(u8)", "a::S: #[non_exhaustive] struct", "a::S::x: field u8"]);
        let same = then.change(&then.clone());
        assert!(same.broken.is_empty() && same.added.is_empty());
        let now = listing(&["a::G: fn(u16)", "a::S: #[non_exhaustive] struct", "a::S::x: field u8", "a::S::y: field u8"]);
        let change = then.change(&now);
        assert_eq!(change.broken, ["a::F: fn()", "a::G: fn(u8)"]);
        assert_eq!(change.added, ["a::G: fn(u16)", "a::S::y: field u8"]);
    }

    #[test]
    fn what_users_may_write_out_in_full_must_not_grow() {
        let then = listing(&[
            "a::S: struct",
            "a::S::x: field u8",
            "a::E: enum",
            "a::E::V: variant",
            "a::T: trait",
            "a::P: struct with private fields",
        ]);
        let grown = [("a::S::y", "field u8"), ("a::E::W", "variant(u8)"), ("a::E::V::x", "field u8"), ("a::T::f", "required fn(&self)")];
        for (path, what) in grown {
            let mut now = then.clone();
            now.lines.insert(path.into(), [what.to_owned()].into());
            assert_eq!(then.change(&now).broken.len(), 1, "{path}");
        }
        for (path, what) in [("a::P::y", "field u8"), ("a::S::f", "fn()"), ("a::T::g", "provided fn(&self)")] {
            let mut now = then.clone();
            now.lines.insert(path.into(), [what.to_owned()].into());
            assert_eq!(then.change(&now), Change { broken: vec![], added: vec![format!("{path}: {what}")] });
        }
    }

    #[test]
    fn a_version_that_may_break_is_one_whose_first_number_that_counts_is_another() {
        for (one, other, want) in [("0.1.0", "0.1.7", true), ("0.1.0", "0.2.0", false), ("1.2.3", "1.9.0", true), ("1.2.3", "2.0.0", false)]
        {
            assert_eq!(are_compatible(one, other), want, "{one} {other}");
        }
    }

    #[test]
    fn a_version_is_released_when_the_changelog_has_it() {
        let changes = "# Changelog\n\n## [Unreleased]\n\n## [0.1.0] - 2026-12-01\n\n- 0.2.0 will be better\n";
        assert!(is_released(changes, "0.1.0") && !is_released(changes, "0.2.0") && !is_released(changes, "0.1"));
    }

    #[test]
    fn a_listing_reads_back() {
        let all = listing(&["a::F: fn() -> Result<a::S, b::E>", "a::S: impl Clone", "a::S: struct", "b::E: enum"]);
        assert_eq!(Listing::parse(&all.to_string()).unwrap(), all);
    }
}
