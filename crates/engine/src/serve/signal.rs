//! `signal`: sends a signal to the command itself.

use super::context::RequestContext;
use crate::intake::Current;
use crate::reach::{NoKeeper, unexpected, unreachable};
use crate::{refuse, render};
use outlast_core::{Action, Ask, decide};
use outlast_wire::code;
use outlast_wire::v1::keeper::{KeeperReply, KeeperRequest};
use outlast_wire::v1::{Error, Killed};
use rustix::process::Signal;

pub(super) async fn signal(asked: &RequestContext, name: &str, number: i32) -> Result<Killed, Error> {
    let bad = || refuse::refusal(code::BAD_REQUEST, format!("{number} is not a signal"), "signals are 1 to 31");
    let known = Signal::from_named_raw(number).ok_or_else(bad)?;
    let mut view = asked.resolve_to_change(name).await?;
    let Current { facts, .. } = asked.look(&view).await?;
    view.facts = facts;
    match decide(&view.facts.phase, Ask::Signal(number), false).map_err(|r| refuse::rule(&r))? {
        Action::PassSignal(number) => pass(asked, &mut view, number).await?,
        Action::SignalOrphan(of, _) => {
            outlast_store::os::signal(&of, known).map_err(|e| refuse::disk(format!("cannot signal {}", view.id()), &e))?;
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
