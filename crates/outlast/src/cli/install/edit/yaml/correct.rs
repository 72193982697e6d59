//! Corrects an entry that exists and differs. Missing fields are inserted before the others, and wrong values are replaced in place;
//! everything else in the entry stays. If that is impossible, the entry is written anew, but only if everything in it is ours.

use super::read::{self, YamlKind, YamlNode};
use super::{
    Data, EditError, EntryPosition, Fields, YamlEdit, YamlEntry, column, fields, find, flow, has, is, line_end, line_of, line_start,
    next_line, put, scalar, take,
};

/// More rounds than any edit has fields.
const MAX_ROUNDS: usize = 32;

pub(super) fn correct(text: &str, edit: &YamlEdit) -> Result<String, EditError> {
    let mut now = text.to_owned();
    // Each round corrects one field.
    for _ in 0..=MAX_ROUNDS {
        let root = read::document(&now)?;
        let (entry, _) = entry_of(&now, root.as_ref(), edit)?;
        if has(&entry.1, &edit.fields) {
            return Ok(now);
        }
        let rest = rest(&entry.1, &edit.fields);
        let Some(next) = step(&now, &entry.1, &edit.fields).filter(|next| keeps(next, edit, &rest)) else { break };
        now = next;
    }
    anew(text, edit)
}

fn entry_of<'a>(text: &str, root: Option<&'a YamlNode>, edit: &YamlEdit) -> Result<(&'a YamlEntry, bool), EditError> {
    let bad = |line| EditError::shape(line, format!("{}.{} is not a mapping", edit.map, edit.name));
    match find(text, root, edit)? {
        EntryPosition::There { entry, braces, .. } if matches!(entry.1.kind, YamlKind::Map(_)) => Ok((entry, braces)),
        EntryPosition::There { entry, .. } => Err(bad(Some(line_of(text, entry.0.start)))),
        _ => Err(bad(None)),
    }
}

/// Whether everything in the entry that is not ours means what it meant.
fn keeps(text: &str, edit: &YamlEdit, was: &str) -> bool {
    let Ok(root) = read::document(text) else { return false };
    entry_of(text, root.as_ref(), edit).is_ok_and(|(entry, _)| rest(&entry.1, &edit.fields) == was)
}

/// The content of a mapping without these fields, at every depth.
fn rest(node: &YamlNode, fields: &Fields) -> String {
    let YamlKind::Map(there) = &node.kind else { return String::new() };
    let each = there.iter().map(|(key, value)| match fields.iter().find(|(name, _)| key.is(name)) {
        Some((_, Data::Map(inner))) => rest(value, inner),
        Some(_) => String::new(),
        None => format!("{}: {}, ", key.bare(), value.bare()),
    });
    let each: String = each.collect();
    if each.is_empty() { each } else { format!("{{{each}}}") }
}

/// The text with one field of a mapping corrected; none if it is written in a way that this does not support.
fn step(text: &str, node: &YamlNode, wanted: &Fields) -> Option<String> {
    let YamlKind::Map(there) = &node.kind else { return None };
    // Each alias of this node would change, too.
    if node.has_marks() {
        return None;
    }
    let mut missing = Fields::new();
    for (name, data) in wanted {
        let mut named = there.iter().filter(|(key, _)| key.is(name));
        match (named.next(), named.next()) {
            (None, _) => missing.push((name.clone(), data.clone())),
            (Some((_, value)), None) if is(value, data) => {}
            (Some((_, value)), None) if matches!((&value.kind, data), (YamlKind::Map(_), Data::Map(_))) => {
                let Data::Map(inner) = data else { return None };
                return step(text, value, inner);
            }
            (Some((key, value)), None) => return replaced(text, key, value, data, in_braces(text, node)),
            // Parsers disagree about which of two equal keys counts.
            (Some(_), Some(_)) => return None,
        }
    }
    inserted(text, node, there, &missing)
}

fn in_braces(text: &str, node: &YamlNode) -> bool {
    text.as_bytes().get(node.start) == Some(&b'{')
}

/// The text with new fields before the others of a mapping.
fn inserted(text: &str, node: &YamlNode, there: &[YamlEntry], missing: &Fields) -> Option<String> {
    if in_braces(text, node) {
        let each: Vec<String> = missing.iter().map(|(name, data)| format!("{}: {}", scalar(name), flow(data))).collect();
        let comma = if there.is_empty() { "" } else { ", " };
        let at = node.start + 1;
        return Some(format!("{}{}{comma}{}", &text[..at], each.join(", "), &text[at..]));
    }
    let first = there.first()?.0.start;
    let mut at = line_start(text, first);
    if !text[at..first].bytes().all(|b| b == b' ') {
        return None;
    }
    // A remark stays above its line.
    while at > 0 {
        let before = line_start(text, at - 1);
        if !text[before..at].trim_start().starts_with('#') {
            break;
        }
        at = before;
    }
    let (mut lines, end) = (Vec::new(), line_end(text));
    fields(missing, column(text, first), &mut lines);
    Some(format!("{}{}{end}{}", &text[..at], lines.join(end), &text[at..]))
}

