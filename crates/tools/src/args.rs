//! Reads arguments as models send them: numbers as text, text as numbers, flags as words, null for a missing value.

use serde_json::{Map, Value};
use std::borrow::Cow;

/// The argument with which a call may change a process of another conversation that is open.
pub(crate) const FORCE: &str = "force";
/// The most characters of an argument that an error quotes.
const MAX_QUOTED_CHARS: usize = 60;

/// The arguments of one call.
pub(crate) struct Args<'a>(Cow<'a, Map<String, Value>>);

impl<'a> Args<'a> {
    /// Reads an object, the text of an object, or no arguments.
    pub(crate) fn of(arguments: &'a Value) -> Result<Self, String> {
        match arguments {
            Value::Object(map) => Ok(Self(Cow::Borrowed(map))),
            Value::Null => Ok(Self(Cow::Owned(Map::new()))),
            Value::String(text) if text.trim().is_empty() => Ok(Self(Cow::Owned(Map::new()))),
            Value::String(text) => match serde_json::from_str(text) {
                Ok(Value::Object(map)) => Ok(Self(Cow::Owned(map))),
                _ => Err(format!("the arguments must be an object, got {}", shown(arguments))),
            },
            Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
                Err(format!("the arguments must be an object, got {}", shown(arguments)))
            }
        }
    }

    /// The names of all arguments.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The value of an argument, unless it is null.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|v| !v.is_null())
    }

    /// Whether an argument has a value that is not blank.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value.as_str().is_none_or(|text| !text.trim().is_empty()))
    }

    /// Whether the call may change a process of another conversation that is open. A value that is no flag is not one.
    pub(crate) fn is_forced(arguments: &Value) -> bool {
        Args::of(arguments).and_then(|args| args.flag(FORCE)).unwrap_or_default()
    }

    /// A flag; false if it is missing.
    pub(crate) fn flag(&self, name: &str) -> Result<bool, String> {
        let Some(value) = self.get(name) else { return Ok(false) };
        let given = match value {
            Value::Bool(b) => Some(*b),
            Value::Number(n) => [(0.0, false), (1.0, true)].iter().find(|(is, _)| n.as_f64() == Some(*is)).map(|(_, b)| *b),
            Value::String(text) => match text.trim().to_ascii_lowercase().as_str() {
                "true" | "yes" | "on" | "1" => Some(true),
                "false" | "no" | "off" | "0" | "" | "null" | "none" => Some(false),
                _ => None,
            },
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        };
        given.ok_or_else(|| format!("{name} must be true or false, got {}", shown(value)))
    }

    /// A whole number from `least` on. A number too large for the type becomes its maximum.
    pub(crate) fn whole(&self, name: &str, least: u64) -> Result<Option<u64>, String> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let given = match value {
            Value::Number(n) => number(&n.to_string()),
            Value::String(text) if text.trim().is_empty() => return Ok(None),
            Value::String(text) => number(text.trim()),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        };
        match given {
            Some(n) if n >= i128::from(least) => Ok(Some(u64::try_from(n).unwrap_or(u64::MAX))),
            _ => Err(format!("{name} must be a whole number from {least} on, got {}", shown(value))),
        }
    }

    /// A count, at least 1.
    pub(crate) fn size(&self, name: &str) -> Result<Option<usize>, String> {
        Ok(self.whole(name, 1)?.map(|n| usize::try_from(n).unwrap_or(usize::MAX)))
    }

    /// A text. Another value is written as text.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(text)
    }

    /// A list of texts, or a single one. Empty texts are left out.
    pub(crate) fn texts(&self, name: &str) -> Result<Vec<String>, String> {
        let wrong = |value: &Value| format!("{name} must be a list of texts, got {}", shown(value));
        let one = |value: &Value| match value {
            Value::Null => Ok(String::new()),
            Value::String(_) | Value::Number(_) => Ok(text(value)),
            Value::Bool(_) | Value::Array(_) | Value::Object(_) => Err(wrong(value)),
        };
        let several = |values: &[Value]| values.iter().map(one).collect::<Result<Vec<_>, _>>();
        let given = match self.get(name) {
            None => Vec::new(),
            Some(Value::Array(values)) => several(values)?,
            Some(Value::String(one)) => match serde_json::from_str(one) {
                Ok(Value::Array(values)) => several(&values)?,
                _ => vec![one.clone()],
            },
            Some(value) => return Err(wrong(value)),
        };
        Ok(given.into_iter().filter(|t| !t.trim().is_empty()).collect())
    }
}

