//! Judges how severe a line is.
//!
//! Each line is judged by the words that compilers, test runners and servers use. A wrong guess only wastes room: it affects which lines are
//! chosen, and changes no line.

use aho_corasick::{AhoCorasick, AhoCorasickBuilder};
use std::sync::LazyLock;

/// The severity of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Severity {
    /// No problem.
    Plain,
    /// A possible problem.
    Warning,
    /// A problem.
    Error,
    /// The overall result.
    Verdict,
}

/// Judges a line.
pub(super) fn severity(line: &str) -> Severity {
    // Very long lines are minified programs or data. Only their beginning is judged.
    let line = &line[..crate::cut::boundary(line, JUDGED_BYTES)];
    if !WORTH_A_LOOK.is_match(line) {
        return Severity::Plain;
    }
    let text = line.trim();
    if is_verdict(text) {
        return Severity::Verdict;
    }
    if is_success_of_one(text) || is_probe(text) {
        return Severity::Plain;
    }
    if is_error(line, text) {
        return Severity::Error;
    }
    let mild = ["warning", "warn", "error", "errors", "failed", "fail", "failure", "fatal", "exception"];
    match words(text).any(|w| !w.in_name && matches_any(w.text, &mild) && !none_of_it(text, &w)) {
        true => Severity::Warning,
        false => Severity::Plain,
    }
}

/// How many bytes of a line are judged.
const JUDGED_BYTES: usize = 2048;

/// Most lines have none of these words and need no closer look.
static WORTH_A_LOOK: LazyLock<AhoCorasick> = LazyLock::new(|| {
    let signs = LOOK.iter().flat_map(|line| line.split('|')).filter(|sign| !sign.is_empty());
    AhoCorasickBuilder::new().ascii_case_insensitive(true).build(signs).expect("a fixed list of words")
});

/// Separated by `|`, several to a line.
const LOOK: &[&str] = &[
    "err|fail|fatal|panic|exception|traceback|caused by|went wrong|segmentation|dumped|abort|killed|terminated|undefined|cannot|",
    "can't|could not|unable to|no such file|not found|denied|refused|no space|timed out|***|not ok|warn|e  |✕|✗|✘|●|assert|",
    "critical|severe|success|succeeded|passed|test result|finished|built|exit|ran |ok|recap|tests:|suites:|compiled|added |",
    "installed|problems|downloaded|unreachable=|stopped|completed|done|total size",
];

/// A single test or step that succeeded, even if its name mentions errors.
fn is_success_of_one(text: &str) -> bool {
    let end = text.strip_suffix(']').and_then(|t| t.rsplit_once('[')).map_or(text, |(before, _)| before.trim_end());
    let ends =
        [" ok", " PASSED", " passed", " PASS", " ignored", " SKIPPED", " UP-TO-DATE", " NO-SOURCE", " succeeded", "... done", "... no"];
    let starts = [
        "✓",
        "✔",
        "√",
        "PASS ",
        "--- PASS",
        "=== RUN",
        "=== PAUSE",
        "=== CONT",
        "ok ",
        "ok\t",
        "ok: [",
        "changed: [",
        "skipping: [",
        "test_",
    ];
    let many = text.starts_with(|c: char| c.is_ascii_digit()) || text.starts_with('=');
    (ends.iter().any(|e| end.ends_with(e)) && !many)
        || (starts.iter().any(|s| text.starts_with(s)) && !text.contains("FAIL") && !text.contains("ERROR"))
}

/// A probe of a configure script, whose failure is no error.
fn is_probe(text: &str) -> bool {
    let asks = ["-- Looking for", "-- Performing Test", "-- Check", "-- Detecting", "checking "].iter().any(|s| text.starts_with(s));
    asks && !text.contains("rror:")
}

