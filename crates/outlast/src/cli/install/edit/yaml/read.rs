//! A parser of YAML that keeps the position of each node.

use super::super::EditError;
use saphyr_parser::{Event, Parser, ScalarStyle, Span};
use serde_json::Value;

/// How deeply lists and mappings may be nested.
const MAX_DEPTH: usize = 128;

#[derive(Debug, Clone)]
pub(super) struct YamlNode {
    pub(super) start: usize,
    pub(super) end: usize,
    /// The position of a byte on its last line.
    pub(super) last: usize,
    pub(super) kind: YamlKind,
    /// Its anchor and tag, for comparison.
    marks: String,
}

#[derive(Debug, Clone)]
pub(super) enum YamlKind {
    Scalar {
        text: String,
        plain: bool,
        /// Whether it is a block scalar (`|` or `>`).
        block: bool,
    },
    Seq(Vec<YamlNode>),
    Map(Vec<(YamlNode, YamlNode)>),
    Alias(usize),
}

impl YamlNode {
    pub(super) fn is(&self, name: &str) -> bool {
        matches!(&self.kind, YamlKind::Scalar { text, .. } if text == name)
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(&self.kind, YamlKind::Scalar { text, plain: true, .. } if matches!(text.as_str(), "" | "~" | "null"))
            && self.marks.is_empty()
    }

    /// Whether it, or anything in it, has an anchor or tag, or is an alias.
    pub(super) fn is_marked(&self) -> bool {
        let inside = match &self.kind {
            YamlKind::Scalar { .. } => false,
            YamlKind::Seq(all) => all.iter().any(Self::is_marked),
            YamlKind::Map(all) => all.iter().any(|(key, value)| key.is_marked() || value.is_marked()),
            YamlKind::Alias(_) => true,
        };
        inside || self.has_marks()
    }

    /// Whether the node itself has an anchor or tag.
    pub(super) fn has_marks(&self) -> bool {
        !self.marks.is_empty()
    }

    /// Whether it takes no bytes in the text.
    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    pub(super) fn meaning(&self) -> Value {
        match &self.kind {
            YamlKind::Scalar { text, .. } => Value::from(text.as_str()),
            YamlKind::Seq(all) => all.iter().map(Self::meaning).collect(),
            YamlKind::Map(all) => {
                Value::Object(all.iter().filter_map(|(key, value)| Some((key.meaning().as_str()?.to_owned(), value.meaning()))).collect())
            }
            YamlKind::Alias(_) => Value::Null,
        }
    }

    /// Its content without positions and without one entry of a mapping; also without that mapping if it has no other entry.
    pub(super) fn bare_without(&self, map: &str, name: &str) -> String {
        let YamlKind::Map(entries) = &self.kind else {
            return if self.is_null() { String::new() } else { self.bare() };
        };
        let rest = entries.iter().filter_map(|(key, value)| {
            if !key.is(map) {
                return Some(format!("{}: {}", key.bare(), value.bare()));
            }
            let inner = match &value.kind {
                YamlKind::Map(inner) => inner.iter().filter(|(key, _)| !key.is(name)).collect::<Vec<_>>(),
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
            YamlKind::Scalar { text, plain, .. } => format!("{marks}{}{text:?}", if *plain { "plain " } else { "" }),
            YamlKind::Seq(all) => format!("{marks}[{}]", all.iter().map(Self::bare).collect::<Vec<_>>().join(", ")),
            YamlKind::Map(all) => {
                let each = all.iter().map(|(key, value)| format!("{}: {}", key.bare(), value.bare()));
                format!("{marks}{{{}}}", each.collect::<Vec<_>>().join(", "))
            }
            YamlKind::Alias(id) => format!("*{id}"),
        }
    }
}

/// A list or mapping whose end is not read yet.
struct UnfinishedNode {
    start: usize,
    marks: String,
    nodes: Vec<YamlNode>,
    map: bool,
}

/// The one document of a text; none where there is nothing.
pub(super) fn document(text: &str) -> Result<Option<YamlNode>, EditError> {
    let mut bytes = text.as_bytes().iter().enumerate();
    if let Some((at, _)) = bytes.find(|(n, b)| **b == b'\r' && text.as_bytes().get(n + 1) != Some(&b'\n')) {
        return Err(EditError::shape(Some(super::line_of(text, at)), "there are line ends of an unusual kind"));
    }
    let mut head = text.lines().take_while(|line| !line.starts_with("---")).enumerate();
    if let Some((at, _)) = head.find(|(_, line)| line.starts_with('%') && !line.is_ascii()) {
        // The parser counts their bytes, so all positions after them are wrong.
        return Err(EditError::shape(Some(at + 1), "a directive has letters beyond ASCII"));
    }
    // The parser counts characters, we count bytes.
    let places: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    let place = |index: usize| places.get(index).copied().unwrap_or(text.len());
    let mut open: Vec<UnfinishedNode> = Vec::new();
    let mut root = None;
    let mut documents = 0;
    for event in Parser::new_from_str(text) {
        let (event, span): (Event<'_>, Span) = event.map_err(|e| EditError::malformed(Some(e.marker().line()), e.info()))?;
        let (start, end) = (place(span.start.index()), place(span.end.index()));
        let node = match event {
            Event::DocumentStart(_) => {
                documents += 1;
                if documents > 1 {
                    return Err(EditError::shape(Some(span.start.line()), "there is more than one document"));
                }
                continue;
            }
            Event::SequenceStart(anchor, tag) => {
                open.push(UnfinishedNode { start, marks: marks(anchor, tag.as_deref()), nodes: Vec::new(), map: false });
                None
            }
            Event::MappingStart(anchor, tag) => {
                open.push(UnfinishedNode { start, marks: marks(anchor, tag.as_deref()), nodes: Vec::new(), map: true });
                None
            }
            Event::SequenceEnd | Event::MappingEnd => open.pop().map(|done| closed(done, start, text)),
            Event::Scalar(value, style, anchor, tag) => {
                let block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
                let kind = YamlKind::Scalar { text: value.into_owned(), plain: style == ScalarStyle::Plain, block };
                // A block scalar ends where the next line starts.
                let last = if block { text[..end].trim_end().len().max(start) } else { end.max(start) };
                let last = if last > start && text[..last].ends_with('\n') { last - 1 } else { last };
                Some(YamlNode { start, end: end.max(start), last, kind, marks: marks(anchor, tag.as_deref()) })
            }
            Event::Alias(id) => Some(YamlNode { start, end, last: end, kind: YamlKind::Alias(id), marks: String::new() }),
            _ => continue,
        };
        if open.len() > MAX_DEPTH {
            return Err(EditError::shape(Some(span.start.line()), format!("more than {MAX_DEPTH} lists and mappings are nested")));
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

fn closed(done: UnfinishedNode, start: usize, text: &str) -> YamlNode {
    let UnfinishedNode { start: begin, marks, nodes, map } = done;
    // A node in brackets ends with its bracket, any other with its last child. The end that the parser gives may be after white space.
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
        YamlKind::Map(entries)
    } else {
        YamlKind::Seq(nodes)
    };
    YamlNode { start: begin, end, last, kind, marks }
}
