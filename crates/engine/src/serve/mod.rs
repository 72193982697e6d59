//! One connection of a client, and one file for each verb.

mod active;
mod adopt;
mod attach;
mod chosen;
mod clean;
mod close;
mod context;
mod deliveries;
mod dispatch;
mod end_conversation;
mod engine_status;
mod engine_stop;
mod gateway;
mod kill;
mod list;
mod log;
mod notice;
mod out;
mod pending_answer;
mod poll;
mod read;
mod relay;
mod remove;
mod rerun;
mod resize;
mod restart;
mod run;
mod signal;
mod until;
mod view;
mod wait;
mod write;

use crate::clients::{Client, ClientKind};
use crate::closing::Closing;
use crate::instances::Asker;
use crate::parts::Parts;
use crate::points::point;
use crate::refuse;
use context::{Input, RequestContext};
use out::{Out, Outgoing, send_all};
use outlast_core::{Instance, Owner};
use outlast_wire::frame::{Frame, Splitter};
use outlast_wire::socket;
use outlast_wire::v1::{Error, Hello, Message, Namespaces, Request};
use outlast_wire::{OLDEST, VERSION, code};
use relay::Relays;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::{AbortHandle, JoinSet};

/// How many requests of one connection may be in progress.
const UNDER_WAY: usize = 1_024;
/// How many frames may wait to be sent. A task with more waits.
const OUTGOING: usize = 16;
/// The most that one write may bring.
const MOST_INPUT: u32 = 16 << 20;
/// The most that all writes of one connection may hold together, from their announcement to their answer.
const MOST_WAITING_INPUT: usize = 4 * MOST_INPUT as usize;