/// Parses a whole number; `30.0` and `1e3` are whole, too.
fn number(text: &str) -> Option<i128> {
    if let Ok(n) = text.parse() {
        return Some(n);
    }
    let n: f64 = text.parse().ok()?;
    // A number out of range becomes the nearest that fits.
    (!n.is_nan() && (n.is_infinite() || n.fract() == 0.0)).then_some(n as i128)
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A value, as an error quotes it.
pub(crate) fn shown(value: &Value) -> String {
    short(&value.to_string())
}

/// The beginning of a text, as an error quotes it.
pub(crate) fn short(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTED_CHARS) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// The name of a value's type.
pub(crate) fn type_name(value: Option<&Value>) -> &'static str {
    match value {
        None | Some(Value::Null) => "null",
        Some(Value::Bool(_)) => "boolean",
        Some(Value::Number(_)) => "number",
        Some(Value::String(_)) => "string",
        Some(Value::Array(_)) => "array",
        Some(Value::Object(_)) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn flags_come_as_words_and_numbers() {
        for (value, want) in [
            (json!(true), Ok(true)),
            (json!("true"), Ok(true)),
            (json!(" TRUE "), Ok(true)),
            (json!("1"), Ok(true)),
            (json!(1), Ok(true)),
            (json!(1.0), Ok(true)),
            (json!(false), Ok(false)),
            (json!("False"), Ok(false)),
            (json!(0), Ok(false)),
            (json!(""), Ok(false)),
            (json!(null), Ok(false)),
            (json!("perhaps"), Err(r#"f must be true or false, got "perhaps""#.to_owned())),
            (json!(2), Err("f must be true or false, got 2".to_owned())),
            (json!([]), Err("f must be true or false, got []".to_owned())),
        ] {
            let call = json!({"f": value});
            assert_eq!(Args::of(&call).unwrap().flag("f"), want, "{call}");
        }
    }

    #[test]
    fn whole_numbers_come_as_text_and_in_any_size() {
        let no = |got: &str| Err(format!("n must be a whole number from 1 on, got {got}"));
        for (value, want) in [
            (json!(30), Ok(Some(30))),
            (json!("30"), Ok(Some(30))),
            (json!(" 30 "), Ok(Some(30))),
            (json!(30.0), Ok(Some(30))),
            (json!("3e1"), Ok(Some(30))),
            (json!(u64::MAX), Ok(Some(u64::MAX))),
            (json!(1e300), Ok(Some(u64::MAX))),
            (json!("9".repeat(500)), Ok(Some(u64::MAX))),
            (json!(null), Ok(None)),
            (json!(""), Ok(None)),
            (json!(0), no("0")),
            (json!(-5), no("-5")),
            (json!(-1e300), no("-1e+300")),
            (json!(1.5), no("1.5")),
            (json!("soon"), no(r#""soon""#)),
            (json!("nan"), no(r#""nan""#)),
            (json!(true), no("true")),
            (json!({"s": 1}), no(r#"{"s":1}"#)),
            (json!("x".repeat(500)), no(&format!("\"{}…", "x".repeat(59)))),
        ] {
            let call = json!({"n": value});
            assert_eq!(Args::of(&call).unwrap().whole("n", 1), want, "{call}");
        }
    }

    #[test]
    fn texts_come_alone_and_as_the_text_of_a_list() {
        let texts = |value: Value| Args::of(&json!({"t": value})).unwrap().texts("t");
        assert_eq!(texts(json!(["a", 1, null, "", " "])).unwrap(), ["a", "1"]);
        assert_eq!(texts(json!("READY")).unwrap(), ["READY"]);
        assert_eq!(texts(json!(r#"["a","b"]"#)).unwrap(), ["a", "b"]);
        assert_eq!(texts(json!("[ready]")).unwrap(), ["[ready]"]);
        assert!(texts(json!(null)).unwrap().is_empty());
        assert!(texts(json!(7)).is_err() && texts(json!({})).is_err());
        for bad in [json!(["a", ["b"]]), json!(["a", {"b": 1}]), json!(["a", true]), json!(r#"["a", ["b"]]"#)] {
            assert!(texts(bad.clone()).unwrap_err().contains("must be a list of texts"), "{bad}");
        }
    }

    #[test]
    fn arguments_are_an_object_its_text_or_nothing() {
        for good in [json!({}), json!(null), json!(""), json!("{\"a\": 1}")] {
            assert!(Args::of(&good).is_ok(), "{good}");
        }
        for bad in [json!([]), json!(1), json!(true), json!("ls -l"), json!("[1]")] {
            assert!(Args::of(&bad).is_err(), "{bad}");
        }
    }
}
