//! One actor: a process of the engine at one end, the gateway at the other, and a [`Talk`] between them.

use super::AcpSettings;
use super::line::parse_line;
use super::talk::{Effect, Talk, TalkEnd};
use crate::actor::{
    ERRORS_CHECK_PERIOD, OUTPUT_DRAIN_LIMIT, OUTPUT_DRAIN_MOST, cancelled_before_prompt, drained_at, tell_end, tell_gone, until,
};
use crate::driver::{AgentEvent, AgentFault, AgentNews, Conversation, Order, Orders};
use crate::program::{AgentInput, AgentOutput, AgentPlace, AgentProcess, Ended, Launch, retried};
use outlast_acp::{Line, Splitter, TerminalAnswer, TerminalService};
use outlast_client::{At, Chunk, ClientError, Owner, caller, code};
use std::collections::VecDeque;
use std::pin::Pin;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

/// How many lines may wait for an agent that does not read its input.
const MAX_WAITING_LINES: usize = 1_024;
/// How many events are held for a slow gateway, next to those in its channel, before the agent is not read any more.
const MAX_HELD_EVENTS: usize = 256;
/// The name of the file with standard error in the conversation's directory.
const AGENT_ERRORS_FILE: &str = "agent.stderr";

/// Why an actor ends.
#[derive(Debug)]
enum DriveEnd {
    /// The agent is stopped, and that is reported to the gateway.
    Agent(TalkEnd),
    /// The gateway wants the agent stopped.
    Ordered,
    /// The gateway has ended. The agent keeps running, for the next gateway to find.
    Detached,
}

pub(super) async fn drive(
    place: AgentPlace,
    settings: AcpSettings,
    conversation: Conversation,
    mut orders: Orders,
    events: mpsc::Sender<AgentEvent>,
) {
    let mut early = EarlyOrders { is_attended: conversation.is_attended, should_stop: false };
    let launch = Launch {
        argv: &settings.argv,
        env_file: settings.env_file.as_deref(),
        input: AgentInput::Written,
        id: None,
        errors: AGENT_ERRORS_FILE,
    };
    let started = {
        let start = AgentProcess::start(&place, &conversation, launch);
        tokio::pin!(start);
        loop {
            tokio::select! {
                biased;
                order = orders.next() => {
                    if !early.take(order, &orders, &events).await {
                        return;
                    }
                }
                started = &mut start => break started,
            }
        }
    };
    let process = match started {
        Ok(process) => process,
        Err(error) => {
            let why = format!("the agent cannot be started: {error}");
            return tell_gone(&mut orders, &events, None, why).await;
        }
    };
    let conversation = Conversation { is_attended: early.is_attended, ..conversation };
    let mut actor = Actor::new(&place, &settings, conversation, &process);
    let end = if early.should_stop { DriveEnd::Ordered } else { actor.run(&mut orders, &events).await };
    actor.finish(end, &process, &mut orders, &events).await;
}

/// What the gateway orders while the agent is being started.
struct EarlyOrders {
    is_attended: bool,
    should_stop: bool,
}

impl EarlyOrders {
    /// Takes an order; false if the gateway has ended.
    async fn take(&mut self, order: Option<Order>, orders: &Orders, events: &mpsc::Sender<AgentEvent>) -> bool {
        match order {
            None => return false,
            Some(Order::Cancel(attempt)) => {
                if orders.take_prompt_of(&attempt).is_some() {
                    return events.send(cancelled_before_prompt(attempt)).await.is_ok();
                }
            }
            Some(Order::Attend(is_attended)) => self.is_attended = is_attended,
            // The start is finished first: half a start would leave an agent that runs.
            Some(Order::Stop) => self.should_stop = true,
            // A prompt waits in its slot, and nothing was asked yet.
            Some(Order::Prompt | Order::Allow { .. }) => {}
        }
        true
    }
}

/// A line for the agent.
struct Outgoing {
    line: Vec<u8>,
    /// The answer in it, if it is one about terminals.
    answer: Option<TerminalAnswer>,
}

struct Actor {
    /// The conversation, for the log.
    key: String,
    talk: Talk,
    terminals: TerminalService,
    calls: JoinSet<TerminalAnswer>,
    output: AgentOutput,
    splitter: Splitter,
    /// How many bytes have come since the last end of a line.
    unfinished_bytes: usize,
    line_bytes: usize,
    lines: mpsc::Sender<Outgoing>,
    /// Nothing once it has ended.
    writer: Option<JoinHandle<Result<(), ClientError>>>,
    ended: Pin<Box<dyn Future<Output = Result<Ended, ClientError>> + Send>>,
    /// What was started, as a person would type it.
    command_line: String,
    /// How the agent ended, and when.
    end: Option<(Ended, Instant)>,
    /// When something of its output was last read or understood.
    last_progress: Instant,
    held: VecDeque<AgentEvent>,
    errors_check: Instant,
    process: AgentProcess,
}

