//! TOML. A new table goes behind everything else; its header names it whole, so that nothing before it matters.

use super::{BOM, Data, Fields, Trouble, append_block, cut_block, line_end, line_of, line_start, next_line};
use std::ops::Range;
pub(crate) use toml::Value;
use toml_edit::{Document, Item, Table, TableLike};

/// What is to be in a file.
#[derive(Debug, Clone)]
pub(crate) enum Wish {
    /// A table under a path of names, with at least these fields, and with those of `usual` where it is new.
    Table { path: Vec<&'static str>, fields: Fields, usual: Fields },
    /// A table in a list of tables, known by its `name`.
    Row { list: &'static str, name: &'static str, fields: Fields, usual: Fields },
}

/// Sees to it that what is wished for is there. The same text, if it is already.
pub(crate) fn put(text: &str, wish: &Wish) -> Result<String, Trouble> {
    let (bom, text) = split(text);
    let mut now = text.to_owned();
    // Each round puts one thing there, and there are no more things than fields.
    for _ in 0..=BOUND {
        let doc = read(&now)?;
        let next = match wish.find(&doc) {
            Some(table) => correct(&now, table, wish.fields(), wish)?,
            None => Some(append_block(&now, &wish.block(line_end(&now)))),
        };
        let Some(next) = next else {
            check(text, &now, wish)?;
            return Ok(format!("{bom}{now}"));
        };
        // What does not fit is seen at once: a table that is closed elsewhere cannot be added to.
        read(&next).map_err(|_| Trouble::shape(None, format!("{} is written in a way that nothing can be added to", wish.shown())))?;
        now = next;
    }
    Err(Trouble::shape(None, format!("{} cannot be made what it should be", wish.shown())))
}

/// More than there are fields in anything that is put anywhere.
const BOUND: usize = 32;

/// Takes out what [`put`] put there, with everything that was added to it. The same text, if there is nothing of it.
pub(crate) fn take(text: &str, wish: &Wish) -> Result<String, Trouble> {
    let (bom, text) = split(text);
    let doc = read(text)?;
    let Some(table) = wish.find(&doc) else { return Ok(format!("{bom}{text}")) };
    let mut ranges = Vec::new();
    let less = match table {
        Found::Table(table) if lines(text, table, &mut ranges) => {
            ranges.sort_by_key(|r| std::cmp::Reverse(r.start));
            ranges.iter().fold(text.to_owned(), |text, r| cut_block(&text, r.start, r.end))
        }
        _ => rewritten(text, wish)?,
    };
    let (mut before, after) = (meaning(text)?, meaning(&less)?);
    remove(&mut before, wish);
    let mut same = after.clone();
    remove(&mut same, wish);
    match format!("{before:?}") == format!("{same:?}") && format!("{same:?}") == format!("{:?}", pruned(after, wish)) {
        true => Ok(format!("{bom}{less}")),
        false => Err(Trouble::shape(None, format!("without {} the rest would not be read as it was", wish.shown()))),
    }
}

/// The table under a path, if there is one.
pub(crate) fn get(text: &str, path: &[&str]) -> Result<Option<Value>, Trouble> {
    let all = meaning(split(text).1)?;
    Ok(path.iter().try_fold(&all, |at, name| at.get(name)).cloned())
}

/// The table of a name in a list of tables, if there is one.
pub(crate) fn row(text: &str, list: &str, name: &str) -> Result<Option<Value>, Trouble> {
    let all = meaning(split(text).1)?;
    let rows = all.get(list).and_then(Value::as_array).into_iter().flatten();
    Ok(rows.into_iter().find(|row| row.get("name").and_then(Value::as_str) == Some(name)).cloned())
}

fn split(text: &str) -> (&str, &str) {
    text.split_at(if text.starts_with(BOM) { BOM.len_utf8() } else { 0 })
}

fn read(text: &str) -> Result<Document<&str>, Trouble> {
    Document::parse(text).map_err(|e| {
        let line = e.span().map(|span| line_of(text, span.start));
        Trouble::malformed(line, e.message().lines().collect::<Vec<_>>().join(", "))
    })
}

fn meaning(text: &str) -> Result<Value, Trouble> {
    let table = text.parse::<toml::Table>().map_err(|e| Trouble::malformed(e.span().map(|s| line_of(text, s.start)), e.message()))?;
    Ok(Value::Table(table))
}

/// A table as it is written.
#[derive(Clone, Copy)]
enum Found<'a> {
    Table(&'a Table),
    Inline(&'a dyn TableLike),
    /// Something that is no table at all.
    Other,
}

impl Wish {
    fn fields(&self) -> &Fields {
        let (Self::Table { fields, .. } | Self::Row { fields, .. }) = self;
        fields
    }

    /// As people name it.
    fn shown(&self) -> String {
        match self {
            Self::Table { path, .. } => format!("[{}]", path.join(".")),
            Self::Row { list, name, .. } => format!("the [[{list}]] of the name {name}"),
        }
    }

    fn block(&self, end: &str) -> String {
        let (Self::Table { usual, .. } | Self::Row { usual, .. }) = self;
        let fields = self.fields().iter().chain(usual).map(|(name, data)| format!("{} = {}", key(name), written(data)));
        let head = match self {
            Self::Table { path, .. } => format!("[{}]", path.join(".")),
            Self::Row { list, name, .. } => format!("[[{list}]]{end}name = {}", written(&Data::text(*name))),
        };
        [head].into_iter().chain(fields).collect::<Vec<_>>().join(end)
    }

    fn find<'d>(&self, doc: &'d Document<&str>) -> Option<Found<'d>> {
        let table = match self {
            Self::Table { path, .. } => {
                let (last, way) = path.split_last()?;
                let holder = way.iter().try_fold(doc.as_table() as &dyn TableLike, |at, name| at.get(name)?.as_table_like())?;
                holder.get(last)?
            }
            Self::Row { list, name, .. } => match doc.get(list)? {
                Item::ArrayOfTables(all) => {
                    return all.iter().find(|t| t.get("name").and_then(Item::as_str) == Some(name)).map(Found::Table);
                }
                other => {
                    let all = other.as_array()?.iter().filter_map(|v| v.as_inline_table());
                    return all.into_iter().find(|t| t.get("name").and_then(|v| v.as_str()) == Some(name)).map(|t| Found::Inline(t));
                }
            },
        };
        Some(match table {
            Item::Table(table) => Found::Table(table),
            other => other.as_table_like().map_or(Found::Other, Found::Inline),
        })
    }
}

