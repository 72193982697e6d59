//! Terminals for a program that is an agent's client itself, as a gateway is, so that it needs no proxy.

use crate::message::{self, Failure, INTERNAL, Message};
use crate::terminal::{Call, Done, Terminals};
use crate::waits::{Waits, cancelled};
use outlast_client::{Caller, Client, Owner};
use serde_json::value::RawValue;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The most unanswered calls of one agent. An agent waits for a handful; more calls than this are refused.
const MAX_CALLS_UNDER_WAY: usize = 1_024;

/// Answers the five calls about terminals, for one agent and one session.
pub struct TerminalService {
    terminals: Arc<Terminals>,
    waits: Arc<Waits>,
    under_way: Arc<AtomicUsize>,
    dir: String,
}

/// A call about terminals, from its arrival to its answer. If it is dropped, a wait is given up; a start or a stop may or may not have
/// happened.
pub type TerminalCall = Pin<Box<dyn Future<Output = TerminalAnswer> + Send>>;

impl TerminalService {
    /// A service whose terminals belong to `owner`. Commands inherit the environment of `caller` and start in `dir` unless they name a directory.
    pub fn new(client: Client, caller: Caller, owner: Owner, dir: impl Into<String>, redact: bool) -> Self {
        let terminals = Arc::new(Terminals::over(client, caller, owner, redact));
        Self { terminals, waits: Arc::default(), under_way: Arc::default(), dir: dir.into() }
    }

    /// Takes a line of the agent. `None` if it is not about terminals.
    pub fn take(&self, line: &[u8]) -> Option<TerminalCall> {
        let message = Message::read(line)?;
        let (method, id) = message.asks()?;
        let call = Call::read(method, message.params)?;
        let id = id.to_owned();
        let call = match call {
            Ok(_) if self.under_way.load(Relaxed) >= MAX_CALLS_UNDER_WAY => {
                let what = format!("{MAX_CALLS_UNDER_WAY} requests about terminals are under way: wait for one of them");
                Err(Failure::new(INTERNAL, what))
            }
            call => call.and_then(|call| self.terminals.arrived(&call).map(|()| call)),
        };
        let call = match call {
            Ok(call) => call,
            Err(failure) => return Some(Box::pin(std::future::ready(TerminalAnswer::new(&id, Err(failure).into())))),
        };
        let wait = matches!(call, Call::WaitForExit(_)).then(|| self.waits.begin(id.get()));
        let (terminals, dir, counted) = (self.terminals.clone(), self.dir.clone(), Counted::one(&self.under_way));
        Some(Box::pin(async move {
            let done = terminals.serve(call, Some(dir), cancelled(wait)).await;
            drop(counted);
            TerminalAnswer::new(&id, done)
        }))
    }

    /// Whether a line of the agent cancels a wait. If so, the wait is answered as cancelled.
    pub fn is_cancelled_by(&self, line: &[u8]) -> bool {
        Message::read(line).is_some_and(|message| self.waits.is_cancelled_by(&message))
    }
}

/// The answer for the agent.
pub struct TerminalAnswer {
    line: Vec<u8>,
    done: Done,
}

impl TerminalAnswer {
    fn new(id: &RawValue, done: Done) -> Self {
        Self { line: message::answer(Some(id), &done.outcome), done }
    }

    /// The answer as a line, with its line end.
    pub fn line(&self) -> &[u8] {
        &self.line
    }

    /// Says that the agent has the answer, so that an end in it counts as seen. Without this call the end becomes a notice.
    pub async fn delivered(self) {
        self.done.delivered().await;
    }
}

/// Counts one call until it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn one(of: &Arc<AtomicUsize>) -> Self {
        of.fetch_add(1, Relaxed);
        Self(of.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
