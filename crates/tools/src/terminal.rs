//! `terminal`: runs a command.

use crate::start::{Started, start, starting_beside, warn};
use crate::this_call::{CallWait, ThisCall};
use crate::{Answer, Host, Mode, Plan, answer, foreground};
use outlast_client::Client;
use serde_json::{Value, json};

/// Answers a call.
pub(crate) async fn answer_to(client: &Client, host: &Host, call: &ThisCall, arguments: &Value) -> Answer {
    match Plan::of(arguments, host) {
        Err(refusal) => refusal,
        Ok(plan) => match plan.mode {
            Mode::Background => background(client, host, call, plan).await,
            Mode::Foreground { limit, at_limit } => foreground::run(client, host, call, plan, limit, at_limit).await,
        },
    }
}

async fn background(client: &Client, host: &Host, call: &ThisCall, plan: Plan) -> Answer {
    let said = start(client, host, call, &plan.spec, CallWait::NONE).await;
    let info = match said {
        Ok(Started::Running(info)) => info,
        Ok(Started::UnderWay(id)) => return starting_beside(id, plan),
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
