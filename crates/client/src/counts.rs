//! What a prompt shows of a home, for the price of one request or one small file.

use crate::{Client, ClientError, Connect};
use outlast_wire::v1::Activity;
use std::path::Path;

/// The activity in a home.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counts {
    /// How many processes run.
    pub running: u64,
    /// How many notices wait for the owner, at most 1,000.
    pub waiting: u64,
    /// How many hooks could not wake an agent when they were last called.
    pub failing: u64,
}

impl Client {
    /// Counts running processes and waiting notices. This never starts an engine, whatever `to` says: if none runs, no process is
    /// running that an engine knows, and the last engine has left the number of notices that wait for the user.
    pub async fn counts(to: &Connect) -> Result<Counts, ClientError> {
        let asked = Connect::to(&to.home).speaking_for(to.owner.clone());
        let client = match Self::connect(&asked).await {
            Ok(client) => client,
            Err(e) if e.is_not_running() => {
                let waiting = if to.owner.session.is_none() { left_behind(&to.home) } else { 0 };
                return Ok(Counts { waiting, ..Counts::default() });
            }
            Err(e) => return Err(e),
        };
        let active = client.activity(Activity::Any).await?;
        Ok(Counts { running: active.running, waiting: active.waiting.unwrap_or_default(), failing: active.failing.unwrap_or_default() })
    }
}

/// The number that the last engine has left. There is none if no notice waited, or if the engine was killed.
fn left_behind(home: &Path) -> u64 {
    std::fs::read_to_string(home.join("waiting")).ok().and_then(|text| text.trim().parse().ok()).unwrap_or_default()
}
