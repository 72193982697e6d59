//! Starts the command of a call.

use crate::plan::{Plan, refused};
use crate::start_table::StartSeen;
use crate::this_call::{CallWait, ThisCall};
use crate::{Answer, Host, answer, cap};
use outlast_client::{Client, ClientError, ProcessId, ProcessInfo, Reason, Run, Spec, Tell, code};
use serde_json::{Value, json};
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

/// What a start has led to.
pub(crate) enum Started {
    /// The process runs.
    Running(Box<ProcessInfo>),
    /// It takes longer than its call may take.
    UnderWay(ProcessId),
}

/// Starts a command for a call that waits this long. If the start takes longer than the call may, it continues.
pub(crate) async fn start(client: &Client, host: &Host, call: &ThisCall, spec: &Spec, wait: CallWait) -> Result<Started, Failure> {
    let id = Run::draw_id().map_err(Failure::Asking)?;
    let run = Run::new(spec.clone(), host.caller.clone()).with_id(id);
    call.about.set(id);
    let info = match call.starts.run(client, &call.conversation, run, id, call.start_by(wait)).await {
        StartSeen::UnderWay => return Ok(Started::UnderWay(id)),
        StartSeen::Over(started) => (*started).map_err(Failure::Asking)?,
    };
    match info.fate.completion_reason {
        Some(Reason::FailedStart) => Err(Failure::Starting(Box::new(info))),
        _ => Ok(Started::Running(Box::new(info))),
    }
}

/// The status of a process whose start is under way.
pub(crate) const STARTING: &str = "starting";

/// The answer to a call that starts a process and may not wait for the end of the start.
pub(crate) fn starting_to_tell(id: ProcessId, tell: &Tell) -> Answer {
    let mut all = starting(id);
    all.insert("notify".into(), tell.completion.into());
    if tell.completion {
        cap::add_note(&mut all, "its end will be told");
    }
    all
}

/// The answer about a process whose start takes longer than the call may.
pub(crate) fn starting(id: ProcessId) -> Answer {
    let note = "Its start takes long and continues in the background: do not run it again. If it cannot be started, that will be told";
    answer([("session_id", json!(id)), ("status", STARTING.into()), ("note", note.into())])
}

/// The answer for a process that was not started after all, which its call was not told.
pub(crate) fn not_started(why: &str) -> Answer {
    answer([("status", "error".into()), ("error", format!("it could not be started: {why}").into()), ("exit_code", Value::Null)])
}

/// Adds the engine's warnings about a started process to an answer.
pub(crate) fn warn(all: &mut Answer, info: &ProcessInfo) {
    if !info.warnings.is_empty() {
        all.insert("warnings".into(), json!(info.warnings));
    }
}

/// The same in the form of the tool `terminal`.
pub(crate) fn starting_beside(id: ProcessId, plan: Plan) -> Answer {
    let mut all = answer([("output", "".into()), ("exit_code", Value::Null), ("error", Value::Null)]);
    all.extend(starting_to_tell(id, &plan.spec.tell));
    all.extend(plan.notes);
    all
}
