//! `terminal/kill`: stops the command. Its output stays readable.

use super::{Terminal, Terminals};
use crate::message::Failure;
use outlast_client::{ClientError, Kill, code};
use serde_json::{Value, json};

impl Terminals {
    pub(super) async fn kill(&self, of: &Terminal) -> Result<Value, Failure> {
        match self.stop(of).await {
            Ok(_) => Ok(json!({})),
            Err(error) => Err(of.refused(&error)),
        }
    }

    /// Stops the whole tree, with the grace that is configured.
    pub(super) async fn stop(&self, of: &Terminal) -> Result<Stopped, ClientError> {
        match self.client(&of.session_id).await?.kill(&of.terminal_id, Kill::default()).await {
            Ok(_) => Ok(Stopped::Now),
            Err(error) if error.code() == code::ALREADY_EXITED => Ok(Stopped::Before),
            Err(error) => Err(error),
        }
    }
}

/// When a command ended.
pub(super) enum Stopped {
    /// By this stop; its end counts as seen.
    Now,
    /// Before this stop.
    Before,
}
