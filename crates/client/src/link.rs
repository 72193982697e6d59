//! One connection, shared by many requests.
//!
//! A reader task passes each answer to its request; a writer task sends. A request whose future is dropped is cancelled.

use crate::ClientError;
use crate::error::refusal;
use crate::peer::{EngineTalk, GatewayTalk, Peer, Talk};
use outlast_core::{Instance, Owner};
use outlast_wire::frame::{self, Frame, Splitter};
use outlast_wire::v1::chat::{ChatMessage, ChatRequest};
use outlast_wire::v1::{self, Event, Message, Request};
use outlast_wire::{OLDEST, VERSION, code};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot, watch};

/// How long a peer may take for its hello: it is local, and sends the hello first.
const HELLO_LIMIT: Duration = Duration::from_secs(30);
/// How many messages may wait to be sent, and how many frames of a stream may wait to be read.
const QUEUE: usize = 16;

/// Why a connection has ended.
#[derive(Debug, Clone)]
pub(crate) enum Cut {
    /// The peer closed it.
    Gone(String),
    /// The peer violated the protocol.
    ProtocolError(String),
}

/// Why a request has no answer.
#[derive(Debug)]
pub(crate) enum CallError {
    Refused(v1::Error),
    Cut(Cut),
    /// The answer cannot be read. The connection can still be used.
    Unreadable {
        /// What is wrong with it.
        what: String,
        /// The text of the answer, if there is one.
        answer: Option<Box<RawValue>>,
    },
    /// It was not sent.
    Unsent(ClientError),
}

/// The next message of a stream.
#[derive(Debug)]
pub(crate) enum StreamItem<E = Event> {
    Event(E),
    Raw(Vec<u8>),
    End(Box<RawValue>),
    Failed(CallError),
}

/// For whom requests are made.
#[derive(Debug, Clone, Default)]
pub(crate) struct Speaker {
    pub(crate) owner: Owner,
    /// Which of the conversations of the owner's session.
    pub(crate) instance: Option<Box<Instance>>,
    /// Whether a request may change a process of another one.
    pub(crate) force: bool,
}

/// Where the reply to a request goes.
enum PendingReply<E> {
    Answer(oneshot::Sender<Result<Box<RawValue>, CallError>>),
    Stream(mpsc::Sender<StreamItem<E>>),
}

/// The requests of a connection that have no answer yet.
struct Waiting<E> {
    next: u64,
    by_id: HashMap<u64, PendingReply<E>>,
    over: Option<Cut>,
}

struct Shared<T: Talk> {
    waiting: Mutex<Waiting<T::Event>>,
    closed: watch::Sender<bool>,
}

/// A connection to an engine or a gateway that has said hello.
pub(crate) struct Link<T: Talk = EngineTalk> {
    shared: Arc<Shared<T>>,
    out: mpsc::Sender<Vec<u8>>,
    // Limited by the number of requests: each is cancelled or given up at most once.
    cancels: mpsc::UnboundedSender<u64>,
    reader: tokio::task::AbortHandle,
    born: Instant,
    home: Option<PathBuf>,
}

impl<T: Talk> Drop for Link<T> {
    fn drop(&mut self) {
        // The writer ends by itself when its queue is dropped, after it has sent everything in it.
        self.reader.abort();
    }
}

