//! `terminal/release`: stops the command if it runs, and frees the terminal's name. The log stays in the home for as long as logs do.

use super::kill::Stopped;
use super::{Terminal, Terminals};
use crate::message::Failure;
use outlast_client::{ClientError, Status};
use serde_json::{Value, json};

impl Terminals {
    pub(super) async fn release(&self, of: &Terminal) -> Result<Value, Failure> {
        match self.let_go(of).await {
            Ok(()) => Ok(json!({})),
            Err(error) => {
                // It may be asked for again: what was not stopped must not be out of reach.
                self.known().keep(&of.session_id, of.id()?);
                Err(of.refused(&error))
            }
        }
    }

    async fn let_go(&self, of: &Terminal) -> Result<(), ClientError> {
        // What a command that is over has left running goes on: only `terminal/kill` asks for its end.
        let is_over = self.client(&of.session_id).await?.poll(&of.terminal_id).await?.status == Status::Exited;
        let stopped = if is_over { Stopped::Before } else { self.stop(of).await? };
        match stopped {
            Stopped::Now => Ok(()),
            // Whoever releases it wants to hear no more of it.
            Stopped::Before => self.client(&of.session_id).await?.mark_completion_consumed(&of.terminal_id).await,
        }
    }
}
