//! Calls whose answers may not have reached a model: they took longer than their client waits, or were cancelled. The next answer of the
//! conversation has a line about each.
//!
//! This is in memory. If the server is killed, the end of a process is still delivered as a notice.
//!
//! Decision 351: docs/decisions/tools-mcp.md.

use crate::patience::Patience;
use outlast_client::ProcessId;
use outlast_tools::{AboutProcess, Missed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

/// The most calls that are remembered. The oldest is forgotten first.
const MAX_CALLS: usize = 1_024;

/// The calls of all conversations of a server that were not surely answered.
#[derive(Debug, Clone, Default)]
pub(crate) struct Calls(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    last: u64,
    calls: Vec<Call>,
}

#[derive(Debug)]
struct Call {
    number: u64,
    /// The conversation that made it.
    of: Arc<str>,
    began: Instant,
    patience: Patience,
    about: AboutProcess,
    state: CallState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallState {
    UnderWay,
    /// The same, and an answer to another call, which is under way itself, says that its process runs.
    UnderWayBeingTold,
    /// The same, and that answer has arrived.
    UnderWayAndTold,
    /// Its answer was written when its client may have given up.
    Late(Missed),
    /// It was never answered.
    Unanswered,
    /// The answer to another call, which is under way, tells of it.
    BeingTold(Missed),
}

/// One call. If it is dropped before [`CallGuard::arrived`], its answer never arrived.
#[derive(Debug)]
pub(crate) struct CallGuard {
    calls: Calls,
    number: u64,
    pub(crate) began: Instant,
    patience: Patience,
    /// The process that it is about, once that is known.
    pub(crate) about: AboutProcess,
    /// The calls that its answer tells of.
    tells: Vec<u64>,
}

impl Calls {
    /// Notes that a conversation makes a call.
    pub(crate) fn begin(&self, of: Arc<str>, patience: Patience) -> CallGuard {
        let (began, about) = (Instant::now(), AboutProcess::default());
        let mut table = self.lock();
        table.last += 1;
        let number = table.last;
        if table.calls.len() >= MAX_CALLS {
            table.calls.remove(0);
        }
        table.calls.push(Call { number, of, began, patience, about: about.clone(), state: CallState::UnderWay });
        CallGuard { calls: self.clone(), number, began, patience, about, tells: Vec::new() }
    }

    fn change(&self, number: u64, next: impl FnOnce(&Call) -> Option<CallState>) {
        let mut table = self.lock();
        if let Some(at) = table.calls.iter().position(|call| call.number == number) {
            match next(&table.calls[at]) {
                Some(state) => table.calls[at].state = state,
                None => _ = table.calls.remove(at),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().expect("nothing panics while it is held")
    }
}

impl Call {
    /// What its model may have missed, if that is not said yet.
    fn missed(&self) -> Option<Missed> {
        let process = self.about.get()?;
        match self.state {
            CallState::Late(missed) => Some(missed),
            CallState::Unanswered => Some(Missed::unanswered(process)),
            CallState::UnderWay if self.patience.is_over(self.began.elapsed()) => Some(Missed::unanswered(process)),
            CallState::UnderWay | CallState::UnderWayBeingTold | CallState::UnderWayAndTold | CallState::BeingTold(_) => None,
        }
    }
}

impl CallGuard {
    /// What the conversation's model may have missed of other calls. The answer to this one has to tell it.
    pub(crate) fn missed(&mut self) -> Vec<Missed> {
        let mut table = self.calls.lock();
        let Some(of) = table.calls.iter().find(|call| call.number == self.number).map(|call| call.of.clone()) else { return Vec::new() };
        let mut all: Vec<Missed> = Vec::new();
        for call in table.calls.iter_mut().filter(|call| call.of == of && call.number != self.number) {
            let Some(missed) = call.missed() else { continue };
            self.tells.push(call.number);
            call.state = if call.state == CallState::UnderWay { CallState::UnderWayBeingTold } else { CallState::BeingTold(missed) };
            if !all.iter().any(|one| one.process == missed.process) {
                all.push(missed);
            }
        }
        // What this call is about, its own answer says.
        let own: Option<ProcessId> = self.about.get();
        all.retain(|one| Some(one.process) != own);
        all
    }

    /// The answer was written. False if its client may have given up before, so that nothing in it counts as seen.
    pub(crate) fn arrived(mut self) -> bool {
        let took = self.began.elapsed();
        if self.patience.is_over(took) {
            let late = self.about.get().map(|process| CallState::Late(Missed::late(process, took)));
            self.calls.change(self.number, |_| late);
            return false;
        }
        self.calls.change(self.number, |_| None);
        for told in std::mem::take(&mut self.tells) {
            self.calls.change(told, |call| match call.state {
                CallState::BeingTold(_) => None,
                CallState::UnderWayBeingTold => Some(CallState::UnderWayAndTold),
                // It was answered in the meantime, and too late: that is to be told as well.
                other => Some(other),
            });
        }
        true
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        for told in std::mem::take(&mut self.tells) {
            self.calls.change(told, |call| {
                Some(match call.state {
                    CallState::UnderWayBeingTold => CallState::UnderWay,
                    CallState::BeingTold(missed) if missed.took.is_some() => CallState::Late(missed),
                    CallState::BeingTold(_) => CallState::Unanswered,
                    other => other,
                })
            });
        }
        self.calls.change(self.number, |call| match call.state {
            CallState::UnderWay => call.about.get().map(|_| CallState::Unanswered),
            CallState::UnderWayBeingTold => call.about.get().map(|process| CallState::BeingTold(Missed::unanswered(process))),
            // An answer has said that it was not answered.
            CallState::UnderWayAndTold => None,
            other => Some(other),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const PATIENT: Patience = Patience { gives_up_after: None, answer_within: None };
    /// Of a client that gives up at once.
    const HASTY: Patience = Patience { gives_up_after: Some(Duration::ZERO), answer_within: None };

    fn process(n: u8) -> ProcessId {
        ProcessId::from_bytes([n; 6])
    }

    fn call(calls: &Calls, of: &str, patience: Patience, about: Option<u8>) -> CallGuard {
        let call = calls.begin(of.into(), patience);
        if let Some(n) = about {
            call.about.set(process(n));
        }
        call
    }

    /// The processes that an answer tells of, and whether each was answered late.
    fn told(calls: &Calls, of: &str) -> Vec<(ProcessId, bool)> {
        let mut next = call(calls, of, PATIENT, None);
        let missed = next.missed().iter().map(|one| (one.process, one.took.is_some())).collect();
        assert!(next.arrived());
        missed
    }

    #[test]
    fn a_late_answer_is_told_once_in_its_own_conversation() {
        let calls = Calls::default();
        assert!(call(&calls, "a", PATIENT, Some(1)).arrived());
        assert!(!call(&calls, "a", HASTY, Some(2)).arrived());
        assert!(!call(&calls, "a", HASTY, None).arrived(), "it is about no process, so there is nothing to tell");
        assert!(told(&calls, "b").is_empty());
        assert_eq!(told(&calls, "a"), [(process(2), true)]);
        assert!(told(&calls, "a").is_empty());
        assert!(calls.lock().calls.is_empty());
    }

    #[test]
    fn what_an_answer_told_that_did_not_arrive_is_told_again() {
        let calls = Calls::default();
        assert!(!call(&calls, "a", HASTY, Some(1)).arrived());
        drop(call(&calls, "a", PATIENT, Some(2)));
        let mut lost = call(&calls, "a", PATIENT, None);
        assert_eq!(lost.missed().len(), 2);
        assert!(told(&calls, "a").is_empty(), "another answer is under way that tells it");
        drop(lost);
        assert_eq!(told(&calls, "a"), [(process(1), true), (process(2), false)]);
        assert!(told(&calls, "a").is_empty());
    }

    #[test]
    fn a_call_that_still_waits_when_its_client_has_given_up_is_told_and_its_late_answer_too() {
        let calls = Calls::default();
        let waiting = call(&calls, "a", HASTY, Some(1));
        let patient = call(&calls, "a", PATIENT, Some(2));
        assert_eq!(told(&calls, "a"), [(process(1), false)]);
        assert!(told(&calls, "a").is_empty());
        assert!(!waiting.arrived());
        assert_eq!(told(&calls, "a"), [(process(1), true)]);
        assert!(patient.arrived() && calls.lock().calls.is_empty());
    }

    #[test]
    fn a_call_that_was_told_and_is_cancelled_then_is_not_told_again() {
        let calls = Calls::default();
        let waiting = call(&calls, "a", HASTY, Some(1));
        assert_eq!(told(&calls, "a"), [(process(1), false)]);
        drop(waiting);
        assert!(told(&calls, "a").is_empty() && calls.lock().calls.is_empty());
        // Cancelled while the answer that tells it is under way.
        for arrives in [true, false] {
            let waiting = call(&calls, "a", HASTY, Some(1));
            let mut tells = call(&calls, "a", PATIENT, None);
            assert_eq!(tells.missed().len(), 1);
            drop(waiting);
            assert!(told(&calls, "a").is_empty(), "another answer is under way that tells it");
            if arrives {
                assert!(tells.arrived())
            } else {
                drop(tells)
            }
            assert_eq!(told(&calls, "a").len(), usize::from(!arrives));
        }
        assert!(calls.lock().calls.is_empty());
    }

    #[test]
    fn an_end_that_is_answered_late_while_another_answer_says_that_it_runs_is_told() {
        let calls = Calls::default();
        let waiting = call(&calls, "a", HASTY, Some(1));
        let mut tells = call(&calls, "a", PATIENT, None);
        assert_eq!(tells.missed().len(), 1);
        assert!(!waiting.arrived() && tells.arrived());
        assert_eq!(told(&calls, "a"), [(process(1), true)]);
    }

    #[test]
    fn an_answer_about_a_process_needs_no_line_about_it() {
        let calls = Calls::default();
        assert!(!call(&calls, "a", HASTY, Some(1)).arrived());
        let mut next = call(&calls, "a", PATIENT, Some(1));
        assert!(next.missed().is_empty() && next.arrived());
        assert!(told(&calls, "a").is_empty());
    }

    #[test]
    fn no_number_of_calls_is_too_many() {
        let calls = Calls::default();
        for _ in 0..MAX_CALLS + 10 {
            assert!(!call(&calls, "a", HASTY, Some(1)).arrived());
        }
        assert_eq!(calls.lock().calls.len(), MAX_CALLS);
        assert_eq!(told(&calls, "a").len(), 1, "one line for each process");
    }
}
