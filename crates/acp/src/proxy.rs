//! Forwards messages between a client and an agent, in both directions.
//!
//! Decision 111: docs/decisions/acp.md.

use crate::initialize::with_terminals;
use crate::message::{self, Failure, INTERNAL, INVALID_REQUEST, Message};
use crate::oversized::OversizedMessage;
use crate::sessions::Sessions;
use crate::splitter::{Line, MOST_BYTES, Splitter};
use crate::terminal::{Call, Terminals};
use crate::terminal_content::ShownTerminals;
use crate::waits::{Waits, cancelled};
use outlast_client::{Caller, Connect, Owner};
use serde_json::value::RawValue;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// The most unanswered requests about terminals. An agent waits for a handful; more requests than this are refused.
const MAX_REQUESTS: usize = 1_024;
/// The most bytes in one read.
const READ_BYTES: usize = 64 << 10;
/// How long running requests may take after the agent has left.
const FINISH_TIMEOUT: Duration = Duration::from_secs(5);

/// The settings of a proxy.
#[non_exhaustive]
pub struct Options {
    /// The engine that runs the terminals. The proxy connects when the first terminal is created.
    pub connect: Connect,
    /// The environment that commands inherit.
    pub caller: Caller,
    /// The task and the generation of all terminals. The session is that of each request.
    pub owner: Owner,
    /// Whether secrets are masked in the output that the agent reads.
    pub redact: bool,
    /// How long the agent may keep running after its client has left.
    pub leave: Duration,
    /// Where the proxy reports problems to the user.
    pub remark: fn(&str),
}

impl Options {
    /// The defaults: secrets are masked, an agent has ten seconds to leave, and remarks are dropped.
    pub fn new(connect: Connect, caller: Caller) -> Self {
        Self { connect, caller, owner: Owner::default(), redact: true, leave: Duration::from_secs(10), remark: |_| {} }
    }
}

/// Which side ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The agent closed its output.
    Agent,
    /// The client left, and the agent did not leave in time.
    Client,
}

/// A proxy between one client and one agent.
pub struct Proxy {
    terminals: Arc<Terminals>,
    sessions: Mutex<Sessions>,
    waits: Arc<Waits>,
    leave: Duration,
    remark: fn(&str),
    /// The longest line that is forwarded.
    most: usize,
}

impl Proxy {
    /// A proxy with these settings.
    pub fn new(options: Options) -> Self {
        let Options { connect, caller, owner, redact, leave, remark } = options;
        let terminals = Arc::new(Terminals::new(connect, caller, owner, redact));
        Self { terminals, sessions: Mutex::default(), waits: Arc::default(), leave, remark, most: MOST_BYTES }
    }

    /// Forwards messages until the agent closes its output, or for a while after the client has left.
    pub async fn run<CR, CW, AR, AW>(self, (from_client, to_client): (CR, CW), (from_agent, to_agent): (AR, AW)) -> Ended
    where
        CR: AsyncRead + Unpin,
        CW: AsyncWrite + Unpin,
        AR: AsyncRead + Unpin,
        AW: AsyncWrite + Unpin + Send + 'static,
    {
        let (to_client, to_agent) = (Out::new(to_client), Arc::new(Out::new(to_agent)));
        let client_side = self.client_side(Lines::new(from_client, self.most), &to_client, &to_agent);
        let agent_side = self.agent_side(Lines::new(from_agent, self.most), &to_client, &to_agent);
        tokio::pin!(client_side, agent_side);
        tokio::select! {
            () = &mut agent_side => return Ended::Agent,
            () = &mut client_side => {}
        }
        match tokio::time::timeout(self.leave, agent_side).await {
            Ok(()) => Ended::Agent,
            Err(_) => Ended::Client,
        }
    }

