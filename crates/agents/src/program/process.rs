//! One agent as a process of the engine: started, read, waited for and stopped, over any number of engines.

use super::ended::Ended;
use super::env_file::read_env_file;
use super::errors_file::{empty_if_longer, last_line};
use super::leftovers::{Leftovers, remove_process, remove_processes};
use super::retry::{EngineOutage, retried};
use super::{AgentPlace, EnvFileError, agent_session, clear_agents, own_file, stop_left_behind};
use crate::driver::Conversation;
use outlast_client::{Chunk, Chunks, Client, ClientError, From, Kill, Owner, ProcessId, Run, Spec, code};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long an agent may take to end after SIGTERM before it is killed with its tree.
const AGENT_STOP_GRACE: Duration = Duration::from_secs(2);
/// How long the end of an agent may wait for its removal.
const REMOVE_LIMIT: Duration = Duration::from_secs(2);
/// How much of an agent's standard error is kept. When the file is longer it is emptied, and the agent writes on at its beginning.
const MAX_ERRORS_BYTES: u64 = 4 << 20;

/// Sends standard error to a file, and replaces the shell by the agent. In pipe mode the engine keeps both outputs in one log, and a warning of the agent's in
/// the middle of a line would break the protocol. It appends, so that emptying the file is safe while the agent writes. The program and its arguments are the
/// shell's own as they are: no word of them is read by it.
///
/// The directory of the program comes first in PATH, unless PATH has it: agents are often scripts whose interpreter lies beside them, such as `node`, and login files
/// may not name that directory.
const WITH_ERRORS_APART: &str = r#"exec 2>>"$OUTLAST_STDERR"; unset OUTLAST_STDERR OUTLAST_START
case $1 in /*/*) case ":$PATH:" in *":${1%/*}:"*) ;; *) PATH=${1%/*}:$PATH; export PATH ;; esac ;; esac
exec "$@""#;
/// Comes before either of the two. Agents run with the PATH of a login, which may not have the directory of the `outlast` that a person's terminal has. It comes last,
/// so that no other program is found in place of the one that was found before. An empty PATH gets no empty entry, which would be the working directory.
const WITH_OUTLAST: &str = r#"command -v outlast >/dev/null || { PATH=${PATH:+$PATH:}$OUTLAST_DIR; export PATH; }; unset OUTLAST_DIR
"#;
/// The same for a command, with a file as standard input, which ends after the prompt.
const WITH_PROMPT_FROM_FILE: &str =
    r#"exec 2>>"$OUTLAST_STDERR" <"$OUTLAST_STDIN"; unset OUTLAST_STDERR OUTLAST_STDIN OUTLAST_START; exec "$@""#;
/// Runs one of the two. The script and the files are in variables that the agent does not get, so that lists show the agent's command and not ours.
const WRAPPER: [&str; 4] = ["/bin/sh", "-c", r#"eval "$OUTLAST_START""#, "outlast-agent"];

/// What to start.
pub(crate) struct Launch<'a> {
    /// The program and its arguments.
    pub(crate) argv: &'a [String],
    /// A file with variables.
    pub(crate) env_file: Option<&'a Path>,
    /// Where its input comes from.
    pub(crate) input: AgentInput<'a>,
    /// The id it is to have.
    pub(crate) id: Option<ProcessId>,
    /// The name of the file for standard error, in the conversation's directory.
    pub(crate) errors: &'a str,
}

/// Where an agent's input comes from.
pub(crate) enum AgentInput<'a> {
    /// It is written through the engine.
    Written,
    /// It is in this file.
    File(&'a Path),
}

/// Why an agent was not started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AgentStartError {
    #[error("{0}")]
    EnvFile(#[from] EnvFileError),
    #[error("cannot make files in {}: {error}", dir.display())]
    Files { dir: PathBuf, error: std::io::Error },
    #[error("no command is configured for the agent")]
    NoCommand,
    #[error("{0}")]
    Engine(#[from] ClientError),
}

/// A handle on one agent.
#[derive(Clone)]
pub(crate) struct AgentProcess {
    client: Client,
    id: ProcessId,
    name: String,
    errors: PathBuf,
    /// What is in the file before this is of earlier agents.
    errors_from: u64,
}

impl AgentProcess {
    /// Stops other agents of the conversation, starts this one, and removes what earlier ones left behind.
    pub(crate) async fn start(place: &AgentPlace, of: &Conversation, launch: Launch<'_>) -> Result<Self, AgentStartError> {
        let (program, _) = launch.argv.split_first().ok_or(AgentStartError::NoCommand)?;
        let variables = launch.env_file.map(read_env_file).transpose()?.unwrap_or_default();
        let errors = own_file(&of.files, launch.errors).map_err(|error| AgentStartError::Files { dir: of.files.clone(), error })?;
        let errors_from = std::fs::metadata(&errors).map_or(0, |meta| meta.len());
        let kept = launch.id;
        let others = retried(|| clear_agents(&place.client, &of.key, kept)).await?;
        if matches!(launch.input, AgentInput::Written) {
            retried(|| stop_left_behind(&place.client, &of.key)).await?;
        }
        let leftovers = Leftovers::of(others.finished, kept);
        leftovers.remove_files(&of.files);
        let script = match &launch.input {
            AgentInput::Written => WITH_ERRORS_APART,
            AgentInput::File(_) => WITH_PROMPT_FROM_FILE,
        };
        let words = launch.argv.iter().map(|word| outlast_client::OsText::from(word.as_str()));
        let wrapper = WRAPPER.map(outlast_client::OsText::from);
        let owner = Owner { session: Some(agent_session(&of.key)), task: None, generation: Some(of.generation.clone()) };
        let mut spec = Spec::argv(wrapper.into_iter().chain(words)).named("agent").in_dir(of.cwd.as_path()).owned_by(owner);
        spec.env = variables;
        // Behind the file, which cannot give an agent to another conversation.
        spec = spec.with_env("OUTLAST_SESSION", of.key.as_str()).with_env("OUTLAST_GENERATION", of.generation.as_str());
        let script = match &place.outlast_dir {
            Some(dir) => {
                spec = spec.with_env("OUTLAST_DIR", dir.as_path());
                format!("{WITH_OUTLAST}{script}")
            }
            None => script.to_owned(),
        };
        spec = spec.with_env("OUTLAST_START", script).with_env("OUTLAST_STDERR", errors.as_path());
        spec = match launch.input {
            AgentInput::Written => spec.with_input(),
            AgentInput::File(prompt) => spec.with_env("OUTLAST_STDIN", prompt),
        };
        let mut run = Run::new(spec, place.surroundings.clone());
        run.id = launch.id;
        let info = retried(|| place.client.run_info(run.clone())).await?;
        if let Some(why) = &info.fate.start_error {
            let error = format!("cannot start {program}: {why}");
            return Err(ClientError::Unavailable { error, hint: String::new() }.into());
        }
        remove_processes(&place.client, leftovers.removable);
        Ok(Self { errors_from, ..Self::of(&place.client, info.session_id, errors) })
    }

    /// One that was started before.
    pub(crate) fn of(client: &Client, id: ProcessId, errors: PathBuf) -> Self {
        Self { client: client.clone(), id, name: id.to_string(), errors, errors_from: 0 }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Its output from the first byte on.
    pub(crate) fn output(&self) -> AgentOutput {
        let chunks = self.client.follow(&self.name, From::Byte(0));
        AgentOutput { client: self.client.clone(), name: self.name.clone(), chunks, outage: EngineOutage::default() }
    }

    /// Returns once the agent itself has ended; its descendants may keep running.
    pub(crate) async fn ended(self) -> Result<Ended, ClientError> {
        let waited = retried(|| self.client.wait(&self.name, None)).await?;
        Ok(Ended::of(&waited.fate))
    }

    /// Stops it with its whole tree. It may be over already.
    pub(crate) async fn stop(&self) -> Result<(), ClientError> {
        retried(|| stop_process(&self.client, self.id)).await
    }

    /// Removes it with its log, for one that was stopped because it is not needed. What cannot be removed now is removed with the next start.
    pub(crate) async fn remove(&self) {
        let _later = tokio::time::timeout(REMOVE_LIMIT, remove_process(&self.client, self.id)).await;
    }

    /// The last line of its standard error, in the form `: line`, or nothing.
    pub(crate) fn last_words(&self) -> String {
        last_line(&self.errors, self.errors_from).map(|line| format!(": {line}")).unwrap_or_default()
    }

    /// Empties the file with its standard error if that is too long.
    pub(crate) fn bound_errors(&self) {
        empty_if_longer(&self.errors, MAX_ERRORS_BYTES);
    }
}

/// Stops one process with its whole tree. If the process has ended, its descendants are stopped: a worker that outlived its agent would work beside the next one.
pub(crate) async fn stop_process(client: &Client, id: ProcessId) -> Result<(), ClientError> {
    match client.kill(&id.to_string(), Kill::within(AGENT_STOP_GRACE)).await {
        Ok(_) => Ok(()),
        Err(e) if matches!(e.code(), code::ALREADY_EXITED | code::NOT_FOUND) => Ok(()),
        Err(e) => Err(e),
    }
}

/// The output of an agent, which survives its engine.
pub(crate) struct AgentOutput {
    client: Client,
    name: String,
    chunks: Chunks,
    outage: EngineOutage,
}

impl AgentOutput {
    /// The next piece, or nothing once the output is closed. May be dropped while it waits, and called again.
    pub(crate) async fn next(&mut self) -> Result<Option<Chunk>, ClientError> {
        loop {
            // A pause that was dropped is kept: without it, the engine would be asked in a tight loop.
            self.outage.pause().await;
            match self.chunks.next().await {
                Ok(chunk) => {
                    self.outage.is_over();
                    return Ok(chunk);
                }
                Err(error) => {
                    self.outage.began(error)?;
                    let from = From::Byte(self.chunks.next_byte().unwrap_or(0));
                    self.chunks = self.client.follow(&self.name, from);
                }
            }
        }
    }
}

impl AgentOutput {
    /// Whether the whole log was read. An engine that was started again may need a moment before it serves more output.
    pub(crate) async fn is_all_read(&self) -> Result<bool, ClientError> {
        let info = retried(|| self.client.poll(&self.name)).await?;
        Ok(self.chunks.next_byte().unwrap_or(0) >= info.output_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outlast_is_found_last_and_never_by_way_of_the_working_directory() {
        let dir = tempfile::tempdir().unwrap();
        let path_of = |path: &str| {
            let script = format!("{WITH_OUTLAST}echo \"$PATH ${{OUTLAST_DIR-unset}}\"");
            let mut sh = std::process::Command::new("/bin/sh");
            let ran = sh.arg("-c").arg(script).env("PATH", path).env("OUTLAST_DIR", "/opt/outlast").current_dir(dir.path()).output();
            String::from_utf8(ran.unwrap().stdout).unwrap()
        };
        let own = dir.path().display().to_string();
        assert_eq!(path_of(&own), format!("{own}:/opt/outlast unset\n"));
        assert_eq!(path_of(""), "/opt/outlast unset\n", "an empty entry is the working directory");
        std::os::unix::fs::symlink("/bin/true", dir.path().join("outlast")).unwrap();
        assert_eq!(path_of(&own), format!("{own} unset\n"));
    }
}
