//! `outlast poll`

use super::out::{Tone, tame};
use super::{Context, Failure, ending, label, named, times};
use clap::Args;
use jiff::tz::TimeZone;
use outlast_client::{Event, ProcessInfo, Time};

/// Show the state of a process and the end of its output
#[derive(Debug, Args)]
pub(crate) struct Poll {
    /// The process: its name, its id, or at least four digits of its id
    id: String,
}

impl Poll {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let client = ctx.client().await?;
        let info = client.poll(&named::find(ctx, &client, &self.id, named::Purpose::Read).await?.id).await?;
        if ctx.out.json {
            ctx.out.object(&named::with_ids(&info))?;
            return Ok(0);
        }
        let fields = fields(&info, times::now(), &ctx.world.zone());
        let tone = ending::standing(&info).1;
        let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, value) in &fields {
            let tone = if *name == "state" { tone } else { Tone::Plain };
            let name = ctx.out.paint(Tone::Quiet, &format!("{name:width$}"));
            ctx.out.line(&format!("{name}  {}", ctx.out.paint(tone, &tame(value))))?;
        }
        if let Some(preview) = info.output_preview.filter(|p| !p.is_empty()) {
            ctx.out.line("")?;
            ctx.out.text(&preview)?;
        }
        Ok(0)
    }
}

pub(super) fn fields(p: &ProcessInfo, now: Time, zone: &TimeZone) -> Vec<(&'static str, String)> {
    let mut all = vec![("id", p.session_id.to_string())];
    let mut put = |name, value: Option<String>| all.extend(value.map(|v| (name, v)));
    put("name", p.name.clone());
    put("labels", label::shown(p));
    put("command", Some(p.command.clone()));
    put("directory", Some(p.cwd.clone()));
    let left = if p.left.is_empty() { String::new() } else { format!(", {} still running", p.left.len()) };
    put("state", Some(if p.fate.completion_reason.is_some() { ending::sentence(&p.fate) + &left } else { p.phase.clone() }));
    let orphaned = "both of its keepers were killed: it runs on, its output has no reader, and its exit code will not be known";
    put("orphaned", (p.phase == "orphaned").then(|| orphaned.into()));
    put("suspended", p.is_suspended.then(|| format!("by a stop signal; `outlast signal {} CONT` continues it", p.session_id)));
    put("pid", p.pid.map(|pid| pid.to_string()));
    put("started", Some(times::clock_and_age(p.started_at, now, zone)));
    put("ended", ended(p, now, zone));
    put("time", Some(ending::time(p, times::age).map_or("unknown".into(), |time| time.replace('≥', "at least "))));
    put("time limit", p.deadline_at.map(|at| format!("is stopped at {}", times::clock(at, now, zone))));
    put("output", Some(times::size(p.output_bytes)));
    put("task", p.task_id.clone());
    put("session", p.session_key.clone());
    put("notifies", p.notify_on_complete.then(|| "when it ends".into()));
    put("watched for", (!p.watch_patterns.is_empty()).then(|| watched_for(p)));
    put("input", p.takes_input.then(|| format!("open, {} taken", times::size(p.input_bytes.unwrap_or(0)))));
    put("protection", p.protection.clone().filter(|p| p != "full"));
    p.left.iter().for_each(|left| put("left running", Some(left.to_string())));
    for gap in &p.gaps {
        if let Event::Gap { from, to, why } = gap {
            put("missing", Some(format!("bytes {from} to {to}: {why}")));
        }
    }
    p.warnings.iter().for_each(|w| put("warning", Some(w.clone())));
    put("note", p.note.clone());
    all
}

/// When it ended, or what is known of that.
fn ended(p: &ProcessInfo, now: Time, zone: &TimeZone) -> Option<String> {
    if let Some(found) = p.fate.found_ended_at.filter(|_| p.fate.ended_at.is_none()) {
        let last = p.last_output_at.map(|at| format!(" (last output at {})", times::clock(at, now, zone))).unwrap_or_default();
        return Some(format!("unknown; found ended at {}{last}", times::clock(found, now, zone)));
    }
    p.fate.ended_at.map(|t| times::clock_and_age(t, now, zone))
}

fn watched_for(p: &ProcessInfo) -> String {
    let patterns: Vec<String> = p.watch_patterns.iter().map(|pattern| format!("{pattern:?}")).collect();
    let how = match (p.watch_disabled, p.watch_hit) {
        (true, _) => "; stopped, too much matched",
        (_, Some(true)) => "; a match was reported",
        _ => "",
    };
    format!("{}{how}", patterns.join(", "))
}
