//! YAML. An entry goes in front of the others of its mapping, on lines of its own, or between the braces of one that is written in them; a mapping that is
//! missing goes behind everything else. All other shapes are refused, and what to paste is shown instead.

mod correct;
mod read;

use super::{BOM, Data, Fields, Trouble, append_block, cut_block, line_end, line_of, line_start, next_line};
use read::{Kind, Node};

/// An entry of a mapping at the top, with at least these fields, and with those of `usual` where it is new.
#[derive(Debug, Clone)]
pub(crate) struct Wish {
    pub(crate) map: &'static str,
    pub(crate) name: &'static str,
    pub(crate) fields: Fields,
    pub(crate) usual: Fields,
}

impl Wish {
    fn all(&self) -> Fields {
        self.fields.iter().chain(&self.usual).cloned().collect()
    }
}

/// How far an entry is indented below a mapping that was made for it, and below one that was there and empty. That is how they are told apart.
const BELOW_OURS: usize = 2;
const BELOW_EMPTY: usize = 4;

/// Sees to it that what is wished for is there. The same text, if it is already.
pub(crate) fn put(text: &str, wish: &Wish) -> Result<String, Trouble> {
    let (bom, body) = text.split_at(if text.starts_with(BOM) { BOM.len_utf8() } else { 0 });
    let root = read::document(body)?;
    let made = match find(body, root.as_ref(), wish)? {
        Place::Nowhere { indent } => append_block(body, &block(wish, indent, line_end(body))),
        Place::Empty { key, indent } => {
            let lines = entry(wish, indent + BELOW_EMPTY, line_end(body));
            insert_lines(body, next_line(body, key.start), &lines)
        }
        Place::Block { key, entries } => {
            let lines = entry(wish, column(body, entries[0].0.start), line_end(body));
            insert_lines(body, next_line(body, key.start), &lines)
        }
        Place::Flow { open, entries } => {
            let comma = if entries.is_empty() { "" } else { ", " };
            let new = format!("{}: {}{comma}", scalar(wish.name), flow(&Data::Map(wish.all())));
            format!("{}{new}{}", &body[..=open], &body[open + 1..])
        }
        Place::There { entry, .. } if has(&entry.1, &wish.fields) => return Ok(text.to_owned()),
        Place::There { .. } => correct::correct(body, wish)?,
    };
    check(body, &made, wish, true)?;
    Ok(format!("{bom}{made}"))
}

/// Takes out what [`put`] put there, with everything that was added to it. The same text, if there is nothing of it.
pub(crate) fn take(text: &str, wish: &Wish) -> Result<String, Trouble> {
    let (bom, body) = text.split_at(if text.starts_with(BOM) { BOM.len_utf8() } else { 0 });
    let root = read::document(body)?;
    let Ok(Place::There { key, entry, entries, braces }) = find(body, root.as_ref(), wish) else { return Ok(text.to_owned()) };
    let less = if braces {
        let at = entries.iter().position(|e| e.0.start == entry.0.start).expect("it was found among them");
        let range = match (entries.get(at + 1), at.checked_sub(1)) {
            // What `put` wrote, if it is that; a space more was there before.
            (Some(_), _) if body[entry.1.end..].starts_with(", ") => entry.0.start..entry.1.end + 2,
            (Some(next), _) => entry.0.start..next.0.start,
            (None, Some(before)) => entries[before].1.end..entry.1.end,
            (None, None) => entry.0.start..entry.1.end,
        };
        format!("{}{}", &body[..range.start], &body[range.end..])
    } else {
        let (from, to) = (line_start(body, entry.0.start), next_line(body, entry.1.last.max(entry.0.start)));
        let head = line_start(body, key.start);
        let bare = body[key.start..from].trim_end() == format!("{}:", wish.map);
        if entries.len() == 1 && bare && column(body, entry.0.start) == column(body, key.start) + BELOW_OURS {
            cut_block(body, head, to)
        } else if to == body.len() && !body.ends_with('\n') {
            let before = body[..from].strip_suffix('\n').map(|b| b.strip_suffix('\r').unwrap_or(b));
            before.unwrap_or(&body[..from]).to_owned()
        } else {
            format!("{}{}", &body[..from], &body[to..])
        }
    };
    check(body, &less, wish, false)?;
    Ok(format!("{bom}{less}"))
}

/// The entry, as what it means.
pub(crate) fn get(text: &str, wish: &Wish) -> Result<Option<serde_json::Value>, Trouble> {
    let body = text.strip_prefix(BOM).unwrap_or(text);
    let root = read::document(body)?;
    Ok(match find(body, root.as_ref(), wish) {
        Ok(Place::There { entry, .. }) => Some(entry.1.meaning()),
        _ => None,
    })
}

type Entry = (Node, Node);

