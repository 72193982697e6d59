//! `outlast gateway stop`

use super::super::progress::{self, About};
use super::super::seconds;
use super::{Context, Failure, none, running};
use clap::Args;
use outlast_client::{Chat, ClientError, Done, code};
use outlast_gateway::{StopOfRestarts, stop_restarts};
use serde_json::json;
use std::time::{Duration, Instant};

/// How long a gateway that starts or exits may hold its lock.
const LOCK_HELD_LIMIT: Duration = Duration::from_secs(90);
/// The interval of the checks of the lock.
const LOCK_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Stop the gateway once the running turns have finished
///
/// Turns that take longer than --timeout are interrupted. The next gateway resumes them. It stays stopped, also if none ran, until `outlast chat
/// NAME`, `outlast chat send` or `outlast gateway run` starts it. Processes keep running. From within a conversation the answer comes at
/// once, and the end follows.
#[derive(Debug, Args)]
pub(crate) struct GatewayStopArgs {
    /// How long turns may take to finish, such as 30s or 5m [default: as configured, 60s]
    #[arg(long, value_name = "DURATION", value_parser = seconds, allow_negative_numbers = true)]
    timeout: Option<Duration>,
}

impl GatewayStopArgs {
    pub(super) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let mut ended = None;
        loop {
            let Some(chat) = found(ctx, ended).await? else { return Ok(0) };
            if let Some(code) = self.stop(ctx, &chat, &mut ended).await? {
                return Ok(code);
            }
        }
    }

    /// Stops this gateway. None if it exited before it got the request; then the engine may start the next one.
    async fn stop(&self, ctx: &Context, chat: &Chat, ended: &mut Option<u32>) -> Result<Option<i32>, Failure> {
        let pid = match chat.status().await {
            Err(e) if is_gone(&e) => return Ok(None),
            status => status?.pid,
        };
        if let Some(from) = super::asking_conversation(ctx) {
            let done = chat.begin_shutdown(self.timeout, Some(&from)).await?;
            if done.status == "stopped" {
                let tip = "the gateway was stopped for this turn already, and started again by a person";
                return tell(ctx, "stopped", pid, None, tip).map(Some);
            }
            if !ctx.out.json {
                // For the agent, which would wait for the end otherwise.
                ctx.out.line("the gateway ends when your turn has ended; finish it, and do not wait for it")?;
                note(&done).into_iter().for_each(|note| ctx.out.tip(note));
                return Ok(Some(0));
            }
            return tell(ctx, "stopping", pid, note(&done), "").map(Some);
        }
        let about = About::Words("the gateway waits for the turns that run");
        let limit = self.timeout.unwrap_or(ctx.settings.gateway.drain_timeout);
        let done = match progress::during(ctx, about, "the gateway is still ending", chat.shutdown(Some(limit))).await? {
            Err(e) if is_gone(&e) => return Ok(None),
            done => done?,
        };
        *ended = Some(pid);
        if done.status == "gone" {
            return Ok(None);
        }
        tell(ctx, "stopped", pid, note(&done), &has_ended(pid)).map(Some)
    }
}

/// Whether a gateway exited between two requests, as it does when it is idle or restarts.
fn is_gone(error: &ClientError) -> bool {
    error.is_not_running() || error.code() == code::STOPPING
}

fn has_ended(pid: u32) -> String {
    format!("the gateway (pid {pid}) has ended")
}

/// The running gateway. If there is none, keeps the engine from replacing one that has just died, and reports that. `ended`: the pid of the
/// gateway that was stopped already.
async fn found(ctx: &Context, ended: Option<u32>) -> Result<Option<Chat>, Failure> {
    let began = Instant::now();
    loop {
        if let Some(chat) = running(ctx).await? {
            return Ok(Some(chat));
        }
        let home = &ctx.settings.home;
        let stopped = stop_restarts(home).map_err(|e| {
            let what = format!("cannot keep the engine from starting a gateway: {}: {e}", home.join("gateway.lock").display());
            Failure::fault(what, "`outlast doctor` looks at the home")
        })?;
        if let (Some(pid), StopOfRestarts::NotDue | StopOfRestarts::Idle | StopOfRestarts::Stopped) = (ended, stopped) {
            return tell(ctx, "stopped", pid, None, &has_ended(pid)).map(|_| None);
        }
        match stopped {
            StopOfRestarts::NotDue => return none(ctx).map(|_| None),
            StopOfRestarts::Idle => return tell_idle(ctx).map(|_| None),
            StopOfRestarts::Stopped => return tell_died(ctx).map(|_| None),
            // No descriptor says when it listens or releases its lock.
            StopOfRestarts::Held if began.elapsed() < LOCK_HELD_LIMIT => tokio::time::sleep(LOCK_CHECK_INTERVAL).await,
            StopOfRestarts::Held => {
                let what = format!("a gateway holds its lock and has not answered within {} s", LOCK_HELD_LIMIT.as_secs());
                return Err(Failure::new(code::GATEWAY_CANNOT_CONNECT, what, "`kill -9` of it loses no message; then stop it again"));
            }
        }
    }
}

/// Reports that none ran, and that none is started for a notice.
fn tell_idle(ctx: &Context) -> Result<i32, Failure> {
    if ctx.out.json || !ctx.settings.gateway.faults.is_empty() {
        return none(ctx);
    }
    ctx.out.line("no gateway runs, and none is started until `outlast chat NAME`, `chat send` or `gateway run` does")?;
    Ok(0)
}

/// Reports that a gateway had died and is not replaced.
fn tell_died(ctx: &Context) -> Result<i32, Failure> {
    if ctx.out.json {
        ctx.out.object(&json!({"status": "stopped", "pid": null}))?;
    } else {
        ctx.out.tip("the gateway had died, and the engine does not start it again; `outlast chat NAME` does");
    }
    Ok(0)
}

/// A note for the user if the gateway could not write its database at its end.
fn note(done: &Done) -> Option<&'static str> {
    (done.status == "unmarked")
        .then_some("its database could not be written; turns that did not finish are found as interrupted when a gateway starts")
}

fn tell(ctx: &Context, status: &str, pid: u32, note: Option<&str>, tip: &str) -> Result<i32, Failure> {
    if ctx.out.json {
        let mut answer = json!({"status": status, "pid": pid});
        if let Some(note) = note {
            answer["note"] = note.into();
        }
        ctx.out.object(&answer)?;
    } else {
        ctx.out.tip(tip);
        note.into_iter().for_each(|note| ctx.out.tip(note));
    }
    Ok(0)
}
