//! Reads the value of a key: from the environment, else from the file, else its default.

use super::{DetachKey, Origin, Shown};
use std::ffi::OsString;
use std::time::Duration;

/// A duration from seconds that were checked to be finite and not negative. One that is too long becomes the longest duration.
pub(super) fn seconds(s: f64) -> Duration {
    Duration::try_from_secs_f64(s).unwrap_or(Duration::MAX)
}

/// Reads settings one by one, and keeps what it has read of each for `outlast config show`.
pub(super) struct SettingReader<'a> {
    pub(super) env: &'a dyn Fn(&str) -> Option<OsString>,
    /// The file.
    pub(super) table: toml::Table,
    /// The values in effect.
    pub(super) shown: Vec<Shown>,
    /// What was wrong with values that were replaced by their defaults.
    pub(super) warnings: Vec<String>,
}

impl SettingReader<'_> {
    /// A number. A negative one counts as 0.
    pub(super) fn number(&mut self, key: &'static str, env: &[&'static str], default: f64) -> f64 {
        let parse = |v: &toml::Value| {
            let n = match v {
                toml::Value::Integer(i) => *i as f64,
                toml::Value::Float(f) => *f,
                toml::Value::String(s) => s.trim().parse().ok()?,
                _ => return None,
            };
            n.is_finite().then_some(n.max(0.0))
        };
        self.value(key, env, default, parse, |n| toml::Value::Float(*n))
    }

    /// A whole number that is at least 1.
    pub(super) fn count(&mut self, key: &'static str, env: &[&'static str], default: u64) -> u64 {
        let parse = |v: &toml::Value| match v {
            toml::Value::Integer(i) => u64::try_from(*i).ok().filter(|n| *n > 0),
            toml::Value::String(s) => s.trim().parse().ok().filter(|n| *n > 0),
            _ => None,
        };
        self.value(key, env, default, parse, whole)
    }

    /// A limit: a whole number, or 0 for none.
    pub(super) fn count_or_none(&mut self, key: &'static str, env: &[&'static str], default: Option<u64>) -> Option<u64> {
        let parse = |v: &toml::Value| match v {
            toml::Value::Integer(i) => u64::try_from(*i).ok(),
            toml::Value::String(s) => s.trim().parse().ok(),
            _ => None,
        };
        let n = self.value(key, env, default.unwrap_or(0), parse, whole);
        Some(n).filter(|n| *n > 0)
    }

    /// An hour of the day.
    pub(super) fn hour(&mut self, key: &'static str, default: u64) -> u8 {
        let parse = |v: &toml::Value| v.as_integer().and_then(|n| u64::try_from(n).ok()).filter(|n| *n < 24);
        u8::try_from(self.value(key, &[], default, parse, whole)).unwrap_or_default()
    }

    /// True or false, in one of the usual spellings.
    pub(super) fn flag(&mut self, key: &'static str, env: &[&'static str], default: bool) -> bool {
        let parse = |v: &toml::Value| match v {
            toml::Value::Boolean(b) => Some(*b),
            toml::Value::Integer(i) => [(1, true), (0, false)].iter().find(|(n, _)| n == i).map(|(_, b)| *b),
            toml::Value::String(s) => match s.trim().to_ascii_lowercase().as_str() {
                "1" | "true" | "yes" | "on" => Some(true),
                "0" | "false" | "no" | "off" => Some(false),
                _ => None,
            },
            _ => None,
        };
        self.value(key, env, default, parse, |b| toml::Value::Boolean(*b))
    }

    /// The keys that leave `attach`.
    pub(super) fn key(&mut self, key: &'static str, env: &[&'static str]) -> DetachKey {
        let parse = |v: &toml::Value| v.as_str().and_then(|text| text.parse().ok());
        self.value(key, env, DetachKey::default(), parse, |key| toml::Value::String(key.to_string()))
    }

    /// A time: a number of seconds, or a text with units such as `30s` or `1h30m`.
    pub(super) fn time(&mut self, key: &'static str, default: Duration) -> Duration {
        let parse = |v: &toml::Value| match v {
            toml::Value::Integer(seconds) => u64::try_from(*seconds).ok().map(Duration::from_secs),
            toml::Value::Float(seconds) => Duration::try_from_secs_f64(*seconds).ok(),
            toml::Value::String(text) => Duration::try_from(text.parse::<jiff::SignedDuration>().ok()?).ok(),
            _ => None,
        };
        self.value(key, &[], default, parse, |time| toml::Value::String(format!("{}s", time.as_secs_f64())))
    }

    /// One of these words; the first is the default. If no words are given, any text is allowed and the default is empty.
    pub(super) fn word(&mut self, key: &'static str, words: &[&str]) -> String {
        let parse = |v: &toml::Value| v.as_str().filter(|text| words.is_empty() || words.contains(text)).map(str::to_owned);
        let default = words.first().copied().unwrap_or_default().to_owned();
        self.value_among(key, words, default, parse)
    }

    /// One of the words for how much is shown of notices; the first is the default. `false` means the last one, which shows nothing.
    pub(super) fn notices(&mut self, key: &'static str, words: &[&str]) -> String {
        let parse = |v: &toml::Value| match v {
            toml::Value::Boolean(false) => words.last().map(|word| (*word).to_owned()),
            other => other.as_str().filter(|text| words.contains(text)).map(str::to_owned),
        };
        let default = words.first().copied().unwrap_or_default().to_owned();
        self.value_among(key, words, default, parse)
    }

    /// The value of a key that is one of these words. If it is none of them, the warning names them.
    fn value_among(
        &mut self,
        key: &'static str,
        words: &[&str],
        default: String,
        parse: impl Fn(&toml::Value) -> Option<String>,
    ) -> String {
        let warned = self.warnings.len();
        let value = self.value(key, &[], default, parse, |text| toml::Value::String(text.clone()));
        if let Some(warning) = self.warnings.get_mut(warned).filter(|_| !words.is_empty()) {
            *warning += &format!("; it is one of {}", words.join(", "));
        }
        value
    }

    /// A number of bytes, also with a unit.
    pub(super) fn bytes(&mut self, key: &'static str, default: u64) -> u64 {
        let parse = |v: &toml::Value| match v {
            toml::Value::Integer(i) => u64::try_from(*i).ok(),
            toml::Value::String(s) => size(s),
            _ => None,
        };
        self.value(key, &[], default, parse, whole)
    }

    /// The value of `key`: from the first of these variables that is set, else from the file, else `default`.
    fn value<T>(
        &mut self,
        key: &'static str,
        env: &[&'static str],
        default: T,
        parse: impl Fn(&toml::Value) -> Option<T>,
        show: impl Fn(&T) -> toml::Value,
    ) -> T {
        let set = env.iter().find_map(|name| (self.env)(name).map(|v| (*name, v)));
        let given = match set {
            Some((name, value)) => Some((toml::Value::String(value.to_string_lossy().into_owned()), Origin::Env(name))),
            None => find(&self.table, key).map(|v| (v.clone(), Origin::File)),
        };
        let (value, from) = match given {
            None => (default, Origin::Default),
            Some((raw, from)) => match parse(&raw) {
                Some(value) => (value, from),
                None => {
                    self.warnings.push(format!("{key} = {} ({from}) makes no sense; using the default {}", unquoted(&raw), show(&default)));
                    (default, Origin::Default)
                }
            },
        };
        self.shown.push(Shown { key, value: show(&value), from });
        value
    }
}

