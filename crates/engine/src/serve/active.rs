//! `active`: whether a session still has running processes.

use super::context::RequestContext;
use crate::facts::Facts;
use crate::refuse;
use crate::table::WhichProcesses;
use outlast_wire::v1::{Active, Activity, Error, ErrorKind};

pub(super) async fn active(asked: &RequestContext, about: Activity) -> Result<Active, Error> {
    let now = asked.parts.now();
    let views = asked.parts.table.all(&asked.owner, WhichProcesses::Live).await?;
    let runs = |f: &Facts| !f.is_over();
    let running = views.iter().filter(|v| runs(&v.facts)).count() as u64;
    let any = |so: &dyn Fn(&Facts) -> bool| views.iter().any(|v| runs(&v.facts) && so(&v.facts));
    let is_about_all = matches!(about, Activity::Any);
    let active = match about {
        Activity::Task { task } => any(&|f| f.kept.spec.owner.task.as_ref() == Some(&task)),
        Activity::Session { session, max_age_ms } => any(&|f| {
            let young = max_age_ms.is_none_or(|ms| now.seconds_since(f.since()).saturating_mul(1_000) < ms);
            f.kept.spec.owner.session.as_ref() == Some(&session) && young
        }),
        Activity::Any => running > 0,
        // An unknown id counts as ended.
        Activity::Waiting { process } => match asked.resolve(&process).await {
            Ok(view) => runs(&view.facts) && !super::until::has_matched(asked, &view.facts).await?,
            Err(error) if error.kind == ErrorKind::Refusal => false,
            Err(error) => return Err(error),
        },
        other => return Err(refuse::unknown("a question about activity", &other)),
    };
    let mut answer = Active::new(active, running);
    if is_about_all {
        let session = asked.owner.session.clone().unwrap_or_default();
        answer.waiting = Some(asked.parts.outbox.waiting(&session, asked.asker.clone(), now).await.map_err(|e| refuse::index(&e))?);
        answer.failing = Some(asked.parts.outbox.failed_wakes().count());
    }
    Ok(answer)
}
