//! One command per turn: the prompt on its standard input, the reply on its standard output.
//!
//! The process has an id made from conversation, turn and attempt, so that a later gateway finds it again and follows it from its first byte: nothing is interrupted by
//! a crash of the gateway. The prompt is a file, written before the command is started, and standard input is that file: there is no moment at which the command
//! runs and has half of its prompt. Exit code 0 is *completed*, another one is *failed* with the last line it wrote. A command that a signal kills is *gone*.
//!
//! Decision 206: docs/decisions/gateway.md.

use crate::actor::{ERRORS_CHECK_PERIOD, OUTPUT_DRAIN_MOST, cancelled_before_prompt, drained_at, tell_gone, until};
use crate::driver::{
    AgentEvent, AgentFault, AgentNews, Attempt, Block, Conversation, Driver, FoundAttempt, FoundFuture, MAX_REPLY_BYTES,
    MAX_WAITING_EVENTS, Opened, Order, Orders, Prompt, Started, StopReason, orders,
};
use crate::program::{
    AgentInput, AgentPlace, AgentProcess, Ended, Launch, agent_session, attempt_process, is_held, last_line_of, own_file, retried,
    stop_agents_except,
};
use outlast_client::{Chunk, ClientError, ProcessId, code};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// How long a command may print nothing. The same as for an agent that speaks ACP.
const COMMAND_SILENCE_LIMIT: Duration = Duration::from_secs(30 * 60);

/// Drives agents that are one command per turn.
pub struct CommandDriver {
    place: AgentPlace,
    settings: CommandSettings,
}

/// How a command per turn is run.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CommandSettings {
    /// The program and its arguments. For a shell line: `sh`, `-c` and the line.
    pub argv: Vec<String>,
    /// A file with variables for the command.
    pub env_file: Option<PathBuf>,
    /// How long it may print nothing.
    pub silence: Duration,
}

impl CommandSettings {
    /// The usual limit.
    pub fn new(argv: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { argv: argv.into_iter().map(Into::into).collect(), env_file: None, silence: COMMAND_SILENCE_LIMIT }
    }

    /// A shell line.
    pub fn shell(line: impl Into<String>) -> Self {
        Self::new(["/bin/sh".to_owned(), "-c".to_owned(), line.into()])
    }
}

impl CommandDriver {
    /// A driver for commands that run in this place with these settings.
    pub fn new(place: AgentPlace, settings: CommandSettings) -> Self {
        Self { place, settings }
    }
}

impl Driver for CommandDriver {
    fn start(&self, conversation: Conversation) -> Started {
        let (handle, orders) = orders();
        let (sender, events) = mpsc::channel(MAX_WAITING_EVENTS);
        let (place, settings) = (self.place.clone(), self.settings.clone());
        tokio::spawn(CommandActor { place, settings, conversation, orders, events: sender }.run());
        Started { handle, events }
    }

    /// A process that runs, or has ended, is held if its output can be read. One whose end was not observed cannot be continued.
    fn find<'a>(&'a self, key: &'a str, attempt: &'a Attempt) -> FoundFuture<'a> {
        Box::pin(async move {
            match self.place.client.poll(&attempt_process(key, attempt).to_string()).await {
                Ok(info) if is_held(&info, key) => Ok(FoundAttempt::Held),
                Ok(_) => Ok(FoundAttempt::Gone),
                Err(e) if e.code() == code::NOT_FOUND => Ok(FoundAttempt::NotStarted),
                Err(e) => Err(e),
            }
        })
    }
}

struct CommandActor {
    place: AgentPlace,
    settings: CommandSettings,
    conversation: Conversation,
    orders: Orders,
    events: mpsc::Sender<AgentEvent>,
}

/// How an attempt ended for its actor.
enum AttemptEnd {
    /// This is reported, and the next prompt may come.
    Told(AgentNews),
    /// The actor ends.
    Gone { had_prompt: bool, why: String },
    /// The gateway is not there any more. The command is left as it is.
    Detached,
}

