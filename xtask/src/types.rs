//! `cargo xtask check`: a type has its name alone in its crate, so that a name leads to one place.
//!
//! Associated types do not count: their trait names them. Tests are left out.

use crate::source::{is_name, modules};
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Names that two types of a crate share on purpose: the blocking client has a counterpart for types of the client.
const SHARED: &[(&str, &str)] = &[("client", "Chunks Client Followed")];

/// Names that more than one type of a crate still has. None may be added.
const KNOWN_DOUBLES: &[(&str, &str)] = &[
    ("client", "Texts Waiter"),
    ("engine", "Ended Entry Found Keeper Kept Login Outcome Parts Place Request"),
    ("keeper", "Begun"),
    (
        "outlast",
        "Asked Call Cell Client Column Drain Entry Facts Follow Found Group Install Kind Line Next Node Open Paint Part Place \
         Read Reader Restart Screen Seen Session Shell Signal Sink Source Stat State Stop Style Trouble What Wish",
    ),
];

/// Which names stand for more than one type of a crate.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    let mut crates = vec![root.join("xtask")];
    for dir in std::fs::read_dir(root.join("crates")).context("cannot list crates")? {
        crates.push(dir?.path());
    }
    for dir in crates {
        let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let doubles = doubles(&dir.join("src"))?;
        let of_this = |list: &[(&str, &str)]| -> BTreeSet<String> {
            list.iter().filter(|(of, _)| *of == name).flat_map(|(_, names)| names.split(' ')).map(str::to_owned).collect()
        };
        let (shared, known) = (of_this(SHARED), of_this(KNOWN_DOUBLES));
        for (double, files) in doubles.iter().filter(|(double, _)| !shared.contains(*double) && !known.contains(*double)) {
            let files: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
            wrong.push(format!("{name} has more than one type {double}, in {}: rename all but one", files.join(", ")));
        }
        let gone = shared.iter().chain(&known).filter(|listed| !doubles.contains_key(*listed));
        wrong.extend(gone.map(|listed| format!("{name} has one type {listed} at most: take it from the list in xtask/src/types.rs")));
    }
    Ok(wrong)
}

/// The names that more than one type has, and the files that define them.
fn doubles(src: &Path) -> Result<BTreeMap<String, Vec<PathBuf>>> {
    let mut types: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for file in modules(src)? {
        for name in defined(&file.tokens) {
            types.entry(name).or_default().push(file.path.clone());
        }
    }
    types.retain(|_, files| files.len() > 1);
    Ok(types)
}

/// The names of the types that a source defines.
fn defined(tokens: &[String]) -> Vec<String> {
    let mut names = Vec::new();
    // Whether each open brace belongs to a trait or an implementation, and whether the next one will.
    let (mut open, mut is_trait) = (Vec::new(), false);
    for (at, token) in tokens.iter().enumerate() {
        match token.as_str() {
            "{" => open.push(std::mem::take(&mut is_trait)),
            "}" => {
                open.pop();
            }
            ";" => is_trait = false,
            "impl" | "trait" if starts_item(tokens, at) => is_trait = true,
            _ => {}
        }
        let is_type = match token.as_str() {
            "struct" | "enum" | "trait" | "union" => true,
            "type" => open.last() != Some(&true),
            _ => false,
        };
        names.extend(tokens.get(at + 1).filter(|name| is_type && is_name(name)).cloned());
    }
    names
}

/// Whether the word at `at` begins an item, and is no part of a type such as `impl Future`.
fn starts_item(tokens: &[String], at: usize) -> bool {
    let before = at.checked_sub(1).map_or("", |before| tokens[before].as_str());
    matches!(before, "" | "{" | "}" | ";" | "]" | ")" | "pub" | "unsafe")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::tokens;

    #[test]
    fn associated_types_and_types_that_are_only_used_do_not_count() {
        let text = "pub(crate) struct A;\nenum B { C { d: u8 } }\nunsafe impl<T> Iterator for A {\n    type Item = B;\n\
                    fn f(x: impl Fn()) -> impl Sized { type E = u8; struct F; }\n}\npub trait G { type Err; }\n\
                    type H = (A, B);\nfn g() { a.union(b); let r#type = 1; }\n// struct I;";
        assert_eq!(defined(&tokens(text)), ["A", "B", "E", "F", "G", "H"]);
    }

    #[test]
    fn types_of_tests_do_not_count() {
        let src = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(src.path().join(name), text).unwrap();
        write("lib.rs", "mod a;\n#[cfg(test)]\nmod b;\nstruct One;\nstruct Two;\n#[cfg(test)]\nmod tests { struct One; }");
        write("a.rs", "pub enum Two {}");
        write("b.rs", "struct One;");
        let found = doubles(src.path()).unwrap();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [("Two".to_owned(), vec!["a.rs".into(), "lib.rs".into()])]);
    }
}
