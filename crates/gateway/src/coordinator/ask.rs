//! The requests of clients.

use super::batch::{Batch, Deed};
use super::choice::agent_names;
use super::drain::Drain;
use super::ended::BY_PERSON;
use super::input::{AnswerTo, ChatAnswer};
use super::live::Live;
use super::refusal::{not_found, refusal, shown, shown_name, store_failed};
use super::{Coordinator, later, now};
use crate::owner::UserId;
use crate::rules::change::{Event, MAX_QUEUED_MESSAGES, Message};
use crate::rules::conversation::{self, Cause, Conversation, TurnId};
use crate::rules::key::{LOCAL_PLATFORM, MAIN_NAMESPACE, SessionKey, parse};
use crate::rules::reset::LiveProcesses;
use crate::rules::text::Line;
use crate::rules::turn::{DrainKind, InterruptReason, Turn, TurnKind};
use crate::store::{ChatState, ConversationRecord, LastOrder, TurnBody};
use outlast_agents::Decision;
use outlast_core::OsText;
use outlast_wire::code;
use outlast_wire::v1::chat::{AgentChoice, Changed, ChatRequest, Content, GatewayStatus, MAX_WORDS_BYTES, Opened, WordsBody};
use outlast_wire::v1::{Done, Error};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The longest that a person may hold new turns back: a drain that is forgotten must not silence a home for ever.
const MAX_HOLD: Duration = Duration::from_secs(3600);
/// The longest name of a message or of an order.
const MAX_ID_LEN: usize = 128;
/// How many conversations a home may have. Each is kept in memory and looked at with each step of the gateway; a script that makes a new one for each message has to
/// notice.
const MAX_CONVERSATIONS: usize = 10_000;
/// The longest shell line or name of an agent.
const MAX_AGENT_LEN: usize = 64 << 10;

/// How many generations are looked at for one that continued another.
const MAX_LOOKED_AT_GENERATIONS: usize = 100;

/// A message as its sender has it.
struct Said {
    message_id: String,
    words: String,
    wanted: Wanted,
}

/// What a person orders about a conversation as a whole.
#[derive(Clone, Copy)]
enum ChatOrder {
    Stop,
    New,
    /// What is suspended or held back, or an earlier generation.
    Resume(Option<u64>),
}

/// Who writes or opens a conversation, and who is to answer in it, where.
struct Wanted {
    by: UserId,
    agent: Option<AgentChoice>,
    cwd: Option<OsText>,
}

impl Coordinator {
    pub(super) fn ask(&mut self, request: ChatRequest, by: UserId, to: AnswerTo, batch: &mut Batch) {
        if let Some((request, by, to)) = self.hold_for_reset(request, by, to, batch) {
            self.ask_knowing(request, by, to, LiveProcesses::Unknown, batch);
        }
    }

