//! Resources that are no process.

use rmcp::model::{ErrorData, ReadResourceResult, Resource, ResourceTemplate};
use serde_json::{Value, json};

/// One red dot.
pub(crate) const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
/// One that can be subscribed to.
pub(crate) const WATCHED: &str = "test://watched-resource";

pub(crate) fn list() -> Result<Vec<Resource>, ErrorData> {
    crate::read(json!([
        {"uri": "test://static-text", "name": "static-text", "description": "A text", "mimeType": "text/plain"},
        {"uri": "test://static-binary", "name": "static-binary", "description": "An image", "mimeType": "image/png"},
        {"uri": WATCHED, "name": "watched-resource", "description": "A text that never changes", "mimeType": "text/plain"},
    ]))
}

pub(crate) fn templates() -> Result<Vec<ResourceTemplate>, ErrorData> {
    crate::read(json!([
        {"uriTemplate": "test://template/{id}/data", "name": "template", "description": "Data of an id", "mimeType": "application/json"},
    ]))
}

/// One of these, or nothing.
pub(crate) fn read(uri: &str) -> Result<Option<ReadResourceResult>, ErrorData> {
    let text = |mime: &str, text: String| json!({"uri": uri, "mimeType": mime, "text": text});
    let content: Value = match uri {
        "test://static-text" => text("text/plain", "This is the content of the static text resource.".into()),
        "test://static-binary" => json!({"uri": uri, "mimeType": "image/png", "blob": PNG}),
        WATCHED => text("text/plain", "This never changes.".into()),
        _ => match uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data")) {
            Some(id) => text("application/json", json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")}).to_string()),
            None => return Ok(None),
        },
    };
    crate::read(json!({"resultType": "complete", "contents": [content]})).map(Some)
}
