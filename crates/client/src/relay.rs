//! Answers that a client forwards to another program. Their effects wait until the client confirms that they arrived.
//!
//! Decision 103: docs/decisions/tools-mcp.md.

use crate::ClientError;
use crate::link::{CallError, Link, Speaker, decode, read};
use crate::peer::EngineTalk;
use crate::redial::to_error;
use outlast_core::Status;
use outlast_wire::v1::notice::Notices;
use outlast_wire::v1::{Done, Request};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::sync::{Arc, Mutex};

/// Answers with effects that are not confirmed yet.
#[derive(Default)]
pub(crate) struct Passing {
    /// The connection and number of each. There are at most as many as the holder of the receipt has sent requests.
    answered: Mutex<Vec<(Arc<Link>, u64)>>,
}

/// The part of a process description that matters here.
#[derive(Deserialize)]
struct StatusOnly {
    status: Status,
}

impl Passing {
    /// Sends a request, and records the answer if it has an effect.
    pub(crate) async fn call(&self, link: &Arc<Link>, by: &Speaker, request: Request, raw: &[u8]) -> Result<Box<RawValue>, CallError> {
        let matters: fn(&RawValue) -> bool = match request {
            Request::Log { .. } | Request::Wait { .. } | Request::Kill { .. } | Request::Remove { .. } => |_| true,
            Request::Poll { .. } => |answer| read::<StatusOnly>(answer).is_ok_and(|seen| seen.status == Status::Exited),
            Request::NoticeNext { .. } => |answer| read::<Notices>(answer).is_ok_and(|given| !given.notices.is_empty()),
            _ => return link.call(by, request, raw).await,
        };
        let (of, answer) = link.relayed_call(by, request, raw).await?;
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

/// The receipt for the answers of a [`Client::relaying`](crate::Client::relaying). Dropping it means that none of them arrived.
#[must_use = "dropped, it says that nothing was passed on"]
pub struct Receipt {
    by: Speaker,
    passing: Arc<Passing>,
}

impl Receipt {
    pub(crate) fn new(by: Speaker, passing: Arc<Passing>) -> Self {
        Self { by, passing }
    }

    /// Confirms that all answers so far have arrived. If the engine was restarted in between, the ends that the old one had shown
    /// are delivered again, marked as repeats.
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
            match link.call(&self.by, Request::Relayed { of }, &[]).await {
                Ok(answer) => said = said.and(decode::<Done>(&answer).map(drop)),
                // That engine is gone. The next one does not know that its answers were seen, and delivers the notices.
                Err(CallError::Cut(_)) => {}
                // Answers over other connections have arrived all the same.
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
        f.debug_struct("Receipt").field("owner", &self.by.owner).finish_non_exhaustive()
    }
}
