//! Both ways between a client and an agent.
//!
//! Decision 111: docs/decisions/acp.md.

use crate::initialize::with_terminals;
use crate::message::{self, Failure, INTERNAL, INVALID_REQUEST, Message};
use crate::sessions::Sessions;
use crate::shown::Shown;
use crate::skim::Skimmed;
use crate::splitter::{Line, MOST_BYTES, Splitter};
use crate::terminal::{Call, Terminals};
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

/// How many requests about terminals may be under way. An agent waits for a handful; whoever has this many is told so.
const MOST_REQUESTS: usize = 1_024;
/// How much is read at a time.
const PIECE: usize = 64 << 10;
/// How long what an agent asked for may take when it has left.
const FINISH: Duration = Duration::from_secs(5);

/// What a proxy needs to know.
#[non_exhaustive]
pub struct Options {
    /// The engine that runs the terminals. It is asked for when the first is created.
    pub connect: Connect,
    /// The surroundings that commands inherit.
    pub caller: Caller,
    /// The task and the generation of all of them. The session is not looked at: it is that of each request.
    pub owner: Owner,
    /// Whether secrets are masked in what the agent reads.
    pub redact: bool,
    /// How long the agent may go on when its client has left.
    pub leave: Duration,
    /// Where remarks go that belong into no message.
    pub remark: fn(&str),
}

impl Options {
    /// The defaults: secrets are masked, an agent has ten seconds to leave, and nobody reads remarks.
    pub fn new(connect: Connect, caller: Caller) -> Self {
        Self { connect, caller, owner: Owner::default(), redact: true, leave: Duration::from_secs(10), remark: |_| {} }
    }
}

/// Who ended a conversation with a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The agent says nothing more.
    Agent,
    /// The client left, and the agent did not in the time it had.
    Client,
}

/// A proxy between one client and one agent.
pub struct Proxy {
    terminals: Arc<Terminals>,
    sessions: Mutex<Sessions>,
    waits: Arc<Waits>,
    leave: Duration,
    remark: fn(&str),
    /// The longest line that is passed on.
    most: usize,
}

impl Proxy {
    /// One that has passed on nothing yet.
    pub fn new(options: Options) -> Self {
        let Options { connect, caller, owner, redact, leave, remark } = options;
        let terminals = Arc::new(Terminals::new(connect, caller, owner, redact));
        Self { terminals, sessions: Mutex::default(), waits: Arc::default(), leave, remark, most: MOST_BYTES }
    }

    /// Passes messages on until the agent says nothing more, or for a while after the client has left.
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

    /// What the client says, until it leaves.
    async fn client_side<R, CW, AW>(&self, mut lines: Lines<R>, to_client: &Out<CW>, to_agent: &Out<AW>)
    where
        R: AsyncRead + Unpin,
        CW: AsyncWrite + Unpin,
        AW: AsyncWrite + Unpin,
    {
        loop {
            let line = tokio::select! {
                line = lines.next() => line,
                // Who does not read any more is not spoken for either.
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

    /// What the agent gets for a message of its client's.
    fn for_the_agent(&self, line: Vec<u8>) -> Vec<u8> {
        let Some(message) = Message::read(&line) else { return line };
        lock(&self.sessions).asked(&message);
        match message.asks() {
            Some(("initialize", _)) => with_terminals(&line).unwrap_or(line),
            _ => line,
        }
    }

    /// What the agent says, until it says nothing more.
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
                // Nobody would be answered, and a command that nobody knows of is not begun.
                Ok(call) if to_agent.is_closed() && !call.stops() => continue,
                Ok(_) if tasks.len() >= MOST_REQUESTS => {
                    Err(Failure::new(INTERNAL, format!("{MOST_REQUESTS} requests about terminals are under way: wait for one of them")))
                }
                call => call.and_then(|call| self.terminals.arrived(&call).map(|()| call)),
            };
            match call {
                Ok(call) => drop(tasks.spawn(self.serve(id, call, to_agent))),
                Err(failure) => drop(to_agent.send(&message::answer(Some(&id), &Err(failure))).await),
            }
        }
        // Nobody waits any more, and what else was asked for is finished.
        self.waits.cancel_all();
        let _in_time = tokio::time::timeout(FINISH, async { while tasks.join_next().await.is_some() {} }).await;
    }

    /// What the client gets for a message of its agent's.
    async fn for_the_client(&self, line: Vec<u8>, is_gone: bool) -> Vec<u8> {
        match Shown::find(&line) {
            Some(shown) if !is_gone => shown.replaced(&line, &self.terminals.show(&shown).await),
            _ => line,
        }
    }

    /// What to do with a message of the agent's.
    fn for_us(&self, line: &[u8]) -> ForUs {
        let Some(message) = Message::read(line) else { return ForUs::No };
        lock(&self.sessions).answered(&message);
        if let Some((method, id)) = message.asks() {
            return Call::read(method, message.params).map_or(ForUs::No, |call| ForUs::Call(id.to_owned(), call));
        }
        if self.waits.is_cancelled_by(&message) { ForUs::Cancel } else { ForUs::No }
    }

    /// One call, from here to its answer.
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
                done.told().await;
            }
        }
    }

    /// Sees to it that nobody waits for a message that was too long: its sender is told, or who waits for it as an answer.
    async fn refuse<B, F>(&self, who: &str, known: &Skimmed, back: &Out<B>, forth: &Out<F>)
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

/// What is in a message of the agent's for us.
enum ForUs {
    /// Nothing: it is the client's.
    No,
    /// A request about terminals, or what is wrong with it.
    Call(Box<RawValue>, Result<Call, Failure>),
    /// A wait was given up.
    Cancel,
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    // Whoever panicked left it whole: each change is one call.
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
        Self { read, piece: vec![0; PIECE], splitter: Some(Splitter::new(most)) }
    }

    /// The next line, or nothing at the end. May be dropped while it waits.
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

/// Where whole lines are written, by one at a time.
struct Out<W> {
    /// Nothing once nothing more is written.
    to: tokio::sync::Mutex<Option<W>>,
    closed: AtomicBool,
    gone: Notify,
}

impl<W: AsyncWrite + Unpin> Out<W> {
    fn new(to: W) -> Self {
        Self { to: tokio::sync::Mutex::new(Some(to)), closed: AtomicBool::new(false), gone: Notify::new() }
    }

    /// Writes a line; false if nobody reads it.
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

    /// Says that nothing more comes.
    async fn close(&self) {
        self.closed.store(true, Relaxed);
        if let Some(mut open) = self.to.lock().await.take() {
            // Whoever has gone needs not be told.
            let _gone = open.shutdown().await;
        }
    }

    /// Whether nothing more is written. Does not wait for who writes now.
    fn is_closed(&self) -> bool {
        self.closed.load(Relaxed)
    }

    /// Returns once it was found that nobody reads.
    async fn gone(&self) {
        self.gone.notified().await;
    }
}

#[cfg(test)]
mod tests;
