//! A parser of JSON that keeps the position of each value.

use super::super::{BOM, EditError, line_of};
use serde_json::Value;
use std::ops::Range;

/// How deeply lists and objects may be nested.
const MAX_DEPTH: usize = 128;

#[derive(Debug, Clone)]
pub(super) struct JsonNode {
    pub(super) span: Range<usize>,
    pub(super) kind: JsonKind,
}

#[derive(Debug, Clone)]
pub(super) enum JsonKind {
    Plain(Value),
    Array(Vec<JsonItem>),
    Object(Vec<JsonItem>),
}

/// A member or an element.
#[derive(Debug, Clone)]
pub(super) struct JsonItem {
    /// Where it starts. A member starts with its name.
    pub(super) start: usize,
    pub(super) name: Option<String>,
    pub(super) node: JsonNode,
    /// The position of the comma after it.
    pub(super) comma: Option<usize>,
}

/// A node without positions, in the order of the text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct BareJson {
    pub(super) what: Option<Value>,
    pub(super) list: bool,
    pub(super) children: Vec<(Option<String>, BareJson)>,
}

impl JsonNode {
    pub(super) fn items(&self) -> &[JsonItem] {
        match &self.kind {
            JsonKind::Plain(_) => &[],
            JsonKind::Array(items) | JsonKind::Object(items) => items,
        }
    }

    pub(super) fn meaning(&self) -> Value {
        match &self.kind {
            JsonKind::Plain(value) => value.clone(),
            JsonKind::Array(items) => items.iter().map(|i| i.node.meaning()).collect(),
            JsonKind::Object(items) => {
                Value::Object(items.iter().map(|i| (i.name.clone().unwrap_or_default(), i.node.meaning())).collect())
            }
        }
    }

    pub(super) fn bare(&self) -> BareJson {
        let what = match &self.kind {
            JsonKind::Plain(value) => Some(value.clone()),
            JsonKind::Array(_) | JsonKind::Object(_) => None,
        };
        let children = self.items().iter().map(|i| (i.name.clone(), i.node.bare())).collect();
        BareJson { what, list: matches!(self.kind, JsonKind::Array(_)), children }
    }
}

/// Parses a text. None if there is only white space.
pub(super) fn document(text: &str) -> Result<Option<JsonNode>, EditError> {
    let mut reader = JsonReader { text, at: if text.starts_with(BOM) { BOM.len_utf8() } else { 0 } };
    if text[reader.at..].trim_matches(WHITE).is_empty() {
        return Ok(None);
    }
    let node = reader.value(0)?;
    reader.skip()?;
    match reader.peek() {
        None => Ok(Some(node)),
        Some(c) => Err(reader.bad(format!("there is {c:?} after the end"))),
    }
}

const WHITE: [char; 4] = [' ', '\t', '\r', '\n'];

/// The position after the remarks on the same line, or `at` itself.
pub(super) fn after_remarks(text: &str, at: usize) -> usize {
    let mut reader = JsonReader { text, at };
    let mut after = at;
    loop {
        reader.at += text[reader.at..].len() - text[reader.at..].trim_start_matches([' ', '\t']).len();
        match reader.remark() {
            Ok(Some(remark)) if !text[remark.clone()].contains('\n') => (after, reader.at) = (remark.end, remark.end),
            _ => return after,
        }
    }
}

/// The end of the last remark or comma between two positions with only white space otherwise, and whether that is a remark to the end of
/// its line.
pub(super) fn last_mark(text: &str, from: usize, to: usize) -> (usize, bool) {
    let mut reader = JsonReader { text, at: from };
    let mut last = (from, false);
    while reader.at < to {
        match (reader.remark(), reader.peek()) {
            (Ok(Some(remark)), _) => {
                reader.at = remark.end;
                last = (remark.end, text[remark].starts_with("//"));
            }
            (_, Some(',')) => {
                reader.at += 1;
                last = (reader.at, false);
            }
            (_, c) => reader.at += c.map_or(1, char::len_utf8),
        }
    }
    last
}

struct JsonReader<'a> {
    text: &'a str,
    at: usize,
}