/// The text with another value in place of one that is on one line, or of a list of such values.
fn replaced(text: &str, key: &YamlNode, value: &YamlNode, data: &Data, braces: bool) -> Option<String> {
    if value.is_marked() {
        return None;
    }
    let with = |start: usize, end: usize, new: &str| Some(format!("{}{new}{}", &text[..start], &text[end..]));
    let simple = matches!(data, Data::Text(_) | Data::Number(_) | Data::Flag(_));
    match &value.kind {
        YamlKind::Scalar { .. } if value.is_null() && value.is_empty() => {
            let colon = key.end + text[key.end..].find(|c| c != ' ').filter(|n| text[key.end + n..].starts_with(':'))?;
            with(colon + 1, colon + 1, &format!(" {}", flow(data)))
        }
        YamlKind::Scalar { block: false, .. } if simple || value.is_null() => {
            with(value.start, scalar_end(text, value.start, braces), &flow(data))
        }
        // A list on one line has no remarks in it.
        YamlKind::Seq(_) if text[value.start..].starts_with('[') => {
            let there = &text[value.start..value.end];
            (there.ends_with(']') && !there.contains('\n')).then(|| with(value.start, value.end, &flow(data)))?
        }
        YamlKind::Seq(items) => {
            let Data::List(wanted) = data else { return None };
            let (first, last) = (items.first()?, items.last()?);
            if wanted.is_empty() || !items.iter().all(|item| is_alone(text, item)) {
                return None;
            }
            let line = line_start(text, first.start);
            let (start, end) = (line + text[line..].find('-')?, scalar_end(text, last.start, false));
            // One line for each item: nothing is between them.
            if text[start..end].lines().count() != items.len() {
                return None;
            }
            let gap = format!("{}{}", line_end(text), &text[line..start]);
            let each: Vec<String> = wanted.iter().map(|one| format!("- {}", flow(one))).collect();
            with(start, end, &each.join(&gap))
        }
        _ => None,
    }
}

/// Whether a list item is a scalar on a line of its own, without a remark.
fn is_alone(text: &str, item: &YamlNode) -> bool {
    let before = text[line_start(text, item.start)..item.start].trim();
    let end = scalar_end(text, item.start, false);
    matches!(item.kind, YamlKind::Scalar { block: false, .. }) && before == "-" && text[end..next_line(text, end)].trim().is_empty()
}

/// The end of a scalar, on the line where it starts. If this is wrong, the check of the result refuses the edit.
fn scalar_end(text: &str, start: usize, braces: bool) -> usize {
    let line = text[start..next_line(text, start)].trim_end();
    let quoted = |quote: char| {
        let mut escaped = false;
        let end = line.char_indices().skip(1).find(|(_, c)| {
            let ends = *c == quote && !escaped;
            escaped = quote == '"' && *c == '\\' && !escaped;
            ends
        });
        end.map(|(at, c)| at + c.len_utf8())
    };
    let plain = || {
        let remark = line.find(" #").into_iter().chain(line.find("\t#")).min().unwrap_or(line.len());
        let stop = if braces { line.find([',', '{', '}', '[', ']']).unwrap_or(remark) } else { remark };
        line[..stop.min(remark)].trim_end().len()
    };
    let length = match line.chars().next() {
        Some(quote @ ('"' | '\'')) => quoted(quote).unwrap_or(line.len()),
        _ => plain(),
    };
    start + length
}

/// Writes the entry anew, if it has only our fields.
fn anew(text: &str, edit: &YamlEdit) -> Result<String, EditError> {
    let root = read::document(text)?;
    let (entry, braces) = entry_of(text, root.as_ref(), edit)?;
    let lines = match braces {
        true => entry.0.start..entry.1.end,
        false => line_start(text, entry.0.start)..next_line(text, entry.1.last.max(entry.0.start)),
    };
    let YamlKind::Map(there) = &entry.1.kind else { return Err(EditError::shape(None, "it is not a mapping")) };
    let defaults = |(key, value): &YamlEntry| edit.defaults.iter().filter(|(name, _)| key.is(name)).all(|(_, data)| is(value, data));
    let ours = is_ours(&entry.1, &Data::Map(edit.all())) && there.iter().all(defaults);
    if ours && !entry.1.is_marked() && !text[lines].contains('#') {
        return put(&take(text, edit)?, edit);
    }
    let what = format!("{}.{} has something in it that was added by hand, and says something else", edit.map, edit.name);
    Err(EditError::shape(Some(line_of(text, entry.0.start)), what))
}

/// Whether a node has no fields beside ours.
fn is_ours(node: &YamlNode, data: &Data) -> bool {
    match (&node.kind, data) {
        (YamlKind::Map(there), Data::Map(fields)) => {
            there.iter().all(|(key, value)| fields.iter().any(|(name, data)| key.is(name) && is_ours(value, data)))
        }
        (YamlKind::Seq(items), Data::List(_)) => items.iter().all(|item| matches!(item.kind, YamlKind::Scalar { .. })),
        (YamlKind::Scalar { .. }, Data::Map(_)) => node.is_null(),
        (YamlKind::Scalar { .. }, _) => true,
        _ => false,
    }
}
