//! Light markdown, line by line: headings, lists, code, bold. What is not understood stays as it is.

use super::super::out::tame;

/// What a tab is shown as, so that code keeps its shape.
const TAB: &str = "    ";

/// How a piece of a line is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Bold,
    Italic,
    Code,
    Heading,
    Quiet,
    Good,
    Bad,
    Busy,
    /// What a person said.
    Person,
}

impl Style {
    fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Bold => Some("1"),
            Self::Italic => Some("3"),
            Self::Code => Some("36"),
            Self::Heading => Some("1;4"),
            Self::Quiet => Some("2"),
            Self::Good => Some("32"),
            Self::Bad => Some("31"),
            Self::Busy => Some("33"),
            Self::Person => Some("1;35"),
        }
    }
}

/// A piece of a line. Its text has nothing in it that could disturb a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) style: Style,
    pub(super) text: String,
}

/// One line as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct StyledLine(pub(super) Vec<Span>);

impl StyledLine {
    /// A line in one style.
    pub(super) fn of(style: Style, text: &str) -> Self {
        Self::default().and(style, text)
    }

    /// The same, with more behind it.
    pub(super) fn and(mut self, style: Style, text: &str) -> Self {
        if !text.is_empty() {
            self.0.push(Span { style, text: tame(&text.replace('\t', TAB)) });
        }
        self
    }

    /// The line for a terminal, or as plain text.
    pub(super) fn paint(&self, has_colour: bool) -> String {
        let paint = |span: &Span| match span.style.code().filter(|_| has_colour) {
            Some(code) => format!("\x1b[{code}m{}\x1b[0m", span.text),
            None => span.text.clone(),
        };
        self.0.iter().map(paint).collect()
    }
}

/// What is known of the lines before.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Markdown {
    /// What ends the block of code that is open.
    fence: Option<String>,
}

impl Markdown {
    /// One line, without its newline.
    pub(super) fn line(&mut self, line: &str) -> StyledLine {
        let body = line.trim_start();
        if let Some(fence) = &self.fence {
            if body.starts_with(fence.as_str()) && body.trim_end().chars().all(|c| fence.starts_with(c)) {
                self.fence = None;
                return StyledLine::of(Style::Quiet, line);
            }
            return StyledLine::of(Style::Code, line);
        }
        if let Some(mark) = ['`', '~'].into_iter().find(|mark| body.chars().take_while(|c| c == mark).count() >= 3) {
            self.fence = Some(body.chars().take_while(|c| *c == mark).collect());
            return StyledLine::of(Style::Quiet, line);
        }
        let indent = &line[..line.len() - body.len()];
        if let Some(text) = heading(body) {
            return StyledLine::of(Style::Heading, text);
        }
        if let Some(text) = body.strip_prefix("> ") {
            return StyledLine::of(Style::Quiet, &format!("{indent}│ {text}"));
        }
        for mark in ["- ", "* ", "+ "] {
            if let Some(text) = body.strip_prefix(mark) {
                return spans(StyledLine::of(Style::Plain, &format!("{indent}• ")), text);
            }
        }
        spans(StyledLine::of(Style::Plain, indent), body)
    }
}

fn heading(body: &str) -> Option<&str> {
    let hashes = body.chars().take_while(|c| *c == '#').count();
    let text = body[hashes..].strip_prefix(' ')?;
    (1..=6).contains(&hashes).then(|| text.trim_end_matches('#').trim())
}

/// The marks inside a line, longest first.
const MARKS: [(&str, Style); 4] = [("`", Style::Code), ("**", Style::Bold), ("__", Style::Bold), ("*", Style::Italic)];

fn spans(mut out: StyledLine, text: &str) -> StyledLine {
    let (mut plain, mut rest) = (0, 0);
    while let Some(next) = text[rest..].find(['`', '*', '_']).map(|at| rest + at) {
        match MARKS.iter().find_map(|(mark, style)| marked(text, next, mark).map(|inner| (mark, *style, inner))) {
            Some((mark, style, inner)) => {
                out = out.and(Style::Plain, &text[plain..next]).and(style, inner);
                rest = next + inner.len() + 2 * mark.len();
                plain = rest;
            }
            None => rest = next + 1,
        }
    }
    out.and(Style::Plain, &text[plain..])
}

/// What stands between two marks, if both are there and hold something. Words with a mark inside, as in `a*b*c` or `snake__case`, are left
/// alone.
fn marked<'a>(text: &'a str, at: usize, mark: &str) -> Option<&'a str> {
    let inner = text[at..].strip_prefix(mark)?;
    let end = inner.find(mark)?;
    let found = &inner[..end];
    let behind = inner[end + mark.len()..].chars().next();
    if mark == "`" {
        return (!found.is_empty()).then_some(found);
    }
    let is_tight = !found.is_empty() && !found.starts_with(char::is_whitespace) && !found.ends_with(char::is_whitespace);
    let is_inside = text[..at].ends_with(char::is_alphanumeric) || behind.is_some_and(char::is_alphanumeric);
    let is_longer = mark == "*" && (behind == Some('*') || found.is_empty());
    (is_tight && !is_inside && !is_longer).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Lines with their styles written out.
    fn shown(text: &str) -> String {
        let mut markdown = Markdown::default();
        let line = |line: StyledLine| {
            let span = |s: &Span| if s.style == Style::Plain { s.text.clone() } else { format!("<{:?} {}>", s.style, s.text) };
            line.0.iter().map(span).collect::<String>()
        };
        text.lines().map(|l| line(markdown.line(l))).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn what_people_write_is_understood() {
        insta::assert_snapshot!(shown(
            "# Result #\n\nIt is **done**, see `src/**/*.rs` and *this*.\n- one\n  * two `x`\n1. three\n> said\n\n```rust\nlet **x** = 1; // - no\n~~~\n```\nafter __all__"
        ));
    }

    #[test]
    fn what_is_no_markdown_stays_as_it_is() {
        for text in
            ["2 * 3 * 4", "snake__case__name", "a*b*c", "**", "****", "`", "``", "*", "#no", "####### no", "-no", "_x_", "** a **", "*a"]
        {
            assert_eq!(shown(text), text);
        }
    }

    #[test]
    fn nothing_disturbs_the_terminal() {
        assert_eq!(shown("\x1b[2J **a\x07b**"), "\u{fffd}[2J <Bold a\u{fffd}b>");
        assert_eq!(Markdown::default().line("**a** `b`").paint(false), "a b");
        assert_eq!(Markdown::default().line("**a**").paint(true), "\x1b[1ma\x1b[0m");
    }

    proptest! {
        /// No letter is lost but marks, and nothing panics.
        #[test]
        fn any_text_is_shown(text in "[a `*_#>~日-]{0,40}") {
            let mut markdown = Markdown::default();
            let plain = markdown.line(&text).paint(false);
            let letters = |s: &str| s.chars().filter(|c| *c == 'a' || *c == '日').count();
            prop_assert_eq!(letters(&plain), letters(&text));
        }
    }
}