/// A value that cannot be used, as a warning shows it. A text may be a secret that was put at the wrong place, so only its kind is shown.
fn unquoted(value: &toml::Value) -> String {
    match value {
        toml::Value::Integer(_) | toml::Value::Float(_) | toml::Value::Boolean(_) | toml::Value::Datetime(_) => value.to_string(),
        toml::Value::String(text) => format!("a text of {} characters", text.chars().count()),
        toml::Value::Array(_) => "a list".to_owned(),
        toml::Value::Table(_) => "a table".to_owned(),
    }
}

/// A whole number as TOML, which has no larger ones than `i64`.
fn whole(n: &u64) -> toml::Value {
    toml::Value::Integer(i64::try_from(*n).unwrap_or(i64::MAX))
}

/// The value of a key with at most one dot in it.
fn find<'a>(table: &'a toml::Table, key: &str) -> Option<&'a toml::Value> {
    match key.split_once('.') {
        Some((section, name)) => table.get(section)?.as_table()?.get(name),
        None => table.get(key),
    }
}

/// A number of bytes: `5GiB`, `64 MiB`, `2GB`, `1048576`.
fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, want) in
            [("5GiB", Some(5 << 30)), (" 64 MiB ", Some(64 << 20)), ("1kb", Some(1000)), ("7", Some(7)), ("2g", Some(2 << 30))]
        {
            assert_eq!(size(text), want, "{text}");
        }
        for bad in ["", "GiB", "-1", "1.5GiB", "9 lots", "99999999999TiB"] {
            assert_eq!(size(bad), None, "{bad}");
        }
    }
}
