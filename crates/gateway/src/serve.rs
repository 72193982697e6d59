//! The socket: frames in, requests to the coordinator, answers and events out. What a client sends can end its own connection and nothing else.

use crate::coordinator::{ChatAnswer, FollowAsked, Followed, Gateway, Input, WaitingEvent, ending, refusal};
use crate::owner::{Asker, UserId};
use outlast_wire::frame::{self, Frame, Splitter};
use outlast_wire::socket;
use outlast_wire::v1::chat::{ChatEvent, ChatMessage, ChatReply, ChatRequest, Content, Part};
use outlast_wire::v1::{Error, ErrorKind, Hello};
use outlast_wire::{OLDEST, VERSION, code};
use serde_json::Value;
use std::collections::HashMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

/// How many requests of one connection may be under way.
const MAX_UNDER_WAY: usize = 256;
/// How many frames may wait to be sent. Senders of more wait.
const MAX_OUTGOING: usize = 16;
/// How many connections there may be. Each person has a few terminals, and scripts come and go.
const MAX_CONNECTIONS: usize = 512;
/// How many more are answered with a refusal. Further ones are closed without an answer.
const MAX_TURNED_AWAY: usize = 64;
/// How long a client may take to say hello. It is local, and does so before anything else.
const HELLO_LIMIT: Duration = Duration::from_secs(10);
/// How often it is looked whether the socket is still where clients look for it.
const SOCKET_CHECK_PERIOD: Duration = Duration::from_secs(10);
/// How long to wait after an error of `accept` that stays for a while. There is no descriptor to wait on for a free one.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The socket of the gateway.
pub(crate) struct Listener {
    listener: UnixListener,
    path: PathBuf,
    file: (u64, u64),
}