impl CommandActor {
    async fn run(mut self) {
        let ready = AgentNews::Ready { session: None, opened: Opened::PerTurn };
        if self.events.send(AgentEvent { attempt: None, what: ready }).await.is_err() {
            return;
        }
        loop {
            if let Some(prompt) = self.orders.take_prompt() {
                let attempt = prompt.attempt.clone();
                match self.attempt(prompt).await {
                    AttemptEnd::Told(what) => {
                        if !self.tell(&attempt, what).await {
                            return;
                        }
                    }
                    AttemptEnd::Gone { had_prompt: true, why } => {
                        return tell_gone(&mut self.orders, &self.events, Some(attempt), why).await;
                    }
                    AttemptEnd::Gone { had_prompt: false, why } => {
                        self.orders.close();
                        let what = AgentNews::Gone { had_prompt: false, was_killed: false, why };
                        // Fails if the gateway has ended.
                        let _unheard = self.tell(&attempt, what).await;
                        return;
                    }
                    AttemptEnd::Detached => return,
                }
                continue;
            }
            match self.orders.next().await {
                None => return,
                Some(Order::Stop) => return tell_gone(&mut self.orders, &self.events, None, "the agent was stopped".into()).await,
                Some(Order::Cancel(attempt)) => {
                    if self.orders.take_prompt_of(&attempt).is_some() && self.events.send(cancelled_before_prompt(attempt)).await.is_err() {
                        return;
                    }
                }
                Some(Order::Prompt | Order::Allow { .. } | Order::Attend(_)) => {}
            }
        }
    }

    async fn tell(&self, attempt: &Attempt, what: AgentNews) -> bool {
        self.events.send(AgentEvent { attempt: Some(attempt.clone()), what }).await.is_ok()
    }

    /// One attempt, from the prompt to its end. If its process exists, it is followed instead of started.
    async fn attempt(&mut self, prompt: Prompt) -> AttemptEnd {
        let attempt = prompt.attempt.clone();
        let id = attempt_process(&self.conversation.key, &attempt);
        let prompt_file = self.conversation.files.join(format!("{id}.prompt"));
        // From here on the command may run, even if the gateway is killed.
        if !self.tell(&attempt, AgentNews::Prompted).await {
            return AttemptEnd::Detached;
        }
        let process = match self.found_or_started(id, &prompt, &prompt_file).await {
            Ok(process) => process,
            Err(why) => return AttemptEnd::Gone { had_prompt: false, why },
        };
        let end = self.follow(&attempt, &process).await;
        if !matches!(end, AttemptEnd::Detached) {
            // The command has read its prompt or will not. What cannot be removed is removed with the conversation's files.
            let _left = std::fs::remove_file(&prompt_file);
        }
        end
    }

    async fn found_or_started(&self, id: ProcessId, prompt: &Prompt, prompt_file: &Path) -> Result<AgentProcess, String> {
        let Self { place, conversation, settings, .. } = self;
        let (name, errors) = (id.to_string(), format!("{id}.stderr"));
        tracing::debug!(key = conversation.key, %id, "the engine is asked about a command");
        let known = retried(|| place.client.poll(&name)).await;
        tracing::debug!(key = conversation.key, %id, "the engine has answered about a command");
        match known {
            Ok(info) if info.session_key.as_deref() == Some(agent_session(&conversation.key).as_str()) => {
                let others = retried(|| stop_agents_except(&place.client, &conversation.key, Some(id))).await;
                others.map_err(|e| format!("other agents of the conversation cannot be stopped: {e}"))?;
                return Ok(AgentProcess::of(&place.client, id, conversation.files.join(errors)));
            }
            Ok(_) => return Err(format!("the id {id} of this attempt is that of another process")),
            Err(e) if e.code() == code::NOT_FOUND => {}
            Err(e) => return Err(format!("the command cannot be started: {e}")),
        }
        write_prompt(prompt, prompt_file).map_err(|e| format!("cannot write the prompt {}: {e}", prompt_file.display()))?;
        tracing::debug!(key = conversation.key, %id, "a command is given to the engine");
        let env_file = settings.env_file.as_deref();
        let launch = Launch { argv: &settings.argv, env_file, input: AgentInput::File(prompt_file), id: Some(id), errors: &errors };
        AgentProcess::start(place, conversation, launch).await.map_err(|e| format!("the command cannot be started: {e}"))
    }