    /// Answers a request. `processes`: what runs in the session, if that was looked up.
    pub(super) fn ask_knowing(&mut self, request: ChatRequest, by: UserId, to: AnswerTo, processes: LiveProcesses, batch: &mut Batch) {
        let answer = match request {
            ChatRequest::Send { key, message_id, words, agent, cwd } => {
                let said = Said { message_id, words, wanted: Wanted { by, agent, cwd } };
                return match self.send(&key, said, processes, batch) {
                    Ok((turn, note)) => batch.deed(Deed::Accepted { key, turn, note, to }),
                    Err(error) => batch.answer(to, Err(error)),
                };
            }
            // What the inputs before it change is not committed yet, and the store does not know it.
            ChatRequest::Wait { .. } | ChatRequest::List | ChatRequest::Show { .. } | ChatRequest::Status => {
                return batch.deed(Deed::Tell { request, to });
            }
            // Opened as it is, it is read, also while the disk is full.
            ChatRequest::Open { key, agent, .. } if self.is_opened_as_it_is(&key, agent.as_ref()) => {
                return batch.deed(Deed::Tell { request: ChatRequest::Open { key, agent: None, cwd: None }, to });
            }
            ChatRequest::Open { key, agent, cwd } => self.open(&key, Wanted { by, agent, cwd }, batch),
            ChatRequest::Stop { key, request_id } => self.order(&key, by, request_id, ChatOrder::Stop, batch),
            ChatRequest::New { key, request_id } => self.order(&key, by, request_id, ChatOrder::New, batch),
            ChatRequest::Resume { key, request_id, generation } => self.order(&key, by, request_id, ChatOrder::Resume(generation), batch),
            ChatRequest::Allow { key, permission, option } => self.allow(&key, &permission, &option, batch),
            ChatRequest::Seen { key, part } => self.seen(&key, part, batch),
            ChatRequest::Drain { hold_seconds } => {
                let hold = hold_seconds.map_or(MAX_HOLD, Duration::from_secs).min(MAX_HOLD);
                self.hold_until = Some(Instant::now() + hold);
                return batch.deed(Deed::AnswerAnyway { to, written: Done::ok(), unwritten: Done::ok() });
            }
            ChatRequest::Undrain => {
                self.hold_until = None;
                self.due.extend(self.chats.keys().cloned());
                return batch.deed(Deed::AnswerAnyway { to, written: Done::ok(), unwritten: Done::ok() });
            }
            ChatRequest::Restart { from } if self.was_ended_for(from.as_deref(), DrainKind::Restart) => {
                tracing::info!(from, "asked again for a restart that has happened");
                Ok(ChatAnswer::Done(Done::word("restarted")))
            }
            ChatRequest::Shutdown { from, .. } if self.was_ended_for(from.as_deref(), DrainKind::Shutdown) => {
                tracing::info!(from, "asked again for a stop that has happened");
                Ok(ChatAnswer::Done(Done::word("stopped")))
            }
            ChatRequest::Restart { from } => {
                tracing::info!(from, "asked to restart");
                self.begin_drain(Drain::restart(self.settings.drain_timeout).asked_by(from), batch);
                // A stop that is under way stays one.
                let is_stopping = self.drain.as_ref().is_some_and(|drain| drain.kind == DrainKind::Shutdown);
                let (written, unwritten) = if is_stopping { ("stopping", "stopping") } else { ("ok", "unmarked") };
                return batch.deed(Deed::AnswerAnyway { to, written: Done::word(written), unwritten: Done::word(unwritten) });
            }
            ChatRequest::Shutdown { timeout_ms, from } => {
                tracing::info!(from, "asked to end");
                let limit = timeout_ms.map_or(self.settings.drain_timeout, Duration::from_millis);
                self.begin_drain(Drain::stop(limit).asked_by(from), batch);
                return batch.deed(Deed::AnswerAnyway { to, written: Done::ok(), unwritten: Done::word("unmarked") });
            }
            ChatRequest::Hello { .. } | ChatRequest::Follow { .. } | ChatRequest::Cancel { .. } => Err(not_ours()),
        };
        batch.answer(to, answer);
    }

    /// Whether what a conversation's turn asks for has happened since that turn began: it was interrupted by the end of an earlier gateway and is started
    /// again. Done once more, it would interrupt the same turn in the same place.
    fn was_ended_for(&self, key: Option<&str>, kind: DrainKind) -> bool {
        let running = key.and_then(|key| self.chats.get(key)).and_then(|live| live.conversation.running());
        let Some(Turn::Running { mark: Some(mark), .. }) = running.map(|row| row.turn) else { return false };
        match mark.reason {
            InterruptReason::ShutdownTimeout => true,
            // In either case this is another gateway.
            InterruptReason::RestartTimeout | InterruptReason::RestartInterrupted => kind == DrainKind::Restart,
            InterruptReason::AgentEnded => false,
        }
    }

    /// Answers what changes nothing, or has the client wait.
    pub(super) fn tell_client(&mut self, request: ChatRequest, to: AnswerTo) {
        let answer = match request {
            ChatRequest::Wait { key, turn, timeout_ms } => return self.wait_for(&key, turn, timeout_ms, to),
            ChatRequest::Open { key, .. } => self.opened(&key),
            ChatRequest::List => Ok(ChatAnswer::Conversations(self.reading().list())),
            ChatRequest::Show { key, generation } => self.reading().shown(&key, generation).map(|shown| ChatAnswer::Shown(Box::new(shown))),
            ChatRequest::Status => Ok(ChatAnswer::Status(Box::new(self.status()))),
            _ => Err(not_ours()),
        };
        // A client that has left needs no answer.
        let _left = to.send(answer);
    }

