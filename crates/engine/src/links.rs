//! The links to environments: one program for each, started when it is needed. What it learns of a process is in the folder, and it serves
//! the socket that a keeper would.
//!
//! Decision 405: docs/decisions/anywhere.md.

use crate::bytes::hex;
use crate::config::LinkProgram;
use crate::refuse;
use crate::run_dir::Sockets;
use outlast_core::{EnvironmentName, ProcessId};
use outlast_store::dir::Home;
use outlast_wire::frame::{self, Frame, Splitter};
use outlast_wire::socket;
use outlast_wire::v1::Error;
use outlast_wire::v1::link::{FromLink, LinkReply, LinkRequest, ToLink};
use outlast_wire::v1::sandbox::SandboxHello;
use outlast_wire::{VERSION, code};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::Mutex;

/// How long a link may take to listen.
const STARTING: Duration = Duration::from_secs(10);
/// How long a link may take to say hello, or to take a process.
const ANSWERING: Duration = Duration::from_secs(10);
/// How long a sandbox may take to be reached. The link gives up before that, and says why.
const REACHING: Duration = Duration::from_secs(70);

/// How long links without work may take to end.
const LEAVING: Duration = Duration::from_secs(1);

/// Tasks that wait for the end of links.
type JoinSet = Mutex<tokio::task::JoinSet<()>>;

/// The links of an engine.
#[derive(Debug)]
pub(crate) struct Links {
    home: Home,
    program: Option<LinkProgram>,
    keeper: PathBuf,
    sockets: Arc<Sockets>,
    /// A connection for each link that was used. While it is open, the link stays.
    kept: Mutex<HashMap<EnvironmentName, LinkConn>>,
    /// Links that this engine started and that run.
    running: JoinSet,
}

/// A connection to a link, after the hellos.
#[derive(Debug)]
struct LinkConn {
    from: socket::Receiver,
    to: socket::Sender,
    frames: Splitter,
    asked: u64,
}

impl Links {
    pub(crate) fn new(home: &Home, program: Option<LinkProgram>, keeper: PathBuf, sockets: &Arc<Sockets>) -> Self {
        Self { home: home.clone(), program, keeper, sockets: Arc::clone(sockets), kept: Mutex::default(), running: JoinSet::default() }
    }

    /// Makes sure that a sandbox can be reached, and returns what it says of itself.
    pub(crate) async fn ready(&self, on: &EnvironmentName) -> Result<SandboxHello, Error> {
        match self.ask(on, LinkRequest::Ready, REACHING).await {
            Ok(LinkReply::Ready { sandbox }) => Ok(*sandbox),
            other => Err(refused(on, other)),
        }
    }

    /// Has a process looked after: started, unless it was, and its folder kept up to date.
    pub(crate) async fn take(&self, on: &EnvironmentName, process: ProcessId) -> Result<(), Error> {
        match self.ask(on, LinkRequest::Take { process }, ANSWERING).await {
            Ok(LinkReply::Ok) => Ok(()),
            other => Err(refused(on, other)),
        }
    }

    /// Lets the links end, and waits for those that have no process to look after: they are in the engine's cgroup. The others stay.
    pub(crate) async fn leave(&self) {
        self.kept.lock().await.clear();
        let mut running = self.running.lock().await;
        let _stay = tokio::time::timeout(LEAVING, async { while running.join_next().await.is_some() {} }).await;
        running.detach_all();
    }

    async fn ask(&self, on: &EnvironmentName, ask: LinkRequest, longest: Duration) -> io::Result<LinkReply> {
        let mut conn = self.connect(on).await?;
        let answered = tokio::time::timeout(longest, conn.ask(ask)).await.unwrap_or_else(|late| Err(late.into()));
        // The last connection stays.
        self.kept.lock().await.insert(on.clone(), conn);
        answered
    }

    async fn connect(&self, on: &EnvironmentName) -> io::Result<LinkConn> {
        let name = link_name(on);
        let socket = self.sockets.dir().join(&name);
        if let Ok(conn) = LinkConn::open(&socket).await {
            return Ok(conn);
        }
        // One start at a time. If two engines start a link, the lock decides which serves.
        let _turn = self.kept.lock().await;
        if let Ok(conn) = LinkConn::open(&socket).await {
            return Ok(conn);
        }
        self.start(on, &name, &socket).await?;
        LinkConn::open(&socket).await
    }

