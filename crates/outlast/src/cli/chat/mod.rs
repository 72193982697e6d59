//! `outlast chat`
//!
//! [`view`] is what a terminal shows, changed only by events; [`editor`] is the typed text; [`open`] has the terminal and the connection.

mod commands;
mod editor;
mod export;
mod list;
mod live;
mod markdown;
mod open;
mod order;
mod piped;
mod questions;
mod read;
mod requests;
mod send;
mod show;
mod view;
mod wrap;

use super::conversation::{LOCAL_KEY_PREFIX, name_of};
use super::gateway::not_installed;
use super::progress::{self, About};
use super::{Context, Failure};
use clap::{Args, Subcommand};
use outlast_client::{AgentChoice, Chat, ClientError, Connect, ConversationInfo, Peer, Setup, code};
use outlast_core::nearest;

/// Talk to an agent in a conversation that survives restarts
///
/// Opens the conversation NAME in this terminal, and creates it if there is none. Leave with Ctrl-D and come back at any time, from any terminal;
/// what happened in between is shown. The agent keeps writing its reply while no terminal is open. After a crash or a restart of the machine the
/// reply is resumed. The agent gets a notice here when a process that it started ends.
///
/// Ctrl-C stops the reply, Alt-Enter begins a new line, and Tab completes /new /resume /stop /status /history /restart /help /quit. In a pipe, each
/// line of standard input is a message, and replies are plain text.
///
/// A conversation cannot be named list, ls, show, send, export or help.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ChatArgs {
    #[command(flatten)]
    open: open::ChatOpen,
    #[command(subcommand)]
    verb: Option<ChatVerb>,
}

#[derive(Debug, Subcommand)]
enum ChatVerb {
    List(list::ChatList),
    Show(show::ChatShow),
    Send(send::ChatSend),
    Export(export::ChatExport),
}

impl ChatArgs {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        match self.verb {
            None => self.open.perform(ctx).await,
            Some(ChatVerb::List(args)) => args.perform(ctx).await,
            Some(ChatVerb::Show(args)) => args.perform(ctx).await,
            Some(ChatVerb::Send(args)) => args.perform(ctx).await,
            Some(ChatVerb::Export(args)) => args.perform(ctx).await,
        }
    }

    /// Whether it is interactive, so that the terminal has to be restored at the end.
    pub(crate) fn is_open(&self) -> bool {
        self.verb.is_none()
    }
}

/// The agent that answers.
#[derive(Debug, Args)]
struct AgentArgs {
    /// The agent that answers from now on: codex, opencode, kimi, hermes, gemini or qwen, or one from the configuration
    #[arg(long, value_name = "AGENT", conflicts_with = "command")]
    agent: Option<String>,
    /// A shell command line that answers from now on. It runs once per message, reads the message from standard input and prints the reply
    #[arg(long, value_name = "COMMAND")]
    command: Option<String>,
}

impl AgentArgs {
    fn setup(self, ctx: &Context) -> Setup {
        let here = Setup::default().in_dir(&ctx.world.cwd);
        match (self.agent, self.command) {
            (Some(name), _) => {
                // The gateway may have been started from elsewhere, with another PATH.
                outlast_gateway::remember_agent(&ctx.settings.home, &name, ctx.world.var("PATH").unwrap_or_default());
                here.answered_by(AgentChoice::Agent(name))
            }
            (None, Some(line)) => here.answered_by(AgentChoice::Command(line)),
            (None, None) => here,
        }
    }
}

/// The longest name of a conversation. The gateway has the same limit.
const MAX_NAME_LEN: usize = 64;

/// The subcommands, which cannot be names.
const VERBS: [&str; 6] = ["list", "ls", "show", "send", "export", "help"];

/// A conversation, given by its name or its key.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ChatName {
    key: String,
}

