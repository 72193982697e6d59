//! `write`: puts bytes into the input, each exactly once.

use super::context::RequestContext;
use crate::intake::Current;
use crate::reach::{NoKeeper, unexpected, unreachable};
use crate::refuse;
use outlast_core::{Action, Ask, Phase, decide};
use outlast_store::meta::flag;
use outlast_wire::code;
use outlast_wire::v1::keeper::{KeeperReply, KeeperRequest};
use outlast_wire::v1::{Error, Written};
use std::time::Duration;

/// How often a write is tried again, because the keeper was replaced before it answered.
const TRIES: u32 = 8;
/// The most bytes of a line that a terminal in canonical mode keeps (`MAX_CANON` of Linux is 255, its buffer 4,096 with the end of the line).
const MAX_CANONICAL: usize = 4_095;
const STARTING: Duration = Duration::from_secs(10);

pub(super) async fn write(asked: &RequestContext, name: &str, at: Option<u64>, bytes: &[u8]) -> Result<Written, Error> {
    let mut view = asked.resolve_to_change(name).await?;
    let input = view.input.clone();
    // One writer at a time, so that the offset read below is the one this write begins at.
    let _turn = input.lock().await;
    let mut begin = at;
    let mut sent = false;
    let mut had = None;
    for _ in 0..TRIES {
        catch_up(asked, &mut view).await?;
        let seen = checked(asked, &mut view, Ask::Write).await?;
        // The offset keeps a retry from writing bytes twice.
        let start = *begin.get_or_insert(seen);
        let had = *had.get_or_insert(seen);
        let mut link = match asked.parts.reach.keeper(&mut view).await {
            Ok(link) => link,
            Err(NoKeeper::Over) => continue,
            Err(NoKeeper::Refused(error)) if sent => return Err(maybe(&error)),
            Err(NoKeeper::Refused(error)) => return Err(error),
        };
        sent = true;
        match link.write(Some(start), bytes).await {
            Ok(KeeperReply::Written { taken, next, is_canonical }) => {
                let mut written = Written::bytes(taken, next);
                written.already = Some(had.saturating_sub(start).min(bytes.len() as u64)).filter(|already| *already > 0);
                written.warning = if is_canonical { cut(bytes) } else { None };
                return Ok(written);
            }
            Ok(KeeperReply::AlreadyEnded) => return Err(super::signal::ended(asked, &view).await?),
            Ok(other) => return Err(unexpected(other)),
            Err(error) => tracing::info!(id = %view.id(), %error, "a write was cut short and is tried again"),
        }
    }
    Err(maybe(&unreachable(&view)))
}

/// The folder of a process in a sandbox may be older than the input that it has taken. Its link brings it up to date.
async fn catch_up(asked: &RequestContext, view: &mut crate::table::ProcessView) -> Result<(), Error> {
    if view.facts.local().is_some() || view.facts.is_over() || view.facts.phase == Phase::Accepted {
        return Ok(());
    }
    let mut link = match asked.parts.reach.keeper(view).await {
        Ok(link) => link,
        Err(NoKeeper::Over) => return Ok(()),
        Err(NoKeeper::Refused(error)) => return Err(error),
    };
    match link.ask(KeeperRequest::CatchUp).await {
        Ok(KeeperReply::Refused { code, error }) => Err(unexpected(KeeperReply::Refused { code, error })),
        // A link that broke off is asked again with the write.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// What a terminal in canonical mode cut of these bytes, if it did.
fn cut(bytes: &[u8]) -> Option<String> {
    let longest = bytes.split(|b| matches!(b, b'\n' | b'\r')).map(<[u8]>::len).max().filter(|len| *len > MAX_CANONICAL)?;
    Some(format!(
        "a line of {longest} bytes was cut: a terminal that takes whole lines keeps the first {MAX_CANONICAL} bytes of each; write shorter lines, \
         or give the program a pipe instead of a terminal"
    ))
}

fn maybe(error: &Error) -> Error {
    let hint = "`outlast poll` shows how many bytes of input were taken; a write with --offset never writes twice";
    refuse::refusal(code::MAYBE_WRITTEN, format!("it is not known whether all of it was written: {}", error.error), hint)
}

/// Makes sure that the process takes input, and returns how many bytes it has taken.
pub(super) async fn checked(asked: &RequestContext, view: &mut crate::table::ProcessView, wish: Ask) -> Result<u64, Error> {
    if view.facts.phase == Phase::Accepted {
        let begun = tokio::time::timeout(STARTING, view.until(|f| f.phase != Phase::Accepted)).await;
        begun.map_err(|_| refuse::rule(&outlast_core::Refusal::StillStarting))?;
    }
    let Current { facts, seen } = asked.look(view).await?;
    view.facts = facts;
    let open = seen.meta.as_ref().is_some_and(|m| !m.has(flag::INPUT_CLOSE_ASKED) && !m.has(flag::INPUT_CLOSED));
    let takes = view.facts.kept.spec.takes_input() && (open || view.facts.kept.spec.pty);
    match decide(&view.facts.phase, wish, takes).map_err(|r| refuse::rule(&r))? {
        Action::PassInput | Action::EndInput => Ok(seen.meta.map_or(0, |m| m.input)),
        other => Err(refuse::fault(format!("input became {other:?}"))),
    }
}
