//! Calls a sink once without an engine, so that a user can test it.

use crate::call_result::CallResult;
use crate::request::Reading;
use crate::{SinkConfig, Way, hook, reason, webhook};
use outlast_client::Delivery;
use std::os::unix::process::ExitStatusExt as _;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::watch;

/// The result of a test call.
#[derive(Debug, Clone, Default)]
pub struct Trial {
    /// Why the notice counts as not delivered; nothing if it was delivered.
    pub failure: Option<String>,
    /// The exit code of a hook that exited.
    pub exit_code: Option<i32>,
    /// The signal that ended a hook.
    pub signal: Option<i32>,
    /// The status that a receiver answered with.
    pub http_status: Option<u16>,
    /// The end of the hook's output, or the beginning of the receiver's answer. Secrets are masked.
    pub output: String,
    /// The variables about the notice that a hook was given.
    pub variables: Vec<(&'static str, String)>,
    /// How long the call took.
    pub took: Duration,
}

/// Calls a sink once with a notice, as an engine does. Nothing is recorded, and a failed call is not repeated.
pub async fn try_sink(sink: &SinkConfig, delivery: &Delivery) -> Trial {
    let began = Instant::now();
    let trial = match &sink.way {
        Way::Hook(hook) => {
            // No engine can stop meanwhile. The sender is held until the call has ended.
            let (_running, stop) = watch::channel(false);
            let called = hook::call(hook, std::slice::from_ref(delivery), stop).await;
            Trial {
                exit_code: called.status.and_then(|status| status.code()),
                signal: called.status.and_then(|status| status.signal()),
                output: reason::lines(&called.output),
                failure: called.failure,
                variables: called.variables,
                ..Trial::default()
            }
        }
        Way::Webhook(webhook) => match webhook::call(webhook, delivery, Reading { always: true, ..webhook::READ_ON_FAILURE }).await {
            Ok(mut answer) => {
                let output = reason::lines(&std::mem::take(&mut answer.said));
                let failure = match webhook::judge(&answer, SystemTime::now()) {
                    CallResult::Done => None,
                    CallResult::Failed { reason, .. } | CallResult::Gone { reason } => Some(reason),
                };
                Trial { failure, http_status: Some(answer.status.as_u16()), output, ..Trial::default() }
            }
            Err(why) => Trial { failure: Some(why), ..Trial::default() },
        },
    };
    Trial { took: began.elapsed(), ..trial }
}
