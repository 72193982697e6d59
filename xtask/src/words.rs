//! `cargo xtask check`: sources and documents name the actor, so words that name none do not occur in them.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Words that leave open who does something or how much there is of it.
const VAGUE: [&str; 6] = ["whoever", "somebody", "nobody", "anybody", "so many", "in vain"];
/// How often they still occur. This number only goes down.
const KNOWN: usize = 415;
/// The house style and this check name the words.
const EXEMPT: [&str; 2] = ["docs/STYLE.md", "xtask/src/words.rs"];
/// The most places that are shown.
const SHOWN: usize = 20;

/// Complains if there are more of the words than are known, or fewer.
pub(crate) fn check(root: &Path) -> Result<Option<String>> {
    let mut files = Vec::new();
    texts(root, &mut files)?;
    files.sort();
    let mut found = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let shown = path.strip_prefix(root).unwrap_or(&path).to_owned();
        if EXEMPT.iter().any(|exempt| shown == Path::new(exempt)) {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            found.extend(vague(line).map(|word| format!("{}:{}: {word}", shown.display(), number + 1)));
        }
    }
    let count = found.len();
    found.truncate(SHOWN);
    Ok(match count.cmp(&KNOWN) {
        std::cmp::Ordering::Equal => None,
        std::cmp::Ordering::Less => Some(format!("{count} vague words are left: write that number into xtask/src/words.rs")),
        std::cmp::Ordering::Greater => {
            Some(format!("{count} words say not who or how many, and {KNOWN} are known. The first are:\n{}", found.join("\n")))
        }
    })
}

/// The vague words of a line, each as often as the line has it.
fn vague(line: &str) -> impl Iterator<Item = &'static str> {
    let line = line.to_lowercase();
    let is_letter = |c: char| c.is_alphanumeric() || c == '_';
    VAGUE.into_iter().flat_map(move |word| {
        let alone =
            line.match_indices(word).filter(|(at, _)| !line[..*at].ends_with(is_letter) && !line[at + word.len()..].starts_with(is_letter));
        vec![word; alone.count()]
    })
}

/// The Rust sources and documents of the repository, without what was built.
fn texts(dir: &Path, into: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        if entry.file_type()?.is_dir() {
            if name != "target" && name != "node_modules" && !name.as_encoded_bytes().starts_with(b".") {
                texts(&path, into)?;
            }
        } else if path.extension().is_some_and(|e| e == "rs" || e == "md") {
            into.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_words_count_in_any_case() {
        assert_eq!(vague("Nobody, nobody! So many; busybody; nobody_else; is_nobody").collect::<Vec<_>>(), ["nobody", "nobody", "so many"]);
    }
}
