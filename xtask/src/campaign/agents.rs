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
enum AgentPackage {
    Npm(&'static [&'static str]),
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

/// A node that can run them all comes along.
const KIMI: AgentPackage = AgentPackage::Npm(&["node@24", "@moonshot-ai/kimi-code@2.1.0"]);

const AGENTS: &[Agent] = &[
    Agent {
        name: "codex",
        package: AgentPackage::Npm(&["node@24", "@openai/codex@0.166.0"]),
        scripts: &["wake.py", "resume.py", "told.py"],
    },
    Agent {
        name: "opencode",
        package: AgentPackage::Npm(&["node@24", "opencode-ai@1.18.33"]),
        scripts: &["wake.py", "resume.py", "told.py"],
    },
    Agent {
        name: "hermes",
        // Its API server wants aiohttp, and says so only when it is started.
        package: AgentPackage::Venv(&["hermes-agent[mcp,acp]==0.19.0", "aiohttp"]),
        scripts: &["wake.py", "resume.py", "told.py"],
    },
    Agent { name: "kimi", package: KIMI, scripts: &["resume.py", "told.py"] },
    Agent { name: "kimi-acp", package: KIMI, scripts: &[] },
    client("pydantic-ai", AgentPackage::Library("pydantic-ai", 10, &["pydantic-ai-slim[openai,mcp]==2.66.0"])),
    client("openai-agents", OPENAI_AGENTS),
    client("openai-agents-structured", OPENAI_AGENTS),
    client("smolagents", SMOLAGENTS),
    client("smolagents-structured", SMOLAGENTS),
    client("fast-agent", AgentPackage::Library("fast-agent", 13, &["fast-agent-mcp==0.10.46"])),
    client("fastmcp", AgentPackage::Library("fastmcp", 10, &["fastmcp==4.1.2"])),
    client("vibe", AgentPackage::Library("vibe", 12, &["mistral-vibe==3.0.2"])),
];

const OPENAI_AGENTS: AgentPackage = AgentPackage::Library("openai-agents", 10, &["openai-agents==0.24.0"]);
/// Its adapter cannot be imported with a newer `mcp`, or without the extra for WebSockets.
const SMOLAGENTS: AgentPackage = AgentPackage::Library("smolagents", 10, &["smolagents[mcp,openai]==1.26.0", "mcp[ws]==1.30.0"]);

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
    let missing = match &agent.package {
        AgentPackage::Npm(packages) => Npm::at(root).get(packages),
        AgentPackage::Venv(packages) => venv::get(root, 10, packages),
        AgentPackage::Library(name, python, packages) => venv::get(&root.join(name), *python, packages),
    }?;
    if let Some(why) = missing {
        ensure!(std::env::var("CI").as_deref() != Ok("true"), "{why}");
        println!("skipped: {name}: {why}");
        return Ok(false);
    }
    Ok(true)
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
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/outlast/tests/agents");
    for script in agent.scripts {
        let mut python = Command::new("python3");
        // Nothing is written beside the scripts.
        python.arg("-B").arg(scripts.join(script)).arg("--outlast").arg(program).arg("--agents").arg(root).arg(agent.name);
        let status = python.status().context("python3 cannot be run")?;
        ensure!(status.success(), "{script} ended with {status}");
    }
    Ok(())
}