/// The text with the first field that is not as it should be made so; none where all are.
fn correct(text: &str, found: Found<'_>, fields: &Fields, wish: &Wish) -> Result<Option<String>, Trouble> {
    let table: &dyn TableLike = match found {
        Found::Table(table) => table,
        Found::Inline(table) => table,
        Found::Other => return Err(Trouble::shape(None, format!("{} is not a table", wish.shown()))),
    };
    for (name, data) in fields {
        match (table.get(name), data) {
            (None, data) => return added(text, found, name, data, wish).map(Some),
            (Some(item), Data::Map(inner)) if item.is_table_like() => {
                let found = match item {
                    Item::Table(table) => Found::Table(table),
                    item => Found::Inline(item.as_table_like().expect("it was looked at")),
                };
                if let Some(more) = correct(text, found, inner, wish)? {
                    return Ok(Some(more));
                }
            }
            (Some(item), data) => {
                let value = item.as_value().ok_or_else(|| Trouble::shape(None, format!("{name} of {} is a table", wish.shown())))?;
                if !says(value, data) {
                    let (value, data) = differing(value, data);
                    let Range { start, end } = value.span().expect("what was read has its place");
                    return Ok(Some(format!("{}{}{}", &text[..start], written(data), &text[end..])));
                }
            }
        }
    }
    Ok(None)
}

fn says(value: &toml_edit::Value, data: &Data) -> bool {
    format!("v = {value}").parse::<toml::Table>().is_ok_and(|t| t["v"] == value_of(data))
}

/// What has to be replaced in a value: the first word that differs in a list of as many words, with the layout and the remarks of the others, or all of it.
fn differing<'a>(value: &'a toml_edit::Value, data: &'a Data) -> (&'a toml_edit::Value, &'a Data) {
    let (Some(there), Data::List(wanted)) = (value.as_array(), data) else { return (value, data) };
    let mut pairs = there.iter().zip(wanted).filter(|(there, wanted)| there.span().is_some() && !says(there, wanted));
    if there.len() == wanted.len() { pairs.next().unwrap_or((value, data)) } else { (value, data) }
}

/// The text with one more field in a table.
fn added(text: &str, found: Found<'_>, name: &str, data: &Data, wish: &Wish) -> Result<String, Trouble> {
    let refuse = || Trouble::shape(None, format!("{} is written in a way that nothing can be added to", wish.shown()));
    let Found::Table(table) = found else { return Err(refuse()) };
    if table.is_dotted() || table.is_implicit() {
        return Err(refuse());
    }
    let header = table.span().ok_or_else(refuse)?;
    let at = next_line(text, values_end(table).unwrap_or(header.end));
    let end = line_end(text);
    let line = format!("{} = {}", key(name), written(data));
    Ok(match text[..at].ends_with('\n') {
        true => format!("{}{line}{end}{}", &text[..at], &text[at..]),
        false => format!("{}{end}{line}", &text[..at]),
    })
}

/// Where the last value that is written below a table's own header ends.
fn values_end(table: &Table) -> Option<usize> {
    let ends = table.iter().filter_map(|(_, item)| match item {
        Item::Value(value) => value.span().map(|s| s.end),
        Item::Table(inner) if inner.is_dotted() => values_end(inner),
        _ => None,
    });
    ends.max()
}

