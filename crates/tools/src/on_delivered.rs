//! What to do once an answer has reached its caller. Until then it may have to be given again.

use outlast_client::{Client, ProcessId, Told, Verdict};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// How far the output of each process was answered, for callers that ask for new output.
#[derive(Debug, Default)]
pub(crate) struct Cursors(Mutex<HashMap<ProcessId, Answered>>);

/// What answers have said of a process.
#[derive(Debug, Default, Clone, Copy)]
struct Answered {
    /// The byte up to which its output was answered to a caller that asks for new output.
    read: Option<u64>,
    /// What the last look at it showed, as a number.
    seen: Option<u64>,
}

/// The most processes that are remembered. A call for a forgotten one gets the end of its output.
const MAX_CURSORS: usize = 4_096;

impl Cursors {
    pub(crate) fn get(&self, process: ProcessId) -> Option<u64> {
        self.lock().get(&process)?.read
    }

    /// What the last look at a process showed.
    pub(crate) fn seen(&self, process: ProcessId) -> Option<u64> {
        self.lock().get(&process)?.seen
    }

    /// Notes that the output was answered up to a byte, or further by another answer.
    fn set(&self, process: ProcessId, byte: u64) {
        self.change(process, |known| known.read = known.read.max(Some(byte)));
    }

    fn change(&self, process: ProcessId, change: impl FnOnce(&mut Answered)) {
        let mut all = self.lock();
        if all.len() >= MAX_CURSORS && !all.contains_key(&process) {
            all.clear();
        }
        change(all.entry(process).or_default());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ProcessId, Answered>> {
        self.0.lock().expect("nothing panics while it is held")
    }
}

/// What to do once an answer has arrived. If it is dropped, nothing is done, and the notices in the answer are delivered again.
#[must_use = "the answer counts as lost unless `delivered` is called"]
pub struct OnDelivered {
    client: Client,
    cursors: Arc<Cursors>,
    rest: Mutex<Rest>,
}

#[derive(Debug, Default)]
struct Rest {
    /// Processes and the byte up to which their output was answered.
    read: Vec<(ProcessId, u64)>,
    /// A process that was looked at, and what the answer shows of it, as a number.
    shows: Option<(ProcessId, u64)>,
    /// The notices in the answer, each with its lease token.
    told: Vec<(String, Option<String>)>,
}

impl OnDelivered {
    pub(crate) fn new(client: Client, cursors: Arc<Cursors>) -> Self {
        Self { client, cursors, rest: Mutex::default() }
    }

    /// Notes that the answer has the output of a process up to this byte.
    pub(crate) fn read(&self, process: ProcessId, byte: u64) {
        self.lock().read.push((process, byte));
    }

    /// Notes what the answer shows of a process.
    pub(crate) fn shows(&self, process: ProcessId, seen: u64) {
        self.lock().shows = Some((process, seen));
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

    /// Says that the caller has the answer.
    pub async fn delivered(self) {
        let Rest { read, shows, told } = std::mem::take(&mut *self.lock());
        for (process, byte) in read {
            self.cursors.set(process, byte);
        }
        if let Some((process, seen)) = shows {
            self.cursors.change(process, |known| known.seen = Some(seen));
        }
        for (event, lease) in told {
            // If this fails, the notice is delivered once more when its lease runs out, marked as a repeat.
            let _again = self.client.settle(&[&event], lease.as_deref(), Verdict::Delivered).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Rest> {
        self.rest.lock().expect("nothing panics while it is held")
    }
}

impl std::fmt::Debug for OnDelivered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OnDelivered").field("rest", &self.rest).finish_non_exhaustive()
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
