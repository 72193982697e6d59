//! One agent as a process of the engine: started, read, waited for and stopped, over any number of engines.

use super::env_file::read_env_file;
use super::leftovers::{Leftovers, remove_process, remove_processes};
use super::{AgentPlace, EnvFileError, agent_session, clear_agents, own_file, stop_left_behind};
use crate::driver::Conversation;
use outlast_client::{
    Chunk, Chunks, Client, ClientError, ErrorKind, Fate, From, Kill, Owner, ProcessId, ProcessInfo, Reason, Run, Spec, code,
};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::Instant;

/// How long an agent may take to end after SIGTERM before it is killed with its tree.
const AGENT_STOP_GRACE: Duration = Duration::from_secs(2);
/// How long the end of an agent may wait for its removal.
const REMOVE_LIMIT: Duration = Duration::from_secs(2);
/// How long no engine may answer before an agent is reported as gone. The client starts an engine if it must, so this is only reached where none stays up.
const ENGINE_OUTAGE_LIMIT: Duration = Duration::from_secs(60);
/// How long to wait before the engine is asked again. No descriptor tells when an engine of another program listens again.
const ENGINE_RETRY_PAUSE: Duration = Duration::from_millis(250);
/// How much of an agent's standard error is kept. When the file is longer it is emptied, and the agent goes on at its beginning.
const MAX_ERRORS_BYTES: u64 = 4 << 20;
/// How much of the end of a file is looked through for its last line.
const LAST_LINE_BYTES: u64 = 4 << 10;
/// How many characters of a line are quoted in a sentence for people.
const MAX_QUOTED_CHARS: usize = 300;

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
/// The same for a command, with a file as standard input, which is at its end behind the prompt.
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

    /// Returns once the agent itself is over; something that it started may live on.
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

/// Stops one process with its whole tree. Of one that is over it stops what is left: a worker that outlived its agent would work beside the next one.
pub(crate) async fn stop_process(client: &Client, id: ProcessId) -> Result<(), ClientError> {
    match client.kill(&id.to_string(), Kill::within(AGENT_STOP_GRACE)).await {
        Ok(_) => Ok(()),
        Err(e) if matches!(e.code(), code::ALREADY_EXITED | code::NOT_FOUND) => Ok(()),
        Err(e) => Err(e),
    }
}

/// How an agent ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It exited with this code.
    Exited(i32),
    /// A signal killed it.
    Killed { signal: String, is_out_of_memory: bool },
    /// It never ran.
    NotStarted(String),
    /// Its end was not observed: the machine or its keepers went down.
    Lost,
}

impl Ended {
    pub(crate) fn of(fate: &Fate) -> Self {
        match (&fate.signal, fate.exit_code.flatten()) {
            (Some(signal), _) => Self::Killed { signal: signal.clone(), is_out_of_memory: fate.oom },
            (None, Some(exit)) => Self::Exited(exit),
            (None, None) if fate.completion_reason == Some(Reason::FailedStart) => {
                Self::NotStarted(fate.start_error.clone().unwrap_or_else(|| "it could not be started".into()))
            }
            (None, None) => Self::Lost,
        }
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exited(exit) => write!(f, "exited with code {exit}"),
            Self::Killed { signal, is_out_of_memory: true } => write!(f, "was killed by {signal} because memory ran out"),
            Self::Killed { signal, is_out_of_memory: false } => write!(f, "was killed by {signal}"),
            Self::NotStarted(why) => write!(f, "could not be started: {why}"),
            Self::Lost => f.write_str("is gone, and its end was not observed"),
        }
    }
}

/// Whether a process that the engine knows is the agent of an attempt whose end was observed or can still be.
pub(crate) fn is_held(info: &ProcessInfo, key: &str) -> bool {
    let is_lost = info.status == outlast_client::Status::Exited && Ended::of(&info.fate) == Ended::Lost;
    info.session_key.as_deref() == Some(agent_session(key).as_str()) && !is_lost
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
    /// Whether everything was read that is in the log by now. An engine that was started again may need a moment before it goes on with the output.
    pub(crate) async fn is_all_read(&self) -> Result<bool, ClientError> {
        let info = retried(|| self.client.poll(&self.name)).await?;
        Ok(self.chunks.next_byte().unwrap_or(0) >= info.output_bytes)
    }
}

/// How long the engine has not answered.
#[derive(Debug, Default)]
struct EngineOutage {
    since: Option<Instant>,
    again_at: Option<Instant>,
}

impl EngineOutage {
    /// Notes a failure; returned if asking again will not help, or was tried for long enough.
    fn began(&mut self, error: ClientError) -> Result<(), ClientError> {
        let now = Instant::now();
        let since = *self.since.get_or_insert(now);
        if !is_passing(&error) || now.duration_since(since) > ENGINE_OUTAGE_LIMIT {
            return Err(error);
        }
        self.again_at = Some(now + ENGINE_RETRY_PAUSE);
        Ok(())
    }

    fn is_over(&mut self) {
        *self = Self::default();
    }

    /// Waits until it is time to ask again.
    async fn pause(&mut self) {
        if let Some(again_at) = self.again_at {
            tokio::time::sleep_until(again_at).await;
            self.again_at = None;
        }
    }
}