/// The lines of a table and of all that are below it, if each has a header of its own.
fn lines(text: &str, table: &Table, out: &mut Vec<Range<usize>>) -> bool {
    if table.is_dotted() {
        return false;
    }
    if !table.is_implicit() {
        let Some(header) = table.span() else { return false };
        let last = values_end(table).unwrap_or(header.end).max(header.end);
        out.push(line_start(text, header.start)..next_line(text, last));
    }
    table.iter().all(|(_, item)| match item {
        Item::Table(inner) if inner.is_dotted() => true,
        Item::Table(inner) => lines(text, inner, out),
        Item::ArrayOfTables(all) => all.iter().all(|inner| lines(text, inner, out)),
        _ => true,
    })
}

/// For a table that is written inside of another, or by dotted names: without it, in the layout of the rest.
fn rewritten(text: &str, wish: &Wish) -> Result<String, Trouble> {
    let Wish::Table { path, .. } = wish else {
        return Err(Trouble::shape(None, format!("{} is written in a list of another shape", wish.shown())));
    };
    let mut doc = read(text)?.into_mut();
    let (last, way) = path.split_last().expect("a path has names");
    let holder = way.iter().try_fold(doc.as_table_mut() as &mut dyn TableLike, |at, name| at.get_mut(name)?.as_table_like_mut());
    holder.and_then(|holder| holder.remove(last));
    let less = doc.to_string();
    // It ends all lines alike.
    let less = if line_end(text) == "\r\n" { less.replace("\r\n", "\n").replace('\n', "\r\n") } else { less };
    Ok(if text.ends_with('\n') { less } else { less.trim_end_matches(['\r', '\n']).to_owned() })
}

/// Everything that is not ours must mean what it meant.
fn check(before: &str, after: &str, wish: &Wish) -> Result<(), Trouble> {
    let (mut before, mut after) = (meaning(before)?, meaning(after)?);
    remove(&mut before, wish);
    remove(&mut after, wish);
    // Not by `==`, for which a number that is none differs from itself.
    match format!("{before:?}") == format!("{after:?}") {
        true => Ok(()),
        false => Err(Trouble::shape(None, format!("with {} the rest would not be read as it was", wish.shown()))),
    }
}

/// Removes what is wished for, and what is empty without it.
fn remove(value: &mut Value, wish: &Wish) {
    match wish {
        Wish::Table { path, .. } => remove_path(value, path),
        Wish::Row { list, name, .. } => {
            let Some(table) = value.as_table_mut() else { return };
            if let Some(Value::Array(all)) = table.get_mut(*list) {
                let first = all.iter().position(|one| one.get("name").and_then(Value::as_str) == Some(name));
                first.map(|n| all.remove(n));
                if all.is_empty() {
                    table.remove(*list);
                }
            }
        }
    }
}

fn remove_path(value: &mut Value, path: &[&str]) {
    let (Some((first, rest)), Some(table)) = (path.split_first(), value.as_table_mut()) else { return };
    if let Some(inner) = table.get_mut(*first).filter(|_| !rest.is_empty()) {
        remove_path(inner, rest);
    }
    if rest.is_empty() || table.get(*first).and_then(Value::as_table).is_some_and(toml::Table::is_empty) {
        table.remove(*first);
    }
}

/// Without holders that are empty.
fn pruned(mut value: Value, wish: &Wish) -> Value {
    if let Wish::Table { path, .. } = wish {
        let holder = path[..path.len() - 1].iter().try_fold(&value, |at, name| at.get(name));
        if holder.and_then(Value::as_table).is_some_and(toml::Table::is_empty) {
            remove_path(&mut value, &path[..path.len() - 1]);
        }
    }
    value
}

fn value_of(data: &Data) -> Value {
    match data {
        Data::Text(text) => Value::String(text.clone()),
        Data::Number(n) => Value::Integer(i64::from(*n)),
        Data::Flag(flag) => Value::Boolean(*flag),
        Data::List(all) => Value::Array(all.iter().map(value_of).collect()),
        Data::Map(fields) => Value::Table(fields.iter().map(|(name, value)| (name.clone(), value_of(value))).collect()),
    }
}

fn key(name: &str) -> String {
    toml_edit::Key::new(name).to_string()
}

fn written(data: &Data) -> String {
    match data {
        Data::Text(text) => toml_edit::Value::from(text.as_str()).to_string(),
        Data::Number(n) => n.to_string(),
        Data::Flag(flag) => flag.to_string(),
        Data::List(all) => format!("[{}]", all.iter().map(written).collect::<Vec<_>>().join(", ")),
        Data::Map(fields) => {
            let each = fields.iter().map(|(name, value)| format!("{} = {}", key(name), written(value)));
            format!("{{ {} }}", each.collect::<Vec<_>>().join(", "))
        }
    }
}

#[cfg(test)]
mod tests;