    async fn start(&self, on: &EnvironmentName, name: &str, socket: &Path) -> io::Result<()> {
        let Some(LinkProgram { path, env }) = &self.program else {
            return Err(io::Error::other("this engine has no program for links: outlast-link is not beside outlast"));
        };
        let dir = self.home.environments().join(name);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
        let log = OpenOptions::new().create(true).append(true).mode(0o600).open(dir.join("log"))?;
        let mut command = tokio::process::Command::new(path);
        command.arg("--home").arg(&self.home.root).arg("--on").arg(on.as_str()).arg("--socket").arg(socket).arg("--dir").arg(&dir);
        command.arg("--run-dir").arg(self.sockets.dir()).arg("--keeper").arg(&self.keeper);
        command.current_dir("/").env_clear().envs(env.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().map_err(|e| io::Error::other(format!("cannot start {}: {e}", path.display())))?;
        let told = child.stdout.take();
        self.running.lock().await.spawn(async move {
            // Only reaps it. What it did is in its log and in the folders.
            match child.wait().await {
                Ok(status) if status.success() => {}
                Ok(status) => tracing::warn!(%status, "a link failed"),
                Err(error) => tracing::warn!(%error, "cannot wait for a link"),
            }
        });
        let Some(mut told) = told else { return Err(io::ErrorKind::BrokenPipe.into()) };
        // A byte once it listens; the end of the pipe if it failed, or if another link serves the environment.
        let begun = tokio::time::timeout(STARTING, told.read(&mut [0])).await;
        begun.map_err(io::Error::from).and_then(|read| read).map(|_| ())
    }
}

impl LinkConn {
    async fn open(socket: &Path) -> io::Result<Self> {
        let meet = async {
            let (from, to) = socket::halves(UnixStream::connect(socket).await?.into_std()?)?;
            let mut conn = Self { from, to, frames: Splitter::default(), asked: 0 };
            match conn.ask(LinkRequest::Hello { version: VERSION }).await? {
                LinkReply::Hello { version } if (outlast_wire::OLDEST..=VERSION).contains(&version) => Ok(conn),
                other => Err(io::Error::other(format!("the link said {other:?} instead of hello"))),
            }
        };
        tokio::time::timeout(ANSWERING, meet).await.unwrap_or_else(|late| Err(late.into()))
    }

    async fn ask(&mut self, ask: LinkRequest) -> io::Result<LinkReply> {
        self.asked += 1;
        let id = self.asked;
        self.to.write_all(&frame::json(&ToLink { id, ask })).await?;
        loop {
            match self.frames.next_frame().map_err(io::Error::other)? {
                Some(Frame::Json(json)) => {
                    let said: FromLink = serde_json::from_slice(&json).map_err(io::Error::other)?;
                    if said.of == id {
                        return Ok(said.say);
                    }
                }
                Some(Frame::Raw { .. }) => {}
                None if socket::take(&mut self.from, &mut self.frames).await? == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                None => {}
            }
        }
    }
}

fn refused(on: &EnvironmentName, answer: io::Result<LinkReply>) -> Error {
    match answer {
        Ok(LinkReply::Refused { code, error, hint }) if code == code::BAD_ENVIRONMENT => {
            refuse::refusal(&code, format!("{on} cannot be used: {error}"), hint)
        }
        Ok(LinkReply::Refused { code, error, hint }) => refuse::unavailable_as(&code, format!("{on} cannot be reached: {error}"), hint),
        Ok(other) => refuse::fault(format!("a link said {other:?}")),
        Err(error) => refuse::unavailable_as(code::UNREACHABLE, format!("the link to {on} does not answer: {error}"), "ask again"),
    }
}

/// A short name for the socket and the directory of a link.
fn link_name(on: &EnvironmentName) -> String {
    format!("on_{}", hex(&Sha256::digest(on.as_str().as_bytes())[..6]))
}
