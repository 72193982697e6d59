//! Agents: prompts and cancels in one direction, reports in the other.

use super::Coordinator;
use super::batch::{Batch, Deed, about};
use super::input::Input;
use super::live::{Actor, Live, OpenAttempt, PromptState};
use crate::rules::change::{AgentReport, Event, Prompt};
use crate::rules::conversation::TurnId;
use crate::rules::text::Line;
use crate::rules::turn::{FailureReason, Turn};
use crate::store::TurnBody;
use outlast_agents::{
    AgentEvent, AgentFault, AgentNews, Attempt, Conversation, Decision, OptionKind, PermissionAsk, SettledBy, StopReason, ToolLine,
    ToolStatus,
};
use outlast_wire::v1::chat::{ChatEvent, Content, LineBody, Part, PermissionBody, PermissionOption, TextBody, ToolBody, ToolState};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// How much of a reply that is being written is kept for terminals that come later. However it is escaped, it fits into a frame.
const MAX_DRAFT_BYTES: usize = 2 << 20;
/// The summary for an agent that has forgotten the conversation has at most this many turns.
const MAX_SUMMARY_TURNS: usize = 20;
/// It has at most this many characters of each text.
const MAX_SUMMARY_CHARS: usize = 2000;
/// What a person reads in place of a reply without words.
const ANSWERED_NOTHING: &str = "(the agent answered nothing)";

impl Coordinator {
    /// Gives a prompt to the agent of a conversation, which is started if need be. Its start is committed.
    pub(super) fn prompt(&mut self, key: &str, prompt: &Prompt) {
        crate::points::reach("gateway.turn.started");
        self.prompt_from(key, prompt, PromptState::Waiting);
    }

    fn prompt_from(&mut self, key: &str, prompt: &Prompt, state: PromptState) {
        let blocks = Arc::new(self.blocks(key, prompt));
        let Some(live) = self.chats.get_mut(key) else { return };
        let starts = live.details.get(&prompt.head).map_or(0, |detail| detail.starts);
        let driver = driver_attempt(live, prompt.head, starts);
        let open = OpenAttempt {
            head: prompt.head,
            attempt: prompt.attempt,
            driver,
            blocks,
            prompt: state,
            has_moved: false,
            draft: String::new(),
            texts: Vec::new(),
            permissions: BTreeMap::new(),
        };
        self.give(key, open);
    }

    /// Follows an attempt that an earlier gateway started, and that its process still works on.
    pub(crate) fn follow_held(&mut self, key: &str) {
        let Some(row) = self.chats.get(key).and_then(|live| live.conversation.running()) else { return };
        let Turn::Running { attempt, .. } = row.turn else { return };
        let head = row.id;
        let rows = self.chats.get(key).map(|live| live.conversation.group(head).map(|row| row.id).collect()).unwrap_or_default();
        // Its process had the prompt from the earlier gateway, so the prompt cannot be withdrawn.
        self.prompt_from(key, &Prompt { head, attempt, rows, note: None }, PromptState::Given);
    }

    fn give(&mut self, key: &str, mut open: OpenAttempt) {
        if self.chats.get(key).is_some_and(|live| live.actor.is_none())
            && let Err(why) = self.start_actor(key)
        {
            let (head, attempt) = (open.head, open.attempt);
            return self.pending.push_back(Input::CannotStart { key: key.to_owned(), head, attempt, why });
        }
        let Some(actor) = self.chats.get_mut(key).and_then(|live| live.actor.as_mut()) else { return };
        if actor.handle.prompt(open.driver.clone(), open.blocks.to_vec()).is_err() {
            // It has ended meanwhile, and its last event is on its way.
            open.prompt = PromptState::Refused;
        }
        actor.open = Some(open);
    }

    /// Another agent gets the prompt that the last one did not take.
    pub(super) fn prompt_again(&mut self, key: &str) {
        let open = self.chats.get_mut(key).and_then(|live| live.actor.take()).and_then(|actor| actor.open);
        if let Some(open) = open {
            self.give(key, OpenAttempt { prompt: PromptState::Waiting, has_moved: true, ..open });
        }
    }

