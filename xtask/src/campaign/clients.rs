//! `cargo xtask campaign clients`: MCP clients from their packages, with a scripted model that records what it is shown.
//!
//! `conversations.py` holds the conversations and judges them, `drive.py` says how each client is driven. Here the packages are installed, and
//! the table in `docs/agents/README.md` is written.

mod table;

use super::agents::{AgentPackage, CODEX, FAST_AGENT, FASTMCP, HERMES, KIMI, OPENAI_AGENTS, OPENCODE, PYDANTIC_AI, SMOLAGENTS, VIBE};
use crate::Flags;
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

struct McpClient {
    /// As the scripts have it.
    name: &'static str,
    /// As people know it.
    title: &'static str,
    package: AgentPackage,
}

const CLIENTS: &[McpClient] = &[
    client("gemini", "Gemini CLI", AgentPackage::Npm(&["node@24", "@google/gemini-cli@0.61.0"])),
    client("qwen", "Qwen Code", AgentPackage::Npm(&["node@24", "@qwen-code/qwen-code@0.24.4"])),
    client("cline", "Cline", AgentPackage::Npm(&["node@24", "cline@3.0.65"])),
    client("vibe", "Mistral Vibe", VIBE),
    client("codex", "Codex, without a wake", CODEX),
    client("codex-woken", "Codex, woken", CODEX),
    client("opencode", "opencode", OPENCODE),
    client("opencode-woken", "opencode, server, woken", OPENCODE),
    client("kimi", "Kimi Code", KIMI),
    client("hermes", "Hermes", HERMES),
    client("hermes-woken", "Hermes, gateway, woken", HERMES),
    client("openai-agents", "openai-agents", OPENAI_AGENTS),
    client("openai-agents-structured", "openai-agents with `use_structured_content`", OPENAI_AGENTS),
    client(
        "openai-agents-mcp1",
        "openai-agents with `mcp` 1.30.0",
        AgentPackage::Library("openai-agents-mcp1", 10, &["openai-agents==0.24.0", "mcp==1.30.0"]),
    ),
    client("pydantic-ai", "pydantic-ai", PYDANTIC_AI),
    client("langchain", "langchain-mcp-adapters, `get_tools`", LANGCHAIN),
    client("langchain-session", "langchain-mcp-adapters, a session", LANGCHAIN),
    client("fast-agent", "fast-agent", FAST_AGENT),
    client("smolagents", "smolagents", SMOLAGENTS),
    client("smolagents-structured", "smolagents with `structured_output`", SMOLAGENTS),
    client("fastmcp3", "FastMCP 3", AgentPackage::Library("fastmcp3", 10, &["fastmcp==3.4.10"])),
    client("fastmcp", "FastMCP 4", FASTMCP),
    client("sdk-old", "`@modelcontextprotocol/sdk`, old", sdk("sdk-old", &["@modelcontextprotocol/sdk@1.4.0"])),
    client("sdk-new", "`@modelcontextprotocol/sdk`, new", sdk("sdk-new", &["@modelcontextprotocol/sdk@1.32.2"])),
    client("client-ts", "`@modelcontextprotocol/client`", sdk("client-ts", &["@modelcontextprotocol/client@2.4.0"])),
];

const LANGCHAIN: AgentPackage = AgentPackage::Library("langchain", 10, &["langchain-mcp-adapters==0.3.2", "langchain", "langchain-openai"]);
/// Runs what has no program of its own.
const NODE: AgentPackage = AgentPackage::Npm(&["node@24"]);

const fn client(name: &'static str, title: &'static str, package: AgentPackage) -> McpClient {
    McpClient { name, title, package }
}

const fn sdk(place: &'static str, packages: &'static [&'static str]) -> AgentPackage {
    AgentPackage::NpmLibrary(place, packages)
}

/// Holds the conversations with the clients that are named, or with all, one after the other.
pub(crate) fn run(names: &[String], flags: &Flags<'_>) -> Result<()> {
    if let Some(unknown) = names.iter().find(|name| CLIENTS.iter().all(|client| client.name != **name)) {
        let known: Vec<&str> = CLIENTS.iter().map(|client| client.name).collect();
        bail!("there is no client {unknown}: known are {}", known.join(", "));
    }
    let only: Option<String> = flags.get("--only")?;
    let root = root(flags)?;
    let facts: Option<PathBuf> = flags.get("--facts")?;
    let program = super::program(flags)?;
    let script = if facts.is_some() { "facts.py" } else { "conversations.py" };
    let more: Vec<&str> = only.iter().flat_map(|scene| ["--only", scene]).collect();
    let mut rows = Vec::new();
    let mut failed = Vec::new();
    for client in CLIENTS.iter().filter(|client| names.is_empty() || names.iter().any(|name| name == client.name)) {
        if facts.is_some() && client.name.ends_with("-woken") {
            continue;
        }
        let row = play(client, &root, &program, script, &more);
        let row = row.unwrap_or_else(|why| {
            println!("FAILED: {}: {why:#}", client.name);
            json!({"client": client.name, "failed": {"ok": false, "says": format!("{why:#}")}})
        });
        if row.as_object().is_some_and(|row| row.values().any(|scene| scene["ok"] == false)) {
            failed.push(client.name);
        }
        rows.push(row);
        // Written after each client, so that an interrupted campaign keeps its results.
        if let Some(facts) = &facts {
            std::fs::write(facts, serde_json::to_string_pretty(&rows)?)?;
        }
        if flags.has("--record") {
            table::write(&rows)?;
        }
    }
    ensure!(failed.is_empty(), "not as it should be: {}", failed.join(", "));
    let skipped = rows.iter().filter(|row| !row["skipped"].is_null()).count();
    let what = if facts.is_some() { "were measured" } else { "were given each notice once, in the right conversation" };
    println!("{} clients {what}, {skipped} skipped", rows.len() - skipped);
    Ok(())
}

/// Where packages are installed: as the flags say, else among the user's caches.
fn root(flags: &Flags<'_>) -> Result<PathBuf> {
    if let Some(root) = flags.get::<PathBuf>("--prefix")? {
        return Ok(std::path::absolute(root)?);
    }
    let cache = match std::env::var_os("XDG_CACHE_HOME").filter(|dir| !dir.is_empty()) {
        Some(dir) => PathBuf::from(dir),
        None => PathBuf::from(std::env::var_os("HOME").context("HOME is not set; --prefix says where to install")?).join(".cache"),
    };
    Ok(cache.join("outlast-clients"))
}

/// The row of a client: what the script wrote of it, or why it was skipped.
fn play(client: &McpClient, root: &Path, program: &Path, name: &str, more: &[&str]) -> Result<Value> {
    let mut missing = client.package.get(root)?;
    if missing.is_none() && matches!(client.package, AgentPackage::NpmLibrary(..)) {
        missing = NODE.get(root)?;
    }
    if let Some(why) = missing {
        println!("skipped: {}: {why}", client.name);
        return Ok(json!({"client": client.name, "skipped": why}));
    }
    let to = std::env::temp_dir().join(format!("outlast-clients-{}-{}.json", std::process::id(), client.name));
    // One that failed is in its row.
    let status = super::agents::script(name, root, program)
        .args(more)
        .arg("--to")
        .arg(&to)
        .arg(client.name)
        .status()
        .context("python3 cannot be run")?;
    let text = std::fs::read_to_string(&to).with_context(|| format!("{name} ended with {status} and wrote no row"))?;
    std::fs::remove_file(&to)?;
    let rows: Vec<Value> = serde_json::from_str(&text)?;
    rows.into_iter().next().with_context(|| format!("{name} ended with {status} and wrote no row"))
}
