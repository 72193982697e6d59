//! Output in pieces, made text for readers.

use outlast_text::{Decoder, Redactor, Stripper};

/// Makes text for readers out of a stream: decoded, without escape sequences, secrets masked. Masks need whole lines, so an unfinished one waits.
pub(crate) struct Render {
    command: String,
    redact: Redactor,
    decoder: Decoder,
    stripper: Stripper,
    /// Text that is not judged yet.
    held: String,
    /// How much of the masked form of `held` is on the screen already.
    shown: String,
    /// Whether the held text has been looked at since it grew.
    asked: bool,
}

/// An unfinished line, or a key block, longer than this is shown in parts.
pub(crate) const LONGEST: usize = 64 << 10;

impl Render {
    pub(crate) fn new(command: &str, redact: Redactor) -> Self {
        Self {
            command: command.to_owned(),
            redact,
            decoder: Decoder::new(),
            stripper: Stripper::new(),
            held: String::new(),
            shown: String::new(),
            asked: false,
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) -> String {
        let text = self.decoder.push(bytes);
        self.held += &self.stripper.push(&text);
        self.asked = false;
        match self.whole() {
            Some(end) => self.show(end),
            None => String::new(),
        }
    }

    /// Whether something waits to be shown.
    pub(crate) fn waits(&self) -> bool {
        !self.held.is_empty() && !self.asked
    }

    /// Whether a line that has come is not shown yet.
    pub(crate) fn holds_a_line(&self) -> bool {
        self.held.contains('\n')
    }

    /// Up to where the held text can be judged: behind a line's end, or a redraw's, unless a private key is open.
    fn whole(&self) -> Option<usize> {
        let end = self.held.rfind(['\n', '\r']).map(|i| i + 1);
        let end = match self.held.find("-----BEGIN ") {
            Some(begin) if !self.held[begin..].contains("-----END ") => {
                end.filter(|e| *e <= begin).or(self.held[..begin].rfind('\n').map(|i| i + 1))
            }
            _ => end,
        };
        if self.held.len() > LONGEST { Some(end.filter(|e| *e > 0).unwrap_or(self.held.len())) } else { end.filter(|e| *e > 0) }
    }

    /// The held text up to `end`, masked, without what the screen has already.
    fn show(&mut self, end: usize) -> String {
        let rest = self.held.split_off(end);
        let whole = std::mem::replace(&mut self.held, rest);
        let masked = self.redact.output(&self.command, &whole).into_owned();
        let shown = std::mem::take(&mut self.shown);
        match masked.strip_prefix(shown.as_str()) {
            Some(new) => new.to_owned(),
            // What is known now changes what was shown: the line is shown again.
            None => format!("\n{masked}"),
        }
    }

    /// An unfinished line that has waited long enough. It is kept, to be judged again when it goes on.
    pub(crate) fn show_unfinished(&mut self) -> String {
        self.asked = true;
        if self.held.contains("-----BEGIN ") {
            return String::new();
        }
        let masked = self.redact.output(&self.command, &self.held).into_owned();
        let new = masked.strip_prefix(self.shown.as_str()).map_or_else(|| format!("\n{masked}"), str::to_owned);
        self.shown = masked;
        new
    }

    pub(crate) fn finish(&mut self) -> String {
        self.held += self.decoder.finish();
        self.held += &self.stripper.finish();
        self.show(self.held.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render() -> Render {
        Render::new("make", Redactor::new(true))
    }

    const TOKEN: &str = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";

    #[test]
    fn lines_come_whole_and_without_colours() {
        let mut r = render();
        assert_eq!(r.push(b"one\ntw"), "one\n");
        assert_eq!(r.push(b"\x1b[31mo\x1b"), "");
        assert_eq!(r.push(b"[0m\nrest"), "two\n");
        assert_eq!(r.finish(), "rest");
    }

    #[test]
    fn a_character_in_two_pieces_is_whole() {
        let mut r = render();
        assert_eq!(r.push(b"caf\xc3"), "");
        assert_eq!(r.push(b"\xa9\n"), "café\n");
    }

    #[test]
    fn a_secret_in_two_pieces_is_masked() {
        let mut r = render();
        let (a, b) = TOKEN.split_at(10);
        assert_eq!(r.push(a.as_bytes()), "");
        let line = r.push(format!("{b}\n").as_bytes());
        assert!(!line.contains(TOKEN) && line.ends_with('\n'), "{line}");
    }

    #[test]
    fn a_private_key_is_never_shown_by_its_lines() {
        let mut r = render();
        let mut all = String::new();
        for line in
            ["before\n", "-----BEGIN RSA PRIVATE KEY-----\n", "c2VjcmV0c2VjcmV0c2VjcmV0\n", "-----END RSA PRIVATE KEY-----\n", "after\n"]
        {
            all += &r.push(line.as_bytes());
            all += &r.show_unfinished();
        }
        all += &r.finish();
        assert!(!all.contains("c2VjcmV0"), "{all}");
        assert!(all.starts_with("before\n") && all.ends_with("after\n"), "{all}");
    }

    #[test]
    fn a_prompt_is_shown_once_it_has_waited() {
        let mut r = render();
        assert_eq!(r.push(b"Continue? "), "");
        assert!(r.waits());
        assert_eq!(r.show_unfinished(), "Continue? ");
        assert!(!r.waits());
        assert_eq!(r.show_unfinished(), "");
        assert_eq!(r.push(b"y\nnext\n"), "y\nnext\n");
    }

    #[test]
    fn a_redraw_is_an_end() {
        let mut r = render();
        assert_eq!(r.push(b"10%\r20%"), "10%\r");
    }
}
