//! The `[[hook]]` and `[[webhook]]` tables. A table with an error causes a warning and is left out; the others are used.

use super::FileNames;
use outlast_client::Notice;
use outlast_core::nearest;
use outlast_engine::Push;
use outlast_sinks::{Budget, Gather, Growth, Hook, HookCommand, Secret, SinkConfig, Target, Webhook};
use serde::Deserialize;
use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The sinks that are configured.
#[derive(Debug, Default)]
pub(crate) struct Sinks {
    /// How each sink is called.
    pub(crate) calls: Vec<SinkConfig>,
    /// Which notices each sink gets.
    pub(crate) pushes: Vec<Push>,
    /// The tables that they come from: the section, and which of its tables.
    pub(crate) tables: Vec<(String, usize)>,
    /// The variables that hold secrets. An engine that is started without a caller needs them, too.
    pub(crate) secret_env: Vec<String>,
}

/// What hooks and webhooks have in common: which notices they get, and how often delivery is tried.
#[derive(Debug, Deserialize)]
struct Common {
    name: String,
    #[serde(default)]
    kinds: Vec<String>,
    #[serde(default)]
    sessions: Vec<String>,
    at_once: Option<usize>,
    give_up_seconds: Option<f64>,
    retry_seconds: Option<Vec<f64>>,
    timeout_seconds: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct HookTable {
    #[serde(flatten)]
    common: Common,
    command: OneOrMany,
    #[serde(default)]
    wake: bool,
    coalesce_ms: Option<u64>,
    budget: Option<BudgetTable>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BudgetTable {
    wakes: usize,
    seconds: f64,
}

#[derive(Debug, Deserialize)]
struct WebhookTable {
    #[serde(flatten)]
    common: Common,
    url: String,
    secret_file: Option<OneOrMany>,
    secret_env: Option<OneOrMany>,
    #[serde(default)]
    allow_http: bool,
    ca_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    fn all(self) -> Vec<String> {
        match self {
            Self::One(one) => vec![one],
            Self::Many(many) => many,
        }
    }
}

const COMMON: [&str; 7] = ["name", "kinds", "sessions", "at_once", "give_up_seconds", "retry_seconds", "timeout_seconds"];
const HOOK: [&str; 4] = ["command", "wake", "coalesce_ms", "budget"];
const WEBHOOK: [&str; 5] = ["url", "secret_file", "secret_env", "allow_http", "ca_file"];

/// Reads the sinks of the configuration file. `env` is the environment of hooks, and may hold secrets.
pub(super) fn read(table: &toml::Table, names: &FileNames<'_>, env: &[(OsString, OsString)], warnings: &mut Vec<String>) -> Sinks {
    let file = names.file;
    let home = names.user_home.unwrap_or(Path::new("/"));
    let mut sinks = Sinks::default();
    let mut taken = HashSet::new();
    for (section, keys) in [("hook", &HOOK[..]), ("webhook", &WEBHOOK[..])] {
        let Some(given) = table.get(section) else { continue };
        let Some(given) = given.as_array() else {
            warnings.push(format!("{} has [{section}] where [[{section}]] is meant; it does nothing", file.display()));
            continue;
        };
        for (n, one) in given.iter().enumerate() {
            let known = |key: &&String| !COMMON.contains(&key.as_str()) && !keys.contains(&key.as_str());
            for key in one.as_table().into_iter().flat_map(toml::Table::keys).filter(known) {
                let meant = super::keys::meant(key, COMMON.iter().chain(keys).copied());
                warnings.push(format!("{} has the unknown key {key} in [[{section}]], which does nothing{meant}", file.display()));
            }
            let made = match section {
                "hook" => hook(one.clone(), env, home),
                _ => webhook(one.clone(), names, env, &mut sinks.secret_env),
            };
            if let Ok((_, push)) = &made {
                let mistaken = push.kinds.iter().filter_map(|kind| Some((kind, mistaken_kind(kind)?)));
                warnings.extend(mistaken.map(|(kind, meant)| {
                    format!("{} has the unknown kind {kind} in the {section} {}; did you mean {meant}?", file.display(), push.name)
                }));
            }
            match made {
                Ok((call, push)) if taken.insert(push.name.clone()) => {
                    sinks.tables.push((section.to_owned(), n));
                    sinks.calls.push(call);
                    sinks.pushes.push(push);
                }
                Ok((_, push)) => warnings.push(format!("two hooks or webhooks are called {:?}: the second is ignored", push.name)),
                Err(why) => {
                    warnings.push(format!("the {} [[{section}]] table in {} is ignored: {}", nth(n), file.display(), in_words(&why)))
                }
            }
        }
    }
    sinks
}

/// The kind that is meant by one that no notice of Outlast has. A notice that is posted may have any kind, so only a name that resembles another is a
/// mistake.
fn mistaken_kind(kind: &str) -> Option<&'static str> {
    let near = nearest(kind, Notice::KINDS);
    near.first().copied().filter(|_| !Notice::KINDS.contains(&kind))
}

/// Why a table is ignored, in words for the user who wrote it.
fn in_words(why: &str) -> String {
    why.strip_prefix("missing field ").map_or_else(|| why.to_owned(), |field| format!("it has no {field}"))
}

fn nth(n: usize) -> String {
    match n {
        0 => "1st".into(),
        1 => "2nd".into(),
        2 => "3rd".into(),
        n => format!("{}th", n + 1),
    }
}

fn hook(table: toml::Value, env: &[(OsString, OsString)], home: &Path) -> Result<(SinkConfig, Push), String> {
    let HookTable { common, command, wake, coalesce_ms, budget } = table.try_into().map_err(reason)?;
    let command = match command {
        OneOrMany::One(line) if line.trim().is_empty() => return Err("its command is empty".into()),
        OneOrMany::One(line) => HookCommand::Shell(line),
        OneOrMany::Many(argv) if argv.first().is_none_or(String::is_empty) => return Err("its command is empty".into()),
        OneOrMany::Many(argv) => HookCommand::Argv(argv),
    };
    let mut hook = Hook::new(command, env.to_vec(), home.to_owned());
    if let Some(limit) = common.timeout_seconds {
        hook.time_limit = positive("timeout_seconds", limit)?;
    }
    let budget = match budget {
        Some(BudgetTable { wakes: 0, .. }) => return Err("a budget of 0 wakes would never tell anything".into()),
        Some(b) => Some(Budget { count: b.wakes, per: positive("budget.seconds", b.seconds)? }),
        None => None,
    };
    let window = coalesce_ms.map(Duration::from_millis).or(wake.then_some(Hook::WAKE_WINDOW));
    if window.is_some() || budget.is_some() {
        hook.gather = Gather::together(window.unwrap_or_default(), budget);
    }
    hook.wakes = wake;
    let call = SinkConfig::hook(&common.name, hook).map_err(|e| e.to_string())?;
    finish(call, common, wake)
}

fn webhook(
    table: toml::Value,
    names: &FileNames<'_>,
    env: &[(OsString, OsString)],
    secret_env: &mut Vec<String>,
) -> Result<(SinkConfig, Push), String> {
    let WebhookTable { common, url, secret_file, secret_env: variables, allow_http, ca_file } = table.try_into().map_err(reason)?;
    let target = Target::parse(&url, allow_http).map_err(|e| e.to_string())?;
    let mut secrets = Vec::new();
    for path in secret_file.map(OneOrMany::all).unwrap_or_default() {
        let path = names.path(path);
        let text = std::fs::read_to_string(&path).map_err(|e| format!("its secret {} cannot be read: {e}", path.display()))?;
        secrets.push(Secret::parse(&text).map_err(|e| format!("its secret {}: {e}", path.display()))?);
    }
    for name in variables.map(OneOrMany::all).unwrap_or_default() {
        let found = env.iter().find(|(n, _)| n.to_str() == Some(&name)).and_then(|(_, v)| v.to_str());
        let text = found.ok_or_else(|| format!("its secret should be in {name}, which is not set"))?;
        secrets.push(Secret::parse(text).map_err(|e| format!("its secret in {name}: {e}"))?);
        secret_env.push(name);
    }
    let mut webhook = Webhook::new(target, secrets, ca_file.map(|path| names.path(path))).map_err(|e| e.to_string())?;
    if let Some(limit) = common.timeout_seconds {
        webhook.whole = positive("timeout_seconds", limit)?;
    }
    let call = SinkConfig::webhook(&common.name, webhook).map_err(|e| e.to_string())?;
    finish(call, common, false)
}

fn finish(mut call: SinkConfig, common: Common, wakes: bool) -> Result<(SinkConfig, Push), String> {
    let Common { name, kinds, sessions, at_once, give_up_seconds, retry_seconds, .. } = common;
    match at_once {
        Some(0) => return Err("at_once = 0 would never tell anything".into()),
        Some(n) => call.at_once = n,
        None => {}
    }
    if let Some(limit) = give_up_seconds {
        call.retry.give_up = positive("give_up_seconds", limit)?;
    }
    if let Some(steps) = retry_seconds {
        if steps.is_empty() {
            return Err("retry_seconds is empty".into());
        }
        let steps = steps.into_iter().map(|s| positive("retry_seconds", s)).collect::<Result<Vec<_>, _>>()?;
        call.retry.growth = Growth::Steps(steps);
    }
    Ok((call, Push { name, kinds, sessions, wakes }))
}

fn positive(key: &str, seconds: f64) -> Result<Duration, String> {
    let time = Duration::try_from_secs_f64(seconds).ok().filter(|t| !t.is_zero());
    time.ok_or_else(|| format!("{key} = {seconds} is not a time"))
}

fn reason(error: toml::de::Error) -> String {
    without_text(error.message())
}

/// A message of the parser without the text that is wrong, which may be a secret: `invalid type: string "…", expected f64`.
fn without_text(message: &str) -> String {
    match (message.split_once('"'), message.rsplit_once('"')) {
        (Some((before, _)), Some((_, after))) if before.ends_with("string ") => {
            format!("{}a text{after}", &before[..before.len() - "string ".len()])
        }
        _ => message.to_owned(),
    }
}

#[cfg(test)]
#[path = "sinks/tests.rs"]
mod tests;
