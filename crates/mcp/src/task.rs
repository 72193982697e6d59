//! Durable tasks: each is a process, and has the process's id. The engine has it on disk before the client gets the id, and keeps it until
//! retention removes it.
//!
//! Decision 107: docs/decisions/tools-mcp.md.

use crate::answer;
use outlast_client::{ClientError, ProcessInfo, Reason, Time, code};
use outlast_tools::{Answer, CallResult, Profile, Tools};
use rmcp::ErrorData;
use rmcp::model::{CreateTaskResult, DetailedTask, GetTaskResult, ProtocolVersion, Task, TaskPayload, TaskStatus};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Value, json};
use std::time::Duration;

/// How often a client should poll. The interval grows with the time that the process has run.
const MIN_POLL_INTERVAL: Duration = Duration::from_secs(1);
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(30);

/// Whether a request may be answered with a task. A client of the old era may declare the extension and still show its user nothing.
pub(crate) fn are_understood(context: &RequestContext<RoleServer>) -> bool {
    let new_era = context.protocol_version().is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str());
    new_era && context.client_capabilities().is_some_and(|able| able.supports_tasks())
}

/// The process that an answer leaves running, if its call waited for its end and that end becomes a notice. A client may drive a task to its
/// end inside of the call, so a server that is to stay must not be one.
pub(crate) fn left_running(tools: &Tools, tool: &str, arguments: &Value, answer: &Answer) -> Option<String> {
    let (named, told) = match tool {
        _ if !tools.waits_for_end(tool, arguments) => return None,
        "run" => ("process", "notify"),
        "terminal" => ("session_id", "notify_on_complete"),
        _ => return None,
    };
    let ended = answer.get("status").is_some_and(|status| status == "exited");
    let wanted = answer.get(told) == Some(&Value::Bool(true)) && !ended;
    wanted.then(|| answer.get(named).and_then(Value::as_str).map(str::to_owned)).flatten()
}

/// The answer that names the task, instead of a result.
pub(crate) fn created(info: &ProcessInfo, keep_for: Duration, now: Time) -> CreateTaskResult {
    CreateTaskResult::new(task(info, keep_for, now))
}

/// The status of a task.
pub(crate) fn status((tools, profile): (&Tools, Profile), outcome: &CallResult, keep_for: Duration, now: Time) -> GetTaskResult {
    let base = task(&outcome.info, keep_for, now);
    let payload = match &outcome.answer {
        None => TaskPayload::Working,
        Some(_) if was_cancelled(&outcome.info) => TaskPayload::Cancelled,
        Some(all) => {
            let result = json!(answer::result(tools, profile, None, true, all));
            TaskPayload::Completed { result: result.as_object().cloned().unwrap_or_default() }
        }
    };
    GetTaskResult::new(DetailedTask::new(base, payload))
}

/// Whether a client or user stopped it, so that there is no result.
pub(crate) fn was_cancelled(info: &ProcessInfo) -> bool {
    info.fate.completion_reason == Some(Reason::Killed) && info.fate.termination_source.as_deref() != Some("timeout")
}

fn task(info: &ProcessInfo, keep_for: Duration, now: Time) -> Task {
    let since = info.started_at;
    let last = info.fate.ended_by().unwrap_or(since);
    let until = info.fate.ended_by().unwrap_or(now);
    let ran = millis(since, until);
    let poll = Duration::from_millis(ran / 10).clamp(MIN_POLL_INTERVAL, MAX_POLL_INTERVAL);
    let ttl = ran.saturating_add(u64::try_from(keep_for.as_millis()).unwrap_or(u64::MAX));
    let status = if info.fate.ended_by().is_some() { TaskStatus::Completed } else { TaskStatus::Working };
    Task::new(info.session_id.to_string(), status, since.to_string(), last.to_string())
        .with_status_message(message(info))
        .with_ttl_ms(ttl)
        .with_poll_interval_ms(u64::try_from(poll.as_millis()).unwrap_or(u64::MAX))
}

fn message(info: &ProcessInfo) -> String {
    let command = &info.command;
    match (&info.fate.signal, info.fate.exit_code.flatten()) {
        (Some(signal), _) => format!("{command}: ended by {signal}"),
        (None, Some(code)) => format!("{command}: exited with code {code}"),
        (None, None) if info.fate.ended_by().is_some() => match &info.fate.start_error {
            Some(why) => format!("{command}: failed to start: {why}"),
            None => format!("{command}: ended; its exit status is unknown"),
        },
        (None, None) => format!("{command}: running"),
    }
}

fn millis(from: Time, to: Time) -> u64 {
    u64::try_from(to.micros().saturating_sub(from.micros()) / 1_000).unwrap_or(0)
}

/// The error for a task that does not exist or belongs to another session. Both look the same, so that a client learns nothing about other
/// sessions.
pub(crate) fn error(task: &str, e: &ClientError) -> ErrorData {
    match e.code() {
        code::NOT_FOUND | code::BAD_ID | code::AMBIGUOUS_ID => {
            ErrorData::invalid_params(format!("there is no task {task:?}: the id is wrong, or its time to live is over"), None)
        }
        _ => ErrorData::internal_error(e.to_string(), Some(json!({"code": e.code(), "hint": e.hint()}))),
    }
}
