//! `outlast gateway status`

use super::super::times;
use super::{Context, Failure, none, running};
use clap::Args;
use outlast_client::GatewayStatus;

/// Show the state of the gateway; never starts one
#[derive(Debug, Args)]
pub(crate) struct GatewayStatusArgs {}

impl GatewayStatusArgs {
    pub(super) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let status = match running(ctx).await? {
            // It may exit between the two requests, as it does when it is idle.
            Some(chat) => match chat.status().await {
                Err(e) if e.is_not_running() => return none(ctx),
                status => status?,
            },
            None => return none(ctx),
        };
        if ctx.out.json {
            ctx.out.object(&status)?;
            return Ok(0);
        }
        let since = times::clock_and_age(status.started_at, times::now(), &ctx.world.zone());
        let until = status.drained_until.map(|until| times::clock(until, times::now(), &ctx.world.zone()));
        lines(&status, &since, until.as_deref()).iter().try_for_each(|line| ctx.out.line(line))?;
        Ok(0)
    }
}

/// The lines that describe the state to a user.
pub(super) fn lines(s: &GatewayStatus, since: &str, drained_until: Option<&str>) -> Vec<String> {
    let running = match (s.running, s.queued) {
        (0, 0) => "nothing".to_owned(),
        (0, queued) => format!("nothing, {} waiting", turns(queued)),
        (running, 0) => turns(running),
        (running, queued) => format!("{}, {queued} more waiting", turns(running)),
    };
    let mut lines = vec![
        format!("pid        {}", s.pid),
        format!("version    {}", s.version),
        format!("home       {}", s.home),
        format!("since      {since}"),
        format!("running    {running}"),
        format!("terminals  {}", s.terminals),
    ];
    match s.ending.as_deref() {
        Some("restart") => lines.push("ending     restarts when the turns that run have finished or taken too long".into()),
        Some(_) => lines.push("ending     ends when the turns that run have finished or taken too long".into()),
        None if s.draining => {
            let until = drained_until.map(|until| format!(" until {until}")).unwrap_or_default();
            lines.push(format!("draining   starts no new turns{until}; `outlast gateway drain --off` lets them start"));
        }
        None => {}
    }
    if s.unsent > 0 {
        lines.push(format!("unsent     {} parts of replies could not be sent to their channel", s.unsent));
    }
    lines.extend(s.notes.iter().map(|note| format!("note       {note}")));
    lines
}

fn turns(count: u64) -> String {
    if count == 1 { "1 turn".into() } else { format!("{count} turns") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_gateway_does_is_said_in_words() {
        let mut status = GatewayStatus::new(7, "0.1.0", "/home", "2026-01-01T00:00:00Z".parse().unwrap());
        assert_eq!(lines(&status, "now", None)[4], "running    nothing");
        (status.running, status.queued, status.idle, status.draining, status.unsent) = (1, 2, false, true, 3);
        status.notes = vec!["interrupted turns are held back".into()];
        let text = lines(&status, "now", None).join("\n");
        for want in ["1 turn, 2 more waiting", "drain --off", "3 parts", "held back"] {
            assert!(text.contains(want), "{want}: {text}");
        }
        status.running = 0;
        let text = lines(&status, "now", Some("14:30")).join("\n");
        assert!(text.contains("nothing, 2 turns waiting") && text.contains("no new turns until 14:30; "), "{text}");
        status.ending = Some("restart".into());
        let text = lines(&status, "now", None).join("\n");
        assert!(text.contains("ending     restarts") && !text.contains("drain --off"), "{text}");
    }
}
