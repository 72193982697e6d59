//! Starts that are under way, also those that took longer than their calls could be kept waiting.
//!
//! Such a call is answered with the id of the process, and the start continues. If the engine refuses it then, there is no process that
//! could have a notice, so the next answer of the conversation says so.
//!
//! Decision 390: docs/decisions/tools-mcp.md.

use outlast_client::{Client, ClientError, ProcessId, ProcessInfo, Run};
use outlast_text::head_chars;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;
use tokio::sync::watch;

/// The most starts that are remembered. With more, calls wait for theirs.
const MAX_STARTS: usize = 256;

/// The most characters of a command in a line about its process.
const MAX_COMMAND_CHARS: usize = 200;

/// The starts of all conversations that are under way, and those that were refused after their calls were answered.
#[derive(Debug, Clone, Default)]
pub(crate) struct StartTable(Arc<Mutex<Vec<Start>>>);

#[derive(Debug)]
struct Start {
    process: ProcessId,
    /// The conversation that made the call.
    of: Arc<str>,
    command: String,
    state: StartState,
    /// Closed when the start is over.
    over: watch::Receiver<()>,
}

#[derive(Debug)]
enum StartState {
    /// Its call waits for it.
    Awaited,
    /// Its call was answered before, or was cancelled.
    Left,
    /// It is over, and its call is about to learn that.
    Over(Box<Result<ProcessInfo, ClientError>>),
    /// Nothing was started, and no answer has said that for sure.
    Refused { why: String, told: RefusalTold },
}

/// Whether an answer has said that a start was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RefusalTold {
    No,
    /// An answer that is under way says it.
    UnderWay,
    /// An answer said it, and may not have arrived.
    Maybe,
}

/// What is known of a start.
pub(crate) enum StartSeen {
    /// It is over: the process, or why there is none.
    Over(Box<Result<ProcessInfo, ClientError>>),
    /// It goes on.
    UnderWay,
}

impl StartTable {
    /// Starts a process, and waits for that until a time, or without a limit. If it takes longer, or the call is cancelled, it goes on.
    pub(crate) async fn run(&self, client: &Client, of: &Arc<str>, run: Run, process: ProcessId, until: Option<Instant>) -> StartSeen {
        let (closes, over) = watch::channel(());
        let Some(until) = until.filter(|_| self.add(process, of, run.spec.command.shown(), over.clone())) else {
            return StartSeen::Over(Box::new(client.run_info(run).await));
        };
        let (table, client) = (self.clone(), client.clone());
        tokio::spawn(async move {
            let started = client.run_info(run).await;
            table.end(process, started);
            drop(closes);
        });
        let awaited = AwaitedStart { table: self, process };
        closed(over, Some(until)).await;
        awaited.seen()
    }

    /// Waits for the start of a process that a call names, until a time, or without a limit. False if it is still under way.
    pub(crate) async fn is_over(&self, process: ProcessId, until: Option<Instant>) -> bool {
        let over = self.lock().iter().find(|start| start.process == process).map(|start| start.over.clone());
        match over {
            Some(over) => closed(over, until).await,
            None => true,
        }
    }

    /// Whether the start of a process is under way.
    pub(crate) fn is_under_way(&self, process: ProcessId) -> bool {
        let is_under_way = |state: &StartState| matches!(state, StartState::Awaited | StartState::Left);
        self.lock().iter().any(|start| start.process == process && is_under_way(&start.state))
    }

    /// Whether an answer to this conversation has to say that a start was refused.
    pub(crate) fn has_refused(&self, of: &str) -> bool {
        self.lock().iter().any(|start| *start.of == *of && start.is_to_be_told())
    }

    /// The lines for an answer to this conversation about starts that were refused. Each counts as told once the answer has arrived.
    pub(crate) fn tell(&self, of: &str) -> Vec<RefusedStart> {
        let mut all = self.lock();
        let told = all.iter_mut().filter(|start| *start.of == *of && start.is_to_be_told());
        told.filter_map(|start| self.telling(start)).collect()
    }

