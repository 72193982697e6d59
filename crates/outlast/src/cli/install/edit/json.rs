//! Edits of JSON, with the comments and trailing commas that some clients allow.
//!
//! A new member follows the last one: with its indentation, or on the same line if the object is on one line. In `{}` it gets no space
//! before it, but an object that is made here has white space after its brace. So an undo sees whether an object that becomes empty was
//! there before.

mod read;
mod write;

use super::{BOM, Data, EditError, Fields, line_end, line_of};
use read::{JsonItem, JsonKind, JsonNode};
use serde_json::Value;
use std::ops::Range;

/// What a file should contain.
#[derive(Debug, Clone)]
pub(crate) enum JsonEdit {
    /// An object under a path of names, with at least `fields`. A new one also gets `defaults`.
    Member { path: Vec<&'static str>, fields: Fields, defaults: Fields },
    /// An object in the list under a path. `ours` recognises those that an earlier edit made.
    Element { path: Vec<&'static str>, data: Data, ours: fn(&Value) -> Ours },
}

/// How much of an element an earlier edit made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ours {
    Nothing,
    Whole,
    /// Elements of the list under this name: those for which `ours` says `Whole`.
    Within(&'static str),
}

/// Makes an edit. The text is unchanged if it was made before.
pub(crate) fn put(text: &str, edit: &JsonEdit) -> Result<String, EditError> {
    let doc = JsonText::read(text)?;
    let bad = || EditError::shape(None, "after the change it would not be read back as it is meant");
    match edit {
        JsonEdit::Member { path, fields, defaults } => {
            let mut meant = doc.meaning();
            let new = path.iter().try_fold(&meant, |at, name| at.get(name)).is_none();
            let fields: Fields = fields.iter().chain(defaults.iter().filter(|_| new)).cloned().collect();
            let made = doc.put_member(path, &fields)?;
            merge(&mut meant, path, Data::Map(fields).meaning());
            if JsonText::read(&made).map_err(|_| bad())?.meaning() == meant { Ok(made) } else { Err(bad()) }
        }
        JsonEdit::Element { path, data, ours } => {
            let wanted = data.meaning();
            let there: Vec<Value> = doc.elements(path)?.iter().map(|e| e.node.meaning()).filter(|e| ours(e) != Ours::Nothing).collect();
            if matches!(&there[..], [one] if holds(one, &wanted, ours(one))) {
                return Ok(text.to_owned());
            }
            // Replace what an older version or other settings wrote.
            let without = take(text, edit)?;
            let doc = JsonText::read(&without)?;
            let mut meant = list(&doc.meaning(), path);
            let made = doc.put_at(path, &|style: write::JsonLayout<'_>| write::data(data, style), true)?;
            let now = JsonText::read(&made).map_err(|_| bad())?.meaning();
            meant.push(wanted);
            if list(&now, path) == meant && others(now, path) == others(doc.meaning(), path) { Ok(made) } else { Err(bad()) }
        }
    }
}

/// Undoes an edit, with the lists and objects that [`put`] made for it. The text is unchanged if there is nothing to undo.
pub(crate) fn take(text: &str, edit: &JsonEdit) -> Result<String, EditError> {
    let mut text = text.to_owned();
    // Each round removes one element, so the text gets shorter.
    loop {
        let doc = JsonText::read(&text)?;
        let Some(way) = doc.way_to_ours(edit) else { return Ok(text) };
        let less = doc.cut(&way);
        doc.check_taken(&less, &way)?;
        text = less;
    }
}

/// The value under a path, if there is one.
pub(crate) fn get(text: &str, path: &[&str]) -> Result<Option<Value>, EditError> {
    let meaning = JsonText::read(text)?.root.map_or(Value::Null, |r| r.meaning());
    Ok(path.iter().try_fold(&meaning, |at, name| at.get(name)).cloned())
}

/// Whether `there` is `wanted`, or an object with more fields.
fn has(there: &Value, wanted: &Value) -> bool {
    match (there, wanted) {
        (Value::Object(there), Value::Object(wanted)) => wanted.iter().all(|(name, w)| there.get(name).is_some_and(|t| has(t, w))),
        (Value::Array(there), Value::Array(wanted)) => {
            there.len() == wanted.len() && there.iter().zip(wanted).all(|(there, wanted)| has(there, wanted))
        }
        (there, wanted) => there == wanted,
    }
}

/// Whether an element is what is wanted, also if it shares a list with others.
fn holds(there: &Value, wanted: &Value, ours: Ours) -> bool {
    match ours {
        Ours::Nothing => false,
        Ours::Whole => has(there, wanted),
        Ours::Within(name) => {
            let all = |of: &Value| of.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
            all(wanted).iter().all(|w| all(there).iter().any(|t| has(t, w)))
        }
    }
}

/// Adds fields under a path to those that are there.
fn merge(value: &mut Value, path: &[&str], wanted: Value) {
    if let Some((first, rest)) = path.split_first() {
        if !value.is_object() {
            *value = Value::Object(serde_json::Map::new());
        }
        return merge(&mut value[*first], rest, wanted);
    }
    match (value, wanted) {
        (Value::Object(there), Value::Object(wanted)) => {
            wanted.into_iter().for_each(|(name, wanted)| merge(there.entry(name).or_insert(Value::Null), &[], wanted));
        }
        (value, wanted) if !has(value, &wanted) => *value = wanted,
        _ => {}
    }
}

/// The list under a path; empty if there is none.
fn list(meaning: &Value, path: &[&str]) -> Vec<Value> {
    path.iter().try_fold(meaning, |at, name| at.get(name)).and_then(Value::as_array).cloned().unwrap_or_default()
}

/// A text, and its parsed form.
struct JsonText<'a> {
    text: &'a str,
    /// None if there is only white space.
    root: Option<JsonNode>,
}

impl<'a> JsonText<'a> {
    fn read(text: &'a str) -> Result<Self, EditError> {
        Ok(Self { text, root: read::document(text)? })
    }

    fn shape(&self, at: usize, what: impl Into<String>) -> EditError {
        EditError::shape(Some(line_of(self.text, at)), what)
    }

    /// The deepest node on a path, and how many names of the path lead to it.
    fn deepest(&self, path: &[&str]) -> Result<Option<(&JsonNode, usize)>, EditError> {
        let Some(mut node) = self.root.as_ref() else { return Ok(None) };
        for (depth, name) in path.iter().enumerate() {
            match &node.kind {
                JsonKind::Object(members) => match members.iter().rfind(|m| m.name.as_deref() == Some(*name)) {
                    Some(member) => node = &member.node,
                    None => return Ok(Some((node, depth))),
                },
                _ => {
                    let what = if depth == 0 { "the whole of it".to_owned() } else { path[..depth].join(".") };
                    return Err(self.shape(node.span.start, format!("{what} is not an object, so {name} cannot be in it")));
                }
            }
        }
        Ok(Some((node, path.len())))
    }

    fn elements(&self, path: &[&str]) -> Result<&[JsonItem], EditError> {
        match self.deepest(path)? {
            Some((node, depth)) if depth == path.len() => match &node.kind {
                JsonKind::Array(elements) => Ok(elements),
                _ => Err(self.shape(node.span.start, format!("{} is not a list", path.join(".")))),
            },
            _ => Ok(&[]),
        }
    }

    fn put_member(&self, path: &[&str], fields: &Fields) -> Result<String, EditError> {
        let found = match self.deepest(path)? {
            Some((node, depth)) if depth == path.len() => node,
            _ => return self.put_at(path, &|style: write::JsonLayout<'_>| write::fields(fields, style), false),
        };
        let JsonKind::Object(members) = &found.kind else {
            return Err(self.shape(found.span.start, format!("{} is not an object", path.join("."))));
        };
        // One at a time, because each edit moves the text after it.
        let mut text = self.text.to_owned();
        for (name, data) in fields {
            let inner: Vec<&str> = path.iter().copied().chain([name.as_str()]).collect();
            let member = members.iter().rfind(|m| m.name.as_deref() == Some(name));
            text = match (member.map(|m| &m.node.kind), data) {
                (Some(JsonKind::Object(_)), Data::Map(fields)) => JsonText::read(&text)?.put_member(&inner, fields)?,
                (Some(_), data) => JsonText::read(&text)?.replace(&inner, data)?,
                (None, data) => JsonText::read(&text)?.put_at(&inner, &|style: write::JsonLayout<'_>| write::data(data, style), false)?,
            };
        }
        Ok(text)
    }

    /// Replaces the value under an existing path.
    fn replace(&self, path: &[&str], data: &Data) -> Result<String, EditError> {
        let Some((node, _)) = self.deepest(path)? else { return Ok(self.text.to_owned()) };
        if has(&node.meaning(), &data.meaning()) {
            return Ok(self.text.to_owned());
        }
        let style = write::JsonLayout { indent: None, unit: "", end: "" };
        let Range { start, end } = node.span;
        Ok(format!("{}{}{}", &self.text[..start], write::data(data, style), &self.text[end..]))
    }

    /// Adds something new under a path: as the last member, or with `element` to the list there. Makes missing objects on the way.
    fn put_at(&self, path: &[&str], write: &dyn Fn(write::JsonLayout<'_>) -> String, element: bool) -> Result<String, EditError> {
        let end = line_end(self.text);
        let unit = self.unit();
        let (node, depth) = match self.deepest(path)? {
            Some((node, depth)) if element || depth < path.len() => (node, depth),
            Some((node, _)) => return Err(self.shape(node.span.start, format!("{} is there already", path.join(".")))),
            None => {
                let style = write::JsonLayout { indent: Some(""), unit, end };
                let whole = wrapped(path, write, element, style);
                let at = if self.text.starts_with(BOM) { BOM.len_utf8() } else { 0 };
                return Ok(format!("{}{whole}{end}{}", &self.text[..at], &self.text[at..]));
            }
        };
        let (items, name) = match (&node.kind, path.get(depth)) {
            (JsonKind::Object(members), Some(name)) => (members, Some(*name)),
            (JsonKind::Array(elements), None) => (elements, None),
            _ => return Err(self.shape(node.span.start, format!("{} is not a list", path.join(".")))),
        };
        let item = |style: write::JsonLayout<'_>| match name {
            Some(name) => format!("{}: {}", write::text(name), wrapped(&path[depth + 1..], write, element, style)),
            None => write(style),
        };
        let flat = write::JsonLayout { indent: None, unit, end };
        let Some(last) = items.last() else {
            let at = node.span.start + 1;
            return Ok(format!("{}{}{}", &self.text[..at], item(flat), &self.text[at..]));
        };
        let first = items[0].start;
        let own_line = self.text[node.span.start..first].contains('\n');
        let mut out = self.text[..last.node.span.end].to_owned();
        if own_line {
            let indent = self.indent_before(first);
            let item = item(write::JsonLayout { indent: Some(indent), unit, end });
            let rest = match last.comma {
                Some(comma) => {
                    out.push_str(&self.text[last.node.span.end..=comma]);
                    comma + 1
                }
                None => {
                    out.push(',');
                    last.node.span.end
                }
            };
            let at = read::after_remarks(self.text, rest);
            let comma = if last.comma.is_some() { "," } else { "" };
            out += &format!("{}{end}{indent}{item}{comma}{}", &self.text[rest..at], &self.text[at..]);
        } else {
            match last.comma {
                Some(comma) => {
                    out += &format!("{} {},{}", &self.text[last.node.span.end..=comma], item(flat), &self.text[comma + 1..]);
                }
                None => out += &format!(", {}{}", item(flat), &self.text[last.node.span.end..]),
            }
        }
        Ok(out)
    }

    /// The indentation of one level.
    fn unit(&self) -> &'a str {
        let first = match self.root.as_ref().map(|r| &r.kind) {
            Some(JsonKind::Object(items) | JsonKind::Array(items)) => items.first(),
            _ => None,
        };
        first.map(|item| self.indent_before(item.start)).filter(|i| !i.is_empty()).unwrap_or("  ")
    }

    /// The white space between the start of the line and this place.
    fn indent_before(&self, at: usize) -> &'a str {
        let line = &self.text[super::line_start(self.text, at)..at];
        &line[line.trim_end_matches([' ', '\t']).len()..]
    }

    /// The positions, from the root down, that lead to something that an edit made.
    fn way_to_ours(&self, edit: &JsonEdit) -> Option<Vec<usize>> {
        let (JsonEdit::Member { path, .. } | JsonEdit::Element { path, .. }) = edit;
        let mut node = self.root.as_ref()?;
        let mut way = Vec::new();
        for name in path {
            let JsonKind::Object(members) = &node.kind else { return None };
            let at = members.iter().rposition(|m| m.name.as_deref() == Some(*name))?;
            way.push(at);
            node = &members[at].node;
        }
        let JsonEdit::Element { ours, .. } = edit else { return Some(way) };
        let JsonKind::Array(elements) = &node.kind else { return None };
        for (at, element) in elements.iter().enumerate().rev() {
            match ours(&element.node.meaning()) {
                Ours::Nothing => {}
                Ours::Whole => {
                    way.push(at);
                    return Some(way);
                }
                Ours::Within(name) => {
                    let JsonKind::Object(members) = &element.node.kind else { continue };
                    let Some(list) = members.iter().rposition(|m| m.name.as_deref() == Some(name)) else { continue };
                    let JsonKind::Array(inner) = &members[list].node.kind else { continue };
                    let Some(one) = inner.iter().rposition(|e| ours(&e.node.meaning()) == Ours::Whole) else { continue };
                    way.extend([at, list, one]);
                    return Some(way);
                }
            }
        }
        None
    }

    /// The text without this element, and without containers that were made only for it.
    fn cut(&self, way: &[usize]) -> String {
        let mut holders = vec![self.root.as_ref().expect("a way leads through something")];
        for at in &way[..way.len() - 1] {
            holders.push(&holders[holders.len() - 1].items()[*at].node);
        }
        let mut depth = way.len();
        while depth > 0 && self.was_made_for(holders[depth - 1], way[depth - 1]) {
            depth -= 1;
        }
        if depth == 0 {
            let root = holders[0];
            let after = &self.text[root.span.end..];
            let after = after.strip_prefix("\r\n").or_else(|| after.strip_prefix('\n')).unwrap_or(after);
            return format!("{}{after}", &self.text[..root.span.start]);
        }
        self.without_item(holders[depth - 1], way[depth - 1])
    }

    /// Whether a container holds nothing else, and has the white space of one that an edit made.
    fn was_made_for(&self, holder: &JsonNode, at: usize) -> bool {
        let items = holder.items();
        let item = &items[at];
        let before = &self.text[holder.span.start + 1..item.start];
        let after = &self.text[item.node.span.end..holder.span.end - 1];
        items.len() == 1 && !before.is_empty() && before.trim().is_empty() && after.trim().is_empty()
    }

    fn without_item(&self, holder: &JsonNode, at: usize) -> String {
        let items = holder.items();
        let item = &items[at];
        let text = self.text;
        let from = at.checked_sub(1).map_or(holder.span.start + 1, |n| items[n].node.span.end);
        let (lead, remark) = read::last_mark(text, from, item.start);
        let (mut end, mut before) = (item.node.span.end, None);
        match item.comma {
            // A remark before the comma is kept.
            Some(comma) if text[end..comma].trim().is_empty() => end = comma + 1,
            Some(comma) => return format!("{}{}{}", &text[..item.start], &text[end..comma], &text[comma + 1..]),
            None => before = at.checked_sub(1).and_then(|n| items[n].comma),
        }
        // The rest of the line must not become part of a remark.
        let rest_of_line = &text[end..super::next_line(text, end)];
        let start = if remark && !rest_of_line.trim().is_empty() { item.start } else { lead };
        let after = &text[end..];
        match before {
            Some(comma) if comma < start => format!("{}{}{after}", &text[..comma], &text[comma + 1..start]),
            _ => format!("{}{after}", &text[..start]),
        }
    }

    /// Checks that everything else means what it meant.
    fn check_taken(&self, less: &str, way: &[usize]) -> Result<(), EditError> {
        let bad = || EditError::shape(None, "without what was put there the rest would not be read as it was");
        let now = JsonText::read(less).map_err(|_| bad())?;
        // Containers that are empty now may be gone, too.
        let mut expected = self.root.as_ref().map(JsonNode::bare);
        let mut allowed = Vec::new();
        let mut way = way.to_vec();
        while let Some(last) = way.pop() {
            let Some(root) = &mut expected else { break };
            let holder = way.iter().fold(root, |node, at| &mut node.children[*at].1);
            holder.children.remove(last);
            let empty = holder.children.is_empty();
            allowed.push(expected.clone());
            if !empty {
                break;
            }
            if way.is_empty() {
                allowed.push(None);
            }
        }
        let got = now.root.as_ref().map(JsonNode::bare);
        if allowed.contains(&got) { Ok(()) } else { Err(bad()) }
    }

    fn meaning(&self) -> Value {
        self.root.as_ref().map_or(Value::Null, JsonNode::meaning)
    }
}

/// A value without what is under a path.
fn others(mut meaning: Value, path: &[&str]) -> Value {
    fn without(value: &mut Value, path: &[&str]) {
        let (Some((first, rest)), Some(object)) = (path.split_first(), value.as_object_mut()) else { return };
        if let Some(inner) = object.get_mut(*first).filter(|_| !rest.is_empty()) {
            without(inner, rest);
        }
        if rest.is_empty() || object.get(*first).is_some_and(|inner| inner.as_object().is_some_and(serde_json::Map::is_empty)) {
            object.remove(*first);
        }
    }
    without(&mut meaning, path);
    // An empty object counts as no document.
    if meaning.as_object().is_some_and(serde_json::Map::is_empty) { Value::Null } else { meaning }
}

/// A value with the objects around it that `path` names.
fn wrapped(path: &[&str], write: &dyn Fn(write::JsonLayout<'_>) -> String, element: bool, style: write::JsonLayout<'_>) -> String {
    match path {
        [] if element => write::around("[", "]", style, write),
        [] => write(style),
        [name, rest @ ..] => {
            write::around("{", "}", style, |style| format!("{}: {}", write::text(name), wrapped(rest, write, element, style)))
        }
    }
}

#[cfg(test)]
mod tests;
