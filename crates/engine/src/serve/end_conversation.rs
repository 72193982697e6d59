//! `end_conversation`: the conversation that asks has ended.

use super::context::RequestContext;
use crate::refuse;
use outlast_wire::v1::{Done, Error};

pub(super) async fn end_conversation(asked: &RequestContext) -> Result<Done, Error> {
    if let Some(asker) = &asked.asker {
        asker.end().await.map_err(|e| refuse::index(&e))?;
    }
    Ok(Done::ok())
}
