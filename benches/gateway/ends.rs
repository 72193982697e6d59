//! The time from the end of a process to the turn that it begins.

use super::home::{Conversation, GatewayHome};
use crate::bench_notices::{Spread, spread};
use crate::bench_suite::tools::{clock, stamped};
use anyhow::{Context, Result};
use outlast_client::{AgentChoice, Owner, Run, Spec, Tell, caller};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// How long a process lives, in milliseconds, so that the client waits already when it ends.
const LIVED: &str = "20";
/// The turns about notices that each conversation gets. More within a minute would be held back.
const TURNS_PER_CONVERSATION: usize = 5;
/// The bytes that a commit of a few rows writes: three pages of SQLite.
const COMMIT: [u8; 3 * 4096] = [b'c'; 3 * 4096];

pub(super) struct Ends {
    pub(super) rows: Vec<(String, Spread)>,
    /// End to turn, as a follower sees it.
    pub(super) command: Spread,
    pub(super) acp: Spread,
    pub(super) limit: Spread,
}

pub(super) fn measure(home: &GatewayHome, stamp: &Path, ends: usize) -> Result<Ends> {
    // One thread, as in the command line.
    let alone = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    alone.block_on(async {
        let mut rows = Vec::new();
        let command = kind(home, stamp, "a command per turn", &home.command(), ends, &mut rows).await?;
        let acp = kind(home, stamp, "an agent that runs", &home.acp(), ends, &mut rows).await?;
        let limit = limit(stamp, &home.product.work(), ends)?;
        Ok(Ends { rows, command, acp, limit })
    })
}

async fn kind(
    home: &GatewayHome,
    stamp: &Path,
    what: &str,
    agent: &AgentChoice,
    ends: usize,
    rows: &mut Vec<(String, Spread)>,
) -> Result<Spread> {
    let name = if matches!(agent, AgentChoice::Command(_)) { "command" } else { "acp" };
    let mut all = home.open(name, agent, ends.div_ceil(TURNS_PER_CONVERSATION)).await?;
    let (mut begun, mut read, mut shown) = (Vec::new(), Vec::new(), Vec::new());
    let many = all.len();
    for n in 0..ends {
        let (ended, seen) = one(home, stamp, &mut all[n % many]).await?;
        begun.push(Duration::from_nanos(seen.begun.saturating_sub(ended)));
        read.push(Duration::from_nanos(seen.read.saturating_sub(ended)));
        shown.push(Duration::from_nanos(seen.ended.saturating_sub(seen.read)));
    }
    let begun = spread(begun);
    rows.push((format!("{what}: end of the process until a follower sees the turn begun"), begun));
    rows.push((format!("{what}: … until the agent has read its prompt"), spread(read)));
    rows.push((format!("{what}: from there until a follower sees the turn ended"), spread(shown)));
    Ok(begun)
}

/// Ends a process of a conversation. Returns when it ended, and the turn about it.
async fn one(home: &GatewayHome, stamp: &Path, conversation: &mut Conversation) -> Result<(u64, super::home::Seen)> {
    let client = home.client().await?.with_owner(Owner { session: Some(conversation.key.clone()), ..Owner::default() });
    let mut spec = Spec::argv([stamp.as_os_str(), LIVED.as_ref()]);
    spec.tell = Tell::end();
    client.run(Run::new(spec, caller(std::iter::empty(), &home.product.work()))).await?;
    let seen = conversation.turn().await?;
    let words = seen.turn.words.as_deref().unwrap_or_default();
    // Its last line of output is in the notice.
    let digits = words.split(|c: char| !c.is_ascii_digit()).find(|word| word.len() == 20);
    let ended = stamped(digits.with_context(|| format!("no stamp in {words:?}"))?)?;
    Ok((ended, seen))
}

/// The least time for the same: a process ends, three threads write to disk one after the other, and a fourth is notified.
fn limit(stamp: &Path, dir: &Path, ends: usize) -> Result<Spread> {
    let (mut first, mut heard) = UnixStream::pair()?;
    let mut workers = Vec::new();
    for n in 0..3 {
        let (mut to, next) = UnixStream::pair()?;
        let mut from = std::mem::replace(&mut heard, next);
        let mut file = std::fs::File::create(dir.join(format!("limit-{n}")))?;
        workers.push(std::thread::spawn(move || -> Result<()> {
            let mut byte = [0];
            while from.read(&mut byte)? > 0 {
                file.write_all(&COMMIT)?;
                file.sync_data()?;
                to.write_all(&byte)?;
            }
            Ok(())
        }));
    }
    let mut times = Vec::new();
    for _ in 0..ends {
        let mut child = Command::new(stamp).arg(LIVED).stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        child.wait()?;
        first.write_all(&[1])?;
        heard.read_exact(&mut [0])?;
        let now = clock();
        let mut said = String::new();
        child.stdout.take().context("a pipe")?.read_to_string(&mut said)?;
        times.push(Duration::from_nanos(now.saturating_sub(stamped(&said)?)));
    }
    drop(first);
    for worker in workers {
        worker.join().map_err(|_| anyhow::anyhow!("a thread failed"))??;
    }
    Ok(spread(times))
}
