//! The connection over which the engine reports which sessions have notices.

use crate::coordinator::{Gateway, Input};
use outlast_client::{Client, ClientError, SessionFeed};
use std::time::Duration;

/// How long is waited before an engine that cannot be reached is asked again.
const ENGINE_RETRY_PAUSE: Duration = Duration::from_millis(200);

/// The connection over which the engine knows that a gateway serves, and what came over it first. It is made before the gateway listens: from then on the
/// engine notices the gateway's end, whatever was accepted.
pub(crate) struct Serving {
    feed: SessionFeed,
    first: Vec<String>,
}

impl Serving {
    /// Opens it, and waits for the first report.
    pub(crate) async fn begin(engine: &Client) -> Result<Self, ClientError> {
        let mut feed = engine.serve();
        let first = feed.next().await?;
        Ok(Self { feed, first })
    }

    /// Reports to the coordinator which sessions have notices, until the gateway ends.
    pub(crate) async fn watch(self, engine: Client, gateway: Gateway) {
        let Self { mut feed, first } = self;
        let mut connection = 1;
        let mut next = Ok(first);
        loop {
            while let Ok(sessions) = next {
                if gateway.inputs.send(Input::NoticesOpen { sessions, connection }).await.is_err() {
                    return;
                }
                next = feed.next().await;
            }
            if gateway.inputs.send(Input::EngineLost).await.is_err() {
                return;
            }
            // There is no descriptor to wait on for the next engine; asking starts one.
            tokio::time::sleep(ENGINE_RETRY_PAUSE).await;
            feed = engine.serve();
            connection += 1;
            next = feed.next().await;
        }
    }
}
