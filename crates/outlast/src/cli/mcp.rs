//! `outlast mcp`

use super::explain::{self, Explained};
use super::owner::Whose;
use super::{Context, Failure};
use crate::os;
use clap::{Args, ValueEnum};
use outlast_client::{Connect, Instance, Start};
use outlast_mcp::{Http, Server, Settings, Token};
use outlast_tools::Profile;
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use tokio::signal::unix::{SignalKind, signal};

/// Serve agents over the Model Context Protocol
///
/// Serves one client on standard input and output, or several over HTTP on the loopback interface with --http. It can be killed at any time: processes keep
/// running, and undelivered notices go to the next client of the session. `outlast install` adds it to a client's configuration. Supports protocol versions
/// up to 2025-11-25 and 2026-07-28.
#[derive(Debug, Args)]
pub(crate) struct Mcp {
    /// Listen for HTTP at this loopback address; without an address, at a free port. Clients must send the token in the file `mcp-token` of the home
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:0", value_parser = address)]
    http: Option<SocketAddr>,
    /// The set of tools [default: chosen by the client's name]
    #[arg(long, value_name = "NAME")]
    profile: Option<ProfileArg>,
    /// What the name of each tool begins with, such as `outlast_`, for clients that do not add the server's name
    #[arg(long, value_name = "TEXT", value_parser = prefix)]
    prefix: Option<String>,
    #[command(flatten)]
    whose: Whose,
}

/// The longest prefix of tool names.
const MAX_PREFIX_BYTES: usize = 40;

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum ProfileArg {
    /// run, wait, log, list, kill, write, notices
    Native,
    /// terminal, process
    Hermes,
    /// exec_command, write_stdin
    Codex,
}

impl From<ProfileArg> for Profile {
    fn from(profile: ProfileArg) -> Self {
        match profile {
            ProfileArg::Native => Self::Native,
            ProfileArg::Hermes => Self::Hermes,
            ProfileArg::Codex => Self::Codex,
        }
    }
}

/// Parses the address of --http.
fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "it is no address with a port: write for instance 127.0.0.1:8000, or [::1]:8000".to_owned())
}

impl Mcp {
    pub(crate) fn is_over_http(&self) -> bool {
        self.http.is_some()
    }

    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        if !self.is_over_http() && explain::is_typed() {
            return explain::tell(ctx, Explained::Mcp);
        }
        let mut connect = Connect::to(&ctx.settings.home);
        connect.start = Start::OnDemand { program: ctx.world.program.clone() };
        let mut settings = Settings::new(connect, ctx.host(), ctx.world.cwd.clone());
        settings.started_for = self.whose.or(ctx.owner());
        // Some agents start MCP servers with almost no environment. If the gateway started the agent, the session is found in the agent's own environment.
        if settings.started_for.session.is_none()
            && self.http.is_none()
            && let Some((session, generation)) = os::conversation_above(&ctx.settings.home)
        {
            (settings.started_for.session, settings.started_for.generation) = (Some(session), Some(generation));
        }
        settings.instance = instance(ctx, self.http.is_some());
        settings.profile = self.profile.map(Into::into);
        settings.prefix = self.prefix.unwrap_or_default();
        settings.keep_for = ctx.settings.keep_for;
        settings.shared = self.http.is_some();
        let server = Server::new(settings);
        match self.http {
            Some(address) => over_http(ctx, server, address).await,
            None => match outlast_mcp::stdio(server).await {
                Ok(()) => Ok(0),
                Err(e) => Err(Failure::refused(e, "an MCP client speaks to this, on its standard input and output")),
            },
        }
    }
}

/// Variables with which a client names its conversation to the servers that it starts.
const CONVERSATION_VARIABLES: [&str; 1] = ["QWEN_CODE_SESSION_ID"];
/// The longest name of a conversation that counts.
const MAX_CONVERSATION_BYTES: usize = 200;

