//! The view of a conversation: events in, lines out. It uses no terminal and no clock.

use super::super::table::cut;
use super::markdown::{Markdown, StyledLine, TextStyle};
use super::order::by_turn;
use super::questions::{choices, chosen, verdict};
use super::show::{ANSWERED_NOTHING, outcome_words};
use outlast_client::{
    ChatEvent, Content, LineBody, Part, PartKind, PermissionBody, Standing, Time, ToolBody, ToolState, TurnInfo, TurnKind, TurnOutcome,
    TurnState, WordsBody,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How many earlier parts are shown when a conversation is opened again.
pub(super) const CONTEXT_PARTS: u32 = 12;

/// How many recent lines an answer is compared with. The two arrive shortly after each other, in either order.
const MAX_COMPARED_LINES: usize = 32;

/// How much of a message is repeated when its turn starts.
const MAX_REPEATED_WIDTH: usize = 60;

/// The state of the conversation, and what was shown of it.
#[derive(Debug, Default)]
pub(super) struct ChatView {
    /// The last part that the user saw at an earlier visit. The parts after it are marked as new, once.
    seen_before: Option<u64>,
    /// Parts from before the opening, until all of them have arrived.
    backlog: Vec<Part>,
    has_backlog_ended: bool,
    /// The turn of the part that was shown last.
    last_turn: Option<u64>,
    /// The remark that says how to read earlier parts.
    earlier: String,
    is_caught_up: bool,
    last_part: Option<u64>,
    /// Ids of messages that were shown when they were typed.
    own: BTreeSet<String>,
    draft: Option<DraftText>,
    /// Unfinished turns.
    open: BTreeMap<u64, TurnInfo>,
    /// Turns for which a line about their state was shown.
    told: BTreeSet<u64>,
    /// Turns for which text of a reply was shown.
    replied: BTreeSet<u64>,
    /// Tool calls of the running turn.
    tools: BTreeMap<String, ToolState>,
    /// Questions without an answer, oldest first. An agent may ask about several calls at once.
    questions: Vec<Question>,
    /// Questions that were answered on this terminal.
    own_answers: BTreeSet<String>,
    standing: Option<Standing>,
    /// Answers that were shown, and whose lines have not arrived.
    shown_answers: VecDeque<String>,
    /// Lines that were shown, and whose answers may still arrive.
    shown_lines: VecDeque<String>,
    last_shown: LastShown,
    /// The message that was shown last, not counting remarks.
    last_message: Option<String>,
    /// Turns that have started.
    begun: BTreeSet<u64>,
}

/// A question that waits for a person.
#[derive(Debug)]
struct Question {
    turn: Option<u64>,
    body: PermissionBody,
}

/// The kind of the last line. It decides whether an empty line follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum LastShown {
    #[default]
    Nothing,
    Words,
    /// A question that waits for a person.
    Question,
    Text,
    Remark,
    /// What a command at the prompt printed.
    Output,
}

/// A reply as it is written.
#[derive(Debug)]
struct DraftText {
    turn: u64,
    attempt: u32,
    text: String,
    /// How many of its bytes are on lines that were shown.
    shown: usize,
    markdown: Markdown,
    /// Whether a piece is missing. The part that replaces the draft has the whole text.
    has_gap: bool,
}

impl DraftText {
    fn new(turn: u64, attempt: u32) -> Self {
        Self { turn, attempt, text: String::new(), shown: 0, markdown: Markdown::default(), has_gap: false }
    }

    fn whole_lines(&mut self) -> Vec<StyledLine> {
        let Some(end) = self.text[self.shown..].rfind('\n').map(|at| self.shown + at + 1) else { return Vec::new() };
        let lines = self.text[self.shown..end].lines().map(|line| self.markdown.line(line)).collect();
        self.shown = end;
        lines
    }

    fn rest(&mut self) -> Vec<StyledLine> {
        let lines = self.text[self.shown..].lines().map(|line| self.markdown.line(line)).collect();
        self.shown = self.text.len();
        lines
    }
}

