//! Simple markdown, line by line: headings, lists, code, bold. Everything else stays as it is.

use super::super::out::tame;
use unicode_width::UnicodeWidthStr as _;

/// Replaces a tab, so that code keeps its shape.
const TAB: &str = "    ";

/// The style of a piece of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextStyle {
    Plain,
    Bold,
    Italic,
    Code,
    Heading,
    Quiet,
    Good,
    Bad,
    Busy,
    /// A message of the user.
    Person,
}

/// Which escape sequences a terminal gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChatPaint {
    /// Nothing.
    #[cfg(test)]
    Plain,
    /// Bold, dim, italic and underlined text, without colours (`NO_COLOR`).
    Emphasis,
    Colours,
}

impl TextStyle {
    /// The code of a style that needs no colour.
    fn emphasis(self) -> Option<&'static str> {
        match self {
            Self::Bold | Self::Person => Some("1"),
            Self::Italic => Some("3"),
            Self::Heading => Some("1;4"),
            Self::Quiet => Some("2"),
            Self::Plain | Self::Code | Self::Good | Self::Bad | Self::Busy => None,
        }
    }

    fn code(self, paint: ChatPaint) -> Option<&'static str> {
        match (paint, self) {
            #[cfg(test)]
            (ChatPaint::Plain, _) => None,
            (ChatPaint::Colours, Self::Code) => Some("36"),
            (ChatPaint::Colours, Self::Good) => Some("32"),
            (ChatPaint::Colours, Self::Bad) => Some("31"),
            (ChatPaint::Colours, Self::Busy) => Some("33"),
            (ChatPaint::Colours, Self::Person) => Some("1;35"),
            (ChatPaint::Colours | ChatPaint::Emphasis, style) => style.emphasis(),
        }
    }
}

/// A piece of a line. Its text has no control characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) style: TextStyle,
    pub(super) text: String,
}

/// How a line that is too long for the terminal is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    /// It is wrapped at words. Later rows are indented by this many columns.
    Words { hang: usize },
    /// It is not wrapped here, such as a line of code. Copied from the terminal, it is still one line.
    Whole,
}

impl Default for Flow {
    fn default() -> Self {
        Self::Words { hang: 0 }
    }
}

/// One line as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct StyledLine {
    pub(super) spans: Vec<Span>,
    pub(super) flow: Flow,
}

impl StyledLine {
    /// A line in one style.
    pub(super) fn of(style: TextStyle, text: &str) -> Self {
        Self::default().and(style, text)
    }

    /// The same line with more text.
    pub(super) fn and(mut self, style: TextStyle, text: &str) -> Self {
        if !text.is_empty() {
            self.spans.push(Span { style, text: tame(&text.replace('\t', TAB)) });
        }
        self
    }

    /// The same; later rows are indented by this many columns.
    pub(super) fn hanging(self, hang: usize) -> Self {
        Self { flow: Flow::Words { hang }, ..self }
    }

    /// The same, not to be wrapped.
    fn whole(self) -> Self {
        Self { flow: Flow::Whole, ..self }
    }

    /// The line for a terminal.
    pub(super) fn paint(&self, paint: ChatPaint) -> String {
        let painted = |span: &Span| match span.style.code(paint) {
            Some(code) => format!("\x1b[{code}m{}\x1b[0m", span.text),
            None => span.text.clone(),
        };
        self.spans.iter().map(painted).collect()
    }
}

/// The state after the lines before.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Markdown {
    /// The fence that ends the open block of code.
    fence: Option<String>,
}

