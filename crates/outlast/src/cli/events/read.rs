//! `outlast events history` and `dead`: they list notices, and take none.

use super::super::out::{Out, Tone};
use super::super::table::{Cell, Column, lay_out};
use super::super::{Context, Failure, named, times};
use super::sentence;
use clap::{Args, ValueEnum};
use jiff::tz::TimeZone;
use outlast_client::{Client, DeadLetter, Time, Told, code};
use serde_json::json;

const NOTICES: [Column; 6] = [
    Column::new("SEQ"),
    Column::new("AGE").goes(3),
    Column::new("STATE"),
    Column::new("KIND").cut(12).goes(2),
    Column::new("SESSION").cut(16).goes(1),
    Column::new("WHAT").cut(20),
];
const LETTERS: [Column; 6] = [
    Column::new("SEQ"),
    Column::new("SINK").cut(12),
    Column::new("KIND").cut(12).goes(2),
    Column::new("TRIES").goes(1),
    Column::new("SINCE").goes(3),
    Column::new("WHY").cut(20),
];

/// List notices, delivered and dropped ones too
///
/// The newest first, unless --after says where to begin. Long notices may make it fewer than --limit.
#[derive(Debug, Args)]
pub(super) struct EventsHistoryArgs {
    /// In this state
    #[arg(long, value_name = "STATE")]
    state: Option<NoticeStateFilter>,
    /// Of this kind, such as completion or watch_match
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// About this process: its name, its id, or at least four digits of its id
    #[arg(long, value_name = "ID")]
    process: Option<String>,
    /// After this number
    #[arg(long, value_name = "SEQ")]
    after: Option<u64>,
    /// At most this many
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

/// What `--state` names. With --json a notice that is `seen` is `pending` and `observed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum NoticeStateFilter {
    /// It waits to be taken
    Pending,
    /// It waits for agents only: its user saw the end, for example with `poll`
    Seen,
    /// A taker holds it and has not acknowledged it yet
    Leased,
    /// A taker has acknowledged it
    Delivered,
    /// It was not delivered, because its owner saw the end, for example with `wait`
    Consumed,
    /// It was not delivered, because the process was run again
    Superseded,
    /// It was given up, for the reason that is shown with it
    Dropped,
}

