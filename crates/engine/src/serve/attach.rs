//! `attach`: a real terminal views the process for as long as the connection lasts.

use super::context::RequestContext;
use super::poll;
use crate::reach::NoKeeper;
use outlast_core::Phase;
use outlast_wire::v1::keeper::KeeperRequest;

/// How many attempts in a row to register with a keeper may fail.
const TRIES: u32 = 16;

/// Answers, then stays: the terminal is attached until the connection ends and this is dropped.
pub(super) async fn attach(asked: &RequestContext, name: &str, read_only: bool) {
    let mut view = match asked.resolve(name).await {
        Ok(view) => view,
        Err(error) => return asked.out.error(error).await,
    };
    view.until(|f| f.phase != Phase::Accepted).await;
    // A terminal that sends nothing cannot answer the program's questions.
    let answers = view.facts.kept.spec.pty && !read_only;
    let mut link = None;
    if answers && let Ok(mut open) = asked.parts.reach.keeper(&mut view).await {
        // Before the answer, or the keeper could answer a question that this terminal also sees.
        if open.ask(KeeperRequest::Attached { on: true }).await.is_ok() {
            link = Some(open);
        }
    }
    let answer = poll::whole(asked, &view).await;
    let looks_on = answers && answer.is_ok();
    asked.out.result(answer).await;
    let mut failures = 0;
    while looks_on && failures < TRIES {
        if let Some(mut open) = link.take() {
            open.closed().await;
        }
        // The pump that knew of this viewer is gone. Register with the next one.
        match asked.parts.reach.keeper(&mut view).await {
            Ok(mut open) => {
                link = open.ask(KeeperRequest::Attached { on: true }).await.is_ok().then_some(open);
                failures = if link.is_some() { 0 } else { failures + 1 };
            }
            Err(NoKeeper::Over | NoKeeper::Refused(_)) => return,
        }
    }
}
