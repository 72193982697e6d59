//! `terminal`: run a command.

use crate::plan::refused;
use crate::{Answer, Host, Mode, Plan, answer, foreground};
use outlast_client::{Client, ClientError, ProcessInfo, Reason, Run, Spec, code};
use serde_json::{Value, json};
use std::time::Duration;

/// Answers a call.
pub(crate) async fn answer_to(client: &Client, host: &Host, arguments: &Value) -> Answer {
    match Plan::of(arguments, host) {
        Err(refusal) => refusal,
        Ok(plan) => match plan.mode {
            Mode::Background => background(client, host, plan).await,
            Mode::Foreground { limit, at_limit } => foreground::run(client, host, plan, limit, at_limit).await,
        },
    }
}

async fn background(client: &Client, host: &Host, plan: Plan) -> Answer {
    let said = start(client, host, &plan.spec).await;
    let info = match said {
        Ok(info) => info,
        Err(failure) => return failure.told("Failed to start background process"),
    };
    let mut all = answer([
        ("output", "Background process started".into()),
        ("session_id", json!(info.session_id)),
        ("pid", json!(info.pid)),
        ("exit_code", 0.into()),
        ("error", Value::Null),
    ]);
    warn(&mut all, &info);
    all.extend(plan.notes);
    all
}

/// Why nothing runs.
pub(crate) enum Failure {
    /// Nobody could be asked, or it was refused.
    Asking(ClientError),
    /// It was accepted, and could not be started.
    Starting(Box<ProcessInfo>),
}

impl Failure {
    /// Whoever waits sees it in the answer, and need not be told. It is the end of a process like any other: a wait for it is over at once, and where the answer is
    /// passed on it counts when it has arrived.
    pub(crate) async fn seen(&self, client: &Client) {
        if let Self::Starting(info) = self {
            // Should it not be answered, they are told once more.
            let _told = client.wait(&info.session_id.to_string(), Some(Duration::from_millis(1))).await;
        }
    }

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

/// Starts what was planned.
pub(crate) async fn start(client: &Client, host: &Host, spec: &Spec) -> Result<ProcessInfo, Failure> {
    let info = client.run_info(Run::new(spec.clone(), host.caller.clone())).await.map_err(Failure::Asking)?;
    match info.fate.completion_reason {
        Some(Reason::FailedStart) => Err(Failure::Starting(Box::new(info))),
        _ => Ok(info),
    }
}

/// What could not be had.
pub(crate) fn warn(all: &mut Answer, info: &ProcessInfo) {
    if !info.warnings.is_empty() {
        all.insert("warnings".into(), json!(info.warnings));
    }
}
