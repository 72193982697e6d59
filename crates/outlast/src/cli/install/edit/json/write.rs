//! Writes new values as JSON.

use super::super::{Data, Fields};

/// The layout of a new value.
#[derive(Debug, Clone, Copy)]
pub(super) struct JsonLayout<'a> {
    /// The indentation of the line on which it starts; none if everything is on one line.
    pub(super) indent: Option<&'a str>,
    pub(super) unit: &'a str,
    pub(super) end: &'a str,
}

/// A string in quotes.
pub(super) fn text(text: &str) -> String {
    serde_json::to_string(text).expect("a text can be written")
}

pub(super) fn data(data: &Data, style: JsonLayout<'_>) -> String {
    match data {
        Data::Text(it) => text(it),
        Data::Number(n) => n.to_string(),
        Data::Flag(flag) => flag.to_string(),
        Data::List(all) if all.iter().any(|one| matches!(one, Data::Map(_) | Data::List(_))) => several("[", "]", all, style, data_of),
        // A list of plain values stays on one line, as people write arguments.
        Data::List(all) => format!("[{}]", all.iter().map(|one| data_of(one, style)).collect::<Vec<_>>().join(", ")),
        Data::Map(all) => fields(all, style),
    }
}

fn data_of(one: &Data, style: JsonLayout<'_>) -> String {
    data(one, style)
}

pub(super) fn fields(fields: &Fields, style: JsonLayout<'_>) -> String {
    several("{", "}", fields, style, |(name, value), style| format!("{}: {}", text(name), data(value, style)))
}

/// Brackets around one value.
pub(super) fn around(open: &str, close: &str, style: JsonLayout<'_>, inner: impl Fn(JsonLayout<'_>) -> String) -> String {
    several(open, close, &[()], style, |(), style| inner(style))
}

fn several<T>(open: &str, close: &str, all: &[T], style: JsonLayout<'_>, one: impl Fn(&T, JsonLayout<'_>) -> String) -> String {
    let Some(indent) = style.indent else {
        return format!("{open} {} {close}", all.iter().map(|it| one(it, style)).collect::<Vec<_>>().join(", "));
    };
    let deeper = format!("{indent}{}", style.unit);
    let each = all.iter().map(|it| one(it, JsonLayout { indent: Some(&deeper), ..style }));
    let inner = each.collect::<Vec<_>>().join(&format!(",{}{deeper}", style.end));
    format!("{open}{}{deeper}{inner}{}{indent}{close}", style.end, style.end)
}
