//! Why a call failed, as users read it: short, on one line, without secrets.

use outlast_text::{Redactor, decode_lossy, strip, tail_chars};

/// How many characters of a hook's output or of an answer a reason quotes.
const MAX_QUOTED_CHARS: usize = 400;

/// Removes control sequences and masks secrets.
fn clean(bytes: &[u8]) -> String {
    Redactor::new(true).full(&strip(&decode_lossy(bytes, true))).into_owned()
}

/// Output as lines without control characters.
pub(crate) fn lines(bytes: &[u8]) -> String {
    let plain = |line: &str| line.chars().filter(|c| !c.is_control() || *c == '\t').collect::<String>();
    clean(bytes).lines().map(plain).collect::<Vec<_>>().join("\n")
}

/// The end of an output, on one line.
pub(crate) fn said(bytes: &[u8]) -> String {
    let text = clean(bytes);
    let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|w| !w.is_empty()).collect();
    tail_chars(&words.join(" "), MAX_QUOTED_CHARS).text.to_owned()
}

/// `what`, and after a colon the output, if there is any.
pub(crate) fn with(what: &str, bytes: &[u8]) -> String {
    match said(bytes) {
        said if said.is_empty() => what.to_owned(),
        said => format!("{what}: {said}"),
    }
}

/// An error and its causes, on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_one_line_without_colours_and_secrets() {
        let raw = b"\x1b[31mfailed\x1b[0m\r\n\tAPI_KEY=abcdefghijklmnopqrstuvwxyz0123456789 \xff\x07end\n";
        let text = said(raw);
        assert!(text.starts_with("failed API_KEY=") && text.ends_with("end"), "{text}");
        assert!(!text.contains("ghijklmnop") && !text.contains('\n') && !text.contains('\x1b'), "{text}");
        assert_eq!(with("exit code 1", b" \n"), "exit code 1");
    }

    #[test]
    fn the_end_of_what_is_said_stays() {
        let text = said(format!("{}the end", "x ".repeat(2_000)).as_bytes());
        assert!(text.ends_with("the end") && text.chars().count() <= MAX_QUOTED_CHARS);
    }
}
