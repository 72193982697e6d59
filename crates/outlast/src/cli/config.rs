//! `outlast config`

use super::engine::running;
use super::out::tame;
use super::{Context, Failure, times};
use crate::config::Settings;
use clap::{Args, Subcommand};
use outlast_client::{EngineStatus, Setting};
use outlast_text::Redactor;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Show the configuration
///
/// Every setting has a default. The configuration file and environment variables change it.
#[derive(Debug, Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Show every value in effect and where it comes from
    ///
    /// If an engine runs, its values are shown. A value that was changed in the file since is shown beside it; `outlast engine restart` makes the
    /// engine read it.
    Show,
    /// Print the path of the configuration file, which need not exist
    Path,
}

impl Config {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        match self.command {
            ConfigCommand::Show => show(ctx, &engine(ctx).await)?,
            ConfigCommand::Path if ctx.out.json => {
                ctx.out.object(&json!({"path": ctx.settings.file, "exists": ctx.settings.file.exists()}))?
            }
            ConfigCommand::Path => ctx.out.line(&ctx.settings.file.display().to_string())?,
        }
        Ok(0)
    }
}

/// What the engine of the home answered, if one runs.
enum EngineAnswer {
    NotRunning,
    Running(Box<EngineStatus>),
    Failed(String),
}

/// Asks the running engine. None is started, because a new one would only have read the same configuration.
async fn engine(ctx: &Context) -> EngineAnswer {
    let asked = async {
        match running(ctx).await? {
            Some(client) => Ok::<_, Failure>(Some(client.engine_status().await?)),
            None => Ok(None),
        }
    };
    match asked.await {
        Ok(Some(status)) => EngineAnswer::Running(Box::new(status)),
        Ok(None) => EngineAnswer::NotRunning,
        Err(e) => EngineAnswer::Failed(e.error().to_owned()),
    }
}

/// In place of tables, if there are none.
const NO_TABLES: &str = "none";

/// A value in effect.
struct Effective {
    key: String,
    value: String,
    from: String,
    /// The value and origin in the configuration, if the engine has not read it.
    configured: Option<(String, String)>,
}

fn effective(settings: &Settings, used: &BTreeMap<String, Setting>) -> Vec<Effective> {
    let outdated = settings.outdated(used);
    let current = settings.of_engine();
    let text = |value: &Value| if value.is_null() { "none".to_owned() } else { value.to_string() };
    let mut all: Vec<Effective> = settings
        .shown
        .iter()
        .map(|v| {
            let (value, from) = (v.value.to_string(), v.from.to_string());
            match used.get(v.key) {
                Some(engine) if json!(v.value) != engine.value => Effective {
                    key: v.key.into(),
                    value: text(&engine.value),
                    from: engine.from.clone(),
                    configured: outdated.iter().any(|key| key == v.key).then_some((value, from)),
                },
                _ => Effective { key: v.key.into(), value, from, configured: None },
            }
        })
        .collect();
    // Tables are shown only if they have changed, because a digest is of no use to a user.
    for key in outdated.iter().filter(|key| !settings.shown.iter().any(|v| v.key == key.as_str())) {
        let described = |setting: Option<&Setting>| match setting.is_none_or(|s| s.value.is_null()) {
            true => NO_TABLES.to_owned(),
            false => "the tables that the engine has read".to_owned(),
        };
        let now = if current[key].value.is_null() { NO_TABLES } else { "different tables" };
        let used = used.get(key);
        all.push(Effective {
            key: format!("[[{key}]]"),
            value: described(used),
            from: used.map(|s| s.from.clone()).unwrap_or_default(),
            configured: Some((now.into(), current[key].from.clone())),
        });
    }
    all
}

/// What was done to the tables of a kind after the engine had read the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TableChange {
    Added,
    Changed,
    Removed,
}

impl TableChange {
    fn of(v: &Effective) -> Option<Self> {
        let (now, _) = v.configured.as_ref().filter(|_| v.key.starts_with("[["))?;
        Some(match (v.value == NO_TABLES, now == NO_TABLES) {
            (true, _) => Self::Added,
            (_, true) => Self::Removed,
            (false, false) => Self::Changed,
        })
    }

    fn in_words(self) -> &'static str {
        match self {
            Self::Added => "tables were added",
            Self::Changed => "tables were changed",
            Self::Removed => "all tables were removed",
        }
    }
}

/// A hook or webhook of the configuration.
#[derive(serde::Serialize)]
struct ConfiguredSink {
    kind: &'static str,
    name: String,
    /// The command or the address, without secrets.
    calls: String,
}