/// The beginnings of lines that report the overall result, separated by `|`.
const VERDICTS: &[&str] = &[
    "test result:|BUILD |[INFO] BUILD |Tests:|Test Suites:|Tests run:|FAILED (|error: could not compile|error: aborting|make: ***|",
    "Finished `|Finished |Finished at|PLAY RECAP|ninja: build stopped|rsync error:|FINISHED --|Successfully |",
    "Build succeeded|Build FAILED|compilation terminated|exit status|Process exited|webpack |mypy: |Success: |",
    "total size is|Downloaded: ",
];

fn is_verdict(text: &str) -> bool {
    let bare = text.trim_matches(|c: char| matches!(c, '=' | '-' | '!' | '*' | '✖' | '✔' | '+') || c.is_whitespace());
    if text == "OK" || VERDICTS.iter().flat_map(|line| line.split('|')).filter(|s| !s.is_empty()).any(|s| text.starts_with(s)) {
        return true;
    }
    // `web5 : ok=3 changed=2 unreachable=0 failed=1`
    let counts = ["failed=", "unreachable=", "failures=", "errors="];
    if counts.iter().any(|c| text.split_once(c).is_some_and(|(_, n)| n.starts_with(|d: char| matches!(d, '1'..='9')))) {
        return true;
    }
    // `3 failed, 80 passed in 1.2s`, `12 problems (3 errors, 9 warnings)`, `added 90 packages`, `Found 5 errors in 2 files`, `Ran 12 tests in 3 s`.
    let counted = [
        "failed", "passed", "error", "errors", "failures", "failure", "problems", "problem", "tests", "examples", "warnings", "packages",
        "ran",
    ];
    let is_count = |word: &LineWord<'_>| word.text.bytes().all(|b| b.is_ascii_digit());
    let first: Vec<LineWord<'_>> = words(bare).take(6).collect();
    let found = first.windows(2).any(|w| is_count(&w[0]) && w[1].at == w[0].end() + 1 && counted.contains(&w[1].text));
    let leads =
        bare.starts_with(|c: char| c.is_ascii_digit()) || ["Found ", "Ran ", "added ", "Executed "].iter().any(|s| bare.starts_with(s));
    found && leads && !bare.contains(": error") && bare.len() < 160
}

/// Texts that make a line an error wherever they stand, separated by `|`.
const FAULTS: &[&str] = &[
    "panicked at|panic: |Segmentation fault|core dumped|undefined reference to|No such file or directory|command not found|",
    "Permission denied|No space left on device|Connection refused|Internal Server Error|ERR!|: *** |(FAILED|cannot find |",
    "could not be |Could not |could not |Unable to |unable to |Cannot |npm error |Unhandled|Uncaught|ld returned |",
    "symbol not found|cannot open|fatal: |Failed to |failed: [",
];

fn is_error(line: &str, text: &str) -> bool {
    // pytest marks failures with an `E` in the first column.
    if line.starts_with("E   ")
        || [
            "● ",
            "✕ ",
            "✗ ",
            "✘ ",
            "not ok ",
            "--- FAIL",
            "FAIL\t",
            "FAIL ",
            "Traceback (most",
            "* What went wrong",
            "Caused by:",
            "caused by:",
        ]
        .iter()
        .any(|s| text.starts_with(s))
    {
        return true;
    }
    if FAULTS.iter().flat_map(|line| line.split('|')).filter(|s| !s.is_empty()).any(|s| text.contains(s)) && !is_warning(text) {
        return true;
    }
    if matches!(text, "Killed" | "Aborted" | "Terminated") || is_at_a_place(text) {
        return true;
    }
    !is_warning(text) && words(text).any(|word| is_error_word(text, &word))
}

/// `file.go:12:5: message`, the only form of an error that some compilers print.
fn is_at_a_place(text: &str) -> bool {
    let mut parts = text.splitn(4, ':');
    let (file, line, column, said) = (parts.next(), parts.next(), parts.next(), parts.next());
    let is_number = |part: Option<&str>| part.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    let is_file = file.is_some_and(|f| f.contains('.') && !f.contains(char::is_whitespace));
    let mild = |said: &str| ["note:", "warning:", "info:", "remark:", "help:"].iter().any(|m| said.trim_start().starts_with(m));
    is_file && is_number(line) && is_number(column) && said.is_some_and(|s| s.starts_with(' ') && !mild(s))
}

