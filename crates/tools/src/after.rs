//! What is left to do when an answer has reached whoever called: until then it may have to be given again.

use outlast_client::{Client, ProcessId, Told, Verdict};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// How far the output of each process was answered, for callers that ask for what is new. Of as many as there is room for.
#[derive(Debug, Default)]
pub(crate) struct Cursors(Mutex<HashMap<ProcessId, u64>>);

/// How many processes are remembered. Of one that is forgotten the end of the output is answered.
const MOST_CURSORS: usize = 4_096;

impl Cursors {
    pub(crate) fn get(&self, process: ProcessId) -> Option<u64> {
        self.lock().get(&process).copied()
    }

    /// It was read up to here, or further by another answer.
    fn set(&self, process: ProcessId, byte: u64) {
        let mut all = self.lock();
        if all.len() >= MOST_CURSORS && !all.contains_key(&process) {
            all.clear();
        }
        let known = all.entry(process).or_default();
        *known = byte.max(*known);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ProcessId, u64>> {
        self.0.lock().expect("nothing panics while it is held")
    }
}

/// What is left to do when an answer has arrived. Dropped, nothing of it is done, and what was told is told again.
#[must_use = "the answer counts as not arrived unless `arrived` says so"]
pub struct After {
    client: Client,
    cursors: Arc<Cursors>,
    rest: Mutex<Rest>,
}

#[derive(Debug, Default)]
struct Rest {
    /// Up to which byte.
    read: Vec<(ProcessId, u64)>,
    /// What was told, each with the word of its lease.
    told: Vec<(String, Option<String>)>,
}

impl After {
    pub(crate) fn new(client: Client, cursors: Arc<Cursors>) -> Self {
        Self { client, cursors, rest: Mutex::default() }
    }

    /// Its output is known up to this byte.
    pub(crate) fn read(&self, process: ProcessId, byte: u64) {
        self.lock().read.push((process, byte));
    }

    /// The first `given` of these notices are in the answer. The others are released at once for the next answer.
    pub(crate) async fn told(&self, due: &[Told], given: usize) {
        let (given, others) = due.split_at(given);
        self.lock().told.extend(given.iter().map(|one| (one.event.event_id.clone(), one.lease.clone())));
        for one in others {
            // If the release fails, the notice is due again when its lease expires, marked as a repeat.
            let _again = self.client.settle(&[&one.event.event_id], one.lease.as_deref(), Verdict::Released).await;
        }
    }

    /// The answer is with whoever called.
    pub async fn arrived(self) {
        let Rest { read, told } = std::mem::take(&mut *self.lock());
        for (process, byte) in read {
            self.cursors.set(process, byte);
        }
        for (event, lease) in told {
            // Not settled, it is told once more when its lease is over, and said to be a repeat.
            let _again = self.client.settle(&[&event], lease.as_deref(), Verdict::Delivered).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Rest> {
        self.rest.lock().expect("nothing panics while it is held")
    }
}

impl std::fmt::Debug for After {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("After").field("rest", &self.rest).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_arrives_late_takes_nothing_back() {
        let (cursors, process) = (Cursors::default(), ProcessId::from_bytes([1; 6]));
        for byte in [50, 100, 70] {
            cursors.set(process, byte);
        }
        assert_eq!(cursors.get(process), Some(100));
    }
}
