//! Edits of YAML. A new entry is the first of its mapping: on lines of its own, or after the opening brace. A missing mapping is appended
//! to the text. Other shapes are refused, and the user is shown what to paste.

mod correct;
mod read;

use super::{BOM, Data, EditError, Fields, append_block, cut_block, line_end, line_of, line_start, next_line};
use read::{YamlKind, YamlNode};

/// An entry of a top-level mapping, with at least `fields`. A new one also gets `defaults`.
#[derive(Debug, Clone)]
pub(crate) struct YamlEdit {
    pub(crate) map: &'static str,
    pub(crate) name: &'static str,
    pub(crate) fields: Fields,
    pub(crate) defaults: Fields,
}

impl YamlEdit {
    fn all(&self) -> Fields {
        self.fields.iter().chain(&self.defaults).cloned().collect()
    }
}

/// The indentation of an entry below a mapping that an edit made, and below an empty one that was there. An undo tells them apart by it.
const BELOW_OURS: usize = 2;
const BELOW_EMPTY: usize = 4;

/// Makes an edit. The text is unchanged if it was made before.
pub(crate) fn put(text: &str, edit: &YamlEdit) -> Result<String, EditError> {
    let (bom, body) = text.split_at(if text.starts_with(BOM) { BOM.len_utf8() } else { 0 });
    let root = read::document(body)?;
    let made = match find(body, root.as_ref(), edit)? {
        EntryPosition::Nowhere { indent } => append_block(body, &block(edit, indent, line_end(body))),
        EntryPosition::Empty { key, indent } => {
            let lines = entry(edit, indent + BELOW_EMPTY, line_end(body));
            insert_lines(body, next_line(body, key.start), &lines)
        }
        EntryPosition::Block { key, entries } => {
            let lines = entry(edit, column(body, entries[0].0.start), line_end(body));
            insert_lines(body, next_line(body, key.start), &lines)
        }
        EntryPosition::Flow { open, entries } => {
            let comma = if entries.is_empty() { "" } else { ", " };
            let new = format!("{}: {}{comma}", scalar(edit.name), flow(&Data::Map(edit.all())));
            format!("{}{new}{}", &body[..=open], &body[open + 1..])
        }
        EntryPosition::There { entry, .. } if has(&entry.1, &edit.fields) => return Ok(text.to_owned()),
        EntryPosition::There { .. } => correct::correct(body, edit)?,
    };
    check(body, &made, edit, true)?;
    Ok(format!("{bom}{made}"))
}

/// Undoes an edit: removes the entry with everything that was added to it. The text is unchanged if there is no such entry.
pub(crate) fn take(text: &str, edit: &YamlEdit) -> Result<String, EditError> {
    let (bom, body) = text.split_at(if text.starts_with(BOM) { BOM.len_utf8() } else { 0 });
    let root = read::document(body)?;
    let Ok(EntryPosition::There { key, entry, entries, braces }) = find(body, root.as_ref(), edit) else { return Ok(text.to_owned()) };
    let less = if braces {
        let at = entries.iter().position(|e| e.0.start == entry.0.start).expect("it was found among them");
        let range = match (entries.get(at + 1), at.checked_sub(1)) {
            // `put` wrote a comma and one space.
            (Some(_), _) if body[entry.1.end..].starts_with(", ") => entry.0.start..entry.1.end + 2,
            (Some(next), _) => entry.0.start..next.0.start,
            (None, Some(before)) => entries[before].1.end..entry.1.end,
            (None, None) => entry.0.start..entry.1.end,
        };
        format!("{}{}", &body[..range.start], &body[range.end..])
    } else {
        let (from, to) = (line_start(body, entry.0.start), next_line(body, entry.1.last.max(entry.0.start)));
        let head = line_start(body, key.start);
        let bare = body[key.start..from].trim_end() == format!("{}:", edit.map);
        if entries.len() == 1 && bare && column(body, entry.0.start) == column(body, key.start) + BELOW_OURS {
            cut_block(body, head, to)
        } else if to == body.len() && !body.ends_with('\n') {
            let before = body[..from].strip_suffix('\n').map(|b| b.strip_suffix('\r').unwrap_or(b));
            before.unwrap_or(&body[..from]).to_owned()
        } else {
            format!("{}{}", &body[..from], &body[to..])
        }
    };
    check(body, &less, edit, false)?;
    Ok(format!("{bom}{less}"))
}

