//! For those who ask for somebody else: what they were answered has been seen once it was passed on, and what is to be forgotten is forgotten then.
//!
//! Decision 103: docs/decisions/tools-mcp.md.

use crate::ClientError;
use crate::client::decode;
use crate::link::{CallError, Link, read};
use crate::peer::EngineTalk;
use crate::redial::to_error;
use outlast_core::{Owner, Status};
use outlast_wire::v1::notice::Notices;
use outlast_wire::v1::{Done, Request};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::sync::{Arc, Mutex};

/// Answers that have yet to be passed on, and from which something follows.
#[derive(Default)]
pub(crate) struct Passing {
    /// Over which connection each came, and under which number. As many as were asked for, by somebody who holds the receipt.
    answered: Mutex<Vec<(Arc<Link>, u64)>>,
}

/// What matters of a process that was looked at.
#[derive(Deserialize)]
struct Glance {
    status: Status,
}

impl Passing {
    /// Asks, and remembers the answer if it matters whether it arrives.
    pub(crate) async fn call(&self, link: &Arc<Link>, owner: &Owner, request: Request, raw: &[u8]) -> Result<Box<RawValue>, CallError> {
        let matters: fn(&RawValue) -> bool = match request {
            Request::Log { .. } | Request::Wait { .. } | Request::Kill { .. } | Request::Remove { .. } => |_| true,
            Request::Poll { .. } => |answer| read::<Glance>(answer).is_ok_and(|seen| seen.status == Status::Exited),
            Request::NoticeNext { .. } => |answer| read::<Notices>(answer).is_ok_and(|given| !given.notices.is_empty()),
            _ => return link.call(owner, request, raw).await,
        };
        let (of, answer) = link.relayed_call(owner, request, raw).await?;
        if !matters(&answer) {
            return Ok(answer);
        }
        self.answered.lock().expect("nothing panics while it is held").push((link.clone(), of));
        Ok(answer)
    }

    fn take(&self) -> Vec<(Arc<Link>, u64)> {
        std::mem::take(&mut *self.answered.lock().expect("nothing panics while it is held"))
    }
}

/// What a [`Client::relaying`](crate::Client::relaying) was answered. Dropped, nothing of it has reached whoever it was for.
#[must_use = "dropped, it says that nothing was passed on"]
pub struct Receipt {
    owner: Owner,
    passing: Arc<Passing>,
}

impl Receipt {
    pub(crate) fn new(owner: Owner, passing: Arc<Passing>) -> Self {
        Self { owner, passing }
    }

    /// Everything that was answered so far is where it belongs. Where the engine was restarted meanwhile, what the old one had answered is told again, marked
    /// as a repeat.
    pub async fn passed_on(self) -> Result<(), ClientError> {
        let (mut rest, mut said) = (self.passing.take(), Ok(()));
        while let Some((link, first)) = rest.pop() {
            let mut of = vec![first];
            rest.retain(|(other, id)| {
                let same = Arc::ptr_eq(other, &link);
                if same {
                    of.push(*id);
                }
                !same
            });
            of.sort_unstable();
            match link.call(&self.owner, Request::Relayed { of }, &[]).await {
                Ok(answer) => said = said.and(decode::<Done>(&answer).map(drop)),
                // That engine is gone, and the next one tells what this one could not know to be seen.
                Err(CallError::Cut(_)) => {}
                // What came over the other connections has arrived all the same.
                Err(e) => said = said.and(Err(to_error::<EngineTalk>(e, "say that an answer has arrived"))),
            }
        }
        said
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        for (link, of) in self.passing.take() {
            link.not_passed_on(of);
        }
    }
}

impl std::fmt::Debug for Receipt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Receipt").field("owner", &self.owner).finish_non_exhaustive()
    }
}