    /// The turn of a message, and what the person should know about it.
    fn send(&mut self, key: &str, said: Said, processes: LiveProcesses, batch: &mut Batch) -> Result<(TurnId, Option<String>), Error> {
        let Said { message_id, words, wanted } = said;
        let id = checked_message_id(&message_id)?;
        if words.len() > MAX_WORDS_BYTES {
            let what = format!("{} bytes are more than the {MAX_WORDS_BYTES} that one message may have", words.len());
            return Err(refusal(code::BAD_REQUEST, what, "put the text into a file, and name the file"));
        }
        if words.trim().is_empty() {
            return Err(refusal(code::BAD_REQUEST, "the message is empty", "write something"));
        }
        let known = self.store.turn_of_cause(&Cause::Message(id.to_owned())).map_err(|e| store_failed(&e))?;
        if let Some(known) = known {
            return match known.key == key {
                true => Ok((known.id, None)),
                false => Err(sent_elsewhere()),
            };
        }
        // What shares the commit is not in the store yet.
        let has_it = |live: &Live| live.conversation.rows.iter().any(|row| matches!(&row.cause, Cause::Message(of) if of == id));
        if batch.touched().filter(|other| *other != key).any(|other| self.chats.get(other).is_some_and(has_it)) {
            return Err(sent_elsewhere());
        }
        // Before anything is changed for it: a message that is not kept chooses no agent, and takes no prompt back.
        if let Some(live) = self.chats.get(key) {
            if let Some(row) = live.conversation.rows.iter().find(|row| row.cause == Cause::Message(id.to_owned())) {
                return Ok((row.id, None));
            }
            if live.conversation.queued(TurnKind::Message).count() >= MAX_QUEUED_MESSAGES {
                return Err(too_many());
            }
        }
        let by = wanted.by;
        self.make(key, wanted, batch)?;
        let Some(live) = self.chats.get(key) else { return Err(not_found(key)) };
        let reset = self.facts_of(key, live.conversation.generation.number, processes, batch.now)?;
        let turn = TurnId(self.next_turn);
        let (draining, is_held) = (self.drain.as_ref().map(|drain| drain.kind), self.hold_until.is_some());
        let mark_window = self.settings.mark_window;
        let now = batch.now;
        let Some(live) = self.touch(key, batch) else { return Err(not_found(key)) };
        let may_start = draining.is_none() && !is_held;
        let is_interrupting = live.conversation.mode == crate::rules::conversation::BusyMode::Interrupt && may_start;
        let has_prompt = !is_interrupting || live.conversation.running().is_none() || live.has_prompt();
        let body = Arc::new(TurnBody::Message { words: words.clone() });
        live.add_detail(turn, body, now);
        live.chat.owner = Some(by.stored());
        let message = Message { turn, message_id: id.to_owned(), known_as: None, has_prompt, draining, is_held, reset, mark_window };
        if is_interrupting && has_prompt {
            self.keep_draft(key, batch);
        }
        let at = self.next_part;
        self.next_part += 1;
        let lines = self.apply(key, Event::Message(message), batch);
        if self.chats.get(key).is_some_and(|live| live.conversation.row(turn).is_none()) {
            return Err(too_many());
        }
        self.next_turn += 1;
        // The message comes before the lines about it.
        let content = Content::Words(WordsBody::new(words, message_id));
        self.part_at(at, key, Some(turn), 0, &content, batch);
        let mut kept = lines.into_iter().find(|line| matches!(line, Line::KeptWhileDraining(_)));
        if let (None, Some(until)) = (draining, self.hold_until) {
            let line = Line::KeptWhileHeld(minutes_until(until));
            self.tell(key, line, batch);
            kept = Some(line);
        }
        Ok((turn, kept.map(|line| line.to_string())))
    }

    fn open(&mut self, key: &str, wanted: Wanted, batch: &mut Batch) -> Result<ChatAnswer, Error> {
        let is_new = !self.chats.contains_key(key);
        self.make(key, wanted, batch)?;
        let mut opened = self.as_opened(key)?;
        opened.is_new = is_new;
        Ok(ChatAnswer::Opened(Box::new(opened)))
    }

    /// Whether a client that opens a conversation changes nothing.
    fn is_opened_as_it_is(&self, key: &str, agent: Option<&AgentChoice>) -> bool {
        self.chats.get(key).is_some_and(|live| agent.is_none() || live.chat.agent.as_ref() == agent)
    }

