//! What all parts of a round share: the home, the agents' directory, and the observer.

use super::super::faults;
use super::agent;
use super::client::{Client, Reply};
use super::eyes::Eyes;
use super::plan::{Kind, Plan, Progress, Seen};
use super::stage::ChatOf;
use super::strike::Saboteur;
use crate::wait;
use anyhow::{Result, bail, ensure};
use outlast_client::{Shown, TurnInfo, TurnState};
use outlast_testkit::product::Product;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Longer than any round takes. It only turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(90);
/// How long after the end of a turn its point may still be reached: some agents get there last.
const POINT_LIMIT: Duration = Duration::from_secs(5);
/// The time between two checks for facts that no event reports.
const LOOK: Duration = Duration::from_millis(10);
/// Why the breaker holds a conversation back.
const HELD_BACK: &str = "The gateway was interrupted several times in a row";

pub(super) struct Scene {
    pub(super) product: Product,
    pub(super) dir: PathBuf,
    pub(super) eyes: Eyes,
}

impl Scene {
    /// The agent of a conversation, if it runs.
    pub(super) fn agent(&self, chat: &ChatOf) -> Option<u32> {
        let pid = agent::pid_of(&self.dir, &chat.key).filter(|pid| faults::alive(*pid))?;
        let cmdline = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        // The pid may have been reused.
        String::from_utf8_lossy(&cmdline).contains("__agent").then_some(pid)
    }

    /// Sends a message until it is accepted. A killed client comes back at once, or only after the turn was finished without it.
    pub(super) fn say_until_heard(&self, client: &Client<'_>, chat: &ChatOf, plan: &Plan, saboteur: &Saboteur<'_>) -> Result<Reply> {
        loop {
            let reply = client.speak("", plan.does_wait)?;
            if !matches!(reply, Reply::Killed) {
                return Ok(reply);
            }
            // Until then the saboteur may still have to kill other processes.
            self.until("the end of the kill", || Ok((saboteur.has_struck() || saboteur.is_off()).then_some(())))?;
            if plan.is_client_late && self.is_kept(chat, client.token(), plan)? {
                let token = client.token();
                self.until(&format!("the end of {token} without its client"), || Ok(self.turn(chat, token).filter(TurnInfo::is_finished)))?;
            }
        }
    }

    /// Whether the gateway has the message of a killed client. If not, only the client knows it.
    fn is_kept(&self, chat: &ChatOf, token: &str, plan: &Plan) -> Result<bool> {
        let is_kept = self.until("a gateway", || Ok(self.eyes.has_turn(&chat.key, &format!("[[{token}]]"))))?;
        let is_accepted = plan.kind() == Kind::Message && plan.progress() != Progress::Unwritten;
        ensure!(is_kept || !is_accepted, "{token} was accepted, and is lost");
        Ok(is_kept)
    }

    /// Waits until the saboteur has done its work, or has none because its point is not reached.
    pub(super) fn until_struck(&self, chat: &ChatOf, token: &str, saboteur: &Saboteur<'_>) -> Result<()> {
        let began = Instant::now();
        let mut finished: Option<Instant> = None;
        while !saboteur.has_struck() {
            // A held gateway does not answer, so it is asked rarely: each request waits for its time limit.
            if finished.is_none() && self.turn(chat, token).is_some_and(|turn| turn.is_finished()) {
                finished = Some(Instant::now());
            }
            let is_missed = finished.is_some_and(|at| at.elapsed() > POINT_LIMIT);
            if is_missed || began.elapsed() > PATIENCE {
                saboteur.call_off();
                bail!("the point was not reached");
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// The turn about a token, as the gateway reports it.
    pub(super) fn turn(&self, chat: &ChatOf, token: &str) -> Option<TurnInfo> {
        self.eyes.turn(&chat.key, &format!("[[{token}]]"))
    }

    /// Waits until the turn about a token is finished. Nothing holds it back.
    pub(super) fn until_finished(&self, chat: &ChatOf, token: &str) -> Result<TurnInfo> {
        self.until(&format!("the end of {token}"), || {
            let Some(shown) = self.eyes.show(&chat.key, None) else { return Ok(None) };
            ensure!(!is_held_back(&shown), "the breaker holds {token} back too early");
            Ok(self.turn(chat, token).filter(TurnInfo::is_finished))
        })
    }

    /// Waits until the breaker holds the turn about a token back. `None` if the turn was finished instead.
    pub(super) fn until_held_back(&self, chat: &ChatOf, token: &str) -> Result<bool> {
        self.until(&format!("the breaker to hold {token} back"), || {
            let Some(shown) = self.eyes.show(&chat.key, None) else { return Ok(None) };
            let turn = self.turn(chat, token);
            let is_interrupted = turn.as_ref().is_some_and(|turn| turn.state == TurnState::Interrupted);
            Ok(match (is_held_back(&shown) && is_interrupted, turn.is_some_and(|turn| turn.is_finished())) {
                (true, _) => Some(true),
                (false, true) => Some(false),
                (false, false) => None,
            })
        })
    }

    /// Waits for a fact.
    pub(super) fn until<T>(&self, what: &str, look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
        wait::until(what, PATIENCE, LOOK, look)
    }

    /// A conversation in which everything ended well is active, and has no strikes.
    pub(super) fn check_standing(&self, chat: &ChatOf) -> Result<()> {
        let shown = self.until("a gateway", || Ok(self.eyes.show(&chat.key, None)))?;
        let info = &shown.conversation;
        let is_well = info.standing == outlast_client::Standing::Active && info.strikes == 0 && info.open_turns == 0;
        ensure!(is_well, "everything ended well, and the conversation says {info:?}");
        Ok(())
    }
}

fn is_held_back(shown: &Shown) -> bool {
    shown.conversation.waits_for.as_deref().is_some_and(|why| why.starts_with(HELD_BACK))
}

/// The result of the kill of a round.
pub(super) fn joined(striking: std::thread::ScopedJoinHandle<'_, Result<Seen>>) -> Result<Seen> {
    striking.join().unwrap_or_else(|_| bail!("the saboteur failed"))
}