    /// After a failed commit: a prompt that was withdrawn for it is given again.
    pub(super) fn give_back_prompt(&mut self, key: &str, changed: Option<Actor>) {
        let was_taken_back = changed.and_then(|actor| actor.open).is_some_and(|open| open.prompt == PromptState::Withdrawn);
        let Some(actor) = self.chats.get_mut(key).and_then(|live| live.actor.as_mut()).filter(|_| was_taken_back) else { return };
        if let Some(open) = &mut actor.open
            && actor.handle.prompt(open.driver.clone(), open.blocks.to_vec()).is_err()
        {
            open.prompt = PromptState::Refused;
        }
    }

    fn start_actor(&mut self, key: &str) -> Result<(), String> {
        let summary = self.summary(key);
        let live = self.chats.get(key).ok_or("the conversation is gone")?;
        let choice = live.chat.agent.clone().ok_or("no agent was chosen")?;
        let generation = live.conversation.generation.name();
        let driver = self.driver(key, &generation, &choice)?;
        let cwd = live.chat.cwd.clone().filter(|dir| dir.is_dir()).unwrap_or_else(|| self.settings.user_home.clone());
        let mut conversation = Conversation::new(key, &generation, cwd, self.files_of(key));
        if let Some(session) = &live.chat.agent_session {
            conversation = conversation.with_session(session);
        }
        if let Some(summary) = summary {
            conversation = conversation.with_summary(summary);
        }
        if live.attendants > 0 {
            conversation = conversation.attended();
        }
        let mut started = driver.start(conversation);
        let number = self.next_actor;
        self.next_actor += 1;
        let (to, of) = (self.to_self.clone(), key.to_owned());
        tokio::spawn(async move {
            while let Some(event) = started.events.recv().await {
                let input = Input::Agent { key: of.clone(), actor: number, event: Box::new(event) };
                if to.send(input).await.is_err() {
                    return;
                }
            }
            // Fails if the gateway has ended.
            let _ended = to.send(Input::ActorOver { key: of, actor: number }).await;
        });
        let (handle, is_per_turn) = (started.handle, self.is_per_turn(&choice));
        let actor =
            Actor { number, handle, generation, choice, is_per_turn, open: None, is_leaving: false, was_ready: false, has_gone: false };
        if let Some(live) = self.chats.get_mut(key) {
            live.actor = Some(actor);
        }
        Ok(())
    }

    /// The directory for the files of a conversation. Its name can hold nothing that leads out of the home.
    pub(crate) fn files_of(&self, key: &str) -> PathBuf {
        let mut name = String::new();
        for byte in key.bytes() {
            match byte {
                b':' => name.push('+'),
                b if b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-') => name.push(char::from(b)),
                b => name.push_str(&format!("%{b:02x}")),
            }
        }
        self.settings.home.join("conversations").join(name)
    }

    /// The last turns as text, for an agent that cannot continue its session.
    fn summary(&self, key: &str) -> Option<String> {
        let live = self.chats.get(key)?;
        let mut turns = self.store.turns(key, live.conversation.generation.number, MAX_SUMMARY_TURNS).ok()?;
        // What a person continued belongs to it. Numbers of generations only grow, so this ends.
        let mut earlier = live.chat.resumed_from;
        while let Some(number) = earlier.filter(|_| turns.len() < MAX_SUMMARY_TURNS) {
            turns.splice(0..0, self.store.turns(key, number, MAX_SUMMARY_TURNS - turns.len()).ok()?);
            earlier = self.store.generation(key, number).ok()?.and_then(|of| of.chat.resumed_from).filter(|of| *of < number);
        }
        let cut = |text: &str| text.chars().take(MAX_SUMMARY_CHARS).collect::<String>();
        let mut lines = Vec::new();
        for turn in turns.iter().filter(|turn| !turn.turn.is_open()) {
            let Some(reply) = self.reading().turn_info(turn).ok().and_then(|info| info.reply) else { continue };
            let from = match &*turn.body {
                TurnBody::Message { .. } => "User",
                TurnBody::Notice { .. } => "Notice",
            };
            lines.push(format!("{from}: {}\nYou: {}", cut(turn.body.words()), cut(&reply)));
        }
        (!lines.is_empty()).then(|| format!("What was said in this conversation so far:\n\n{}", lines.join("\n\n")))
    }

