//! `cargo xtask campaign agents`: real agents from their packages, with a scripted model on the loopback in place of a real one.
//!
//! Kimi Code with the proxy for its terminals is driven from here. The scripts in `crates/outlast/tests/agents` do the rest: what all of
//! them do over MCP, how they are woken, and what the models of agent frameworks are given.

mod kimi_acp;
pub(crate) mod model;
pub(crate) mod npm;
mod venv;

use self::npm::Npm;
use crate::Flags;
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where an agent comes from.
pub(super) enum AgentPackage {
    Npm(&'static [&'static str]),
    /// A package with a directory of its own, `NAME/node_modules`.
    NpmLibrary(&'static str, &'static [&'static str]),
    Venv(&'static [&'static str]),
    /// A library with an environment of its own, `NAME/venv`, made by a Python 3 of at least this minor version.
    Library(&'static str, u32, &'static [&'static str]),
}

struct Agent {
    name: &'static str,
    package: AgentPackage,
    /// The scripts that play with it. One without is played from here.
    scripts: &'static [&'static str],
}

pub(super) const CODEX: AgentPackage = AgentPackage::Npm(&["node@24", "@openai/codex@0.166.0"]);
pub(super) const OPENCODE: AgentPackage = AgentPackage::Npm(&["node@24", "opencode-ai@1.18.33"]);
/// Its API server wants aiohttp, and says so only when it is started.
pub(super) const HERMES: AgentPackage = AgentPackage::Venv(&["hermes-agent[mcp,acp]==0.19.0", "aiohttp"]);
/// A node that can run them all comes along.
pub(super) const KIMI: AgentPackage = AgentPackage::Npm(&["node@24", "@moonshot-ai/kimi-code@2.1.0"]);

const AGENTS: &[Agent] = &[
    Agent { name: "codex", package: CODEX, scripts: &["wake.py", "resume.py", "told.py"] },
    Agent { name: "opencode", package: OPENCODE, scripts: &["wake.py", "resume.py", "told.py"] },
    Agent { name: "hermes", package: HERMES, scripts: &["wake.py", "resume.py", "told.py"] },
    Agent { name: "kimi", package: KIMI, scripts: &["resume.py", "told.py"] },
    Agent { name: "kimi-acp", package: KIMI, scripts: &[] },
    client("pydantic-ai", PYDANTIC_AI),
    client("openai-agents", OPENAI_AGENTS),
    client("openai-agents-structured", OPENAI_AGENTS),
    client("smolagents", SMOLAGENTS),
    client("smolagents-structured", SMOLAGENTS),
    client("fast-agent", FAST_AGENT),
    client("fastmcp", FASTMCP),
    client("vibe", VIBE),
];

pub(super) const PYDANTIC_AI: AgentPackage = AgentPackage::Library("pydantic-ai", 10, &["pydantic-ai-slim[openai,mcp]==2.66.0"]);
pub(super) const FAST_AGENT: AgentPackage = AgentPackage::Library("fast-agent", 13, &["fast-agent-mcp==0.10.46"]);
pub(super) const FASTMCP: AgentPackage = AgentPackage::Library("fastmcp", 10, &["fastmcp==4.1.2"]);
pub(super) const VIBE: AgentPackage = AgentPackage::Library("vibe", 12, &["mistral-vibe==3.0.2"]);
pub(super) const OPENAI_AGENTS: AgentPackage = AgentPackage::Library("openai-agents", 10, &["openai-agents==0.24.0"]);
/// Its adapter cannot be imported with a newer `mcp`, or without the extra for WebSockets.
pub(super) const SMOLAGENTS: AgentPackage = AgentPackage::Library("smolagents", 10, &["smolagents[mcp,openai]==1.26.0", "mcp[ws]==1.30.0"]);

/// A client that is only checked for what its model is given.
const fn client(name: &'static str, package: AgentPackage) -> Agent {
    Agent { name, package, scripts: &["told.py"] }
}

/// Plays with the agents that are named, or with all. One that fails does not keep the others from being played with.
pub(crate) fn run(names: &[String], flags: &Flags<'_>) -> Result<()> {
    if let Some(unknown) = names.iter().find(|name| AGENTS.iter().all(|agent| agent.name != **name)) {
        let known: Vec<&str> = AGENTS.iter().map(|agent| agent.name).collect();
        bail!("there is no agent {unknown}: known are {}", known.join(", "));
    }
    let root = root(flags)?;
    let program = super::program(flags)?;
    let mut failed = Vec::new();
    for agent in AGENTS.iter().filter(|agent| names.is_empty() || names.iter().any(|name| name == agent.name)) {
        if let Err(why) = play(agent, &root, &program) {
            println!("FAILED: {}: {why:#}", agent.name);
            failed.push(agent.name);
        }
    }
    ensure!(failed.is_empty(), "not as it should be: {}", failed.join(", "));
    Ok(())
}

/// Where packages are installed: as the flags say, else beside this program.
pub(crate) fn root(flags: &Flags<'_>) -> Result<PathBuf> {
    match flags.get::<PathBuf>("--prefix")? {
        Some(root) => Ok(std::path::absolute(root)?),
        None => Ok(std::env::current_exe()?.with_file_name("agents")),
    }
}

/// Installs an agent unless it is there. False, and a line that says so, where that cannot be done; in CI that is a failure.
pub(crate) fn install(name: &str, root: &Path) -> Result<bool> {
    let agent = AGENTS.iter().find(|agent| agent.name == name).with_context(|| format!("there is no agent {name}"))?;
    let missing = agent.package.get(root)?;
    if let Some(why) = &missing {
        println!("skipped: {name}: {why}");
    }
    Ok(missing.is_none())
}

impl AgentPackage {
    /// Installs it unless it is there. Returns why that cannot be done; in CI that is a failure.
    pub(super) fn get(&self, root: &Path) -> Result<Option<String>> {
        let missing = match self {
            Self::Npm(packages) => Npm::at(root).get(packages),
            Self::NpmLibrary(name, packages) => Npm::at(&root.join(name)).get(packages),
            Self::Venv(packages) => venv::get(root, 10, packages),
            Self::Library(name, python, packages) => venv::get(&root.join(name), *python, packages),
        }?;
        if let Some(why) = &missing {
            ensure!(std::env::var("CI").as_deref() != Ok("true"), "{why}");
        }
        Ok(missing)
    }

    /// The names of its packages, with their versions.
    #[cfg(test)]
    pub(super) fn names(&self) -> &'static [&'static str] {
        match self {
            Self::Npm(packages) | Self::NpmLibrary(_, packages) | Self::Venv(packages) | Self::Library(_, _, packages) => packages,
        }
    }
}

/// A call of one of the scripts, which are in `crates/outlast/tests/agents`.
pub(super) fn script(name: &str, root: &Path, program: &Path) -> Command {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/outlast/tests/agents");
    let mut python = Command::new("python3");
    // Nothing is written beside the scripts.
    python.arg("-B").arg(scripts.join(name)).arg("--outlast").arg(program).arg("--agents").arg(root);
    python
}

/// The directories with the programs of agents that were installed.
pub(crate) fn bins(root: &Path) -> [PathBuf; 2] {
    [Npm::at(root).bin(), root.join("venv/bin")]
}

fn play(agent: &Agent, root: &Path, program: &Path) -> Result<()> {
    if !install(agent.name, root)? {
        return Ok(());
    }
    if agent.scripts.is_empty() {
        return kimi_acp::run(&Npm::at(root), program);
    }
    for script in agent.scripts {
        let status = self::script(script, root, program).arg(agent.name).status().context("python3 cannot be run")?;
        ensure!(status.success(), "{script} ended with {status}");
    }
    Ok(())
}