    fn opened(&self, key: &str) -> Result<ChatAnswer, Error> {
        self.as_opened(key).map(|opened| ChatAnswer::Opened(Box::new(opened)))
    }

    fn as_opened(&self, key: &str) -> Result<Opened, Error> {
        let live = self.chats.get(key).ok_or_else(|| not_found(key))?;
        let mut opened = Opened::new(live.info(key));
        opened.seen_part = live.chat.seen;
        opened.last_part = self.store.last_part(key).map_err(|e| store_failed(&e))?;
        Ok(opened)
    }

    /// Makes the conversation if there is none, and notes its agent.
    fn make(&mut self, key: &str, wanted: Wanted, batch: &mut Batch) -> Result<(), Error> {
        let Wanted { by, agent, cwd } = wanted;
        checked_key(key)?;
        if self.unreadable.contains(key) {
            let what = format!("the row of the conversation {} cannot be read", shown_name(key));
            return Err(refusal(
                code::FAULT,
                what,
                "`outlast gateway status` names it; use another name, or restore gateway.db from a copy",
            ));
        }
        if let Some(choice) = &agent {
            self.check_agent(choice)?;
        }
        if let Some(live) = self.chats.get(key) {
            let changes = agent.as_ref().is_some_and(|agent| live.chat.agent.as_ref() != Some(agent));
            if let (true, Some(live)) = (changes, self.touch(key, batch)) {
                live.chat.agent = agent;
                live.chat.agent_session = None;
            }
            return Ok(());
        }
        if self.chats.len() >= MAX_CONVERSATIONS {
            let what = format!("this home has {MAX_CONVERSATIONS} conversations, which is the limit");
            return Err(refusal(code::TOO_MANY, what, "use one of them again: `/new` starts it anew; `outlast chat list` shows them"));
        }
        let agent = agent.or_else(|| self.settings.agent.clone().map(AgentChoice::Agent)).ok_or_else(|| {
            let what = format!("there is no conversation {}; to begin it, choose an agent", shown_name(key));
            let names = agent_names(&self.settings.agents);
            let hint =
                format!("give --agent NAME or --command CMD. Agents are {names}. `agent` in the section [gateway] of config.toml chooses one for all; `outlast gateway restart` after a change");
            refusal(code::BAD_REQUEST, what, hint)
        })?;
        self.check_agent(&agent)?;
        let cwd = cwd.map(|dir| dir.as_path().to_owned()).filter(|dir| dir.is_absolute());
        let chat = ChatState { agent: Some(agent), cwd, owner: Some(by.stored()), ..ChatState::default() };
        let mut live = Live::new(Conversation::first(self.settings.mode, batch.now), chat);
        if self.not_ours.contains(key) {
            // The engine has reported them already, and does not do so again.
            live.told_of_notices();
        }
        self.insert(key, live, batch);
        Ok(())
    }

    fn check_agent(&self, choice: &AgentChoice) -> Result<(), Error> {
        match choice {
            AgentChoice::Command(line) if line.trim().is_empty() || line.len() > MAX_AGENT_LEN || line.contains('\0') => {
                Err(refusal(code::BAD_REQUEST, "the command is empty, too long, or has a NUL in it", ""))
            }
            AgentChoice::Command(_) => Ok(()),
            AgentChoice::Agent(name) => self.argv_of(name).map(|_| ()).map_err(|e| refusal(code::BAD_REQUEST, e.0, e.1)),
            _ => Err(refusal(code::BAD_REQUEST, "this gateway does not know such a kind of agent", "client and gateway may differ in age")),
        }
    }

