//! The interface between the gateway and an agent: orders in one direction, events in the other.

use crate::permission::{Decision, PermissionAsk, SettledBy};
use outlast_client::ClientError;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;

/// How many events may wait for the gateway. A driver whose gateway is slower than this stops reading its agent.
pub(crate) const MAX_WAITING_EVENTS: usize = 256;
/// How many bytes of text one turn may have. A reply is for people; an agent that writes more than a thick book repeats itself. However it is escaped, that much
/// fits into one frame of ours.
pub(crate) const MAX_REPLY_BYTES: usize = 2 << 20;
/// How many orders may wait for a driver. A gateway has one turn at a time, and a driver takes orders before anything else: this many are never reached by a turn,
/// a cancel, a stop and one decision for each permission.
const MAX_WAITING_ORDERS: usize = 256;

/// How agents of one kind are driven.
pub trait Driver: Send + Sync {
    /// Starts an actor for one conversation and generation. It must be called within a tokio runtime, and returns at once: events report what happens to the agent.
    ///
    /// The actor stops other agents of the same conversation before it starts one or follows one.
    fn start(&self, conversation: Conversation) -> Started;

    /// Looks for an attempt that an earlier gateway started.
    fn find<'a>(&'a self, key: &'a str, attempt: &'a Attempt) -> FoundFuture<'a>;
}

/// The answer of [`Driver::find`].
pub type FoundFuture<'a> = Pin<Box<dyn Future<Output = Result<FoundAttempt, ClientError>> + Send + 'a>>;

/// The state of an attempt that an earlier gateway started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundAttempt {
    /// Its process is there, and a prompt for the attempt continues to follow it.
    Held,
    /// It has no process, but the engine may be about to start one: the earlier gateway died with the request under way. A later attempt under the same name
    /// gets that process or starts it, and there are never two.
    NotStarted,
    /// It cannot be continued.
    Gone,
}

/// An actor that was started.
pub struct Started {
    /// Gives it orders. If it is dropped, the actor ends and leaves the agent running, as a crash of the gateway would.
    pub handle: AgentHandle,
    /// What happens. The channel is closed after [`AgentNews::Gone`].
    pub events: mpsc::Receiver<AgentEvent>,
}

/// One generation of a conversation, as its agent needs to know it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Conversation {
    /// The conversation's key.
    pub key: String,
    /// The name of the generation.
    pub generation: String,
    /// Where the agent works.
    pub cwd: PathBuf,
    /// The directory for the conversation's files. It is created if it is missing.
    pub files: PathBuf,
    /// The agent's own name for the session, if an earlier agent of this generation had one ([`AgentNews::Ready`]).
    pub agent_session: Option<String>,
    /// A summary of the conversation so far, for an agent that can neither resume nor load its session. It is put before the first prompt.
    pub summary: Option<String>,
    /// Whether a person is present, who can decide about permissions.
    pub is_attended: bool,
}

impl Conversation {
    /// A generation that no agent has worked in, without a person present.
    pub fn new(key: impl Into<String>, generation: impl Into<String>, cwd: impl Into<PathBuf>, files: impl Into<PathBuf>) -> Self {
        let (key, generation, cwd, files) = (key.into(), generation.into(), cwd.into(), files.into());
        Self { key, generation, cwd, files, agent_session: None, summary: None, is_attended: false }
    }

    /// The same, for which an agent has the session of this name.
    #[must_use]
    pub fn with_session(self, agent_session: impl Into<String>) -> Self {
        Self { agent_session: Some(agent_session.into()), ..self }
    }

    /// The same, with a summary of the conversation so far.
    #[must_use]
    pub fn with_summary(self, summary: impl Into<String>) -> Self {
        Self { summary: Some(summary.into()), ..self }
    }

    /// The same, with a person present.
    #[must_use]
    pub fn attended(self) -> Self {
        Self { is_attended: true, ..self }
    }
}

/// One time that a turn is started.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Attempt {
    /// The turn's id.
    pub turn: String,
    /// Which attempt, counted from 1.
    pub number: u32,
}

impl Attempt {
    /// The attempt of this number.
    pub fn new(turn: impl Into<String>, number: u32) -> Self {
        Self { turn: turn.into(), number }
    }
}

/// A part of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Block {
    /// Text for the agent to read.
    Text(String),
    /// A command of the agent's own, such as `/compact`.
    Command(String),
}

impl Block {
    /// The words.
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Command(text) => text,
        }
    }
}

/// A prompt that waits for its agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The attempt that it starts.
    pub attempt: Attempt,
    /// Its parts, in order.
    pub blocks: Vec<Block>,
}