impl ChatView {
    /// A conversation whose parts the user has seen up to `seen_before`.
    pub(super) fn new(name: &str, seen_before: Option<u64>, standing: Standing) -> Self {
        let earlier = format!("… earlier: `outlast chat export {name}`");
        Self { seen_before, earlier, standing: Some(standing), ..Self::default() }
    }

    /// The last part that was shown.
    pub(super) fn last_part(&self) -> Option<u64> {
        self.last_part
    }

    /// Whether everything from before the opening was shown.
    pub(super) fn is_caught_up(&self) -> bool {
        self.is_caught_up
    }

    /// Whether an agent works on a reply.
    pub(super) fn is_busy(&self) -> bool {
        self.open.values().any(|t| t.state == TurnState::Running)
    }

    /// When the running turn started, if the gateway says so.
    pub(super) fn busy_since(&self) -> Option<Time> {
        self.open.values().find(|t| t.state == TurnState::Running)?.started_at
    }

    /// Whether Ctrl-C can stop something: a turn that runs, will be resumed, or is about to start.
    pub(super) fn can_stop(&self) -> bool {
        !self.own.is_empty() || self.open.values().any(|t| matches!(t.state, TurnState::Running | TurnState::Interrupted))
    }

    /// The number of turns that wait.
    pub(super) fn waiting(&self) -> usize {
        self.open.values().filter(|t| t.state == TurnState::Queued).count()
    }

    /// Shows a message that the user entered, before the gateway has it.
    pub(super) fn said(&mut self, message_id: &str, words: &str) -> Vec<StyledLine> {
        self.own.insert(message_id.to_owned());
        self.words(words, Some(message_id.to_owned()))
    }

    /// Forgets a message that was refused.
    pub(super) fn unsaid(&mut self, message_id: &str) {
        self.own.remove(message_id);
    }

    /// Shows the gateway's answer to a command. The same text may also come as a line for every terminal; it is shown once. The two use
    /// different connections, so either may be first, with other parts in between.
    pub(super) fn answered(&mut self, text: &str) -> Vec<StyledLine> {
        if let Some(at) = self.shown_lines.iter().position(|line| line == text) {
            self.shown_lines.remove(at);
            return Vec::new();
        }
        if self.shown_answers.len() == MAX_COMPARED_LINES {
            self.shown_answers.pop_front();
        }
        self.shown_answers.push_back(text.to_owned());
        self.remark(TextStyle::Quiet, text)
    }

    /// Applies an event. Returns the new lines.
    pub(super) fn event(&mut self, event: &ChatEvent) -> Vec<StyledLine> {
        if let (ChatEvent::Part { part }, false) = (event, self.has_backlog_ended) {
            self.backlog.push((**part).clone());
            return Vec::new();
        }
        self.has_backlog_ended = true;
        let mut lines = self.show_backlog();
        lines.extend(self.changed(event));
        lines
    }

    /// Shows the parts from before the opening, each reply below its message. Of those that were seen before, only the last are shown, from a
    /// message on: the middle of a reply would say little.
    fn show_backlog(&mut self) -> Vec<StyledLine> {
        let parts = std::mem::take(&mut self.backlog);
        let seen = parts.iter().filter(|part| self.seen_before.is_some_and(|seen| part.id <= seen)).count();
        let (mut first, mut lines) = (0, Vec::new());
        if seen > CONTEXT_PARTS as usize {
            // One part more was requested than is shown, so there are earlier ones.
            first = parts[..seen].iter().skip(1).position(|part| part.kind == PartKind::Words).map_or(1, |at| at + 1);
            let earlier = self.earlier.clone();
            lines.extend(self.remark(TextStyle::Quiet, &earlier));
        }
        let ordered = by_turn(&parts[first..]).into_iter().flat_map(|(_, parts)| parts);
        lines.extend(ordered.flat_map(|part| self.part(part)));
        lines
    }

