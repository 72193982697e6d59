//! `outlast chat send`, as a user or a script calls it: with its own id, and repeated if needed.

use super::super::faults;
use super::stage::{ChatOf, turn_line};
use anyhow::{Context, Result, bail, ensure};
use outlast_testkit::product::Product;
use serde_json::Value;
use std::os::unix::process::ExitStatusExt;
use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard};

/// One message, and the process that sends it, if one runs.
pub(super) struct Client<'a> {
    product: &'a Product,
    chat: &'a ChatOf,
    token: String,
    pid: Mutex<Option<u32>>,
    /// No check waits for its output.
    is_silent: AtomicBool,
}

/// The last report of a client.
#[derive(Debug)]
pub(super) enum Reply {
    /// The client was killed.
    Killed,
    /// The message is accepted.
    Accepted,
    /// The turn is finished.
    Over(Value),
}

impl<'a> Client<'a> {
    pub(super) fn new(product: &'a Product, chat: &'a ChatOf, token: &str) -> Self {
        Self { product, chat, token: token.to_owned(), pid: Mutex::new(None), is_silent: AtomicBool::new(false) }
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// Sends the message, and again if it is told that the message waits for a person: the breaker holds it back until a user resumes it.
    pub(super) fn speak(&self, more: &str, does_wait: bool) -> Result<Reply> {
        loop {
            let output = self.send(more, does_wait)?;
            if output.status.signal() == Some(9) {
                return Ok(Reply::Killed);
            }
            let said: Value =
                serde_json::from_slice(&output.stdout).with_context(|| format!("the client of {}: {output:?}", self.token))?;
            match (output.status.code(), does_wait) {
                (Some(0), false) if said["status"] == "accepted" => return Ok(Reply::Accepted),
                (Some(0 | 1), true) if said["state"] == "finished" => return Ok(Reply::Over(said)),
                (Some(1), true) if said["status"] == "waiting" => {}
                _ => bail!("the client of {} gave up: {output:?}", self.token),
            }
        }
    }

    fn send(&self, more: &str, does_wait: bool) -> Result<Output> {
        let words = format!("[[{}]] {more}", self.token);
        let line = turn_line(self.product)?;
        let agent = match self.chat.driver {
            super::plan::Driver::Acp => ["--agent", "acp"],
            super::plan::Driver::Configured => ["--agent", "turns"],
            super::plan::Driver::Command => ["--command", &line],
        };
        let mut call = self.product.command(["chat", "send", "--json", &self.chat.name, &words, "--id", &self.token]);
        call.args(agent).args(does_wait.then_some("--wait")).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = {
            let mut pid = self.pid();
            ensure!(!self.is_silent.load(SeqCst), "the round is over");
            let child = call.spawn()?;
            *pid = Some(child.id());
            child
        };
        let output = child.wait_with_output()?;
        *self.pid() = None;
        Ok(output)
    }

    /// Ends the client, because the round has failed.
    pub(super) fn silence(&self) {
        let pid = self.pid();
        self.is_silent.store(true, SeqCst);
        if let Some(pid) = *pid {
            // It may have ended already.
            let _gone = faults::kill(pid);
        }
    }

    /// The process, if it runs.
    pub(super) fn alive(&self) -> Option<u32> {
        self.pid().filter(|pid| faults::alive(*pid))
    }

    fn pid(&self) -> MutexGuard<'_, Option<u32>> {
        self.pid.lock().unwrap_or_else(|e| e.into_inner())
    }
}