/// One report of an actor.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentEvent {
    /// The attempt that it is about; nothing if no attempt was open.
    pub attempt: Option<Attempt>,
    /// What happened.
    pub what: AgentNews,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum AgentNews {
    /// The agent can be prompted.
    Ready {
        /// The agent's own name for its session, to be stored and given to the next agent of the generation.
        session: Option<String>,
        /// How the session came to be.
        opened: Opened,
    },
    /// The agent is being given the prompt. From here on it may have acted on it.
    Prompted,
    /// Text that was added to the reply. A [`AgentNews::Text`] with all of it replaces the drafts before it.
    Draft(String),
    /// A whole part of the reply.
    Text(String),
    /// A tool call began or changed.
    Tool(ToolLine),
    /// The agent asks whether it may do something.
    Permission(PermissionAsk),
    /// It was decided whether the agent may.
    PermissionSettled {
        /// The id of the request.
        id: String,
        /// What it was about.
        title: String,
        /// Whether the agent may.
        is_allowed: bool,
        /// Who decided.
        by: SettledBy,
    },
    /// The agent has finished the turn.
    Completed {
        /// Why the agent stopped.
        stop_reason: StopReason,
    },
    /// The turn failed. If the agent was stopped for it, [`AgentNews::Gone`] follows.
    Failed {
        /// What the agent did wrong.
        fault: AgentFault,
        /// Why, in a sentence for people.
        why: String,
    },
    /// The agent has been stopped or has ended. This is the last event.
    Gone {
        /// Whether it may have acted on the prompt of the attempt.
        had_prompt: bool,
        /// Whether a signal ended it that this driver did not send.
        was_killed: bool,
        /// Why, in a sentence for people.
        why: String,
    },
}

/// What an agent did wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AgentFault {
    /// It reported an error.
    Reported,
    /// It was silent for too long, and was stopped.
    TimedOut,
    /// It violated the protocol or wrote too much, and was stopped.
    Garbled,
}

/// How a session came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Opened {
    /// The agent resumed it.
    Resumed,
    /// The agent loaded it, and what it replayed was suppressed.
    Loaded,
    /// It is new. The summary goes with the first prompt.
    New,
    /// There is none: each turn is a command of its own.
    PerTurn,
}

/// A tool call, for one line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolLine {
    /// The agent's id for the call.
    pub id: String,
    /// What it does, on one line.
    pub title: String,
    /// The agent's word for what kind of tool it is, such as `read` or `execute`.
    pub kind: Option<String>,
    /// How far it is.
    pub status: ToolStatus,
}

/// How far a tool call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolStatus {
    /// It has not begun: its input is being written, or a permission is missing.
    Pending,
    /// It runs.
    InProgress,
    /// It has ended well.
    Completed,
    /// It has failed.
    Failed,
}

/// Why an agent ended its turn.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// Its answer is complete.
    EndTurn,
    /// The model ran out of tokens.
    MaxTokens,
    /// The model was asked too often in one turn.
    MaxTurnRequests,
    /// The agent refuses to continue.
    Refusal,
    /// It was cancelled.
    Cancelled,
    /// Another reason, in the agent's own word.
    Other(String),
}

/// Gives an actor orders. No order waits for its result: events report it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct AgentHandle {
    slot: Arc<Mutex<PromptSlot>>,
    sender: mpsc::Sender<Order>,
}

/// Why an order was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotTaken {
    /// The actor has ended, or is about to: [`AgentNews::Gone`] is its last event.
    #[error("the agent is gone")]
    Over,
    /// A prompt waits for the agent already, or too many orders do.
    #[error("the agent has not taken the previous order yet")]
    Busy,
}

impl AgentHandle {
    /// Has the agent take a turn, as soon as it is ready. The gateway prompts again only after the previous attempt has ended.
    ///
    /// # Errors
    ///
    /// If the actor has ended or another prompt waits.
    pub fn prompt(&self, attempt: Attempt, blocks: Vec<Block>) -> Result<(), NotTaken> {
        {
            let mut slot = lock(&self.slot);
            match &*slot {
                PromptSlot::Over => return Err(NotTaken::Over),
                PromptSlot::Waiting(_) => return Err(NotTaken::Busy),
                PromptSlot::Empty => *slot = PromptSlot::Waiting(Prompt { attempt, blocks }),
            }
        }
        match self.send(Order::Prompt) {
            // The orders before this one wake the actor as well.
            Ok(()) | Err(NotTaken::Busy) => Ok(()),
            Err(NotTaken::Over) => Err(NotTaken::Over),
        }
    }

    /// Takes back a prompt that the agent was not given yet. False means that the agent has it, or may have it: then [`AgentHandle::cancel`] is the way.
    pub fn withdraw(&self, attempt: &Attempt) -> bool {
        lock(&self.slot).take_if(|prompt| prompt.attempt == *attempt).is_some()
    }

    /// Cancels an attempt. The attempt ends by an event as always. If the agent does not answer within the limit, it is stopped.
    ///
    /// # Errors
    ///
    /// If the actor has ended.
    pub fn cancel(&self, attempt: &Attempt) -> Result<(), NotTaken> {
        self.send(Order::Cancel(attempt.clone()))
    }

    /// Decides about a permission. A decision about one that is settled already, or with an option that was not offered, changes nothing.
    ///
    /// # Errors
    ///
    /// If the actor has ended.
    pub fn allow(&self, permission_id: impl Into<String>, decision: Decision) -> Result<(), NotTaken> {
        self.send(Order::Allow { permission_id: permission_id.into(), decision })
    }