    /// Forwards the client's messages until it leaves.
    async fn client_side<R, CW, AW>(&self, mut lines: Lines<R>, to_client: &Out<CW>, to_agent: &Out<AW>)
    where
        R: AsyncRead + Unpin,
        CW: AsyncWrite + Unpin,
        AW: AsyncWrite + Unpin,
    {
        loop {
            let line = tokio::select! {
                line = lines.next() => line,
                // A client that no longer reads has left.
                () = to_client.gone() => break,
            };
            let line = match line {
                Ok(Some(Line::Whole(line))) => line,
                Ok(Some(Line::Long(known))) => {
                    self.refuse("client", &known, to_client, to_agent).await;
                    continue;
                }
                Ok(None) => break,
                Err(e) => {
                    (self.remark)(&format!("the client cannot be read any more: {e}"));
                    break;
                }
            };
            to_agent.send(&self.for_the_agent(line)).await;
        }
        to_agent.close().await;
    }

    /// The message that the agent gets for a message of the client.
    fn for_the_agent(&self, line: Vec<u8>) -> Vec<u8> {
        let Some(message) = Message::read(&line) else { return line };
        lock(&self.sessions).asked(&message);
        match message.asks() {
            Some(("initialize", _)) => with_terminals(&line).unwrap_or(line),
            _ => line,
        }
    }

    /// Forwards or answers the agent's messages until it closes its output.
    async fn agent_side<R, CW, AW>(&self, mut lines: Lines<R>, to_client: &Out<CW>, to_agent: &Arc<Out<AW>>)
    where
        R: AsyncRead + Unpin,
        CW: AsyncWrite + Unpin,
        AW: AsyncWrite + Unpin + Send + 'static,
    {
        let mut tasks = JoinSet::new();
        loop {
            let line = match lines.next().await {
                Ok(Some(Line::Whole(line))) => line,
                Ok(Some(Line::Long(known))) => {
                    self.refuse("agent", &known, &**to_agent, to_client).await;
                    continue;
                }
                Ok(None) => break,
                Err(e) => {
                    (self.remark)(&format!("the agent cannot be read any more: {e}"));
                    break;
                }
            };
            while tasks.try_join_next().is_some() {}
            let (id, call) = match self.for_us(&line) {
                ForUs::No => {
                    to_client.send(&self.for_the_client(line, to_client.is_closed()).await).await;
                    continue;
                }
                ForUs::Cancel => continue,
                ForUs::Call(id, call) => (id, call),
            };
            let call = match call {
                // The agent cannot get the answer, so no command is started for it.
                Ok(call) if to_agent.is_closed() && !call.stops() => continue,
                Ok(_) if tasks.len() >= MAX_REQUESTS => {
                    Err(Failure::new(INTERNAL, format!("{MAX_REQUESTS} requests about terminals are under way: wait for one of them")))
                }
                call => call.and_then(|call| self.terminals.arrived(&call).map(|()| call)),
            };
            match call {
                Ok(call) => drop(tasks.spawn(self.serve(id, call, to_agent))),
                Err(failure) => drop(to_agent.send(&message::answer(Some(&id), &Err(failure))).await),
            }
        }
        // Waits are given up; other requests are finished.
        self.waits.cancel_all();
        let _in_time = tokio::time::timeout(FINISH_TIMEOUT, async { while tasks.join_next().await.is_some() {} }).await;
    }

    /// The message that the client gets for a message of the agent.
    async fn for_the_client(&self, line: Vec<u8>, is_gone: bool) -> Vec<u8> {
        match ShownTerminals::find(&line) {
            Some(shown) if !is_gone => shown.replaced(&line, &self.terminals.show(&shown).await),
            _ => line,
        }
    }

    /// Decides who handles a message of the agent.
    fn for_us(&self, line: &[u8]) -> ForUs {
        let Some(message) = Message::read(line) else { return ForUs::No };
        lock(&self.sessions).answered(&message);
        if let Some((method, id)) = message.asks() {
            return Call::read(method, message.params).map_or(ForUs::No, |call| ForUs::Call(id.to_owned(), call));
        }
        if self.waits.is_cancelled_by(&message) { ForUs::Cancel } else { ForUs::No }
    }

