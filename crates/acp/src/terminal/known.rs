//! What this proxy knows of terminals and the engine does not record: output limits, and which were released.

use outlast_client::ProcessId;
use std::collections::{HashMap, VecDeque};

/// The most terminals that are remembered. The oldest is forgotten first, and is then served like a terminal of an earlier proxy.
const MAX_TERMINALS: usize = 65_536;

#[derive(Debug, Default)]
pub(super) struct Known {
    of: HashMap<Key, One>,
    order: VecDeque<Key>,
}

type Key = (String, ProcessId);

#[derive(Debug, Clone, Copy, Default)]
struct One {
    limit: Option<u64>,
    released: bool,
}

impl Known {
    /// Sets the most bytes of output that the agent wants of a terminal.
    pub(super) fn limit(&mut self, session: &str, id: ProcessId, limit: Option<u64>) {
        if let Some(limit) = limit {
            self.one(session, id).limit = Some(limit);
        }
    }

    /// The output limit of a terminal, if this proxy knows one.
    pub(super) fn limit_of(&self, session: &str, id: ProcessId) -> Option<u64> {
        self.of.get(&(session.to_owned(), id))?.limit
    }

    /// Marks a terminal as released; false if it was before.
    pub(super) fn release(&mut self, session: &str, id: ProcessId) -> bool {
        !std::mem::replace(&mut self.one(session, id).released, true)
    }

    /// Takes back a release.
    pub(super) fn keep(&mut self, session: &str, id: ProcessId) {
        self.one(session, id).released = false;
    }

    pub(super) fn is_released(&self, session: &str, id: ProcessId) -> bool {
        self.of.get(&(session.to_owned(), id)).is_some_and(|one| one.released)
    }

    fn one(&mut self, session: &str, id: ProcessId) -> &mut One {
        let key = (session.to_owned(), id);
        if !self.of.contains_key(&key) {
            self.order.push_back(key.clone());
            if self.order.len() > MAX_TERMINALS
                && let Some(oldest) = self.order.pop_front()
            {
                self.of.remove(&oldest);
            }
        }
        self.of.entry(key).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: usize) -> ProcessId {
        let [.., a, b, c] = n.to_be_bytes();
        ProcessId::from_bytes([0, 0, 0, a, b, c])
    }

    #[test]
    fn a_release_is_of_one_conversation_and_happens_once() {
        let mut known = Known::default();
        known.limit("a", id(1), Some(7));
        assert!(known.release("a", id(1)) && !known.release("a", id(1)));
        assert!(known.is_released("a", id(1)) && !known.is_released("b", id(1)) && !known.is_released("a", id(2)));
        assert_eq!((known.limit_of("a", id(1)), known.limit_of("b", id(1))), (Some(7), None));
        known.keep("a", id(1));
        assert!(!known.is_released("a", id(1)));
    }

    #[test]
    fn no_number_of_terminals_takes_all_memory() {
        let mut known = Known::default();
        for n in 0..=MAX_TERMINALS {
            known.release("a", id(n));
        }
        assert!(!known.is_released("a", id(0)) && known.is_released("a", id(1)) && known.of.len() == MAX_TERMINALS);
    }
}
