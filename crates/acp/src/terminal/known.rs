//! What this proxy was told of terminals and no process records: how much of its output is wanted, and that it was released.

use outlast_client::ProcessId;
use std::collections::{HashMap, VecDeque};

/// How many terminals are remembered. The oldest is forgotten first: it is then served like one of an earlier proxy.
const MOST: usize = 65_536;

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
    /// A terminal, of whose output no more than `limit` bytes are wanted.
    pub(super) fn limit(&mut self, session: &str, id: ProcessId, limit: Option<u64>) {
        if let Some(limit) = limit {
            self.one(session, id).limit = Some(limit);
        }
    }

    /// How much of its output is wanted, if that was said to this proxy.
    pub(super) fn limit_of(&self, session: &str, id: ProcessId) -> Option<u64> {
        self.of.get(&(session.to_owned(), id))?.limit
    }

    /// Frees its name; false if that was done before.
    pub(super) fn release(&mut self, session: &str, id: ProcessId) -> bool {
        !std::mem::replace(&mut self.one(session, id).released, true)
    }

    /// It was not released after all.
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
            if self.order.len() > MOST
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
        for n in 0..=MOST {
            known.release("a", id(n));
        }
        assert!(!known.is_released("a", id(0)) && known.is_released("a", id(1)) && known.of.len() == MOST);
    }
}