    fn order(
        &mut self,
        key: &str,
        by: UserId,
        request_id: Option<String>,
        order: ChatOrder,
        batch: &mut Batch,
    ) -> Result<ChatAnswer, Error> {
        let live = self.chats.get(key).ok_or_else(|| not_found(key))?;
        if let Some(id) = &request_id {
            checked_id(id)?;
            if let Some(last) = live.chat.last_order.as_ref().filter(|last| last.request_id == *id) {
                return Ok(ChatAnswer::Changed(last.answer.clone()));
            }
        }
        let current = live.conversation.generation.number;
        let (event, earlier) = match order {
            ChatOrder::Stop => (Event::Stop, None),
            ChatOrder::New => (Event::New, None),
            ChatOrder::Resume(Some(number)) if number != u64::from(current) => {
                let earlier = self.reading().earlier(key, number)?;
                let continued_in = self.continued_in(key, &earlier)?;
                (Event::Return { to: earlier.generation.number, continued_in }, Some(earlier))
            }
            ChatOrder::Resume(Some(_)) if live.conversation.standing() == conversation::Standing::Active => {
                let said = format!("Generation {current} is the current one, and nothing in it is interrupted or suspended.");
                return Ok(ChatAnswer::Changed(Changed::new(live.standing(), u64::from(current), said)));
            }
            ChatOrder::Resume(_) => (Event::Resume, None),
        };
        if let (ChatOrder::Resume(_), Some(live)) = (order, self.touch(key, batch)) {
            // From here on, turns are started for this user.
            live.chat.owner = Some(by.stored());
        }
        // All others end the turn that runs.
        if event != Event::Resume {
            self.keep_draft(key, batch);
        }
        let lines = self.apply(key, event, batch);
        let Some(live) = self.touch(key, batch) else { return Err(not_found(key)) };
        if let Some(earlier) = earlier {
            // A session is known to the agent that made it only.
            (live.chat.agent, live.chat.agent_session) = (earlier.chat.agent, earlier.chat.agent_session);
            live.chat.resumed_from = Some(earlier.generation.number);
        }
        let said = lines.last().map(Line::to_string).unwrap_or_default();
        let answer = Changed::new(live.standing(), u64::from(live.conversation.generation.number), said);
        if let Some(request_id) = request_id {
            live.chat.last_order = Some(LastOrder { request_id, answer: answer.clone() });
        }
        Ok(ChatAnswer::Changed(answer))
    }

