//! Reading, with the place of everything.

use super::super::Trouble;
use saphyr_parser::{Event, Parser, ScalarStyle, Span};
use serde_json::Value;

/// How deep lists and mappings may lie in each other.
const DEEPEST: usize = 128;

#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) start: usize,
    pub(super) end: usize,
    /// A byte on its last line.
    pub(super) last: usize,
    pub(super) kind: Kind,
    /// Names that are given to it, and what it says to be of: kept to be compared.
    marks: String,
}

#[derive(Debug, Clone)]
pub(super) enum Kind {
    Scalar {
        text: String,
        plain: bool,
        /// Whether it is written on lines of its own, by `|` or `>`.
        block: bool,
    },
    Seq(Vec<Node>),
    Map(Vec<(Node, Node)>),
    Alias(usize),
}

impl Node {
    pub(super) fn is(&self, name: &str) -> bool {
        matches!(&self.kind, Kind::Scalar { text, .. } if text == name)
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(&self.kind, Kind::Scalar { text, plain: true, .. } if matches!(text.as_str(), "" | "~" | "null")) && self.marks.is_empty()
    }

    /// Whether it has a name by which it is meant elsewhere, or says what it is of; or something in it does, or is meant from elsewhere.
    pub(super) fn is_marked(&self) -> bool {
        let inside = match &self.kind {
            Kind::Scalar { .. } => false,
            Kind::Seq(all) => all.iter().any(Self::is_marked),
            Kind::Map(all) => all.iter().any(|(key, value)| key.is_marked() || value.is_marked()),
            Kind::Alias(_) => true,
        };
        inside || self.has_marks()
    }

    /// The same of itself alone.
    pub(super) fn has_marks(&self) -> bool {
        !self.marks.is_empty()
    }

    /// Whether nothing is written there.
    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    pub(super) fn meaning(&self) -> Value {
        match &self.kind {
            Kind::Scalar { text, .. } => Value::from(text.as_str()),
            Kind::Seq(all) => all.iter().map(Self::meaning).collect(),
            Kind::Map(all) => {
                Value::Object(all.iter().filter_map(|(key, value)| Some((key.meaning().as_str()?.to_owned(), value.meaning()))).collect())
            }
            Kind::Alias(_) => Value::Null,
        }
    }

    /// What it is, without places, without one entry of one mapping, and without that mapping if there is nothing else in it.
    pub(super) fn bare_without(&self, map: &str, name: &str) -> String {
        let Kind::Map(entries) = &self.kind else {
            return if self.is_null() { String::new() } else { self.bare() };
        };
        let rest = entries.iter().filter_map(|(key, value)| {
            if !key.is(map) {
                return Some(format!("{}: {}", key.bare(), value.bare()));
            }
            let inner = match &value.kind {
                Kind::Map(inner) => inner.iter().filter(|(key, _)| !key.is(name)).collect::<Vec<_>>(),
                _ if value.is_null() => Vec::new(),
                _ => return Some(format!("{}: {}", key.bare(), value.bare())),
            };
            let inner: Vec<_> = inner.iter().map(|(key, value)| format!("{}: {}", key.bare(), value.bare())).collect();
            (!inner.is_empty()).then(|| format!("{}: {{{}}}{}", key.bare(), inner.join(", "), value.marks))
        });
        rest.collect::<Vec<_>>().join(", ")
    }

    pub(super) fn bare(&self) -> String {
        let marks = &self.marks;
        match &self.kind {
            Kind::Scalar { text, plain, .. } => format!("{marks}{}{text:?}", if *plain { "plain " } else { "" }),
            Kind::Seq(all) => format!("{marks}[{}]", all.iter().map(Self::bare).collect::<Vec<_>>().join(", ")),
            Kind::Map(all) => {
                let each = all.iter().map(|(key, value)| format!("{}: {}", key.bare(), value.bare()));
                format!("{marks}{{{}}}", each.collect::<Vec<_>>().join(", "))
            }
            Kind::Alias(id) => format!("*{id}"),
        }
    }
}

/// What is open while it is read: a list, or a mapping with a key that has no value yet.
struct Open {
    start: usize,
    marks: String,
    nodes: Vec<Node>,
    map: bool,
}

