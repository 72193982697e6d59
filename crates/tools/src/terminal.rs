//! `terminal`: runs a command.

use crate::start::{start, warn};
use crate::{AboutProcess, Answer, Host, Mode, Plan, answer, foreground};
use outlast_client::Client;
use serde_json::{Value, json};

/// Answers a call.
pub(crate) async fn answer_to(client: &Client, host: &Host, about: &AboutProcess, arguments: &Value) -> Answer {
    match Plan::of(arguments, host) {
        Err(refusal) => refusal,
        Ok(plan) => match plan.mode {
            Mode::Background => background(client, host, about, plan).await,
            Mode::Foreground { limit, at_limit } => foreground::run(client, host, about, plan, limit, at_limit).await,
        },
    }
}

async fn background(client: &Client, host: &Host, about: &AboutProcess, plan: Plan) -> Answer {
    let said = start(client, host, about, &plan.spec).await;
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
