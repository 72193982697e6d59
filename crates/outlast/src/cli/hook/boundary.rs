//! Agents that call a hook at the boundaries of their turns.

use super::super::events::{Batch, write};
use super::super::{Context, Failure};
use super::latest::Latest;
use outlast_client::{ClientError, Owner};
use outlast_tools::Called;
use std::io;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt as _;

/// How much an agent reads of what a hook writes. Past it, it puts the text into a file and shows the beginning.
const MOST_CHARS: usize = 9_500;

/// How many notices are told at once.
const MOST: u32 = 32;

/// How often one that waits looks whether another has come to wait for the same.
const LOOK: Duration = Duration::from_secs(5);

/// What is no more than a rounded time.
const EARLY: Duration = Duration::from_millis(100);

/// The exit code that has the agent read standard error, and act on it.
const REWAKE: i32 = 2;

/// Tells what there is to be told, if this is where the agent reads it. Acknowledged once it is written, as `events drain` does.
pub(super) async fn tell(ctx: &Context, called: &Called, owner: Owner, lease: Duration) -> Result<i32, Failure> {
    let can = called.can_be_told().map_err(|why| Failure::refused(format!("{}: {why}", called.event), "see docs/agents/wake.md"))?;
    // Where there is no home there never was a process, and a hook that runs at each prompt is no reason to make one.
    if !can || !ctx.settings.home.exists() {
        return Ok(0);
    }
    let client = ctx.client().await?.with_owner(owner);
    let mut batch = Batch::take(&client, Some(MOST), lease, Some(Duration::ZERO)).await?;
    if batch.is_empty() {
        return Ok(0);
    }
    keep(&mut batch).await?;
    let written = write(format!("{}\n", called.answer(&batch.text()))).await;
    batch.written(written).await
}

/// Waits for what there is to be told, and wakes the agent with it. Leaves without a word when it is interrupted, or once the same conversation has started
/// another. Another conversation of the same owner is somebody else to be woken.
pub(super) async fn wait(ctx: &Context, called: &Called, owner: Owner, lease: Duration, at_most: Option<Duration>) -> Result<i32, Failure> {
    let whose = format!("{owner:?} {:?}", called.conversation);
    let client = ctx.client().await?.with_owner(owner);
    // Where that cannot be said there are two, of which one is given each notice.
    let latest = Latest::of(&ctx.settings.home, &whose).ok();
    let until = at_most.map(|at_most| Instant::now() + at_most);
    let mut batch = loop {
        // Never given up in between: what was given to us just then would be nobody's until its lease ends.
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let (look, began) = (left.unwrap_or(LOOK).min(LOOK), Instant::now());
        let batch = Batch::take(&client, Some(MOST), lease, Some(look)).await?;
        if !batch.is_empty() {
            break batch;
        }
        // One that comes back empty before its time was let go of.
        let interrupted = began.elapsed() + EARLY < look;
        if interrupted || left.is_some_and(|left| left <= LOOK) || latest.as_ref().is_some_and(Latest::is_over) {
            return Ok(0);
        }
    };
    drop(latest);
    keep(&mut batch).await?;
    let written = to_stderr(format!("{}\n", batch.text())).await;
    let was_written = written.is_ok();
    let code = batch.written(written).await?;
    Ok(if was_written { REWAKE } else { code })
}

async fn keep(batch: &mut Batch<'_>) -> Result<(), Failure> {
    match batch.keep_to(MOST_CHARS).await {
        Ok(()) => Ok(()),
        // What could not be given back comes back by itself when its lease ends.
        Err(e @ (ClientError::Refused(_) | ClientError::Protocol { .. })) => Err(e.into()),
        Err(_) => Ok(()),
    }
}

async fn to_stderr(text: String) -> io::Result<()> {
    let mut out = tokio::io::stderr();
    out.write_all(text.as_bytes()).await?;
    out.flush().await
}