/// Whether the same question may be answered later.
fn is_passing(error: &ClientError) -> bool {
    match error {
        ClientError::Refused(e) => e.kind == ErrorKind::Unavailable || matches!(e.code.as_str(), code::INPUT_FULL | code::MAYBE_WRITTEN),
        ClientError::Unavailable { .. } | ClientError::Connect { .. } | ClientError::Start { .. } => true,
        _ => false,
    }
}

/// Asks again as long as the engine may come back. The question must be one that can be asked twice.
pub(crate) async fn retried<T, F>(mut ask: impl FnMut() -> F) -> Result<T, ClientError>
where
    F: Future<Output = Result<T, ClientError>>,
{
    let mut outage = EngineOutage::default();
    loop {
        match ask().await {
            Ok(answer) => return Ok(answer),
            Err(error) => outage.began(error)?,
        }
        outage.pause().await;
    }
}

/// Empties a file to which a program appends.
fn empty_if_longer(file: &Path, most_bytes: u64) {
    if std::fs::metadata(file).is_ok_and(|meta| meta.len() > most_bytes) {
        // It is looked at again in a while; the file is for people who look for a reason, and nothing depends on it.
        let _later = std::fs::OpenOptions::new().write(true).open(file).and_then(|file| file.set_len(0));
    }
}

/// The last line of a file that says something, short and printable. What is before `from` is not looked at, unless the file was emptied since.
fn last_line(file: &Path, from: u64) -> Option<String> {
    use std::io::{Read as _, Seek as _, SeekFrom};
    let mut file = std::fs::File::open(file).ok()?;
    let length = file.metadata().ok()?.len();
    let from = if from > length { 0 } else { from };
    file.seek(SeekFrom::Start(length.saturating_sub(LAST_LINE_BYTES).max(from))).ok()?;
    let mut bytes = Vec::new();
    file.take(LAST_LINE_BYTES).read_to_end(&mut bytes).ok()?;
    last_line_of(&String::from_utf8_lossy(&bytes))
}

/// The last line of a text that says something, short and printable. Below an error, Node prints a stack and its own version: then the error is meant.
pub(crate) fn last_line_of(text: &str) -> Option<String> {
    let mut lines = text.lines().rev().map(|line| one_line(line, MAX_QUOTED_CHARS)).filter(|line| !line.is_empty());
    let last = lines.next()?;
    match last.starts_with("Node.js v") {
        true => lines.find(|line| line.contains("Error: ") || line.contains("Error [")).or(Some(last)),
        false => Some(last),
    }
}

/// A text on one line: control characters and runs of blanks become one blank, and what is too long is cut with an ellipsis.
pub(crate) fn one_line(text: &str, most_chars: usize) -> String {
    // What cannot be shown is not looked at: a title may be as long as a message.
    let start: String = text.chars().take(most_chars * 2 + 1).map(|c| if c.is_control() { ' ' } else { c }).collect();
    let line = start.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_cut = line.chars().count() > most_chars || start.chars().count() > most_chars * 2;
    if is_cut { line.chars().take(most_chars.saturating_sub(1)).chain(['…']).collect() } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_short_and_has_nothing_in_it_that_moves_a_cursor() {
        assert_eq!(one_line("a\x1b[2J\tb\r\nc", 80), "a [2J b c");
        assert_eq!((one_line("abcd", 4), one_line("abcde", 4)), ("abcd".into(), "abc…".into()));
        assert_eq!(one_line(&"x".repeat(1 << 20), 4), "xxx…");
        assert_eq!(one_line(&" ".repeat(1 << 10), 4), "…");
    }

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

    #[test]
    fn the_last_line_that_says_something_is_quoted() {
        assert_eq!(last_line_of("first\nsecond\n \n\n").as_deref(), Some("second"));
        assert_eq!(last_line_of("\n\n"), None);
        let node = "file.mjs:20\n  ^^^\nSyntaxError: no export\n    at main (x.js:1:2) {\n  code: 'X'\n}\n\nNode.js v20.20.2\n";
        assert_eq!(last_line_of(node).as_deref(), Some("SyntaxError: no export"));
        assert_eq!(last_line_of("killed\nNode.js v20.20.2").as_deref(), Some("Node.js v20.20.2"));
    }

    #[test]
    fn a_file_with_errors_is_bounded_and_what_earlier_agents_wrote_is_not_quoted() {
        use std::io::Write as _;
        let dir = tempfile::tempdir().unwrap();
        let path = own_file(dir.path(), "errors").unwrap();
        let mut writer = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        writer.write_all(b"of an earlier agent\n").unwrap();
        assert_eq!(last_line(&path, 0).as_deref(), Some("of an earlier agent"));
        assert_eq!(last_line(&path, 20), None);
        empty_if_longer(&path, 20);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 20);
        empty_if_longer(&path, 19);
        writer.write_all(b"new\n").unwrap();
        assert_eq!((std::fs::read(&path).unwrap(), last_line(&path, 20)), (b"new\n".to_vec(), Some("new".into())));
    }

    #[test]
    fn an_end_is_told_in_words() {
        let mut fate = Fate::default();
        assert_eq!(Ended::of(&fate), Ended::Lost);
        fate.exit_code = Some(Some(3));
        assert_eq!(Ended::of(&fate).to_string(), "exited with code 3");
        (fate.exit_code, fate.signal, fate.oom) = (Some(Some(-9)), Some("SIGKILL".into()), true);
        assert_eq!(Ended::of(&fate).to_string(), "was killed by SIGKILL because memory ran out");
    }
}
