//! `outlast chat export`

use super::show::ANSWERED_NOTHING;
use super::{ChatName, Context, Failure, has_any, no_conversation, read, send, view};
use clap::Args;
use outlast_client::{Content, Part, PartKind, Shown, ToolState, TurnInfo, TurnOutcome};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// Write a whole conversation as Markdown, or as JSON with --json
///
/// Contains all generations: messages, replies, tool calls, and reports of the gateway.
#[derive(Debug, Args)]
pub(crate) struct ChatExport {
    /// The conversation [default: main; in a command of an agent, its own]
    name: Option<ChatName>,
}

impl ChatExport {
    pub(super) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let name = self.name.unwrap_or_else(|| ChatName::default_of(ctx));
        if !has_any(ctx) {
            return Err(no_conversation(&name));
        }
        // A missing conversation has no parts. This call fails if there is none.
        let shown = read::show(ctx, &name, None).await?.shown;
        let parts = read::parts(ctx, &name).await?;
        if ctx.out.json {
            let mut answer = serde_json::to_value(&shown).unwrap_or_default();
            super::super::answer::merge(&mut answer, json!({"parts": parts}));
            ctx.out.object(&answer)?;
        } else {
            ctx.out.text(&send::for_reader(&markdown(&shown, &parts)))?;
        }
        Ok(0)
    }
}

pub(super) fn markdown(shown: &Shown, parts: &[Part]) -> String {
    let mut text = format!("# {}\n", shown.conversation.name);
    let mut calls = BTreeSet::new();
    let is_empty = |turn: &TurnInfo| turn.reply.as_deref().is_none_or(|reply| reply.trim().is_empty());
    let answered = shown.turns.iter().filter(|turn| turn.outcome == Some(TurnOutcome::Completed));
    let unanswered: BTreeSet<u64> = answered.filter(|turn| is_empty(turn)).map(|turn| turn.id).collect();
    for (turn, parts) in by_turn(parts) {
        for part in parts {
            let block = match part.content() {
                Content::Words(body) => format!("## {}\n\n{}", part.at, quoted(&body.text)),
                Content::Text(body) => body.text.trim_end().to_owned(),
                Content::Tool(body) => {
                    let is_new = calls.insert((part.turn, part.attempt, body.call.clone()));
                    let result = body.result.as_deref().map(|r| format!(": {r}")).unwrap_or_default();
                    match body.state {
                        ToolState::Failed => format!("- `{}` failed{result}", body.title),
                        ToolState::Unknown => format!("- `{}` was interrupted: its outcome is unknown", body.title),
                        _ if is_new => format!("- `{}`{result}", body.title),
                        _ => continue,
                    }
                }
                Content::Permission(body) => match &body.answer {
                    Some(answer) => {
                        let (is_allowed, by) = view::verdict(&body, answer);
                        format!("- {}: {}{by}", if is_allowed { "allowed" } else { "refused" }, body.question)
                    }
                    None => continue,
                },
                Content::Line(body) => remark(&body.text),
                // A newer gateway's.
                _ => continue,
            };
            text += &format!("\n{block}\n");
        }
        if turn.is_some_and(|turn| unanswered.contains(&turn)) {
            text += &format!("\n{}\n", remark(ANSWERED_NOTHING));
        }
    }
    text
}

/// The parts by turn, in the order in which the turns were accepted, so that a message that waited is followed by its reply. A line without
/// a turn stays after the part before it; if that part is a waiting message, after what the agent has written so far.
fn by_turn(parts: &[Part]) -> Vec<(Option<u64>, Vec<&Part>)> {
    let last_of: BTreeMap<Option<u64>, u64> = parts.iter().map(|part| (part.turn, part.id)).collect();
    let mut turns: Vec<(Option<u64>, Vec<&Part>)> = Vec::new();
    let (mut at_work, mut before) = (None, None);
    for part in parts {
        let is_kept = matches!(part.content(), Content::Line(body) if body.about.as_deref() == Some("kept"));
        let is_at_work = |at: &usize| last_of[&turns[*at].0] > part.id;
        let known = match part.turn {
            Some(turn) => turns.iter().rposition(|(of, _)| *of == Some(turn)),
            None => at_work.filter(is_at_work).filter(|_| !is_kept).or(before),
        };
        let at = known.unwrap_or_else(|| {
            turns.push((part.turn, Vec::new()));
            turns.len() - 1
        });
        turns[at].1.push(part);
        before = Some(at);
        if part.turn.is_some() && part.kind != PartKind::Words {
            at_work = Some(at);
        }
    }
    turns
}

/// The first line as a remark, and the other lines as a block.
fn remark(text: &str) -> String {
    match text.split_once('\n') {
        Some((line, rest)) => format!("*{line}*\n\n{}", rest.lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")),
        None => format!("*{text}*"),
    }
}

fn quoted(text: &str) -> String {
    text.lines().map(|line| format!("> {line}").trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}
