//! An entry that is there and says something else. What is missing is put in front of what is there, and a value of ours that differs is replaced where it
//! stands; everything else in the entry stays. One that this cannot be done to is written anew only if nothing in it is of anybody else's.

use super::read::{self, Kind, Node};
use super::{
    Data, Entry, Fields, Place, Trouble, Wish, column, fields, find, flow, has, is, line_end, line_of, line_start, next_line, put, scalar,
    take,
};

/// More than there are fields in anything that is put anywhere.
const BOUND: usize = 32;

pub(super) fn correct(text: &str, wish: &Wish) -> Result<String, Trouble> {
    let mut now = text.to_owned();
    // Each round puts one thing right.
    for _ in 0..=BOUND {
        let root = read::document(&now)?;
        let (entry, _) = entry_of(&now, root.as_ref(), wish)?;
        if has(&entry.1, &wish.fields) {
            return Ok(now);
        }
        let rest = rest(&entry.1, &wish.fields);
        let Some(next) = step(&now, &entry.1, &wish.fields).filter(|next| keeps(next, wish, &rest)) else { break };
        now = next;
    }
    anew(text, wish)
}

fn entry_of<'a>(text: &str, root: Option<&'a Node>, wish: &Wish) -> Result<(&'a Entry, bool), Trouble> {
    let bad = |line| Trouble::shape(line, format!("{}.{} is not a mapping", wish.map, wish.name));
    match find(text, root, wish)? {
        Place::There { entry, braces, .. } if matches!(entry.1.kind, Kind::Map(_)) => Ok((entry, braces)),
        Place::There { entry, .. } => Err(bad(Some(line_of(text, entry.0.start)))),
        _ => Err(bad(None)),
    }
}

/// Whether what is not ours in the entry is read as it was.
fn keeps(text: &str, wish: &Wish, was: &str) -> bool {
    let Ok(root) = read::document(text) else { return false };
    entry_of(text, root.as_ref(), wish).is_ok_and(|(entry, _)| rest(&entry.1, &wish.fields) == was)
}

/// What is in a mapping beside these fields, at every depth.
fn rest(node: &Node, fields: &Fields) -> String {
    let Kind::Map(there) = &node.kind else { return String::new() };
    let each = there.iter().map(|(key, value)| match fields.iter().find(|(name, _)| key.is(name)) {
        Some((_, Data::Map(inner))) => rest(value, inner),
        Some(_) => String::new(),
        None => format!("{}: {}, ", key.bare(), value.bare()),
    });
    let each: String = each.collect();
    if each.is_empty() { each } else { format!("{{{each}}}") }
}

/// The text with one thing more as it should be in a mapping; none where it is written in a way that this cannot be done to.
fn step(text: &str, node: &Node, wanted: &Fields) -> Option<String> {
    let Kind::Map(there) = &node.kind else { return None };
    // Whoever means it by its name would be given the change, too.
    if node.has_marks() {
        return None;
    }
    let mut missing = Fields::new();
    for (name, data) in wanted {
        let mut named = there.iter().filter(|(key, _)| key.is(name));
        match (named.next(), named.next()) {
            (None, _) => missing.push((name.clone(), data.clone())),
            (Some((_, value)), None) if is(value, data) => {}
            (Some((_, value)), None) if matches!((&value.kind, data), (Kind::Map(_), Data::Map(_))) => {
                let Data::Map(inner) = data else { return None };
                return step(text, value, inner);
            }
            (Some((key, value)), None) => return replaced(text, key, value, data, in_braces(text, node)),
            // Readers do not agree on which of them counts.
            (Some(_), Some(_)) => return None,
        }
    }
    inserted(text, node, there, &missing)
}

fn in_braces(text: &str, node: &Node) -> bool {
    text.as_bytes().get(node.start) == Some(&b'{')
}