/// Which conversation the server is for, as far as that is known when it starts. A server without a living client stands for itself.
fn instance(ctx: &Context, is_over_http: bool) -> Option<Instance> {
    // Without its own identity it cannot be told apart.
    let server = os::this_process()?;
    if is_over_http {
        return Some(Instance::unknown(server));
    }
    let mut names = CONVERSATION_VARIABLES.iter().filter_map(|name| ctx.world.var(name)?.to_str());
    let named = names.find(|name| (1..=MAX_CONVERSATION_BYTES).contains(&name.len()));
    Some(Instance::of_server(server, os::client_above().unwrap_or(server), named))
}

/// Checks the beginning of tool names: clients allow 64 letters, digits, `_` and `-` for the whole name.
fn prefix(given: &str) -> Result<String, String> {
    let plain = given.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
    match given.len() {
        1..=MAX_PREFIX_BYTES if plain => Ok(given.to_owned()),
        _ => Err(format!("give 1 to {MAX_PREFIX_BYTES} letters, digits, `_` or `-`")),
    }
}

async fn over_http(ctx: &Context, server: Server, address: SocketAddr) -> Result<i32, Failure> {
    let (token, kept) = token(ctx)?;
    let http = Http::listen(address, server, token)
        .await
        .map_err(|e| Failure::refused(format!("cannot listen at {address}: {e}"), "choose another port, or leave the address out"))?;
    let url = http.url();
    // Before the address is printed: a reader of that line may send a signal at once.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut end = signal(SignalKind::terminate())?;
    if ctx.out.json {
        ctx.out.object(&json!({"url": url, "token_file": kept.as_ref().map(|path| path.display().to_string())}))?;
    } else {
        let known = kept.map_or_else(|| "that of OUTLAST_MCP_TOKEN".to_owned(), |path| format!("in {}", path.display()));
        ctx.out.line(&format!("listening at {url}; the token is {known}"))?;
    }
    tokio::select! {
        () = http.serve() => {}
        _ = interrupt.recv() => {}
        _ = end.recv() => {}
    }
    Ok(0)
}

/// The token that clients must have: of the environment, else that of the home, which is made once.
fn token(ctx: &Context) -> Result<(Token, Option<PathBuf>), Failure> {
    if let Some(given) = ctx.world.var("OUTLAST_MCP_TOKEN") {
        let bad = |e| Failure::refused(format!("the token in OUTLAST_MCP_TOKEN cannot be used: {e}"), "give another one");
        return Ok((Token::read(&given.to_string_lossy()).map_err(bad)?, None));
    }
    let path = ctx.settings.home.join("mcp-token");
    let bad = |e: std::io::Error| {
        let hint = format!("remove {}, and a new one is drawn; or set OUTLAST_MCP_TOKEN", path.display());
        Failure::refused(format!("the token in {} cannot be used: {e}", path.display()), hint)
    };
    let token = match kept(&path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Token::draw().and_then(|token| keep(&path, token)),
        found => found,
    };
    Ok((token.map_err(bad)?, Some(path)))
}

/// The token in a file that no other user can read.
fn kept(path: &Path) -> std::io::Result<Token> {
    let mut file = std::fs::File::open(path)?;
    let mode = file.metadata()?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(std::io::Error::other(format!("others may have read it (mode {mode:03o})")));
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Token::read(text.trim()).map_err(std::io::Error::other)
}

/// Writes a new token to a file that only its owner can read. If another process wrote one first, that one is used.
fn keep(path: &Path, token: Token) -> std::io::Result<Token> {
    if let Some(home) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(home)?;
    }
    let new = path.with_file_name(format!("mcp-token.{}", std::process::id()));
    // One of this name is from a process that is gone.
    let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    let linked = file.write_all(token.reveal().as_bytes()).and_then(|()| file.sync_all()).and_then(|()| std::fs::hard_link(&new, path));
    std::fs::remove_file(&new)?;
    match linked {
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => kept(path),
        linked => linked.map(|()| token),
    }
}
