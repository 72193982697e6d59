//! `outlast mcp`

use super::owner::Whose;
use super::{Context, Failure};
use clap::{Args, ValueEnum};
use outlast_client::{Connect, Start};
use outlast_mcp::{Http, Server, Settings, Token};
use outlast_tools::Profile;
use serde_json::json;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use tokio::signal::unix::{SignalKind, signal};

/// Serve agents over the Model Context Protocol
///
/// On standard input and output, for one agent that starts it; with --http on the loopback interface, for several. It may be killed at any time: processes go on, and
/// what was not told yet is told to whoever asks next. Both eras of the protocol are spoken, 2025-11-25 and before as well as 2026-07-28.
#[derive(Debug, Args)]
pub(crate) struct Mcp {
    /// Listen for HTTP at this address of the loopback interface; without an address at a free port. Clients send the token, which is kept in `mcp-token` in the home
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:0")]
    http: Option<SocketAddr>,
    /// Which tools there are; chosen by the client's name unless given
    #[arg(long, value_name = "NAME")]
    profile: Option<ProfileArg>,
    #[command(flatten)]
    whose: Whose,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ProfileArg {
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

impl Mcp {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let mut connect = Connect::to(&ctx.settings.home);
        connect.start = Start::OnDemand { program: ctx.world.program.clone() };
        let mut settings = Settings::new(connect, ctx.host(), ctx.world.cwd.clone());
        settings.started_for = self.whose.or(ctx.owner());
        settings.profile = self.profile.map(Into::into);
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

async fn over_http(ctx: &Context, server: Server, address: SocketAddr) -> Result<i32, Failure> {
    let (token, kept) = token(ctx)?;
    let http = Http::listen(address, server, token)
        .await
        .map_err(|e| Failure::refused(format!("cannot listen at {address}: {e}"), "choose another port, or leave the address out"))?;
    let url = http.url();
    if ctx.out.json {
        ctx.out.object(&json!({"url": url, "token_file": kept.as_ref().map(|path| path.display().to_string())}))?;
    } else {
        let known = kept.map_or_else(|| "that of OUTLAST_MCP_TOKEN".to_owned(), |path| format!("in {}", path.display()));
        ctx.out.line(&format!("listening at {url}; the token is {known}"))?;
    }
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut end = signal(SignalKind::terminate())?;
    tokio::select! {
        () = http.serve() => {}
        _ = interrupt.recv() => {}
        _ = end.recv() => {}
    }
    Ok(0)
}

/// The token that clients must have: of the environment, else that of the home, which is made once.
fn token(ctx: &Context) -> Result<(Token, Option<PathBuf>), Failure> {
    let bad =
        |whence: &str, e: &dyn std::fmt::Display| Failure::refused(format!("the token {whence} cannot be used: {e}"), "give another one");
    if let Some(given) = ctx.world.var("OUTLAST_MCP_TOKEN") {
        let token = Token::read(&given.to_string_lossy()).map_err(|e| bad("in OUTLAST_MCP_TOKEN", &e))?;
        return Ok((token, None));
    }
    let path = ctx.settings.home.join("mcp-token");
    let whence = format!("in {}", path.display());
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok((Token::read(text.trim()).map_err(|e| bad(&whence, &e))?, Some(path))),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            let token = Token::draw().and_then(|token| keep(&path, &token)).map_err(|e| bad(&whence, &e))?;
            Ok((token, Some(path)))
        }
        Err(e) => Err(bad(&whence, &e)),
    }
}

/// Keeps a new token for its owner alone. Should somebody else be first, theirs counts.
fn keep(path: &Path, token: &Token) -> std::io::Result<Token> {
    if let Some(home) = path.parent() {
        std::fs::create_dir_all(home)?;
    }
    match std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(mut file) => {
            file.write_all(token.reveal().as_bytes())?;
            file.sync_all()?;
            Ok(token.clone())
        }
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
            let theirs = std::fs::read_to_string(path)?;
            Token::read(theirs.trim()).map_err(std::io::Error::other)
        }
        Err(e) => Err(e),
    }
}