/// The one document of a text; none where there is nothing.
pub(super) fn document(text: &str) -> Result<Option<Node>, Trouble> {
    let mut bytes = text.as_bytes().iter().enumerate();
    if let Some((at, _)) = bytes.find(|(n, b)| **b == b'\r' && text.as_bytes().get(n + 1) != Some(&b'\n')) {
        return Err(Trouble::shape(Some(super::line_of(text, at)), "there are line ends of an unusual kind"));
    }
    let mut head = text.lines().take_while(|line| !line.starts_with("---")).enumerate();
    if let Some((at, _)) = head.find(|(_, line)| line.starts_with('%') && !line.is_ascii()) {
        // The reader counts their bytes, and all places behind them are wrong.
        return Err(Trouble::shape(Some(at + 1), "a directive has letters beyond ASCII"));
    }
    // The reader counts characters.
    let places: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    let place = |index: usize| places.get(index).copied().unwrap_or(text.len());
    let mut open: Vec<Open> = Vec::new();
    let mut root = None;
    let mut documents = 0;
    for event in Parser::new_from_str(text) {
        let (event, span): (Event<'_>, Span) = event.map_err(|e| Trouble::malformed(Some(e.marker().line()), e.info()))?;
        let (start, end) = (place(span.start.index()), place(span.end.index()));
        let node = match event {
            Event::DocumentStart(_) => {
                documents += 1;
                if documents > 1 {
                    return Err(Trouble::shape(Some(span.start.line()), "there is more than one document"));
                }
                continue;
            }
            Event::SequenceStart(anchor, tag) => {
                open.push(Open { start, marks: marks(anchor, tag.as_deref()), nodes: Vec::new(), map: false });
                None
            }
            Event::MappingStart(anchor, tag) => {
                open.push(Open { start, marks: marks(anchor, tag.as_deref()), nodes: Vec::new(), map: true });
                None
            }
            Event::SequenceEnd | Event::MappingEnd => open.pop().map(|done| closed(done, start, text)),
            Event::Scalar(value, style, anchor, tag) => {
                let block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
                let kind = Kind::Scalar { text: value.into_owned(), plain: style == ScalarStyle::Plain, block };
                // One on lines of its own ends where the next line begins.
                let last = if block { text[..end].trim_end().len().max(start) } else { end.max(start) };
                let last = if last > start && text[..last].ends_with('\n') { last - 1 } else { last };
                Some(Node { start, end: end.max(start), last, kind, marks: marks(anchor, tag.as_deref()) })
            }
            Event::Alias(id) => Some(Node { start, end, last: end, kind: Kind::Alias(id), marks: String::new() }),
            _ => continue,
        };
        if open.len() > DEEPEST {
            return Err(Trouble::shape(Some(span.start.line()), format!("more than {DEEPEST} lists and mappings lie in each other")));
        }
        match (node, open.last_mut()) {
            (Some(node), Some(holder)) => holder.nodes.push(node),
            (Some(node), None) => root = Some(node),
            (None, _) => {}
        }
    }
    Ok(root)
}

fn marks(anchor: usize, tag: Option<&saphyr_parser::Tag>) -> String {
    match (anchor, tag) {
        (0, None) => String::new(),
        (anchor, tag) => format!("&{anchor} {} ", tag.map(ToString::to_string).unwrap_or_default()),
    }
}

fn closed(done: Open, start: usize, text: &str) -> Node {
    let Open { start: begin, marks, nodes, map } = done;
    // One in brackets ends with its bracket, any other with the last thing in it. The reader's own end may lie behind white space.
    let is = |at: usize, these: [u8; 2]| text.as_bytes().get(at).is_some_and(|b| these.contains(b));
    let bracket = is(begin, *b"{[") && is(start, *b"}]");
    let (end, last) = match nodes.last() {
        _ if bracket => (start + 1, start),
        Some(node) => (node.end, nodes.iter().map(|n| n.last).max().unwrap_or(node.last)),
        None => (begin, begin),
    };
    let kind = if map {
        let mut nodes = nodes.into_iter();
        let mut entries = Vec::new();
        while let (Some(key), Some(value)) = (nodes.next(), nodes.next()) {
            entries.push((key, value));
        }
        Kind::Map(entries)
    } else {
        Kind::Seq(nodes)
    };
    Node { start: begin, end, last, kind, marks }
}