/// Fields in front of the others of a mapping.
fn inserted(text: &str, node: &Node, there: &[Entry], missing: &Fields) -> Option<String> {
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
    // A remark stays with the line that it is about.
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

/// Another value in the place of one that is written on one line, or of a list of such.
fn replaced(text: &str, key: &Node, value: &Node, data: &Data, braces: bool) -> Option<String> {
    if value.is_marked() {
        return None;
    }
    let with = |start: usize, end: usize, new: &str| Some(format!("{}{new}{}", &text[..start], &text[end..]));
    let simple = matches!(data, Data::Text(_) | Data::Number(_) | Data::Flag(_));
    match &value.kind {
        Kind::Scalar { .. } if value.is_null() && value.is_empty() => {
            let colon = key.end + text[key.end..].find(|c| c != ' ').filter(|n| text[key.end + n..].starts_with(':'))?;
            with(colon + 1, colon + 1, &format!(" {}", flow(data)))
        }
        Kind::Scalar { block: false, .. } if simple || value.is_null() => {
            with(value.start, scalar_end(text, value.start, braces), &flow(data))
        }
        // A remark ends with its line: there is none in a list that is on one.
        Kind::Seq(_) if text[value.start..].starts_with('[') => {
            let there = &text[value.start..value.end];
            (there.ends_with(']') && !there.contains('\n')).then(|| with(value.start, value.end, &flow(data)))?
        }
        Kind::Seq(items) => {
            let Data::List(wanted) = data else { return None };
            let (first, last) = (items.first()?, items.last()?);
            if wanted.is_empty() || !items.iter().all(|item| is_alone(text, item)) {
                return None;
            }
            let line = line_start(text, first.start);
            let (start, end) = (line + text[line..].find('-')?, scalar_end(text, last.start, false));
            // Nothing stands between them.
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

/// Whether an item of a list is a scalar that has its line for itself, without a remark.
fn is_alone(text: &str, item: &Node) -> bool {
    let before = text[line_start(text, item.start)..item.start].trim();
    let end = scalar_end(text, item.start, false);
    matches!(item.kind, Kind::Scalar { block: false, .. }) && before == "-" && text[end..next_line(text, end)].trim().is_empty()
}

/// Where a scalar that begins there ends, on its line. One that is cut wrongly is not read back as it was, and refused.
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

/// The entry as a new one is, if there is nothing in it but what was put there.
fn anew(text: &str, wish: &Wish) -> Result<String, Trouble> {
    let root = read::document(text)?;
    let (entry, braces) = entry_of(text, root.as_ref(), wish)?;
    let lines = match braces {
        true => entry.0.start..entry.1.end,
        false => line_start(text, entry.0.start)..next_line(text, entry.1.last.max(entry.0.start)),
    };
    let Kind::Map(there) = &entry.1.kind else { return Err(Trouble::shape(None, "it is not a mapping")) };
    let usual = |(key, value): &Entry| wish.usual.iter().filter(|(name, _)| key.is(name)).all(|(_, data)| is(value, data));
    let ours = is_ours(&entry.1, &Data::Map(wish.all())) && there.iter().all(usual);
    if ours && !entry.1.is_marked() && !text[lines].contains('#') {
        return put(&take(text, wish)?, wish);
    }
    let what = format!("{}.{} has something in it that was added by hand, and says something else", wish.map, wish.name);
    Err(Trouble::shape(Some(line_of(text, entry.0.start)), what))
}

/// Whether nothing is in it that has no place in what is wished for.
fn is_ours(node: &Node, data: &Data) -> bool {
    match (&node.kind, data) {
        (Kind::Map(there), Data::Map(fields)) => {
            there.iter().all(|(key, value)| fields.iter().any(|(name, data)| key.is(name) && is_ours(value, data)))
        }
        (Kind::Seq(items), Data::List(_)) => items.iter().all(|item| matches!(item.kind, Kind::Scalar { .. })),
        (Kind::Scalar { .. }, Data::Map(_)) => node.is_null(),
        (Kind::Scalar { .. }, _) => true,
        _ => false,
    }
}