    fn changed(&mut self, event: &ChatEvent) -> Vec<StyledLine> {
        match event {
            ChatEvent::Part { part } => self.part(part),
            ChatEvent::Draft { turn, attempt, from, text } => self.draft(*turn, *attempt, *from, text),
            ChatEvent::Turn { turn } => self.turn(turn),
            ChatEvent::Standing { standing, .. } => {
                self.standing = Some(standing.clone());
                Vec::new()
            }
            ChatEvent::CaughtUp { .. } => {
                self.is_caught_up = true;
                self.seen_before = None;
                self.told.retain(|turn| self.open.contains_key(turn));
                Vec::new()
            }
            // Content of a newer gateway.
            _ => Vec::new(),
        }
    }

    /// The gateway is connected again. It sends the open turns again.
    pub(super) fn regained(&mut self) -> Vec<StyledLine> {
        self.open.clear();
        self.questions.clear();
        let mut lines = self.flush_draft();
        lines.extend(self.remark(TextStyle::Quiet, "— the gateway is connected again —"));
        lines
    }

    /// Events were skipped, because this terminal was too slow. The gateway sends the open turns again.
    pub(super) fn fell_behind(&mut self) {
        self.open.clear();
    }

    /// Shows a remark that is not part of the conversation.
    pub(super) fn remark(&mut self, style: TextStyle, text: &str) -> Vec<StyledLine> {
        self.remark_lines(text.lines().map(|line| StyledLine::of(style, line)))
    }

    /// The same with several lines.
    pub(super) fn remark_lines(&mut self, remark: impl IntoIterator<Item = StyledLine>) -> Vec<StyledLine> {
        let mut lines = self.gap_after(&[LastShown::Text, LastShown::Output]);
        lines.extend(remark);
        self.last_shown = LastShown::Remark;
        lines
    }

    /// Shows the output of a command at the prompt, with an empty line after it.
    pub(super) fn output(&mut self, output: impl IntoIterator<Item = StyledLine>) -> Vec<StyledLine> {
        let lines = self.remark_lines(output);
        self.last_shown = LastShown::Output;
        self.last_message = None;
        lines
    }

    /// The unfinished lines: the line that is being written, and the answers to a question.
    pub(super) fn live(&self) -> Vec<StyledLine> {
        let mut lines = Vec::new();
        if let Some(draft) = &self.draft {
            let line = &draft.text[draft.shown..];
            lines.extend((!line.is_empty()).then(|| draft.markdown.clone().line(line)));
        }
        if let Some(Question { body, .. }) = self.questions.first() {
            // With its text, unless that stands right above: another question, or an answer, may stand there.
            let mut line = match self.is_right_below_question() {
                true => StyledLine::of(TextStyle::Plain, " "),
                false => StyledLine::of(TextStyle::Bold, &cut(&body.question, MAX_REPEATED_WIDTH)).and(TextStyle::Plain, "  "),
            };
            for (key, option) in choices(body) {
                line = line.and(TextStyle::Busy, &format!(" [{key}] ")).and(TextStyle::Plain, &format!("{}  ", option.name));
            }
            lines.push(line.and(TextStyle::Quiet, " then Enter"));
        }
        if self.standing == Some(Standing::Suspended) {
            lines.push(StyledLine::of(TextStyle::Bad, "suspended: write to start a new generation, /resume to continue this one"));
        }
        lines
    }

    /// The question that is answered next.
    pub(super) fn question(&self) -> Option<&str> {
        self.questions.first().map(|question| question.body.permission.as_str())
    }

    /// The permission and option that a line answers, if a question is open and the line is no message. Fails with what to do if the line is
    /// as short as an answer and none.
    pub(super) fn answer(&self, line: &str) -> Result<Option<(&str, &str)>, String> {
        let Some(Question { body, .. }) = self.questions.first() else { return Ok(None) };
        Ok(chosen(body, line)?.map(|option| (body.permission.as_str(), option.option.as_str())))
    }

    /// Notes that the user of this terminal answers a question.
    pub(super) fn answers(&mut self, permission: &str) {
        self.own_answers.insert(permission.to_owned());
    }

