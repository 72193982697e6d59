//! Codex: `[mcp_servers.outlast]` in its `config.toml`, and a hook of ours that starts a turn.

use super::edit::Data;
use super::edit::toml::Wish;
use super::us::Sink;
use super::{Failure, Place, Scope, Target, Us, Wishes};

/// How long Codex waits for a tool, in seconds: a little more than the longest that one of ours takes.
const TOOL_LIMIT: u32 = 660;

/// Whether Codex asks before it uses a tool. `auto` does so before one that may change something; where nobody can answer, it refuses what it would ask for.
const APPROVAL: &str = "default_tools_approval_mode";

/// The name of the sink that wakes it.
pub(super) const WAKES: &str = "wake-codex";

pub(super) fn targets(place: &Place<'_>, us: &Us) -> Result<Vec<Target>, Failure> {
    let file = match place.scope {
        Scope::User => place.dir("CODEX_HOME", ".codex")?.join("config.toml"),
        Scope::Project => place.project(".codex/config.toml"),
    };
    let (mut fields, mut usual) = (us.server(), vec![("tool_timeout_sec".to_owned(), Data::Number(TOOL_LIMIT))]);
    match us.ask {
        true => fields.push((APPROVAL.to_owned(), Data::text("auto"))),
        false => usual.push((APPROVAL.to_owned(), Data::text("approve"))),
    }
    let server = Wish::Table { path: vec!["mcp_servers", "outlast"], fields, usual };
    let home = place.world.var("CODEX_HOME").map(|_| place.dir("CODEX_HOME", ".codex")).transpose()?;
    let home = home.as_ref().and_then(|dir| dir.to_str());
    let flags = [("--codex-home", home)];
    // Longer than the turn that it waits for.
    let sink = Sink { name: WAKES, client: "codex", flags: &flags, sessions: &["codex:*"], limit: Some(TOOL_LIMIT) };
    let wakes = us.wakes(place, &sink);
    Ok(vec![Target::new(file, Wishes::Toml(vec![server])), wakes])
}
