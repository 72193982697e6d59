//! What to do once an answer has reached its caller. Until then it may have to be given again.

use crate::cursors::ConversationCursors;
use crate::start_table::RefusedStart;
use outlast_client::{Client, ProcessId, Told, Verdict};
use std::sync::{Mutex, MutexGuard};

/// What to do once an answer has arrived. If it is dropped, nothing is done, and the notices in the answer are delivered again.
#[must_use = "the answer counts as lost unless `delivered` is called"]
pub struct OnDelivered {
    client: Client,
    cursors: ConversationCursors,
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
    /// Starts that the answer says were refused.
    refused: Vec<RefusedStart>,
}

impl OnDelivered {
    pub(crate) fn new(client: Client, cursors: ConversationCursors) -> Self {
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

    /// Notes that the answer says that a start was refused.
    pub(crate) fn refused(&self, start: RefusedStart) {
        self.lock().refused.push(start);
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
        let Rest { read, shows, told, refused } = std::mem::take(&mut *self.lock());
        refused.into_iter().for_each(RefusedStart::arrived);
        for (process, byte) in read {
            self.cursors.set(process, byte);
        }
        if let Some((process, seen)) = shows {
            self.cursors.set_seen(process, seen);
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
