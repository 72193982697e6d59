//! What the model reads before the words of a turn: at most one note, never stored, always followed by words.

use std::fmt;

use outlast_core::Time;

use super::conversation::{TurnId, TurnRow};
use super::turn::{InterruptReason, Mark, MarkWindow, Turn};

/// A note quotes at most this many characters of an earlier message. The agent mostly has those words already, so the quote is a reminder.
pub const MAX_QUOTE_CHARS: usize = 4000;

/// What the agent has to know about the turn before its words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// The turn itself was interrupted and is started again.
    Restarted {
        /// Why and when.
        mark: Mark,
        /// The turn whose words it quoted from the start.
        quotes: Option<TurnId>,
        /// The tool call that was open then.
        open_call: Option<OpenCall>,
        /// What the agent does about it.
        policy: ResumePolicy,
    },
    /// The message replaces an interrupted one.
    Replaces {
        /// Why and when that one was interrupted.
        mark: Mark,
        /// The turn whose words are quoted.
        quotes: TurnId,
        /// The tool call that was open then.
        open_call: Option<OpenCall>,
        /// What the agent does about it.
        policy: ResumePolicy,
    },
    /// The previous turn left a tool call open.
    OpenToolCall(OpenCall),
}

/// A tool call whose outcome is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenCall {
    /// The tool, if its name is known.
    pub tool: Option<String>,
}

/// What an agent does about interrupted work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResumePolicy {
    /// A person is present: report and ask.
    Ask,
    /// No person is present: continue.
    Continue,
}

/// A tool call of the attempt before without a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolTail {
    /// The tool, if its name is known.
    pub tool: Option<String>,
    /// When it was called. Unknown counts as recent.
    pub at: Option<Time>,
}

/// The note of a turn that starts now. What is known of the turn itself comes before what is known of the one before it.
pub fn note(row: &TurnRow, tail: Option<&ToolTail>, is_person_present: bool, window: MarkWindow, now: Time) -> Option<Note> {
    let policy = if is_person_present { ResumePolicy::Ask } else { ResumePolicy::Continue };
    let own_mark = match row.turn {
        Turn::Interrupted { mark, .. } => Some(mark),
        Turn::Running { mark, .. } => mark,
        Turn::Queued | Turn::Finished(_) => None,
    };
    let open_call = tail.map(|tail| OpenCall { tool: tail.tool.clone() });
    let is_old = tail.and_then(|tail| tail.at).is_some_and(|at| window.has_passed(at, now));
    match (own_mark, row.quotes) {
        (Some(mark), quotes) => Some(Note::Restarted { mark, quotes: quotes.map(|quote| quote.turn), open_call, policy }),
        (None, Some(quote)) => Some(Note::Replaces { mark: quote.mark, quotes: quote.turn, open_call, policy }),
        (None, None) => open_call.filter(|_| !is_old).map(Note::OpenToolCall),
    }
}

impl Note {
    /// The turn whose words [`Note::text`] needs.
    pub fn quoted_turn(&self) -> Option<TurnId> {
        match self {
            Self::Restarted { quotes, .. } => *quotes,
            Self::Replaces { quotes, .. } => Some(*quotes),
            Self::OpenToolCall(_) => None,
        }
    }

    /// The text for the model. `quoted` has the words of [`Note::quoted_turn`]; without them, and if they are blank, nothing is quoted.
    pub fn text(&self, quoted: Option<&str>) -> String {
        let mut lines = vec!["[Note from the gateway. The user did not write this note.]".to_owned()];
        match self {
            Self::Restarted { mark, quotes, open_call, policy } => {
                let (cause, at) = (phrase(mark.reason), to_the_second(mark.at));
                lines.push(format!(
                    "This turn was interrupted by {cause} at {at}. It may have been started already, and steps may be done."
                ));
                lines.extend(open_call.as_ref().map(|call| format!("{call} was open then. Its outcome is unknown.")));
                lines.extend(CHECK_FIRST.map(str::to_owned));
                lines.push(policy.sentence().to_owned());
                if quotes.is_some() {
                    lines.extend(quote("The turn replaced an earlier message of the user, which was also interrupted:", quoted));
                }
                lines.push("The words of the interrupted turn follow.".to_owned());
            }
            Self::Replaces { mark, open_call, policy, .. } => {
                let (cause, at) = (phrase(mark.reason), to_the_second(mark.at));
                lines.push(format!(
                    "Your turn about the user's previous message was interrupted by {cause} at {at}. It may have been started already, and \
                     steps may be done."
                ));
                lines.extend(open_call.as_ref().map(|call| format!("{call} was open then. Its outcome is unknown.")));
                lines.extend(CHECK_FIRST.map(str::to_owned));
                lines.extend(quote("The previous message was:", quoted));
                lines.push(policy.sentence().to_owned());
                lines.push("The user's new message follows. Answer it first.".to_owned());
            }
            Self::OpenToolCall(call) => {
                lines.push(format!("Your previous turn ended before its tool calls did. {call} was open. Its outcome is unknown."));
                lines.push("Check its side effects before you repeat it. Then answer the words that follow.".to_owned());
            }
        }
        lines.join("\n")
    }
}

impl fmt::Display for OpenCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tool.as_deref().map(one_line).filter(|name| !name.is_empty()) {
            Some(name) => write!(f, "The tool call `{name}`"),
            None => f.write_str("A tool call"),
        }
    }
}

/// What every restart note asks for.
const CHECK_FIRST: [&str; 2] = [
    "If you do not know the outcome of a step that has side effects, check it before you repeat the step.",
    "If a restart or a stop of the gateway was asked for, it has happened. Do not ask for it again.",
];

impl ResumePolicy {
    fn sentence(self) -> &'static str {
        match self {
            Self::Ask => "A person is present. Say where the interrupted work stands, and ask how to go on.",
            Self::Continue => "No person is present. Continue the interrupted work to its end.",
        }
    }
}

fn phrase(reason: InterruptReason) -> &'static str {
    match reason {
        InterruptReason::RestartTimeout => "a gateway restart",
        InterruptReason::ShutdownTimeout => "a gateway shutdown",
        InterruptReason::RestartInterrupted => "a gateway interruption",
        InterruptReason::AgentEnded => "the end of your program",
    }
}

/// A model needs no microseconds.
fn to_the_second(at: Time) -> String {
    let text = at.to_string();
    text.split_once('.').map_or(text.clone(), |(seconds, _)| format!("{seconds}Z"))
}

/// The words of an earlier message, each line marked, so that they cannot be taken for the note or for the new words.
fn quote(title: &str, words: Option<&str>) -> Vec<String> {
    let Some(words) = words.map(str::trim).filter(|words| !words.is_empty()) else { return Vec::new() };
    let kept: String = words.chars().take(MAX_QUOTE_CHARS).collect();
    let cut = (kept.len() < words.len()).then(|| "(The quote was cut here.)".to_owned());
    let marked = kept.lines().map(|line| format!("> {line}"));
    std::iter::once(title.to_owned()).chain(marked).chain(cut).collect()
}

/// The name of a tool comes from outside. It must not add lines to a note.
fn one_line(name: &str) -> String {
    name.chars().filter(|c| !c.is_control() && *c != '`').take(MAX_TOOL_NAME_CHARS).collect()
}

/// Longer names of tools are cut: protocols limit them to 64 or 128.
const MAX_TOOL_NAME_CHARS: usize = 128;
