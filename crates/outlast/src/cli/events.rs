//! `outlast events`

mod give;
mod read;
mod sentence;

pub(super) use give::{Batch, write};
pub(super) use sentence::{sentence, took};

use super::owner::Whose;
use super::route::RouteArgs;
use super::{Context, Failure, input, named, seconds, some_seconds, times};
use clap::{Args, Subcommand};
use jiff::tz::TimeZone;
use outlast_client::{Client, Judged, JudgedOne, Replay, Verdict};
use outlast_sinks::{SinkConfig, Way};
use serde_json::{Map, Value, json};
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

/// The sink; if it is a hook, OUTLAST_TEXT is the line that `events` prints.
pub(crate) fn with_lines_for_people(sink: &SinkConfig, zone: TimeZone) -> SinkConfig {
    let mut sink = sink.clone();
    if let Way::Hook(hook) = &mut sink.way {
        hook.one_line = Some(Arc::new(move |notice| sentence(notice, times::now(), &zone).0));
    }
    sink
}

/// How many names one request may settle.
const AT_ONCE: usize = 1_000;

/// Read, take and acknowledge notices
///
/// A notice reports the end of a process started with --notify, or a line that matched --watch. One taker at a time holds a notice for the time of its lease
/// (`next`, `drain`, `follow --ack`). Once it is acknowledged, it is never delivered again. Without a session these verbs take the notices of processes
/// that have no session.
///
/// `follow`, `history` and `dead` only read. Without a session they show the notices of all sessions.
///
/// Without a subcommand it prints all pending notices and acknowledges them, as `drain` does. People get one line per notice. Agents, which run it
/// in a session (OUTLAST_SESSION), and callers with --json get the full text.
#[derive(Debug, Args)]
pub(crate) struct Events {
    #[command(flatten)]
    whose: Whose,
    #[command(subcommand)]
    command: Option<EventsCommand>,
}

#[derive(Debug, Subcommand)]
enum EventsCommand {
    /// Take notices, and settle each with `ack`, `release` or `drop` before its lease ends
    Next(give::EventsNextArgs),
    /// Acknowledge notices: they were delivered
    Ack(Settle),
    /// Release notices: they were not delivered, and the next taker gets them
    Release(Settle),
    /// Drop notices: they will not be delivered
    Drop {
        #[command(flatten)]
        which: Settle,
        /// Why, for the history
        #[arg(long, value_name = "TEXT", default_value = "dropped by hand")]
        reason: String,
    },
    /// Print all pending notices, and acknowledge them once they are written
    ///
    /// If the session has polled a process after its end, the notice of that end is left out and stays for `next`.
    /// If the output cannot be written, all notices are released and the exit code is not 0.
    Drain(give::EventsDrainArgs),
    /// Show new notices as they come
    Follow(give::EventsFollowArgs),
    /// Post a notice to a session
    Post(Post),
    /// List notices, delivered and dropped ones too
    History(read::EventsHistoryArgs),
    /// List the notices that hooks and webhooks gave up on
    Dead(read::EventsDeadArgs),
    /// Deliver notices again: those from a number on, or those that hooks and webhooks gave up on
    Replay(ReplayArgs),
    /// Report whether the session of a process has seen its end; if it has, no notice is delivered
    Consumed {
        /// The process: its name, its id, or at least four digits of its id
        id: String,
        /// Mark it as seen
        #[arg(long)]
        mark: bool,
    },
}

/// Which notices.
#[derive(Debug, Args)]
struct Settle {
    /// Their ids, or their numbers in `history`
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// The lease token: if another taker holds them, nothing is changed. Notices that are released without it are delivered again as possible repeats
    #[arg(long, value_name = "TOKEN")]
    lease: Option<String>,
}

#[derive(Debug, Args)]
struct Post {
    /// A name of your own: a post with the same name is the same notice
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    #[command(flatten)]
    route: RouteArgs,
    /// The event: a JSON object with a `type`, or `-` to read it from standard input. Secrets of known forms in it are masked, as in output
    #[arg(value_name = "JSON")]
    event: OsString,
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("what").required(true)))]
struct ReplayArgs {
    /// Delivered notices from this number on, to their sessions
    #[arg(long, value_name = "SEQ", group = "what")]
    from: Option<u64>,
    /// Notices that hooks and webhooks gave up on
    #[arg(long, group = "what")]
    dead: bool,
    /// Only this notice
    #[arg(long, value_name = "ID", conflicts_with = "from")]
    id: Option<String>,
    /// Only those of this hook or webhook
    #[arg(long, value_name = "NAME", conflicts_with = "from")]
    sink: Option<String>,
}

/// How notices are taken.
#[derive(Debug, Args)]
struct Taking {
    /// The lease, such as 30s or 5m; no other taker gets the notices before it ends
    #[arg(long, value_name = "DURATION", value_parser = some_seconds, default_value = "60s", allow_negative_numbers = true)]
    lease: Duration,
    /// Wait for a notice at most this long, such as 30s or 5m; without a value, without a limit; without the flag, not at all
    #[arg(long, value_name = "DURATION", value_parser = seconds, allow_negative_numbers = true)]
    wait: Option<Option<Duration>>,
}

