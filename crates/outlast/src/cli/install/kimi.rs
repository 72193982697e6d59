//! Kimi Code: `mcpServers` in its `mcp.json`.

use super::edit::Data;
use super::edit::json::Wish;
use super::{Failure, Place, Scope, Target, Us, Wishes};

/// How long Kimi Code waits for a tool, in milliseconds: a little more than the longest that one of ours takes.
const TOOL_LIMIT: u32 = 660_000;

pub(super) fn targets(place: &Place<'_>, us: &Us) -> Result<Vec<Target>, Failure> {
    let file = match place.scope {
        Scope::User => place.dir("KIMI_CODE_HOME", ".kimi-code")?.join("mcp.json"),
        Scope::Project => place.project(".kimi-code/mcp.json"),
    };
    let usual = vec![("toolTimeoutMs".to_owned(), Data::Number(TOOL_LIMIT))];
    let server = Wish::Member { path: vec!["mcpServers", "outlast"], fields: us.server(), usual };
    Ok(vec![Target::new(file, Wishes::Json(vec![server]))])
}