    /// Reads the reply until the command has ended.
    async fn follow(&mut self, attempt: &Attempt, process: &AgentProcess) -> AttemptEnd {
        let mut output = process.output();
        let mut reply = Reply::default();
        let mut ended = Box::pin(process.clone().ended());
        let mut end: Option<(Ended, Instant)> = None;
        let mut last_heard = Instant::now();
        let mut errors_check = Instant::now() + ERRORS_CHECK_PERIOD;
        let stop = loop {
            let silent = end.is_none().then(|| last_heard + self.settings.silence);
            let drained = end.as_ref().map(|(_, at)| drained_at(*at, last_heard));
            tokio::select! {
                biased;
                order = self.orders.next() => match order {
                    None => return AttemptEnd::Detached,
                    Some(Order::Stop) => break CommandStop::Ordered,
                    Some(Order::Cancel(of)) if of == *attempt => break CommandStop::Cancelled,
                    Some(Order::Cancel(_) | Order::Prompt | Order::Allow { .. } | Order::Attend(_)) => {}
                },
                () = until(silent) => {
                    break CommandStop::Fault(AgentFault::TimedOut, format!("the command printed nothing for {} s and was stopped", self.settings.silence.as_secs_f64()));
                }
                () = until(drained) => {
                    let is_late = end.as_ref().is_none_or(|(_, at)| *at + OUTPUT_DRAIN_MOST <= Instant::now());
                    match output.is_all_read().await {
                        Ok(false) if !is_late => last_heard = Instant::now(),
                        Ok(false) => break CommandStop::Fault(AgentFault::Garbled, "the rest of the reply cannot be read".into()),
                        Ok(true) => break CommandStop::Over,
                        Err(error) => break CommandStop::Unreachable(error),
                    }
                }
                result = &mut ended, if end.is_none() => match result {
                    Ok(how) => end = Some((how, Instant::now())),
                    Err(error) => break CommandStop::Unreachable(error),
                },
                chunk = output.next() => {
                    match chunk {
                        Ok(Some(Chunk::Bytes { bytes, .. })) => {
                            let draft = reply.push(&bytes);
                            if reply.text.len() > MAX_REPLY_BYTES {
                                break CommandStop::Fault(AgentFault::Garbled, format!("the command printed more than {MAX_REPLY_BYTES} bytes"));
                            }
                            if !draft.is_empty() && !self.tell(attempt, AgentNews::Draft(draft)).await {
                                return AttemptEnd::Detached;
                            }
                            // A gateway that is slow does not cost the end of the reply.
                            last_heard = Instant::now();
                        }
                        Ok(Some(Chunk::Gap { from, to, why })) => {
                            break CommandStop::Fault(AgentFault::Garbled, format!("bytes {from} to {to} of the reply are gone: {why}"));
                        }
                        Ok(None) => break CommandStop::Over,
                        Err(error) => break CommandStop::Unreachable(error),
                    }
                }
                () = tokio::time::sleep_until(errors_check) => {
                    process.bound_errors();
                    errors_check = Instant::now() + ERRORS_CHECK_PERIOD;
                }
            }
        };
        tracing::debug!(key = self.conversation.key, "a command says nothing more");
        let text = reply.finish();
        let last_line = last_line_of(&text);
        // What was printed is a part of the attempt, however that ends.
        if !text.trim().is_empty() && !self.tell(attempt, AgentNews::Text(text)).await {
            return AttemptEnd::Detached;
        }
        match stop {
            CommandStop::Over => {
                let ended = match end {
                    Some((ended, _)) => Ok(ended),
                    // It closed its output and runs on: its end decides, within the same limits.
                    None => self.end_of(attempt, process, ended).await,
                };
                match ended {
                    // It is tried again, and what is left of it would work beside the next attempt. What a command leaves that ended by itself is its intention.
                    Ok(ended @ (Ended::Killed { .. } | Ended::Lost)) => match process.stop().await {
                        Ok(()) => verdict(ended, process, last_line),
                        Err(error) => AttemptEnd::Gone {
                            had_prompt: true,
                            why: format!("the command {ended}, and what it left could not be stopped: {error}"),
                        },
                    },
                    Ok(ended) => verdict(ended, process, last_line),
                    Err(end) => end,
                }
            }
            other => self.stopped(other, process).await,
        }
    }

    /// Waits for a command that has closed its output.
    async fn end_of(
        &mut self,
        attempt: &Attempt,
        process: &AgentProcess,
        mut ended: std::pin::Pin<Box<impl Future<Output = Result<Ended, ClientError>>>>,
    ) -> Result<Ended, AttemptEnd> {
        let silent = Instant::now() + self.settings.silence;
        let stop = loop {
            tokio::select! {
                biased;
                order = self.orders.next() => match order {
                    None => return Err(AttemptEnd::Detached),
                    Some(Order::Stop) => break CommandStop::Ordered,
                    Some(Order::Cancel(of)) if of == *attempt => break CommandStop::Cancelled,
                    Some(Order::Cancel(_) | Order::Prompt | Order::Allow { .. } | Order::Attend(_)) => {}
                },
                result = &mut ended => match result {
                    Ok(ended) => return Ok(ended),
                    Err(error) => break CommandStop::Unreachable(error),
                },
                () = tokio::time::sleep_until(silent) => break CommandStop::Fault(AgentFault::TimedOut, "the command closed its output and did not end".into()),
            }
        };
        Err(self.stopped(stop, process).await)
    }