/// Whether a line calls itself a warning. It is one even if it mentions errors.
fn is_warning(text: &str) -> bool {
    let mut first = words(text).filter(|w| w.text.bytes().any(|b| b.is_ascii_alphabetic())).take(12);
    first.any(|w| matches_any(w.text, &["warning", "warn"]) && !w.in_name)
        && !words(text).any(|w| matches!(w.text, "ERROR" | "error" | "Error") && w.next == Some(':') && !w.in_name)
}

/// Whether a word makes its line an error, by its spelling and its neighbours.
fn is_error_word(text: &str, word: &LineWord<'_>) -> bool {
    if word.in_name || none_of_it(text, word) {
        return false;
    }
    match word.text {
        "ERROR" | "FATAL" | "CRITICAL" | "SEVERE" | "FAILED" | "FAILURE" | "FAIL" | "FAILURES" | "ERRORS" => true,
        "error" | "Error" | "errors" | "Errors" => {
            let column = text[..word.at].ends_with("  ") && text[word.end()..].starts_with("  ");
            let code = text[word.end()..].strip_prefix(' ').is_some_and(|rest| {
                let letters = rest.bytes().take_while(u8::is_ascii_uppercase).count();
                (1..=3).contains(&letters) && rest.as_bytes().get(letters).is_some_and(u8::is_ascii_digit)
            });
            matches!(word.next, Some(':' | '[')) || column || code || (word.at == 0 && word.next.is_none())
        }
        "fatal" | "failed" | "failure" | "failures" | "Failed" | "Failure" | "Failures" => {
            matches!(word.next, Some(':')) || text.ends_with(word.text) || word.at == 0 || matches!(word.text, "failed" | "Failed")
        }
        // `TypeError: …`, or `java.lang.IllegalStateException` at the end of a name.
        _ => {
            let names = word.text.len() > 6 && (word.text.ends_with("Error") || word.text.ends_with("Exception"));
            names && matches!(word.next, Some(':') | None) && word.text.starts_with(|c: char| c.is_ascii_uppercase())
        }
    }
}

/// `0 errors`, `no failures`, `errors: 0`, `failed=0`, `without error`.
fn none_of_it(text: &str, word: &LineWord<'_>) -> bool {
    let before = text[..word.at].trim_end();
    let before = before.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or("");
    let after = text[word.end()..].trim_start_matches([':', '=', ' ']);
    let zero = after.starts_with('0')
        && !after[1..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '.')
        && after.len() < text[word.end()..].len();
    zero || matches_any(before, &["0", "no", "without", "any", "zero", "if"])
}

struct LineWord<'a> {
    text: &'a str,
    at: usize,
    /// The character after it, unless that is a blank or the end.
    next: Option<char>,
    /// Whether it is part of a path, an option or an identifier.
    in_name: bool,
}

impl LineWord<'_> {
    fn end(&self) -> usize {
        self.at + self.text.len()
    }
}

/// The words of a line: letters and digits, with their surroundings.
fn words(text: &str) -> impl Iterator<Item = LineWord<'_>> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + text[at..].find(is_word)?;
        let end = text[start..].find(|c| !is_word(c)).map_or(text.len(), |n| start + n);
        at = end;
        let before = text[..start].chars().next_back();
        let mut after = text[end..].chars();
        let (next, then) = (after.next(), after.next());
        let joined = matches!(next, Some('/' | '\\' | '-' | '@' | '='))
            || (matches!(next, Some('.' | ':')) && then.is_some_and(|c| is_word(c) || c == ':'));
        // The last part of a dotted name is its own word: `java.lang.IllegalStateException`.
        let in_name = matches!(before, Some('/' | '\\' | '-' | '@' | '`')) || joined;
        Some(LineWord { text: &text[start..end], at: start, next: next.filter(|c| !c.is_whitespace()), in_name })
    })
}

