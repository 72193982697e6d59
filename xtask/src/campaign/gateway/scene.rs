//! What all programs of a round have in common: the home, the agents' directory, and the eyes of the round.

use super::super::faults;
use super::agent;
use super::client::{Client, Reply};
use super::eyes::Eyes;
use super::plan::{Kind, Plan, Progress, Seen};
use super::stage::ChatOf;
use super::strike::Saboteur;
use anyhow::{Result, bail, ensure};
use outlast_client::{Shown, TurnInfo, TurnState};
use outlast_testkit::product::Product;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Longer than any round takes: it only turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(90);
/// How long after the end of a turn its point may still be reached: some agents get there last.
const POINT_LIMIT: Duration = Duration::from_secs(5);
/// How often is looked for something that no descriptor tells of.
const LOOK: Duration = Duration::from_millis(10);
/// What a conversation waits for that the breaker holds back.
const HELD_BACK: &str = "The gateway was interrupted several times in a row";

pub(super) struct Scene {
    pub(super) product: Product,
    pub(super) dir: PathBuf,
    pub(super) eyes: Eyes,
}

impl Scene {
    /// The agent of a conversation, if one lives.
    pub(super) fn agent(&self, chat: &ChatOf) -> Option<u32> {
        let pid = agent::pid_of(&self.dir, &chat.key).filter(|pid| faults::alive(*pid))?;
        let cmdline = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        // The pid may be another program's by now.
        String::from_utf8_lossy(&cmdline).contains("__agent").then_some(pid)
    }

    /// Says a message until it is heard: a client that was killed comes back at once, or late, when the turn is finished without it.
    pub(super) fn say_until_heard(&self, client: &Client<'_>, chat: &ChatOf, plan: &Plan, saboteur: &Saboteur<'_>) -> Result<Reply> {
        loop {
            let reply = client.speak("", plan.does_wait)?;
            if !matches!(reply, Reply::Killed) {
                return Ok(reply);
            }
            // Until then the saboteur may not be done with those who are to die together.
            self.until("the end of the kill", || Ok((saboteur.has_struck() || saboteur.is_off()).then_some(())))?;
            if plan.is_client_late && self.is_kept(chat, client.token(), plan)? {
                let token = client.token();
                self.until(&format!("the end of {token} without its client"), || Ok(self.turn(chat, token).filter(TurnInfo::is_finished)))?;
            }
        }
    }

    /// Whether the gateway has a message whose client was killed. What it does not have is known to the client alone.
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
            // A gateway that is held does not answer; it is asked seldom, because it is in the way then.
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

    /// The turn about a token, as the gateway tells.
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

    /// Waits until the breaker holds the turn about a token back. Nothing if it was finished instead.
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

    /// Waits for something.
    pub(super) fn until<T>(&self, what: &str, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
        let began = Instant::now();
        loop {
            if let Some(found) = look()? {
                return Ok(found);
            }
            ensure!(began.elapsed() < PATIENCE, "never came: {what}");
            std::thread::sleep(LOOK);
        }
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

/// What came of the kill of a round.
pub(super) fn joined(striking: std::thread::ScopedJoinHandle<'_, Result<Seen>>) -> Result<Seen> {
    striking.join().unwrap_or_else(|_| bail!("the saboteur failed"))
}
