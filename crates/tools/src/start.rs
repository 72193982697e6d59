//! Starts the command of a call.

use crate::plan::refused;
use crate::{AboutProcess, Answer, Host};
use outlast_client::{Client, ClientError, ProcessInfo, Reason, Run, Spec, code};
use serde_json::json;
use std::time::Duration;

/// Why a command was not started.
pub(crate) enum Failure {
    /// No engine could be reached, or it refused the request.
    Asking(ClientError),
    /// The engine accepted the request, and the start failed.
    Starting(Box<ProcessInfo>),
}

impl Failure {
    /// Marks the failed start as seen, for a caller that waits for the answer. A failed start is the end of a process: a wait for it
    /// returns at once, and if the answer is forwarded, the end counts as seen once the answer has arrived.
    pub(crate) async fn seen(&self, client: &Client) {
        if let Self::Starting(info) = self {
            // If this fails, the end is delivered once more as a notice.
            let _told = client.wait(&info.session_id.to_string(), Some(Duration::from_millis(1))).await;
        }
    }

    /// The answer to the call.
    pub(crate) fn told(&self, doing: &str) -> Answer {
        match self {
            Self::Asking(e) => {
                let mut all = refused(&format!("{doing}: {e}"));
                all.insert("code".into(), e.code().into());
                // Other hints name verbs of the command line, which the model does not have.
                if e.code() == code::BAD_SPEC {
                    all.insert("hint".into(), e.hint().into());
                }
                all
            }
            Self::Starting(info) => {
                let why = info.fate.start_error.as_deref().unwrap_or("the reason is unknown");
                let mut all = refused(&format!("{doing}: {why}"));
                all.insert("session_id".into(), json!(info.session_id));
                all
            }
        }
    }
}

/// Starts a command for a call.
pub(crate) async fn start(client: &Client, host: &Host, about: &AboutProcess, spec: &Spec) -> Result<ProcessInfo, Failure> {
    let info = client.run_info(Run::new(spec.clone(), host.caller.clone())).await.map_err(Failure::Asking)?;
    about.set(info.session_id);
    match info.fate.completion_reason {
        Some(Reason::FailedStart) => Err(Failure::Starting(Box::new(info))),
        _ => Ok(info),
    }
}

/// Adds the engine's warnings about a started process to an answer.
pub(crate) fn warn(all: &mut Answer, info: &ProcessInfo) {
    if !info.warnings.is_empty() {
        all.insert("warnings".into(), json!(info.warnings));
    }
}