impl std::str::FromStr for ChatName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with("agent:") && text.len() > "agent:".len() && !text.contains(char::is_control) {
            return Ok(Self { key: text.into() });
        }
        let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
        let is_path = text.chars().all(|c| c == '.');
        if VERBS.contains(&text) {
            return Err(format!("`{text}` is a command of `outlast chat`, not a conversation; it comes before all options"));
        }
        if text.is_empty() || text.len() > MAX_NAME_LEN || !is_plain || is_path {
            let order = if text.contains(' ') { "; `chat send` takes the name before the message" } else { "" };
            return Err(format!("a conversation has a name of up to {MAX_NAME_LEN} letters, digits, `.`, `_` and `-`{order}"));
        }
        Ok(Self { key: format!("{LOCAL_KEY_PREFIX}{text}") })
    }
}

impl ChatName {
    /// The conversation if none is named: in a command of an agent its own, else `main`.
    fn default_of(ctx: &Context) -> Self {
        Self::of_session(ctx.owner().session.as_deref())
    }

    /// A session that is not the key of a conversation belongs to another program.
    fn of_session(session: Option<&str>) -> Self {
        let own = session.filter(|key| key.starts_with("agent:")).and_then(|key| key.parse().ok());
        own.unwrap_or_else(|| Self { key: format!("{LOCAL_KEY_PREFIX}main") })
    }

    /// Its name for the user.
    fn short(&self) -> &str {
        name_of(&self.key)
    }
}

/// Connects to the gateway, and starts it if none runs.
async fn connect(ctx: &Context) -> Result<Chat, Failure> {
    let to = Connect::to(&ctx.settings.home).speaking_for(ctx.owner());
    let to = match ctx.world.gateway() {
        Some(program) => to.starting(program),
        None => to,
    };
    match progress::beside(ctx, About::Words("starting the gateway"), Chat::connect(&to)).await {
        Err(e) if e.is_not_running() => Err(not_installed(&ctx.world.program)),
        other => Ok(other?),
    }
}

/// Whether this home ever had a conversation. If not, there is nothing to read.
fn has_any(ctx: &Context) -> bool {
    ctx.settings.home.join("gateway.db").exists() || ctx.settings.home.join("run/gateway").exists()
}

fn no_conversation(name: &ChatName) -> Failure {
    no_conversation_but(name, &[])
}

/// The same, with a suggestion for a mistyped name.
fn no_conversation_but(name: &ChatName, there_are: &[ConversationInfo]) -> Failure {
    let near = nearest(name.short(), there_are.iter().map(|one| one.name.as_str()));
    let near = near.first().map(|near| format!("did you mean {near}? ")).unwrap_or_default();
    let hint = format!("{near}`outlast chat list` shows all conversations; `outlast chat {} --agent NAME` begins this one", name.short());
    Failure::new(code::NO_CONVERSATION, format!("there is no conversation {}", name.short()), hint)
}

/// The failure of a request about a conversation.
fn failed(name: &ChatName, error: ClientError) -> Failure {
    if error.code() == code::NO_CONVERSATION { no_conversation(name) } else { error.into() }
}

/// The same for a request that may have named a new conversation by mistake, or an agent that there is not.
async fn failed_with_meant(chat: &Chat, name: &ChatName, error: ClientError) -> Failure {
    let failure = failed(name, error);
    if failure.code() != code::BAD_REQUEST {
        return failure;
    }
    let what = failure.error().to_owned();
    if what.ends_with("; to begin it, choose an agent") {
        // Without a list there is only no suggestion.
        let all = chat.list().await.unwrap_or_default();
        let near = nearest(name.short(), all.iter().map(|conversation| conversation.name.as_str()));
        if !near.is_empty() {
            let hint = format!("did you mean {}? For a new one, {}", near.join(" or "), failure.hint());
            return failure.hinting(hint);
        }
    } else if what.starts_with("there is no agent claude") {
        let hint = format!(
            "Claude Code does not speak ACP by itself; [gateway.agents.claude] in config.toml can name an adapter for it. {}",
            failure.hint()
        );
        return failure.hinting(hint);
    }
    failure
}

/// Whether the gateway cannot be reached at the moment. A refusal, in contrast, does not pass.
fn is_passing(error: &ClientError) -> bool {
    match error {
        ClientError::Unavailable { .. } => true,
        ClientError::Connect { peer: Peer::Gateway, .. } => error.is_not_running(),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
