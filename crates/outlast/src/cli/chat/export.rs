//! `outlast chat export`

use super::order::by_turn;
use super::questions::verdict;
use super::show::ANSWERED_NOTHING;
use super::{ChatName, Context, Failure, has_any, no_conversation, read, send};
use clap::Args;
use outlast_client::{Content, Part, Shown, ToolState, TurnInfo, TurnOutcome};
use serde_json::json;
use std::collections::BTreeSet;

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
        let is_told = parts.iter().any(|part| matches!(part.content(), Content::Line(body) if body.text == ANSWERED_NOTHING));
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
                        let (is_allowed, by) = verdict(&body, answer);
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
        if !is_told && turn.is_some_and(|turn| unanswered.contains(&turn)) {
            text += &format!("\n{}\n", remark(ANSWERED_NOTHING));
        }
    }
    text
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
