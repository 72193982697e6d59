//! `signal`: sends a signal to the command itself.

use super::context::RequestContext;
use crate::intake::Current;
use crate::reach::{NoKeeper, unexpected, unreachable};
use crate::{refuse, render};
use outlast_core::{Action, Ask, decide};
use outlast_wire::code;
use outlast_wire::v1::keeper::{KeeperReply, KeeperRequest};
use outlast_wire::v1::{Error, Killed};

/// The last signal of Linux. Those from 32 on are real-time signals.
const LAST_SIGNAL: i32 = 64;

pub(super) async fn signal(asked: &RequestContext, name: &str, number: i32) -> Result<Killed, Error> {
    if !(1..=LAST_SIGNAL).contains(&number) {
        return Err(refuse::refusal(code::BAD_REQUEST, format!("{number} is not a signal"), format!("signals are 1 to {LAST_SIGNAL}")));
    }
    let mut view = asked.resolve_to_change(name).await?;
    let Current { facts, .. } = asked.look(&view).await?;
    view.facts = facts;
    match decide(&view.facts.phase, Ask::Signal(number), false).map_err(|r| refuse::rule(&r))? {
        Action::PassSignal(number) => pass(asked, &mut view, number).await?,
        Action::SignalOrphan(..) if view.facts.local().is_none() => return Err(refuse::orphan_elsewhere(view.id())),
        Action::SignalOrphan(of, number) => {
            outlast_store::os::signal(&of, number).map_err(|e| refuse::disk(format!("cannot signal {}", view.id()), &e))?;
        }
        other => return Err(refuse::fault(format!("a signal became {other:?}"))),
    }
    let Current { facts, .. } = asked.look(&view).await?;
    Ok(Killed::new("signalled", view.id(), render::fate(&facts)))
}

async fn pass(asked: &RequestContext, view: &mut crate::table::ProcessView, number: i32) -> Result<(), Error> {
    let mut link = match asked.parts.reach.keeper(view).await {
        Ok(link) => link,
        Err(NoKeeper::Refused(error)) => return Err(error),
        Err(NoKeeper::Over) => {
            let refusal = decide(&view.facts.phase, Ask::Signal(number), false).err();
            return Err(refusal.map_or_else(|| unreachable(view), |r| refuse::rule(&r)));
        }
    };
    match link.ask(KeeperRequest::Signal { number }).await {
        Ok(KeeperReply::Ok) => Ok(()),
        Ok(KeeperReply::AlreadyEnded) => Err(ended(asked, view).await?),
        Ok(other) => Err(unexpected(other)),
        // Not retried: a signal must not be sent twice.
        Err(_) => {
            Err(refuse::unavailable("the keeper was replaced: it is not known whether the signal was delivered", "look, then ask again"))
        }
    }
}

/// The refusal for a process that has just ended.
pub(super) async fn ended(asked: &RequestContext, view: &crate::table::ProcessView) -> Result<Error, Error> {
    let Current { facts, .. } = asked.look(view).await?;
    let refusal = decide(&facts.phase, Ask::Signal(0), false).err();
    Ok(refusal.map_or_else(|| unreachable(view), |r| refuse::rule(&r)))
}
