//! `outlast until`

use super::ending::TIMED_OUT;
use super::owner::Whose;
use super::progress::{self, About};
use super::times::GivenTime;
use super::{Context, Failure, named, seconds, some_seconds, times};
use clap::Args;
use outlast_client::{Barrier, Time, code};
use serde_json::json;
use std::time::Duration;

/// Wait for a process, a pid or a time; the wait survives crashes
///
/// Waits for something, and the wait survives this terminal. It is saved on disk as a barrier, which opens when the process or pid ends or the time comes. If
/// this call times out or is killed, the barrier stays, and you get a notice when it opens (`outlast events`). A session has one waiting barrier; a new one
/// takes its place. --list shows barriers that have opened for a while. Exits 0 once the barrier is open, 124 after --timeout.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("what").required(true)))]
pub(crate) struct Until {
    /// Wait for the end of this process: its name, its id, or at least four digits of its id. A full id that is not known, such as that of a removed process, counts as ended
    #[arg(group = "what")]
    id: Option<String>,
    /// Also stop waiting when it prints a line that `run --watch` looks for
    #[arg(long = "match", conflicts_with_all = ["pid", "at", "time", "list", "clear"])]
    or_match: bool,
    /// Wait for the exit of this operating-system process
    #[arg(long, value_name = "PID", group = "what")]
    pid: Option<u32>,
    /// Wait until this time: 14:30 (today or tomorrow), 2026-01-31 14:30, or 2026-01-31T14:30:00Z
    #[arg(long, value_name = "TIME", group = "what")]
    at: Option<GivenTime>,
    /// Wait for this long, such as 90s, 5m or 1h30m
    #[arg(long = "for", value_name = "DURATION", value_parser = seconds, group = "what")]
    time: Option<Duration>,
    /// Set the barrier and return; its session gets a notice when it opens
    #[arg(long, conflicts_with = "timeout")]
    no_wait: bool,
    /// Wait at most this long, such as 90s, 5m or 1h30m; the barrier stays
    #[arg(long, value_name = "DURATION", value_parser = some_seconds, allow_negative_numbers = true)]
    timeout: Option<Duration>,
    /// List the barriers of the session, also those that have opened
    #[arg(long, group = "what", conflicts_with_all = ["no_wait", "timeout"])]
    list: bool,
    /// Remove the barriers of the session that are not open; exits 1 if there is none
    #[arg(long, group = "what", conflicts_with_all = ["no_wait", "timeout"])]
    clear: bool,
    #[command(flatten)]
    whose: Whose,
}

impl Until {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let owner = self.whose.or(ctx.owner());
        let client = ctx.client().await?.with_owner(owner);
        if self.list || self.clear {
            let all = if self.clear { client.clear_barriers().await? } else { client.barriers().await? };
            if self.clear && !all.iter().any(|barrier| barrier.status == "cleared") {
                let hint = "`outlast until --list` shows the barriers of the session, also those that have opened";
                return Err(Failure::new(code::NOT_FOUND, "there is no barrier to remove", hint));
            }
            // Text output shows only what was removed.
            let shown =
                all.iter().filter(|barrier| !self.clear || ctx.out.json || barrier.status == "cleared").cloned().collect::<Vec<_>>();
            list(ctx, &shown, self.clear)?;
            return Ok(0);
        }
        let until = match (self.id, self.pid, self.at, self.time) {
            (Some(given), ..) => {
                let process = named::find_or_id(ctx, &client, given).await?;
                outlast_client::BarrierTarget::Process { process, or_match: self.or_match }
            }
            (_, Some(pid), ..) => outlast_client::BarrierTarget::Pid { pid },
            (.., Some(at), None) => outlast_client::BarrierTarget::Time { at: instant(ctx, at)? },
            (.., time) => outlast_client::BarrierTarget::Time { at: from_now(time.unwrap_or_default()) },
        };
        let about = match &until {
            outlast_client::BarrierTarget::Process { process, .. } => About::End { client: &client, id: process, at_most: self.timeout },
            outlast_client::BarrierTarget::Pid { .. } => About::Words("waiting for the end of the pid"),
            outlast_client::BarrierTarget::Time { at } => About::Until { at: *at },
            _ => About::Words("waiting"),
        };
        let left = "the barrier stays, and its session gets a notice when it opens; `outlast until --list` shows it";
        let barrier = match (self.no_wait, self.timeout) {
            (true, _) => client.set_until(until).await?,
            (false, None) => progress::during(ctx, about, left, client.until(until.clone())).await??,
            (false, Some(at_most)) => progress::during(ctx, about, left, client.until_within(until.clone(), at_most)).await??,
        };
        if ctx.out.json {
            ctx.out.object(&barrier)?;
        } else {
            ctx.out.line(&told(ctx, &barrier))?;
        }
        Ok(match barrier.status.as_str() {
            "open" => 0,
            "waiting" if self.no_wait => 0,
            "waiting" => TIMED_OUT,
            // Interrupted, or taken away meanwhile.
            _ => 1,
        })
    }
}

fn list(ctx: &Context, all: &[Barrier], is_clear: bool) -> Result<(), Failure> {
    if ctx.out.json {
        ctx.out.object(&json!({"barriers": all}))?;
        return Ok(());
    }
    if all.is_empty() && !is_clear {
        ctx.out.tip("no barriers");
    }
    all.iter().try_for_each(|barrier| ctx.out.line(&format!("{}  {}", barrier.barrier, told(ctx, barrier))))?;
    Ok(())
}

fn told(ctx: &Context, barrier: &Barrier) -> String {
    let message = times::with_clock_times(&barrier.message, times::now(), &ctx.world.zone());
    match barrier.status.as_str() {
        "open" | "waiting" => message,
        status => format!("{status}: {message}"),
    }
}

fn instant(ctx: &Context, at: GivenTime) -> Result<Time, Failure> {
    let out_of_calendar = || Failure::refused("the time is out of the calendar", "give one such as 14:30 or 2026-01-31T14:30:00Z");
    at.next(times::now(), &ctx.world.zone()).ok_or_else(out_of_calendar)
}

fn from_now(time: Duration) -> Time {
    let micros = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    Time::from_micros(times::now().micros().saturating_add(micros))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_time_is_no_overflow() {
        assert!(from_now(Duration::MAX).micros() > 0);
    }
}
