//! `outlast chat show`

use super::super::out::{Out, Tone, tame};
use super::super::{table, times};
use super::{ChatName, Context, Failure, has_any, list, no_conversation, read};
use clap::Args;
use outlast_client::{Shown, Time, TurnInfo, TurnKind, TurnOutcome, TurnState};

/// Show a conversation and what became of each message
///
/// With --json the answer has `standing`, `strikes` and `turns`; each turn has `id`, `kind`, `cause`, `state`, `attempt`,
/// `interrupt_reason`, `outcome` and `reply`, which are null where there is nothing to say.
#[derive(Debug, Args)]
pub(crate) struct ChatShow {
    /// The conversation
    #[arg(default_value = "main")]
    name: ChatName,
    /// An earlier generation; /new begins another
    #[arg(long, value_name = "N")]
    generation: Option<u64>,
}

impl ChatShow {
    pub(super) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        if !has_any(ctx) {
            return Err(no_conversation(&self.name));
        }
        let shown = read::show(ctx, &self.name, self.generation).await?;
        if ctx.out.json {
            ctx.out.object(&shown)?;
            return Ok(0);
        }
        lines(&shown, times::now(), &ctx.out).iter().try_for_each(|line| ctx.out.line(line))?;
        Ok(0)
    }
}

/// How much of a text is shown where the width is not known.
const SHOWN: usize = 100;

pub(super) fn lines(shown: &Shown, now: Time, out: &Out) -> Vec<String> {
    let c = &shown.conversation;
    let (standing, tone) = list::standing(&c.standing);
    let strikes = match c.strikes {
        0 => String::new(),
        1 => ", the last attempt did not finish".into(),
        n => format!(", the last {n} attempts did not finish"),
    };
    let mut lines = vec![format!("{}: {}{strikes}, generation {}", tame(&c.name), out.paint(tone, standing), c.generation)];
    lines.extend(c.agent.as_deref().map(|agent| format!("answered by {}", tame(agent))));
    lines.extend(c.waits_for.as_deref().map(|why| format!("waits for {}", tame(why))));
    let room = out.width.unwrap_or(SHOWN).saturating_sub(4).max(8);
    for turn in &shown.turns {
        let (state, tone) = state(turn);
        let when = turn.accepted_at.and_then(|at| times::ago(at, now)).map(|ago| format!(", {ago}")).unwrap_or_default();
        lines.push(format!(
            "{} {}{}",
            out.paint(Tone::Quiet, &format!("#{}", turn.id)),
            out.paint(tone, &state),
            out.paint(Tone::Quiet, &when)
        ));
        let mark = if turn.kind == TurnKind::Notice { "!" } else { "›" };
        let one_line = |mark: &str, text: &str| format!("  {mark} {}", table::cut(tame(text).trim(), room));
        lines.extend(turn.words.as_deref().map(|words| one_line(mark, words)));
        lines.extend(turn.reply.as_deref().filter(|reply| !reply.is_empty()).map(|reply| one_line("‹", reply)));
    }
    lines
}

/// What became of a turn, in words.
pub(super) fn state(turn: &TurnInfo) -> (String, Tone) {
    let again = if turn.attempt > 1 { format!(", attempt {}", turn.attempt) } else { String::new() };
    let reason = turn.interrupt_reason.as_deref().map(|r| format!(" ({})", r.replace('_', " "))).unwrap_or_default();
    match (&turn.state, &turn.outcome) {
        (TurnState::Finished, Some(outcome)) => {
            let tone = if *outcome == TurnOutcome::Completed { Tone::Good } else { Tone::Bad };
            (format!("{}{again}", outcome_words(outcome, turn.why.as_deref())), tone)
        }
        (TurnState::Interrupted, _) => (format!("interrupted{reason}, will be resumed"), Tone::Busy),
        (TurnState::Running, _) => (format!("running{again}"), Tone::Busy),
        (other, _) => (other.to_string(), Tone::Plain),
    }
}

/// How a turn finished, in words.
pub(super) fn outcome_words(outcome: &TurnOutcome, why: Option<&str>) -> String {
    let word = match outcome {
        TurnOutcome::GaveUp => "given up",
        other => other.as_str(),
    };
    match why {
        Some(why) => format!("{word}: {}", tame(&why.replace('_', " "))),
        None => word.to_owned(),
    }
}
