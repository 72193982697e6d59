//! `rm`: forget one that is over.

use super::{Asked, Fresh};
use crate::refuse;
use crate::state::View;
use outlast_core::{Ask as Wish, decide};
use outlast_wire::v1::{Error, Removed};
use std::time::Duration;

/// The end of a process is told before its output is closed. Who removes it right then is not refused for that.
const CLOSING: Duration = Duration::from_secs(1);

pub(super) async fn remove(asked: &Asked, name: &str) -> Result<Removed, Error> {
    let view = removable(asked, name).await?;
    asked.engine.forget(&view).await?;
    Ok(Removed::new(view.id()))
}

/// One that may be forgotten.
pub(super) async fn removable(asked: &Asked, name: &str) -> Result<View, Error> {
    let mut view = asked.resolve(name).await?;
    until_closed(asked, &mut view).await?;
    decide(&view.facts.phase, Wish::Remove, false).map_err(|r| refuse::rule(&r))?;
    Ok(view)
}

/// Gives a process that has ended a moment to let go of its output.
pub(super) async fn until_closed(asked: &Asked, view: &mut View) -> Result<(), Error> {
    let Fresh { facts, .. } = asked.fresh(view).await?;
    view.facts = facts;
    if view.facts.is_over() && !view.facts.phase.is_final() {
        // If somebody holds it for longer, what is known stays as it is.
        let _closed = tokio::time::timeout(CLOSING, view.until(|f| f.phase.is_final())).await;
    }
    Ok(())
}
