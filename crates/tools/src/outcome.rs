//! How a process that was started by a call is, for those who come back to it by its name.

use crate::yielding::{Wanted, wait};
use crate::{Answer, Host, Profile, answer, codex, native};
use outlast_client::{Client, ClientError, ProcessInfo, Status};
use serde_json::json;
use std::time::Duration;

/// How a process is.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Outcome {
    /// What is known of it.
    pub info: Box<ProcessInfo>,
    /// What a call that had waited for its end would have answered; nothing while it goes on.
    pub answer: Option<Answer>,
}

pub(crate) async fn of(client: &Client, host: &Host, process: &str) -> Result<Outcome, ClientError> {
    let info = client.poll(process).await?;
    if info.status != Status::Exited {
        return Ok(Outcome { info: Box::new(info), answer: None });
    }
    let tokens = if host.profile == Profile::Codex { codex::TOKENS } else { native::TOKENS };
    let done = wait(client, host, &info.session_id.to_string(), Duration::from_millis(1), Wanted { from: Some(0), tokens }).await?;
    let named = if host.profile == Profile::Native { "process" } else { "session_id" };
    let mut all = answer([(named, json!(info.session_id)), ("status", "exited".into()), ("output", done.output.text.into())]);
    if let Some(waited) = &done.ended {
        all.extend(native::how(&waited.fate));
    }
    all.entry("exit_code").or_insert(serde_json::Value::Null);
    if done.output.cut {
        all.insert("output_cut".into(), true.into());
    }
    Ok(Outcome { info: Box::new(info), answer: Some(all) })
}
