//! Reads conversations from the running gateway, or else from its files. It starts no gateway, so one that the user stopped stays stopped.

use super::{ChatName, Context, Failure, failed, no_conversation_but, not_installed};
use outlast_client::{Chat, ChatEvent, ClientError, Connect, ConversationInfo, Heard, Owner, Part, Shown, code};
use outlast_gateway::{ReadAnswer, is_taken};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long to wait for a gateway that does not answer and holds its files: it starts or exits, and may be stopping agents.
const READ_TIMEOUT: Duration = Duration::from_secs(90);
/// The interval of retries. A socket that does not exist has no descriptor to wait on, and a thread that waits for a lock cannot be
/// cancelled when the gateway listens.
const READ_RETRY_PAUSE: Duration = Duration::from_millis(20);

/// Where conversations are read, and for whom.
#[derive(Debug, Clone)]
pub(super) struct ChatReader {
    home: PathBuf,
    owner: Owner,
    /// The path of this program. The gateway's program should be beside it.
    own_program: PathBuf,
    program: Option<PathBuf>,
}

/// A conversation as it was read.
#[derive(Debug)]
pub(super) struct ShownConversation {
    pub(super) shown: Shown,
    pub(super) source: ChatSource,
}

/// Where it was read. In the files of a killed gateway, turns are still marked as running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChatSource {
    Gateway,
    Files,
}

pub(super) async fn list(ctx: &Context) -> Result<Vec<ConversationInfo>, Failure> {
    let (all, source) = ChatReader::new(ctx).list().await?;
    if source == ChatSource::Files {
        tell_what_waits(ctx, &all);
    }
    Ok(all)
}

pub(super) async fn show(ctx: &Context, name: &ChatName, generation: Option<u64>) -> Result<ShownConversation, Failure> {
    let reader = ChatReader::new(ctx);
    let found = match reader.show(name, generation).await {
        Err(failure) if failure.code() == code::NO_CONVERSATION => return Err(reader.no_conversation(name, failure).await),
        found => found?,
    };
    if found.source == ChatSource::Files {
        tell_what_waits(ctx, std::slice::from_ref(&found.shown.conversation));
    }
    Ok(found)
}

fn tell_what_waits(ctx: &Context, read: &[ConversationInfo]) {
    if read.iter().any(|conversation| conversation.open_turns > 0) {
        ctx.out.remark("no gateway runs, and open turns wait for one: `outlast chat NAME` starts it");
    }
}

/// Everything that was said in a conversation.
pub(super) async fn parts(ctx: &Context, name: &ChatName) -> Result<Vec<Part>, Failure> {
    let args = ["parts", "--key", &name.key];
    match ChatReader::new(ctx).read(&args, |chat| async move { followed(&chat, name).await }).await.map_err(|e| e.about(name))? {
        ReadFrom::Gateway(parts) | ReadFrom::Files(ReadAnswer::Parts(parts)) => Ok(parts),
        ReadFrom::Files(other) => Err(unexpected(other)),
    }
}

/// The parts that the gateway has. None if it exited before it had sent all of them.
async fn followed(chat: &Chat, name: &ChatName) -> Result<Option<Vec<Part>>, ClientError> {
    let mut feed = chat.follow(&name.key);
    let mut parts = Vec::new();
    loop {
        match feed.next().await? {
            Heard::Event(ChatEvent::Part { part }) => parts.push(*part),
            Heard::Event(ChatEvent::CaughtUp { .. }) => return Ok(Some(parts)),
            // The feed would wait for the next gateway, but the user may have stopped this one.
            Heard::Lost { .. } => return Ok(None),
            _ => {}
        }
    }
}

/// An answer, with its source.
enum ReadFrom<T> {
    Gateway(T),
    Files(ReadAnswer),
}

/// Why a read failed.
enum ReadError {
    Asked(ClientError),
    Other(Failure),
}

impl ReadError {
    fn about(self, name: &ChatName) -> Failure {
        match self {
            Self::Asked(error) => failed(name, error),
            Self::Other(failure) => failure,
        }
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Asked(error) => error.into(),
            ReadError::Other(failure) => failure,
        }
    }
}

impl ChatReader {
    pub(super) fn new(ctx: &Context) -> Self {
        let (own_program, program) = (ctx.world.program.clone(), ctx.world.gateway());
        Self { home: ctx.settings.home.clone(), owner: ctx.owner(), own_program, program }
    }

    async fn list(&self) -> Result<(Vec<ConversationInfo>, ChatSource), Failure> {
        match self.read(&["list"], |chat| async move { chat.list().await.map(Some) }).await? {
            ReadFrom::Gateway(all) => Ok((all, ChatSource::Gateway)),
            ReadFrom::Files(ReadAnswer::List(all)) => Ok((all.conversations, ChatSource::Files)),
            ReadFrom::Files(other) => Err(unexpected(other)),
        }
    }

