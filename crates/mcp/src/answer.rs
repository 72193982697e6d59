//! Answers of the tools, in the form of the protocol.

use crate::owner::HANDLE;
use outlast_tools::{Answer, Hints, Profile, Schema, Tools};
use rmcp::model::{CallToolResult, ContentBlock, ProtocolVersion, Tool, ToolAnnotations};
use serde_json::{Value, json};
use std::sync::Arc;

/// A tool, as a client sees it.
pub(crate) fn tool(schema: &Schema, prefix: &str, with_handle: bool) -> Tool {
    let mut parameters = schema.parameters.as_object().cloned().unwrap_or_default();
    if with_handle && let Some(Value::Object(properties)) = parameters.get_mut("properties") {
        let mut handle = json!({"type": "string"});
        // The other tools of a set are used after one of these.
        if ["run", "terminal", "exec_command"].contains(&schema.name) {
            handle["description"] = "Your own name for this conversation, the same in each call, if several share the server.".into();
        }
        properties.insert(HANDLE.into(), handle);
    }
    let tool = Tool::new(format!("{prefix}{}", schema.name), schema.description.clone(), Arc::new(parameters));
    match annotations(schema.hints) {
        said if said == ToolAnnotations::new() => tool,
        said => tool.with_annotations(said),
    }
}

/// What differs from the protocol's defaults: each request to a model may have it. The schemas have no `$schema` for the same reason, since
/// 2020-12 is the default.
fn annotations(hints: Hints) -> ToolAnnotations {
    let mut said = ToolAnnotations::new();
    if hints.read_only {
        // The other hints mean nothing then.
        said = said.read_only(true);
    } else {
        if !hints.destructive {
            said = said.destructive(false);
        }
        if hints.idempotent {
            said = said.idempotent(true);
        }
    }
    if hints.open_world { said } else { said.open_world(false) }
}

/// The result of a call: text for the model, the same as an object, and whether the call failed.
pub(crate) fn result(tools: &Tools, profile: Profile, version: Option<&ProtocolVersion>, ran: bool, answer: &Answer) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(tools.text(answer))]);
    // Hermes gives its model both the text and the structured content, and the texts of its profile are JSON anyway.
    // Clients of a version without structured content show their model what they do not know.
    let is_known = version.is_none_or(|version| version.as_str() >= ProtocolVersion::V_2025_06_18.as_str());
    result.structured_content = (profile != Profile::Hermes && is_known).then(|| Value::Object(answer.clone()));
    result.is_error = Some(is_error(ran, answer));
    result
}

/// Whether a call failed: it was refused, or the command that it ran failed.
pub(crate) fn is_error(ran: bool, answer: &Answer) -> bool {
    let refused = answer.get("error").is_some_and(|error| !error.is_null() && error != "");
    let lost = answer.get("completion_reason").is_some_and(|reason| reason == "lost" || reason == "failed_start");
    let failed = ran && answer.get("exit_code").and_then(Value::as_i64).is_some_and(|code| code != 0);
    refused || lost || failed
}

/// The key in `_meta` of a call that asks for its owner, and of the answer. Some clients show their model all of `_meta`.
pub(crate) const OWNER_KEY: &str = "outlast/owner";

/// Adds the owner that the call was made for.
pub(crate) fn says_owner(result: &mut CallToolResult, owner: Value) {
    result.meta.get_or_insert_default().0.insert(OWNER_KEY.into(), owner);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tokens of `tools/list`, as it is sent: each request to a model has them.
    fn tokens(profile: Profile, with_handle: bool) -> usize {
        let mut host = outlast_tools::Host::new(outlast_client::caller([], std::path::Path::new("/")));
        host.profile = profile;
        let tools: Vec<Tool> = Tools::schemas_of(&host).iter().map(|schema| tool(schema, "", with_handle)).collect();
        outlast_text::count_tokens(&serde_json::to_string(&tools).unwrap())
    }

    #[test]
    fn the_tools_cost_no_more_than_their_budget() {
        for (profile, most, most_shared) in [(Profile::Native, 1_000, 1_100), (Profile::Hermes, 900, 900), (Profile::Codex, 500, 500)] {
            let (plain, shared) = (tokens(profile, false), tokens(profile, true));
            assert!(plain <= most && shared <= most_shared, "{}: {plain} tokens, over HTTP {shared}", profile.name());
            println!("{}: {plain} tokens, over HTTP {shared}", profile.name());
        }
    }

    #[test]
    fn an_error_is_what_could_not_be_done_or_did_not_end_well() {
        let all = |value: Value| value.as_object().unwrap().clone();
        for (answer, ran, want) in [
            (json!({"exit_code": 0, "error": null}), true, false),
            (json!({"exit_code": 1, "error": null}), true, true),
            // A call that only reads about a failed process has not failed.
            (json!({"exit_code": 1}), false, false),
            (json!({"error": "no such process"}), false, true),
            (json!({"exit_code": null, "completion_reason": "lost"}), true, true),
            (json!({"status": "running"}), true, false),
        ] {
            assert_eq!(is_error(ran, &all(answer.clone())), want, "{answer}");
        }
    }
}