impl JsonReader<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn bad(&self, what: impl Into<String>) -> EditError {
        EditError::malformed(Some(line_of(self.text, self.at)), what)
    }

    fn wants(&self, what: &str) -> EditError {
        match self.peek() {
            Some(c) => self.bad(format!("{what} was expected, and there is {c:?}")),
            None => self.bad(format!("{what} was expected, and the text ends")),
        }
    }

    /// Skips white space and remarks.
    fn skip(&mut self) -> Result<(), EditError> {
        loop {
            let rest = &self.text[self.at..];
            self.at += rest.len() - rest.trim_start_matches(WHITE).len();
            match self.remark()? {
                Some(remark) => self.at = remark.end,
                None => return Ok(()),
            }
        }
    }

    /// The remark that starts here, without its line end.
    fn remark(&self) -> Result<Option<Range<usize>>, EditError> {
        let rest = &self.text[self.at..];
        if rest.starts_with("//") {
            let line = rest.find('\n').map_or(rest, |n| &rest[..n]);
            return Ok(Some(self.at..self.at + line.strip_suffix('\r').unwrap_or(line).len()));
        }
        if let Some(inside) = rest.strip_prefix("/*") {
            let end = inside.find("*/").ok_or_else(|| self.bad("a remark that begins with /* has no end"))?;
            return Ok(Some(self.at..self.at + end + 4));
        }
        Ok(None)
    }

    fn value(&mut self, depth: usize) -> Result<JsonNode, EditError> {
        if depth > MAX_DEPTH {
            return Err(self.bad(format!("more than {MAX_DEPTH} lists and objects are nested")));
        }
        self.skip()?;
        let start = self.at;
        let kind = match self.peek() {
            Some('{') => JsonKind::Object(self.items('}', true, depth)?),
            Some('[') => JsonKind::Array(self.items(']', false, depth)?),
            Some('"') => JsonKind::Plain(Value::String(self.string()?)),
            _ => {
                let rest = &self.text[start..];
                let word = &rest[..rest.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c))).unwrap_or(rest.len())];
                let value = Some(word).filter(|w| !w.is_empty()).and_then(|w| serde_json::from_str(w).ok());
                self.at += if value.is_some() { word.len() } else { 0 };
                JsonKind::Plain(value.ok_or_else(|| self.wants("a value"))?)
            }
        };
        Ok(JsonNode { span: start..self.at, kind })
    }

    fn string(&mut self) -> Result<String, EditError> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut end = start + 1;
        loop {
            match bytes.get(end) {
                Some(b'"') => break,
                Some(b'\\') => end += 2,
                Some(b'\n') | None => return Err(self.bad("a text in quotes has no end")),
                Some(_) => end += 1,
            }
        }
        let read = self.text.get(start..=end).and_then(|text| serde_json::from_str(text).ok());
        let text = read.ok_or_else(|| self.bad("a text in quotes cannot be read"))?;
        self.at = end + 1;
        Ok(text)
    }

    fn items(&mut self, close: char, named: bool, depth: usize) -> Result<Vec<JsonItem>, EditError> {
        self.at += 1;
        let mut items: Vec<JsonItem> = Vec::new();
        loop {
            self.skip()?;
            if self.peek() == Some(close) {
                self.at += 1;
                return Ok(items);
            }
            if items.last().is_some_and(|last| last.comma.is_none()) {
                return Err(self.wants(&format!("a comma or {close}")));
            }
            let start = self.at;
            let name = match (named, self.peek()) {
                (false, _) => None,
                (true, Some('"')) => {
                    let name = self.string()?;
                    self.skip()?;
                    if self.peek() != Some(':') {
                        return Err(self.wants("a colon"));
                    }
                    self.at += 1;
                    Some(name)
                }
                (true, _) => return Err(self.wants(&format!("a name in quotes or {close}"))),
            };
            let node = self.value(depth + 1)?;
            self.skip()?;
            let comma = (self.peek() == Some(',')).then_some(self.at);
            self.at += usize::from(comma.is_some());
            items.push(JsonItem { start, name, node, comma });
        }
    }
}
