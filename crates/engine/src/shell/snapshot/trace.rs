//! The files that login files depend on, from the trace of the shell that runs them.
//!
//! The shell runs with its trace on, which names each sourced file and each file or directory that was tested. Nothing else of it is kept,
//! because it shows every value. The parser is generous: one file too many costs a needless `stat`, one too few a stale snapshot.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Longer lines are values or here-documents. Their rest is not parsed.
const LINE_LIMIT: usize = 16 * 1024;
/// How many files are recorded.
const FILES_LIMIT: usize = 1000;

/// Reads a trace.
pub(super) struct Trace {
    line: Vec<u8>,
    dirs: Vec<PathBuf>,
    sourced: BTreeSet<Vec<u8>>,
    tested: BTreeSet<Vec<u8>>,
}

impl Trace {
    /// A trace of a shell that starts in `cwd`.
    pub(super) fn new(cwd: &Path) -> Trace {
        Trace { line: Vec::new(), dirs: vec![cwd.to_owned()], sourced: BTreeSet::new(), tested: BTreeSet::new() }
    }

    /// Takes the next bytes.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = LINE_LIMIT.saturating_sub(self.line.len());
            self.line.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                self.read_line(&line);
            }
        }
    }

    /// The files that the snapshot depends on: those that were sourced, and those that were tested and do not exist now.
    pub(super) fn files(&self, home: &Path, path: &str) -> Vec<PathBuf> {
        let mut files = BTreeSet::new();
        for word in &self.sourced {
            let wanted = Path::new(OsStr::from_bytes(word));
            if wanted.is_absolute() {
                files.insert(wanted.to_owned());
                continue;
            }
            // What a relative path meant depends on the shell's directory and PATH at that time, so all places that it may have meant
            // count.
            let on_path = path.split(':').filter(|_| !word.contains(&b'/')).map(Path::new);
            let places = self.dirs.iter().map(PathBuf::as_path).chain(on_path);
            files.extend(places.map(|place| place.join(wanted)).filter(|file| file.exists()));
        }
        for word in &self.tested {
            let wanted = Path::new(OsStr::from_bytes(word));
            if wanted.is_absolute() && !is_passing(wanted, home) && !wanted.exists() {
                files.insert(wanted.to_owned());
            }
        }
        files.retain(|file| !file.starts_with("/dev") && !file.starts_with("/proc"));
        files.into_iter().take(FILES_LIMIT).collect()
    }

    fn read_line(&mut self, line: &[u8]) {
        let words = words(line);
        // A traced line begins with one plus for each level, unless login files set another prompt. Then the command may begin at any word.
        for (at, word) in words.iter().enumerate() {
            let mut next = words[at + 1..].iter().filter(|word| *word != b"--");
            let Some(next) = next.next().filter(|next| !next.is_empty()) else {
                break;
            };
            match word.as_slice() {
                b"." | b"source" if !next.starts_with(b"-") => remember(&mut self.sourced, next),
                b"cd" | b"pushd" if self.dirs.len() < 64 => {
                    let last = self.dirs.last().cloned().unwrap_or_default();
                    self.dirs.push(last.join(OsStr::from_bytes(next)));
                }
                b"-d" | b"-e" | b"-f" | b"-h" | b"-L" | b"-r" | b"-s" | b"-x" => {
                    remember(&mut self.tested, next);
                }
                _ => {}
            }
        }
    }
}

fn remember(words: &mut BTreeSet<Vec<u8>>, word: &[u8]) {
    if words.len() < FILES_LIMIT {
        words.insert(word.to_vec());
    }
}

/// Whether files come and go there all the time, so that a new one means nothing.
fn is_passing(path: &Path, home: &Path) -> bool {
    const PASSING: [&str; 6] = ["/dev", "/proc", "/run", "/sys", "/tmp", "/var"];
    let is_pattern = path.as_os_str().as_bytes().contains(&b'*');
    is_pattern || (!path.starts_with(home) && PASSING.iter().any(|passing| path.starts_with(passing)))
}