/// The hooks and webhooks of the file that are used. Of several with one name that is the first that makes sense.
fn sinks(settings: &Settings) -> Vec<ConfiguredSink> {
    let redactor = Redactor::new(true);
    let is_used = |kind: &str, n: usize| settings.sinks.tables.contains(&(kind.to_owned(), n));
    let of = |kind: &'static str, key: &str| {
        let tables = settings.tables.get(kind).and_then(toml::Value::as_array).into_iter().flatten();
        let sink = |(n, table): (usize, &toml::Value)| {
            let name = table.get("name")?.as_str().filter(|_| is_used(kind, n))?;
            let calls = match table.get(key)? {
                toml::Value::String(text) if kind == "webhook" => address(text),
                toml::Value::String(line) => redactor.command_line(line).into_owned(),
                toml::Value::Array(words) => {
                    let words: Vec<Cow<'_, str>> = words.iter().filter_map(toml::Value::as_str).map(Cow::Borrowed).collect();
                    redactor.arguments(&words).join(" ")
                }
                _ => return None,
            };
            Some(ConfiguredSink { kind, name: tame(name), calls: tame(&calls) })
        };
        tables.enumerate().filter_map(sink).collect::<Vec<_>>()
    };
    of("hook", "command").into_iter().chain(of("webhook", "url")).collect()
}

/// The host of an address. User, path and query are left out because they may be secrets; in webhooks of chat services the path is one.
fn address(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (host, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    format!("{scheme}://{host}{}", if path.len() > 1 { "/***" } else { path })
}

fn show(ctx: &Context, engine: &EngineAnswer) -> Result<(), Failure> {
    let s = &ctx.settings;
    let none = BTreeMap::new();
    let used = if let EngineAnswer::Running(status) = engine { &status.settings } else { &none };
    if ctx.out.json {
        return ctx.out.object(&as_json(s, engine, used));
    }
    ctx.out.line(&format!("# home: {}", s.home.display()))?;
    ctx.out.line(&format!("# file: {}{}", s.file.display(), if s.file.exists() { "" } else { " (absent)" }))?;
    ctx.out.line(&match engine {
        EngineAnswer::Running(status) => {
            let read_at = times::clock_and_age(status.started_at, times::now(), &ctx.world.zone());
            format!("# engine: pid {}; it read its settings at {read_at}", status.pid)
        }
        EngineAnswer::NotRunning => "# engine: none runs; the next one uses these values".into(),
        EngineAnswer::Failed(why) => format!("# engine: it cannot be asked which values it uses: {why}"),
    })?;
    let all = effective(s, used);
    let lines: Vec<_> = all.iter().map(|v| format!("{} = {}", v.key, v.value)).collect();
    let width = lines.iter().map(String::len).max().unwrap_or(0);
    for (line, v) in lines.iter().zip(&all) {
        let changed = match (&v.configured, TableChange::of(v)) {
            (None, _) => String::new(),
            (Some(_), Some(change)) => format!("; {} in the file, which a restart of the engine reads", change.in_words()),
            (Some((value, from)), None) => format!("; now {value} in {from}, after a restart of the engine"),
        };
        ctx.out.line(&format!("{line:width$}  # {}{changed}", v.from))?;
    }
    for sink in sinks(s) {
        let change = all.iter().find(|v| v.key == format!("[[{}]]", sink.kind)).and_then(TableChange::of);
        let mark = match change {
            Some(TableChange::Added) => "  # not read yet",
            // Which of them has changed is not known: the engine tells no more than that its tables differ.
            Some(TableChange::Changed) => "  # perhaps not read yet",
            Some(TableChange::Removed) | None => "",
        };
        ctx.out.line(&format!("[[{}]] {} = {}{mark}", sink.kind, sink.name, sink.calls))?;
    }
    if all.iter().any(|v| v.configured.is_some()) {
        ctx.out.remark("the configuration has changed since the engine read it; `outlast engine restart` applies the changes");
    }
    Ok(())
}

/// The same as JSON: each value in effect, and the configured one if the engine has not read it.
fn as_json(s: &Settings, engine: &EngineAnswer, used: &BTreeMap<String, Setting>) -> Value {
    let outdated = s.outdated(used);
    let current = s.of_engine();
    let mut values: Map<String, Value> =
        s.shown.iter().map(|v| (v.key.to_owned(), json!({"value": v.value, "from": v.from.to_string()}))).collect();
    for (key, setting) in used {
        if !values.contains_key(key) && !outdated.contains(key) {
            continue;
        }
        let mut shown = json!(setting);
        if outdated.contains(key) {
            shown["configured"] = json!(current[key]);
        }
        values.insert(key.clone(), shown);
    }
    let engine = match engine {
        EngineAnswer::Running(status) => json!({"pid": status.pid, "started_at": status.started_at, "needs_restart": !outdated.is_empty()}),
        EngineAnswer::NotRunning => Value::Null,
        EngineAnswer::Failed(why) => json!({"error": why}),
    };
    json!({"home": s.home, "path": s.file, "engine": engine, "values": values, "sinks": sinks(s), "warnings": s.warnings})
}
