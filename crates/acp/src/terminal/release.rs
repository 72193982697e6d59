//! `terminal/release`: stops the command if it runs, and forgets the terminal. The log stays in the home for as long as other logs.

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
                // The agent may try again: a command that was not stopped must stay reachable.
                self.known().keep(&of.session_id, of.id()?);
                Err(of.refused(&error))
            }
        }
    }

    async fn let_go(&self, of: &Terminal) -> Result<(), ClientError> {
        // If the command has ended, the children that it left keep running: only `terminal/kill` stops them.
        let is_over = self.client(&of.session_id).await?.poll(&of.terminal_id).await?.status == Status::Exited;
        let stopped = if is_over { Stopped::Before } else { self.stop(of).await? };
        match stopped {
            Stopped::Now => Ok(()),
            // An agent that releases a terminal needs no notice of its end.
            Stopped::Before => self.client(&of.session_id).await?.mark_completion_consumed(&of.terminal_id).await,
        }
    }
}
