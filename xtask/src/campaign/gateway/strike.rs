//! Kills the process that the plan names, at the point that it names.

use super::super::faults;
use super::agent;
use super::client::Client;
use super::eyes::{cut_power, gateways, kill_together};
use super::plan::{GatewayVictim, Plan, Seen};
use super::scene::Scene;
use super::stage::ChatOf;
use anyhow::Result;
use outlast_testkit::product::kill_and_wait;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// The time between two checks whether a process is held.
const LOOK: Duration = Duration::from_micros(500);

/// Waits at a point for its victim.
pub(super) struct Saboteur<'a> {
    scene: &'a Scene,
    chat: &'a ChatOf,
    token: &'a str,
    plan: &'a Plan,
    client: &'a Client<'a>,
    is_held: AtomicBool,
    has_struck: AtomicBool,
    is_over: AtomicBool,
}

impl<'a> Saboteur<'a> {
    /// No process is held before [`Saboteur::arm`].
    pub(super) fn new(scene: &'a Scene, chat: &'a ChatOf, token: &'a str, plan: &'a Plan, client: &'a Client<'a>) -> Self {
        let [is_held, has_struck, is_over] = [const { AtomicBool::new(false) }; 3];
        Self { scene, chat, token, plan, client, is_held, has_struck, is_over }
    }

    pub(super) fn arm(&self) -> Result<()> {
        self.scene.product.points().arm(self.plan.point.name)
    }

    /// Whether a process is held at the point.
    pub(super) fn is_held(&self) -> bool {
        self.is_held.load(SeqCst)
    }

    /// Whether the kill is done.
    pub(super) fn has_struck(&self) -> bool {
        self.has_struck.load(SeqCst)
    }

    /// Whether it no longer waits.
    pub(super) fn is_off(&self) -> bool {
        self.is_over.load(SeqCst)
    }

    /// Stops waiting.
    pub(super) fn call_off(&self) {
        self.is_over.store(true, SeqCst);
    }

    /// Kills the planned process once a process is held at the point, and the next gateway at the planned point.
    pub(super) fn strike(&self) -> Result<Seen> {
        let Plan { point, victim, again, .. } = self.plan;
        let Some(held) = self.until_held(point.name) else {
            self.let_all_go(point.name)?;
            return Ok(Seen::default());
        };
        self.is_held.store(true, SeqCst);
        // A user who writes meanwhile needs time to make progress.
        std::thread::sleep(Duration::from_micros(self.plan.pause_micros));
        if let Some(again) = again {
            self.scene.product.points().arm(again)?;
        }
        let seen = self.kill(*victim)?;
        if faults::alive(held) {
            self.scene.product.points().release(point.name)?;
        } else {
            self.forget(point.name, held)?;
        }
        self.has_struck.store(true, SeqCst);
        // If no process is left that could start one, an unrelated call is made, or the client comes back first.
        if victim.has_gateway() && victim.has_engine() && (self.plan.is_client_late || self.client.alive().is_none()) {
            self.scene.product.engine();
        }
        if let Some(again) = again {
            match self.until_held(again) {
                Some(next) => {
                    kill_and_wait(next)?;
                    self.forget(again, next)?;
                }
                None => {
                    self.let_all_go(again)?;
                    anyhow::bail!("no gateway came to {again}");
                }
            }
        }
        Ok(seen)
    }

    fn kill(&self, victim: GatewayVictim) -> Result<Seen> {
        let Scene { product, dir, .. } = self.scene;
        let own_agent = self.scene.agent(self.chat);
        let client = self.client.alive();
        let mut pids = Vec::new();
        if victim.has_gateway() {
            pids.extend(gateways(product));
        }
        if victim.has_engine() {
            pids.extend(faults::engine(product));
        }
        if victim.has_agent() {
            pids.extend(own_agent);
        }
        if victim.has_client() {
            pids.extend(client);
        }
        match victim {
            GatewayVictim::Everything => cut_power(product, || self.client.alive())?,
            _ => kill_together(&pids)?,
        }
        // The agent's log is read once it is dead, or at least cannot receive more.
        let prompts = agent::prompts_of(dir, self.token);
        Ok(Seen {
            is_killed: true,
            is_agent_killed: victim.has_agent() && own_agent.is_some(),
            has_prompt: !prompts.is_empty(),
            is_ending: prompts.last().is_some_and(|prompt| agent::is_ending(dir, &prompt.nonce)),
        })
    }

    fn until_held(&self, name: &str) -> Option<u32> {
        loop {
            let held = self.scene.product.points().held(name);
            if held.is_some() || self.is_over.load(SeqCst) {
                return held;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Disarms the point.
    fn let_all_go(&self, name: &str) -> Result<()> {
        self.scene.product.points().disarm(name);
        self.scene.product.points().release(name)
    }

    /// Removes what a dead process left at its point.
    fn forget(&self, name: &str, pid: u32) -> Result<()> {
        Ok(std::fs::remove_file(self.scene.product.points().dir().join(format!("{name}.held.{pid}")))?)
    }
}