fn matches_any(word: &str, any: &[&str]) -> bool {
    any.iter().any(|w| word.eq_ignore_ascii_case(w))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_from_what_only_sounds_like_them() {
        let errors = [
            "error[E0308]: mismatched types",
            "src/main.c:12:5: error: expected ';' before 'return'",
            "main.cpp:1:10: fatal error: missing.h: No such file or directory",
            "E       assert 1 == 2",
            "FAILED tests/test_a.py::test_b - assert 1 == 2",
            "Traceback (most recent call last):",
            "TypeError: 'NoneType' object is not subscriptable",
            "Exception in thread \"main\" java.lang.IllegalStateException: no",
            "java.lang.NullPointerException",
            "npm error code ERESOLVE",
            "npm ERR! missing script: build",
            "make[1]: *** [Makefile:12: all] Error 2",
            "* What went wrong:",
            "> Task :app:test FAILED",
            "thread 'main' panicked at src/main.rs:2:5:",
            "panic: runtime error: index out of range",
            "--- FAIL: TestRead (0.00s)",
            "src/a.ts:1:7 - error TS2322: Type 'string' is not assignable",
            "src/a.ts(1,7): error TS2322: Type",
            "  12:5  error  'x' is never used  no-unused-vars",
            "Segmentation fault (core dumped)",
            "[ERROR] Failed to execute goal",
            "2026-01-01 12:00:00 ERROR push: row 3",
            "/usr/bin/ld: main.o: undefined reference to `f'",
            "Internal Server Error: /product/41",
            "fatal: [web5]: FAILED! => {}",
            "bash: frob: command not found",
            "    ✕ is 0 for an unknown id (3 ms)",
            "  ● stock › find › is 0 for an unknown id",
            "test cut::tests::a_tail ... FAILED",
            "not ok 3 - reads",
            "Killed",
            "bufio/bufio_test.go:1669:41: undefined: DefaultBufSize",
        ];
        for line in errors {
            assert_eq!(severity(line), Severity::Error, "{line}");
        }
        let plain = [
            "test error_handling ... ok",
            "tests/test_errors.py::test_error PASSED [ 12%]",
            "   Compiling thiserror v2.0.21",
            "cc -c -Werror -o src/error.o src/error.c",
            "-- Performing Test HAVE_FSEEKO - Failed",
            "checking for pthread_error... no",
            "GET /errors/12 HTTP/1.1 200",
            "row 3 stored, 0 errors so far",
            "ok: [web1] => (item=error)",
            "✓ handles an error response",
            "--- PASS: TestError (0.00s)",
            "failed=0 unreachable=0",
            "Compiling src/failure.c",
            "",
        ];
        for line in plain {
            assert_eq!(severity(line), Severity::Plain, "{line}");
        }
        for line in ["src/a.c:1:2: warning: unused variable 'error' [-Wunused-variable]", "warning: unused import", "WARN retrying"] {
            assert_eq!(severity(line), Severity::Warning, "{line}");
        }
        let verdicts = [
            "test result: FAILED. 3 passed; 1 failed; 0 ignored",
            "test result: ok. 3 passed; 0 failed",
            "========= 5 failed, 1329 passed, 8 skipped in 23.11s =========",
            "BUILD FAILED in 9s",
            "BUILD SUCCESSFUL",
            "[INFO] BUILD FAILURE",
            "error: could not compile `service` (bin \"service\") due to 9 previous errors",
            "Found 210 errors in 31 files (checked 33 source files)",
            "✖ 330 problems (200 errors, 130 warnings)",
            "70 examples, 2 failures",
            "Ran 102 tests in 0.123s",
            "added 90 packages in 3s",
            "web5   : ok=3    changed=2    unreachable=0    failed=1    skipped=0",
        ];
        for line in verdicts {
            assert_eq!(severity(line), Severity::Verdict, "{line}");
        }
    }
}
