//! `cargo xtask check`: sources and documents name the actor, so words that name none do not occur in them.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Words that leave open who does something or how much there is of it.
const VAGUE: [&str; 6] = ["whoever", "somebody", "nobody", "anybody", "so many", "in vain"];
/// The house style and this check name the words.
const EXEMPT: [&str; 2] = ["docs/STYLE.md", "xtask/src/words.rs"];
/// The most places that are shown.
const SHOWN: usize = 20;

/// Complains if a file has one of the words.
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
    Ok((count > 0).then(|| format!("{count} words say not who or how many. The first are:\n{}", found.join("\n"))))
}

/// The vague words of a line, each as often as the line has it. A constant in capitals is the user `nobody`, and a quoted word is a name or a text
/// that earlier versions stored.
fn vague(line: &str) -> impl Iterator<Item = &'static str> {
    let lower = line.to_ascii_lowercase();
    let is_letter = |c: char| c.is_alphanumeric() || c == '_';
    let is_quote = |c: char| ['"', '\'', '`'].contains(&c);
    VAGUE.into_iter().flat_map(move |word| {
        let is_alone = |at: usize| !lower[..at].ends_with(is_letter) && !lower[at + word.len()..].starts_with(is_letter);
        let is_name = |at: usize| line[..at].ends_with(is_quote) || line[at..at + word.len()] == word.to_ascii_uppercase();
        let count = lower.match_indices(word).filter(|(at, _)| is_alone(*at) && !is_name(*at)).count();
        vec![word; count]
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
        let words = "Nobody, nobody! So many; busybody; nobody_else; is_nobody; `nobody` is NOBODY";
        assert_eq!(vague(words).collect::<Vec<_>>(), ["nobody", "nobody", "so many"]);
    }
}