impl<T: Talk> Link<T> {
    /// Exchanges hellos over a connection.
    pub(crate) async fn open<R, W>(read: R, write: W) -> Result<Self, CallError>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let shared = Arc::new(Shared::<T> {
            waiting: Mutex::new(Waiting { next: 1, by_id: HashMap::new(), over: None }),
            closed: watch::Sender::new(false),
        });
        let (out, queue) = mpsc::channel(QUEUE);
        let (cancels, cancelled) = mpsc::unbounded_channel();
        let reader = tokio::spawn(receive(read, shared.clone())).abort_handle();
        tokio::spawn(send(write, queue, cancelled, shared.clone()));
        let mut link = Self { shared, out, cancels, reader, born: Instant::now(), home: None };
        link.home = link.hello().await?.home.map(|h| h.as_path().to_owned());
        Ok(link)
    }

    async fn hello(&self) -> Result<v1::Hello, CallError> {
        let peer = T::PEER;
        let Ok(answer) = tokio::time::timeout(HELLO_LIMIT, self.numbered_call(T::hello, &[])).await else {
            return Err(CallError::Unsent(ClientError::Unavailable {
                error: format!("the {peer} took the connection and said nothing for {} s", HELLO_LIMIT.as_secs()),
                hint: peer.stuck_hint().into(),
            }));
        };
        let hello: v1::Hello = read(&answer?.1).map_err(|e| CallError::Cut(Cut::ProtocolError(format!("its hello: {e}"))))?;
        if !(OLDEST..=VERSION).contains(&hello.version) {
            return Err(CallError::Unsent(refusal(
                code::BAD_VERSION,
                format!(
                    "the {peer} (pid {}, {}) speaks version {} of the wire, not {OLDEST} to {VERSION}",
                    hello.pid, hello.program, hello.version
                ),
                peer.version_hint(),
            )));
        }
        Ok(hello)
    }

    /// The home that the peer serves, if it says so.
    pub(crate) fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// Sends a frame that is made for the request's number, and waits for the answer. `raw` follows the request in raw frames.
    async fn numbered_call(&self, frame: impl FnOnce(u64) -> Vec<u8>, raw: &[u8]) -> Result<(u64, Box<RawValue>), CallError> {
        let (tell, told) = oneshot::channel();
        let mut ticket = self.send(frame, raw, PendingReply::Answer(tell)).await?;
        let answer = told.await;
        ticket.done = true;
        // A waiter is dropped without an answer only when the connection has ended.
        let answer = answer.unwrap_or_else(|_| Err(CallError::Cut(self.cut())))?;
        Ok((ticket.id, answer))
    }

    async fn framed_stream(self: &Arc<Self>, frame: impl FnOnce(u64) -> Vec<u8>) -> Result<Stream<T>, CallError> {
        let (tell, items) = mpsc::channel(QUEUE);
        let ticket = self.send(frame, &[], PendingReply::Stream(tell)).await?;
        Ok(Stream { items, ticket, _link: self.clone() })
    }

    /// Reports that the answer to a relayed request was not forwarded.
    pub(crate) fn not_passed_on(&self, of: u64) {
        // If the writer is gone, so are the connection and all answers on the way.
        let _gone = self.cancels.send(of);
    }

    /// Whether it can still be used.
    pub(crate) fn is_open(&self) -> bool {
        !*self.shared.closed.borrow()
    }

    /// Waits until it has ended, at most this long.
    pub(crate) async fn closed(&self, limit: Duration) -> bool {
        let mut closed = self.shared.closed.subscribe();
        tokio::time::timeout(limit, closed.wait_for(|c| *c)).await.is_ok()
    }

    /// How long it has existed.
    pub(crate) fn age(&self) -> Duration {
        self.born.elapsed()
    }

    fn cut(&self) -> Cut {
        self.shared.lock().over.clone().unwrap_or_else(|| Cut::Gone("the connection was closed".into()))
    }

    async fn send(&self, frame: impl FnOnce(u64) -> Vec<u8>, raw: &[u8], waiter: PendingReply<T::Event>) -> Result<Ticket<T>, CallError> {
        let id = {
            let mut waiting = self.shared.lock();
            if let Some(cut) = &waiting.over {
                return Err(CallError::Cut(cut.clone()));
            }
            let id = waiting.next;
            waiting.next += 1;
            waiting.by_id.insert(id, waiter);
            id
        };
        let mut ticket = Ticket { id, shared: self.shared.clone(), cancels: self.cancels.clone(), done: false };
        let mut bytes = frame(id);
        if bytes.len() - 4 > frame::MAX {
            ticket.forget();
            return Err(CallError::Unsent(refusal(
                code::BAD_REQUEST,
                format!("the request is {} bytes long, {} at most can be sent", bytes.len(), frame::MAX),
                match T::PEER {
                    Peer::Engine => "make the command or the environment smaller, for instance with `env -i`",
                    Peer::Gateway => "put a long text into a file, and say where it is",
                },
            )));
        }
        for chunk in raw.chunks(frame::RAW_CHUNK) {
            bytes.extend_from_slice(&frame::raw(id, chunk));
        }
        if self.out.send(bytes).await.is_err() {
            ticket.forget();
            return Err(CallError::Cut(self.cut()));
        }
        Ok(ticket)
    }
}

impl Link {
    /// Sends a request, and waits for the answer. `raw` follows the request in raw frames.
    pub(crate) async fn call(&self, by: &Speaker, request: Request, raw: &[u8]) -> Result<Box<RawValue>, CallError> {
        self.numbered_call(|id| message(id, by, false, request), raw).await.map(|(_, answer)| answer)
    }

    /// Sends a request whose answer is forwarded. Its number is needed to confirm or to give up the answer later.
    pub(crate) async fn relayed_call(&self, by: &Speaker, request: Request, raw: &[u8]) -> Result<(u64, Box<RawValue>), CallError> {
        self.numbered_call(|id| message(id, by, true, request), raw).await
    }

    /// Sends a request, and reads messages until the answer.
    pub(crate) async fn stream(self: &Arc<Self>, by: &Speaker, request: Request) -> Result<Stream, CallError> {
        self.framed_stream(|id| message(id, by, false, request)).await
    }
}

