//! A line for a user at a terminal: notices wait, or hooks that wake agents fail.

use super::{Context, prompt};
use outlast_client::{Client, Connect};

/// Says how many notices wait. It costs one request to an engine that runs, and starts none.
pub(super) async fn tell(ctx: &Context) {
    if !ctx.out.has_person() || ctx.owner().session.is_some() {
        return;
    }
    let to = Connect::to(&ctx.settings.home);
    // An engine that does not answer is reported by the verbs that need it.
    let Ok(Ok(counts)) = tokio::time::timeout(prompt::PATIENCE, Client::counts(&to)).await else { return };
    for line in [line(counts.waiting), failing(counts.failing)].into_iter().flatten() {
        ctx.out.tip(&line);
    }
}

fn failing(hooks: u64) -> Option<String> {
    match hooks {
        0 => None,
        1 => Some("a hook could not wake its agent; `outlast doctor` says why".to_owned()),
        n => Some(format!("{n} hooks could not wake their agents; `outlast doctor` says why")),
    }
}

fn line(waiting: u64) -> Option<String> {
    match waiting {
        0 => None,
        1 => Some("1 notice is waiting; `outlast events` shows it".to_owned()),
        n => Some(format!("{n} notices are waiting; `outlast events` shows them")),
    }
}
