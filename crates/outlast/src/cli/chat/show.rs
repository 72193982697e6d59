//! `outlast chat show`

use super::super::out::{Out, Tone, tame};
use super::super::table::{self, Cell, Column};
use super::super::times;
use super::read::{ChatSource, ShownConversation};
use super::{ChatName, Context, Failure, has_any, list, no_conversation, read};
use clap::Args;
use outlast_client::{Shown, Standing, Time, TurnInfo, TurnKind, TurnOutcome, TurnState};

/// Show a conversation and what became of each message
///
/// If the conversation has several generations, they are listed: `/resume N` in the conversation goes back to one.
///
/// With --json the answer has `standing`, `strikes`, `turns` and `generations`; each turn has `id`, `kind`, `cause`, `state`, `attempt`,
/// `interrupt_reason`, `outcome` and `reply`, which are null if there is no value.
#[derive(Debug, Args)]
pub(crate) struct ChatShow {
    /// The conversation [default: main; in a command of an agent, its own]
    name: Option<ChatName>,
    /// Show the turns of this generation; `/new` begins a new one
    #[arg(long, value_name = "N")]
    generation: Option<u64>,
}

impl ChatShow {
    pub(super) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let name = self.name.unwrap_or_else(|| ChatName::default_of(ctx));
        if !has_any(ctx) {
            return Err(no_conversation(&name));
        }
        let ShownConversation { shown, source } = read::show(ctx, &name, self.generation).await?;
        if ctx.out.json {
            ctx.out.object(&shown)?;
            return Ok(0);
        }
        let now = times::now();
        let mut all = head(&shown, &ctx.out);
        if shown.generations.len() > 1 {
            all.extend(generations(&shown, now, &ctx.out));
            let turns_of = self.generation.unwrap_or(shown.conversation.generation);
            all.push(format!("turns of generation {turns_of}; --generation N shows those of another"));
        }
        all.extend(turns(&shown, source, now, &ctx.out));
        all.iter().try_for_each(|line| ctx.out.line(line))?;
        Ok(0)
    }
}

/// Shown instead of an empty reply.
pub(super) const ANSWERED_NOTHING: &str = "(the agent answered nothing)";

/// How many columns of a text are shown if the width is not known.
const DEFAULT_TEXT_COLUMNS: usize = 100;

/// The state of the conversation.
pub(super) fn head(shown: &Shown, out: &Out) -> Vec<String> {
    let c = &shown.conversation;
    let (standing, tone) = list::standing(&c.standing);
    let strikes = match c.strikes {
        0 => String::new(),
        1 => ", the last attempt did not finish".into(),
        n => format!(", the last {n} attempts did not finish"),
    };
    let mut lines = vec![format!("{}: {}{strikes}, generation {}", tame(&c.name), out.paint(tone, standing), c.generation)];
    lines.extend(c.agent.as_deref().map(|agent| format!("answered by {}", tame(agent))));
    // This is a sentence of the gateway.
    lines.extend(c.waits_for.as_deref().map(tame));
    lines
}

const GENERATIONS: [Column; 4] =
    [Column::new("GENERATION"), Column::new("TURNS").goes(1), Column::new("LAST TURN").goes(2), Column::new("BEGINS WITH").cut(10)];

/// The generations of the conversation, to choose one from.
pub(super) fn generations(shown: &Shown, now: Time, out: &Out) -> Vec<String> {
    let rows: Vec<_> = shown
        .generations
        .iter()
        .map(|of| {
            let number = if of.ended_at.is_none() { format!("{} (current)", of.generation) } else { of.generation.to_string() };
            let words = of.first_words.as_deref().map(tame).unwrap_or_default();
            let begins = match of.resumed_from {
                Some(earlier) => format!("(continues {earlier}) {words}"),
                None => words,
            };
            [
                Cell::new(&number),
                Cell::new(&of.turns.to_string()),
                Cell::new(&of.last_turn_at.and_then(|at| times::ago(at, now)).unwrap_or_default()).tone(Tone::Quiet),
                Cell::new(&table::cut(begins.trim(), DEFAULT_TEXT_COLUMNS)),
            ]
        })
        .collect();
    table::lay_out(GENERATIONS, &rows, out)
}

/// Each message and notice with its outcome.
pub(super) fn turns(shown: &Shown, source: ChatSource, now: Time, out: &Out) -> Vec<String> {
    let mut lines = Vec::new();
    let room = out.width.unwrap_or(DEFAULT_TEXT_COLUMNS).saturating_sub(4).max(8);
    let waits = shown.conversation.waits_for.is_some();
    // What a conversation waits for is about the turn that runs, if there is one.
    let has_question = waits && shown.turns.iter().any(|turn| turn.state == TurnState::Running);
    let is_held = waits && !has_question || shown.conversation.standing == Standing::Suspended;
    for turn in &shown.turns {
        let (mut state, tone) = state(turn, source, is_held);
        if has_question && turn.state == TurnState::Running {
            state += ", waits for permission";
        }
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
        let reply = turn.reply.as_deref().filter(|reply| !reply.trim().is_empty());
        let nothing = (turn.outcome == Some(TurnOutcome::Completed)).then_some(ANSWERED_NOTHING);
        lines.extend(reply.or(nothing).map(|reply| one_line("‹", reply)));
    }
    lines
}

/// The state or outcome of a turn, in words. `is_held`: the conversation waits for a person.
pub(super) fn state(turn: &TurnInfo, source: ChatSource, is_held: bool) -> (String, Tone) {
    let again = if turn.attempt > 1 { format!(", attempt {}", turn.attempt) } else { String::new() };
    let reason = turn.interrupt_reason.as_deref().map(|r| format!(" ({})", r.replace('_', " "))).unwrap_or_default();
    match (&turn.state, &turn.outcome) {
        (TurnState::Finished, Some(outcome)) => {
            let tone = if *outcome == TurnOutcome::Completed { Tone::Good } else { Tone::Bad };
            (format!("{}{again}", outcome_words(outcome, turn.why.as_deref())), tone)
        }
        (TurnState::Interrupted, _) if is_held => (format!("interrupted{reason}, waits for you"), Tone::Busy),
        // While another turn runs, the gateway does not say whether this one waits for a person.
        (TurnState::Interrupted, _) => (format!("interrupted{reason}, not resumed yet"), Tone::Busy),
        // Its outcome is unknown. A command of the turn may still run, so it is not called interrupted.
        (TurnState::Running, _) if source == ChatSource::Files => {
            (format!("was running{again} when the gateway ended, is resumed when a gateway starts"), Tone::Busy)
        }
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