impl Actor {
    fn new(place: &AgentPlace, settings: &AcpSettings, conversation: Conversation, process: &AgentProcess) -> Self {
        let owner = Owner { session: Some(conversation.key.clone()), task: None, generation: Some(conversation.generation.clone()) };
        let dir = conversation.cwd.to_string_lossy().into_owned();
        // Processes in a terminal belong to the conversation, as the agent does: `outlast gateway restart` there must not wait for its own turn.
        let own = [("OUTLAST_SESSION", &conversation.key), ("OUTLAST_GENERATION", &conversation.generation)];
        let mut surroundings = place.surroundings.clone();
        surroundings.env.extend(caller(own.map(|(name, value)| (name.into(), value.into())), &conversation.cwd).env);
        let terminals = TerminalService::new(place.client.clone(), surroundings, owner, dir, settings.is_redacting);
        let (lines, waiting) = mpsc::channel(MAX_WAITING_LINES);
        Self {
            writer: Some(tokio::spawn(write_lines(conversation.key.clone(), process.clone(), waiting))),
            key: conversation.key.clone(),
            talk: Talk::begin(settings, conversation, Instant::now()),
            terminals,
            calls: JoinSet::new(),
            output: process.output(),
            splitter: Splitter::new(settings.limits.line_bytes),
            unfinished_bytes: 0,
            line_bytes: settings.limits.line_bytes,
            lines,
            ended: Box::pin(process.clone().ended()),
            command_line: settings.argv.join(" "),
            end: None,
            last_progress: Instant::now(),
            held: VecDeque::new(),
            errors_check: Instant::now() + ERRORS_CHECK_PERIOD,
            process: process.clone(),
        }
    }

    /// Runs until the agent or the gateway ends it.
    async fn run(&mut self, orders: &mut Orders, events: &mpsc::Sender<AgentEvent>) -> DriveEnd {
        loop {
            if self.talk.is_free()
                && let Some(prompt) = orders.take_prompt()
            {
                self.talk.prompt(prompt, Instant::now());
            }
            if let Some(end) = self.perform() {
                return DriveEnd::Agent(end);
            }
            // Lines are read one by one: their effects keep their order, and the bound on held events holds.
            if self.held.len() < MAX_HELD_EVENTS {
                match self.splitter.next_line() {
                    Some(line) => match self.hear(line) {
                        Some(end) => return DriveEnd::Agent(end),
                        None => continue,
                    },
                    // A line that never ends is not waited for.
                    None if self.unfinished_bytes > self.line_bytes => return DriveEnd::Agent(self.too_long()),
                    None => {}
                }
            }
            let due = self.talk.deadline(!self.calls.is_empty());
            let drained = self.end.as_ref().map(|(_, at)| drained_at(*at, self.last_progress));
            tokio::select! {
                biased;
                order = orders.next() => match order {
                    Some(Order::Stop) => return DriveEnd::Ordered,
                    Some(order) => self.order(order, orders),
                    None => return DriveEnd::Detached,
                },
                // Before the output of the agent, so that a flood of it delays no time limit.
                () = until(due) => self.talk.tick(!self.calls.is_empty(), Instant::now()),
                // The end of the output is not lost if the gateway is slow.
                () = until(drained), if self.held.len() < MAX_HELD_EVENTS => {
                    if self.is_drained().await {
                        return DriveEnd::Agent(self.gone());
                    }
                    self.last_progress = Instant::now();
                }
                room = events.reserve(), if !self.held.is_empty() => match (room, self.held.pop_front()) {
                    (Ok(room), Some(event)) => room.send(event),
                    (Ok(_), None) => {}
                    (Err(_), _) => return DriveEnd::Detached,
                },
                Some(answer) = self.calls.join_next() => {
                    self.talk.touch(Instant::now());
                    // A call that panicked leaves its agent without an answer, and the limits of the turn hold.
                    if let Ok(answer) = answer && let Some(end) = self.answer(answer) {
                        return DriveEnd::Agent(end);
                    }
                }
                chunk = self.output.next(), if self.held.len() < MAX_HELD_EVENTS => {
                    if let Some(end) = self.read(chunk).await {
                        return DriveEnd::Agent(end);
                    }
                }
                ended = &mut self.ended, if self.end.is_none() => match ended {
                    Ok(ended) => self.end = Some((ended, Instant::now())),
                    Err(error) => return DriveEnd::Agent(TalkEnd::Gone(format!("the agent cannot be waited for: {error}"))),
                },
                written = joined(&mut self.writer) => {
                    self.writer = None;
                    if let Some(end) = unwritten(written) {
                        return DriveEnd::Agent(end);
                    }
                }
                () = tokio::time::sleep_until(self.errors_check) => {
                    self.process.bound_errors();
                    self.errors_check = Instant::now() + ERRORS_CHECK_PERIOD;
                }
            }
        }
    }