    pub(super) fn cancel(&mut self, key: &str, head: TurnId, attempt: u32) {
        let open = self
            .chats
            .get_mut(key)
            .and_then(|live| live.actor.as_mut())
            .filter(|actor| actor.open.as_ref().is_some_and(|open| open.head == head && open.attempt == attempt));
        // Without an actor it was started by an earlier gateway, and the start of this one stops its agent.
        let Some(actor) = open else { return };
        let handle = actor.handle.clone();
        let Some(open) = &mut actor.open else { return };
        let is_back = match open.prompt {
            PromptState::Withdrawn | PromptState::Refused => true,
            PromptState::Waiting => handle.withdraw(&open.driver),
            PromptState::Given => false,
        };
        if is_back {
            actor.open = None;
            self.due.insert(key.to_owned());
            return self.pending.push_back(Input::Look);
        }
        // An actor that has ended reports that itself.
        let _ended = handle.cancel(&open.driver);
    }

    pub(super) fn stop_actor(&mut self, key: &str) {
        if let Some(actor) = self.chats.get(key).and_then(|live| live.actor.as_ref()) {
            // An actor that has ended reports that itself.
            let _ended = actor.handle.stop();
        }
    }

    pub(super) fn decide(&mut self, key: &str, permission: &str, decision: Decision) {
        if let Some(actor) = self.chats.get_mut(key).and_then(|live| live.actor.as_mut()) {
            // One that has ended needs no answer.
            let _ended = actor.handle.allow(permission, decision);
        }
    }

    pub(super) fn agent_event(&mut self, key: String, actor: u64, event: AgentEvent, batch: &mut Batch) {
        let Some(own) = self.chats.get(&key).and_then(|live| live.actor.as_ref()).filter(|own| own.number == actor) else { return };
        let is_open = own.open.as_ref().is_some_and(|open| Some(&open.driver) == event.attempt.as_ref());
        if let (AgentNews::Draft(text), true) = (&event.what, is_open) {
            return self.draft(&key, text);
        }
        batch.again(Input::Agent { key: key.clone(), actor, event: Box::new(event.clone()) });
        if let AgentNews::Gone { had_prompt, was_killed, why } = event.what {
            return self.gone(&key, is_open, AgentEnd { had_prompt, was_killed, why }, batch);
        }
        if let AgentNews::Ready { session, .. } = event.what {
            let is_current = self.chats.get(&key).is_some_and(|live| live.actor.as_ref().is_some_and(|own| live.fits(own)));
            let Some(live) = self.touch(&key, batch) else { return };
            if let Some(own) = &mut live.actor {
                own.was_ready = true;
            }
            // The session of an agent that `/new`, `/resume N` or another agent has replaced meanwhile is not continued by the next one.
            if is_current {
                live.chat.agent_session = session;
            }
            return;
        }
        if !is_open {
            return;
        }
        match event.what {
            AgentNews::Prompted => {
                if let Some(open) = self.open_of(&key) {
                    open.prompt = PromptState::Given;
                }
                crate::points::reach("gateway.turn.prompted");
            }
            AgentNews::Text(text) => self.text(&key, text, batch),
            AgentNews::Tool(tool) => {
                crate::points::reach("gateway.turn.tool");
                self.own_part(&key, &Content::Tool(tool_body(&tool)), batch);
            }
            AgentNews::Permission(ask) => self.permission_asked(&key, &ask, batch),
            AgentNews::PermissionSettled { id, title, is_allowed, by } => self.permission_settled(&key, &id, title, is_allowed, by, batch),
            AgentNews::Completed { stop_reason } => {
                crate::points::reach("gateway.turn.reply");
                let report = match stop_reason {
                    StopReason::Cancelled => AgentReport::Failed { why: FailureReason::CancelledItself },
                    _ => AgentReport::Completed,
                };
                self.attempt_over(&key, report, None, batch);
            }
            AgentNews::Failed { fault, why } => {
                let reason = match fault {
                    AgentFault::TimedOut => FailureReason::TimedOut,
                    AgentFault::Garbled => FailureReason::Garbled,
                    _ => FailureReason::Reported,
                };
                self.attempt_over(&key, AgentReport::Failed { why: reason }, Some(why), batch);
            }
            _ => {}
        }
    }

