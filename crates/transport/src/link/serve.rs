//! A link as a program: its lock, its socket, and the loop of its one task.

use super::streams::{keep_open, refusal};
use super::{Link, LinkInput, LinkSettings, StreamPhase};
use outlast_store::lock;
use outlast_wire::frame::{self, Frame, Splitter};
use outlast_wire::v1::link::{FromLink, LinkReply, LinkRequest, ToLink};
use outlast_wire::{OLDEST, VERSION, code, socket};
use std::collections::{BTreeMap, HashMap};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, mpsc, oneshot};

/// How much may wait for the one task.
const INBOX: usize = 64;
/// How long a link without an engine and without a process stays.
const IDLE: Duration = Duration::from_secs(1);

/// Serves the link of an environment until it has nothing to do. `when_listening` is called once the engine can connect. If another link
/// serves the environment, this one returns at once.
pub async fn serve_link(settings: LinkSettings, when_listening: impl FnOnce()) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&settings.dir)?;
    let held = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(settings.dir.join("lock"))?;
    if !lock::try_hold(&held)? {
        return Ok(());
    }
    // The lock says that a socket which is there is of an earlier link.
    let _stale = std::fs::remove_file(&settings.socket);
    let listener = UnixListener::bind(&settings.socket)?;
    when_listening();
    let (inbox, inputs) = mpsc::channel(INBOX);
    let hurry = Arc::new(Notify::new());
    let mut settings = settings;
    let transport: Arc<dyn crate::Transport> = Arc::from(std::mem::replace(&mut settings.transport, Box::new(NoTransport)));
    let opening = tokio::spawn(keep_open(Arc::clone(&transport), inbox.clone(), Arc::clone(&hurry)));
    let accepting = tokio::spawn(accept(listener, inbox.clone()));
    let socket = settings.socket.clone();
    let mut link = Link {
        settings,
        inbox,
        phase: StreamPhase::Opening(None),
        stream: 0,
        hurry,
        last_number: 0,
        numbers: HashMap::new(),
        processes: BTreeMap::new(),
        conns: HashMap::new(),
        waiting: Vec::new(),
        engines: 0,
    };
    link.run(inputs).await;
    // First, so that an engine that comes now starts another link.
    let _gone = std::fs::remove_file(socket);
    accepting.abort();
    opening.abort();
    let _as_far_as_it_goes = transport.lost().await;
    Ok(())
}

/// Stands in the settings once the transport was taken out of them.
struct NoTransport;

impl crate::Transport for NoTransport {
    fn ensure(&self) -> crate::Working<'_, std::path::PathBuf> {
        Box::pin(async { Err(crate::TransportError::unavailable("the link has begun")) })
    }

    fn open<'a>(&'a self, _: &'a std::path::Path) -> crate::Working<'a, crate::Opened> {
        Box::pin(async { Err(crate::TransportError::unavailable("the link has begun")) })
    }
}

impl Link {
    async fn run(&mut self, mut inputs: mpsc::Receiver<LinkInput>) {
        loop {
            let is_idle = self.engines == 0 && self.processes.is_empty();
            let longest = if is_idle { IDLE } else { Duration::from_secs(3600) };
            match tokio::time::timeout(longest, inputs.recv()).await {
                Ok(Some(input)) => {
                    let is_leaving = matches!(input, LinkInput::Engines(false));
                    self.handle(input);
                    if is_leaving && self.engines == 0 && self.processes.is_empty() {
                        // The engine waits for the end of the links that it leaves without work.
                        return;
                    }
                }
                Ok(None) => return,
                Err(_) if is_idle => return,
                Err(_) => {}
            }
        }
    }

    fn handle(&mut self, input: LinkInput) {
        match input {
            LinkInput::Engines(true) => self.engines += 1,
            LinkInput::Engines(false) => self.engines -= 1,
            LinkInput::Ready(answer) => match &self.phase {
                StreamPhase::Open { hello, .. } => _ = answer.send(LinkReply::Ready { sandbox: hello.clone() }),
                StreamPhase::Opening(Some(why)) if why.failure == crate::TransportFailure::Refused => {
                    let _left = answer.send(refusal(why));
                    self.hurry.notify_one();
                }
                // The engine learns of the next attempt, which is made at once.
                StreamPhase::Opening(_) => {
                    self.waiting.push(answer);
                    self.hurry.notify_one();
                }
            },
            LinkInput::Take(process, answer) => {
                let _left = answer.send(self.take(process));
            }
            LinkInput::Control(input) => self.control(input),
            LinkInput::Up(hello, out) => self.up(hello, out),
            LinkInput::Down(error, was_open) => self.down(error, was_open),
            LinkInput::Came(stream, came) => self.came(stream, came),
            LinkInput::TryAgain(process) => self.attach(process),
        }
    }
}

async fn accept(listener: UnixListener, inbox: mpsc::Sender<LinkInput>) {
    while let Ok((stream, _)) = listener.accept().await {
        let is_ours = stream.peer_cred().is_ok_and(|peer| peer.uid() == 0 || peer.uid() == rustix::process::geteuid().as_raw());
        if !is_ours {
            continue;
        }
        let inbox = inbox.clone();
        tokio::spawn(async move {
            if inbox.send(LinkInput::Engines(true)).await.is_ok() {
                serve_engine(stream, &inbox).await;
                let _ends = inbox.send(LinkInput::Engines(false)).await;
            }
        });
    }
}

/// One connection of an engine.
async fn serve_engine(stream: UnixStream, inbox: &mpsc::Sender<LinkInput>) {
    let Ok((mut from, mut to)) = stream.into_std().and_then(socket::halves) else { return };
    let (out, mut answers) = mpsc::unbounded_channel::<Vec<u8>>();
    let read = async {
        let mut split = Splitter::default();
        loop {
            while let Ok(Some(Frame::Json(json))) = split.next_frame() {
                let Ok(ToLink { id, ask }) = serde_json::from_slice(&json) else { return };
                let answer = move |say| frame::json(&FromLink { of: id, say });
                let (tell, told) = oneshot::channel();
                let input = match ask {
                    LinkRequest::Hello { version } => {
                        let say = match version < OLDEST {
                            true => LinkReply::Refused {
                                code: code::BAD_VERSION.into(),
                                error: format!("version {version} is too old: this link speaks {OLDEST} to {VERSION}"),
                                hint: String::new(),
                            },
                            false => LinkReply::Hello { version: version.min(VERSION) },
                        };
                        let _left = out.send(answer(say));
                        continue;
                    }
                    LinkRequest::Ready => LinkInput::Ready(tell),
                    LinkRequest::Take { process } => LinkInput::Take(process, tell),
                };
                if inbox.send(input).await.is_err() {
                    return;
                }
                let out = out.clone();
                tokio::spawn(async move {
                    if let Ok(say) = told.await {
                        let _left = out.send(answer(say));
                    }
                });
            }
            match socket::take(&mut from, &mut split).await {
                Ok(n) if n > 0 => {}
                Ok(_) | Err(_) => return,
            }
        }
    };
    let write = async {
        while let Some(frame) = answers.recv().await {
            if to.write_all(&frame).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = read => {}
        () = write => {}
    }
}
