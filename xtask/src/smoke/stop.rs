//! A stop reaches the whole tree, and nothing else.

use super::until;
use anyhow::{Context, Result, ensure};
use outlast_testkit::product::{Product, kill_and_wait};
use outlast_testkit::trees::{self, Tree, alive_in};
use std::process::{Child, Command, Stdio};

pub(crate) fn plain_tree(p: &Product) -> Result<()> {
    stopped(p, trees::ignorers(), "ignorers", |_| Ok(()))
}

pub(crate) fn sessions_of_their_own(p: &Product) -> Result<()> {
    stopped(p, trees::leavers(), "leavers", |_| Ok(()))
}

pub(crate) fn double_forks(p: &Product) -> Result<()> {
    stopped(p, trees::double_forks(), "double-forks", |_| Ok(()))
}

pub(crate) fn forking_loop(p: &Product) -> Result<()> {
    stopped(p, trees::forking_loop(), "forking-loop", |_| Ok(()))
}

pub(crate) fn children_born_in_the_grace(p: &Product) -> Result<()> {
    stopped(p, trees::born_in_the_grace(), "born", |_| Ok(()))
}

pub(crate) fn after_the_holder_was_killed(p: &Product) -> Result<()> {
    stopped(p, trees::leavers(), "leavers-without-holder", |id| kill_and_wait(p.meta(id).holder))
}

fn stopped(p: &Product, tree: Tree, name: &str, before: impl FnOnce(&str) -> Result<()>) -> Result<()> {
    let dir = p.work().join(name);
    std::fs::create_dir(&dir)?;
    let bystander = Outsider::new()?;
    let started = p.json(["run", "--cwd", &dir.display().to_string(), "--", tree.line]);
    let id = started["session_id"].as_str().with_context(|| format!("run answered {started}"))?.to_owned();
    until("the tree to stand", || dir.join("ready").exists().then_some(()))?;
    before(&id)?;
    let killed = p.json(["kill", &id, "--grace", "0.3"]);
    ensure!(killed["status"] == "killed", "kill answered {killed}");
    let left = alive_in(&dir);
    ensure!(left.is_empty(), "left alive: {left:?}");
    bystander.lives()
}

/// A process that a stop must not reach.
struct Outsider(Child);

impl Outsider {
    fn new() -> Result<Self> {
        Ok(Self(Command::new("/bin/sleep").arg("1000").stdin(Stdio::null()).spawn()?))
    }

    fn lives(mut self) -> Result<()> {
        let status = self.0.try_wait()?;
        ensure!(status.is_none(), "a bystander was harmed: {status:?}");
        Ok(())
    }
}

impl Drop for Outsider {
    fn drop(&mut self) {
        // It is dead already if the stop harmed it.
        let _gone = self.0.kill();
        let _reaped = self.0.wait();
    }
}
