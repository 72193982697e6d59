//! `terminal/wait_for_exit`: waits until the command has ended.

use super::{Done, Terminal, Terminals, exit_status};
use crate::message::{CANCELLED, Failure};
use outlast_client::{ClientError, Receipt, Waited};

impl Terminals {
    pub(super) async fn wait_for_exit(&self, of: &Terminal, cancelled: impl Future<Output = ()>) -> Result<Done, Failure> {
        let (waited, receipt) = tokio::select! {
            waited = self.wait(of) => waited.map_err(|e| of.refused(&e))?,
            () = cancelled => return Err(Failure::new(CANCELLED, "the wait was cancelled; the command keeps running")),
        };
        match waited.status.as_str() {
            "exited" => Ok(Done { receipt: Some(receipt), ..Ok(exit_status(&waited.fate)).into() }),
            // A client cancelled the session's waits.
            _ => Err(Failure::new(CANCELLED, "the wait was interrupted; the command keeps running")),
        }
    }

    /// Waits without a limit, also across engine restarts. The end counts as seen when the agent has it.
    async fn wait(&self, of: &Terminal) -> Result<(Waited, Receipt), ClientError> {
        let (client, receipt) = self.client(&of.session_id).await?.relaying();
        Ok((client.wait(&of.terminal_id, None).await?, receipt))
    }
}
