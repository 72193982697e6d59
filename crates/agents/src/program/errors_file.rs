//! The file with an agent's standard error, and lines that are quoted from it.

use std::path::Path;

/// How much of the end of a file is looked through for its last line.
const LAST_LINE_BYTES: u64 = 4 << 10;
/// How many characters of a line are quoted in a sentence for people.
const MAX_QUOTED_CHARS: usize = 300;

/// Empties a file to which a program appends.
pub(super) fn empty_if_longer(file: &Path, most_bytes: u64) {
    if std::fs::metadata(file).is_ok_and(|meta| meta.len() > most_bytes) {
        // It is looked at again in a while; the file is for people who look for a reason, and nothing depends on it.
        let _later = std::fs::OpenOptions::new().write(true).open(file).and_then(|file| file.set_len(0));
    }
}

/// The last line of a file that says something, short and printable. What is before `from` is not looked at, unless the file was emptied since.
pub(super) fn last_line(file: &Path, from: u64) -> Option<String> {
    use std::io::{Read as _, Seek as _, SeekFrom};
    let mut file = std::fs::File::open(file).ok()?;
    let length = file.metadata().ok()?.len();
    let from = if from > length { 0 } else { from };
    file.seek(SeekFrom::Start(length.saturating_sub(LAST_LINE_BYTES).max(from))).ok()?;
    let mut bytes = Vec::new();
    file.take(LAST_LINE_BYTES).read_to_end(&mut bytes).ok()?;
    last_line_of(&String::from_utf8_lossy(&bytes))
}

/// The last line of a text that says something, short and printable. Below an error, Node prints a stack and its own version: then the error is meant.
pub(crate) fn last_line_of(text: &str) -> Option<String> {
    let mut lines = text.lines().rev().map(|line| one_line(line, MAX_QUOTED_CHARS)).filter(|line| !line.is_empty());
    let last = lines.next()?;
    match last.starts_with("Node.js v") {
        true => lines.find(|line| line.contains("Error: ") || line.contains("Error [")).or(Some(last)),
        false => Some(last),
    }
}

/// A text on one line: control characters and runs of blanks become one blank, and what is too long is cut with an ellipsis.
pub(crate) fn one_line(text: &str, most_chars: usize) -> String {
    // What cannot be shown is not looked at: a title may be as long as a message.
    let start: String = text.chars().take(most_chars * 2 + 1).map(|c| if c.is_control() { ' ' } else { c }).collect();
    let line = start.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_cut = line.chars().count() > most_chars || start.chars().count() > most_chars * 2;
    if is_cut { line.chars().take(most_chars.saturating_sub(1)).chain(['…']).collect() } else { line }
}

#[cfg(test)]
mod tests {
    use super::super::own_file;
    use super::*;

    #[test]
    fn a_line_is_short_and_has_nothing_in_it_that_moves_a_cursor() {
        assert_eq!(one_line("a\x1b[2J\tb\r\nc", 80), "a [2J b c");
        assert_eq!((one_line("abcd", 4), one_line("abcde", 4)), ("abcd".into(), "abc…".into()));
        assert_eq!(one_line(&"x".repeat(1 << 20), 4), "xxx…");
        assert_eq!(one_line(&" ".repeat(1 << 10), 4), "…");
    }

    #[test]
    fn the_last_line_that_says_something_is_quoted() {
        assert_eq!(last_line_of("first\nsecond\n \n\n").as_deref(), Some("second"));
        assert_eq!(last_line_of("\n\n"), None);
        let node = "file.mjs:20\n  ^^^\nSyntaxError: no export\n    at main (x.js:1:2) {\n  code: 'X'\n}\n\nNode.js v20.20.2\n";
        assert_eq!(last_line_of(node).as_deref(), Some("SyntaxError: no export"));
        assert_eq!(last_line_of("killed\nNode.js v20.20.2").as_deref(), Some("Node.js v20.20.2"));
    }

    #[test]
    fn a_file_with_errors_is_bounded_and_what_earlier_agents_wrote_is_not_quoted() {
        use std::io::Write as _;
        let dir = tempfile::tempdir().unwrap();
        let path = own_file(dir.path(), "errors").unwrap();
        let mut writer = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        writer.write_all(b"of an earlier agent\n").unwrap();
        assert_eq!(last_line(&path, 0).as_deref(), Some("of an earlier agent"));
        assert_eq!(last_line(&path, 20), None);
        empty_if_longer(&path, 20);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 20);
        empty_if_longer(&path, 19);
        writer.write_all(b"new\n").unwrap();
        assert_eq!((std::fs::read(&path).unwrap(), last_line(&path, 20)), (b"new\n".to_vec(), Some("new".into())));
    }
}
