//! Notices looked at: `history`, `dead`.

use super::super::out::{Out, Tone};
use super::super::table::{Cell, Column, lay_out};
use super::super::{Context, Failure, named, times};
use clap::Args;
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
pub(super) struct History {
    /// In this state: pending, leased, delivered, consumed, superseded or dropped
    #[arg(long, value_name = "S")]
    state: Option<String>,
    /// Of this kind, such as completion or watch_match
    #[arg(long, value_name = "K")]
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

#[derive(Debug, Args)]
pub(super) struct Dead {
    /// At most this many
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

impl History {
    pub(super) async fn perform(self, ctx: &Context, client: &Client) -> Result<i32, Failure> {
        let newest = self.after.is_none();
        let mut wanted = outlast_client::History::default().limit(self.limit);
        wanted.after = self.after;
        wanted.process = match self.process {
            Some(given) => Some(named::find_or_id(ctx, client, given).await?),
            None => None,
        };
        wanted.kind = self.kind;
        wanted.state = self.state;
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
        lines(&found, times::now(), &ctx.out).iter().try_for_each(|line| ctx.out.line(line))?;
        Ok(0)
    }
}

/// The lines of a table of notices.
fn lines(found: &[Told], now: Time, out: &Out) -> Vec<String> {
    let rows: Vec<_> = found
        .iter()
        .map(|told| {
            let event = &told.event;
            [
                Cell::new(&event.seq.to_string()),
                Cell::new(&times::age(now.seconds_since(event.created_at))),
                Cell::new(&told.state).tone(match told.state.as_str() {
                    "pending" | "leased" => Tone::Busy,
                    "dropped" => Tone::Bad,
                    _ => Tone::Quiet,
                }),
                Cell::new(event.kind()),
                Cell::new(&event.session_key),
                Cell::new(&about(told)),
            ]
        })
        .collect();
    lay_out(NOTICES, &rows, out)
}

/// What it says, on one line.
fn about(told: &Told) -> String {
    let mut all = told.text.lines();
    let first = all.next().unwrap_or_default();
    let first = first.strip_prefix("[IMPORTANT: ").unwrap_or(first);
    let first = first.strip_prefix("Background process ").unwrap_or(first);
    // Of what was posted the first line says no more than the kind does.
    let message = all.find_map(|line| line.strip_prefix("Message: ")).filter(|_| first.starts_with("A notice of kind"));
    let what = message.unwrap_or(first).trim_end_matches(']');
    match told.reason.as_str() {
        "" => what.to_owned(),
        reason => format!("({reason}) {what}"),
    }
}

impl Dead {
    pub(super) async fn perform(self, ctx: &Context, client: &Client) -> Result<i32, Failure> {
        let letters = client.dead_letters(Some(self.limit)).await?;
        if ctx.out.json {
            ctx.out.object(&json!({"letters": letters}))?;
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
        Ok(0)
    }
}

/// The id of a notice that is named by its id or its number.
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

    fn told(seq: u64, kind: &str, session: &str, state: &str, reason: &str, text: &str) -> Told {
        serde_json::from_value(json!({
            "event": {"type": kind, "event_id": format!("evt_{seq}"), "seq": seq, "created_at": "2023-11-14T22:13:20Z", "session_key": session},
            "text": text, "state": state, "reason": reason, "attempts": 1,
        }))
        .unwrap()
    }

    #[test]
    fn a_history_lines_up_and_fits() {
        let all = [
            told(
                7,
                "x_completion",
                "agent:7",
                "delivered",
                "",
                "[IMPORTANT: Background process proc_ab12000000ff completed normally (exit code 0).\nCommand: make\nOutput:\n| ok\n]",
            ),
            told(12, "deploy", "", "pending", "", "[IMPORTANT: A notice of kind \"deploy\" was posted.\nMessage: stage 2\n| is done\n]"),
            told(
                1204,
                "watch_overflow_released",
                "a conversation with a long name",
                "dropped",
                "generation g1 of the conversation has ended",
                "[IMPORTANT: Watch-pattern notifications resumed. 3 match event(s) were suppressed during the flood.]",
            ),
        ];
        let now: Time = "2023-11-14T22:16:40Z".parse().unwrap();
        insta::assert_snapshot!(lines(&all, now, &Out::plain(None)).join("\n"));
        for width in [40, 80, 200] {
            let narrow = lines(&all, now, &Out::plain(Some(width)));
            assert!(narrow.iter().all(|l| unicode_width::UnicodeWidthStr::width(l.as_str()) <= width), "{narrow:#?}");
        }
    }
}
