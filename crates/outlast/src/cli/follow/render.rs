//! Renders pieces of output as text for readers.

use outlast_text::{Coloured, Decoder, RESET, Redactor, Stripper, collapse};

/// Renders a stream for readers: decoded, without escape sequences, secrets masked. Masks need whole lines, so an unfinished line waits.
pub(crate) struct Render {
    command: String,
    redact: Redactor,
    decoder: Decoder,
    stripper: Stripper,
    /// With [`Render::whole_lines`]: the bytes of a line that has not ended.
    line: Option<Vec<u8>>,
    /// Text that is not masked yet.
    held: Coloured,
    /// The masked form of `held` that is on the screen already.
    shown: String,
    /// The number of its colours that are on the screen.
    marks_shown: usize,
    /// Whether the held text was shown since it grew.
    asked: bool,
    /// Whether a colour was shown that is still on.
    lit: bool,
}

/// An unfinished line, or a key block, longer than this is shown in parts.
pub(crate) const LONGEST: usize = 64 << 10;
/// The same limit if lines are shown whole, because readers may depend on whole lines.
pub(crate) const LONGEST_WHOLE: usize = 1 << 20;

/// Whether the colours of a command are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sgr {
    Shown,
    Removed,
}

impl Render {
    /// Shows redraws as they arrive, for a terminal that follows.
    pub(crate) fn new(command: &str, redact: Redactor, sgr: Sgr) -> Self {
        Self {
            command: command.to_owned(),
            redact,
            decoder: Decoder::new(),
            stripper: if sgr == Sgr::Shown { Stripper::keeping_colours() } else { Stripper::new() },
            line: None,
            held: Coloured::default(),
            shown: String::new(),
            marks_shown: 0,
            asked: false,
            lit: false,
        }
    }

    /// Shows each line once, in the form after its last redraw.
    pub(crate) fn whole_lines(command: &str, redact: Redactor, sgr: Sgr) -> Self {
        Self { line: Some(Vec::new()), ..Self::new(command, redact, sgr) }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) -> String {
        match &mut self.line {
            None => {
                let text = self.decoder.push(bytes);
                self.held.push(&self.stripper.push(&text));
            }
            Some(line) => {
                line.extend_from_slice(bytes);
                let whole = line.iter().rposition(|b| *b == b'\n').map(|at| at + 1);
                if whole.is_none() && line.len() > LONGEST_WHOLE {
                    forget_redraws(line);
                }
                let end = whole.or_else(|| (line.len() > LONGEST_WHOLE).then(|| part(line)));
                if let Some(end) = end {
                    let rest = line.split_off(end);
                    let lines = std::mem::replace(line, rest);
                    self.take_lines(&lines);
                }
            }
        }
        self.asked = false;
        match self.whole() {
            Some(end) => self.show(end),
            None => String::new(),
        }
    }

    fn take_lines(&mut self, lines: &[u8]) {
        let text = self.decoder.push(lines);
        self.held.push(&self.stripper.push(&collapse(&text)));
    }

    /// Whether something waits to be shown.
    pub(crate) fn waits(&self) -> bool {
        !self.held.is_empty() && !self.asked
    }

    /// How many lines are held and not shown yet.
    pub(crate) fn held_lines(&self) -> usize {
        self.held.text().matches('\n').count()
    }

    fn longest(&self) -> usize {
        if self.line.is_some() { LONGEST_WHOLE } else { LONGEST }
    }

    /// The end of the text that can be masked: after a line end or a redraw, unless a private key is open.
    fn whole(&self) -> Option<usize> {
        let held = self.held.text();
        let end = match self.line {
            None => held.rfind(['\n', '\r']).map(|i| i + 1),
            // Without a line end it is a part of a line that is too long to wait for.
            Some(_) => Some(held.len()),
        };
        let end = match held.find("-----BEGIN ") {
            Some(begin) if !held[begin..].contains("-----END ") => end.filter(|e| *e <= begin).or(held[..begin].rfind('\n').map(|i| i + 1)),
            _ => end,
        };
        if held.len() > self.longest() { Some(end.filter(|e| *e > 0).unwrap_or(held.len())) } else { end.filter(|e| *e > 0) }
    }

    /// The held text up to `end`, masked, without what is on the screen already.
    fn show(&mut self, end: usize) -> String {
        let rest = self.held.split_off(end);
        let whole = std::mem::replace(&mut self.held, rest);
        let masked = self.redact.output(&self.command, whole.text()).into_owned();
        let shown = std::mem::take(&mut self.shown);
        let marks = std::mem::take(&mut self.marks_shown);
        self.paint(&whole, &masked, &shown, marks)
    }

