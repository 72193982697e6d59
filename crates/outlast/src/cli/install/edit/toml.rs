//! Edits of TOML. A new table is appended to the text; its header has the whole path, so nothing before it matters. If a list of tables is
//! written in brackets, a new one becomes its first element.

use super::{BOM, Data, EditError, Fields, append_block, cut_block, line_end, line_of, line_start, next_line};
use std::ops::Range;
pub(crate) use toml::Value;
use toml_edit::{Document, Item, Table, TableLike};

/// What a file should contain.
#[derive(Debug, Clone)]
pub(crate) enum TomlEdit {
    /// A table under a path of names, with at least `fields`. A new one also gets `defaults`.
    Table { path: Vec<&'static str>, fields: Fields, defaults: Fields },
    /// A table in a list of tables, identified by its field `name`.
    Row { list: &'static str, name: &'static str, fields: Fields, defaults: Fields },
}

/// Makes an edit. The text is unchanged if it was made before.
pub(crate) fn put(text: &str, edit: &TomlEdit) -> Result<String, EditError> {
    let (bom, text) = split(text);
    let mut now = text.to_owned();
    // Each round adds or corrects one field.
    for _ in 0..=MAX_ROUNDS {
        let doc = read(&now)?;
        let next = match edit.find(&doc) {
            Some(table) => correct(&now, table, edit.fields(), edit)?,
            None => Some(match edit.brackets(&doc) {
                Some(list) => first_of(&now, list, &edit.inline()),
                None => append_block(&now, &edit.block(line_end(&now))),
            }),
        };
        let Some(next) = next else {
            check(text, &now, edit)?;
            return Ok(format!("{bom}{now}"));
        };
        // If the table is closed elsewhere, the new text cannot be parsed.
        read(&next).map_err(|_| EditError::shape(None, format!("{} is written in a way that nothing can be added to", edit.shown())))?;
        now = next;
    }
    Err(EditError::shape(None, format!("{} cannot be made what it should be", edit.shown())))
}

/// More rounds than any edit has fields.
const MAX_ROUNDS: usize = 32;

/// Undoes an edit: removes the table with everything that was added to it. The text is unchanged if there is no such table.
pub(crate) fn take(text: &str, edit: &TomlEdit) -> Result<String, EditError> {
    let (bom, text) = split(text);
    let doc = read(text)?;
    let Some(table) = edit.find(&doc) else { return Ok(format!("{bom}{text}")) };
    let mut ranges = Vec::new();
    let less = match table {
        FoundTable::Table(table) if lines(text, table, &mut ranges) => {
            ranges.sort_by_key(|r| std::cmp::Reverse(r.start));
            ranges.iter().fold(text.to_owned(), |text, r| cut_block(&text, r.start, r.end))
        }
        _ => match edit.brackets(&doc) {
            Some(list) => without_element(text, list, edit),
            None => rewritten(text, edit)?,
        },
    };
    let (mut before, after) = (meaning(text)?, meaning(&less)?);
    remove(&mut before, edit);
    let mut same = after.clone();
    remove(&mut same, edit);
    match format!("{before:?}") == format!("{same:?}") && format!("{same:?}") == format!("{:?}", pruned(after, edit)) {
        true => Ok(format!("{bom}{less}")),
        false => Err(EditError::shape(None, format!("without {} the rest would not be read as it was", edit.shown()))),
    }
}

/// The table under a path, if there is one.
pub(crate) fn get(text: &str, path: &[&str]) -> Result<Option<Value>, EditError> {
    let all = meaning(split(text).1)?;
    Ok(path.iter().try_fold(&all, |at, name| at.get(name)).cloned())
}

/// The table with this `name` in a list of tables, if there is one.
pub(crate) fn row(text: &str, list: &str, name: &str) -> Result<Option<Value>, EditError> {
    let all = meaning(split(text).1)?;
    let rows = all.get(list).and_then(Value::as_array).into_iter().flatten();
    Ok(rows.into_iter().find(|row| row.get("name").and_then(Value::as_str) == Some(name)).cloned())
}

fn split(text: &str) -> (&str, &str) {
    text.split_at(if text.starts_with(BOM) { BOM.len_utf8() } else { 0 })
}

fn read(text: &str) -> Result<Document<&str>, EditError> {
    Document::parse(text).map_err(|e| {
        let line = e.span().map(|span| line_of(text, span.start));
        EditError::malformed(line, e.message().lines().collect::<Vec<_>>().join(", "))
    })
}

fn meaning(text: &str) -> Result<Value, EditError> {
    let table = text.parse::<toml::Table>().map_err(|e| EditError::malformed(e.span().map(|s| line_of(text, s.start)), e.message()))?;
    Ok(Value::Table(table))
}

/// How a table is written in the text.
#[derive(Clone, Copy)]
enum FoundTable<'a> {
    Table(&'a Table),
    Inline(&'a dyn TableLike),
    /// The name has a value that is not a table.
    NotATable,
}

impl TomlEdit {
    fn fields(&self) -> &Fields {
        let (Self::Table { fields, .. } | Self::Row { fields, .. }) = self;
        fields
    }

    /// Its name in messages.
    fn shown(&self) -> String {
        match self {
            Self::Table { path, .. } => format!("[{}]", path.join(".")),
            Self::Row { list, name, .. } => format!("the [[{list}]] of the name {name}"),
        }
    }

    fn block(&self, end: &str) -> String {
        let (Self::Table { defaults, .. } | Self::Row { defaults, .. }) = self;
        let fields = self.fields().iter().chain(defaults).map(|(name, data)| format!("{} = {}", key(name), written(data)));
        let head = match self {
            Self::Table { path, .. } => format!("[{}]", path.join(".")),
            Self::Row { list, name, .. } => format!("[[{list}]]{end}name = {}", written(&Data::text(*name))),
        };
        [head].into_iter().chain(fields).collect::<Vec<_>>().join(end)
    }

    /// The same as one element of a list in brackets.
    fn inline(&self) -> String {
        let (Self::Table { defaults, .. } | Self::Row { defaults, .. }) = self;
        let name = match self {
            Self::Table { .. } => None,
            Self::Row { name, .. } => Some(("name".to_owned(), Data::text(*name))),
        };
        written(&Data::Map(name.into_iter().chain(self.fields().iter().chain(defaults).cloned()).collect()))
    }

    /// The list of tables, if it is written in brackets.
    fn brackets<'d>(&self, doc: &'d Document<&str>) -> Option<&'d toml_edit::Array> {
        match self {
            Self::Table { .. } => None,
            Self::Row { list, .. } => doc.get(list)?.as_array().filter(|all| all.iter().all(toml_edit::Value::is_inline_table)),
        }
    }