    /// The same for one process, of which the answer to a call is.
    pub(crate) fn tell_of(&self, process: ProcessId, of: &str) -> Option<RefusedStart> {
        let mut all = self.lock();
        let start = all.iter_mut().find(|start| start.process == process && *start.of == *of)?;
        self.telling(start)
    }

    fn telling(&self, start: &mut Start) -> Option<RefusedStart> {
        let StartState::Refused { why, told } = &mut start.state else { return None };
        let repeat = if *told == RefusalTold::No { "" } else { "(this may be a repeat) " };
        *told = RefusalTold::UnderWay;
        let (process, command) = (start.process, shown(&start.command));
        let line = format!("[IMPORTANT: {repeat}Process {process} could not be started: {why}. Command: {command}]");
        Some(RefusedStart { table: self.clone(), process, why: why.clone(), line, has_arrived: false })
    }

    /// Adds a start, if there is room.
    fn add(&self, process: ProcessId, of: &Arc<str>, command: String, over: watch::Receiver<()>) -> bool {
        let mut all = self.lock();
        if all.len() >= MAX_STARTS {
            // One that was refused and that no conversation has asked for makes room.
            let Some(oldest) = all.iter().position(|start| matches!(start.state, StartState::Refused { .. })) else { return false };
            all.remove(oldest);
        }
        all.push(Start { process, of: of.clone(), command, state: StartState::Awaited, over });
        true
    }

    fn end(&self, process: ProcessId, started: Result<ProcessInfo, ClientError>) {
        self.change(process, |state| match state {
            StartState::Left => refused(started),
            StartState::Awaited | StartState::Over(_) | StartState::Refused { .. } => Some(StartState::Over(Box::new(started))),
        });
    }

    fn change(&self, process: ProcessId, next: impl FnOnce(StartState) -> Option<StartState>) {
        let mut all = self.lock();
        let Some(at) = all.iter().position(|start| start.process == process) else { return };
        match next(std::mem::replace(&mut all[at].state, StartState::Left)) {
            Some(state) => all[at].state = state,
            None => drop(all.remove(at)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Start>> {
        self.0.lock().expect("nothing panics while it is held")
    }
}

/// What is kept of a start whose call was answered: nothing if there is a process, which the engine knows.
fn refused(started: Result<ProcessInfo, ClientError>) -> Option<StartState> {
    let why = |e: ClientError| match e {
        ClientError::Refused(_) => format!("{e}. Nothing was run"),
        // The engine may have accepted it before it could be reached no more.
        _ => format!("{e}. Look whether it runs before you run it again"),
    };
    started.err().map(|e| StartState::Refused { why: why(e), told: RefusalTold::No })
}

/// A command on one line.
pub(crate) fn shown(command: &str) -> String {
    let short = head_chars(command, MAX_COMMAND_CHARS);
    let more = if short.cut.is_some() { "…" } else { "" };
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    format!("{}{more}", short.text.chars().map(plain).collect::<String>())
}

/// Waits until the sender is gone. False if that takes too long.
async fn closed(mut over: watch::Receiver<()>, until: Option<Instant>) -> bool {
    // Nothing is ever sent.
    let closed = async { while over.changed().await.is_ok() {} };
    match until {
        Some(until) => tokio::time::timeout_at(until.into(), closed).await.is_ok(),
        None => {
            closed.await;
            true
        }
    }
}

impl Start {
    fn is_to_be_told(&self) -> bool {
        matches!(self.state, StartState::Refused { told: RefusalTold::No | RefusalTold::Maybe, .. })
    }
}

/// A start whose call waits. If the call is cancelled, the start goes on.
struct AwaitedStart<'a> {
    table: &'a StartTable,
    process: ProcessId,
}

impl AwaitedStart<'_> {
    /// What became of it. From now on its call does not wait for it.
    fn seen(self) -> StartSeen {
        let mut seen = StartSeen::UnderWay;
        self.table.change(self.process, |state| match state {
            StartState::Over(started) => {
                seen = StartSeen::Over(started);
                None
            }
            StartState::Awaited => Some(StartState::Left),
            other @ (StartState::Left | StartState::Refused { .. }) => Some(other),
        });
        seen
    }
}

impl Drop for AwaitedStart<'_> {
    fn drop(&mut self) {
        self.table.change(self.process, |state| match state {
            StartState::Awaited => Some(StartState::Left),
            StartState::Over(started) => refused(*started),
            other @ (StartState::Left | StartState::Refused { .. }) => Some(other),
        });
    }
}