    fn open_of(&mut self, key: &str) -> Option<&mut OpenAttempt> {
        self.chats.get_mut(key)?.actor.as_mut()?.open.as_mut()
    }

    fn draft(&mut self, key: &str, text: &str) {
        if !self.chats.get(key).is_some_and(Live::is_attempt_current) {
            return;
        }
        let Some(open) = self.open_of(key) else { return };
        if open.draft.len() + text.len() > MAX_DRAFT_BYTES {
            return;
        }
        let from = open.draft.len() as u64;
        open.draft.push_str(text);
        let (turn, attempt) = (open.head.0.unsigned_abs(), open.attempt);
        self.show(key, &ChatEvent::Draft { turn, attempt, from, text: text.to_owned() });
    }

    fn text(&mut self, key: &str, text: String, batch: &mut Batch) {
        let Some(live) = self.touch(key, batch) else { return };
        let Some(actor) = &mut live.actor else { return };
        let Some(open) = &mut actor.open else { return };
        open.draft.clear();
        match actor.is_per_turn {
            true => open.texts.push(text.trim_end_matches('\n').to_owned()),
            false => self.own_part(key, &Content::Text(TextBody::new(text)), batch),
        }
    }

    /// Writes a part of the attempt that the agent works on, unless the rules have ended that attempt.
    pub(super) fn own_part(&mut self, key: &str, content: &Content, batch: &mut Batch) {
        let Some(live) = self.chats.get(key) else { return };
        let Some(open) = live.actor.as_ref().and_then(|actor| actor.open.as_ref()) else { return };
        let (head, attempt) = (open.head, open.attempt);
        if live.is_attempt_current() {
            self.part(key, Some(head), attempt, content, batch);
        }
    }

    fn permission_asked(&mut self, key: &str, ask: &PermissionAsk, batch: &mut Batch) {
        let run = self.run;
        let Some(live) = self.touch(key, batch) else { return };
        let Some(actor) = &mut live.actor else { return };
        let options = ask.options.iter().map(|option| PermissionOption::new(&option.id, &option.name, option_word(option.kind))).collect();
        let mut body = PermissionBody::new(format!("{run}.{}.{}", actor.number, ask.id), ask.question(), options);
        body.call = Some(ask.call.clone());
        if let Some(open) = &mut actor.open {
            open.permissions.insert(ask.id.clone(), body.clone());
        }
        self.own_part(key, &Content::Permission(body), batch);
    }

    fn permission_settled(&mut self, key: &str, id: &str, title: String, is_allowed: bool, by: SettledBy, batch: &mut Batch) {
        let run = self.run;
        let Some(live) = self.touch(key, batch) else { return };
        let Some(actor) = &mut live.actor else { return };
        let asked = actor.open.as_mut().and_then(|open| open.permissions.remove(id));
        if asked.is_none() && matches!(by, SettledBy::Cancel) {
            // It was closed when its attempt ended, or was never shown.
            return;
        }
        if matches!(by, SettledBy::Person) && asked.as_ref().is_some_and(|body| body.answer.is_some()) {
            // Written before the agent got the answer.
            return;
        }
        let mut body = asked.unwrap_or_else(|| PermissionBody::new(format!("{run}.{}.{id}", actor.number), title, Vec::new()));
        let kinds: &[&str] = if is_allowed { &["allow_once", "allow_always"] } else { &["reject_once", "reject_always"] };
        let fitting = body.options.iter().find(|option| kinds.contains(&option.kind.as_str())).map(|option| option.option.clone());
        body.answer = fitting.or_else(|| Some(if is_allowed { "allowed" } else { "denied" }.to_owned()));
        body.by = Some(settled_words(by));
        self.own_part(key, &Content::Permission(body), batch);
    }

