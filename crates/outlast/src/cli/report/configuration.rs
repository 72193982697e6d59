//! The configuration without its secrets.

use super::mask::{MASKED, Mask};
use crate::config::Settings;
use outlast_text::secret_name;
use toml::Value;

/// Tables whose values are variables or headers, which are secrets more often than not.
const OPAQUE_TABLES: [&str; 3] = ["env", "environment", "headers"];

/// The values in effect, what was wrong with the file, and the file itself.
pub(super) fn shown(settings: &Settings, file: Option<&str>, mask: &Mask) -> String {
    let mut text = String::from("# values in effect, without those of tables\n");
    for setting in &settings.shown {
        // These keys are ours: `security.redact_secrets` and `attach.detach_key` hold no secret.
        let value = match &setting.value {
            Value::String(text) => mask.command(text).into(),
            other => other.clone(),
        };
        text += &format!("{} = {value}  # {}\n", setting.key, setting.from);
    }
    text += "\n# what was wrong with the file\n";
    for warning in &settings.warnings {
        // A message of the parser quotes the line it is about.
        let first = warning.lines().next().unwrap_or_default();
        text += &format!("{}\n", mask.text(&mask.command(first)));
    }
    text += &mask.text(&format!("\n# {}\n", settings.file.display()));
    match file.map(|file| (file, file.parse::<toml::Table>())) {
        None => text += "# absent, or not readable\n",
        Some((_, Ok(tables))) => text += &printed(&tables_of(&tables, mask)),
        Some((file, Err(e))) => {
            text += &format!("# not valid: {}\n# keys alone, line by line\n", mask.text(e.message()));
            text += &keys_alone(file);
        }
    }
    text
}

fn printed(tables: &toml::Table) -> String {
    toml::to_string(tables).unwrap_or_else(|e| format!("# cannot be shown: {e}\n"))
}

fn tables_of(tables: &toml::Table, mask: &Mask) -> toml::Table {
    tables.iter().map(|(key, value)| (key.clone(), masked(key, value, mask))).collect()
}

fn masked(key: &str, value: &Value, mask: &Mask) -> Value {
    match value {
        Value::Table(table) if OPAQUE_TABLES.contains(&key) => {
            Value::Table(table.iter().map(|(name, _)| (name.clone(), MASKED.into())).collect())
        }
        Value::Table(table) => Value::Table(tables_of(table, mask)),
        Value::Array(all) if all.iter().all(Value::is_str) && !secret_name(key) && !is_address(key) => {
            let words: Vec<&str> = all.iter().filter_map(Value::as_str).collect();
            Value::Array(mask.arguments(&words).iter().map(|word| mask.command(word).into()).collect())
        }
        Value::Array(all) => Value::Array(all.iter().map(|value| masked(key, value, mask)).collect()),
        Value::String(_) if secret_name(key) => MASKED.into(),
        Value::String(text) if is_address(key) => mask.address(text).into(),
        Value::String(text) => mask.command(text).into(),
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => value.clone(),
    }
}

/// Whether a key has an address, be it well written or not.
fn is_address(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    key == "url" || key.ends_with("_url") || key == "urls"
}

/// A file that cannot be parsed, without any value: a secret in it cannot be told from the rest.
fn keys_alone(file: &str) -> String {
    let is_key = |key: &str| !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    let line = |line: &str| {
        let text = line.trim();
        let name = text.trim_matches(['[', ']']);
        match text.split_once('=') {
            _ if text.is_empty() => String::new(),
            _ if text.starts_with('#') => "# …".into(),
            None if text.starts_with('[') && text.ends_with(']') && is_key(name) => text.to_owned(),
            // Without a value, it may be the end of a secret in base64.
            Some((_, value)) if matches!(value.trim(), "" | "=") => MASKED.into(),
            Some((key, _)) if is_key(key.trim()) => format!("{} = {MASKED}", key.trim()),
            Some(_) | None => MASKED.into(),
        }
    };
    file.lines().map(|text| line(text) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_may_be_secrets_are_not_in_a_valid_file() {
        let file = r#"
            # the token is tops3cret-in-a-comment
            [retention]
            days = 3
            [[webhook]]
            url = "https://user:pw@hooks.example.com/services/T000/B000/tops3cret"
            secret = "whsec_tops3cret"
            headers = { X-Custom = "tops3cret" }
            [[webhook]]
            url = "hooks.slack.com/services/T00/B00/tops3cret"
            [[webhook]]
            url = "tops3cret"
            [[hook]]
            command = "notify --token tops3cret"
            args = ["--password=tops3cret", "PASSWORD=tops3cret"]
            [[hook]]
            command = ["notify", "--token", "tops3cret", "https://chat.example.com/api/webhooks/1/tops3cret"]
            [[hook]]
            command = "curl -sd @- 'https://me:pw@hooks.example.com/services/T0/B0/tops3cret' --max-time 5"
            [agents.a.env]
            ANY = "tops3cret"
        "#;
        let tables = file.parse::<toml::Table>().unwrap();
        let text = printed(&tables_of(&tables, &Mask::new(None)));
        assert!(!text.contains("tops3cret") && !text.contains("pw@"), "{text}");
        assert!(text.contains("days = 3") && text.contains("https://hooks.example.com/***") && text.contains("ANY = \"***\""), "{text}");
        assert!(text.contains("url = \"hooks.slack.com/***\"") && text.contains("url = \"***\""), "{text}");
        assert!(text.contains("'https://hooks.example.com/***' --max-time 5") && text.contains("\"--token\""), "{text}");
    }

    #[test]
    fn a_file_that_cannot_be_parsed_is_shown_without_values() {
        let text = keys_alone("# tops3cret\n[webhook]\nsecret = \"tops3cret\nurl = x\n\ntops3cret and more\ntops3cret==\n[[hook]]\n");
        assert_eq!(text, "# …\n[webhook]\nsecret = ***\nurl = ***\n\n***\n***\n[[hook]]\n");
    }
}
