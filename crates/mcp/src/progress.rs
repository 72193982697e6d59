//! Reports progress while a client waits for an answer.

use rmcp::model::ProgressNotificationParam;
use rmcp::service::{RequestContext, RoleServer};
use std::time::{Duration, Instant};

/// The time between two reports.
const REPORT_INTERVAL: Duration = Duration::from_secs(2);

/// Reports that a call is still running, if its caller asked for progress. Never returns.
pub(crate) async fn tell(context: &RequestContext<RoleServer>) {
    let Some(token) = context.meta.get_progress_token() else { return std::future::pending().await };
    let began = Instant::now();
    loop {
        // There is no fact to wait for: the report says that nothing has happened yet.
        tokio::time::sleep(REPORT_INTERVAL).await;
        let seconds = began.elapsed().as_secs_f64();
        let progress = ProgressNotificationParam::new(token.clone(), seconds).with_message(format!("running for {seconds:.0} s"));
        if context.peer.notify_progress(progress).await.is_err() {
            // The client has gone. The answer will fail as well.
            return std::future::pending().await;
        }
    }
}
