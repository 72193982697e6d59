//! Requests that outlive an engine: they are sent again as long as an engine may come back.

use outlast_client::{ClientError, ErrorKind, code};
use std::time::Duration;
use tokio::time::Instant;

/// How long no engine may answer before an agent is reported as gone. The client starts an engine if it must, so this is only reached where none stays up.
const ENGINE_OUTAGE_LIMIT: Duration = Duration::from_secs(60);
/// How long to wait before the engine is asked again. There is no descriptor that becomes readable when an engine listens again.
const ENGINE_RETRY_PAUSE: Duration = Duration::from_millis(250);

/// How long the engine has not answered.
#[derive(Debug, Default)]
pub(super) struct EngineOutage {
    since: Option<Instant>,
    again_at: Option<Instant>,
}

impl EngineOutage {
    /// Notes a failure; returned if asking again will not help, or was tried for long enough.
    pub(super) fn began(&mut self, error: ClientError) -> Result<(), ClientError> {
        let now = Instant::now();
        let since = *self.since.get_or_insert(now);
        if !is_passing(&error) || now.duration_since(since) > ENGINE_OUTAGE_LIMIT {
            return Err(error);
        }
        self.again_at = Some(now + ENGINE_RETRY_PAUSE);
        Ok(())
    }

    pub(super) fn is_over(&mut self) {
        *self = Self::default();
    }

    /// Waits until it is time to ask again.
    pub(super) async fn pause(&mut self) {
        if let Some(again_at) = self.again_at {
            tokio::time::sleep_until(again_at).await;
            self.again_at = None;
        }
    }
}

/// Whether the same question may be answered later.
fn is_passing(error: &ClientError) -> bool {
    match error {
        ClientError::Refused(e) => e.kind == ErrorKind::Unavailable || matches!(e.code.as_str(), code::INPUT_FULL | code::MAYBE_WRITTEN),
        ClientError::Unavailable { .. } | ClientError::Connect { .. } | ClientError::Start { .. } => true,
        _ => false,
    }
}

/// Asks again as long as the engine may come back. The question must be one that can be asked twice.
pub(crate) async fn retried<T, F>(mut ask: impl FnMut() -> F) -> Result<T, ClientError>
where
    F: Future<Output = Result<T, ClientError>>,
{
    let mut outage = EngineOutage::default();
    loop {
        match ask().await {
            Ok(answer) => return Ok(answer),
            Err(error) => outage.began(error)?,
        }
        outage.pause().await;
    }
}
