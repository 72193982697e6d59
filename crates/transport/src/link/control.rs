//! Connections of the engine to the socket of a process. Most requests pass through to the keeper in the sandbox as they are; those about
//! what is here are answered here.

use super::{Link, LinkInput, Numbered, StreamPhase};
use crate::TransportError;
use outlast_core::ProcessId;
use outlast_store::meta::flag;
use outlast_wire::frame::{self, Frame, Splitter};
use outlast_wire::v1::keeper::{FromKeeper, KeeperReply, KeeperRequest, ToKeeper};
use outlast_wire::v1::sandbox::{CHANNEL_WINDOW, SandboxRequest};
use outlast_wire::{OLDEST, VERSION, code, socket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;

/// The number of the link's own hello to a keeper.
const OWN_HELLO: u64 = u64::MAX;
/// How many bytes of one connection may be on their way to the keeper. Its next frame is read when there is room.
const WINDOW: usize = CHANNEL_WINDOW as usize;

/// Numbers of connections.
static LAST: AtomicU64 = AtomicU64::new(0);

/// What happens on a connection.
#[derive(Debug)]
pub(super) enum ControlInput {
    /// It was made, and takes frames here. The permits are given back as the keeper takes bytes.
    Made(u64, ProcessId, mpsc::UnboundedSender<Vec<u8>>, Arc<Semaphore>),
    /// A frame came, with the number of permits that it took.
    Came(u64, Frame, usize),
    /// It is closed.
    Closed(u64),
}

/// A connection.
#[derive(Debug)]
pub(super) struct ControlConn {
    pub(super) process: ProcessId,
    to: mpsc::UnboundedSender<Vec<u8>>,
    permits: Arc<Semaphore>,
    pub(super) is_listener: bool,
    /// Its channel on the current stream.
    pub(super) channel: Option<u64>,
    /// What came from the keeper on it.
    split: Splitter,
    /// Bytes of the link's own that the keeper will report as taken.
    own: u64,
    /// Frames that wait for a stream.
    waiting: Vec<Vec<u8>>,
    /// Requests to bring the folder up to date that wait for a stream.
    catch_ups: Vec<u64>,
    /// Requests for output past a length.
    awaits: Vec<(u64, u64)>,
}

impl ControlConn {
    /// Sends a message. A connection that was closed meanwhile is forgotten soon.
    pub(super) fn say(&self, of: Option<u64>, say: KeeperReply) {
        let _closed = self.to.send(frame::json(&FromKeeper { of, say }));
    }

    /// Whether something waits for a stream.
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty() || !self.catch_ups.is_empty()
    }

    fn refuse(&self, of: u64, code: &str, error: impl Into<String>) {
        self.say(Some(of), KeeperReply::Refused { code: code.to_owned(), error: error.into() });
    }
}

/// Listens at the socket of a process, until the task is aborted.
pub(super) fn listen(listener: UnixListener, process: ProcessId, inbox: mpsc::Sender<LinkInput>) -> JoinHandle<()> {
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let is_ours = stream.peer_cred().is_ok_and(|peer| peer.uid() == 0 || peer.uid() == rustix::process::geteuid().as_raw());
            if is_ours {
                tokio::spawn(serve_conn(stream, process, inbox.clone()));
            }
        }
    })
}

