//! Finds agents on this machine, and starts, finds again and stops them through the engine.

mod attempt;
mod ended;
mod env_file;
mod errors_file;
mod find;
mod leftovers;
mod process;
mod retry;

pub(crate) use attempt::attempt_process;
pub(crate) use ended::{Ended, is_held};
pub use env_file::EnvFileError;
pub(crate) use errors_file::{last_line_of, one_line};
pub use find::{AgentPaths, ProgramNotFound, find_agent, remember_agent};
pub(crate) use process::{AgentInput, AgentOutput, AgentProcess, Launch};
pub(crate) use retry::retried;

use crate::driver::Attempt;
use outlast_client::{Caller, Client, ClientError, ProcessId, ProcessInfo, Scope, Status, caller};
use process::stop_process;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// What the sessions of agents begin with. What an agent starts itself belongs to the session of its conversation instead.
const AGENT_SESSION_PREFIX: &str = "outlast:agent:";
/// The phase of a process that has ended and whose output is still open.
const DRAINING: &str = "draining";
/// How often agents are looked for before a stop is given up: one that starts while others are stopped is found by the next look.
const MAX_STOP_ROUNDS: usize = 8;

/// An agent that can be driven by its name alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AgentName {
    /// Codex, by the adapter `codex-acp`: its own program does not speak ACP.
    Codex,
    /// opencode.
    Opencode,
    /// Kimi Code.
    Kimi,
    /// Hermes.
    Hermes,
    /// Gemini CLI. It can load a session and not resume it.
    Gemini,
    /// Qwen Code.
    Qwen,
}

impl AgentName {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Codex, Self::Opencode, Self::Kimi, Self::Hermes, Self::Gemini, Self::Qwen];

    /// The name that people use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Codex => "codex",
            Self::Opencode => "opencode",
            Self::Kimi => "kimi",
            Self::Hermes => "hermes",
            Self::Gemini => "gemini",
            Self::Qwen => "qwen",
        }
    }

    /// The program and the arguments with which it speaks ACP on its standard input and output.
    pub fn acp_command(self) -> &'static [&'static str] {
        match self {
            Self::Codex => &["codex-acp"],
            Self::Opencode => &["opencode", "acp"],
            Self::Kimi => &["kimi", "acp"],
            Self::Hermes => &["hermes", "acp"],
            Self::Gemini => &["gemini", "--acp"],
            Self::Qwen => &["qwen", "--acp"],
        }
    }

    /// Which set of tools `outlast mcp` offers it, if its name as an MCP client does not say.
    ///
    /// Hermes shows its model the texts and the structured content of an answer, so its set has no structured content: a notice would be read twice.
    pub fn mcp_profile(self) -> Option<&'static str> {
        match self {
            Self::Hermes => Some("hermes"),
            Self::Codex | Self::Opencode | Self::Kimi | Self::Gemini | Self::Qwen => None,
        }
    }

    fn install_hint(self) -> &'static str {
        match self {
            Self::Codex => "Codex needs its ACP adapter: npm install -g @zed-industries/codex-acp",
            Self::Opencode => "npm install -g opencode-ai",
            Self::Kimi => "npm install -g @moonshot-ai/kimi-code",
            Self::Hermes => "pip install 'hermes-agent[mcp,acp]'",
            Self::Gemini => "npm install -g @google/gemini-cli",
            Self::Qwen => "npm install -g @qwen-code/qwen-code",
        }
    }
}

impl std::str::FromStr for AgentName {
    type Err = ProgramNotFound;
    fn from_str(name: &str) -> Result<Self, ProgramNotFound> {
        let known = Self::ALL.into_iter().find(|agent| agent.as_str() == name);
        known.ok_or_else(|| ProgramNotFound {
            program: name.chars().take(80).collect(),
            hint: format!("known agents are {}", Self::ALL.map(Self::as_str).join(", ")),
        })
    }
}

/// Where agents run: an engine, and the surroundings that agents inherit.
#[derive(Clone)]
#[non_exhaustive]
pub struct AgentPlace {
    /// The engine. Requests are made in no session, so that every agent can be found and stopped.
    pub client: Client,
    /// What agents inherit, next to what login files set.
    pub surroundings: Caller,
    /// The directory of the `outlast` program that agents find if their PATH has none.
    pub outlast_dir: Option<PathBuf>,
}

impl AgentPlace {
    /// Agents run by the engine that `client` speaks to, with these surroundings.
    pub fn new(client: &Client, surroundings: Caller) -> Self {
        Self { client: client.with_owner(outlast_client::Owner::default()), surroundings, outlast_dir: None }
    }

