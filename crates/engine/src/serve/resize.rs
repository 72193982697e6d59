//! `resize`: sets the size of the terminal.

use super::context::RequestContext;
use crate::intake::Current;
use crate::reach::{NoKeeper, unexpected, unreachable};
use crate::refuse;
use outlast_wire::code;
use outlast_wire::v1::keeper::{KeeperReply, KeeperRequest};
use outlast_wire::v1::{Done, Error};

const TRIES: u32 = 8;

pub(super) async fn resize(asked: &RequestContext, name: &str, rows: u16, cols: u16) -> Result<Done, Error> {
    if rows == 0 || cols == 0 {
        return Err(refuse::refusal(code::BAD_REQUEST, format!("a terminal of {rows} rows and {cols} columns"), "both are at least 1"));
    }
    let mut view = asked.resolve_to_change(name).await?;
    if !view.facts.kept.spec.pty {
        return Err(refuse::refusal(code::BAD_REQUEST, format!("{} has no terminal", view.id()), "start it with --pty"));
    }
    for _ in 0..TRIES {
        let Current { facts, .. } = asked.look(&view).await?;
        view.facts = facts;
        if view.facts.is_over() {
            return Err(super::signal::ended(asked, &view).await?);
        }
        let mut link = match asked.parts.reach.keeper(&mut view).await {
            Ok(link) => link,
            Err(NoKeeper::Over) => continue,
            Err(NoKeeper::Refused(error)) => return Err(error),
        };
        match link.ask(KeeperRequest::Resize { rows, cols }).await {
            Ok(KeeperReply::Ok) => return Ok(Done::ok()),
            Ok(KeeperReply::AlreadyEnded) => return Err(super::signal::ended(asked, &view).await?),
            Ok(other) => return Err(unexpected(other)),
            // Setting the same size twice does no harm, so this is retried.
            Err(error) => tracing::debug!(id = %view.id(), %error, "a resize is tried again"),
        }
    }
    Err(unreachable(&view))
}
