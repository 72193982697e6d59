//! What a report must not have, taken out of texts.

use outlast_text::Redactor;
use std::borrow::Cow;
use std::path::Path;

/// Masks secrets, whatever the configuration says, and the user's home directory.
pub(super) struct Mask {
    redact: Redactor,
    home: Option<String>,
}

impl Mask {
    pub(super) fn new(home: Option<&Path>) -> Self {
        let home = home.and_then(Path::to_str).filter(|home| home.len() > 1).map(|home| home.trim_end_matches('/').to_owned());
        Self { redact: Redactor::new(true), home }
    }

    /// Text of ours, such as a log or a check.
    pub(super) fn text(&self, text: &str) -> String {
        self.without_home(&self.redact.full(&without_quotes(text)))
    }

    /// A command line.
    pub(super) fn command(&self, text: &str) -> String {
        self.without_home(&self.redact.full(&self.redact.command_line(text)))
    }

    /// The words of a command, of which one may say that the next is a secret.
    pub(super) fn arguments(&self, words: &[&str]) -> Vec<String> {
        let words: Vec<Cow<'_, str>> = words.iter().map(|word| Cow::Borrowed(*word)).collect();
        self.redact.arguments(&words).into_iter().map(Cow::into_owned).collect()
    }

    fn without_home(&self, text: &str) -> String {
        match &self.home {
            Some(home) => text.replace(home.as_str(), "~"),
            None => text.to_owned(),
        }
    }
}

/// How a message of the TOML parser begins. After the place, a bar stands before the line that is wrong.
const PARSE_ERROR: &str = "TOML parse error at line ";

/// The text without the lines of the configuration that messages of its parser quote: a secret in half a line may not be recognised.
fn without_quotes(text: &str) -> String {
    let line = |line: &str| match line.split_once(PARSE_ERROR) {
        Some((before, after)) => {
            let place = after.split('|').next().unwrap_or_default().trim_end();
            format!("{before}{PARSE_ERROR}{place} …\n")
        }
        None => line.to_owned(),
    };
    text.split_inclusive('\n').map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_and_the_home_directory_are_masked() {
        let mask = Mask::new(Some(Path::new("/home/alice/")));
        let command = "curl -H 'Authorization: Bearer ghp_0123456789abcdefghijklmnopqrstuvwxyz' PASSWORD=hunter22 /home/alice/x";
        let masked = mask.command(command);
        assert!(!masked.contains("ghijkl") && !masked.contains("hunter22") && !masked.contains("alice"), "{masked}");
        assert!(masked.starts_with("curl -H") && masked.ends_with("~/x"), "{masked}");
        assert_eq!(mask.text("api_key = \"0123456789\""), mask.redact.full("api_key = \"0123456789\""));
        assert!(!mask.text("api_key = \"0123456789\"").contains("0123456789"));
        let quoted = "cannot read c: TOML parse error at line 2, column 7   | 2 | url = \"h   |       ^ invalid; left\nnext\n";
        assert_eq!(mask.text(quoted), "cannot read c: TOML parse error at line 2, column 7 …\nnext\n");
    }
}
