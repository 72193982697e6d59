//! The section `[gateway]`.

use super::FileNames;
use super::reader::{SettingReader, seconds};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// How the gateway runs, as it is configured.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct GatewayTable {
    pub(crate) drain_timeout: Duration,
    pub(crate) idle_exit: Duration,
    pub(crate) is_interrupting: bool,
    pub(crate) resume_window: Duration,
    pub(crate) reset: ResetTable,
    /// all, result, error, concise or off.
    pub(crate) notices: String,
    pub(crate) agent: Option<String>,
    /// Whether the log has a line for each step of a turn.
    pub(crate) is_log_detailed: bool,
    pub(crate) limits: LimitTable,
    pub(crate) agents: BTreeMap<String, AgentTable>,
    /// Errors in the tables of agents. With one of them the gateway does not start.
    pub(crate) faults: Vec<String>,
}

/// When a conversation is reset. A running process prevents that up to an age, which is one of the engine's settings.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ResetTable {
    /// none, idle, daily or both.
    pub(crate) mode: String,
    pub(crate) idle: Duration,
    /// The hour of a daily reset in local time, 0 to 23.
    pub(crate) at_hour: u8,
    pub(crate) should_notify: bool,
}

/// How long agents may take.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct LimitTable {
    pub(crate) silence: Duration,
    pub(crate) start: Duration,
    pub(crate) permission: Duration,
}

/// How one agent is run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AgentTable {
    pub(crate) argv: Vec<String>,
    pub(crate) is_command: bool,
    pub(crate) env_file: Option<PathBuf>,
    pub(crate) permission: Permission,
}

/// Who decides what an agent may do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Permission {
    Ask,
    AllowList(Vec<String>),
    Always,
}

/// How long turns may take to finish when a gateway is stopped.
const DRAIN_TIMEOUT_SECONDS: f64 = 60.0;
/// How long a gateway without work waits before it exits.
const IDLE_EXIT_SECONDS: f64 = 600.0;
/// How long after its interruption a turn is resumed without a request of the user.
const RESUME_WINDOW_SECONDS: f64 = 3600.0;
/// How long an agent may say nothing in a turn.
const SILENCE_SECONDS: f64 = 1800.0;
/// How long an agent may take to open its session.
const AGENT_START_SECONDS: f64 = 180.0;
/// How long a question about a permission waits if no person is present.
const PERMISSION_SECONDS: f64 = 60.0;
/// Longer limits are cut to this, because a time too far ahead does not fit a clock.
const LONGEST_LIMIT_SECONDS: f64 = 365.0 * 86_400.0;
/// How long a conversation may be idle, if idle ones are reset.
const IDLE_RESET_MINUTES: u64 = 1440;
/// The hour of a daily reset: few people talk to an agent at four.
const RESET_HOUR: u64 = 4;

pub(super) fn read(r: &mut SettingReader<'_>, names: &FileNames<'_>) -> GatewayTable {
    let drain = r.number("gateway.drain_timeout_seconds", &["OUTLAST_GATEWAY_DRAIN_TIMEOUT_SECONDS"], DRAIN_TIMEOUT_SECONDS);
    let idle = r.number("gateway.idle_exit_seconds", &["OUTLAST_GATEWAY_IDLE_EXIT_SECONDS"], IDLE_EXIT_SECONDS);
    let window = r.number("gateway.resume_window_seconds", &[], RESUME_WINDOW_SECONDS);
    let mode = r.word("gateway.mode", &["queue", "interrupt"]);
    let notices = r.notices("gateway.notices", &["concise", "all", "result", "error", "off"]);
    let agent = r.word("gateway.agent", &[]);
    let reset = ResetTable {
        mode: r.word("session_reset.mode", &["none", "idle", "daily", "both"]),
        idle: Duration::from_secs(r.count("session_reset.idle_minutes", &[], IDLE_RESET_MINUTES).saturating_mul(60)),
        at_hour: r.hour("session_reset.at_hour", RESET_HOUR),
        should_notify: r.flag("session_reset.notify", &[], true),
    };
    let log = r.word("gateway.log", &["info", "debug"]);
    let limits = LimitTable {
        silence: limit(r, "gateway.silence_seconds", SILENCE_SECONDS),
        start: limit(r, "gateway.agent_start_seconds", AGENT_START_SECONDS),
        permission: limit(r, "gateway.permission_seconds", PERMISSION_SECONDS),
    };
    let (agents, faults) = agents(r, names);
    GatewayTable {
        drain_timeout: seconds(drain),
        idle_exit: seconds(idle),
        is_interrupting: mode == "interrupt",
        resume_window: seconds(window),
        reset,
        notices,
        agent: Some(agent).filter(|name| !name.is_empty()),
        is_log_detailed: log == "debug",
        limits,
        agents,
        faults,
    }
}

/// A time limit. 0 would fail every turn, so it means the default.
fn limit(r: &mut SettingReader<'_>, key: &'static str, usual: f64) -> Duration {
    let given = r.number(key, &[], usual);
    seconds(if given > 0.0 { given.min(LONGEST_LIMIT_SECONDS) } else { usual })
}

fn agents(r: &SettingReader<'_>, names: &FileNames<'_>) -> (BTreeMap<String, AgentTable>, Vec<String>) {
    let file = names.file;
    let (mut agents, mut faults) = (BTreeMap::new(), Vec::new());
    let Some(tables) = r.table.get("gateway").and_then(|section| section.get("agents")) else { return (agents, faults) };
    let Some(tables) = tables.as_table() else {
        faults.push(format!("gateway.agents in {} is not a table", file.display()));
        return (agents, faults);
    };
    for (name, value) in tables {
        match agent(value, names) {
            Ok(agent) => _ = agents.insert(name.clone(), agent),
            Err(what) => faults.push(format!("gateway.agents.{name} in {}: {what}", file.display())),
        }
    }
    (agents, faults)
}

fn agent(value: &toml::Value, names: &FileNames<'_>) -> Result<AgentTable, String> {
    const KNOWN: [&str; 5] = ["argv", "command", "env_file", "permission", "allow"];
    let table = value.as_table().ok_or("it is not a table")?;
    if let Some(unknown) = table.keys().find(|key| !KNOWN.contains(&key.as_str())) {
        return Err(format!("{unknown} is not one of {}", KNOWN.join(", ")));
    }
    let texts = |name: &str| -> Result<Vec<String>, String> {
        let Some(value) = table.get(name) else { return Ok(Vec::new()) };
        let all = value.as_array().ok_or_else(|| format!("{name} is not a list"))?;
        all.iter().map(|one| one.as_str().map(str::to_owned).ok_or_else(|| format!("{name} has a value that is not a text"))).collect()
    };
    let text = |name: &str| table.get(name).map(|value| value.as_str().ok_or_else(|| format!("{name} is not a text"))).transpose();
    let (argv, command) = (texts("argv")?, text("command")?);
    let (argv, is_command) = match (argv.is_empty(), command) {
        (false, Some(_)) => return Err("it has both argv and command".into()),
        (_, None) => (argv, false),
        (true, Some(line)) => (vec!["/bin/sh".into(), "-c".into(), line.to_owned()], true),
    };
    let permission = match text("permission")? {
        None | Some("ask") => Permission::Ask,
        Some("allow-list") => Permission::AllowList(texts("allow")?),
        Some("always") => Permission::Always,
        Some(other) => return Err(format!("permission {other:?} is not one of ask, allow-list, always")),
    };
    let env_file = text("env_file")?.map(|path| names.path(path));
    Ok(AgentTable { argv, is_command, env_file, permission })
}