/// The value of the entry, if it is there.
pub(crate) fn get(text: &str, edit: &YamlEdit) -> Result<Option<serde_json::Value>, EditError> {
    let body = text.strip_prefix(BOM).unwrap_or(text);
    let root = read::document(body)?;
    Ok(match find(body, root.as_ref(), edit) {
        Ok(EntryPosition::There { entry, .. }) => Some(entry.1.meaning()),
        _ => None,
    })
}

/// A key and its value.
type YamlEntry = (YamlNode, YamlNode);

/// Where the entry is, or where it belongs.
enum EntryPosition<'a> {
    /// There is no such mapping.
    Nowhere {
        indent: usize,
    },
    /// The mapping has a key, but no value.
    Empty {
        key: &'a YamlNode,
        indent: usize,
    },
    Block {
        key: &'a YamlNode,
        entries: &'a [YamlEntry],
    },
    Flow {
        open: usize,
        entries: &'a [YamlEntry],
    },
    There {
        key: &'a YamlNode,
        entry: &'a YamlEntry,
        entries: &'a [YamlEntry],
        braces: bool,
    },
}

fn find<'a>(text: &str, root: Option<&'a YamlNode>, edit: &YamlEdit) -> Result<EntryPosition<'a>, EditError> {
    let shape = |node: &YamlNode, what: String| EditError::shape(Some(line_of(text, node.start)), what);
    let Some(root) = root else { return Ok(EntryPosition::Nowhere { indent: 0 }) };
    let entries = match &root.kind {
        YamlKind::Map(entries) if text.as_bytes().get(root.start) != Some(&b'{') => entries,
        YamlKind::Scalar { .. } if root.is_null() => return Ok(EntryPosition::Nowhere { indent: 0 }),
        _ => return Err(shape(root, "the file is not a mapping of lines".into())),
    };
    if !text[line_start(text, root.start)..root.start].bytes().all(|b| b == b' ') {
        return Err(EditError::malformed(Some(line_of(text, root.start)), "there is something other than spaces in the indentation"));
    }
    let mut named = entries.iter().filter(|(key, _)| key.is(edit.map));
    let Some((key, value)) = named.next() else { return Ok(EntryPosition::Nowhere { indent: column(text, root.start) }) };
    if let Some((again, _)) = named.next() {
        return Err(shape(again, format!("{} is there twice", edit.map)));
    }
    let indent = column(text, key.start);
    let inner = match &value.kind {
        YamlKind::Map(inner) => inner,
        YamlKind::Scalar { .. } if value.is_null() && value.is_empty() => return Ok(EntryPosition::Empty { key, indent }),
        _ => return Err(shape(key, format!("{} is not a mapping", edit.map))),
    };
    let braces = text.as_bytes().get(value.start) == Some(&b'{');
    if let Some(entry) = inner.iter().find(|(key, _)| key.is(edit.name)) {
        return Ok(EntryPosition::There { key, entry, entries: inner, braces });
    }
    match braces {
        true => Ok(EntryPosition::Flow { open: value.start, entries: inner }),
        false if line_of(text, value.start) > line_of(text, key.start) && !inner.is_empty() => {
            Ok(EntryPosition::Block { key, entries: inner })
        }
        false => Err(shape(key, format!("{} is written in a way that nothing can be added to", edit.map))),
    }
}

/// The number of characters before it on its line.
fn column(text: &str, at: usize) -> usize {
    text[line_start(text, at)..at].chars().count()
}

