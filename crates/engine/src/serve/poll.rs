//! `poll`: how one process is.

use super::{Asked, Fresh, reading};
use crate::render::{Detail, process};
use crate::state::View;
use outlast_wire::v1::{Error, Process};
use std::sync::Arc;

pub(super) async fn poll(asked: &Asked, name: &str) -> Result<Process, Error> {
    let view = asked.resolve(name).await?;
    whole(asked, &view).await
}

/// Everything about a process, as it is right now.
pub(super) async fn whole(asked: &Asked, view: &View) -> Result<Process, Error> {
    let Fresh { facts, seen } = asked.fresh(view).await?;
    let (shared, dir) = (Arc::clone(asked.shared()), view.dir.clone());
    reading(move || Ok(process(&shared, &dir, &facts, &seen, Detail::Whole))).await
}
