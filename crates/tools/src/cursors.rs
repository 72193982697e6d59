//! What each conversation was shown of each process, so that an answer shows only what is new.
//!
//! Decision 391: docs/decisions/tools-mcp.md.

use outlast_client::ProcessId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// What all conversations of a server were shown.
#[derive(Debug, Default)]
pub(crate) struct Cursors(Mutex<HashMap<(Arc<str>, ProcessId), Answered>>);

/// What answers have said of a process.
#[derive(Debug, Default, Clone, Copy)]
struct Answered {
    /// The byte up to which its output was answered to a caller that asks for new output.
    read: Option<u64>,
    /// What the last look at it showed, as a number.
    seen: Option<u64>,
}

/// What one conversation was shown.
#[derive(Debug, Clone)]
pub(crate) struct ConversationCursors {
    all: Arc<Cursors>,
    /// `None` if it cannot be told from others. Then nothing is remembered, and each answer shows what there is.
    of: Option<Arc<str>>,
}

/// The most processes that are remembered, for all conversations together. A call for a forgotten one gets the end of its output.
const MAX_CURSORS: usize = 4_096;

impl ConversationCursors {
    pub(crate) fn new(all: Arc<Cursors>, of: Option<Arc<str>>) -> Self {
        Self { all, of }
    }

    /// How far the output was answered to a caller that asks for new output.
    pub(crate) fn get(&self, process: ProcessId) -> Option<u64> {
        self.answered(process)?.read
    }

    /// What the last look at a process showed.
    pub(crate) fn seen(&self, process: ProcessId) -> Option<u64> {
        self.answered(process)?.seen
    }

    /// Notes that the output was answered up to a byte, or further by another answer.
    pub(crate) fn set(&self, process: ProcessId, byte: u64) {
        self.change(process, |known| known.read = known.read.max(Some(byte)));
    }

    /// Notes what the last look at a process showed.
    pub(crate) fn set_seen(&self, process: ProcessId, seen: u64) {
        self.change(process, |known| known.seen = Some(seen));
    }

    fn answered(&self, process: ProcessId) -> Option<Answered> {
        self.all.lock().get(&(self.of.clone()?, process)).copied()
    }

    fn change(&self, process: ProcessId, change: impl FnOnce(&mut Answered)) {
        let Some(of) = self.of.clone() else { return };
        let (mut all, key) = (self.all.lock(), (of, process));
        if all.len() >= MAX_CURSORS && !all.contains_key(&key) {
            all.clear();
        }
        change(all.entry(key).or_default());
    }
}

impl Cursors {
    fn lock(&self) -> MutexGuard<'_, HashMap<(Arc<str>, ProcessId), Answered>> {
        self.0.lock().expect("nothing panics while it is held")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_arrives_late_takes_nothing_back() {
        let cursors = ConversationCursors::new(Arc::default(), Some("a".into()));
        let process = ProcessId::from_bytes([1; 6]);
        for byte in [50, 100, 70] {
            cursors.set(process, byte);
        }
        assert_eq!(cursors.get(process), Some(100));
    }

    #[test]
    fn what_one_conversation_was_shown_says_nothing_of_another() {
        let (all, process) = (Arc::<Cursors>::default(), ProcessId::from_bytes([1; 6]));
        let of = |name: Option<&str>| ConversationCursors::new(all.clone(), name.map(Into::into));
        for cursors in [of(Some("a")), of(None)] {
            cursors.set(process, 100);
            cursors.set_seen(process, 7);
        }
        assert_eq!((of(Some("a")).get(process), of(Some("a")).seen(process)), (Some(100), Some(7)));
        for other in [of(Some("b")), of(None)] {
            assert_eq!((other.get(process), other.seen(process)), (None, None));
        }
    }
}