fn insert_lines(text: &str, at: usize, lines: &str) -> String {
    let end = line_end(text);
    match text[..at].ends_with('\n') {
        true => format!("{}{lines}{end}{}", &text[..at], &text[at..]),
        false => format!("{}{end}{lines}", &text[..at]),
    }
}

/// Whether a node has at least these fields.
fn has(node: &YamlNode, fields: &Fields) -> bool {
    let YamlKind::Map(there) = &node.kind else { return false };
    fields.iter().all(|(name, data)| there.iter().any(|(key, value)| key.is(name) && is(value, data)))
}

fn is(node: &YamlNode, data: &Data) -> bool {
    match (&node.kind, data) {
        (YamlKind::Map(_), Data::Map(fields)) => has(node, fields),
        (YamlKind::Seq(there), Data::List(all)) => there.len() == all.len() && there.iter().zip(all).all(|(there, data)| is(there, data)),
        (YamlKind::Scalar { text, .. }, Data::Text(wanted)) => text == wanted,
        (YamlKind::Scalar { text, .. }, Data::Number(n)) => *text == n.to_string(),
        (YamlKind::Scalar { text, .. }, Data::Flag(flag)) => *text == flag.to_string(),
        _ => false,
    }
}

/// Checks that our entry is there (or gone), and that everything else means what it meant.
fn check(before: &str, after: &str, edit: &YamlEdit, there: bool) -> Result<(), EditError> {
    let bad = || {
        let how = if there { "with" } else { "without" };
        EditError::shape(None, format!("{how} {}.{} the rest would not be read as it was", edit.map, edit.name))
    };
    let now = read::document(after).map_err(|_| bad())?;
    let as_meant = match find(after, now.as_ref(), edit) {
        Ok(EntryPosition::There { entry, .. }) => there && has(&entry.1, &edit.fields),
        _ => !there,
    };
    let rest = |root: Option<&YamlNode>| root.map(|root| root.bare_without(edit.map, edit.name)).unwrap_or_default();
    let same = rest(read::document(before)?.as_ref()) == rest(now.as_ref());
    if same && as_meant { Ok(()) } else { Err(bad()) }
}

/// The lines of a new mapping with our entry.
fn block(edit: &YamlEdit, indent: usize, end: &str) -> String {
    format!("{:indent$}{}:{end}{}", "", edit.map, entry(edit, indent + BELOW_OURS, end))
}

fn entry(edit: &YamlEdit, indent: usize, end: &str) -> String {
    let mut lines = vec![format!("{:indent$}{}:", "", scalar(edit.name))];
    fields(&edit.all(), indent + 2, &mut lines);
    lines.join(end)
}

fn fields(fields_: &Fields, indent: usize, lines: &mut Vec<String>) {
    for (name, data) in fields_ {
        let name = scalar(name);
        match data {
            Data::Map(inner) if !inner.is_empty() => {
                lines.push(format!("{:indent$}{name}:", ""));
                fields(inner, indent + 2, lines);
            }
            Data::List(all) if !all.is_empty() => {
                lines.push(format!("{:indent$}{name}:", ""));
                lines.extend(all.iter().map(|one| format!("{:indent$}  - {}", "", flow(one))));
            }
            data => lines.push(format!("{:indent$}{name}: {}", "", flow(data))),
        }
    }
}

fn flow(data: &Data) -> String {
    match data {
        Data::Text(text) => scalar(text),
        Data::Number(n) => n.to_string(),
        Data::Flag(flag) => flag.to_string(),
        Data::List(all) => format!("[{}]", all.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Data::Map(fields) => {
            let each = fields.iter().map(|(name, value)| format!("{}: {}", scalar(name), flow(value)));
            format!("{{{}}}", each.collect::<Vec<_>>().join(", "))
        }
    }
}

/// A string that every parser reads as a string: without quotes only if it is a simple word or path.
fn scalar(text: &str) -> String {
    const WORDS: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c))
        && !WORDS.contains(&text.to_ascii_lowercase().as_str());
    if plain { text.to_owned() } else { serde_json::to_string(text).expect("a text can be written") }
}

#[cfg(test)]
mod tests;