impl Markdown {
    /// One line, without its newline.
    pub(super) fn line(&mut self, line: &str) -> StyledLine {
        let body = line.trim_start();
        if let Some(fence) = &self.fence {
            if body.starts_with(fence.as_str()) && body.trim_end().chars().all(|c| fence.starts_with(c)) {
                self.fence = None;
                return StyledLine::of(TextStyle::Quiet, line).whole();
            }
            return StyledLine::of(TextStyle::Code, line).whole();
        }
        if let Some(mark) = ['`', '~'].into_iter().find(|mark| body.chars().take_while(|c| c == mark).count() >= 3) {
            self.fence = Some(body.chars().take_while(|c| *c == mark).collect());
            return StyledLine::of(TextStyle::Quiet, line).whole();
        }
        let indent = &line[..line.len() - body.len()];
        let hang = indent.replace('\t', TAB).width();
        if let Some(text) = heading(body) {
            return StyledLine::of(TextStyle::Heading, text);
        }
        if let Some(text) = body.strip_prefix("> ") {
            return StyledLine::of(TextStyle::Quiet, &format!("{indent}│ {text}")).hanging(hang + "│ ".width());
        }
        for mark in ["- ", "* ", "+ "] {
            if let Some(text) = body.strip_prefix(mark) {
                return spans(StyledLine::of(TextStyle::Plain, &format!("{indent}• ")), text).hanging(hang + "• ".width());
            }
        }
        spans(StyledLine::of(TextStyle::Plain, indent), body).hanging(hang + number_width(body))
    }
}

fn heading(body: &str) -> Option<&str> {
    let hashes = body.chars().take_while(|c| *c == '#').count();
    let text = body[hashes..].strip_prefix(' ')?;
    (1..=6).contains(&hashes).then(|| text.trim_end_matches('#').trim())
}

/// The width of the number of a list item, with its punctuation: `12. ` is 4 wide.
fn number_width(body: &str) -> usize {
    let digits = body.chars().take_while(char::is_ascii_digit).count();
    let is_item = digits > 0 && [". ", ") "].iter().any(|mark| body[digits..].starts_with(mark));
    if is_item { digits + 2 } else { 0 }
}

/// The marks inside a line, longest first.
const MARKS: [(&str, TextStyle); 4] = [("`", TextStyle::Code), ("**", TextStyle::Bold), ("__", TextStyle::Bold), ("*", TextStyle::Italic)];

fn spans(mut out: StyledLine, text: &str) -> StyledLine {
    let (mut plain, mut rest) = (0, 0);
    while let Some(next) = text[rest..].find(['`', '*', '_']).map(|at| rest + at) {
        match MARKS.iter().find_map(|(mark, style)| marked(text, next, mark).map(|inner| (mark, *style, inner))) {
            Some((mark, style, inner)) => {
                out = out.and(TextStyle::Plain, &text[plain..next]).and(style, inner);
                rest = next + inner.len() + 2 * mark.len();
                plain = rest;
            }
            None => rest = next + 1,
        }
    }
    out.and(TextStyle::Plain, &text[plain..])
}

/// The text between two marks. None if a mark is missing, or inside a word, as in `a*b*c` or `snake__case`.
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
            let span = |s: &Span| if s.style == TextStyle::Plain { s.text.clone() } else { format!("<{:?} {}>", s.style, s.text) };
            line.spans.iter().map(span).collect::<String>()
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
        assert_eq!(Markdown::default().line("**a** `b`").paint(ChatPaint::Plain), "a b");
    }

    #[test]
    fn without_colours_bold_dim_and_underlined_text_stay() {
        let line = |text: &str, paint| Markdown::default().line(text).paint(paint);
        assert_eq!(line("**a** `b`", ChatPaint::Colours), "\x1b[1ma\x1b[0m \x1b[36mb\x1b[0m");
        assert_eq!(line("**a** `b` *c*", ChatPaint::Emphasis), "\x1b[1ma\x1b[0m b \x1b[3mc\x1b[0m");
        assert_eq!(line("# a", ChatPaint::Emphasis), "\x1b[1;4ma\x1b[0m");
        assert_eq!(line("> a", ChatPaint::Emphasis), "\x1b[2m│ a\x1b[0m");
        assert_eq!(StyledLine::of(TextStyle::Person, "a").and(TextStyle::Bad, "b").paint(ChatPaint::Emphasis), "\x1b[1ma\x1b[0mb");
    }

    proptest! {
        /// No letter is lost but marks, and nothing panics.
        #[test]
        fn any_text_is_shown(text in "[a `*_#>~日-]{0,40}") {
            let mut markdown = Markdown::default();
            let plain = markdown.line(&text).paint(ChatPaint::Plain);
            let letters = |s: &str| s.chars().filter(|c| *c == 'a' || *c == '日').count();
            prop_assert_eq!(letters(&plain), letters(&text));
        }
    }
}