/// A start that was refused, as an answer tells it. If it is dropped before [`arrived`](Self::arrived), it is told again, marked as a repeat.
#[derive(Debug)]
pub(crate) struct RefusedStart {
    table: StartTable,
    pub(crate) process: ProcessId,
    pub(crate) why: String,
    pub(crate) line: String,
    has_arrived: bool,
}

impl RefusedStart {
    /// The answer has arrived.
    pub(crate) fn arrived(mut self) {
        self.has_arrived = true;
    }
}

impl Drop for RefusedStart {
    fn drop(&mut self) {
        let has_arrived = self.has_arrived;
        self.table.change(self.process, |state| match state {
            StartState::Refused { why, .. } => (!has_arrived).then_some(StartState::Refused { why, told: RefusalTold::Maybe }),
            other @ (StartState::Awaited | StartState::Left | StartState::Over(_)) => Some(other),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure() -> Result<ProcessInfo, ClientError> {
        Err(ClientError::Unavailable { error: "the disk is full".into(), hint: String::new() })
    }

    fn begin(table: &StartTable, n: u8) -> (ProcessId, watch::Sender<()>) {
        let (closes, over) = watch::channel(());
        let process = ProcessId::from_bytes([n; 6]);
        assert!(table.add(process, &"a".into(), "make".into(), over));
        (process, closes)
    }

    #[test]
    fn a_start_that_is_refused_after_its_call_was_answered_is_told_once() {
        let table = StartTable::default();
        let (process, _closes) = begin(&table, 1);
        assert!(matches!(AwaitedStart { table: &table, process }.seen(), StartSeen::UnderWay));
        assert!(table.is_under_way(process) && !table.has_refused("a"));
        table.end(process, failure());
        assert!(!table.is_under_way(process) && table.has_refused("a") && !table.has_refused("b") && table.tell("b").is_empty());
        let lost = table.tell("a");
        assert_eq!(
            lost[0].line,
            format!(
                "[IMPORTANT: Process {process} could not be started: the disk is full. Look whether it runs before you run it again. Command: make]"
            )
        );
        assert!(table.tell("a").is_empty(), "an answer is under way that tells it");
        drop(lost);
        let again = table.tell_of(process, "a").unwrap();
        assert!(again.line.starts_with("[IMPORTANT: (this may be a repeat) Process"), "{}", again.line);
        again.arrived();
        assert!(!table.has_refused("a") && table.lock().is_empty());
    }

    #[test]
    fn a_start_that_is_over_in_time_leaves_nothing() {
        let table = StartTable::default();
        let (process, _closes) = begin(&table, 1);
        table.end(process, failure());
        assert!(!table.has_refused("a"));
        assert!(matches!(AwaitedStart { table: &table, process }.seen(), StartSeen::Over(started) if started.is_err()));
        assert!(table.lock().is_empty());
        // A call that was cancelled has learned nothing.
        let (process, _closes) = begin(&table, 2);
        table.end(process, failure());
        drop(AwaitedStart { table: &table, process });
        assert!(table.has_refused("a"));
    }

    #[test]
    fn no_number_of_starts_is_too_many() {
        let table = StartTable::default();
        let (_, over) = watch::channel(());
        let add = |n: usize| table.add(ProcessId::from_bytes([0, 0, 0, 0, (n >> 8) as u8, n as u8]), &"a".into(), "x".into(), over.clone());
        assert!((0..MAX_STARTS).all(add) && !add(MAX_STARTS));
        let first = ProcessId::from_bytes([0; 6]);
        table.change(first, |_| refused(failure()));
        assert!(add(MAX_STARTS) && !table.has_refused("a"));
    }
}