    /// The last generation that continued an earlier one in the same session of the agent, and was answered there.
    fn continued_in(&self, key: &str, earlier: &ConversationRecord) -> Result<Option<u32>, Error> {
        let (Some(live), Some(session)) = (self.chats.get(key), &earlier.chat.agent_session) else { return Ok(None) };
        let is_same = |chat: &ChatState| chat.agent == earlier.chat.agent && chat.agent_session.as_ref() == Some(session);
        let current = live.conversation.generation.number;
        for number in (earlier.generation.number + 1..=current).rev().take(MAX_LOOKED_AT_GENERATIONS) {
            let continues = match number == current {
                true => is_same(&live.chat),
                false => self.store.generation(key, number).map_err(|e| store_failed(&e))?.is_some_and(|of| is_same(&of.chat)),
            };
            if continues && self.store.has_history(key, number).map_err(|e| store_failed(&e))? {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }

    fn allow(&mut self, key: &str, permission: &str, option: &str, batch: &mut Batch) -> Result<ChatAnswer, Error> {
        let live = self.chats.get(key).ok_or_else(|| not_found(key))?;
        let asked = live.actor.as_ref().and_then(|actor| actor.open.as_ref()).and_then(|open| {
            open.permissions
                .iter()
                .find(|(_, body)| body.permission == permission && body.answer.is_none())
                .map(|(id, body)| (id.clone(), body.clone()))
        });
        let changed = |said: &str| Changed::new(live.standing(), u64::from(live.conversation.generation.number), said);
        let Some((id, mut body)) = asked else {
            return Ok(ChatAnswer::Changed(changed("This question was answered already.")));
        };
        if !body.options.iter().any(|offered| offered.option == option) {
            let hint = body.options.iter().map(|offered| offered.option.as_str()).collect::<Vec<_>>().join(", ");
            return Err(refusal(code::BAD_REQUEST, "this is none of the answers that were offered", format!("one of {hint}")));
        }
        let answer = changed("Answered.");
        // Before the agent gets it: a question that is unanswered after a crash was not allowed.
        (body.answer, body.by) = (Some(option.to_owned()), Some(BY_PERSON.to_owned()));
        let open = self.touch(key, batch).and_then(|live| live.actor.as_mut()).and_then(|actor| actor.open.as_mut());
        if let Some(open) = open {
            open.permissions.insert(id.clone(), body.clone());
        }
        self.own_part(key, &Content::Permission(body), batch);
        batch.deed(Deed::Allow { key: key.to_owned(), permission: id, decision: Decision::Choose(option.to_owned()) });
        Ok(ChatAnswer::Changed(answer))
    }

    fn seen(&mut self, key: &str, part: u64, batch: &mut Batch) -> Result<ChatAnswer, Error> {
        let last = self.store.last_part(key).map_err(|e| store_failed(&e))?;
        let Some(live) = self.touch(key, batch) else { return Err(not_found(key)) };
        // A number that no part has yet would hide what is to come.
        live.chat.seen = live.chat.seen.max(Some(part).min(last));
        Ok(ChatAnswer::Done(Done::ok()))
    }

    fn status(&self) -> GatewayStatus {
        let home = self.settings.home.to_string_lossy();
        let mut status = GatewayStatus::new(std::process::id(), env!("CARGO_PKG_VERSION"), home, self.started_at);
        let rows = || self.chats.values().flat_map(|live| &live.conversation.rows);
        status.running = rows().filter(|row| row.head == row.id && matches!(row.turn, Turn::Running { .. })).count() as u64;
        status.queued = rows().filter(|row| row.turn == Turn::Queued).count() as u64;
        status.idle = !self.has_work();
        status.draining = self.drain.is_some() || self.hold_until.is_some();
        status.drained_until = self.hold_until.map(|until| later(now(), until.saturating_duration_since(Instant::now())));
        status.ending = self.drain.as_ref().map(|drain| match drain.kind {
            DrainKind::Restart => "restart".to_owned(),
            DrainKind::Shutdown => "stop".to_owned(),
        });
        status.terminals = self.followers() as u64;
        status.notes.clone_from(&self.notes);
        status
    }

    /// Whether a turn runs or may start, or an agent is being stopped.
    pub(crate) fn has_work(&self) -> bool {
        self.drain.is_some()
            || self.hold_until.is_some()
            || !self.waiters.is_empty()
            || !self.held.is_empty()
            || self.chats.values().any(|live| {
                let takes_notices = live.is_taking || (live.has_notices_due && !live.has_all_notices_it_keeps());
                live.conversation.running().is_some() || live.is_agent_working() || takes_notices
            })
    }

    /// When the next turn may start that waits for a time.
    pub(crate) fn next_waiting(&self) -> Option<outlast_core::Time> {
        self.chats.values().filter_map(|live| live.wake_at).min()
    }
}

/// How many minutes it is until then, of which one has begun.
fn minutes_until(at: Instant) -> u64 {
    at.saturating_duration_since(Instant::now()).as_secs().saturating_add(1).div_ceil(60)
}

fn sent_elsewhere() -> Error {
    refusal(code::ID_TAKEN, "this message was sent in another conversation", "send it under another id")
}

fn too_many() -> Error {
    let what = "too many messages wait in this conversation";
    refusal(code::TOO_MANY, what, "wait until some of them are answered, or use /stop and /new")
}

fn not_ours() -> Error {
    refusal(code::BAD_REQUEST, "this request is not one of the coordinator's", "")
}

/// Only local chats can be reached over the socket, so no client can make or enter the conversation of another channel.
fn checked_key(key: &str) -> Result<(), Error> {
    let name =
        parse(key).filter(|parsed| parsed.platform == LOCAL_PLATFORM && parsed.namespace == MAIN_NAMESPACE).map(|parsed| parsed.chat_id);
    let is_local = name.and_then(|name| SessionKey::local(&name).ok()).is_some_and(|local| local.as_str() == key);
    if is_local {
        return Ok(());
    }
    let hint = "a local chat has the key agent:main:local:dm:NAME, and NAME has up to 64 letters, digits, `.`, `_` or `-`";
    Err(refusal(code::BAD_REQUEST, format!("{:?} is not the key of a local chat", shown(key)), hint))
}

fn checked_message_id(id: &str) -> Result<&str, Error> {
    let rest = id.strip_prefix("msg:").filter(|rest| !rest.is_empty());
    let rest = rest.ok_or_else(|| refusal(code::BAD_ID, "the id of a message starts with `msg:`", "make one with random digits"))?;
    checked_id(rest)?;
    Ok(rest)
}

fn checked_id(id: &str) -> Result<(), Error> {
    if id.is_empty() || id.len() > MAX_ID_LEN || !id.chars().all(|c| c.is_ascii_graphic()) {
        return Err(refusal(code::BAD_ID, "an id has 1 to 128 printable ASCII characters", "make one with random digits"));
    }
    Ok(())
}
