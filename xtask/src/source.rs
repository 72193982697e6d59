//! Reads Rust sources as names and signs: without comments, strings, and items that are only there for tests.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};

/// A module by the names that lead to it; empty for the root of its crate.
pub(crate) type Module = Vec<String>;

/// The source of one module.
pub(crate) struct ModuleFile {
    pub(crate) module: Module,
    /// Relative to the folder of the sources.
    pub(crate) path: PathBuf,
    pub(crate) tokens: Vec<String>,
}

/// The modules of the crate whose sources are in `src`. Modules that are only there for tests are left out.
pub(crate) fn modules(src: &Path) -> Result<Vec<ModuleFile>> {
    let entry = ["lib.rs", "main.rs"].into_iter().find(|name| src.join(name).exists()).context("a crate without lib.rs and main.rs")?;
    let mut files = Vec::new();
    read(src, entry.into(), Path::new(""), Module::new(), &mut files)?;
    Ok(files)
}

/// Reads a file and those of its modules, which lie in `dir`.
fn read(src: &Path, path: PathBuf, dir: &Path, module: Module, files: &mut Vec<ModuleFile>) -> Result<()> {
    let text = std::fs::read_to_string(src.join(&path)).with_context(|| format!("cannot read {}", path.display()))?;
    let tokens = without_tests(&tokens(&text));
    for (at, declared) in tokens.windows(3).enumerate().filter(|(_, w)| w[0] == "mod" && w[2] == ";") {
        let name = &declared[1];
        let candidates = [dir.join(format!("{name}.rs")), dir.join(name).join("mod.rs")];
        let Some(path) = candidates.into_iter().find(|path| src.join(path).exists()) else {
            // The attribute `path` names a file outside `src`: the benchmarks of `xtask`.
            ensure!(tokens[..at].ends_with(&["=".to_owned(), "]".to_owned()]), "{} declares {name}, which has no file", path.display());
            continue;
        };
        read(src, path, &dir.join(name), [module.as_slice(), std::slice::from_ref(name)].concat(), files)?;
    }
    files.push(ModuleFile { module, path, tokens });
    Ok(())
}

pub(crate) fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// The names and signs of a source text, without comments, strings and characters.
pub(crate) fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let len = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(len) = string(rest) {
            len
        } else if first == '\'' {
            character(rest)
        } else if is_name(rest) || first.is_numeric() {
            rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        let (token, after) = rest.split_at(len);
        if !first.is_whitespace() && !token.starts_with(['/', '"']) && !token.contains(['"', '\'']) {
            tokens.push(token.to_owned());
        }
        rest = after;
    }
    tokens
}

/// The length of the string that a text begins with.
fn string(text: &str) -> Option<usize> {
    let prefix = text.find(|c: char| !matches!(c, 'b' | 'c' | 'r' | '#'))?;
    let body = text[prefix..].strip_prefix('"')?;
    if text[..prefix].contains('r') {
        let end = format!("\"{}", "#".repeat(text[..prefix].matches('#').count()));
        return Some(prefix + 1 + body.find(&end)? + end.len());
    }
    let mut escaped = false;
    let end = body.find(|c: char| {
        let is_end = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        is_end
    });
    Some(prefix + 1 + end? + 1)
}

/// The length of the character, or of the quote of a lifetime, that a text begins with.
fn character(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some((escaped, c))) => {
            text[escaped + c.len_utf8()..].find('\'').map_or(1, |end| escaped + c.len_utf8() + end + 1)
        }
        (Some(_), Some((end, '\''))) => end + 1,
        _ => 1,
    }
}

/// The tokens without what is there for tests only.
pub(crate) fn without_tests(tokens: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if !tokens[at..].iter().take(7).eq(["#", "[", "cfg", "(", "test", ")", "]"]) {
            kept.push(tokens[at].clone());
            at += 1;
            continue;
        }
        // The item ends with the first semicolon or closing brace outside of everything.
        let (mut depth, mut is_use) = (0, false);
        at += 7;
        while at < tokens.len() {
            match tokens[at].as_str() {
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => depth -= 1,
                "use" if depth == 0 => is_use = true,
                _ => {}
            }
            at += 1;
            if depth == 0 && (tokens[at - 1] == ";" || (tokens[at - 1] == "}" && !is_use)) {
                break;
            }
        }
    }
    kept
}