    /// The failure with a suggestion for a mistyped name, if the names can be read.
    async fn no_conversation(&self, name: &ChatName, failure: Failure) -> Failure {
        match self.list().await {
            Ok((all, _)) => no_conversation_but(name, &all),
            Err(_) => failure,
        }
    }

    /// The conversation in its current state.
    pub(super) async fn show(&self, name: &ChatName, generation: Option<u64>) -> Result<ShownConversation, Failure> {
        let number = generation.map(|number| number.to_string());
        let mut args = vec!["show", "--key", &name.key];
        args.extend(number.iter().flat_map(|number| ["--generation", number]));
        let read = self.read(&args, |chat| async move { chat.show(&name.key, generation).await.map(Some) }).await;
        match read.map_err(|e| e.about(name))? {
            ReadFrom::Gateway(shown) => Ok(ShownConversation { shown, source: ChatSource::Gateway }),
            ReadFrom::Files(ReadAnswer::Show(shown)) => Ok(ShownConversation { shown: *shown, source: ChatSource::Files }),
            ReadFrom::Files(other) => Err(unexpected(other)),
        }
    }

    /// Asks the gateway; if none runs, runs its program to read the files. A gateway may start or exit in between, so both are retried.
    /// `ask` returns None if the gateway exited before it had answered.
    async fn read<T, F>(&self, what: &[&str], ask: impl Fn(Chat) -> F) -> Result<ReadFrom<T>, ReadError>
    where
        F: Future<Output = Result<Option<T>, ClientError>>,
    {
        let to = Connect::to(&self.home).speaking_for(self.owner.clone());
        let began = Instant::now();
        loop {
            let asked = match Chat::connect(&to).await {
                Ok(chat) => ask(chat).await,
                Err(e) => Err(e),
            };
            match asked {
                Ok(Some(found)) => return Ok(ReadFrom::Gateway(found)),
                Ok(None) => {}
                // A gateway may need longer to stop its agents than the client waits for its exit.
                Err(e) if e.is_not_running() || e.code() == code::STOPPING => {}
                Err(e) => return Err(ReadError::Asked(e)),
            }
            match self.read_files(what).await.map_err(ReadError::Other)? {
                ReadAnswer::Taken if began.elapsed() < READ_TIMEOUT => tokio::time::sleep(READ_RETRY_PAUSE).await,
                ReadAnswer::Refused(refusal) => return Err(ReadError::Asked(ClientError::Refused(refusal))),
                answer => return Ok(ReadFrom::Files(answer)),
            }
        }
    }

    async fn read_files(&self, what: &[&str]) -> Result<ReadAnswer, Failure> {
        // While a gateway starts or exits, only its locks are checked. Errors with them are reported by the program.
        if is_taken(&self.home).unwrap_or(false) {
            return Ok(ReadAnswer::Taken);
        }
        let program = self.program.as_ref().ok_or_else(|| not_installed(&self.own_program))?;
        let mut command = tokio::process::Command::new(program);
        command.arg("--home").arg(&self.home).arg("--read").args(what);
        // As one argument, because a session may begin with a dash.
        command.args(self.owner.session.iter().map(|session| format!("--session={session}")));
        let hint = unreadable_hint(&self.home);
        let cannot = |what: String| Failure::new(code::GATEWAY_CANNOT_START, what, hint.clone());
        let output = command.stdin(std::process::Stdio::null()).kill_on_drop(true).output().await;
        let output = output.map_err(|e| cannot(format!("cannot execute {}: {e}", program.display())))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let why = said.lines().next_back().unwrap_or("it said nothing").trim_start_matches("outlast-gateway: ");
            return Err(cannot(format!("conversations cannot be read: {why}")));
        }
        serde_json::from_slice(&output.stdout).map_err(|e| {
            let what = format!("what {} printed cannot be read: {e}", program.display());
            Failure::new(code::GATEWAY_CANNOT_START, what, "install `outlast` and `outlast-gateway` of one release side by side")
        })
    }
}

/// What to do if conversations cannot be read. Reading takes locks and writes to the memory that readers of the database share.
fn unreadable_hint(home: &Path) -> String {
    match rustix::fs::access(home, rustix::fs::Access::WRITE_OK) {
        Err(rustix::io::Errno::ROFS) => {
            let place = home.display();
            format!(
                "{place} is on a read-only file system: `mount -o remount,rw` it, or copy the directory and set OUTLAST_HOME to the copy"
            )
        }
        Ok(()) | Err(_) => "`outlast doctor` looks at conversations and their files".into(),
    }
}

fn unexpected(answer: ReadAnswer) -> Failure {
    match answer {
        ReadAnswer::Taken => Failure::new(
            code::GATEWAY_CANNOT_CONNECT,
            format!("a gateway holds its files and has not answered within {} s", READ_TIMEOUT.as_secs()),
            "`outlast gateway status` shows what it does; `kill -9` of it loses no message",
        ),
        _ => Failure::fault(
            "the gateway's program answered another question",
            "`outlast` and `outlast-gateway` may be of different releases",
        ),
    }
}
