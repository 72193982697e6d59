//! One connection of a client, and one file for each verb.

mod active;
mod adopt;
mod attach;
mod awaiting;
mod clean;
mod close;
mod deliveries;
mod engine_status;
mod engine_stop;
mod keeper;
mod kill;
mod list;
mod log;
mod notice;
mod poll;
mod read;
mod relay;
mod remove;
mod rerun;
mod resize;
mod run;
mod signal;
mod until;
mod view;
mod wait;
mod write;

pub(crate) use kill::stop_with_the_engine;
pub(crate) use list::Listed;
pub(crate) use view::Views;

use crate::disk::blocking;
use crate::engine::Engine;
use crate::facts::{Facts, Seen};
use crate::points::point;
use crate::refuse;
use crate::shared::{Client, Closing, Shared};
use crate::state::View;
use awaiting::Awaiting;
use outlast_core::Owner;
use outlast_wire::frame::{self, Frame, Splitter};
use outlast_wire::socket;
use outlast_wire::v1::notice::Told;
use outlast_wire::v1::{Done, Error, Event, Hello, Message, Removed, Reply, Request};
use outlast_wire::{OLDEST, VERSION, code};
use relay::{Relay, Relays};
use serde::Serialize;
use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::{AbortHandle, JoinSet};

/// How many requests of one connection may be under way.
const UNDER_WAY: usize = 1_024;
/// How many frames may wait to be sent. Who has more waits.
const OUTGOING: usize = 16;
/// The most that one write may bring.
const MOST_INPUT: u32 = 16 << 20;
/// The most that all writes of one connection may hold together, from their announcement to their answer.
const MOST_WAITING_INPUT: usize = 4 * MOST_INPUT as usize;

/// Where a connection comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    /// Somebody who uses the engine.
    Outside,
    /// Something that goes along with it.
    Within,
}

