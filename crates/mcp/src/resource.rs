//! Processes as resources: `proc://ID/status` and `proc://ID/log`.

use outlast_client::{Client, ClientError, Owner, Page, ProcessInfo, Scope, code};
use rmcp::ErrorData;
use rmcp::model::{ListResourceTemplatesResult, ListResourcesResult, ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use serde_json::json;

/// The most processes in a list of resources, the newest first.
const MAX_LISTED: usize = 100;

/// The part of a process that a resource shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Its status.
    Status,
    /// Its output.
    Log,
}

/// Parses an address into a process and a part.
pub(crate) fn parse(uri: &str) -> Option<(&str, Part)> {
    let (id, part) = uri.strip_prefix("proc://")?.split_once('/')?;
    let part = match part {
        "status" => Part::Status,
        "log" => Part::Log,
        _ => return None,
    };
    let plain = !id.is_empty() && id.len() <= 64 && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    plain.then_some((id, part))
}

/// The error for an address of no resource.
pub(crate) fn not_found(uri: &str) -> ErrorData {
    let hint = "resources are proc://ID/status and proc://ID/log of this conversation's processes";
    ErrorData::resource_not_found(format!("there is no resource {uri:?}: {hint}"), Some(json!({"uri": uri})))
}

pub(crate) fn templates() -> ListResourceTemplatesResult {
    let template = |part: &str, mime: &str, what: &str| {
        ResourceTemplate::new(format!("proc://{{id}}/{part}"), format!("process-{part}")).with_description(what).with_mime_type(mime)
    };
    ListResourceTemplatesResult::with_all_items(vec![
        template("status", "application/json", "How a process is: phase, exit code, times, the end of its output"),
        template("log", "text/plain", "The last lines that a process printed"),
    ])
}

/// The resources of a session.
pub(crate) async fn list(client: &Client) -> Result<ListResourcesResult, ClientError> {
    let Owner { task, session, .. } = client.owner().clone();
    let mut all = client.list(&Scope { task, session }, true).await?;
    all.retain(|p| !p.is_set_aside);
    all.sort_by_key(|p| std::cmp::Reverse(p.started_at));
    Ok(ListResourcesResult::with_all_items(all.iter().take(MAX_LISTED).flat_map(both).collect()))
}

fn both(process: &ProcessInfo) -> [Resource; 2] {
    let id = process.session_id;
    let one = |part: &str, mime: &str| {
        Resource::new(format!("proc://{id}/{part}"), format!("{id}-{part}")).with_description(process.command.clone()).with_mime_type(mime)
    };
    [one("status", "application/json"), one("log", "text/plain")]
}

/// The process and the part that an address names. Reading a resource never marks an end as seen.
pub(crate) async fn find(client: &Client, uri: &str) -> Result<(ProcessInfo, Part), ErrorData> {
    let (id, part) = parse(uri).ok_or_else(|| not_found(uri))?;
    let info = looking_on(client).poll(id).await.map_err(|e| failed(uri, &e))?;
    // A client without an owner sees all processes, so the owner is checked here.
    let own = info.session_key.is_some() && info.session_key == client.owner().session;
    if own { Ok((info, part)) } else { Err(not_found(uri)) }
}

/// Reads a resource.
pub(crate) async fn read(client: &Client, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let (info, part) = find(client, uri).await?;
    let contents = match part {
        Part::Status => ResourceContents::text(json!(info).to_string(), uri).with_mime_type("application/json"),
        Part::Log => {
            let page = looking_on(client).log(&info.session_id.to_string(), Page::default()).await.map_err(|e| failed(uri, &e))?;
            ResourceContents::text(page.output, uri)
        }
    };
    Ok(ReadResourceResult::new(vec![contents]))
}

/// A client without an owner: what it reads counts as seen by no session.
fn looking_on(client: &Client) -> Client {
    client.with_owner(Owner::default())
}

fn failed(uri: &str, e: &ClientError) -> ErrorData {
    match e.code() {
        code::NOT_FOUND | code::BAD_ID | code::AMBIGUOUS_ID => not_found(uri),
        _ => ErrorData::internal_error(e.to_string(), Some(json!({"code": e.code(), "hint": e.hint()}))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_two_kinds_of_address_mean_something() {
        assert_eq!(parse("proc://proc_ab12000000ff/log"), Some(("proc_ab12000000ff", Part::Log)));
        assert_eq!(parse("proc://ab12/status"), Some(("ab12", Part::Status)));
        for bad in [
            "proc://",
            "proc:///log",
            "proc://a/b/log",
            "proc://../log",
            "proc://a%2f/log",
            "file://a/log",
            "proc://a/env",
            "proc://a/log/",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
