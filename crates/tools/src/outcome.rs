//! The outcome of a process that a call started, for callers that ask for it later.

use crate::timed_wait::{WantedOutput, wait};
use crate::{Answer, Host, Profile, answer, codex, native};
use outlast_client::{Client, ClientError, ProcessInfo, Status};
use serde_json::json;
use std::time::Duration;

/// The outcome of a process.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CallResult {
    /// The state of the process.
    pub info: Box<ProcessInfo>,
    /// The answer of a call that waited for its end; `None` while it runs.
    pub answer: Option<Answer>,
}

pub(crate) async fn of(client: &Client, host: &Host, process: &str) -> Result<CallResult, ClientError> {
    let info = client.poll(process).await?;
    if info.status != Status::Exited {
        return Ok(CallResult { info: Box::new(info), answer: None });
    }
    let tokens = if host.profile == Profile::Codex { codex::DEFAULT_TOKENS } else { native::DEFAULT_TOKENS };
    let done = wait(client, host, &info.session_id.to_string(), Duration::from_millis(1), WantedOutput { from: Some(0), tokens }).await?;
    let named = if host.profile == Profile::Native { "process" } else { "session_id" };
    let mut all = answer([(named, json!(info.session_id)), ("status", "exited".into()), ("output", done.output.text.into())]);
    if let Some(waited) = &done.ended {
        all.extend(native::how(&waited.fate));
    }
    all.entry("exit_code").or_insert(serde_json::Value::Null);
    if done.output.cut {
        all.insert("output_cut".into(), true.into());
    }
    Ok(CallResult { info: Box::new(info), answer: Some(all) })
}
