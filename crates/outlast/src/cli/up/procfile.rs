//! A Procfile: lines of `name: command`.

use super::super::Failure;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// A parsed Procfile.
#[derive(Debug)]
pub(super) struct Procfile {
    /// The path as the user gave it.
    given: String,
    /// Its whole path.
    pub(super) path: PathBuf,
    pub(super) entries: Vec<ProcfileEntry>,
}

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProcfileEntry {
    pub(super) line: usize,
    pub(super) name: String,
    pub(super) command: String,
}

impl Procfile {
    pub(super) fn read(given: &OsStr, path: &Path) -> Result<Self, Failure> {
        let shown = given.to_string_lossy().into_owned();
        let refused = |what: String| Failure::refused(what, "a line is `name: command`, such as `web: npm start`");
        let cannot = |e: std::io::Error| {
            Failure::refused(
                format!("cannot read {shown}: {e}"),
                "`outlast up FILE` reads FILE, `outlast up` the file Procfile in the current directory",
            )
        };
        let text = std::fs::read(path).map_err(cannot)?;
        // The same file has the same label, however it was named.
        let path = path.canonicalize().map_err(cannot)?;
        let entries = parse(&text).map_err(|Mistake { line, what }| refused(format!("{shown}:{line}: {what}")))?;
        if entries.is_empty() {
            return Err(refused(format!("{shown} has no line that names a command")));
        }
        Ok(Self { given: shown, path, entries })
    }

    /// The file as a user can name it from here: as it was given, if `--label procfile=` finds it by that.
    pub(super) fn typed(&self) -> String {
        let is_found = Path::new(&self.given).canonicalize().is_ok_and(|path| path == self.path);
        if is_found { self.given.clone() } else { self.path.to_string_lossy().into_owned() }
    }

    /// The directory in which its commands run.
    pub(super) fn dir(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    /// The position of a line, in the form that compilers use.
    pub(super) fn at(&self, line: usize) -> String {
        format!("{}:{line}", self.given)
    }
}

/// What is wrong with a line.
#[derive(Debug, PartialEq, Eq)]
struct Mistake {
    line: usize,
    what: String,
}

fn parse(text: &[u8]) -> Result<Vec<ProcfileEntry>, Mistake> {
    let mut entries: Vec<ProcfileEntry> = Vec::new();
    for (line, bytes) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        let mistake = |what: String| Err(Mistake { line, what });
        let Ok(text) = std::str::from_utf8(bytes) else { return mistake("it is not UTF-8 text".into()) };
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let Some((name, command)) = text.split_once(':') else { return mistake("there is no colon between a name and a command".into()) };
        let command = command.trim();
        // The engine refuses a name that looks like a flag, but only once the lines before it have been started.
        if name.is_empty() || name.starts_with('-') || !name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)) {
            return mistake(format!("{name:?} cannot be a name, which has letters, digits, _ and - and does not begin with -"));
        }
        if command.is_empty() {
            return mistake(format!("{name} has no command"));
        }
        if let Some(first) = entries.iter().find(|entry| entry.name == name) {
            return mistake(format!("{name} is already defined in line {}", first.line));
        }
        entries.push(ProcfileEntry { line, name: name.into(), command: command.into() });
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_names_and_commands() {
        let text = b"# what the shop needs\r\n\nweb:  npm start -- --port :80 \r\n  worker_2-b:./work\n";
        let entry = |line, name: &str, command: &str| ProcfileEntry { line, name: name.into(), command: command.into() };
        assert_eq!(parse(text), Ok(vec![entry(3, "web", "npm start -- --port :80"), entry(4, "worker_2-b", "./work")]));
        assert_eq!(parse(b""), Ok(Vec::new()));
    }

    #[test]
    fn a_mistake_is_told_with_its_line() {
        for (text, line, says) in [
            ("web: x\nnpm start", 2, "no colon"),
            ("\n\na b: x", 3, "\"a b\" cannot be a name"),
            ("-web: x", 1, "\"-web\" cannot be a name"),
            (": x", 1, "\"\" cannot be a name"),
            ("wéb: x", 1, "cannot be a name"),
            ("web: ", 1, "web has no command"),
            ("web: x\ndb: y\nweb: z", 3, "web is already defined in line 1"),
        ] {
            let mistake = parse(text.as_bytes()).unwrap_err();
            assert!(mistake.line == line && mistake.what.contains(says), "{text:?}: {mistake:?}");
        }
        assert_eq!(parse(b"web: x\n\xff: y").unwrap_err().line, 2);
    }
}
