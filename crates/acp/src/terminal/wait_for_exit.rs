//! `terminal/wait_for_exit`

use super::{Terminal, Terminals, exit_status};
use crate::message::{CANCELLED, Failure};
use outlast_client::{ClientError, Waited};
use serde_json::Value;

impl Terminals {
    pub(super) async fn wait_for_exit(&self, of: &Terminal, cancelled: impl Future<Output = ()>) -> Result<Value, Failure> {
        let waited = tokio::select! {
            waited = self.wait(of) => waited.map_err(|e| of.refused(&e))?,
            () = cancelled => return Err(Failure::new(CANCELLED, "the wait was cancelled; the command goes on")),
        };
        match waited.status.as_str() {
            "exited" => Ok(exit_status(&waited.fate)),
            // Somebody let go of the conversation's waits.
            _ => Err(Failure::new(CANCELLED, "the wait was interrupted; the command goes on")),
        }
    }

    /// For as long as it takes, over any number of engines.
    async fn wait(&self, of: &Terminal) -> Result<Waited, ClientError> {
        self.client(&of.session_id).await?.wait(&of.terminal_id, None).await
    }
}
