//! Writing what is new.

use super::super::{Data, Fields};

/// How it is laid out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style<'a> {
    /// The indentation of the line it begins on; none where all is on one line.
    pub(super) indent: Option<&'a str>,
    pub(super) unit: &'a str,
    pub(super) end: &'a str,
}

/// A text in quotes.
pub(super) fn text(text: &str) -> String {
    serde_json::to_string(text).expect("a text can be written")
}

pub(super) fn data(data: &Data, style: Style<'_>) -> String {
    match data {
        Data::Text(it) => text(it),
        Data::Number(n) => n.to_string(),
        Data::Flag(flag) => flag.to_string(),
        Data::List(all) if all.iter().any(|one| matches!(one, Data::Map(_) | Data::List(_))) => several("[", "]", all, style, data_of),
        // Words stay on one line, as people write arguments.
        Data::List(all) => format!("[{}]", all.iter().map(|one| data_of(one, style)).collect::<Vec<_>>().join(", ")),
        Data::Map(all) => fields(all, style),
    }
}

fn data_of(one: &Data, style: Style<'_>) -> String {
    data(one, style)
}

pub(super) fn fields(fields: &Fields, style: Style<'_>) -> String {
    several("{", "}", fields, style, |(name, value), style| format!("{}: {}", text(name), data(value, style)))
}

/// One thing between brackets.
pub(super) fn around(open: &str, close: &str, style: Style<'_>, inner: impl Fn(Style<'_>) -> String) -> String {
    several(open, close, &[()], style, |(), style| inner(style))
}

fn several<T>(open: &str, close: &str, all: &[T], style: Style<'_>, one: impl Fn(&T, Style<'_>) -> String) -> String {
    let Some(indent) = style.indent else {
        return format!("{open} {} {close}", all.iter().map(|it| one(it, style)).collect::<Vec<_>>().join(", "));
    };
    let deeper = format!("{indent}{}", style.unit);
    let each = all.iter().map(|it| one(it, Style { indent: Some(&deeper), ..style }));
    let inner = each.collect::<Vec<_>>().join(&format!(",{}{deeper}", style.end));
    format!("{open}{}{deeper}{inner}{}{indent}{close}", style.end, style.end)
}