impl Taking {
    /// How long to wait; nothing means for as long as it takes.
    fn wait(&self) -> Option<Duration> {
        self.wait.unwrap_or(Some(Duration::ZERO))
    }
}

impl Events {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let owner = self.whose.or(ctx.owner());
        let client = ctx.client().await?.with_owner(owner);
        match self.command.unwrap_or_else(|| EventsCommand::Drain(give::EventsDrainArgs::all())) {
            EventsCommand::Next(next) => next.perform(ctx, &client).await,
            EventsCommand::Ack(which) => settle(ctx, &client, which, Verdict::Delivered).await,
            EventsCommand::Release(which) => settle(ctx, &client, which, Verdict::Released).await,
            EventsCommand::Drop { which, reason } => settle(ctx, &client, which, Verdict::Dropped { reason }).await,
            EventsCommand::Drain(drain) => drain.perform(ctx, &client).await,
            EventsCommand::Follow(follow) => follow.perform(ctx, &client).await,
            EventsCommand::Post(post) => post.perform(ctx, &client).await,
            EventsCommand::History(history) => history.perform(ctx, &client).await,
            EventsCommand::Dead(dead) => dead.perform(ctx, &client).await,
            EventsCommand::Replay(again) => again.perform(ctx, &client).await,
            EventsCommand::Consumed { id, mark } => {
                let id = named::find_or_id(ctx, &client, id).await?;
                consumed(ctx, &client, &id, mark).await
            }
        }
    }
}

async fn settle(ctx: &Context, client: &Client, which: Settle, verdict: Verdict) -> Result<i32, Failure> {
    let mut ids = Vec::new();
    for name in which.ids {
        ids.push(read::id_of(client, name).await?);
    }
    let mut judged = Judged::new(Vec::new());
    for some in ids.chunks(AT_ONCE) {
        let names: Vec<&str> = some.iter().map(String::as_str).collect();
        judged.notices.extend(client.settle(&names, which.lease.as_deref(), verdict.clone()).await?.notices);
    }
    let done = |one: &JudgedOne| matches!(one.status.as_str(), "ok" | "already");
    let code = i32::from(!judged.notices.iter().all(done));
    if ctx.out.json {
        ctx.out.object(&judged)?;
        return Ok(code);
    }
    for one in &judged.notices {
        let how = match one.status.as_str() {
            "ok" => "done",
            "already" => "was settled before",
            "lost" => "another taker holds it",
            _ => "there is no such notice",
        };
        ctx.out.line(&format!("{}  {how}", one.event_id))?;
    }
    Ok(code)
}

impl Post {
    async fn perform(self, ctx: &Context, client: &Client) -> Result<i32, Failure> {
        let event = object(&input::text(self.event)?)?;
        let posted = client.post(self.id.as_deref(), event, self.route.into()).await?;
        if ctx.out.json {
            ctx.out.object(&posted)?;
        } else {
            ctx.out.line(&posted.told.event.event_id)?;
            ctx.out.tip(if posted.existed { "it was posted before" } else { "posted" });
        }
        Ok(0)
    }
}

fn object(text: &[u8]) -> Result<Map<String, Value>, Failure> {
    let hint = "give an object such as {\"type\": \"deploy\", \"message\": \"done\"}";
    match serde_json::from_slice(text) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(Failure::refused("the event is no JSON object", hint)),
        // Only the position is shown: the text may hold a secret.
        Err(e) => Err(Failure::refused(format!("the event is no JSON: line {}, column {}", e.line(), e.column()), hint)),
    }
}

impl ReplayArgs {
    async fn perform(self, ctx: &Context, client: &Client) -> Result<i32, Failure> {
        let what = match self.from {
            Some(seq) => Replay::From { seq },
            None => Replay::Dead {
                notice: match self.id {
                    Some(name) => Some(read::id_of(client, name).await?),
                    None => None,
                },
                sink: self.sink,
            },
        };
        let count = client.replay(what).await?;
        if ctx.out.json {
            ctx.out.object(&json!({"status": "ok", "count": count}))?;
        } else {
            ctx.out.line(&format!("{count} offered again"))?;
        }
        Ok(0)
    }
}

async fn consumed(ctx: &Context, client: &Client, id: &str, mark: bool) -> Result<i32, Failure> {
    let consumed = if mark {
        client.mark_completion_consumed(id).await?;
        true
    } else {
        client.is_completion_consumed(id).await?
    };
    if ctx.out.json {
        ctx.out.object(&json!({"consumed": consumed}))?;
    } else {
        ctx.out.line(if consumed { "consumed: its owner has seen its end" } else { "not consumed" })?;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_an_object() {
        assert_eq!(object(br#"{"type": "x", "n": 1}"#).unwrap().len(), 2);
        for bad in [&b"[]"[..], b"7", b"\"x\"", b"", b"{", b"{} {}", b"\xff"] {
            let refused = object(bad).unwrap_err();
            assert!(refused.error().starts_with("the event is no JSON"), "{refused:?}");
        }
    }
}