    /// Agents that inherit what a login would give this user, and nothing of the program that started the gateway: a gateway that was started again from another
    /// terminal, or by the engine, runs its agents as before. The engine adds what the user's login files set. `extra` are names and values that
    /// are the same for every start of the gateway, such as `OUTLAST_HOME`.
    pub fn of_login(client: &Client, user: &str, home: &Path, extra: &[(&str, &OsStr)]) -> Self {
        let own = [("HOME", home.as_os_str()), ("USER", OsStr::new(user)), ("LOGNAME", OsStr::new(user))];
        let variables = own.iter().chain(extra).map(|&(name, value)| (name.into(), value.to_owned()));
        let mut surroundings = caller(variables, home);
        // The limits of this process are those of its starter. Without them, the engine's hold.
        surroundings.limits = None;
        Self::new(client, surroundings)
    }

    /// The same, for agents that find this `outlast` program if their PATH has none.
    #[must_use]
    pub fn finding(self, outlast: &Path) -> Self {
        Self { outlast_dir: outlast.parent().map(Path::to_owned), ..self }
    }
}

/// The session in which the agents of a conversation run.
pub fn agent_session(key: &str) -> String {
    format!("{AGENT_SESSION_PREFIX}{key}")
}

/// An agent that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunningAgent {
    /// The conversation's key.
    pub key: String,
    /// The process.
    pub process: ProcessId,
}

/// All agents that run in the engine's home, whichever gateway started them.
///
/// # Errors
///
/// If the engine cannot be asked.
pub async fn running_agents(client: &Client) -> Result<Vec<RunningAgent>, ClientError> {
    let all = client.with_owner(outlast_client::Owner::default()).list(&Scope::default(), false).await?;
    let agent = |info: outlast_client::ProcessInfo| {
        let key = info.session_key?.strip_prefix(AGENT_SESSION_PREFIX)?.to_owned();
        Some(RunningAgent { key, process: info.session_id })
    };
    Ok(all.into_iter().filter(|info| info.status == Status::Running).filter_map(agent).collect())
}

/// Stops every agent of a conversation with its whole tree, and returns how many there were. Processes that agents started through the engine keep running.
///
/// # Errors
///
/// If the engine cannot be asked, or agents of the conversation keep being started.
pub async fn stop_agents_of(client: &Client, key: &str) -> Result<usize, ClientError> {
    stop_agents_except(client, key, None).await
}

/// The same, but for the command of an attempt.
///
/// # Errors
///
/// As for [`stop_agents_of`].
pub async fn stop_agents_but(client: &Client, key: &str, kept: &Attempt) -> Result<usize, ClientError> {
    stop_agents_except(client, key, Some(attempt_process(key, kept))).await
}

/// The same, but for one process.
pub(crate) async fn stop_agents_except(client: &Client, key: &str, kept: Option<ProcessId>) -> Result<usize, ClientError> {
    Ok(clear_agents(client, key, kept).await?.stopped)
}

/// What was found when the agents of a conversation were stopped.
pub(crate) struct ClearedAgents {
    stopped: usize,
    /// Those that have ended, now or before.
    pub(crate) finished: Vec<ProcessInfo>,
}

/// Stops every agent of a conversation but one, and says which there were.
pub(crate) async fn clear_agents(client: &Client, key: &str, kept: Option<ProcessId>) -> Result<ClearedAgents, ClientError> {
    let client = client.with_owner(outlast_client::Owner::default());
    let scope = Scope::session(agent_session(key));
    let mut stopped = 0;
    for _ in 0..MAX_STOP_ROUNDS {
        let all = client.list(&scope, true).await?.into_iter().filter(|info| Some(info.session_id) != kept);
        let (running, finished): (Vec<_>, Vec<_>) = all.partition(|info| info.status == Status::Running);
        if running.is_empty() {
            return Ok(ClearedAgents { stopped, finished });
        }
        for info in running {
            // One that is still being started can be stopped in a moment.
            retried(|| stop_process(&client, info.session_id)).await?;
            stopped += 1;
        }
    }
    Err(ClientError::Unavailable {
        error: format!("agents of the conversation {key} keep being started"),
        hint: "two gateways may use the same state directory: stop one of them".into(),
    })
}

/// Stops the descendants of ended agents of a conversation. While such a descendant holds the output open, it may still work.
pub(crate) async fn stop_left_behind(client: &Client, key: &str) -> Result<(), ClientError> {
    let client = client.with_owner(outlast_client::Owner::default());
    let all = client.list(&Scope::session(agent_session(key)), true).await?;
    for info in all.into_iter().filter(|info| info.phase == DRAINING) {
        retried(|| stop_process(&client, info.session_id)).await?;
    }
    Ok(())
}

/// A file of the conversation's directory, which is created with its parents and is the user's alone.
pub(crate) fn own_file(dir: &Path, name: &str) -> std::io::Result<PathBuf> {
    use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let file = dir.join(name);
    std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(&file)?;
    Ok(file)
}
