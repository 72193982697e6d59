//! A command in the foreground: the call waits for the end of its process.
//!
//! Decision 57: docs/decisions/tools-mcp.md.

use crate::exit_codes::meaning;
use crate::output::Output;
use crate::plan::UNSUPPORTED;
use crate::start::{Started, start, starting_beside, warn};
use crate::this_call::{CallWait, SHORTEST_WAIT, ThisCall};
use crate::timed_wait::Left;
use crate::{Answer, AtLimit, Host, Plan, answer};
use outlast_client::{Client, ClientError, Kill, LeftProcess, ProcessInfo, Reason, Waited, code};
use outlast_core::Command;
use serde_json::{Value, json};
use std::time::Duration;

/// The exit code of a command that timed out, as `timeout` has it.
const TIMED_OUT_CODE: i32 = 124;
/// The exit code of a command that was interrupted, as a shell has it.
const INTERRUPTED_CODE: i32 = 130;

/// Runs a command, and waits until it ends, times out, or the session is interrupted.
pub(crate) async fn run(client: &Client, host: &Host, call: &ThisCall, plan: Plan, limit: Duration, at_limit: AtLimit) -> Answer {
    let asked = CallWait { most: limit, is_named: plan.names_wait };
    let info = match start(client, host, call, &plan.spec, asked).await {
        Ok(Started::Running(info)) => *info,
        Ok(Started::UnderWay(id)) => return starting_beside(id, plan),
        Err(failure) => {
            failure.seen(client).await;
            return failure.told("Failed to start the command");
        }
    };
    let id = info.session_id.to_string();
    let limit = match at_limit {
        AtLimit::HandOver => call.left_of(asked),
        AtLimit::Kill => limit,
    };
    let call = ForegroundCall { client, host, plan, info, id, limit };
    let wait = match at_limit {
        AtLimit::HandOver => Some(limit.max(SHORTEST_WAIT)),
        // Its keeper stops it at the limit, so the wait needs none.
        AtLimit::Kill => None,
    };
    match client.wait(&call.id, wait).await {
        Ok(waited) => match waited.status.as_str() {
            "exited" => call.ended(waited).await,
            "interrupted" => call.interrupted().await,
            _ => call.handed_over().await,
        },
        Err(e) => call.unheard(&e),
    }
}

struct ForegroundCall<'a> {
    client: &'a Client,
    host: &'a Host,
    plan: Plan,
    info: ProcessInfo,
    id: String,
    limit: Duration,
}

