//! What a report must not have, taken out of texts.

use outlast_text::Redactor;
use std::borrow::Cow;
use std::path::Path;

/// What stands for a value that is not shown.
pub(super) const MASKED: &str = "***";

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
        self.without_home(&self.redact.full(&without_paths(&without_quotes(text))))
    }

    /// A command line.
    pub(super) fn command(&self, text: &str) -> String {
        self.without_home(&self.redact.full(&self.redact.command_line(&without_paths(text))))
    }

    /// An address, or what was meant to be one: its host.
    pub(super) fn address(&self, text: &str) -> String {
        let text = text.trim();
        let (scheme, rest) = text.split_once("://").map_or(("", text), |(scheme, rest)| (scheme, rest));
        let host = host_of(rest);
        // `https:/x` has no host.
        let is_host = |host: &str| host.contains('.') || host == "localhost" || host.starts_with("localhost:") || host.starts_with('[');
        match (scheme, is_host(host)) {
            (_, false) => MASKED.to_owned(),
            ("", true) => format!("{host}/{MASKED}"),
            (scheme, true) => format!("{scheme}://{host}/{MASKED}"),
        }
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

/// The host of an address without its scheme.
fn host_of(address: &str) -> &str {
    let host = address.split(['/', '?', '#']).next().unwrap_or_default();
    host.rsplit('@').next().unwrap_or_default()
}

/// The text with only scheme and host of each address: path and query of a webhook are often its secret. Also those of well-known webhooks
/// without a scheme, as they are written for `curl`.
fn without_paths(text: &str) -> String {
    let is_scheme = |b: u8| b.is_ascii_alphanumeric() || b == b'+';
    let ends_address = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '>' | '|' | ';' | ')');
    let (mut shown, mut rest) = (String::new(), text);
    while let Some((before, address)) = rest.split_once("://") {
        let end = address.find(ends_address).unwrap_or(address.len());
        shown += &without_hooks(before);
        shown += "://";
        match before.bytes().next_back().is_some_and(is_scheme) {
            true => shown += &format!("{}/{MASKED}", host_of(&address[..end])),
            false => shown += &address[..end],
        }
        rest = &address[end..];
    }
    shown + &without_hooks(rest)
}

/// The same for addresses without a scheme whose host or path says that they are webhooks.
fn without_hooks(text: &str) -> String {
    let ends_word = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '<' | '>' | '|' | ';' | '(' | ')' | '=' | ',');
    let word = |word: &str| match word.split_once('/') {
        Some((host, path))
            if host.contains('.') && (host.starts_with("hooks.") || path.contains("webhook") || host.contains("webhook")) =>
        {
            format!("{host}/{MASKED}")
        }
        _ => word.to_owned(),
    };
    let end = |text: &str| text.find(ends_word).map_or(text.len(), |at| at + text[at..].chars().next().map_or(0, char::len_utf8));
    let (mut shown, mut rest) = (String::new(), text);
    while !rest.is_empty() {
        let (one, more) = rest.split_at(end(rest));
        let body = one.trim_end_matches(ends_word);
        shown += &word(body);
        shown += &one[body.len()..];
        rest = more;
    }
    shown
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
    fn of_an_address_only_the_host_is_shown() {
        let mask = Mask::new(None);
        for (command, want) in [
            ("curl -d x https://hooks.slack.com/services/T0/B0/s3cret -s", "curl -d x https://hooks.slack.com/*** -s"),
            ("curl -d x 'hooks.slack.com/services/T0/B0/s3cret' -s", "curl -d x 'hooks.slack.com/***' -s"),
            ("curl https://discord.com/api/webhooks/1/s3cret;ls a.d/b", "curl https://discord.com/***;ls a.d/b"),
            ("curl discord.com/api/webhooks/1/s3cret | cat", "curl discord.com/*** | cat"),
            ("make -C src/a.b", "make -C src/a.b"),
        ] {
            assert_eq!((mask.command(command), mask.text(command)), (want.to_owned(), want.to_owned()));
        }
        for (url, want) in [
            (" hooks.slack.com/services/T0 ", "hooks.slack.com/***"),
            ("htp://u:p@hooks.slack.com:8/T0?x", "htp://hooks.slack.com:8/***"),
            ("localhost/x", "localhost/***"),
            ("s3cret", "***"),
            ("https:/s3cret", "***"),
        ] {
            assert_eq!(mask.address(url), want);
        }
    }

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
