//! `outlast active`

use super::{Context, Failure, millis, seconds};
use clap::Args;
use outlast_client::Activity;
use std::time::Duration;

/// The exit code if nothing runs. Not 1 or 2, which are for failures.
const IDLE: i32 = 3;

/// Exit 0 if any process is running (for scripts)
///
/// Looks at all processes, or at those of a task or a session. Exits 3 if none is running.
#[derive(Debug, Args)]
pub(crate) struct Active {
    /// Look at processes of this task
    #[arg(long, value_name = "TASK", group = "about")]
    task: Option<String>,
    /// Look at processes of this session
    #[arg(long, value_name = "KEY", group = "about")]
    session: Option<String>,
    /// Ignore processes that have run for this long, such as 5m or 1h30m
    #[arg(long, value_name = "DURATION", value_parser = seconds, requires = "session")]
    max_age: Option<Duration>,
    /// Report whether a caller that waits for this process, given by id or name, has to keep waiting
    #[arg(long, value_name = "ID", group = "about")]
    waiting: Option<String>,
}

impl Active {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let about = match (self.task, self.session, self.waiting) {
            (Some(task), ..) => Activity::Task { task },
            (_, Some(session), _) => Activity::Session { session, max_age_ms: self.max_age.map(millis) },
            (.., Some(process)) => Activity::Waiting { process },
            (None, None, None) => Activity::Any,
        };
        let active = ctx.client().await?.activity(about).await?;
        if ctx.out.json {
            ctx.out.object(&active)?;
        } else {
            ctx.out.line(&format!("{} ({} running in this home)", if active.active { "active" } else { "idle" }, active.running))?;
        }
        Ok(if active.active { 0 } else { IDLE })
    }
}