fn message(id: u64, by: &Speaker, relay: bool, request: Request) -> Vec<u8> {
    let Speaker { owner, instance, force } = by.clone();
    frame::json(&Message { id, owner, relay, instance, force, request })
}

impl Link<GatewayTalk> {
    /// Sends a request to the gateway, and waits for the answer.
    pub(crate) async fn ask_gateway(&self, session: Option<String>, request: ChatRequest) -> Result<Box<RawValue>, CallError> {
        self.numbered_call(|id| frame::json(&ChatMessage { id, session, request }), &[]).await.map(|(_, answer)| answer)
    }

    /// Sends a request to the gateway, and reads messages until the answer.
    pub(crate) async fn stream_gateway(
        self: &Arc<Self>,
        session: Option<String>,
        request: ChatRequest,
    ) -> Result<Stream<GatewayTalk>, CallError> {
        self.framed_stream(|id| frame::json(&ChatMessage { id, session, request })).await
    }
}

/// A request under way. Dropping it before its end cancels the request.
struct Ticket<T: Talk> {
    id: u64,
    shared: Arc<Shared<T>>,
    cancels: mpsc::UnboundedSender<u64>,
    done: bool,
}

impl<T: Talk> Ticket<T> {
    fn forget(&mut self) {
        self.done = true;
        self.shared.lock().by_id.remove(&self.id);
    }
}

impl<T: Talk> Drop for Ticket<T> {
    fn drop(&mut self) {
        if !self.done {
            self.forget();
            // If the writer is gone, so are the connection and the request.
            let _ = self.cancels.send(self.id);
        }
    }
}

/// The events and bytes of one request.
pub(crate) struct Stream<T: Talk = EngineTalk> {
    items: mpsc::Receiver<StreamItem<T::Event>>,
    ticket: Ticket<T>,
    _link: Arc<Link<T>>,
}

impl<T: Talk> Stream<T> {
    /// The next message. An end or a failure is the last one.
    pub(crate) async fn next(&mut self) -> StreamItem<T::Event> {
        let item = match self.items.recv().await {
            Some(item) => item,
            None => StreamItem::Failed(CallError::Cut(
                self.ticket.shared.lock().over.clone().unwrap_or_else(|| Cut::Gone("the connection was closed".into())),
            )),
        };
        self.ticket.done = match &item {
            // More may come. Dropping the stream cancels the request.
            StreamItem::Event(_) | StreamItem::Raw(_) | StreamItem::Failed(CallError::Unreadable { .. }) => false,
            StreamItem::End(_) | StreamItem::Failed(_) => true,
        };
        item
    }
}

/// One message of a peer, with the answer left as text.
#[derive(Deserialize)]
#[serde(bound = "E: DeserializeOwned")]
struct Incoming<E> {
    of: u64,
    #[serde(default)]
    answer: Option<Box<RawValue>>,
    #[serde(default)]
    error: Option<v1::Error>,
    #[serde(default = "Option::default")]
    event: Option<E>,
}

impl<T: Talk> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, Waiting<T::Event>> {
        // The code that holds it never panics, so it is never poisoned.
        self.waiting.lock().expect("the table of requests is whole")
    }

    fn end(&self, cut: Cut) {
        let waiters = {
            let mut waiting = self.lock();
            waiting.over.get_or_insert(cut);
            std::mem::take(&mut waiting.by_id)
        };
        // Dropping them wakes the requests, which then read the reason.
        drop(waiters);
        self.closed.send_replace(true);
    }

    async fn on_frame(&self, frame: Frame) -> Result<(), Cut> {
        match frame {
            Frame::Raw { of, bytes } => self.to_stream(of, StreamItem::Raw(bytes)).await,
            Frame::Json(text) => {
                let reply: Incoming<T::Event> = match serde_json::from_slice(&text) {
                    Ok(reply) => reply,
                    Err(e) => return self.unreadable(&text, format!("a reply: {e}")).await,
                };
                match reply {
                    Incoming { of, error: Some(error), .. } => self.finish(of, Err(CallError::Refused(error))).await,
                    Incoming { of, event: Some(event), .. } => self.to_stream(of, StreamItem::Event(event)).await,
                    Incoming { of, answer, .. } => self.finish(of, Ok(answer.unwrap_or_else(|| RawValue::NULL.to_owned()))).await,
                }
            }
        }
        Ok(())
    }

    /// A reply that cannot be read, for instance because it is nested too deeply. If its request is known, only that one fails.
    async fn unreadable(&self, text: &[u8], what: String) -> Result<(), Cut> {
        /// Fields that are skipped may be nested to any depth.
        #[derive(Deserialize)]
        struct Whose {
            of: u64,
            #[serde(default)]
            answer: Option<Box<RawValue>>,
        }
        let Ok(Whose { of, answer }) = serde_json::from_slice(text) else { return Err(Cut::ProtocolError(what)) };
        self.finish(of, Err(CallError::Unreadable { what, answer })).await;
        Ok(())
    }

    async fn finish(&self, of: u64, answer: Result<Box<RawValue>, CallError>) {
        let waiter = self.lock().by_id.remove(&of);
        match waiter {
            // The request may have been cancelled; then its answer is dropped.
            Some(PendingReply::Answer(tell)) => drop(tell.send(answer)),
            Some(PendingReply::Stream(tell)) => drop(tell.send(answer.map_or_else(StreamItem::Failed, StreamItem::End)).await),
            // The request was cancelled, and the answer crossed the cancellation.
            None => {}
        }
    }

    async fn to_stream(&self, of: u64, item: StreamItem<T::Event>) {
        let tell = match self.lock().by_id.get(&of) {
            Some(PendingReply::Stream(tell)) => tell.clone(),
            // Cancelled, or an event before an answer whose request does not read events.
            Some(PendingReply::Answer(_)) | None => return,
        };
        // A reader that was dropped has cancelled its request already.
        let _ = tell.send(item).await;
    }
}