    /// Sets whether a person is present. Without one, a permission is denied when its time limit has passed.
    ///
    /// # Errors
    ///
    /// If the actor has ended.
    pub fn attend(&self, is_attended: bool) -> Result<(), NotTaken> {
        self.send(Order::Attend(is_attended))
    }

    /// Stops the agent and its whole tree. [`AgentNews::Gone`] follows when that is done.
    ///
    /// # Errors
    ///
    /// If the actor has ended.
    pub fn stop(&self) -> Result<(), NotTaken> {
        self.send(Order::Stop)
    }

    fn send(&self, order: Order) -> Result<(), NotTaken> {
        self.sender.try_send(order).map_err(|e| match e {
            mpsc::error::TrySendError::Full(_) => NotTaken::Busy,
            mpsc::error::TrySendError::Closed(_) => NotTaken::Over,
        })
    }
}

/// An order for an actor.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// A prompt waits: [`Orders::take_prompt`].
    Prompt,
    /// Cancel this attempt.
    Cancel(Attempt),
    /// A permission was decided about.
    Allow {
        /// Its id.
        permission_id: String,
        /// What was decided.
        decision: Decision,
    },
    /// A person came, or the last one left.
    Attend(bool),
    /// Stop the agent.
    Stop,
}

/// The actor's end of an [`AgentHandle`]. Public so that a test of the gateway can play an agent.
#[derive(Debug)]
pub struct Orders {
    slot: Arc<Mutex<PromptSlot>>,
    receiver: mpsc::Receiver<Order>,
}

/// A handle, and the end at which its orders arrive.
pub fn orders() -> (AgentHandle, Orders) {
    let slot = Arc::new(Mutex::new(PromptSlot::Empty));
    let (sender, receiver) = mpsc::channel(MAX_WAITING_ORDERS);
    (AgentHandle { slot: slot.clone(), sender }, Orders { slot, receiver })
}

impl Orders {
    /// The next order; nothing once every handle was dropped. May be dropped while it waits.
    pub async fn next(&mut self) -> Option<Order> {
        self.receiver.recv().await
    }

    /// Takes the prompt that waits. From here on it cannot be withdrawn.
    pub fn take_prompt(&self) -> Option<Prompt> {
        lock(&self.slot).take_if(|_| true)
    }

    /// Takes the prompt of this attempt, if it still waits.
    pub fn take_prompt_of(&self, attempt: &Attempt) -> Option<Prompt> {
        lock(&self.slot).take_if(|prompt| prompt.attempt == *attempt)
    }

    /// Accepts no more orders. Returns the prompt that waits, which no agent will get.
    pub fn close(&mut self) -> Option<Prompt> {
        self.receiver.close();
        match std::mem::replace(&mut *lock(&self.slot), PromptSlot::Over) {
            PromptSlot::Waiting(prompt) => Some(prompt),
            PromptSlot::Empty | PromptSlot::Over => None,
        }
    }
}

/// Where a prompt waits. Handle and actor share it, so that a prompt is either withdrawn or given to the agent, and never both.
#[derive(Debug)]
enum PromptSlot {
    Empty,
    Waiting(Prompt),
    Over,
}

impl PromptSlot {
    fn take_if(&mut self, is_wanted: impl FnOnce(&Prompt) -> bool) -> Option<Prompt> {
        match std::mem::replace(self, Self::Empty) {
            Self::Waiting(prompt) if is_wanted(&prompt) => Some(prompt),
            other => {
                *self = other;
                None
            }
        }
    }
}

fn lock(slot: &Mutex<PromptSlot>) -> MutexGuard<'_, PromptSlot> {
    // It is replaced whole, so a panic elsewhere leaves it in order.
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> Vec<Block> {
        vec![Block::Text("hello".into())]
    }

    #[test]
    fn a_prompt_is_withdrawn_or_given_and_never_both() {
        let (handle, orders) = orders();
        let (first, second) = (Attempt::new("t", 1), Attempt::new("t", 2));
        handle.prompt(first.clone(), words()).unwrap();
        assert_eq!(handle.prompt(second.clone(), words()), Err(NotTaken::Busy));
        assert!(!handle.withdraw(&second) && handle.withdraw(&first) && !handle.withdraw(&first));
        assert_eq!(orders.take_prompt(), None);
        handle.prompt(second.clone(), words()).unwrap();
        assert_eq!(orders.take_prompt().map(|p| p.attempt), Some(second.clone()));
        assert!(!handle.withdraw(&second));
    }

    #[tokio::test]
    async fn a_prompt_to_an_actor_that_has_ended_is_refused_and_one_before_is_known_to_it() {
        let (handle, mut line) = orders();
        handle.prompt(Attempt::new("t", 1), words()).unwrap();
        assert!(line.close().is_some());
        assert_eq!(handle.prompt(Attempt::new("t", 2), words()), Err(NotTaken::Over));
        assert_eq!(handle.stop(), Err(NotTaken::Over));
        assert_eq!(line.next().await, Some(Order::Prompt));
        drop(handle);
        assert_eq!(line.next().await, None);
    }
}