impl Listener {
    /// Listens in the directory that the engine chose, in place of an earlier gateway. The caller holds the lock.
    pub(crate) fn open(home: &Path) -> io::Result<Self> {
        let dir = home.join(std::fs::read_link(home.join("run"))?);
        let path = dir.join("gateway");
        let new = path.with_extension(std::process::id().to_string());
        match std::fs::remove_file(&new) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            Ok(()) | Err(_) => {}
        }
        let listener = UnixListener::bind(&new)?;
        std::fs::rename(&new, &path)?;
        let file = identity(&path)?;
        Ok(Self { listener, path, file })
    }

    fn is_there(&self, home: &Path) -> bool {
        let is_same_dir = std::fs::read_link(home.join("run")).is_ok_and(|dir| home.join(dir).join("gateway") == self.path);
        is_same_dir && identity(&self.path).ok() == Some(self.file)
    }

    fn close(&self) {
        if identity(&self.path).ok() == Some(self.file) {
            // Gone meanwhile: that is what was wanted.
            let _gone = std::fs::remove_file(&self.path);
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.close();
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = std::fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// Accepts clients until the gateway is closing. Connected ones stay until this is dropped.
pub(crate) async fn listen(mut listener: Listener, home: PathBuf, gateway: Gateway, mut closing: tokio::sync::watch::Receiver<bool>) {
    let home = Arc::new(home);
    let (mut connections, mut turned_away) = (JoinSet::new(), JoinSet::new());
    loop {
        tokio::select! {
            () = closed(&mut closing) => break,
            accepted = listener.listener.accept() => match accepted {
                Ok((stream, _)) => match user_of(&stream) {
                    Some(user) if connections.len() < MAX_CONNECTIONS => greet(stream, user, &home, &gateway, &mut connections),
                    Some(_) if turned_away.len() < MAX_TURNED_AWAY => _ = turned_away.spawn(turn_away(stream)),
                    Some(_) | None => {}
                },
                Err(error) => {
                    tracing::error!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            Some(_) = turned_away.join_next(), if !turned_away.is_empty() => {}
            // There is no descriptor that reports the move of a directory above.
            () = tokio::time::sleep(SOCKET_CHECK_PERIOD) => {
                if !listener.is_there(&home) {
                    tracing::warn!(path = %listener.path.display(), "the socket is gone");
                    match Listener::open(&home) {
                        Ok(opened) => listener = opened,
                        Err(error) => tracing::error!(%error, "no client can connect"),
                    }
                }
            }
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
    // Dropped from outside, with the end of the program.
    std::future::pending::<()>().await;
}

async fn closed(closing: &mut tokio::sync::watch::Receiver<bool>) {
    // A sender that is gone means the same.
    drop(closing.wait_for(|is_closing| *is_closing).await);
}

/// The user at the other end, if it is one who may speak. Other users cannot reach the socket; this is the second check.
fn user_of(stream: &UnixStream) -> Option<UserId> {
    match stream.peer_cred().map(|peer| UserId(peer.uid())) {
        Ok(user) if user.may_speak(UserId::own()) => Some(user),
        Ok(stranger) => {
            tracing::warn!(uid = stranger.0, "a stranger was turned away");
            None
        }
        Err(error) => {
            tracing::warn!(%error, "the peer of a connection is unknown");
            None
        }
    }
}

fn greet(stream: UnixStream, user: UserId, home: &Arc<PathBuf>, gateway: &Gateway, connections: &mut JoinSet<()>) {
    let (home, gateway) = (home.clone(), gateway.clone());
    connections.spawn(async move {
        if let Err(error) = connection(stream, user, &home, gateway).await {
            tracing::debug!(%error, "a connection ended");
        }
    });
}

/// Refuses a client for which there is no room. If it sends no hello, it gets no answer.
async fn turn_away(stream: UnixStream) -> io::Result<()> {
    tracing::warn!(MAX_CONNECTIONS, "a client was turned away, because too many are connected");
    let (mut from, mut to) = socket::halves(stream.into_std()?)?;
    let mut frames = Splitter::default();
    let hello = async {
        loop {
            match frames.next_frame().map_err(io::Error::other)? {
                Some(Frame::Json(text)) => return serde_json::from_slice::<ChatMessage>(&text).map_err(io::Error::other),
                Some(Frame::Raw { .. }) => return Err(io::Error::other("bytes that no request announced")),
                None if socket::take(&mut from, &mut frames).await? == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                None => {}
            }
        }
    };
    let message = tokio::time::timeout(HELLO_LIMIT, hello).await??;
    let what = format!("{MAX_CONNECTIONS} clients are connected to the gateway, and there is no room for more");
    let error = Error::new(
        ErrorKind::Unavailable,
        code::UNAVAILABLE,
        what,
        "close some of them; `outlast chat` in many terminals is enough for it",
    );
    let answer = frame::json(&ChatReply::<Value>::error(message.id, error));
    tokio::time::timeout(HELLO_LIMIT, to.write_all(&answer)).await?
}

async fn connection(stream: UnixStream, user: UserId, home: &Path, gateway: Gateway) -> io::Result<()> {
    let (mut from, mut to) = socket::halves(stream.into_std()?)?;
    let (out, mut outgoing) = mpsc::channel::<Vec<u8>>(MAX_OUTGOING);
    let mut talk = Talk { user, home, gateway, out, tasks: JoinSet::new(), under_way: HashMap::new(), is_greeted: false };
    let reading = async {
        let mut frames = Splitter::default();
        let hello_by = tokio::time::Instant::now() + HELLO_LIMIT;
        loop {
            while let Some(frame) = frames.next_frame().map_err(io::Error::other)? {
                talk.on_frame(frame).await?;
            }
            tokio::select! {
                taken = socket::take(&mut from, &mut frames), if talk.tasks.len() < MAX_UNDER_WAY => {
                    if taken? == 0 {
                        return io::Result::Ok(());
                    }
                }
                Some(_) = talk.tasks.join_next(), if !talk.tasks.is_empty() => {}
                () = tokio::time::sleep_until(hello_by), if !talk.is_greeted => return Err(io::Error::other("no hello in time")),
            }
        }
    };
    let writing = async {
        while let Some(frame) = outgoing.recv().await {
            to.write_all(&frame).await?;
        }
        io::Result::Ok(())
    };
    tokio::select! {
        read = reading => read,
        written = writing => written,
    }
}

struct Talk<'a> {
    user: UserId,
    home: &'a Path,
    gateway: Gateway,
    out: mpsc::Sender<Vec<u8>>,
    tasks: JoinSet<()>,
    under_way: HashMap<u64, AbortHandle>,
    is_greeted: bool,
}

impl Talk<'_> {
    async fn on_frame(&mut self, frame: Frame) -> io::Result<()> {
        let Frame::Json(text) = frame else { return Err(io::Error::other("bytes that no request announced")) };
        match serde_json::from_slice::<ChatMessage>(&text) {
            Ok(message) if self.is_greeted => self.on_message(message).await,
            Ok(message) => self.on_hello(message).await,
            Err(error) => self.on_nonsense(&text, &error).await,
        }
    }

    async fn on_hello(&mut self, message: ChatMessage) -> io::Result<()> {
        let ChatRequest::Hello { version, client, .. } = message.request else {
            refuse(&self.out, message.id, refusal(code::BAD_REQUEST, "the first message must be a hello", "")).await;
            return Err(io::Error::other("no hello"));
        };
        if version < OLDEST {
            let what = format!("version {version} is too old: this gateway speaks {OLDEST} to {VERSION}");
            let hint = "use programs of the same release, or restart the gateway: `outlast gateway restart`";
            refuse(&self.out, message.id, refusal(code::BAD_VERSION, what, hint)).await;
            return Err(io::Error::other("no common version"));
        }
        tracing::debug!(client, version, "hello");
        self.is_greeted = true;
        let hello = Hello {
            version: version.min(VERSION),
            program: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            home: Some(self.home.into()),
        };
        // A client that has left needs no answer.
        let _left = self.out.send(frame::json(&ChatReply::answer(message.id, hello))).await;
        Ok(())
    }

    async fn on_nonsense(&self, text: &[u8], error: &serde_json::Error) -> io::Result<()> {
        #[derive(serde::Deserialize)]
        struct Number {
            id: u64,
        }
        let Ok(Number { id }) = serde_json::from_slice(text) else { return Err(io::Error::other(error.to_string())) };
        // The text is not shown: it may hold a person's words.
        let what = format!("the message was not understood at column {}", error.column());
        refuse(&self.out, id, refusal(code::BAD_REQUEST, what, "client and gateway may be of different releases")).await;
        Ok(())
    }

    /// Passes a request on. The coordinator gets the requests of a connection in their order.
    async fn on_message(&mut self, message: ChatMessage) -> io::Result<()> {
        let (id, out) = (message.id, self.out.clone());
        let by = Asker { user: self.user, session: message.session };
        let task = match message.request {
            ChatRequest::Hello { .. } => {
                refuse(&out, id, refusal(code::BAD_REQUEST, "hello was said before", "")).await;
                return Ok(());
            }
            ChatRequest::Cancel { of } => {
                if let Some(task) = self.under_way.remove(&of) {
                    task.abort();
                }
                return Ok(());
            }
            ChatRequest::Follow { key, after, context, is_attended } => {
                let (to, followed) = tokio::sync::oneshot::channel();
                let asked = FollowAsked { key: key.clone(), after, context, is_attended };
                let is_sent = self.gateway.inputs.send(Input::Follow { asked, by, to }).await.is_ok();
                let gateway = self.gateway.clone();
                self.tasks.spawn(async move {
                    let followed = if is_sent { followed.await.unwrap_or_else(|_| Err(ending())) } else { Err(ending()) };
                    let error = match followed {
                        Ok(followed) => follow(&gateway, &out, id, key, followed).await,
                        Err(error) => Some(error),
                    };
                    if let Some(error) = error {
                        refuse(&out, id, error).await;
                    }
                })
            }
            request => {
                if let ChatRequest::Send { key, .. } = &request {
                    tracing::debug!(key, "a message has come");
                }
                let (to, answered) = tokio::sync::oneshot::channel();
                let is_sent = self.gateway.inputs.send(Input::Ask { request, by, to }).await.is_ok();
                self.tasks.spawn(async move {
                    let answer: Result<ChatAnswer, Error> =
                        if is_sent { answered.await.unwrap_or_else(|_| Err(ending())) } else { Err(ending()) };
                    match answer {
                        Ok(answer) => _ = out.send(answer_frame(id, answer)).await,
                        Err(error) => refuse(&out, id, error).await,
                    }
                })
            }
        };
        self.under_way.retain(|_, task| !task.is_finished());
        self.under_way.insert(id, task);
        Ok(())
    }
}

/// The frame of an answer. One that no client would read is refused instead, so that the connection stays of use.
fn answer_frame(id: u64, answer: ChatAnswer) -> Vec<u8> {
    let frame = frame::json(&ChatReply::answer(id, answer));
    if frame.len() <= frame::MAX {
        return frame;
    }
    let what = format!("the answer has {} bytes, and a message may have {}", frame.len(), frame::MAX);
    frame::json(&ChatReply::<Value>::error(id, refusal(code::FAULT, what, "ask for less at once")))
}

/// The frame of an event. A part that no client would read is shown as one of an unknown kind: its number is a cursor, so it must not be missing.
fn event_frame(id: u64, event: ChatEvent) -> Vec<u8> {
    let reply = ChatReply::<Value>::event(id, event);
    let frame = frame::json(&reply);
    match reply.event {
        Some(ChatEvent::Part { part }) if frame.len() > frame::MAX => {
            let unknown = Part::new(part.id, part.turn, part.attempt, &Content::Unknown, part.at);
            frame::json(&ChatReply::<Value>::event(id, ChatEvent::Part { part: Box::new(unknown) }))
        }
        _ => frame,
    }
}

async fn refuse(out: &mpsc::Sender<Vec<u8>>, of: u64, error: Error) {
    // A client that has left needs no answer.
    let _left = out.send(frame::json(&ChatReply::<Value>::error(of, error))).await;
}

/// Sends what there is and then what happens. Returns why it ends, if the client is still there.
async fn follow(gateway: &Gateway, out: &mpsc::Sender<Vec<u8>>, id: u64, key: String, followed: Followed) -> Option<Error> {
    let Followed { follower, mut after, last_part, open, mut events } = followed;
    let _leaving = Leaving { gateway: gateway.clone(), follower };
    let send = async |event: ChatEvent| out.send(event_frame(id, event)).await.is_ok();
    let upto = last_part.unwrap_or(0);
    while after < upto {
        let (to, page) = tokio::sync::oneshot::channel();
        let asked = Input::Parts { key: key.clone(), after, upto, to };
        if gateway.inputs.send(asked).await.is_err() {
            return Some(ending());
        }
        let parts = match page.await {
            Ok(Ok(parts)) => parts,
            Ok(Err(error)) => return Some(error),
            Err(_) => return Some(ending()),
        };
        let Some(last) = parts.last().map(|part| part.id) else { break };
        after = last;
        for part in parts {
            if !send(ChatEvent::Part { part: Box::new(part) }).await {
                return None;
            }
        }
    }
    for turn in open {
        if !send(ChatEvent::Turn { turn: Box::new(turn) }).await {
            return None;
        }
    }
    if !send(ChatEvent::CaughtUp { last_part }).await {
        return None;
    }
    while let Some(WaitingEvent { event, room }) = events.recv().await {
        let is_end = matches!(&event, ChatEvent::Turn { turn } if turn.is_finished());
        let is_sent = send(event).await;
        drop(room);
        if !is_sent {
            return None;
        }
        if is_end {
            tracing::debug!(key, "the end of a turn is shown");
        }
    }
    if gateway.inputs.is_closed() {
        return Some(ending());
    }
    let what = "this reader did not keep up with the conversation, and events were left out";
    Some(Error::new(ErrorKind::Unavailable, code::TOO_SLOW, what, "follow again behind the last part that came"))
}

/// Tells the coordinator that a follower has left, however its task ends.
struct Leaving {
    gateway: Gateway,
    follower: u64,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let (inputs, follower) = (self.gateway.inputs.clone(), self.follower);
        if inputs.try_send(Input::Left { follower }).is_err() && tokio::runtime::Handle::try_current().is_ok() {
            // A gateway that has ended has no followers.
            tokio::spawn(async move { drop(inputs.send(Input::Left { follower }).await) });
        }
    }
}
