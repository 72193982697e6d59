//! Codex: `[mcp_servers.outlast]` in its `config.toml`, and a hook of ours that starts a turn.

use super::edit::Data;
use super::edit::toml::TomlEdit;
use super::own_command::WakingHook;
use super::{Failure, FileEdits, InstallPlace, OwnCommand, Scope, Target};

/// How long Codex waits for a tool, in seconds: a little more than our slowest call takes.
const TOOL_LIMIT: u32 = 660;

/// The key that says whether Codex asks before it calls a tool. With `auto` it asks before a tool that may change something, and refuses
/// such a call if no user can answer.
const APPROVAL: &str = "default_tools_approval_mode";

/// The name of the hook that wakes it.
pub(super) const WAKES: &str = "wake-codex";

pub(super) fn targets(place: &InstallPlace<'_>, own: &OwnCommand) -> Result<Vec<Target>, Failure> {
    let file = match place.scope {
        Scope::User => place.dir("CODEX_HOME", ".codex")?.join("config.toml"),
        Scope::Project => place.project(".codex/config.toml"),
    };
    let (mut fields, mut defaults) = (own.server(), vec![("tool_timeout_sec".to_owned(), Data::Number(TOOL_LIMIT))]);
    match own.should_ask {
        true => fields.push((APPROVAL.to_owned(), Data::text("auto"))),
        false => defaults.push((APPROVAL.to_owned(), Data::text("approve"))),
    }
    let server = TomlEdit::Table { path: vec!["mcp_servers", "outlast"], fields, defaults };
    let home = place.world.var("CODEX_HOME").map(|_| place.dir("CODEX_HOME", ".codex")).transpose()?;
    let home = home.as_ref().and_then(|dir| dir.to_str());
    let flags = [("--codex-home", home)];
    // The hook waits for a turn, so its limit is longer than a turn.
    let hook = WakingHook { name: WAKES, client: "codex", flags: &flags, sessions: &["codex:*"], limit: Some(TOOL_LIMIT) };
    let waking = own.waking_target(place, &hook);
    Ok(vec![Target::new(file, FileEdits::Toml(vec![server])), waking])
}
