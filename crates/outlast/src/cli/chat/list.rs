//! `outlast chat list`

use super::super::out::{Out, Tone};
use super::super::table::{Cell, Column, lay_out};
use super::super::times;
use super::{Context, Failure, has_any, read};
use clap::Args;
use outlast_client::{ConversationInfo, Standing, Time};
use serde_json::json;

/// List conversations; never starts a gateway
#[derive(Debug, Args)]
#[command(visible_alias = "ls")]
pub(crate) struct ChatList {}

impl ChatList {
    pub(super) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let all = if has_any(ctx) { read::list(ctx).await? } else { Vec::new() };
        if ctx.out.json {
            ctx.out.object(&json!({"conversations": all}))?;
            return Ok(0);
        }
        if all.is_empty() {
            let agent = if ctx.settings.gateway.agent.is_some() { "" } else { " --agent NAME" };
            ctx.out.tip(&format!("no conversations; `outlast chat{agent}` begins one"));
        }
        lines(&all, times::now(), &ctx.out).iter().try_for_each(|line| ctx.out.line(line))?;
        Ok(0)
    }
}

const COLUMNS: [Column; 5] = [
    Column::new("NAME").cut(12),
    Column::new("STATE").cut(12),
    Column::new("OPEN").goes(1),
    Column::new("LAST MESSAGE").goes(2),
    Column::new("AGENT").cut(10).goes(3),
];

pub(super) fn lines(all: &[ConversationInfo], now: Time, out: &Out) -> Vec<String> {
    let rows: Vec<_> = all
        .iter()
        .map(|c| {
            let (standing, tone) = standing(&c.standing);
            [
                Cell::new(&c.name),
                Cell::new(standing).tone(tone),
                Cell::new(&if c.open_turns > 0 { c.open_turns.to_string() } else { String::new() }),
                Cell::new(&c.last_message_at.and_then(|at| times::ago(at, now)).unwrap_or_default()).tone(Tone::Quiet),
                Cell::new(c.agent.as_deref().unwrap_or_default()),
            ]
        })
        .collect();
    if rows.is_empty() { Vec::new() } else { lay_out(COLUMNS, &rows, out) }
}

/// The state of a conversation, in words.
pub(super) fn standing(standing: &Standing) -> (&str, Tone) {
    match standing {
        Standing::Active => ("active", Tone::Good),
        Standing::ResumePending => ("resume pending", Tone::Busy),
        Standing::Suspended => ("suspended", Tone::Bad),
        other => (other.as_str(), Tone::Plain),
    }
}
