//! `rm`: forget one that is over.

use super::{Asked, Fresh};
use crate::refuse;
use outlast_core::{Ask as Wish, decide};
use outlast_wire::v1::{Error, Removed};

pub(super) async fn remove(asked: &Asked, name: &str) -> Result<Removed, Error> {
    let mut view = asked.resolve(name).await?;
    let Fresh { facts, .. } = asked.fresh(&view).await?;
    decide(&facts.phase, Wish::Remove, false).map_err(|r| refuse::rule(&r))?;
    view.facts = facts;
    asked.engine.forget(&view).await?;
    Ok(Removed { status: "removed".into(), session_id: view.id() })
}