/// Serves one connection until either side ends it.
pub(crate) async fn connection(
    engine: Engine,
    (from, to): (impl AsyncRead + Unpin, impl AsyncWrite + Send + Unpin + 'static),
    whose: From,
) {
    let _connected = Client::new(engine.shared(), whose);
    let (out, outgoing) = mpsc::channel(OUTGOING);
    let mut closed = std::pin::pin!(engine.shared().closing(Closing::Closed));
    let mut talk = Talk {
        relays: Arc::new(Relays::new(engine.clone())),
        engine,
        out,
        tasks: JoinSet::new(),
        under_way: HashMap::new(),
        greeted: false,
        writing: None,
        room: Arc::new(Semaphore::new(MOST_WAITING_INPUT)),
    };
    // Both in one task: an answer wakes it once, and no other thread has to help.
    let mut writer = std::pin::pin!(send_all(to, outgoing));
    let mut incoming = Incoming { from, frames: Splitter::default() };
    let talking = async {
        loop {
            tokio::select! {
                frame = incoming.next(), if talk.tasks.len() < UNDER_WAY => match frame? {
                    Some(frame) => talk.on_frame(frame).await?,
                    None => return Ok(()),
                },
                Some(done) = talk.tasks.join_next_with_id(), if !talk.tasks.is_empty() => talk.on_done(done).await,
                () = &mut closed => {
                    talk.refuse_the_rest().await;
                    return io::Result::Ok(());
                }
            }
        }
    };
    let ended = tokio::select! {
        biased;
        ended = talking => ended,
        // It goes on for as long as anybody can send, and we can.
        () = &mut writer => return,
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended");
    }
    // Whoever has left waits for nothing.
    talk.tasks.shutdown().await;
    drop(talk);
    // It sends what is queued and says nothing about it: whoever has left misses it.
    writer.await;
}

struct Incoming<R> {
    from: R,
    frames: Splitter,
}

impl<R: AsyncRead + Unpin> Incoming<R> {
    /// The next frame. Can be dropped half-way and called again.
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

/// What is done once an answer is in the socket, or once it is known that it never will be.
type Then = Box<dyn FnOnce(bool) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// A frame on its way out.
struct Outgoing {
    frame: Vec<u8>,
    then: Option<Then>,
}

async fn send_all(mut to: impl AsyncWrite + Unpin, mut outgoing: mpsc::Receiver<Outgoing>) {
    let mut open = true;
    while let Some(Outgoing { frame, then }) = outgoing.recv().await {
        open = open && to.write_all(&frame).await.is_ok();
        if let Some(then) = then {
            then(open).await;
        }
    }
    // Whoever left before the end misses it.
    let _shut = to.shutdown().await;
}

/// A write whose bytes are still coming.
struct Writing {
    message: Message,
    len: u64,
    input: Input,
}

/// What a write brings, with the room that it takes until it is answered.
#[derive(Default)]
struct Input {
    bytes: Vec<u8>,
    _room: Option<OwnedSemaphorePermit>,
}

struct Talk {
    engine: Engine,
    out: mpsc::Sender<Outgoing>,
    tasks: JoinSet<()>,
    under_way: HashMap<u64, AbortHandle>,
    greeted: bool,
    writing: Option<Writing>,
    /// A permit for each byte that the writes under way may hold.
    room: Arc<Semaphore>,
    /// Answers that are on their way to somebody behind this connection.
    relays: Arc<Relays>,
}

impl Talk {
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
        let Request::Hello { version, client } = message.request else {
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
        out.answer(Hello {
            version: version.min(VERSION),
            program: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            home: Some(self.engine.shared().home.root.as_path().into()),
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
                // Its bytes, should they still come, belong to nothing.
                let _cancelled = self.writing.take_if(|w| w.message.id == *of);
            }
            Request::Write { len, .. } => match self.room_for(*len) {
                Ok(room) => {
                    let len = *len;
                    self.writing = Some(Writing { message, len, input: Input { bytes: Vec::new(), _room: Some(room) } });
                    self.start_if_whole();
                }
                // The bytes that follow belong to nothing, and are dropped.
                Err(error) => self.out_for(message.id).error(error).await,
            },
            _ => self.start(message, Input::default()),
        }
        Ok(())
    }

    /// Room for a write of this length, or why it cannot begin now. Whatever is under way stays as it is.
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
        if let Some(Writing { message, input, .. }) = self.writing.take_if(|w| w.input.bytes.len() as u64 == w.len) {
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
        let asked = Asked {
            engine: self.engine.clone(),
            owner: message.owner,
            relays: self.relays.clone(),
            relay: message.relay,
            out: self.out_for(message.id),
        };
        let id = message.id;
        let task = self.tasks.spawn(async move { asked.serve(message.request, input).await });
        self.under_way.insert(id, task);
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
        for (id, task) in std::mem::take(&mut self.under_way) {
            if !task.is_finished() {
                task.abort();
                self.out_for(id).error(refuse::stopping()).await;
            }
        }
    }

    fn out_for(&self, of: u64) -> Out {
        Out { to: self.out.clone(), of }
    }
}

/// Where the answers to one request go.
#[derive(Clone)]
pub(crate) struct Out {
    to: mpsc::Sender<Outgoing>,
    of: u64,
}

impl Out {
    async fn answer<T: Serialize>(&self, answer: T) {
        self.send(frame::json(&Reply::answer(self.of, answer))).await;
    }

    /// Does `first`, answers, and does `then` with whether the answer reached the socket. All of it is done even if whoever asked leaves meanwhile.
    async fn answer_between<T: Serialize>(&self, first: impl Future<Output = ()> + Send + 'static, answer: T, then: Then) {
        let (to, outgoing) = (self.to.clone(), Outgoing { frame: frame::json(&Reply::answer(self.of, answer)), then: Some(then) });
        let answered = tokio::spawn(async move {
            first.await;
            point!("answer.held");
            if let Err(mpsc::error::SendError(Outgoing { then: Some(then), .. })) = to.send(outgoing).await {
                then(false).await;
            }
        });
        // A panic in there has been told by the thread it was on.
        let _answered = answered.await;
    }

    async fn error(&self, error: Error) {
        self.send(frame::json(&Reply::<()>::error(self.of, error))).await;
    }

    async fn event(&self, event: Event) {
        self.send(frame::json(&Reply::<()>::event(self.of, event))).await;
    }

    async fn raw(&self, bytes: &[u8]) {
        for chunk in bytes.chunks(frame::RAW_CHUNK) {
            self.send(frame::raw(self.of, chunk)).await;
        }
    }

    async fn result<T: Serialize>(&self, result: Result<T, Error>) {
        match result {
            Ok(answer) => self.answer(answer).await,
            Err(error) => self.error(error).await,
        }
    }

    async fn send(&self, frame: Vec<u8>) {
        // Whoever has left misses it.
        let _gone = self.to.send(Outgoing { frame, then: None }).await;
    }
}

/// One request, with whom it is for.
#[derive(Clone)]
pub(crate) struct Asked {
    pub(crate) engine: Engine,
    pub(crate) owner: Owner,
    relays: Arc<Relays>,
    /// Whether the answer is for somebody behind whoever asks.
    relay: bool,
    out: Out,
}

impl Asked {
    async fn serve(&self, request: Request, input: Input) {
        let out = &self.out;
        match request {
            Request::Hello { .. } => out.error(refuse::refusal(code::BAD_REQUEST, "hello was said before", "")).await,
            Request::Run { spec, want, caller } => out.result(run::run(self, *spec, want, caller).await).await,
            Request::Rerun { process, caller, env, want } => out.result(rerun::rerun(self, &process, caller, env, want).await).await,
            Request::List { scope, all } => match list::list(self, &scope, all).await {
                Ok(json) => out.send(frame::answer(out.of, &json)).await,
                Err(error) => out.error(error).await,
            },
            Request::Poll { process } => out.result(poll::poll(self, &process).await).await,
            Request::Log { process, page } => self.answer_with_end(log::log(self, &process, page).await, "log").await,
            Request::Read { process, from, follow, to_exit, view } => {
                let until = match (follow, to_exit) {
                    (false, _) => read::Until::Now,
                    (true, false) => read::Until::Closed,
                    (true, true) => read::Until::Exit,
                };
                let viewed = if view { read::Viewed::Yes } else { read::Viewed::No };
                out.result(read::read(self, &process, from, until, viewed).await).await;
            }
            Request::Wait { process, timeout_ms } => self.answer_with_end(wait::wait(self, &process, timeout_ms).await, "wait").await,
            Request::Interrupt { session } => {
                out.result(wait::interrupt(self, session).await).await;
            }
            Request::Kill { process, kill } => self.answer_with_end(kill::kill(self, &process, kill).await, "kill").await,
            Request::KillAll { scope, kill } => {
                let asked = self.clone();
                out.result(finished(async move { kill::kill_all(&asked, &scope, kill).await }).await).await;
            }
            Request::Signal { process, number } => out.result(signal::signal(self, &process, number).await).await,
            Request::Write { process, at, .. } => {
                let written = write::write(self, &process, at, &input.bytes).await;
                // Whoever is answered finds room for the next.
                drop(input);
                out.result(written).await;
            }
            Request::Close { process } => out.result(close::close(self, &process).await).await,
            Request::Resize { process, rows, cols } => out.result(resize::resize(self, &process, rows, cols).await).await,
            Request::Attach { process, read_only } => attach::attach(self, &process, read_only).await,
            Request::ViewClose { process } => out.result(view::close(self, &process).await).await,
            Request::Remove { process } if self.relay => self.answer_and_remove(&process).await,
            Request::Remove { process } => out.result(remove::remove(self, &process).await).await,
            Request::Clean { scope } => {
                let asked = self.clone();
                out.result(finished(async move { clean::clean(&asked, &scope).await }).await).await;
            }
            Request::Active(activity) => out.result(active::active(self, activity).await).await,
            Request::Adopt(from) => out.result(adopt::adopt(self, from).await).await,
            Request::NoticeNext { taker, limit, lease_ms, wait_ms } => {
                let given = notice::next(self, taker, limit, lease_ms, wait_ms).await;
                if let (true, Ok(given)) = (self.relay, &given) {
                    self.relay_notices(&given.notices);
                }
                out.result(given).await;
            }
            Request::NoticeSettle { ids, lease, verdict } => out.result(notice::settle(self, ids, lease, verdict).await).await,
            Request::NoticeFollow { after } => out.result(notice::follow(self, after).await).await,
            Request::NoticePost { name, event, route } => out.result(notice::post(self, name, event, route).await).await,
            Request::NoticeHistory(wanted) => out.result(notice::history(self, wanted).await).await,
            Request::NoticeReplay(what) => out.result(notice::replay(self, what).await).await,
            Request::NoticeDead { limit } => out.result(notice::dead(self, limit).await).await,
            Request::Consumed { process, mark } => out.result(notice::consumed(self, &process, mark).await).await,
            Request::Relayed { of } => out.result(self.relays.passed_on(&of).await).await,
            Request::Deliveries { sink, limit, lease_ms } => {
                out.result(deliveries::deliveries(self, sink, limit, lease_ms).await).await;
            }
            Request::Wake { sink, lent } => out.result(deliveries::wake(self, sink, lent).await).await,
            Request::Pushed { sink, seq, lease, how } => out.result(deliveries::pushed(self, sink, seq, lease, how).await).await,
            Request::Until { until, barrier, no_wait } => until::until(self, until, barrier, no_wait).await,
            Request::Barriers { clear } => out.result(until::barriers(self, clear).await).await,
            Request::EngineStatus => out.result(engine_status::engine_status(self).await).await,
            Request::EngineStop => match engine_stop::may_stop(self).await {
                Ok(()) => {
                    out.answer(Done::ok()).await;
                    point!("engine_stop.allowed");
                    self.engine.begin_stop(self.owner.clone()).await;
                }
                Err(error) => out.error(error).await,
            },
            // Dealt with where the requests are kept.
            Request::Cancel { .. } => {}
        }
    }

    /// Answers with what shows the end of a process, if it has one to show: its owner need not be told of it then. Only an act in its own conversation counts.
    async fn answer_with_end<T: Serialize>(&self, result: Result<Ended<T>, Error>, how: &'static str) {
        let ended = match result {
            Ok(ended) => ended,
            Err(error) => return self.out.error(error).await,
        };
        let of = ended.of.filter(|facts| self.owner.session == facts.kept.spec.owner.session);
        let Some(facts) = of else { return self.out.answer(ended.answer).await };
        let awaiting = ended.awaiting;
        let (engine, id, now) = (self.engine.clone(), facts.id(), self.shared().now());
        let relayed = self.relay.then(|| (self.relays.clone(), self.out.of));
        let hold = async move {
            point!("answer.ready");
            if !facts.kept.spec.tell.is_nothing()
                && let Err(error) = engine.shared().outbox.hold(id, now).await
            {
                tracing::warn!(%error, "an end that is answered may be told as well");
            }
            // A cancellation that came before there was anything to let go of.
            if relayed.is_some_and(|(relays, of)| !relays.is_under_way(of)) {
                engine.shared().outbox.let_go(id).await;
            }
            if let Some(awaiting) = awaiting {
                awaiting.held();
            }
        };
        let engine = self.engine.clone();
        if self.relay {
            let (relays, of) = (self.relays.clone(), self.out.of);
            relays.begin(of, Relay::End { process: id, how, since: now });
            let then = move |sent: bool| async move {
                point!("answer.sent");
                if !sent {
                    relays.let_go(of).await;
                }
            };
            return self.out.answer_between(hold, ended.answer, Box::new(|sent| Box::pin(then(sent)))).await;
        }
        let then = move |sent: bool| async move {
            point!("answer.sent");
            if sent {
                relay::seen(&engine, id, how, now).await;
            } else {
                engine.shared().outbox.let_go(id).await;
            }
        };
        self.out.answer_between(hold, ended.answer, Box::new(|sent| Box::pin(then(sent)))).await;
    }

    /// Remembers who has these, should they not arrive.
    fn relay_notices(&self, given: &[Told]) {
        // All of one answer are given under one word.
        if let Some(lease) = given.first().and_then(|told| told.lease.clone()) {
            let ids = given.iter().map(|told| told.event.event_id.clone()).collect();
            self.relays.begin(self.out.of, Relay::Notices { ids, lease });
        }
    }

    /// Answers that a process is removed, which it is once that has arrived. Should it not, the process stays until it is too old.
    async fn answer_and_remove(&self, name: &str) {
        match remove::removable(self, name).await {
            Ok(view) => {
                let removed = Removed::new(view.id());
                self.relays.begin(self.out.of, Relay::Removal(Box::new(view)));
                self.out.answer(removed).await;
            }
            Err(error) => self.out.error(error).await,
        }
    }

    fn shared(&self) -> &Arc<Shared> {
        self.engine.shared()
    }

    async fn resolve(&self, name: &str) -> Result<View, Error> {
        self.engine.resolve(name, &self.owner).await
    }

    /// What the folder says right now, which may be more than the engine has heard of.
    async fn fresh(&self, view: &View) -> Result<Fresh, Error> {
        fresh(&self.engine, view).await
    }
}

/// A process and a look into its folder.
#[derive(Debug, Clone)]
pub(crate) struct Fresh {
    pub(crate) facts: Arc<Facts>,
    pub(crate) seen: Seen,
}

pub(crate) async fn fresh(engine: &Engine, view: &View) -> Result<Fresh, Error> {
    let (dir, cursor, id) = (view.dir.clone(), view.facts.cursor, view.id());
    let look = engine.shared().disk.at(move || Seen::look(&dir, cursor)).await;
    let seen = look.map_err(|e| refuse::disk(format!("cannot look at {id}"), &e))?;
    let facts = view.facts.with(&seen);
    if facts.phase == view.facts.phase {
        return Ok(Fresh { facts: Arc::new(facts), seen });
    }
    // The owner hears of it before the caller does.
    let told = engine.saw(id, seen.clone()).await;
    Ok(Fresh { facts: told.unwrap_or_else(|| Arc::new(facts)), seen })
}

/// Goes on if whoever asked leaves: what was begun is finished.
async fn finished<T: Send + 'static>(work: impl Future<Output = Result<T, Error>> + Send + 'static) -> Result<T, Error> {
    tokio::spawn(work).await.unwrap_or_else(|panic| Err(refuse::fault(panic)))
}

/// Runs what reads the end of a file for an answer.
async fn glance<T: Send + 'static>(shared: &Shared, what: impl FnOnce() -> io::Result<T> + Send + 'static) -> Result<T, Error> {
    shared.disk.at(what).await.and_then(|done| done).map_err(|e| refuse::disk("cannot read the output", &e))
}

/// Runs what reads files for an answer, as much as there is.
async fn reading<T: Send + 'static>(what: impl FnOnce() -> io::Result<T> + Send + 'static) -> Result<T, Error> {
    blocking(what).await.and_then(|done| done).map_err(|e| refuse::disk("cannot read the output", &e))
}

/// An answer, and the process whose end it shows, if it does.
pub(crate) struct Ended<T> {
    pub(crate) answer: T,
    pub(crate) of: Option<Arc<Facts>>,
    /// Who waited for it.
    pub(crate) awaiting: Option<Awaiting>,
}
