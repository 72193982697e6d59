//! The file with variables of an agent, such as the key of its model's provider.

use outlast_client::EnvVar;
use std::path::{Path, PathBuf};

/// The longest file that is read. It holds a few keys; a longer one is another file that was named by mistake.
const MAX_ENV_FILE_BYTES: u64 = 64 << 10;

/// Why the file with an agent's variables cannot be used. No message has a value in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvFileError {
    /// It cannot be read.
    #[error("cannot read the agent's env_file {}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: std::io::Error,
    },
    /// It is too long.
    #[error("the agent's env_file {} is longer than {MAX_ENV_FILE_BYTES} bytes", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// A line makes no sense.
    #[error("line {line} of the agent's env_file {} is not NAME=value", path.display())]
    BadLine {
        /// The file.
        path: PathBuf,
        /// Which line, counted from 1.
        line: usize,
    },
}

/// Reads the file again for every start of an agent, so that a new key counts from the next start on.
pub(super) fn read_env_file(path: &Path) -> Result<Vec<EnvVar>, EnvFileError> {
    let unreadable = |error| EnvFileError::Unreadable { path: path.to_owned(), error };
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut text = String::new();
    std::io::Read::read_to_string(&mut std::io::Read::take(file, MAX_ENV_FILE_BYTES + 1), &mut text).map_err(unreadable)?;
    if text.len() as u64 > MAX_ENV_FILE_BYTES {
        return Err(EnvFileError::TooLong { path: path.to_owned() });
    }
    parse_env_file(&text).map_err(|line| EnvFileError::BadLine { path: path.to_owned(), line })
}

/// The variables in a text: `NAME=value` on each line, with an optional `export` before and optional quotes around the value. Blank lines and those that begin
/// with `#` say nothing. The number of the first line that makes no sense is the error.
fn parse_env_file(text: &str) -> Result<Vec<EnvVar>, usize> {
    let mut variables = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").map_or(line, str::trim_start);
        let (name, value) = line.split_once('=').ok_or(at + 1)?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(is_name) || name.starts_with(|c: char| c.is_ascii_digit()) || value.contains('\0') {
            return Err(at + 1);
        }
        variables.push(EnvVar { name: name.into(), value: unquoted(value).into() });
    }
    Ok(variables)
}

/// What is between quotes, if the value has the same one at both ends. There are no escapes.
fn unquoted(value: &str) -> &str {
    let between = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
    between('"').or_else(|| between('\'')).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Vec<(String, String)>, usize> {
        let pair = |v: EnvVar| (v.name.to_lossy().into_owned(), v.value.to_lossy().into_owned());
        parse_env_file(text).map(|all| all.into_iter().map(pair).collect())
    }

    #[test]
    fn lines_are_names_and_values() {
        let text = "# keys\n\nOPENAI_API_KEY=sk-1=2\n export A='b c' \r\nB=\"\"\nC=it's\n";
        let want = [("OPENAI_API_KEY", "sk-1=2"), ("A", "b c"), ("B", ""), ("C", "it's")];
        assert_eq!(parsed(text), Ok(want.map(|(a, b)| (a.to_owned(), b.to_owned())).to_vec()));
    }

    #[test]
    fn the_first_line_that_makes_no_sense_is_named_without_its_value() {
        for (text, line) in [("A=1\nsecret", 2), ("=x", 1), ("1A=x", 1), ("A B=x", 1), ("A=\0", 1)] {
            assert_eq!(parsed(text), Err(line), "{text:?}");
        }
        let error = EnvFileError::BadLine { path: "/f".into(), line: 2 };
        assert_eq!(error.to_string(), "line 2 of the agent's env_file /f is not NAME=value");
    }

    #[test]
    fn a_file_that_is_missing_or_too_long_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("env");
        assert!(matches!(read_env_file(&file), Err(EnvFileError::Unreadable { .. })));
        std::fs::write(&file, "#".repeat(MAX_ENV_FILE_BYTES as usize + 1)).unwrap();
        assert!(matches!(read_env_file(&file), Err(EnvFileError::TooLong { .. })));
    }
}