    /// Whether the line above the prompt is the only open question.
    fn is_right_below_question(&self) -> bool {
        self.last_shown == LastShown::Question && self.questions.len() == 1
    }

    /// Whether a question is open.
    pub(super) fn has_question(&self) -> bool {
        !self.questions.is_empty()
    }

    fn part(&mut self, part: &Part) -> Vec<StyledLine> {
        let mut lines = Vec::new();
        if self.seen_before.is_some_and(|seen| part.id > seen) {
            self.seen_before = None;
            if self.last_part.is_some() {
                lines.extend(self.remark(TextStyle::Quiet, "── while you were away ──"));
            }
        }
        self.last_part = self.last_part.max(Some(part.id));
        self.last_turn = part.turn.or(self.last_turn);
        lines.extend(match part.content() {
            Content::Words(WordsBody { message_id: Some(id), .. }) if self.own.remove(&id) => Vec::new(),
            Content::Words(body) => self.words(&body.text, body.message_id),
            Content::Text(body) => self.text(part, &body.text),
            Content::Tool(body) => self.tool(&body),
            Content::Permission(body) => self.permission(part.turn, body),
            Content::Line(body) => self.line(part, &body),
            // Content of a newer gateway.
            _ => Vec::new(),
        });
        lines
    }

    fn words(&mut self, text: &str, message_id: Option<String>) -> Vec<StyledLine> {
        let mut lines = self.gap_after(&[LastShown::Words, LastShown::Question, LastShown::Text, LastShown::Remark, LastShown::Output]);
        let begin = |n: usize| if n == 0 { "› " } else { "  " };
        lines.extend(
            text.lines().enumerate().map(|(n, line)| StyledLine::of(TextStyle::Person, begin(n)).and(TextStyle::Bold, line).hanging(2)),
        );
        self.last_shown = LastShown::Words;
        self.last_message = message_id;
        lines
    }

    /// Repeats the first words of a message that waited, above its reply. Nothing if the message was shown last.
    fn whose_turn(&mut self, turn: &TurnInfo) -> Vec<StyledLine> {
        let is_shown = match self.is_caught_up {
            true => self.last_message.as_ref() == Some(&turn.cause),
            // It stands above its reply, unless a later message waits.
            false => self.last_turn.is_none_or(|last| last == turn.id),
        };
        let is_news = self.begun.insert(turn.id) && turn.kind == TurnKind::Message;
        let Some(words) = turn.words.as_deref().filter(|_| is_news && !is_shown) else { return Vec::new() };
        let first = words.trim().lines().next().unwrap_or_default();
        let short = if first.len() < words.trim().len() { format!("{first} …") } else { first.to_owned() };
        let mut lines = self.drop_draft();
        lines.extend(self.gap_after(&[LastShown::Words, LastShown::Question, LastShown::Text, LastShown::Remark, LastShown::Output]));
        lines.push(StyledLine::of(TextStyle::Person, "› ").and(TextStyle::Quiet, &cut(&short, MAX_REPEATED_WIDTH)).hanging(2));
        self.last_shown = LastShown::Words;
        self.last_message = Some(turn.cause.clone());
        lines
    }

    fn draft(&mut self, turn: u64, attempt: u32, from: u64, text: &str) -> Vec<StyledLine> {
        let mut lines = Vec::new();
        if self.draft.as_ref().is_some_and(|d| (d.turn, d.attempt) != (turn, attempt)) {
            lines.extend(self.drop_draft());
        }
        self.replied.insert(turn);
        let draft = self.draft.get_or_insert_with(|| DraftText::new(turn, attempt));
        match usize::try_from(from) {
            Ok(0) if draft.shown > 0 && !text.starts_with(&draft.text[..draft.shown]) => {
                // The reply has changed since it was shown.
                lines.extend(self.drop_draft());
                let fresh = self.draft.insert(DraftText::new(turn, attempt));
                fresh.text = text.to_owned();
            }
            Ok(0) => (draft.text, draft.has_gap) = (text.to_owned(), false),
            Ok(from) if from == draft.text.len() => draft.text.push_str(text),
            _ => draft.has_gap = true,
        }
        if let Some(draft) = self.draft.as_mut().filter(|d| !d.has_gap) {
            let whole = draft.whole_lines();
            lines.extend(self.reply(whole));
        }
        lines
    }