    fn find<'d>(&self, doc: &'d Document<&str>) -> Option<FoundTable<'d>> {
        let table = match self {
            Self::Table { path, .. } => {
                let (last, way) = path.split_last()?;
                let holder = way.iter().try_fold(doc.as_table() as &dyn TableLike, |at, name| at.get(name)?.as_table_like())?;
                holder.get(last)?
            }
            Self::Row { list, name, .. } => match doc.get(list)? {
                Item::ArrayOfTables(all) => {
                    return all.iter().find(|t| t.get("name").and_then(Item::as_str) == Some(name)).map(FoundTable::Table);
                }
                other => {
                    let all = other.as_array()?.iter().filter_map(|v| v.as_inline_table());
                    return all.into_iter().find(|t| t.get("name").and_then(|v| v.as_str()) == Some(name)).map(|t| FoundTable::Inline(t));
                }
            },
        };
        Some(match table {
            Item::Table(table) => FoundTable::Table(table),
            other => other.as_table_like().map_or(FoundTable::NotATable, FoundTable::Inline),
        })
    }
}

/// The text with the first wrong field corrected; none if all fields are right.
fn correct(text: &str, found: FoundTable<'_>, fields: &Fields, edit: &TomlEdit) -> Result<Option<String>, EditError> {
    let table: &dyn TableLike = match found {
        FoundTable::Table(table) => table,
        FoundTable::Inline(table) => table,
        FoundTable::NotATable => return Err(EditError::shape(None, format!("{} is not a table", edit.shown()))),
    };
    for (name, data) in fields {
        match (table.get(name), data) {
            (None, data) => return added(text, found, name, data, edit).map(Some),
            (Some(item), Data::Map(inner)) if item.is_table_like() => {
                let found = match item {
                    Item::Table(table) => FoundTable::Table(table),
                    item => FoundTable::Inline(item.as_table_like().expect("is_table_like was checked")),
                };
                if let Some(more) = correct(text, found, inner, edit)? {
                    return Ok(Some(more));
                }
            }
            (Some(item), data) => {
                let value = item.as_value().ok_or_else(|| EditError::shape(None, format!("{name} of {} is a table", edit.shown())))?;
                if !says(value, data) {
                    let (value, data) = differing(value, data);
                    let Range { start, end } = value.span().expect("a parsed value has a position");
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

/// The part of a value to replace: in a list of the same length the first element that differs, so that layout and remarks stay; otherwise
/// the whole value.
fn differing<'a>(value: &'a toml_edit::Value, data: &'a Data) -> (&'a toml_edit::Value, &'a Data) {
    let (Some(there), Data::List(wanted)) = (value.as_array(), data) else { return (value, data) };
    let mut pairs = there.iter().zip(wanted).filter(|(there, wanted)| there.span().is_some() && !says(there, wanted));
    if there.len() == wanted.len() { pairs.next().unwrap_or((value, data)) } else { (value, data) }
}

/// The text with a new field in a table.
fn added(text: &str, found: FoundTable<'_>, name: &str, data: &Data, edit: &TomlEdit) -> Result<String, EditError> {
    let refuse = || EditError::shape(None, format!("{} is written in a way that nothing can be added to", edit.shown()));
    let FoundTable::Table(table) = found else { return Err(refuse()) };
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

/// The end of the last value below the header of a table.
fn values_end(table: &Table) -> Option<usize> {
    let ends = table.iter().filter_map(|(_, item)| match item {
        Item::Value(value) => value.span().map(|s| s.end),
        Item::Table(inner) if inner.is_dotted() => values_end(inner),
        _ => None,
    });
    ends.max()
}

/// Collects the lines of a table and of its subtables. False if one of them has no header of its own.
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

/// The text with a new first element in a list.
fn first_of(text: &str, list: &toml_edit::Array, element: &str) -> String {
    let at = list.span().expect("a parsed list has a position").start + 1;
    let comma = if list.is_empty() { "" } else { ", " };
    format!("{}{element}{comma}{}", &text[..at], &text[at..])
}

/// The text without our element of a list, and without one comma beside it.
fn without_element(text: &str, list: &toml_edit::Array, edit: &TomlEdit) -> String {
    let TomlEdit::Row { name, .. } = edit else { return text.to_owned() };
    let spans: Vec<Range<usize>> = list.iter().filter_map(toml_edit::Value::span).collect();
    let is_ours = |value: &toml_edit::Value| value.as_inline_table().and_then(|t| t.get("name")?.as_str()) == Some(name);
    let Some(at) = list.iter().position(is_ours) else { return text.to_owned() };
    let (from, to) = match (spans.get(at + 1), at.checked_sub(1)) {
        // `first_of` wrote a comma and one space.
        (Some(_), _) if text[spans[at].end..].starts_with(", ") => (spans[at].start, spans[at].end + 2),
        (Some(next), _) => (spans[at].start, next.start),
        (None, Some(before)) => (spans[before].end, spans[at].end),
        (None, None) => (spans[at].start, spans[at].end),
    };
    format!("{}{}", &text[..from], &text[to..])
}

/// The text without a table that is written inline or with dotted names.
fn rewritten(text: &str, edit: &TomlEdit) -> Result<String, EditError> {
    let TomlEdit::Table { path, .. } = edit else {
        return Err(EditError::shape(None, format!("{} is written in a list of another shape", edit.shown())));
    };
    let mut doc = read(text)?.into_mut();
    let (last, way) = path.split_last().expect("a path has names");
    let holder = way.iter().try_fold(doc.as_table_mut() as &mut dyn TableLike, |at, name| at.get_mut(name)?.as_table_like_mut());
    holder.and_then(|holder| holder.remove(last));
    let less = doc.to_string();
    // The writer uses one line end for all lines.
    let less = if line_end(text) == "\r\n" { less.replace("\r\n", "\n").replace('\n', "\r\n") } else { less };
    Ok(if text.ends_with('\n') { less } else { less.trim_end_matches(['\r', '\n']).to_owned() })
}

/// Checks that everything else means what it meant.
fn check(before: &str, after: &str, edit: &TomlEdit) -> Result<(), EditError> {
    let (mut before, mut after) = (meaning(before)?, meaning(after)?);
    remove(&mut before, edit);
    remove(&mut after, edit);
    // Compared as text, because NaN is not equal to itself.
    match format!("{before:?}") == format!("{after:?}") {
        true => Ok(()),
        false => Err(EditError::shape(None, format!("with {} the rest would not be read as it was", edit.shown()))),
    }
}

/// Removes what an edit makes, and tables that become empty.
fn remove(value: &mut Value, edit: &TomlEdit) {
    match edit {
        TomlEdit::Table { path, .. } => remove_path(value, path),
        TomlEdit::Row { list, name, .. } => {
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

/// Removes the table or list around the edited table if it is empty.
fn pruned(mut value: Value, edit: &TomlEdit) -> Value {
    match edit {
        TomlEdit::Table { path, .. } => {
            let holder = path[..path.len() - 1].iter().try_fold(&value, |at, name| at.get(name));
            if holder.and_then(Value::as_table).is_some_and(toml::Table::is_empty) {
                remove_path(&mut value, &path[..path.len() - 1]);
            }
        }
        TomlEdit::Row { list, .. } => {
            if value.get(list).and_then(Value::as_array).is_some_and(Vec::is_empty) {
                remove_path(&mut value, &[list]);
            }
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
