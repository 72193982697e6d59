//! Edits to the configuration files of other programs: text in, text out.
//!
//! Each edit inserts, removes or replaces a few bytes. All other bytes stay, with comments, order and line ends. An insertion can be
//! recognised later, so an undo restores the original bytes. Each result is parsed again: if it does not mean exactly what was wanted, the
//! edit is refused.

pub(crate) mod json;
pub(crate) mod toml;
pub(crate) mod yaml;

/// Why a text cannot be edited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EditError {
    /// The number of the line, if the problem is in one line.
    pub(crate) line: Option<usize>,
    pub(crate) what: String,
    /// Whether the text cannot be parsed; otherwise its shape is one that these edits do not support.
    pub(crate) is_malformed: bool,
}

impl EditError {
    fn malformed(line: Option<usize>, what: impl Into<String>) -> Self {
        Self { line, what: what.into(), is_malformed: true }
    }

    fn shape(line: Option<usize>, what: impl Into<String>) -> Self {
        Self { line, what: what.into(), is_malformed: false }
    }
}

/// A value to write, in any of the formats. Fields keep their order.
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

    /// The value as JSON, to compare it.
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

/// The byte order mark at the start of some files.
const BOM: char = '\u{feff}';

/// The line end that a text uses.
fn line_end(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// The number of the line that a byte is on. The first line has 1.
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

/// Appends `block` (whole lines, the last without a line end) after an empty line. A text without a final line end stays without one; from
/// that [`cut_block`] knows what was there before.
fn append_block(text: &str, block: &str) -> String {
    let end = line_end(text);
    match text {
        "" => format!("{block}{end}"),
        text if text.ends_with('\n') => format!("{text}{end}{block}{end}"),
        text => format!("{text}{end}{end}{block}"),
    }
}

/// Removes a range of whole lines, with the empty line that [`append_block`] put before it.
fn cut_block(text: &str, from: usize, to: usize) -> String {
    let (before, after) = (&text[..from], &text[to..]);
    let ended = text[from..to].ends_with('\n');
    let without = |text: &'_ str| text.strip_suffix('\n').map(|t| t.strip_suffix('\r').unwrap_or(t).len());
    let one = without(before);
    let two = one.and_then(|n| without(&before[..n]));
    let before = match (one, two) {
        (Some(_), Some(two)) if !ended && after.is_empty() => &before[..two],
        // The empty line that was added.
        (Some(one), Some(_)) => &before[..one],
        // The empty line that is left of another block of ours at the start of the text.
        (Some(0), None) => "",
        _ => before,
    };
    format!("{before}{after}")
}

#[cfg(test)]
pub(super) mod tests;
