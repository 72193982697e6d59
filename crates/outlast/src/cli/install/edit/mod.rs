//! Changing a configuration that somebody else wrote: text in, text out.
//!
//! Every change is an insertion, a removal or a replacement of a few bytes; all others stay where they are, with their comments, order and line ends. What was
//! inserted can be told from what was there, so that it can be taken out again and leaves the bytes of before. Each result is read once more, and one that
//! does not mean exactly what was wanted is given up rather than written.

pub(crate) mod json;
pub(crate) mod toml;
pub(crate) mod yaml;

/// Why a text is left as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// The line it is about, from 1 on, where there is one.
    pub(crate) line: Option<usize>,
    pub(crate) what: String,
    /// Whether the text makes no sense, rather than being in a shape that is not changed here.
    pub(crate) malformed: bool,
}

impl Trouble {
    fn malformed(line: Option<usize>, what: impl Into<String>) -> Self {
        Self { line, what: what.into(), malformed: true }
    }

    fn shape(line: Option<usize>, what: impl Into<String>) -> Self {
        Self { line, what: what.into(), malformed: false }
    }
}

/// A value to be written: the same in all formats, in the order in which it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Data {
    Text(String),
    Number(u32),
    Flag(bool),
    List(Vec<Data>),
    Map(Fields),
}

/// Names and values, in order.
pub(crate) type Fields = Vec<(String, Data)>;

impl Data {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub(crate) fn texts<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Self {
        Self::List(texts.into_iter().map(Self::text).collect())
    }

    pub(crate) fn map<const N: usize>(fields: [(&str, Data); N]) -> Self {
        Self::Map(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// What it means, for comparing.
    pub(crate) fn meaning(&self) -> serde_json::Value {
        use serde_json::Value;
        match self {
            Self::Text(text) => Value::from(text.as_str()),
            Self::Number(n) => Value::from(*n),
            Self::Flag(flag) => Value::from(*flag),
            Self::List(all) => all.iter().map(Self::meaning).collect(),
            Self::Map(fields) => Value::Object(fields.iter().map(|(name, value)| (name.clone(), value.meaning())).collect()),
        }
    }
}

/// Text that stands in front of everything, and belongs to nothing.
const BOM: char = '\u{feff}';

/// What the lines of a text end in.
fn line_end(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// The number of the line that a byte is on, from 1 on.
fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at.min(text.len())].iter().filter(|b| **b == b'\n').count()
}

/// Where the line of a byte begins.
fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |n| n + 1)
}

/// Where the line after that of a byte begins; the end of the text, if it is the last.
fn next_line(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |n| at + n + 1)
}

/// Puts `block`, whole lines without an end to the last, behind everything else, with an empty line between. A text whose last line has no end keeps that
/// habit, which is also how [`cut_block`] knows what was there before.
fn append_block(text: &str, block: &str) -> String {
    let end = line_end(text);
    match text {
        "" => format!("{block}{end}"),
        text if text.ends_with('\n') => format!("{text}{end}{block}{end}"),
        text => format!("{text}{end}{end}{block}"),
    }
}

/// Takes out a range of whole lines, and what [`append_block`] put between it and what stands before.
fn cut_block(text: &str, from: usize, to: usize) -> String {
    let (before, after) = (&text[..from], &text[to..]);
    let ended = text[from..to].ends_with('\n');
    let without = |text: &'_ str| text.strip_suffix('\n').map(|t| t.strip_suffix('\r').unwrap_or(t).len());
    let one = without(before);
    let two = one.and_then(|n| without(&before[..n]));
    let before = match (one, two) {
        (Some(_), Some(two)) if !ended && after.is_empty() => &before[..two],
        // An empty line, of which there is one more than before.
        (Some(one), Some(_)) => &before[..one],
        // What is left where another block of ours stood in front of everything.
        (Some(0), None) => "",
        _ => before,
    };
    format!("{before}{after}")
}

#[cfg(test)]
pub(super) mod tests;