    /// Carries out the effects of the talk.
    fn perform(&mut self) -> Option<TalkEnd> {
        for effect in self.talk.take_effects() {
            match effect {
                Effect::Send(line) => {
                    if let Some(end) = self.write(Outgoing { line, answer: None }) {
                        return Some(end);
                    }
                }
                Effect::Tell(event) => self.hold(event),
                Effect::End(end) => return Some(end),
            }
        }
        None
    }

    fn write(&mut self, outgoing: Outgoing) -> Option<TalkEnd> {
        match self.lines.try_send(outgoing) {
            Ok(()) => None,
            Err(mpsc::error::TrySendError::Full(_)) => Some(TalkEnd::Failed(
                AgentFault::TimedOut,
                format!("the agent does not read its input: {MAX_WAITING_LINES} messages wait for it"),
            )),
            // The writer ends when the agent does; the end of its output reports how.
            Err(mpsc::error::TrySendError::Closed(_)) => None,
        }
    }

    fn answer(&mut self, answer: TerminalAnswer) -> Option<TalkEnd> {
        self.write(Outgoing { line: answer.line().to_vec(), answer: Some(answer) })
    }

    /// Keeps an event until the gateway has room for it. Drafts that wait are joined.
    fn hold(&mut self, event: AgentEvent) {
        if let AgentNews::Draft(more) = &event.what
            && let Some(AgentEvent { attempt, what: AgentNews::Draft(text) }) = self.held.back_mut()
            && *attempt == event.attempt
        {
            text.push_str(more);
            return;
        }
        self.held.push_back(event);
    }

    fn order(&mut self, order: Order, orders: &Orders) {
        let now = Instant::now();
        match order {
            // It is taken when the agent is free.
            Order::Prompt | Order::Stop => {}
            Order::Cancel(attempt) => match orders.take_prompt_of(&attempt) {
                Some(_) => self.hold(cancelled_before_prompt(attempt)),
                None => self.talk.cancel(&attempt, now),
            },
            Order::Allow { permission_id, decision } => {
                self.talk.allow(&permission_id, &decision);
                self.talk.touch(now);
            }
            Order::Attend(is_attended) => self.talk.attend(is_attended, now),
        }
    }

    /// Takes a piece of the agent's output, or its end.
    async fn read(&mut self, chunk: Result<Option<Chunk>, ClientError>) -> Option<TalkEnd> {
        self.last_progress = Instant::now();
        match chunk {
            Ok(Some(Chunk::Bytes { bytes, .. })) => {
                tracing::debug!(key = self.key, bytes = bytes.len(), "an agent has said something");
                self.unfinished_bytes = match bytes.iter().rposition(|b| *b == b'\n') {
                    Some(at) => bytes.len() - at - 1,
                    None => self.unfinished_bytes + bytes.len(),
                };
                self.splitter.push(&bytes);
                None
            }
            Ok(Some(Chunk::Gap { from, to, why })) => {
                Some(TalkEnd::Failed(AgentFault::Garbled, format!("bytes {from} to {to} of the agent's output are gone: {why}")))
            }
            Ok(None) => {
                // An agent that has closed its output says nothing more, whether or not it lives.
                if self.end.is_none() {
                    let ended = tokio::time::timeout(OUTPUT_DRAIN_LIMIT, &mut self.ended).await;
                    self.end = ended.ok().and_then(Result::ok).map(|ended| (ended, Instant::now()));
                }
                Some(self.gone())
            }
            Err(error) => Some(TalkEnd::Gone(format!("the agent cannot be read any more: {error}"))),
        }
    }

    /// Takes a line of the agent's.
    fn hear(&mut self, line: Line) -> Option<TalkEnd> {
        self.last_progress = Instant::now();
        let line = match line {
            Line::Whole(line) => line,
            Line::Long(_) => return Some(self.too_long()),
        };
        if let Some(call) = self.terminals.take(&line) {
            self.talk.touch(Instant::now());
            self.calls.spawn(call);
            return None;
        }
        if self.terminals.is_cancelled_by(&line) {
            return None;
        }
        match parse_line(&line) {
            Ok(said) => self.talk.hear(said, line.len(), Instant::now()),
            Err(nonsense) => return Some(TalkEnd::Failed(AgentFault::Garbled, self.does_not_speak(&nonsense))),
        }
        None
    }

