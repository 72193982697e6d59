//! `log`: a page of output.

use super::context::{AnswerWithEnd, RequestContext, reading};
use crate::intake::Current;
use crate::{refuse, render};
use outlast_wire::code;
use outlast_wire::v1::{Error, LogPage, Page};
use std::sync::Arc;

pub(super) async fn log(asked: &RequestContext, name: &str, page: Page) -> Result<AnswerWithEnd<LogPage>, Error> {
    if page.limit == Some(0) {
        return Err(refuse::refusal(code::BAD_REQUEST, "a page of 0 lines shows nothing", "give a limit of at least 1"));
    }
    let view = asked.resolve(name).await?;
    let Current { facts, seen } = asked.look(&view).await?;
    let parts = Arc::clone(&asked.parts);
    let of = Arc::clone(&facts);
    let answer = reading(move || render::page(&parts.redactor, &view.dir, &facts, seen.meta.as_ref(), page)).await?;
    // A page that does not reach the end of the output, or begins after it, does not show the end of the process.
    let behind = page.offset.is_some_and(|line| line > answer.total_lines) || page.from_byte.is_some_and(|byte| byte > answer.next_byte);
    let of = (answer.at_end && !behind && of.is_over()).then_some(of);
    Ok(AnswerWithEnd { answer, of, awaiting: None })
}
