//! Progress while somebody waits for an answer.

use rmcp::model::ProgressNotificationParam;
use rmcp::service::{RequestContext, RoleServer};
use std::time::{Duration, Instant};

/// How often it is said that a call is still under way.
const EVERY: Duration = Duration::from_secs(2);

/// Says every now and then that a call goes on, where its caller asked for that. Never returns.
pub(crate) async fn tell(context: &RequestContext<RoleServer>) {
    let Some(token) = context.meta.get_progress_token() else { return std::future::pending().await };
    let began = Instant::now();
    loop {
        // There is no fact to wait for: that nothing has happened is what is told.
        tokio::time::sleep(EVERY).await;
        let seconds = began.elapsed().as_secs_f64();
        let progress = ProgressNotificationParam::new(token.clone(), seconds).with_message(format!("running for {seconds:.0} s"));
        if context.peer.notify_progress(progress).await.is_err() {
            // Nobody listens any more; the answer will find that out, too.
            return std::future::pending().await;
        }
    }
}