/// Splits a traced command into words, and removes bash's quoting. An open quote, as in the first line of a multi-line value, ends the
/// words.
fn words(line: &[u8]) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut bytes = line.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b' ' | b'\t' | b'\n' => words.extend(word.take()),
            b'\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match bytes.next() {
                        Some(b'\'') => break,
                        Some(byte) => word.push(byte),
                        None => return words,
                    }
                }
            }
            b'$' if bytes.peek() == Some(&b'\'') => {
                bytes.next();
                let Some(text) = ansi_quoted(&mut bytes) else {
                    return words;
                };
                word.get_or_insert_default().extend(text);
            }
            b'\\' => word.get_or_insert_default().extend(bytes.next()),
            byte => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word);
    words
}

/// The rest of a `$'…'` word. Bash prints bytes this way that it cannot show.
fn ansi_quoted(bytes: &mut std::iter::Peekable<impl Iterator<Item = u8>>) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    loop {
        match bytes.next()? {
            b'\'' => return Some(text),
            b'\\' => text.push(match bytes.next()? {
                b'a' => 7,
                b'b' => 8,
                b't' => b'\t',
                b'n' => b'\n',
                b'v' => 11,
                b'f' => 12,
                b'r' => b'\r',
                b'E' | b'e' => 27,
                digit @ b'0'..=b'7' => {
                    let mut value = u32::from(digit - b'0');
                    for _ in 0..2 {
                        let Some(digit) = bytes.next_if(|byte| (b'0'..=b'7').contains(byte)) else {
                            break;
                        };
                        value = value * 8 + u32::from(digit - b'0');
                    }
                    value as u8
                }
                other => other,
            }),
            byte => text.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sourced_files_are_found_whatever_their_names() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path();
        fs::create_dir(home.join("sub")).unwrap();
        for name in ["rel", "sub/deep", "plain"] {
            fs::write(home.join(name), "").unwrap();
        }
        let mut trace = Trace::new(home);
        let text = "+ . /a/b\n++ source '/with blank/it'\\''s'\n+ . $'/tab\\there/\\303\\251'\n\
            + . ./rel\n+ cd sub\n+ . ./deep\n+ . plain\n+ source /dev/fd/63\n+ echo . -x\n\
            ++ builtin source -- /c\nbash:3: . /prompted\n+ A='first\n. /in/a/value\n";
        // In pieces of every size, since a pipe cuts where it likes.
        for piece in text.as_bytes().chunks(7) {
            trace.feed(piece);
        }
        let files = trace.files(home, "/usr/bin");
        let expected = ["/a/b", "/with blank/it's", "/tab\there/é", "/c", "/prompted", "/in/a/value"];
        for path in expected.map(PathBuf::from) {
            assert!(files.contains(&path), "{path:?} in {files:?}");
        }
        for path in ["rel", "sub/deep", "plain"] {
            assert!(files.iter().any(|file| file.canonicalize().ok() == home.join(path).canonicalize().ok()), "{path}");
        }
        assert_eq!(files.len(), expected.len() + 3, "{files:?}");
    }

    #[test]
    fn what_was_looked_for_counts_while_it_is_absent() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path();
        fs::write(home.join("there"), "").unwrap();
        let mut trace = Trace::new(home);
        let line = |path: &Path| format!("+ '[' -f {} ']'\n", path.display());
        trace.feed(line(&home.join("there")).as_bytes());
        trace.feed(line(&home.join("absent")).as_bytes());
        trace.feed(b"+ [[ -d /nowhere/bin ]]\n+ test -r /run/nowhere\n+ '[' -r '/etc/x/*.sh' ']'\n");
        let files = trace.files(home, "/usr/bin");
        assert_eq!(files, [PathBuf::from("/nowhere/bin"), home.join("absent")]);
    }

    #[test]
    fn a_line_without_end_takes_no_room() {
        let mut trace = Trace::new(Path::new("/"));
        for _ in 0..100 {
            trace.feed(&[b'x'; 4096]);
        }
        assert!(trace.line.len() <= LINE_LIMIT);
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut trace = Trace::new(Path::new("/"));
            trace.feed(&bytes);
            trace.feed(b"\n");
        }
    }
}