/// Reads an answer, or a part of one. A duplicate field counts once: such an answer is read as a value first.
pub(crate) fn read<T: DeserializeOwned>(text: &RawValue) -> serde_json::Result<T> {
    serde_json::from_str(text.get()).or_else(|_| serde_json::from_str::<Value>(text.get()).and_then(serde_json::from_value))
}

/// Reads the answer of an engine, or reports a violation of the protocol.
pub(crate) fn decode<T: DeserializeOwned>(answer: &RawValue) -> Result<T, ClientError> {
    read(answer).map_err(ClientError::protocol)
}

async fn receive<T: Talk>(mut read: impl AsyncRead + Unpin, shared: Arc<Shared<T>>) {
    let mut splitter = Splitter::default();
    let mut buffer = vec![0; 64 << 10];
    let cut = loop {
        match read.read(&mut buffer).await {
            Ok(0) => break Cut::Gone(format!("the {} closed the connection", T::PEER)),
            Ok(n) => splitter.push(&buffer[..n]),
            Err(e) => break Cut::Gone(format!("the connection broke: {e}")),
        }
        if let Err(cut) = deliver(&mut splitter, &shared).await {
            break cut;
        }
    };
    shared.end(cut);
}

async fn deliver<T: Talk>(splitter: &mut Splitter, shared: &Shared<T>) -> Result<(), Cut> {
    while let Some(frame) = splitter.next_frame().map_err(|e| Cut::ProtocolError(e.to_string()))? {
        shared.on_frame(frame).await?;
    }
    Ok(())
}

/// What to send next.
enum Next {
    Message(Vec<u8>),
    Cancellation(u64),
}

/// Messages first, so that no cancellation overtakes its request. None once no more requests can come.
fn next(cx: &mut Context<'_>, queue: &mut mpsc::Receiver<Vec<u8>>, cancelled: &mut mpsc::UnboundedReceiver<u64>) -> Poll<Option<Next>> {
    if let Poll::Ready(message) = queue.poll_recv(cx) {
        return Poll::Ready(message.map(Next::Message));
    }
    match cancelled.poll_recv(cx) {
        Poll::Ready(Some(of)) => Poll::Ready(Some(Next::Cancellation(of))),
        Poll::Ready(None) | Poll::Pending => Poll::Pending,
    }
}

async fn send<T: Talk>(
    mut write: impl AsyncWrite + Unpin,
    mut queue: mpsc::Receiver<Vec<u8>>,
    mut cancelled: mpsc::UnboundedReceiver<u64>,
    shared: Arc<Shared<T>>,
) {
    loop {
        let bytes = match poll_fn(|cx| next(cx, &mut queue, &mut cancelled)).await {
            Some(Next::Message(bytes)) => bytes,
            Some(Next::Cancellation(of)) => shared.cancellation(of),
            None => break,
        };
        if let Err(e) = write.write_all(&bytes).await {
            shared.end(Cut::Gone(format!("the connection broke: {e}")));
            return;
        }
    }
    // The peer may have closed it already.
    let _ = write.shutdown().await;
}

impl<T: Talk> Shared<T> {
    fn cancellation(&self, of: u64) -> Vec<u8> {
        let id = {
            let mut waiting = self.lock();
            waiting.next += 1;
            waiting.next - 1
        };
        T::cancellation(id, of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_comes_twice_counts_once() {
        let text = r#"{"version":1,"program":"0","version":2,"pid":3}"#;
        let hello: v1::Hello = read(&RawValue::from_string(text.to_owned()).unwrap()).unwrap();
        assert_eq!(hello.version, 2);
    }
}
