//! `close`: closes the input.

use super::context::RequestContext;
use super::write::checked;
use crate::reach::{NoKeeper, unexpected, unreachable};
use outlast_core::Ask;
use outlast_wire::v1::keeper::{KeeperReply, KeeperRequest};
use outlast_wire::v1::{Error, Written};

/// How often it is retried if the keeper is replaced. Closing twice does no harm.
const TRIES: u32 = 8;

pub(super) async fn close(asked: &RequestContext, name: &str) -> Result<Written, Error> {
    let mut view = asked.resolve_to_change(name).await?;
    let input = view.input.clone();
    // Waits for writes that are under way.
    let _turn = input.lock().await;
    for _ in 0..TRIES {
        checked(asked, &mut view, Ask::CloseInput).await?;
        let mut link = match asked.parts.reach.keeper(&mut view).await {
            Ok(link) => link,
            Err(NoKeeper::Over) => continue,
            Err(NoKeeper::Refused(error)) => return Err(error),
        };
        match link.ask(KeeperRequest::CloseInput).await {
            Ok(KeeperReply::Ok | KeeperReply::Written { .. }) => {
                let message = if view.facts.kept.spec.pty { "EOF sent" } else { "stdin closed" };
                return Ok(Written::said(message));
            }
            Ok(KeeperReply::AlreadyEnded) => return Err(super::signal::ended(asked, &view).await?),
            Ok(other) => return Err(unexpected(other)),
            Err(error) => tracing::debug!(id = %view.id(), %error, "a close was cut short and is tried again"),
        }
    }
    Err(unreachable(&view))
}