    /// The error names the program: it was found when an agent was last chosen, and may have been replaced since.
    fn does_not_speak(&self, nonsense: &impl std::fmt::Display) -> String {
        let program = &self.command_line;
        format!(
            "the agent does not speak ACP: {nonsense}. It was started as `{program}`; `outlast chat --agent` looks for the program again"
        )
    }

    /// Whether the rest of an ended agent's output was read, or its time is up.
    async fn is_drained(&mut self) -> bool {
        let is_late = self.end.as_ref().is_none_or(|(_, at)| *at + OUTPUT_DRAIN_MOST <= Instant::now());
        // An engine that does not answer for so long has nothing to add.
        is_late || self.output.is_all_read().await.unwrap_or(true)
    }

    fn too_long(&self) -> TalkEnd {
        TalkEnd::Failed(AgentFault::Garbled, format!("the agent wrote a line of more than {} bytes", self.line_bytes))
    }

    fn gone(&self) -> TalkEnd {
        let last_words = self.process.last_words();
        TalkEnd::Gone(match &self.end {
            Some((ended, _)) => format!("the agent {ended}{last_words}"),
            None => format!("the agent closed its output{last_words}"),
        })
    }

    /// Stops the agent, then reports to the gateway: after the report, the next agent may be started.
    async fn finish(mut self, end: DriveEnd, process: &AgentProcess, orders: &mut Orders, events: &mpsc::Sender<AgentEvent>) {
        if let Some(writer) = &self.writer {
            writer.abort();
        }
        if matches!(end, DriveEnd::Detached) {
            return;
        }
        let was_killed = matches!(self.end, Some((Ended::Killed { .. }, _)));
        let mut attempt = self.talk.close();
        // Lines for the agent are dropped, because it is stopped. Reports belong to the turn.
        for effect in self.talk.take_effects() {
            if let Effect::Tell(event) = effect {
                self.hold(event);
            }
        }
        let stopped = process.stop().await;
        // One that failed is kept for people who look for the reason.
        if stopped.is_ok() && matches!(end, DriveEnd::Ordered) {
            process.remove().await;
        }
        let why = match end {
            DriveEnd::Agent(TalkEnd::Failed(fault, why)) => {
                if let Some(attempt) = attempt.take() {
                    self.hold(AgentEvent { attempt: Some(attempt), what: AgentNews::Failed { fault, why: why.clone() } });
                }
                why
            }
            DriveEnd::Agent(TalkEnd::Gone(why)) => why,
            DriveEnd::Ordered | DriveEnd::Detached => "the agent was stopped".into(),
        };
        let why = match stopped {
            Ok(()) => why,
            // The next start of an agent in this conversation, or of a gateway, tries again.
            Err(error) => format!("{why}; it could not be stopped: {error}"),
        };
        for event in self.held.drain(..) {
            if events.send(event).await.is_err() {
                return;
            }
        }
        tell_end(orders, events, attempt, was_killed, why).await;
    }
}

/// Writes lines in their order, each at its byte, so that a line that is written again after a crash of the engine arrives once.
async fn write_lines(key: String, process: AgentProcess, mut lines: mpsc::Receiver<Outgoing>) -> Result<(), ClientError> {
    let mut at = 0;
    while let Some(Outgoing { line, answer }) = lines.recv().await {
        tracing::debug!(key, bytes = line.len(), "a line is given to the agent");
        retried(|| process.client().write(process.name(), &line, At::Byte(at))).await?;
        at += line.len() as u64;
        if let Some(answer) = answer {
            answer.delivered().await;
        }
    }
    Ok(())
}

async fn joined<T>(task: &mut Option<JoinHandle<T>>) -> Result<T, tokio::task::JoinError> {
    match task {
        Some(task) => task.await,
        None => std::future::pending().await,
    }
}

/// What the end of the writer means. If the agent has ended, the end of its output reports how.
fn unwritten(written: Result<Result<(), ClientError>, tokio::task::JoinError>) -> Option<TalkEnd> {
    match written {
        Ok(Ok(())) => None,
        Ok(Err(error)) if matches!(error.code(), code::ALREADY_EXITED | code::NO_INPUT) => None,
        Ok(Err(error)) => Some(TalkEnd::Gone(format!("the agent cannot be written to: {error}"))),
        Err(_) => Some(TalkEnd::Gone("the agent cannot be written to".into())),
    }
}
