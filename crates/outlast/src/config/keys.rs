//! The keys of the configuration, and which of them an engine reads.

use super::{Origin, Settings};
use outlast_client::Setting;
use outlast_core::nearest;
use std::collections::BTreeMap;
use std::path::Path;

/// The keys whose values an engine reads once, when it starts.
const ENGINE_KEYS: [&str; 17] = [
    "terminal.daemon_term_grace_seconds",
    "session_reset.bg_process_max_age_hours",
    "security.redact_secrets",
    "limits.max_running",
    "retention.days",
    "retention.bytes",
    "retention.notice_days",
    "log.tail_bytes",
    "engine.idle_exit_seconds",
    "engine.cgroup",
    "shell.snapshot_seconds",
    "watch.spacing_seconds",
    "watch.strikes",
    "watch.lifetime",
    "watch.burst",
    "watch.window_seconds",
    "watch.rest_seconds",
];
/// The tables that an engine reads when it starts.
const ENGINE_TABLES: [&str; 2] = ["hook", "webhook"];
/// The keys that other programs of ours read.
const OTHER_KEYS: [&str; 19] = [
    "terminal.timeout",
    "terminal.max_foreground_timeout",
    "session_reset.mode",
    "session_reset.idle_minutes",
    "session_reset.at_hour",
    "session_reset.notify",
    "attach.detach_key",
    "notify",
    "notify_after",
    "gateway.drain_timeout_seconds",
    "gateway.idle_exit_seconds",
    "gateway.mode",
    "gateway.resume_window_seconds",
    "gateway.notices",
    "gateway.agent",
    "gateway.log",
    "gateway.silence_seconds",
    "gateway.agent_start_seconds",
    "gateway.permission_seconds",
];

/// Every key that may be set.
pub(super) fn keys() -> impl Iterator<Item = &'static str> {
    ENGINE_KEYS.into_iter().chain(OTHER_KEYS)
}

impl Settings {
    /// The settings that an engine would use if it were started now. Tables are given as a digest, because addresses may have secrets in them.
    pub(crate) fn of_engine(&self) -> BTreeMap<String, Setting> {
        let values = self.shown.iter().filter(|v| ENGINE_KEYS.contains(&v.key));
        let mut all: BTreeMap<String, Setting> =
            values.map(|v| (v.key.to_owned(), Setting::new(serde_json::json!(v.value), v.from.to_string()))).collect();
        for table in ENGINE_TABLES {
            let text = self.tables.get(table).map(ToString::to_string);
            let from = if text.is_some() { Origin::File } else { Origin::Default };
            all.insert(table.to_owned(), Setting::new(serde_json::json!(text.map(|text| digest(&text))), from.to_string()));
        }
        all
    }

    /// The keys for which this engine uses another value than one that is started now. A value that comes from an environment does not count, because the
    /// environments of callers differ.
    pub(crate) fn outdated(&self, engine: &BTreeMap<String, Setting>) -> Vec<String> {
        let is_of_env = |setting: &Setting| setting.from.starts_with("environment");
        let differs = |ours: &Setting, theirs: &Setting| ours.value != theirs.value && !is_of_env(ours) && !is_of_env(theirs);
        let ours = self.of_engine().into_iter();
        ours.filter(|(key, ours)| engine.get(key).is_some_and(|theirs| differs(ours, theirs))).map(|(key, _)| key).collect()
    }
}

/// A digest that shows whether a text has changed.
fn digest(text: &str) -> String {
    // FNV-1a: the same in every version of the program.
    let sum = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, b| (sum ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    format!("{sum:016x}")
}

/// Warnings about keys that no setting has.
pub(super) fn unknown(table: &toml::Table, file: &Path) -> Vec<String> {
    let given = table.iter().flat_map(|(section, value)| match value {
        toml::Value::Table(inner) => inner.keys().map(|k| format!("{section}.{k}")).collect(),
        _ => vec![section.clone()],
    });
    // The keys inside hooks, webhooks and agents are checked where these are read.
    given
        .filter(|k| !keys().any(|known| known == k) && !["hook", "webhook", "gateway.agents"].contains(&k.as_str()))
        .map(|k| format!("{} has the unknown key {k}, which does nothing{}", file.display(), meant(&k, keys())))
        .collect()
}

/// `; did you mean retention.days?`, if the key resembles one of these.
pub(super) fn meant<'a>(key: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    match nearest(key, known).first() {
        Some(near) => format!("; did you mean {near}?"),
        None => String::new(),
    }
}