/// Serves one connection until either side ends it. `pid`: the client's, if it is connected by a socket.
pub(crate) async fn connection(
    parts: Arc<Parts>,
    (from, to): (impl AsyncRead + Unpin, impl AsyncWrite + Send + Unpin + 'static),
    kind: ClientKind,
    pid: Option<u32>,
) {
    let _connected = Client::new(&parts.clients, kind);
    let (out, outgoing) = mpsc::channel(OUTGOING);
    let mut closed = std::pin::pin!(parts.closing.reached(Closing::Closed));
    let mut connection = Connection {
        relays: Arc::new(Relays::new(Arc::clone(&parts))),
        parts,
        pid,
        out,
        tasks: JoinSet::new(),
        under_way: HashMap::new(),
        greeted: false,
        elsewhere: None,
        shares_pids: true,
        writing: None,
        room: Arc::new(Semaphore::new(MOST_WAITING_INPUT)),
    };
    // Reading and sending in one task: an answer wakes it once, and needs no other thread.
    let mut writer = std::pin::pin!(send_all(to, outgoing));
    let mut incoming = Incoming { from, frames: Splitter::default() };
    let talking = async {
        loop {
            tokio::select! {
                frame = incoming.next(), if connection.tasks.len() < UNDER_WAY => match frame? {
                    Some(frame) => connection.on_frame(frame).await?,
                    None => return Ok(()),
                },
                Some(done) = connection.tasks.join_next_with_id(), if !connection.tasks.is_empty() => connection.on_done(done).await,
                () = &mut closed => {
                    connection.refuse_the_rest().await;
                    return io::Result::Ok(());
                }
            }
        }
    };
    let ended = tokio::select! {
        biased;
        ended = talking => ended,
        // It ends when no sender is left, or the client reads no more.
        () = &mut writer => return,
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended");
    }
    // The client may have left.
    connection.tasks.shutdown().await;
    drop(connection);
    // Sends what is queued. The client may have left.
    writer.await;
}

/// The warning for a client that runs in other namespaces than the engine, if it does.
fn elsewhere(ours: &Namespaces, theirs: &Namespaces) -> Option<String> {
    let differing = ours.differing(theirs);
    if differing.is_empty() {
        return None;
    }
    let which = differing.join(" and ");
    Some(format!(
        "the engine runs in another {which} namespace than you do (another container or sandbox): the command runs there, and its files and pids are those of that \
         place; set OUTLAST_HOME to a directory that is not shared to run commands here"
    ))
}

struct Incoming<R> {
    from: R,
    frames: Splitter,
}

impl<R: AsyncRead + Unpin> Incoming<R> {
    /// The next frame. Cancel-safe: a call that is dropped half-way loses nothing.
    async fn next(&mut self) -> io::Result<Option<Frame>> {
        loop {
            if let Some(frame) = self.frames.next_frame().map_err(io::Error::other)? {
                return Ok(Some(frame));
            }
            if socket::take(&mut self.from, &mut self.frames).await? == 0 {
                return Ok(None);
            }
        }
    }
}

/// A write whose bytes are still coming.
struct UnfinishedWrite {
    message: Message,
    len: u64,
    input: Input,
}

struct Connection {
    parts: Arc<Parts>,
    /// The pid of the client, if it is connected by a socket.
    pid: Option<u32>,
    out: mpsc::Sender<Outgoing>,
    tasks: JoinSet<()>,
    under_way: HashMap<u64, AbortHandle>,
    greeted: bool,
    /// A warning for a client in other namespaces.
    elsewhere: Option<String>,
    /// Whether the client's pids are those of the engine.
    shares_pids: bool,
    writing: Option<UnfinishedWrite>,
    /// A permit for each byte that unanswered writes may hold.
    room: Arc<Semaphore>,
    /// Answers that this connection forwards.
    relays: Arc<Relays>,
}

impl Connection {
    async fn on_frame(&mut self, frame: Frame) -> io::Result<()> {
        match frame {
            Frame::Json(text) => match serde_json::from_slice::<Message>(&text) {
                Ok(message) if self.greeted => self.on_message(message).await,
                Ok(message) => self.on_hello(message).await,
                Err(error) => self.on_nonsense(&text, &error).await,
            },
            Frame::Raw { of, bytes } => {
                self.on_bytes(of, &bytes).await;
                Ok(())
            }
        }
    }

    async fn on_hello(&mut self, message: Message) -> io::Result<()> {
        let out = self.out_for(message.id);
        let Request::Hello { version, client, namespaces } = message.request else {
            out.error(refuse::refusal(code::BAD_REQUEST, "the first message must be a hello", "")).await;
            return Err(io::Error::other("no hello"));
        };
        if version < OLDEST {
            let what = format!("version {version} is too old: this engine speaks {OLDEST} to {VERSION}");
            out.error(refuse::refusal(
                code::BAD_VERSION,
                what,
                "use programs of the same release, or stop the engine: `outlast engine stop`",
            ))
            .await;
            return Err(io::Error::other("no common version"));
        }
        tracing::debug!(client, version, "hello");
        self.greeted = true;
        self.shares_pids = namespaces.as_ref().is_none_or(|theirs| self.parts.at_start.namespaces.shares_pids(theirs));
        self.elsewhere = namespaces.and_then(|theirs| elsewhere(&self.parts.at_start.namespaces, &theirs));
        out.answer(Hello {
            version: version.min(VERSION),
            program: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            home: Some(self.parts.home.root.as_path().into()),
        })
        .await;
        Ok(())
    }

    async fn on_message(&mut self, message: Message) -> io::Result<()> {
        match &message.request {
            Request::Cancel { of } => {
                if let Some(task) = self.under_way.remove(of) {
                    task.abort();
                }
                self.relays.let_go(*of).await;
                point!("answer.cancelled");
                // Bytes of it that still come are dropped.
                let _cancelled = self.writing.take_if(|w| w.message.id == *of);
            }
            Request::Write { len, .. } => match self.room_for(*len) {
                Ok(room) => {
                    let len = *len;
                    self.writing = Some(UnfinishedWrite { message, len, input: Input { bytes: Vec::new(), _room: Some(room) } });
                    self.start_if_whole();
                }
                // The bytes that follow are dropped.
                Err(error) => self.out_for(message.id).error(error).await,
            },
            _ => self.start(message, Input::default()),
        }
        Ok(())
    }

    /// Room for a write of this length, or why it cannot begin now. Requests in progress are not affected.
    fn room_for(&self, len: u64) -> Result<OwnedSemaphorePermit, Error> {
        let bytes = u32::try_from(len).ok().filter(|n| *n <= MOST_INPUT).ok_or_else(|| {
            let what = format!("{len} bytes are more than the {MOST_INPUT} that one write may bring");
            refuse::refusal(code::BAD_REQUEST, what, "write in several pieces, each at its offset")
        })?;
        if let Some(first) = &self.writing {
            let (id, came, of) = (first.message.id, first.input.bytes.len(), first.len);
            let what = format!("a write began before the one of message {id} was complete: {came} of its {of} bytes have come");
            return Err(refuse::refusal(code::BAD_REQUEST, what, "send all bytes of a write before the next one, or cancel it"));
        }
        self.room.clone().try_acquire_many_owned(bytes).map_err(|_| {
            let what = format!("the writes of this connection that wait for their turn hold {MOST_WAITING_INPUT} bytes, which is the most");
            refuse::unavailable(what, "ask again when one of them was answered")
        })
    }

    async fn on_bytes(&mut self, of: u64, bytes: &[u8]) {
        let Some(writing) = self.writing.as_mut().filter(|w| w.message.id == of) else {
            // The rest of a write that was refused.
            return;
        };
        if writing.input.bytes.len() as u64 + bytes.len() as u64 > writing.len {
            self.writing = None;
            self.out_for(of).error(refuse::refusal(code::BAD_REQUEST, "more bytes came than the write said", "")).await;
            return;
        }
        writing.input.bytes.extend_from_slice(bytes);
        self.start_if_whole();
    }

    fn start_if_whole(&mut self) {
        if let Some(UnfinishedWrite { message, input, .. }) = self.writing.take_if(|w| w.input.bytes.len() as u64 == w.len) {
            self.start(message, input);
        }
    }

    async fn on_nonsense(&self, text: &[u8], error: &serde_json::Error) -> io::Result<()> {
        #[derive(serde::Deserialize)]
        struct Number {
            id: u64,
        }
        let Ok(Number { id }) = serde_json::from_slice(text) else { return Err(io::Error::other(error.to_string())) };
        // The text is not shown: it may hold an environment.
        let what = format!("the message was not understood at column {}", error.column());
        self.out_for(id)
            .error(refuse::refusal(code::BAD_REQUEST, what, "client and engine may be of different releases: `outlast engine stop`"))
            .await;
        Ok(())
    }

    fn start(&mut self, message: Message, input: Input) {
        let asked = RequestContext {
            parts: Arc::clone(&self.parts),
            asker: self.asker_of(message.instance, &message.owner),
            force: message.force,
            owner: message.owner,
            pid: self.pid,
            relays: self.relays.clone(),
            relay: message.relay,
            elsewhere: self.elsewhere.clone(),
            out: self.out_for(message.id),
        };
        let id = message.id;
        let task = self.tasks.spawn(async move { asked.serve(message.request, input).await });
        self.under_way.insert(id, task);
    }

    /// The conversation that asks. Pids of another namespace mean nothing here, so clients there are not told apart.
    fn asker_of(&self, instance: Option<Box<Instance>>, owner: &Owner) -> Option<Asker> {
        let session = owner.session.as_deref().filter(|_| self.shares_pids)?;
        instance.filter(|instance| instance.is_valid()).map(|instance| Asker::new(&self.parts.instances, session, *instance))
    }

    async fn on_done(&mut self, done: Result<(tokio::task::Id, ()), tokio::task::JoinError>) {
        let (task, panicked) = match &done {
            Ok((task, ())) => (*task, false),
            Err(error) => (error.id(), error.is_panic()),
        };
        let Some(id) = self.under_way.iter().find(|(_, t)| t.id() == task).map(|(id, _)| *id) else { return };
        self.under_way.remove(&id);
        if panicked {
            self.out_for(id).error(refuse::fault("a request ended in a panic")).await;
        }
    }

    async fn refuse_the_rest(&mut self) {
        let parts = &self.parts;
        let why = if parts.own_home.is_lost() { refuse::home_gone(&parts.home.root) } else { refuse::stopping() };
        for (id, task) in std::mem::take(&mut self.under_way) {
            if !task.is_finished() {
                task.abort();
                self.out_for(id).error(why.clone()).await;
            }
        }
    }

    fn out_for(&self, of: u64) -> Out {
        Out { to: self.out.clone(), of }
    }
}