    /// Serves one call and sends its answer.
    fn serve<W>(&self, id: Box<RawValue>, call: Call, to_agent: &Arc<Out<W>>) -> impl Future<Output = ()> + Send + use<W>
    where
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let wait = matches!(call, Call::WaitForExit(_)).then(|| self.waits.begin(id.get()));
        let dir = lock(&self.sessions).dir(call.session()).map(str::to_owned);
        let (terminals, to_agent) = (self.terminals.clone(), to_agent.clone());
        async move {
            let done = terminals.serve(call, dir, cancelled(wait)).await;
            if to_agent.send(&message::answer(Some(&id), &done.outcome)).await {
                done.delivered().await;
            }
        }
    }

    /// Answers in place of a message that was too long: its sender gets an error, or the side that waits for it as an answer.
    async fn refuse<B, F>(&self, who: &str, known: &OversizedMessage, back: &Out<B>, forth: &Out<F>)
    where
        B: AsyncWrite + Unpin,
        F: AsyncWrite + Unpin,
    {
        let what = format!("a message of {} bytes by the {who} is not passed on: {} at most are", known.bytes, self.most);
        (self.remark)(&what);
        match (&known.method, &known.id) {
            (Some(_), None) => {}
            (Some(_), id) => drop(back.send(&message::answer(id.as_deref(), &Err(Failure::new(INVALID_REQUEST, what)))).await),
            (None, Some(id)) => drop(forth.send(&message::answer(Some(id), &Err(Failure::new(INTERNAL, what)))).await),
            (None, None) => drop(back.send(&message::answer(None, &Err(Failure::new(INVALID_REQUEST, what)))).await),
        }
    }
}

/// What the proxy does with a message of the agent.
enum ForUs {
    /// Forward it to the client.
    No,
    /// Serve a request about terminals, or refuse it.
    Call(Box<RawValue>, Result<Call, Failure>),
    /// Nothing: the agent cancelled a wait, which was ended.
    Cancel,
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic leaves the value consistent: each change is one call.
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The lines of one side.
struct Lines<R> {
    read: R,
    piece: Vec<u8>,
    splitter: Option<Splitter>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    fn new(read: R, most: usize) -> Self {
        Self { read, piece: vec![0; READ_BYTES], splitter: Some(Splitter::new(most)) }
    }

    /// The next line, or `None` at the end. Cancel safe.
    async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let Some(splitter) = &mut self.splitter else { return Ok(None) };
            if let Some(line) = splitter.next_line() {
                return Ok(Some(line));
            }
            match self.read.read(&mut self.piece).await? {
                0 => return Ok(self.splitter.take().and_then(Splitter::finish)),
                n => splitter.push(&self.piece[..n]),
            }
        }
    }
}

/// Writes whole lines, one at a time.
struct Out<W> {
    /// `None` once it is closed.
    to: tokio::sync::Mutex<Option<W>>,
    closed: AtomicBool,
    gone: Notify,
}

impl<W: AsyncWrite + Unpin> Out<W> {
    fn new(to: W) -> Self {
        Self { to: tokio::sync::Mutex::new(Some(to)), closed: AtomicBool::new(false), gone: Notify::new() }
    }

    /// Writes a line; false if the reader has gone.
    async fn send(&self, line: &[u8]) -> bool {
        let mut to = self.to.lock().await;
        let Some(open) = to.as_mut() else { return false };
        let written = async {
            open.write_all(line).await?;
            open.flush().await
        };
        let is_written = written.await.is_ok();
        if !is_written {
            *to = None;
            self.closed.store(true, Relaxed);
            self.gone.notify_one();
        }
        is_written
    }

    /// Closes the stream.
    async fn close(&self) {
        self.closed.store(true, Relaxed);
        if let Some(mut open) = self.to.lock().await.take() {
            // It fails if the reader has gone.
            let _gone = open.shutdown().await;
        }
    }

    /// Whether it is closed. Does not wait for a write that runs now.
    fn is_closed(&self) -> bool {
        self.closed.load(Relaxed)
    }

    /// Waits until a write found that the reader has gone.
    async fn gone(&self) {
        self.gone.notified().await;
    }
}

#[cfg(test)]
mod tests;
