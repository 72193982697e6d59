//! Hermes: `mcp_servers` in its `config.yaml`; if asked for, a hook of ours that has its gateway take a turn.

use super::super::hook::HERMES_OVER_MCP as OVER_MCP;
use super::edit::Data;
use super::edit::yaml::Wish;
use super::us::Sink;
use super::{Client, Failure, Place, Scope, Target, Us, Wishes, no_project};

/// How long Hermes waits for a tool, in seconds: a little more than the longest that one of ours takes.
const TOOL_LIMIT: u32 = 660;

/// The name of the sink that wakes it.
pub(super) const WAKES: &str = "wake-hermes";

pub(super) fn targets(place: &Place<'_>, us: &Us) -> Result<Vec<Target>, Failure> {
    if place.scope == Scope::Project {
        return Err(no_project(Client::Hermes));
    }
    let usual = vec![("timeout".to_owned(), Data::Number(TOOL_LIMIT))];
    // It says nobody's name with a call, so what it starts belongs to all of its sessions, and the hook finds out which one it was.
    let fields = if us.wake { us.server_for(Some(OVER_MCP)) } else { us.server() };
    let wish = Wish { map: "mcp_servers", name: "outlast", fields, usual };
    let mut targets = vec![Target::new(place.dir("HERMES_HOME", ".hermes")?.join("config.yaml"), Wishes::Yaml(wish))];
    if us.wake {
        // Longer than the turn that it waits for.
        let sink = Sink { name: WAKES, client: "hermes", flags: &[], sessions: &["hermes:*"], limit: Some(TOOL_LIMIT) };
        targets.push(us.wakes(place, &sink));
    }
    Ok(targets)
}