impl ForegroundCall<'_> {
    async fn ended(self, waited: Waited) -> Answer {
        let fate = &waited.fate;
        let code = fate.exit_code.flatten();
        let timed_out = fate.termination_source.as_deref() == Some("timeout");
        let output = self.output(&waited.output).await;
        if timed_out {
            let after = format!("[Command timed out after {}s]", self.limit.as_secs_f64());
            return self.stopped(output, TIMED_OUT_CODE, &after, &waited.left).await;
        }
        let mut all = self.answer(&output, json!(code));
        if let Some(meaning) = code.and_then(|code| meaning(&self.line(), code)) {
            all.insert("exit_code_meaning".into(), meaning.into());
        }
        if let Some(signal) = &fate.signal {
            all.insert("signal".into(), signal.as_str().into());
        }
        if let Some(reason @ (Reason::Killed | Reason::Lost)) = fate.completion_reason {
            all.insert("completion_reason".into(), json!(reason));
            all.insert("termination_source".into(), json!(fate.termination_source));
        }
        if fate.completion_reason == Some(Reason::Lost) {
            all.insert("error".into(), "the command ended and its exit status is unknown: its keepers were lost".into());
        }
        self.leave(&mut all, &waited.left, output.cut).await;
        all
    }

    /// Stops the command because the session was interrupted. If the command had ended before, that end counts.
    async fn interrupted(self) -> Answer {
        let killed = self.client.kill(&self.id, Kill::default()).await;
        if killed.as_ref().is_err_and(|e| e.code() == code::ALREADY_EXITED) {
            return self.over().await;
        }
        let output = self.output("").await;
        let Err(error) = killed else { return self.stopped(output, INTERRUPTED_CODE, "[Command interrupted]", &[]).await };
        let mut all = self.answer(&output, INTERRUPTED_CODE.into());
        append(&mut all, "[Command interrupted]");
        all.insert("error".into(), error.to_string().into());
        all.insert("session_id".into(), self.id.into());
        all
    }

    /// Answers with an end that is recorded already.
    async fn over(self) -> Answer {
        match self.client.wait(&self.id, None).await {
            Ok(waited) => self.ended(waited).await,
            Err(e) => self.unheard(&e),
        }
    }

    async fn stopped(&self, output: Output, code: i32, note: &str, left: &[LeftProcess]) -> Answer {
        let mut all = self.answer(&output, code.into());
        append(&mut all, note);
        self.leave(&mut all, left, output.cut).await;
        all
    }

    /// The answer if the wait failed, so that the state of the command is unknown.
    fn unheard(&self, why: &ClientError) -> Answer {
        let mut all = self.running("It was started, and then its end could not be waited for");
        all.insert("error".into(), format!("{why}; it may still run: ask with process(action=\"poll\")").into());
        all.insert("status".into(), "error".into());
        all
    }

    /// The answer if the command keeps running in the background.
    async fn handed_over(self) -> Answer {
        let output = self.output("").await;
        if output.over {
            // It ended while its output was read, and that read consumed the notice of its end.
            return self.over().await;
        }
        let seconds = (self.limit.as_secs_f64() * 10.0).round() / 10.0;
        let told = self.plan.spec.tell.completion;
        let next = match told {
            true => "You will be told when it ends.".to_owned(),
            false => format!("This host cannot tell you when it ends: ask with process(action=\"poll\", session_id=\"{}\").", self.id),
        };
        let mut all = self.running(&format!(
            "Still running after {seconds}s, so it goes on in the background as {}; nothing was stopped. {next} process(action=\"kill\") stops it.",
            self.id
        ));
        all.insert("output".into(), output.text.into());
        if let Some(tokens) = output.tokens {
            all.insert("output_tokens".into(), tokens.into());
        }
        if told {
            all.insert("notify_on_complete".into(), true.into());
        } else {
            all.insert("notify_unsupported".into(), UNSUPPORTED.into());
        }
        if self.plan.spec.pty {
            all.insert("takes_input".into(), true.into());
        }
        all
    }

    fn running(&self, note: &str) -> Answer {
        let mut all = answer([
            ("output", "".into()),
            ("exit_code", Value::Null),
            ("error", Value::Null),
            ("status", "running".into()),
            ("session_id", json!(self.info.session_id)),
            ("pid", json!(self.info.pid)),
            ("note", note.into()),
        ]);
        warn(&mut all, &self.info);
        all.extend(self.plan.notes.clone());
        all
    }

    fn answer(&self, output: &Output, code: Value) -> Answer {
        let mut all = answer([("output", output.text.as_str().into()), ("exit_code", code), ("error", Value::Null)]);
        if !output.gaps.is_empty() {
            all.insert("gaps".into(), json!(output.gaps));
        }
        if let Some(tokens) = output.tokens {
            all.insert("output_tokens".into(), tokens.into());
        }
        // Only a missing terminal changes what the output means, so other warnings are left out.
        if self.plan.spec.pty != self.info.pty {
            warn(&mut all, &self.info);
        }
        all.extend(self.plan.notes.clone());
        all
    }

    /// Its output; `known` if the log cannot be read.
    async fn output(&self, known: &str) -> Output {
        Output::read(self.client, self.host, &self.id, self.plan.tokens).await.unwrap_or_else(|_| Output::of(known, self.host))
    }

    async fn leave(&self, all: &mut Answer, left: &[LeftProcess], more: bool) {
        if Left::of(self.client, self.host, &self.id, left, more).await.told(self.host.profile, &self.id, all) {
            all.insert("session_id".into(), self.id.as_str().into());
        }
    }

    fn line(&self) -> String {
        match &self.plan.spec.command {
            Command::Shell(line) => line.to_lossy().into_owned(),
            argv @ Command::Argv(_) => argv.shown(),
        }
    }
}

fn append(all: &mut Answer, note: &str) {
    if let Some(Value::String(output)) = all.get_mut("output") {
        let gap = if output.is_empty() { "" } else { "\n" };
        output.push_str(&format!("{gap}{note}"));
    }
}