    fn text(&mut self, part: &Part, text: &str) -> Vec<StyledLine> {
        self.replied.extend(part.turn);
        let draft = self.draft.take().filter(|d| Some(d.turn) == part.turn && d.attempt == part.attempt);
        let mut lines = Vec::new();
        let mut draft = draft.unwrap_or_else(|| DraftText::new(0, 0));
        let shown = &draft.text[..draft.shown];
        if shown.trim_end() == text.trim_end() {
            // All of it was shown. Empty lines at the end would only move the prompt down.
            return lines;
        }
        if !text.starts_with(shown) {
            lines.extend(self.remark(TextStyle::Quiet, "[the reply as it was kept]"));
            draft = DraftText::new(0, 0);
        }
        draft.text = text[..text.trim_end().len().max(draft.shown)].to_owned();
        let rest = draft.rest();
        lines.extend(self.reply(rest));
        lines
    }

    /// Shows lines of a reply.
    fn reply(&mut self, lines: Vec<StyledLine>) -> Vec<StyledLine> {
        if lines.is_empty() {
            return lines;
        }
        let mut all = self.gap_after(&[LastShown::Output]);
        all.extend(lines);
        self.last_shown = LastShown::Text;
        self.last_message = None;
        all
    }

    /// Shows the line that is being written, because another one follows. The reply may continue.
    fn flush_draft(&mut self) -> Vec<StyledLine> {
        let Some(draft) = self.draft.as_mut().filter(|d| !d.has_gap) else { return Vec::new() };
        let rest = draft.rest();
        self.reply(rest)
    }

    /// Shows the rest of a reply that does not continue. Otherwise its last line would vanish.
    fn drop_draft(&mut self) -> Vec<StyledLine> {
        let lines = self.flush_draft();
        self.draft = None;
        lines
    }

    fn tool(&mut self, body: &ToolBody) -> Vec<StyledLine> {
        let before = self.tools.insert(body.call.clone(), body.state.clone());
        let result = body.result.as_deref().map(|r| format!(": {r}")).unwrap_or_default();
        let line = match (&body.state, before) {
            (ToolState::Failed, _) => {
                StyledLine::of(TextStyle::Bad, "· ").and(TextStyle::Quiet, &body.title).and(TextStyle::Bad, &format!(" failed{result}"))
            }
            (ToolState::Unknown, _) => StyledLine::of(TextStyle::Busy, "· ")
                .and(TextStyle::Quiet, &body.title)
                .and(TextStyle::Busy, " was interrupted: its outcome is unknown"),
            (_, None) => StyledLine::of(TextStyle::Busy, "· ").and(TextStyle::Quiet, &format!("{}{result}", body.title)),
            // It was shown when it started.
            (_, Some(_)) => return Vec::new(),
        };
        let mut lines = self.flush_draft();
        lines.push(line);
        self.last_shown = LastShown::Words;
        self.last_message = None;
        lines
    }

    fn permission(&mut self, turn: Option<u64>, body: PermissionBody) -> Vec<StyledLine> {
        let mut lines = self.flush_draft();
        let is_last = self.is_right_below_question() && self.question() == Some(&body.permission);
        lines.push(match &body.answer {
            None => StyledLine::of(TextStyle::Busy, "? ").and(TextStyle::Bold, &body.question),
            Some(answer) => {
                let (is_allowed, by) = verdict(&body, answer);
                let (style, word) = if is_allowed { (TextStyle::Good, "allowed") } else { (TextStyle::Bad, "refused") };
                let (is_own, what) = (self.own_answers.remove(&body.permission), &body.question);
                let rest = match (is_own, is_last) {
                    (true, true) => " by you".to_owned(),
                    (true, false) => format!(" by you: {what}"),
                    (false, true) => by,
                    (false, false) => format!(": {what}{by}"),
                };
                StyledLine::of(style, word).and(TextStyle::Quiet, &rest)
            }
        });
        let is_question = body.answer.is_none();
        let known = self.questions.iter().position(|open| open.body.permission == body.permission);
        match (known, body.answer.is_some()) {
            (Some(at), true) => _ = self.questions.remove(at),
            (Some(at), false) => self.questions[at].body = body,
            (None, false) => self.questions.push(Question { turn, body }),
            (None, true) => {}
        }
        self.last_shown = if is_question { LastShown::Question } else { LastShown::Words };
        self.last_message = None;
        lines
    }

