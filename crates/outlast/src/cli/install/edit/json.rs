//! JSON, with the comments and trailing commas that some clients allow.
//!
//! A new member goes behind the last one, in its indentation, or on its line where all is on one line. Into `{}` it goes without a space, and an object that
//! is made here has white space behind its brace: so it is seen later whether an object that is empty without us was there before.

mod read;
mod write;

use super::{BOM, Data, Fields, Trouble, line_end, line_of};
use read::{Item, Kind, Node};
use serde_json::Value;
use std::ops::Range;

/// What is to be in a file.
#[derive(Debug, Clone)]
pub(crate) enum Wish {
    /// An object under a path of names, with at least these fields, and with those of `usual` where it is new.
    Member { path: Vec<&'static str>, fields: Fields, usual: Fields },
    /// An object in the list under a path. Those that were made here earlier are known by `ours`.
    Element { path: Vec<&'static str>, data: Data, ours: fn(&Value) -> Ours },
}

/// How much of an element was made here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ours {
    Nothing,
    Whole,
    /// Elements of the list under this name, each of which `ours` calls whole.
    Within(&'static str),
}

/// Sees to it that what is wished for is there. The same text, if it is already.
pub(crate) fn put(text: &str, wish: &Wish) -> Result<String, Trouble> {
    let doc = Doc::read(text)?;
    let bad = || Trouble::shape(None, "what was put there would not be read back as it is meant");
    match wish {
        Wish::Member { path, fields, usual } => {
            let mut meant = doc.meaning();
            let new = path.iter().try_fold(&meant, |at, name| at.get(name)).is_none();
            let fields: Fields = fields.iter().chain(usual.iter().filter(|_| new)).cloned().collect();
            let made = doc.put_member(path, &fields)?;
            merge(&mut meant, path, Data::Map(fields).meaning());
            if Doc::read(&made).map_err(|_| bad())?.meaning() == meant { Ok(made) } else { Err(bad()) }
        }
        Wish::Element { path, data, ours } => {
            let wanted = data.meaning();
            let there: Vec<Value> = doc.elements(path)?.iter().map(|e| e.node.meaning()).filter(|e| ours(e) != Ours::Nothing).collect();
            if matches!(&there[..], [one] if holds(one, &wanted, ours(one))) {
                return Ok(text.to_owned());
            }
            // One of another time says something else by now.
            let without = take(text, wish)?;
            let doc = Doc::read(&without)?;
            let mut meant = list(&doc.meaning(), path);
            let made = doc.put_at(path, &|style: write::Style<'_>| write::data(data, style), true)?;
            let now = Doc::read(&made).map_err(|_| bad())?.meaning();
            meant.push(wanted);
            if list(&now, path) == meant && others(now, path) == others(doc.meaning(), path) { Ok(made) } else { Err(bad()) }
        }
    }
}

/// Takes out what [`put`] put there, and lists and objects that were made for it. The same text, if there is nothing of it.
pub(crate) fn take(text: &str, wish: &Wish) -> Result<String, Trouble> {
    let mut text = text.to_owned();
    // Each round takes one thing out, and the text gets shorter.
    loop {
        let doc = Doc::read(&text)?;
        let Some(way) = doc.way_to_ours(wish) else { return Ok(text) };
        let less = doc.cut(&way);
        doc.check_taken(&less, &way)?;
        text = less;
    }
}

/// What is under a path, if anything is.
pub(crate) fn get(text: &str, path: &[&str]) -> Result<Option<Value>, Trouble> {
    let meaning = Doc::read(text)?.root.map_or(Value::Null, |r| r.meaning());
    Ok(path.iter().try_fold(&meaning, |at, name| at.get(name)).cloned())
}

/// Whether `there` is `wanted`, or an object with more in it.
fn has(there: &Value, wanted: &Value) -> bool {
    match (there, wanted) {
        (Value::Object(there), Value::Object(wanted)) => wanted.iter().all(|(name, w)| there.get(name).is_some_and(|t| has(t, w))),
        (Value::Array(there), Value::Array(wanted)) => {
            there.len() == wanted.len() && there.iter().zip(wanted).all(|(there, wanted)| has(there, wanted))
        }
        (there, wanted) => there == wanted,
    }
}

/// Whether an element is what is wanted, also where it shares a list with others.
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

/// Puts these under a path, beside what is there.
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

/// The list under a path; none where there is none.
fn list(meaning: &Value, path: &[&str]) -> Vec<Value> {
    path.iter().try_fold(meaning, |at, name| at.get(name)).and_then(Value::as_array).cloned().unwrap_or_default()
}

struct Doc<'a> {
    text: &'a str,
    /// None where there is nothing but white space.
    root: Option<Node>,
}

impl<'a> Doc<'a> {
    fn read(text: &'a str) -> Result<Self, Trouble> {
        Ok(Self { text, root: read::document(text)? })
    }

    fn shape(&self, at: usize, what: impl Into<String>) -> Trouble {
        Trouble::shape(Some(line_of(self.text, at)), what)
    }

    /// The node under these names, and how many of the names lead to it.
    fn deepest(&self, path: &[&str]) -> Result<Option<(&Node, usize)>, Trouble> {
        let Some(mut node) = self.root.as_ref() else { return Ok(None) };
        for (depth, name) in path.iter().enumerate() {
            match &node.kind {
                Kind::Object(members) => match members.iter().rfind(|m| m.name.as_deref() == Some(*name)) {
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

    fn elements(&self, path: &[&str]) -> Result<&[Item], Trouble> {
        match self.deepest(path)? {
            Some((node, depth)) if depth == path.len() => match &node.kind {
                Kind::Array(elements) => Ok(elements),
                _ => Err(self.shape(node.span.start, format!("{} is not a list", path.join(".")))),
            },
            _ => Ok(&[]),
        }
    }

    fn put_member(&self, path: &[&str], fields: &Fields) -> Result<String, Trouble> {
        let found = match self.deepest(path)? {
            Some((node, depth)) if depth == path.len() => node,
            _ => return self.put_at(path, &|style: write::Style<'_>| write::fields(fields, style), false),
        };
        let Kind::Object(members) = &found.kind else {
            return Err(self.shape(found.span.start, format!("{} is not an object", path.join("."))));
        };
        // One at a time, as each moves what is behind it.
        let mut text = self.text.to_owned();
        for (name, data) in fields {
            let inner: Vec<&str> = path.iter().copied().chain([name.as_str()]).collect();
            let member = members.iter().rfind(|m| m.name.as_deref() == Some(name));
            text = match (member.map(|m| &m.node.kind), data) {
                (Some(Kind::Object(_)), Data::Map(fields)) => Doc::read(&text)?.put_member(&inner, fields)?,
                (Some(_), data) => Doc::read(&text)?.replace(&inner, data)?,
                (None, data) => Doc::read(&text)?.put_at(&inner, &|style: write::Style<'_>| write::data(data, style), false)?,
            };
        }
        Ok(text)
    }

    /// The same, with another value under a path that leads somewhere.
    fn replace(&self, path: &[&str], data: &Data) -> Result<String, Trouble> {
        let Some((node, _)) = self.deepest(path)? else { return Ok(self.text.to_owned()) };
        if has(&node.meaning(), &data.meaning()) {
            return Ok(self.text.to_owned());
        }
        let style = write::Style { indent: None, unit: "", end: "" };
        let Range { start, end } = node.span;
        Ok(format!("{}{}{}", &self.text[..start], write::data(data, style), &self.text[end..]))
    }

    /// Puts something that is not there yet under a path: as its last member, or with `element` into the list there. Objects that are missing on the way are made.
    fn put_at(&self, path: &[&str], write: &dyn Fn(write::Style<'_>) -> String, element: bool) -> Result<String, Trouble> {
        let end = line_end(self.text);
        let unit = self.unit();
        let (node, depth) = match self.deepest(path)? {
            Some((node, depth)) if element || depth < path.len() => (node, depth),
            Some((node, _)) => return Err(self.shape(node.span.start, format!("{} is there already", path.join(".")))),
            None => {
                let style = write::Style { indent: Some(""), unit, end };
                let whole = wrapped(path, write, element, style);
                let at = if self.text.starts_with(BOM) { BOM.len_utf8() } else { 0 };
                return Ok(format!("{}{whole}{end}{}", &self.text[..at], &self.text[at..]));
            }
        };
        let (items, name) = match (&node.kind, path.get(depth)) {
            (Kind::Object(members), Some(name)) => (members, Some(*name)),
            (Kind::Array(elements), None) => (elements, None),
            _ => return Err(self.shape(node.span.start, format!("{} is not a list", path.join(".")))),
        };
        let item = |style: write::Style<'_>| match name {
            Some(name) => format!("{}: {}", write::text(name), wrapped(&path[depth + 1..], write, element, style)),
            None => write(style),
        };
        let flat = write::Style { indent: None, unit, end };
        let Some(last) = items.last() else {
            let at = node.span.start + 1;
            return Ok(format!("{}{}{}", &self.text[..at], item(flat), &self.text[at..]));
        };
        let first = items[0].start;
        let own_line = self.text[node.span.start..first].contains('\n');
        let mut out = self.text[..last.node.span.end].to_owned();
        if own_line {
            let indent = self.indent_before(first);
            let item = item(write::Style { indent: Some(indent), unit, end });
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
            let at = read::behind_remarks(self.text, rest);
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

    /// By how much a level is indented here.
    fn unit(&self) -> &'a str {
        let first = match self.root.as_ref().map(|r| &r.kind) {
            Some(Kind::Object(items) | Kind::Array(items)) => items.first(),
            _ => None,
        };
        first.map(|item| self.indent_before(item.start)).filter(|i| !i.is_empty()).unwrap_or("  ")
    }

    /// The white space between a line's beginning and what stands there.
    fn indent_before(&self, at: usize) -> &'a str {
        let line = &self.text[super::line_start(self.text, at)..at];
        &line[line.trim_end_matches([' ', '\t']).len()..]
    }

    /// The way to something that was made here: positions in each container from the root on.
    fn way_to_ours(&self, wish: &Wish) -> Option<Vec<usize>> {
        let (Wish::Member { path, .. } | Wish::Element { path, .. }) = wish;
        let mut node = self.root.as_ref()?;
        let mut way = Vec::new();
        for name in path {
            let Kind::Object(members) = &node.kind else { return None };
            let at = members.iter().rposition(|m| m.name.as_deref() == Some(*name))?;
            way.push(at);
            node = &members[at].node;
        }
        let Wish::Element { ours, .. } = wish else { return Some(way) };
        let Kind::Array(elements) = &node.kind else { return None };
        for (at, element) in elements.iter().enumerate().rev() {
            match ours(&element.node.meaning()) {
                Ours::Nothing => {}
                Ours::Whole => {
                    way.push(at);
                    return Some(way);
                }
                Ours::Within(name) => {
                    let Kind::Object(members) = &element.node.kind else { continue };
                    let Some(list) = members.iter().rposition(|m| m.name.as_deref() == Some(name)) else { continue };
                    let Kind::Array(inner) = &members[list].node.kind else { continue };
                    let Some(one) = inner.iter().rposition(|e| ours(&e.node.meaning()) == Ours::Whole) else { continue };
                    way.extend([at, list, one]);
                    return Some(way);
                }
            }
        }
        None
    }

    /// The text without what the way leads to, and without containers that were made for it alone.
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

    /// Whether this holds nothing else, and has white space where one that was there before has none.
    fn was_made_for(&self, holder: &Node, at: usize) -> bool {
        let items = holder.items();
        let item = &items[at];
        let before = &self.text[holder.span.start + 1..item.start];
        let after = &self.text[item.node.span.end..holder.span.end - 1];
        items.len() == 1 && !before.is_empty() && before.trim().is_empty() && after.trim().is_empty()
    }

    fn without_item(&self, holder: &Node, at: usize) -> String {
        let items = holder.items();
        let item = &items[at];
        let text = self.text;
        let from = at.checked_sub(1).map_or(holder.span.start + 1, |n| items[n].node.span.end);
        let (lead, remark) = read::last_mark(text, from, item.start);
        let (mut end, mut before) = (item.node.span.end, None);
        match item.comma {
            // Only white space is between them, or it is left there.
            Some(comma) if text[end..comma].trim().is_empty() => end = comma + 1,
            Some(comma) => return format!("{}{}{}", &text[..item.start], &text[end..comma], &text[comma + 1..]),
            None => before = at.checked_sub(1).and_then(|n| items[n].comma),
        }
        // What stands behind it on its line must not get into a remark.
        let rest_of_line = &text[end..super::next_line(text, end)];
        let start = if remark && !rest_of_line.trim().is_empty() { item.start } else { lead };
        let after = &text[end..];
        match before {
            Some(comma) if comma < start => format!("{}{}{after}", &text[..comma], &text[comma + 1..start]),
            _ => format!("{}{after}", &text[..start]),
        }
    }

    /// Everything else must mean what it meant.
    fn check_taken(&self, less: &str, way: &[usize]) -> Result<(), Trouble> {
        let bad = || Trouble::shape(None, "without what was put there the rest would not be read as it was");
        let now = Doc::read(less).map_err(|_| bad())?;
        // The longest that may have gone with it is what was made for it: each holder with nothing else in it.
        let mut expected = self.root.as_ref().map(Node::bare);
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
        let got = now.root.as_ref().map(Node::bare);
        if allowed.contains(&got) { Ok(()) } else { Err(bad()) }
    }

    fn meaning(&self) -> Value {
        self.root.as_ref().map_or(Value::Null, Node::meaning)
    }
}

/// Everything but what is under a path.
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
    // A document that was empty was no document.
    if meaning.as_object().is_some_and(serde_json::Map::is_empty) { Value::Null } else { meaning }
}

/// What is to be under `path`, with the objects around it.
fn wrapped(path: &[&str], write: &dyn Fn(write::Style<'_>) -> String, element: bool, style: write::Style<'_>) -> String {
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