async fn serve_conn(stream: UnixStream, process: ProcessId, inbox: mpsc::Sender<LinkInput>) {
    let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    let Ok((mut from, mut to)) = stream.into_std().and_then(socket::halves) else { return };
    let (out, mut frames) = mpsc::unbounded_channel::<Vec<u8>>();
    let permits = Arc::new(Semaphore::new(WINDOW));
    if inbox.send(LinkInput::Control(ControlInput::Made(number, process, out, Arc::clone(&permits)))).await.is_err() {
        return;
    }
    let read = async {
        let mut split = Splitter::default();
        loop {
            while let Ok(Some(frame)) = split.next_frame() {
                let size = size_of(&frame).min(WINDOW);
                // The semaphore is never closed.
                if let Ok(taken) = permits.acquire_many(u32::try_from(size).unwrap_or(u32::MAX)).await {
                    taken.forget();
                }
                if inbox.send(LinkInput::Control(ControlInput::Came(number, frame, size))).await.is_err() {
                    return;
                }
            }
            match socket::take(&mut from, &mut split).await {
                Ok(n) if n > 0 => {}
                Ok(_) | Err(_) => return,
            }
        }
    };
    let write = async {
        while let Some(frame) = frames.recv().await {
            if to.write_all(&frame).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = read => {}
        () = write => {}
    }
    let _ends = inbox.send(LinkInput::Control(ControlInput::Closed(number))).await;
}

/// How many bytes a frame is on its way to the keeper.
fn size_of(frame: &Frame) -> usize {
    match frame {
        Frame::Json(json) => json.len() + 5,
        Frame::Raw { bytes, .. } => bytes.len() + 13,
    }
}

impl Link {
    pub(super) fn control(&mut self, input: ControlInput) {
        match input {
            ControlInput::Made(number, process, to, permits) => {
                let split = Splitter::default();
                let (channel, waiting, catch_ups, awaits) = (None, Vec::new(), Vec::new(), Vec::new());
                let conn = ControlConn { process, to, permits, is_listener: false, channel, split, own: 0, waiting, catch_ups, awaits };
                // A process that is over has closed its socket.
                if self.processes.contains_key(&process) {
                    self.conns.insert(number, conn);
                }
            }
            ControlInput::Closed(number) => self.close_conn(number),
            ControlInput::Came(number, frame, size) => self.control_frame(number, frame, size),
        }
    }

    /// Forgets a connection, and closes it if it is still open.
    pub(super) fn close_conn(&mut self, number: u64) {
        if let Some(of) = self.conns.remove(&number).and_then(|conn| conn.channel)
            && self.numbers.remove(&of).is_some()
        {
            self.ask(SandboxRequest::HangUp { of });
        }
    }

    fn control_frame(&mut self, number: u64, frame: Frame, size: usize) {
        let unreachable = self.refusal();
        let Some(conn) = self.conns.get_mut(&number) else { return };
        let give_back = |conn: &ControlConn| conn.permits.add_permits(size);
        let json = match &frame {
            Frame::Json(json) => json,
            Frame::Raw { of, bytes } => {
                let bytes = frame::raw(*of, bytes);
                return self.forward(number, bytes);
            }
        };
        let asked = match serde_json::from_slice::<ToKeeper>(json) {
            Ok(asked) => asked,
            Err(e) => {
                give_back(conn);
                let id = serde_json::from_slice::<serde_json::Value>(json).ok().and_then(|v| v["id"].as_u64()).unwrap_or(0);
                return conn.refuse(id, code::BAD_REQUEST, format!("not understood: {e}"));
            }
        };
        match asked.ask {
            KeeperRequest::Hello { version, .. } if version < OLDEST => {
                give_back(conn);
                conn.refuse(asked.id, code::BAD_VERSION, format!("version {version} is too old: this link speaks {OLDEST} to {VERSION}"));
            }
            KeeperRequest::Hello { version, listener } => {
                give_back(conn);
                conn.is_listener = listener;
                let program = env!("CARGO_PKG_VERSION").to_owned();
                conn.say(Some(asked.id), KeeperReply::Hello { version: version.min(VERSION), program });
            }
            KeeperRequest::AwaitOutput { past } => {
                give_back(conn);
                conn.awaits.push((asked.id, past));
                let process = conn.process;
                self.report_output(process);
            }
            KeeperRequest::ShareMeta => {
                give_back(conn);
                conn.refuse(asked.id, code::BAD_REQUEST, "a process in a sandbox has no live copy here");
            }
            KeeperRequest::CatchUp => {
                give_back(conn);
                match unreachable {
                    Some(error) => self.refuse_conn(number, asked.id, &error),
                    None => {
                        conn.catch_ups.push(asked.id);
                        self.flush_conn(number);
                    }
                }
            }
            KeeperRequest::Stop { .. }
            | KeeperRequest::StopLeft { .. }
            | KeeperRequest::Signal { .. }
            | KeeperRequest::Write { .. }
            | KeeperRequest::CloseInput
            | KeeperRequest::Resize { .. }
            | KeeperRequest::Attached { .. } => match unreachable {
                Some(error) => {
                    give_back(conn);
                    self.refuse_conn(number, asked.id, &error);
                }
                None => self.forward(number, frame::json(&asked)),
            },
        }
    }

    /// Why requests to the sandbox are refused now, if they are. While the first attempt is under way they wait.
    fn refusal(&self) -> Option<TransportError> {
        match &self.phase {
            StreamPhase::Opening(why) => why.clone(),
            StreamPhase::Open { .. } => None,
        }
    }

    fn refuse_conn(&self, number: u64, id: u64, error: &TransportError) {
        if let Some(conn) = self.conns.get(&number) {
            conn.refuse(id, code::UNREACHABLE, format!("{} cannot be reached: {}", self.settings.on, error.what));
        }
    }

    /// Passes a frame on to the keeper.
    fn forward(&mut self, number: u64, frame: Vec<u8>) {
        let Some(conn) = self.conns.get_mut(&number) else { return };
        conn.waiting.push(frame);
        self.flush_conn(number);
    }

    /// Sends what waits on a connection, if there is a stream.
    pub(super) fn flush_conn(&mut self, number: u64) {
        if !matches!(self.phase, StreamPhase::Open { .. }) {
            return;
        }
        let Some(conn) = self.conns.get_mut(&number) else { return };
        let process = conn.process;
        for id in std::mem::take(&mut conn.catch_ups) {
            self.number(Numbered::InputTaken(process, number, id), SandboxRequest::InputTaken { process });
        }
        let Some(conn) = self.conns.get(&number).filter(|conn| !conn.waiting.is_empty()) else { return };
        let (process, dialled) = (conn.process, conn.channel);
        let channel = match dialled {
            Some(channel) => channel,
            None => {
                let channel = self.number(Numbered::Channel(number), SandboxRequest::Dial { process });
                let hello = frame::json(&ToKeeper { id: OWN_HELLO, ask: KeeperRequest::Hello { version: VERSION, listener: false } });
                if let Some(conn) = self.conns.get_mut(&number) {
                    (conn.channel, conn.own) = (Some(channel), hello.len() as u64);
                }
                self.send(frame::raw(channel, &hello));
                channel
            }
        };
        let waiting = self.conns.get_mut(&number).map(|conn| std::mem::take(&mut conn.waiting)).unwrap_or_default();
        for frame in waiting {
            self.send(frame::raw(channel, &frame));
        }
    }

    /// The keeper has taken bytes of a channel.
    pub(super) fn channel_taken(&mut self, number: u64, bytes: u64) {
        let Some(conn) = self.conns.get_mut(&number) else { return };
        let own = bytes.min(conn.own);
        conn.own -= own;
        conn.permits.add_permits(usize::try_from(bytes - own).unwrap_or(0).min(WINDOW));
    }

    /// A keeper has answered on a channel.
    pub(super) fn channel_bytes(&mut self, number: u64, bytes: &[u8]) {
        let Some(conn) = self.conns.get_mut(&number) else { return };
        conn.split.push(bytes);
        let process = conn.process;
        loop {
            let Some(conn) = self.conns.get_mut(&number) else { return };
            let said = match conn.split.next_frame() {
                Ok(None) => return,
                Ok(Some(Frame::Json(json))) => serde_json::from_slice::<FromKeeper>(&json).ok(),
                Ok(Some(Frame::Raw { .. })) => None,
                Err(_) => return self.close_conn(number),
            };
            let Some(said) = said.filter(|said| said.of.is_some_and(|of| of != OWN_HELLO)) else { continue };
            if let (KeeperReply::Written { next, .. }, Some(mirrored)) = (&said.say, self.processes.get_mut(&process)) {
                // Before the answer: the next write begins where the folder says.
                mirrored.input_taken(*next);
            }
            conn.say(said.of, said.say);
        }
    }

    /// Answers the requests that wait for output past a length.
    pub(super) fn report_output(&mut self, process: ProcessId) {
        let Some(mirrored) = self.processes.get(&process) else { return };
        let end = mirrored.mirror.log_end();
        let closed = mirrored.mirror.snapshot().is_some_and(|meta| meta.has(flag::OUTPUT_CLOSED));
        for conn in self.conns.values_mut().filter(|conn| conn.process == process && !conn.awaits.is_empty()) {
            let (due, later): (Vec<_>, Vec<_>) = std::mem::take(&mut conn.awaits).into_iter().partition(|(_, past)| closed || end > *past);
            conn.awaits = later;
            for (id, _) in due {
                conn.say(Some(id), KeeperReply::Output { end, closed });
            }
        }
    }

    /// Tells the engine to look into the folder of a process.
    pub(super) fn news(&self, process: ProcessId) {
        for conn in self.conns.values().filter(|conn| conn.process == process && conn.is_listener) {
            conn.say(None, KeeperReply::News);
        }
    }
}