    fn line(&mut self, part: &Part, body: &LineBody) -> Vec<StyledLine> {
        self.told.extend(part.turn);
        // These end the open turns, which needs no second line.
        if matches!(body.about.as_deref(), Some("stopped" | "new" | "returned")) {
            self.told.extend(self.open.keys());
        }
        if let Some(at) = self.shown_answers.iter().position(|answer| *answer == body.text) {
            self.shown_answers.remove(at);
            return Vec::new();
        }
        if self.shown_lines.len() == MAX_COMPARED_LINES {
            self.shown_lines.pop_front();
        }
        self.shown_lines.push_back(body.text.clone());
        let mut lines = self.flush_draft();
        let style = match body.about.as_deref() {
            Some("failed" | "suspended" | "gave_up") => TextStyle::Bad,
            Some("notice" | "new" | "returned" | "empty") => TextStyle::Quiet,
            _ => TextStyle::Busy,
        };
        lines.extend(self.remark(style, &body.text));
        // What was kept is the message right above.
        if body.about.as_deref() != Some("kept") {
            self.last_message = None;
        }
        lines
    }

    fn turn(&mut self, turn: &TurnInfo) -> Vec<StyledLine> {
        let before = self.open.get(&turn.id).map(|t| (t.state.clone(), t.attempt));
        let mut lines = Vec::new();
        if before != Some((turn.state.clone(), turn.attempt)) && turn.state == TurnState::Running {
            self.told.remove(&turn.id);
            self.tools.clear();
            lines.extend(self.whose_turn(turn));
        }
        if !turn.is_finished() {
            self.open.insert(turn.id, turn.clone());
            let is_cut = turn.state == TurnState::Interrupted && before.is_some_and(|(state, _)| state == TurnState::Running);
            if !is_cut {
                return lines;
            }
            // The draft is kept: the part that replaces it may still arrive, and then shows the rest.
            lines.extend(self.flush_draft());
            lines.extend(self.ended(turn, "interrupted; it will be resumed"));
            return lines;
        }
        self.open.remove(&turn.id);
        self.begun.remove(&turn.id);
        self.questions.retain(|question| question.turn != Some(turn.id));
        match &turn.outcome {
            None | Some(TurnOutcome::Completed) => {
                let mut lines = self.drop_draft();
                let is_empty = !self.replied.remove(&turn.id) && turn.reply.as_deref().is_none_or(|reply| reply.trim().is_empty());
                // A gateway of this version writes a line.
                if is_empty && self.is_caught_up && !self.told.remove(&turn.id) {
                    lines.extend(self.remark(TextStyle::Quiet, ANSWERED_NOTHING));
                }
                lines
            }
            Some(outcome) => {
                let mut lines = self.drop_draft();
                lines.extend(self.ended(turn, &outcome_words(outcome, turn.why.as_deref())));
                lines
            }
        }
    }

    /// Shows that a turn ended without a reply, unless a line of the gateway has said so.
    fn ended(&mut self, turn: &TurnInfo, how: &str) -> Vec<StyledLine> {
        match !self.told.remove(&turn.id) && self.is_caught_up {
            true => self.remark(TextStyle::Busy, &format!("[{how}]")),
            false => Vec::new(),
        }
    }

    fn gap_after(&self, which: &[LastShown]) -> Vec<StyledLine> {
        if which.contains(&self.last_shown) { vec![StyledLine::default()] } else { Vec::new() }
    }
}
