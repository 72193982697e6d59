//! Answers of the tools, in the form of the protocol.

use crate::owner::HANDLE;
use outlast_tools::{Answer, Profile, Schema, Tools};
use rmcp::model::{CallToolResult, ContentBlock, Tool, ToolAnnotations};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::Arc;

/// A tool, as a client sees it.
pub(crate) fn tool(schema: &Schema, with_handle: bool) -> Tool {
    let mut parameters = schema.parameters.as_object().cloned().unwrap_or_default();
    parameters.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
    if with_handle && let Some(Value::Object(properties)) = parameters.get_mut("properties") {
        let description =
            "A name of your own for this conversation, the same in each call, where several share this server and none is told apart.";
        properties.insert(HANDLE.into(), json!({"type": "string", "description": description}));
    }
    let hints = schema.hints;
    let annotations = ToolAnnotations::new()
        .read_only(hints.read_only)
        .destructive(hints.destructive)
        .idempotent(hints.idempotent)
        .open_world(hints.open_world);
    Tool::new(schema.name, Cow::<'static, str>::Owned(schema.description.clone()), Arc::new(parameters)).with_annotations(annotations)
}

/// The result of a call: text for the model, the same as an object, and whether the call failed.
pub(crate) fn result(tools: &Tools, profile: Profile, ran: bool, answer: &Answer) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(tools.text(answer))]);
    // Hermes gives its model both the text and the structured content, and the texts of its profile are JSON anyway.
    result.structured_content = (profile != Profile::Hermes).then(|| Value::Object(answer.clone()));
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

/// Adds the owner that the call was made for.
pub(crate) fn says_owner(result: &mut CallToolResult, owner: Value) {
    result.meta.get_or_insert_default().0.insert("outlast/owner".into(), owner);
}

#[cfg(test)]
mod tests {
    use super::*;

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