/// Where the entry is, or would go.
enum Place<'a> {
    /// There is no such mapping.
    Nowhere {
        indent: usize,
    },
    /// There is its name, and nothing behind it.
    Empty {
        key: &'a Node,
        indent: usize,
    },
    Block {
        key: &'a Node,
        entries: &'a [Entry],
    },
    Flow {
        open: usize,
        entries: &'a [Entry],
    },
    There {
        key: &'a Node,
        entry: &'a Entry,
        entries: &'a [Entry],
        braces: bool,
    },
}

fn find<'a>(text: &str, root: Option<&'a Node>, wish: &Wish) -> Result<Place<'a>, Trouble> {
    let shape = |node: &Node, what: String| Trouble::shape(Some(line_of(text, node.start)), what);
    let Some(root) = root else { return Ok(Place::Nowhere { indent: 0 }) };
    let entries = match &root.kind {
        Kind::Map(entries) if text.as_bytes().get(root.start) != Some(&b'{') => entries,
        Kind::Scalar { .. } if root.is_null() => return Ok(Place::Nowhere { indent: 0 }),
        _ => return Err(shape(root, "the file is not a mapping of lines".into())),
    };
    if !text[line_start(text, root.start)..root.start].bytes().all(|b| b == b' ') {
        return Err(Trouble::malformed(Some(line_of(text, root.start)), "something else than spaces stands where only they may"));
    }
    let mut named = entries.iter().filter(|(key, _)| key.is(wish.map));
    let Some((key, value)) = named.next() else { return Ok(Place::Nowhere { indent: column(text, root.start) }) };
    if let Some((again, _)) = named.next() {
        return Err(shape(again, format!("{} is there twice", wish.map)));
    }
    let indent = column(text, key.start);
    let inner = match &value.kind {
        Kind::Map(inner) => inner,
        Kind::Scalar { .. } if value.is_null() && value.is_empty() => return Ok(Place::Empty { key, indent }),
        _ => return Err(shape(key, format!("{} is not a mapping", wish.map))),
    };
    let braces = text.as_bytes().get(value.start) == Some(&b'{');
    if let Some(entry) = inner.iter().find(|(key, _)| key.is(wish.name)) {
        return Ok(Place::There { key, entry, entries: inner, braces });
    }
    match braces {
        true => Ok(Place::Flow { open: value.start, entries: inner }),
        false if line_of(text, value.start) > line_of(text, key.start) && !inner.is_empty() => Ok(Place::Block { key, entries: inner }),
        false => Err(shape(key, format!("{} is written in a way that nothing can be added to", wish.map))),
    }
}

/// How many characters stand before it on its line.
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

/// Whether a node has these fields, and maybe more.
fn has(node: &Node, fields: &Fields) -> bool {
    let Kind::Map(there) = &node.kind else { return false };
    fields.iter().all(|(name, data)| there.iter().any(|(key, value)| key.is(name) && is(value, data)))
}

fn is(node: &Node, data: &Data) -> bool {
    match (&node.kind, data) {
        (Kind::Map(_), Data::Map(fields)) => has(node, fields),
        (Kind::Seq(there), Data::List(all)) => there.len() == all.len() && there.iter().zip(all).all(|(there, data)| is(there, data)),
        (Kind::Scalar { text, .. }, Data::Text(wanted)) => text == wanted,
        (Kind::Scalar { text, .. }, Data::Number(n)) => *text == n.to_string(),
        (Kind::Scalar { text, .. }, Data::Flag(flag)) => *text == flag.to_string(),
        _ => false,
    }
}

/// Everything that is not ours must be read as it was, and ours as it is meant.
fn check(before: &str, after: &str, wish: &Wish, there: bool) -> Result<(), Trouble> {
    let bad = || {
        let how = if there { "with" } else { "without" };
        Trouble::shape(None, format!("{how} {}.{} the rest would not be read as it was", wish.map, wish.name))
    };
    let now = read::document(after).map_err(|_| bad())?;
    let as_meant = match find(after, now.as_ref(), wish) {
        Ok(Place::There { entry, .. }) => there && has(&entry.1, &wish.fields),
        _ => !there,
    };
    let rest = |root: Option<&Node>| root.map(|root| root.bare_without(wish.map, wish.name)).unwrap_or_default();
    let same = rest(read::document(before)?.as_ref()) == rest(now.as_ref());
    if same && as_meant { Ok(()) } else { Err(bad()) }
}

/// The mapping with our entry in it.
fn block(wish: &Wish, indent: usize, end: &str) -> String {
    format!("{:indent$}{}:{end}{}", "", wish.map, entry(wish, indent + BELOW_OURS, end))
}

fn entry(wish: &Wish, indent: usize, end: &str) -> String {
    let mut lines = vec![format!("{:indent$}{}:", "", scalar(wish.name))];
    fields(&wish.all(), indent + 2, &mut lines);
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

/// A text that no reader takes for anything else: as it is if it is plainly a word or a path, else in quotes.
fn scalar(text: &str) -> String {
    const WORDS: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c))
        && !WORDS.contains(&text.to_ascii_lowercase().as_str());
    if plain { text.to_owned() } else { serde_json::to_string(text).expect("a text can be written") }
}

#[cfg(test)]
mod tests;