    /// Stops a command, and says what that makes of its attempt.
    async fn stopped(&self, stop: CommandStop, process: &AgentProcess) -> AttemptEnd {
        let end = match stop {
            CommandStop::Cancelled => AttemptEnd::Told(AgentNews::Completed { stop_reason: StopReason::Cancelled }),
            CommandStop::Fault(fault, why) => AttemptEnd::Told(AgentNews::Failed { fault, why }),
            CommandStop::Ordered | CommandStop::Over => AttemptEnd::Gone { had_prompt: true, why: "the agent was stopped".into() },
            CommandStop::Unreachable(error) => {
                AttemptEnd::Gone { had_prompt: true, why: format!("the command cannot be followed any more: {error}") }
            }
        };
        match process.stop().await {
            Ok(()) => end,
            // The next start of an agent in this conversation, or of a gateway, tries again.
            Err(error) => AttemptEnd::Gone { had_prompt: true, why: format!("the command could not be stopped: {error}") },
        }
    }
}

/// Why a command is not followed any more.
enum CommandStop {
    /// It has ended, or prints nothing more.
    Over,
    /// Its attempt was cancelled. A command knows no other way than to be stopped.
    Cancelled,
    /// The gateway wants it stopped.
    Ordered,
    /// It did what it may not do.
    Fault(AgentFault, String),
    /// The engine does not answer.
    Unreachable(ClientError),
}

/// What the end of a command makes of its attempt.
fn verdict(ended: Ended, process: &AgentProcess, last_line: Option<String>) -> AttemptEnd {
    let why = || match (process.last_words(), &last_line) {
        (words, _) if !words.is_empty() => format!("the command {ended}{words}"),
        (_, Some(line)) => format!("the command {ended}: {line}"),
        (_, None) => format!("the command {ended}"),
    };
    let is_missing = ended == Ended::Exited(127);
    match &ended {
        Ended::Exited(0) => AttemptEnd::Told(AgentNews::Completed { stop_reason: StopReason::EndTurn }),
        Ended::Exited(_) => {
            let hint =
                if is_missing { " (commands run with the PATH of your login files: give the whole path of the program)" } else { "" };
            AttemptEnd::Told(AgentNews::Failed { fault: AgentFault::Reported, why: why() + hint })
        }
        Ended::NotStarted(_) => AttemptEnd::Gone { had_prompt: false, why: why() },
        Ended::Killed { .. } | Ended::Lost => AttemptEnd::Gone { had_prompt: true, why: why() },
    }
}

/// Puts the prompt on disk, whole, before anything is started with it.
fn write_prompt(prompt: &Prompt, file: &Path) -> std::io::Result<()> {
    let text: Vec<&str> = prompt.blocks.iter().map(Block::text).collect();
    let (Some(dir), Some(name)) = (file.parent(), file.file_name().and_then(|name| name.to_str())) else {
        return Err(std::io::ErrorKind::InvalidInput.into());
    };
    // Filled under another name and then put in place: a process that an earlier gateway asked for may read what that one wrote, and must not read half of it.
    let draft = own_file(dir, &format!("{name}.new"))?;
    std::fs::write(&draft, text.join("\n\n") + "\n")?;
    std::fs::File::open(&draft)?.sync_all()?;
    std::fs::rename(draft, file)
}

/// The reply so far. Output is bytes, and a character may be cut by the end of a piece.
#[derive(Default)]
struct Reply {
    text: String,
    /// The beginning of a character whose rest has not come.
    cut: Vec<u8>,
}

impl Reply {
    /// Takes a piece, and returns the text that it adds.
    fn push(&mut self, bytes: &[u8]) -> String {
        self.cut.extend_from_slice(bytes);
        let whole = match self.cut.utf8_chunks().last() {
            // Up to three bytes that may become a character with what comes next.
            Some(last) if is_cut(last.invalid()) => self.cut.len() - last.invalid().len(),
            _ => self.cut.len(),
        };
        let rest = self.cut.split_off(whole);
        let added = String::from_utf8_lossy(&self.cut).into_owned();
        self.cut = rest;
        self.text.push_str(&added);
        added
    }

    fn finish(mut self) -> String {
        self.text.push_str(&String::from_utf8_lossy(&self.cut));
        self.text
    }
}

/// Whether bytes are the beginning of a character.
fn is_cut(bytes: &[u8]) -> bool {
    !bytes.is_empty() && std::str::from_utf8(bytes).is_err_and(|e| e.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_that_is_cut_between_pieces_is_whole_in_the_reply() {
        let text = "aé€𝄞b".as_bytes();
        for size in 1..text.len() {
            let mut reply = Reply::default();
            let drafts: String = text.chunks(size).map(|piece| reply.push(piece)).collect();
            assert_eq!((drafts.as_str(), reply.finish().as_str()), ("aé€𝄞b", "aé€𝄞b"), "{size}");
        }
        let mut reply = Reply::default();
        assert_eq!(reply.push(b"a\xffb\xe2\x82"), "a\u{fffd}b");
        assert_eq!(reply.finish(), "a\u{fffd}b\u{fffd}");
    }
}
