//! Light markdown, line by line: headings, lists, code, bold. What is not understood stays as it is.

use super::super::out::tame;
use unicode_width::UnicodeWidthStr as _;

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

/// What a terminal is given beside the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Paint {
    /// Nothing.
    #[cfg(test)]
    Plain,
    /// Bold, dim, italic and underlined text, for a person who wants no colours (`NO_COLOR`).
    Emphasis,
    Colours,
}

impl Style {
    /// What is emphasised without a colour.
    fn emphasis(self) -> Option<&'static str> {
        match self {
            Self::Bold | Self::Person => Some("1"),
            Self::Italic => Some("3"),
            Self::Heading => Some("1;4"),
            Self::Quiet => Some("2"),
            Self::Plain | Self::Code | Self::Good | Self::Bad | Self::Busy => None,
        }
    }

    fn code(self, paint: Paint) -> Option<&'static str> {
        match (paint, self) {
            #[cfg(test)]
            (Paint::Plain, _) => None,
            (Paint::Colours, Self::Code) => Some("36"),
            (Paint::Colours, Self::Good) => Some("32"),
            (Paint::Colours, Self::Bad) => Some("31"),
            (Paint::Colours, Self::Busy) => Some("33"),
            (Paint::Colours, Self::Person) => Some("1;35"),
            (Paint::Colours | Paint::Emphasis, style) => style.emphasis(),
        }
    }
}

/// A piece of a line. Its text has nothing in it that could disturb a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) style: Style,
    pub(super) text: String,
}

/// What becomes of a line that is too long for the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    /// It is wrapped at words. Later rows are indented by this many columns.
    Words { hang: usize },
    /// It is left to the terminal, as a line of code is: copied from there, it is still one line.
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
    pub(super) fn of(style: Style, text: &str) -> Self {
        Self::default().and(style, text)
    }

    /// The same, with more behind it.
    pub(super) fn and(mut self, style: Style, text: &str) -> Self {
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
    pub(super) fn paint(&self, paint: Paint) -> String {
        let painted = |span: &Span| match span.style.code(paint) {
            Some(code) => format!("\x1b[{code}m{}\x1b[0m", span.text),
            None => span.text.clone(),
        };
        self.spans.iter().map(painted).collect()
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
                return StyledLine::of(Style::Quiet, line).whole();
            }
            return StyledLine::of(Style::Code, line).whole();
        }
        if let Some(mark) = ['`', '~'].into_iter().find(|mark| body.chars().take_while(|c| c == mark).count() >= 3) {
            self.fence = Some(body.chars().take_while(|c| *c == mark).collect());
            return StyledLine::of(Style::Quiet, line).whole();
        }
        let indent = &line[..line.len() - body.len()];
        let hang = indent.replace('\t', TAB).width();
        if let Some(text) = heading(body) {
            return StyledLine::of(Style::Heading, text);
        }
        if let Some(text) = body.strip_prefix("> ") {
            return StyledLine::of(Style::Quiet, &format!("{indent}│ {text}")).hanging(hang + "│ ".width());
        }
        for mark in ["- ", "* ", "+ "] {
            if let Some(text) = body.strip_prefix(mark) {
                return spans(StyledLine::of(Style::Plain, &format!("{indent}• ")), text).hanging(hang + "• ".width());
            }
        }
        spans(StyledLine::of(Style::Plain, indent), body).hanging(hang + number_width(body))
    }
}

fn heading(body: &str) -> Option<&str> {
    let hashes = body.chars().take_while(|c| *c == '#').count();
    let text = body[hashes..].strip_prefix(' ')?;
    (1..=6).contains(&hashes).then(|| text.trim_end_matches('#').trim())
}

/// How wide the number of an item of a list is, with what stands behind it: `12. ` is 4 wide.
fn number_width(body: &str) -> usize {
    let digits = body.chars().take_while(char::is_ascii_digit).count();
    let is_item = digits > 0 && [". ", ") "].iter().any(|mark| body[digits..].starts_with(mark));
    if is_item { digits + 2 } else { 0 }
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
        assert_eq!(Markdown::default().line("**a** `b`").paint(Paint::Plain), "a b");
    }

    #[test]
    fn without_colours_bold_dim_and_underlined_text_stay() {
        let line = |text: &str, paint| Markdown::default().line(text).paint(paint);
        assert_eq!(line("**a** `b`", Paint::Colours), "\x1b[1ma\x1b[0m \x1b[36mb\x1b[0m");
        assert_eq!(line("**a** `b` *c*", Paint::Emphasis), "\x1b[1ma\x1b[0m b \x1b[3mc\x1b[0m");
        assert_eq!(line("# a", Paint::Emphasis), "\x1b[1;4ma\x1b[0m");
        assert_eq!(line("> a", Paint::Emphasis), "\x1b[2m│ a\x1b[0m");
        assert_eq!(StyledLine::of(Style::Person, "a").and(Style::Bad, "b").paint(Paint::Emphasis), "\x1b[1ma\x1b[0mb");
    }

    proptest! {
        /// No letter is lost but marks, and nothing panics.
        #[test]
        fn any_text_is_shown(text in "[a `*_#>~日-]{0,40}") {
            let mut markdown = Markdown::default();
            let plain = markdown.line(&text).paint(Paint::Plain);
            let letters = |s: &str| s.chars().filter(|c| *c == 'a' || *c == '日').count();
            prop_assert_eq!(letters(&plain), letters(&text));
        }
    }
}