    /// The agent has answered, or failed: the texts that waited are written, and the rules decide what follows.
    fn attempt_over(&mut self, key: &str, report: AgentReport, why: Option<String>, batch: &mut Batch) {
        self.write_texts(key, batch);
        if report == AgentReport::Completed {
            self.tell_empty_reply(key, batch);
        }
        let Some(live) = self.touch(key, batch) else { return };
        let Some(open) = live.actor.as_mut().and_then(|actor| actor.open.take()) else { return };
        self.report(key, open.head, open.attempt, report, why, batch);
    }

    /// Writes that a completed attempt has no words, so that a person who comes later does not look for a reply.
    fn tell_empty_reply(&mut self, key: &str, batch: &mut Batch) {
        let Some(open) = self.open_of(key) else { return };
        let (head, attempt) = (open.head, open.attempt);
        // If the texts cannot be read, there may be a reply.
        let Ok(written) = self.store.texts(head, attempt) else { return };
        let has_words = |text: &str| !text.trim().is_empty();
        let is_new_text = |part: &Part| matches!(part.content(), Content::Text(body) if has_words(&body.text));
        if !written.iter().any(|text| has_words(text)) && !batch.parts_of(head, attempt).any(is_new_text) {
            self.own_part(key, &Content::Line(LineBody::new(ANSWERED_NOTHING, "empty")), batch);
        }
    }

    fn write_texts(&mut self, key: &str, batch: &mut Batch) {
        let Some(open) = self.touch(key, batch).and_then(|live| live.actor.as_mut()).and_then(|actor| actor.open.as_mut()) else { return };
        for text in std::mem::take(&mut open.texts) {
            self.own_part(key, &Content::Text(TextBody::new(text)), batch);
        }
    }

    /// Writes down the text that an agent has not finished, before an order ends its turn: a person has seen it.
    pub(super) fn keep_draft(&mut self, key: &str, batch: &mut Batch) {
        self.write_texts(key, batch);
        let open = self.touch(key, batch).and_then(|live| live.actor.as_mut()).and_then(|actor| actor.open.as_mut());
        let draft = open.map(|open| std::mem::take(&mut open.draft)).unwrap_or_default();
        if !draft.trim().is_empty() {
            self.own_part(key, &Content::Text(TextBody::new(draft.trim_end_matches('\n'))), batch);
        }
    }

    fn report(&mut self, key: &str, head: TurnId, attempt: u32, report: AgentReport, why: Option<String>, batch: &mut Batch) {
        let before = batch.now;
        let Some(live) = self.touch(key, batch) else { return };
        let was_running =
            live.conversation.row(head).is_some_and(|row| matches!(row.turn, Turn::Running { attempt: of, .. } if of == attempt));
        if let (true, Some(why)) = (was_running, &why) {
            for row in live.conversation.rows.iter().filter(|row| row.head == head) {
                if let Some(detail) = live.details.get_mut(&row.id) {
                    detail.why = Some(why.clone());
                }
            }
        }
        // A sentence of the driver's says more than the line of the rules.
        let is_retried = |line: &Line| *line == Line::AgentEndedRetrying;
        let lines = self.apply_saying(key, Event::Agent { head, attempt, report }, |line| *line != Line::AgentEndedRetrying, batch);
        let retried = lines.iter().find(|line| is_retried(line));
        match (was_running, why, retried) {
            (true, Some(why), Some(line)) => {
                let text = format!("{}. Trying again.", sentence(&why));
                self.part(key, Some(head), attempt, &Content::Line(LineBody::new(text, about(line))), batch);
            }
            (_, _, Some(line)) => self.tell(key, *line, batch),
            (true, Some(why), None) if !lines.is_empty() => {
                self.part(key, Some(head), attempt, &Content::Line(LineBody::new(why, "failed")), batch);
            }
            _ => {}
        }
        debug_assert_eq!(before, batch.now);
    }

