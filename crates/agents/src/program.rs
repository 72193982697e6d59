//! Finds agents on this machine, and starts, finds again and stops them through the engine.

mod env_file;
mod process;

pub use env_file::EnvFileError;
pub(crate) use process::{AgentInput, AgentOutput, AgentProcess, Ended, Launch, is_held, last_line_of, one_line, retried, stop_process};

use crate::command::attempt_process;
use crate::driver::Attempt;
use outlast_client::{Caller, Client, ClientError, ProcessId, Scope, caller};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// What the sessions of agents begin with. What an agent starts itself belongs to the session of its conversation instead.
const AGENT_SESSION_PREFIX: &str = "outlast:agent:";
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

    fn install_hint(self) -> &'static str {
        match self {
            Self::Codex => "Codex needs its ACP adapter: npm install -g @zed-industries/codex-acp",
            Self::Opencode => "npm install -g opencode-ai",
            Self::Kimi => "npm install -g @moonshot-ai/kimi-code",
            Self::Hermes => "pip install 'hermes-agent[acp]'",
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

/// Why an agent cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no agent program {program:?}")]
#[non_exhaustive]
pub struct ProgramNotFound {
    /// What was looked for.
    pub program: String,
    /// What to do about it.
    pub hint: String,
}

/// The command of an agent, its program as an absolute path, looked for in the directories of `path`.
///
/// The PATH is an argument, because the person who names an agent may have another one than the gateway. With an absolute path the agent does not depend on
/// what the login files of the user say.
///
/// # Errors
///
/// If none of the directories has the program.
pub fn find_agent(agent: AgentName, path: &OsStr) -> Result<Vec<String>, ProgramNotFound> {
    let [program, arguments @ ..] = agent.acp_command() else { unreachable!("every agent has a program") };
    let found = std::env::split_paths(path).filter(|dir| dir.is_absolute()).map(|dir| dir.join(program)).find(|file| is_executable(file));
    let found = found.and_then(|file| file.to_str().map(str::to_owned));
    let program = found.ok_or_else(|| ProgramNotFound { program: (*program).to_owned(), hint: agent.install_hint().to_owned() })?;
    Ok(std::iter::once(program).chain(arguments.iter().map(|&word| word.to_owned())).collect())
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    // Any of the three bits: the engine's refusal is more exact than a guess here.
    std::fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Where agents run: an engine, and the surroundings that agents inherit.
#[derive(Clone)]
#[non_exhaustive]
pub struct AgentPlace {
    /// The engine. Requests are made in no session, so that every agent can be found and stopped.
    pub client: Client,
    /// What agents inherit, next to what login files set.
    pub surroundings: Caller,
}

impl AgentPlace {
    /// Agents run by the engine that `client` speaks to, with these surroundings.
    pub fn new(client: &Client, surroundings: Caller) -> Self {
        Self { client: client.with_owner(outlast_client::Owner::default()), surroundings }
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
    Ok(all.into_iter().filter_map(agent).collect())
}

/// Stops every agent of a conversation with its whole tree, and returns how many there were. What agents started through the engine goes on.
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
/// The same.
pub async fn stop_agents_but(client: &Client, key: &str, kept: &Attempt) -> Result<usize, ClientError> {
    stop_agents_except(client, key, Some(attempt_process(key, kept))).await
}

/// The same, but for one process.
pub(crate) async fn stop_agents_except(client: &Client, key: &str, kept: Option<ProcessId>) -> Result<usize, ClientError> {
    let client = client.with_owner(outlast_client::Owner::default());
    let scope = Scope::session(agent_session(key));
    let mut stopped = 0;
    for _ in 0..MAX_STOP_ROUNDS {
        let running: Vec<_> = client.list(&scope, false).await?.into_iter().filter(|info| Some(info.session_id) != kept).collect();
        if running.is_empty() {
            return Ok(stopped);
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

/// A file of the conversation's directory, which is created with its parents and is the user's alone.
pub(crate) fn own_file(dir: &Path, name: &str) -> std::io::Result<PathBuf> {
    use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let file = dir.join(name);
    std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(&file)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_agent_is_found_by_its_name_and_in_a_path() {
        let dir = tempfile::tempdir().unwrap();
        for agent in AgentName::ALL {
            assert_eq!(agent.as_str().parse(), Ok(agent));
            let path = std::env::join_paths([Path::new("relative"), Path::new("/nowhere"), dir.path()]).unwrap();
            let missing = find_agent(agent, &path).unwrap_err();
            assert_eq!((missing.program.as_str(), missing.hint.is_empty()), (agent.acp_command()[0], false));
            let file = dir.path().join(agent.acp_command()[0]);
            std::fs::write(&file, "").unwrap();
            assert!(find_agent(agent, &path).is_err(), "it cannot be executed");
            std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
            let found = find_agent(agent, &path).unwrap();
            assert_eq!((found[0].as_str(), found.len()), (file.to_str().unwrap(), agent.acp_command().len()));
        }
        assert!("bash".parse::<AgentName>().unwrap_err().hint.contains("opencode"));
    }
}