    /// What is new since `shown`, with the colours that are new.
    fn paint(&mut self, whole: &Coloured, masked: &str, shown: &str, marks: usize) -> String {
        let new = match masked.starts_with(shown) {
            true => whole.paint(masked, shown.len(), marks),
            // The mask has changed, so the line is shown again.
            false => format!("\n{}", whole.paint(masked, 0, 0)),
        };
        if let Some(last) = new.rfind("\x1b[") {
            self.lit = !matches!(new[last..].split_once('m'), Some(("\x1b[" | "\x1b[0", _)));
        }
        new
    }

    /// The unfinished line, after it has waited long enough. It is kept, to be masked again when it continues.
    pub(crate) fn show_unfinished(&mut self) -> String {
        self.asked = true;
        if self.held.text().contains("-----BEGIN ") {
            return String::new();
        }
        let masked = self.redact.output(&self.command, self.held.text()).into_owned();
        let (shown, marks) = (std::mem::take(&mut self.shown), self.marks_shown);
        let held = std::mem::take(&mut self.held);
        let new = self.paint(&held, &masked, &shown, marks);
        (self.shown, self.marks_shown, self.held) = (masked, held.marks(), held);
        new
    }

    /// The rest, and the end of its colours.
    pub(crate) fn finish(&mut self) -> String {
        if let Some(line) = &mut self.line {
            let rest = std::mem::take(line);
            self.take_lines(&rest);
        }
        self.held.push(self.decoder.finish());
        self.held.push(&self.stripper.finish());
        let rest = self.show(self.held.text().len());
        // Drops a colour after the last character.
        self.held = Coloured::default();
        if std::mem::take(&mut self.lit) { rest + RESET } else { rest }
    }
}

/// Drops what later redraws of the line have overwritten.
fn forget_redraws(line: &mut Vec<u8>) {
    if let Some(back) = line.iter().rposition(|b| *b == b'\r') {
        let rest = line.split_off(back);
        let drawn = String::from_utf8_lossy(line);
        *line = [collapse(&drawn).as_bytes(), &rest].concat();
    }
}

/// Where to cut a line that is too long to wait for: after a blank near its end, so that no word, and no secret, is cut in two.
fn part(line: &[u8]) -> usize {
    let from = line.len() - LONGEST;
    line[from..].iter().rposition(|b| matches!(b, b' ' | b'\t' | b',')).map_or(line.len(), |at| from + at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render() -> Render {
        Render::new("make", Redactor::new(true), Sgr::Removed)
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

    #[test]
    fn colours_are_shown_where_they_are_wanted_and_end_with_the_output() {
        let mut r = Render::new("make", Redactor::new(true), Sgr::Shown);
        assert_eq!(r.push(b"one \x1b[31mtwo\x1b[2J\n\x1b"), "one \x1b[31mtwo\n");
        assert_eq!(r.push(b"[1mthree"), "");
        assert_eq!(r.show_unfinished(), "\x1b[1mthree");
        assert_eq!(r.show_unfinished(), "");
        assert_eq!(r.push(b"\x1b[m four\n\x1b[32m"), "\x1b[m four\n");
        assert_eq!(r.push(b"five\n"), "\x1b[32mfive\n");
        assert_eq!(r.finish(), "\x1b[0m");
    }

    #[test]
    fn a_secret_in_two_colours_is_masked() {
        for sgr in [Sgr::Shown, Sgr::Removed] {
            let mut r = Render::new("make", Redactor::new(true), sgr);
            let (a, b) = TOKEN.split_at(10);
            let mut all = r.push(format!("key \x1b[31m{a}").as_bytes());
            all += &r.show_unfinished();
            all += &r.push(format!("\x1b[32m{b}\n").as_bytes());
            assert!(!all.contains("abcdef") && all.ends_with('\n'), "{all:?}");
        }
    }

    #[test]
    fn a_line_is_shown_once_and_as_it_stood_in_the_end() {
        let mut r = Render::whole_lines("make", Redactor::new(true), Sgr::Removed);
        assert_eq!(r.push(b"10%\rlong text"), "");
        assert_eq!(r.push(b"\r\x1b[Kshort\nnext\r\nre"), "short\nnext\n");
        assert_eq!(r.push(b"st"), "");
        assert_eq!(r.finish(), "rest");
    }

    #[test]
    fn a_line_that_is_too_long_to_wait_for_is_not_cut_in_a_word() {
        let mut r = Render::whole_lines("make", Redactor::new(true), Sgr::Removed);
        let word = format!("{TOKEN} ");
        let line = word.repeat(LONGEST_WHOLE / word.len() + 2);
        let mut all = r.push(&line.as_bytes()[..LONGEST_WHOLE + 20]);
        assert!(all.len() > LONGEST_WHOLE / 4);
        all += &r.push(&line.as_bytes()[LONGEST_WHOLE + 20..]);
        all += &r.finish();
        assert!(!all.contains("abcdef") && all.split_whitespace().all(|w| w == all.split(' ').next().unwrap()));
    }
}
