//! Hooks that agents call at the boundaries of their turns.

use super::super::events::{Batch, write};
use super::super::{Context, Failure};
use super::newest_waiter::NewestWaiter;
use crate::os;
use outlast_client::{Client, ClientError, Instance, Owner};
use outlast_tools::Called;
use std::io;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt as _;

/// How much of a hook's output an agent reads. It puts a longer text into a file and shows the start.
const MAX_CHARS: usize = 9_500;

/// How many notices are delivered at once.
const MAX_NOTICES: u32 = 32;

/// The interval at which a waiting hook checks whether a newer one has replaced it.
const REPLACED_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// A wait that ends early by less than this was rounded, not cancelled.
const ROUNDING_TOLERANCE: Duration = Duration::from_millis(100);

/// The exit code with which the agent reads standard error and acts on it.
const REWAKE: i32 = 2;

/// Delivers pending notices, if the agent reads them at this boundary. Acknowledges them once they are written, as `events drain` does.
pub(super) async fn tell(ctx: &Context, called: &Called, owner: Owner, lease: Duration) -> Result<i32, Failure> {
    let can = called.can_be_told().map_err(|why| Failure::refused(format!("{}: {why}", called.event), "see docs/agents/wake.md"))?;
    // Without a home there are no processes, and a hook that runs at each prompt should not create one.
    if !can || !ctx.settings.home.exists() {
        return Ok(0);
    }
    let client = client(ctx, owner).await?;
    let mut batch = Batch::take(&client, Some(MAX_NOTICES), lease, Some(Duration::ZERO)).await?;
    if batch.is_empty() {
        return Ok(0);
    }
    keep(&mut batch).await?;
    let written = write(format!("{}\n", called.answer(&batch.text()))).await;
    batch.written(written).await
}

/// Waits for notices, and wakes the agent with them. Exits without output when it is interrupted, or when the same conversation has started
/// a newer hook. Another conversation of the same owner is woken separately.
pub(super) async fn wait(ctx: &Context, called: &Called, owner: Owner, lease: Duration, at_most: Option<Duration>) -> Result<i32, Failure> {
    let whose = format!("{owner:?} {:?}", called.conversation);
    let client = client(ctx, owner).await?;
    // If this fails, two hooks wait, and each notice goes to one of them.
    let newest = NewestWaiter::register(&ctx.settings.home, &whose).ok();
    let until = at_most.map(|at_most| Instant::now() + at_most);
    let mut batch = loop {
        // A take is never cancelled: notices that it had just got would be withheld from all takers until their lease ends.
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let (look, began) = (left.unwrap_or(REPLACED_CHECK_INTERVAL).min(REPLACED_CHECK_INTERVAL), Instant::now());
        let batch = Batch::take(&client, Some(MAX_NOTICES), lease, Some(look)).await?;
        if !batch.is_empty() {
            break batch;
        }
        // A take that returns early without notices was cancelled.
        let interrupted = began.elapsed() + ROUNDING_TOLERANCE < look;
        if interrupted || left.is_some_and(|left| left <= REPLACED_CHECK_INTERVAL) || newest.as_ref().is_some_and(NewestWaiter::is_replaced)
        {
            return Ok(0);
        }
    };
    drop(newest);
    keep(&mut batch).await?;
    let written = to_stderr(format!("{}\n", batch.text())).await;
    let was_written = written.is_ok();
    let code = batch.written(written).await?;
    Ok(if was_written { REWAKE } else { code })
}

/// The client for the conversation of the agent that runs this hook. A session that is named after client and directory may be shared by
/// several; any other is one conversation. If the agent cannot be found, the hook is given what no open conversation of the session has.
async fn client(ctx: &Context, owner: Owner) -> Result<Client, Failure> {
    let may_be_shared = owner.session.as_ref().is_some_and(|session| session.starts_with("mcp:"));
    let instance = match os::client_above() {
        _ if !may_be_shared => None,
        Some(client) => Some(Instance::of_client(client)),
        None => {
            let unseen = || Failure::fault("the agent that runs this hook cannot be found: /proc is not readable", "");
            Some(Instance::unknown(os::this_process().ok_or_else(unseen)?))
        }
    };
    Ok(ctx.client().await?.with_owner(owner).with_instance(instance))
}

async fn keep(batch: &mut Batch<'_>) -> Result<(), Failure> {
    match batch.keep_to(MAX_CHARS).await {
        Ok(()) => Ok(()),
        // Notices that could not be released come back when their lease ends.
        Err(e @ (ClientError::Refused(_) | ClientError::Protocol { .. })) => Err(e.into()),
        Err(_) => Ok(()),
    }
}

async fn to_stderr(text: String) -> io::Result<()> {
    let mut out = tokio::io::stderr();
    out.write_all(text.as_bytes()).await?;
    out.flush().await
}