#[derive(Debug, Args)]
pub(super) struct EventsDeadArgs {
    /// At most this many
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

impl EventsHistoryArgs {
    pub(super) async fn perform(self, ctx: &Context, client: &Client) -> Result<i32, Failure> {
        let newest = self.after.is_none();
        let mut wanted = outlast_client::History::default().limit(self.limit);
        wanted.after = self.after;
        wanted.process = match self.process {
            Some(given) => Some(named::find_or_id(ctx, client, given).await?),
            None => None,
        };
        wanted.kind = self.kind;
        wanted.state = self.state.and_then(|state| Some(state.to_possible_value()?.get_name().to_owned()));
        wanted.newest = newest;
        let mut found = client.history(wanted).await?;
        if newest {
            found.reverse();
        }
        if ctx.out.json {
            ctx.out.object(&json!({"notices": found}))?;
            return Ok(0);
        }
        if found.is_empty() {
            ctx.out.tip("no notices");
        }
        lines(&found, times::now(), &ctx.world.zone(), &ctx.out).iter().try_for_each(|line| ctx.out.line(line))?;
        Ok(0)
    }
}

/// The lines of a table of notices.
fn lines(found: &[Told], now: Time, zone: &TimeZone, out: &Out) -> Vec<String> {
    let rows: Vec<_> = found
        .iter()
        .map(|told| {
            let event = &told.event;
            [
                Cell::new(&event.seq.to_string()),
                Cell::new(&times::age(now.seconds_since(event.created_at))),
                Cell::new(state(told)).tone(match state(told) {
                    "pending" | "leased" => Tone::Busy,
                    "dropped" => Tone::Bad,
                    _ => Tone::Quiet,
                }),
                Cell::new(event.kind()),
                Cell::new(&event.session_key),
                Cell::new(&about(told, now, zone)),
            ]
        })
        .collect();
    lay_out(NOTICES, &rows, out)
}

/// Its state. The end of a process that the user has seen, for example with `log`, waits for agents only: `events` does not print it.
fn state(told: &Told) -> &str {
    if told.observed && told.state == "pending" { "seen" } else { &told.state }
}

/// Its text on one line.
fn about(told: &Told, now: Time, zone: &TimeZone) -> String {
    let (what, _) = sentence::sentence(&told.event, now, zone);
    let told_sinks = told.failed_deliveries.iter().map(|of| {
        let outlook = if of.dead { "gave up" } else { "will try again" };
        let tries = super::super::out::counted(of.attempts.into(), "failed try").replace("trys", "tries");
        format!("; the sink {} {outlook} after {tries}: {}", of.sink, of.error)
    });
    let sinks: String = told_sinks.collect();
    match told.reason.as_str() {
        "" => what + &sinks,
        reason => format!("{what} ({reason}){sinks}"),
    }
}

impl EventsDeadArgs {
    pub(super) async fn perform(self, ctx: &Context, client: &Client) -> Result<i32, Failure> {
        let dead = client.dead(Some(self.limit)).await?;
        let (total, letters) = (dead.total(), dead.letters);
        if ctx.out.json {
            ctx.out.object(&json!({"letters": letters, "total": total}))?;
            return Ok(0);
        }
        if letters.is_empty() {
            ctx.out.tip("no dead letters");
        }
        let row = |letter: &DeadLetter| {
            [
                Cell::new(&letter.event.seq.to_string()),
                Cell::new(&letter.sink),
                Cell::new(letter.event.kind()),
                Cell::new(&letter.attempts.to_string()),
                Cell::new(&times::age(times::now().seconds_since(letter.first_at))),
                Cell::new(&letter.reason),
            ]
        };
        let rows: Vec<_> = letters.iter().map(row).collect();
        let lines = lay_out(LETTERS, &rows, &ctx.out);
        lines.iter().try_for_each(|line| ctx.out.line(line))?;
        if total > letters.len() as u64 {
            ctx.out.remark(&format!("{} of {total} shown, the oldest first; --limit N shows more", letters.len()));
        }
        Ok(0)
    }
}

/// The id of a notice, given its id or its number.
pub(super) async fn id_of(client: &Client, name: String) -> Result<String, Failure> {
    let Some(seq) = name.parse::<u64>().ok().filter(|n| *n > 0) else { return Ok(name) };
    let wanted = outlast_client::History::default().after(seq - 1).limit(1);
    match client.history(wanted).await?.pop().filter(|told| told.event.seq == seq) {
        Some(told) => Ok(told.event.event_id),
        None => Err(Failure::new(code::NOT_FOUND, format!("there is no notice {seq}"), "`outlast events history` lists those there are")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(seq: u64, event: serde_json::Value, session: &str, state: &str, reason: &str) -> Told {
        let mut whole = json!({"event_id": format!("evt_{seq}"), "seq": seq, "created_at": "2023-11-14T22:13:20Z", "session_key": session});
        whole.as_object_mut().unwrap().extend(event.as_object().unwrap().clone());
        serde_json::from_value(json!({"event": whole, "text": "", "state": state, "reason": reason, "attempts": 1})).unwrap()
    }

    #[test]
    fn a_history_lines_up_and_fits() {
        let end = json!({
            "type": "completion", "session_id": "proc_ab12000000ff", "command": "make", "exit_code": 0, "completion_reason": "exited",
            "started_at": "2023-11-14T22:13:16Z", "ended_at": "2023-11-14T22:13:20Z",
        });
        let flood = json!({"type": "watch_overflow_released", "message": "m", "suppressed": 3});
        let too_late = "generation g1 of the conversation has ended";
        let all = [
            told(7, end, "agent:7", "delivered", ""),
            told(12, json!({"type": "deploy", "message": "stage 2\nis done"}), "", "pending", ""),
            told(1204, flood, "a conversation with a long name", "dropped", too_late),
        ];
        let now: Time = "2023-11-14T22:16:40Z".parse().unwrap();
        insta::assert_snapshot!(lines(&all, now, &TimeZone::UTC, &Out::plain(None)).join("\n"));
        for width in [40, 80, 200] {
            let narrow = lines(&all, now, &TimeZone::UTC, &Out::plain(Some(width)));
            assert!(narrow.iter().all(|l| unicode_width::UnicodeWidthStr::width(l.as_str()) <= width), "{narrow:#?}");
        }
    }
}
