//! Reading, with the place of everything.

use super::super::{BOM, Trouble, line_of};
use serde_json::Value;
use std::ops::Range;

/// How deep lists and objects may lie in each other.
const DEEPEST: usize = 128;

#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) span: Range<usize>,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone)]
pub(super) enum Kind {
    Plain(Value),
    Array(Vec<Item>),
    Object(Vec<Item>),
}

/// A member or an element.
#[derive(Debug, Clone)]
pub(super) struct Item {
    /// Where it begins: a member with its name.
    pub(super) start: usize,
    pub(super) name: Option<String>,
    pub(super) node: Node,
    /// The comma behind it.
    pub(super) comma: Option<usize>,
}

/// A node without places, in the order of the text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bare {
    pub(super) what: Option<Value>,
    pub(super) list: bool,
    pub(super) children: Vec<(Option<String>, Bare)>,
}

impl Node {
    pub(super) fn items(&self) -> &[Item] {
        match &self.kind {
            Kind::Plain(_) => &[],
            Kind::Array(items) | Kind::Object(items) => items,
        }
    }

    pub(super) fn meaning(&self) -> Value {
        match &self.kind {
            Kind::Plain(value) => value.clone(),
            Kind::Array(items) => items.iter().map(|i| i.node.meaning()).collect(),
            Kind::Object(items) => Value::Object(items.iter().map(|i| (i.name.clone().unwrap_or_default(), i.node.meaning())).collect()),
        }
    }

    pub(super) fn bare(&self) -> Bare {
        let what = match &self.kind {
            Kind::Plain(value) => Some(value.clone()),
            Kind::Array(_) | Kind::Object(_) => None,
        };
        let children = self.items().iter().map(|i| (i.name.clone(), i.node.bare())).collect();
        Bare { what, list: matches!(self.kind, Kind::Array(_)), children }
    }
}

/// The one value of a text; none where there is nothing but white space.
pub(super) fn document(text: &str) -> Result<Option<Node>, Trouble> {
    let mut reader = Reader { text, at: if text.starts_with(BOM) { BOM.len_utf8() } else { 0 } };
    if text[reader.at..].trim_matches(WHITE).is_empty() {
        return Ok(None);
    }
    let node = reader.value(0)?;
    reader.skip()?;
    match reader.peek() {
        None => Ok(Some(node)),
        Some(c) => Err(reader.bad(format!("there is {c:?} behind the end"))),
    }
}

const WHITE: [char; 4] = [' ', '\t', '\r', '\n'];

/// The place behind remarks that stand on the same line, or `at` itself.
pub(super) fn behind_remarks(text: &str, at: usize) -> usize {
    let mut reader = Reader { text, at };
    let mut behind = at;
    loop {
        reader.at += text[reader.at..].len() - text[reader.at..].trim_start_matches([' ', '\t']).len();
        match reader.remark() {
            Ok(Some(remark)) if !text[remark.clone()].contains('\n') => (behind, reader.at) = (remark.end, remark.end),
            _ => return behind,
        }
    }
}

/// Where the last remark or comma between two places ends, and whether that is a remark that lasts to the end of its line. Nothing else but white space is there.
pub(super) fn last_mark(text: &str, from: usize, to: usize) -> (usize, bool) {
    let mut reader = Reader { text, at: from };
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

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn bad(&self, what: impl Into<String>) -> Trouble {
        Trouble::malformed(Some(line_of(self.text, self.at)), what)
    }

    fn wants(&self, what: &str) -> Trouble {
        match self.peek() {
            Some(c) => self.bad(format!("{what} was expected, and there is {c:?}")),
            None => self.bad(format!("{what} was expected, and the text ends")),
        }
    }

    /// Passes white space and remarks.
    fn skip(&mut self) -> Result<(), Trouble> {
        loop {
            let rest = &self.text[self.at..];
            self.at += rest.len() - rest.trim_start_matches(WHITE).len();
            match self.remark()? {
                Some(remark) => self.at = remark.end,
                None => return Ok(()),
            }
        }
    }

    /// The remark that begins here, without the end of its line.
    fn remark(&self) -> Result<Option<Range<usize>>, Trouble> {
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

    fn value(&mut self, depth: usize) -> Result<Node, Trouble> {
        if depth > DEEPEST {
            return Err(self.bad(format!("more than {DEEPEST} lists and objects lie in each other")));
        }
        self.skip()?;
        let start = self.at;
        let kind = match self.peek() {
            Some('{') => Kind::Object(self.items('}', true, depth)?),
            Some('[') => Kind::Array(self.items(']', false, depth)?),
            Some('"') => Kind::Plain(Value::String(self.string()?)),
            _ => {
                let rest = &self.text[start..];
                let word = &rest[..rest.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c))).unwrap_or(rest.len())];
                let value = Some(word).filter(|w| !w.is_empty()).and_then(|w| serde_json::from_str(w).ok());
                self.at += if value.is_some() { word.len() } else { 0 };
                Kind::Plain(value.ok_or_else(|| self.wants("a value"))?)
            }
        };
        Ok(Node { span: start..self.at, kind })
    }

    fn string(&mut self) -> Result<String, Trouble> {
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

    fn items(&mut self, close: char, named: bool, depth: usize) -> Result<Vec<Item>, Trouble> {
        self.at += 1;
        let mut items: Vec<Item> = Vec::new();
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
            items.push(Item { start, name, node, comma });
        }
    }
}
