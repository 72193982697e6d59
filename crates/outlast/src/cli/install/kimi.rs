//! Kimi Code: `mcpServers` in its `mcp.json`.

use super::edit::Data;
use super::edit::json::JsonEdit;
use super::{Failure, FileEdits, InstallPlace, OwnCommand, Scope, Target};

/// How long Kimi Code waits for a tool, in milliseconds: a little more than our slowest call takes.
const TOOL_LIMIT: u32 = 660_000;

pub(super) fn targets(place: &InstallPlace<'_>, own: &OwnCommand) -> Result<Vec<Target>, Failure> {
    let file = match place.scope {
        Scope::User => place.dir("KIMI_CODE_HOME", ".kimi-code")?.join("mcp.json"),
        Scope::Project => place.project(".kimi-code/mcp.json"),
    };
    let defaults = vec![("toolTimeoutMs".to_owned(), Data::Number(TOOL_LIMIT))];
    let server = JsonEdit::Member { path: vec!["mcpServers", "outlast"], fields: own.server(), defaults };
    Ok(vec![Target::new(file, FileEdits::Json(vec![server]))])
}
