//! Hermes: `mcp_servers` in its `config.yaml`; with `--wake`, a hook of ours that has its gateway take a turn.

use super::super::hook::HERMES_OVER_MCP as OVER_MCP;
use super::edit::Data;
use super::edit::yaml::YamlEdit;
use super::own_command::WakingHook;
use super::{AgentClient, Failure, FileEdits, InstallPlace, OwnCommand, Scope, Target, no_project};

/// How long Hermes waits for a tool, in seconds: a little more than our slowest call takes.
const TOOL_LIMIT: u32 = 660;

/// The name of the hook that wakes it.
pub(super) const WAKES: &str = "wake-hermes";

pub(super) fn targets(place: &InstallPlace<'_>, own: &OwnCommand) -> Result<Vec<Target>, Failure> {
    if place.scope == Scope::Project {
        return Err(no_project(AgentClient::Hermes));
    }
    let defaults = vec![("timeout".to_owned(), Data::Number(TOOL_LIMIT))];
    // Hermes sends no session with a call. So what it starts belongs to all of its sessions, and the hook finds out which one to wake.
    let fields = if own.should_wake { own.server_for(Some(OVER_MCP)) } else { own.server() };
    let edit = YamlEdit { map: "mcp_servers", name: "outlast", fields, defaults };
    let mut targets = vec![Target::new(place.dir("HERMES_HOME", ".hermes")?.join("config.yaml"), FileEdits::Yaml(edit))];
    if own.should_wake {
        // The hook waits for a turn, so its limit is longer than a turn.
        let hook = WakingHook { name: WAKES, client: "hermes", flags: &[], sessions: &["hermes:*"], limit: Some(TOOL_LIMIT) };
        targets.push(own.waking_target(place, &hook));
    }
    Ok(targets)
}