    /// An agent is gone, with its whole tree.
    fn gone(&mut self, key: &str, is_open: bool, end: AgentEnd, batch: &mut Batch) {
        let Some(actor) = self.chats.get(key).and_then(|live| live.actor.as_ref()) else { return };
        let AgentEnd { had_prompt, was_killed, why } = end;
        let open = actor.open.clone();
        let can_try_another = !actor.is_leaving
            && open.as_ref().is_some_and(|open| {
                !open.has_moved
                    && match open.prompt {
                        PromptState::Refused => true,
                        // It had worked before and ended before it looked at this prompt, or was killed while it started.
                        PromptState::Waiting => (actor.was_ready || was_killed) && !had_prompt,
                        PromptState::Given | PromptState::Withdrawn => false,
                    }
            });
        let is_wanted = open.as_ref().is_some_and(|open| is_running(self.chats.get(key), open));
        if can_try_another && is_wanted {
            // The end of its channel may be in the same batch, and is no second end.
            if let Some(actor) = self.chats.get_mut(key).and_then(|live| live.actor.as_mut()) {
                actor.has_gone = true;
            }
            return batch.deed(Deed::PromptAgain { key: key.to_owned() });
        }
        if is_open {
            self.write_texts(key, batch);
        }
        if let Some(live) = self.touch(key, batch) {
            live.actor = None;
        }
        if let Some(open) = open {
            let report = match (had_prompt, was_killed) {
                (false, true) => AgentReport::Failed { why: FailureReason::KilledAtStart },
                _ => AgentReport::Gone { had_prompt },
            };
            self.report(key, open.head, open.attempt, report, Some(why), batch);
        }
    }

    /// A driver that ended without a last word broke down.
    pub(super) fn actor_over(&mut self, key: &str, actor: u64, batch: &mut Batch) {
        let Some(own) = self.chats.get(key).and_then(|live| live.actor.as_ref()).filter(|own| own.number == actor) else { return };
        if own.has_gone {
            return;
        }
        let had_prompt = own.open.as_ref().is_some_and(|open| open.prompt == PromptState::Given);
        batch.again(Input::ActorOver { key: key.to_owned(), actor });
        let why = "the driver of the agent broke down".to_owned();
        self.gone(key, true, AgentEnd { had_prompt, was_killed: false, why }, batch);
    }

    pub(super) fn cannot_start(&mut self, key: &str, head: TurnId, attempt: u32, why: String, batch: &mut Batch) {
        batch.again(Input::CannotStart { key: key.to_owned(), head, attempt, why: why.clone() });
        self.report(key, head, attempt, AgentReport::Gone { had_prompt: false }, Some(why), batch);
    }
}

/// A message as the begin of a sentence.
fn sentence(message: &str) -> String {
    let mut letters = message.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// How an agent ended.
struct AgentEnd {
    had_prompt: bool,
    /// Not by its driver.
    was_killed: bool,
    why: String,
}

/// The name of a start for its driver. The generation's name is part of it, so a deleted database never leads to a process that was used before.
pub(crate) fn driver_attempt(live: &Live, head: TurnId, starts: u32) -> Attempt {
    Attempt::new(format!("{}/{}", live.conversation.generation.name(), head.0), starts)
}

fn is_running(live: Option<&Live>, open: &OpenAttempt) -> bool {
    live.and_then(|live| live.conversation.row(open.head))
        .is_some_and(|row| matches!(row.turn, Turn::Running { attempt, .. } if attempt == open.attempt))
}

fn tool_body(tool: &ToolLine) -> ToolBody {
    let state = match tool.status {
        ToolStatus::Pending => ToolState::Pending,
        ToolStatus::InProgress => ToolState::Running,
        ToolStatus::Completed => ToolState::Completed,
        ToolStatus::Failed => ToolState::Failed,
        _ => ToolState::Unknown,
    };
    ToolBody::new(&tool.id, &tool.title, state)
}

fn option_word(kind: OptionKind) -> &'static str {
    match kind {
        OptionKind::AllowOnce => "allow_once",
        OptionKind::AllowAlways => "allow_always",
        OptionKind::RejectOnce => "reject_once",
        OptionKind::RejectAlways => "reject_always",
        _ => "",
    }
}

fn settled_words(by: SettledBy) -> String {
    match by {
        SettledBy::Person => super::ended::BY_PERSON.into(),
        SettledBy::AllowList => "the allow-list".into(),
        SettledBy::Always => "permission = \"always\"".into(),
        SettledBy::Limit(limit) => format!("no answer within {} s", limit.as_secs_f64()),
        SettledBy::Cancel => super::ended::BY_END_OF_TURN.into(),
        _ => "a rule".into(),
    }
}
