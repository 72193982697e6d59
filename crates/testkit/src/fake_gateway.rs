//! A gateway that the test simulates, over the real socket and frames. Its data is in a store of its own, which outlives it as a
//! database would.

use outlast_core::Time;
use outlast_wire::code;
use outlast_wire::frame::{self, Frame, Splitter};
use outlast_wire::v1::chat::{
    Accepted, AgentChoice, Changed, ChatEvent, ChatMessage, ChatReply, ChatRequest, Content, ConversationInfo, Conversations,
    GatewayStatus, GenerationInfo, LineBody, Opened, Part, Shown, Standing, TextBody, TurnInfo, TurnKind, TurnOutcome, TurnState,
    WordsBody,
};
use outlast_wire::v1::{Done, Error, ErrorKind, Hello};
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// The time of every event.
pub const AT: Time = Time::from_micros(1_700_000_000_000_000);

/// What goes wrong with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The gateway is killed before it looks at the request.
    DieBefore,
    /// The gateway carries the request out, and is killed before it answers.
    DieAfter,
    /// The gateway answers with this text instead of a frame's JSON.
    Garble(&'static str),
    /// The gateway answers that it is shutting down, and ends.
    RefuseAndLeave,
}

#[derive(Default)]
struct Book {
    conversations: BTreeMap<String, Conversation>,
    next_turn: u64,
    next_part: u64,
    /// All requests in order, across restarts.
    asked: Vec<ChatRequest>,
    /// What goes wrong with the next requests of an operation.
    faults: Vec<(&'static str, Fault)>,
    drained: bool,
    followers: Vec<Follower>,
    waiters: Vec<Waiter>,
    /// Turns are answered at once with their message, unless this is set.
    holds_turns: bool,
}

struct Conversation {
    info: ConversationInfo,
    turns: Vec<TurnInfo>,
    parts: Vec<Part>,
    seen: Option<u64>,
}

struct Follower {
    key: String,
    of: u64,
    to: Arc<Mutex<UnixStream>>,
    is_attended: bool,
}

struct Waiter {
    key: String,
    turn: u64,
    of: u64,
    to: Arc<Mutex<UnixStream>>,
}

/// One run of the gateway.
struct Life {
    connections: Vec<UnixStream>,
    is_over: bool,
}

/// The gateway of a home.
pub struct FakeGateway {
    /// Held so that no real gateway is started beside this one.
    _lock: Option<File>,
    home: PathBuf,
    book: Arc<(Mutex<Book>, Condvar)>,
    life: Arc<Mutex<Life>>,
}

impl FakeGateway {
    /// Listens in a home. Creates a directory for sockets if there is none.
    pub fn start(home: &Path) -> Self {
        let gateway = Self {
            _lock: None,
            home: home.into(),
            book: Arc::new((Mutex::new(Book { next_turn: 1, next_part: 1, ..Book::default() }), Condvar::new())),
            life: Arc::new(Mutex::new(Life { connections: Vec::new(), is_over: true })),
        };
        std::fs::create_dir_all(home).expect("a home");
        if !home.join("run").exists() {
            std::fs::create_dir(home.join("run.d")).expect("a directory");
            symlink(home.join("run.d"), home.join("run")).expect("a link");
        }
        gateway.listen();
        gateway
    }

    /// The same as the only gateway of the home, also while it does not listen: a real one that a client starts finds the lock
    /// held, and the client waits for this one.
    pub fn alone(home: &Path) -> Self {
        let mut gateway = Self::start(home);
        let lock = File::create(home.join("gateway.lock")).expect("a lock file");
        flock(&lock, FlockOperation::NonBlockingLockExclusive).expect("a lock that is free");
        gateway._lock = Some(lock);
        gateway
    }

    /// Listens again, with all its data.
    pub fn listen(&self) {
        *lock(&self.life) = Life { connections: Vec::new(), is_over: false };
        let listener = UnixListener::bind(self.socket()).expect("a socket");
        let (book, life, home) = (self.book.clone(), self.life.clone(), self.home.clone());
        let socket = self.socket();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                if lock(&life).is_over {
                    return;
                }
                let mut served = Connection {
                    book: book.clone(),
                    life: life.clone(),
                    home: home.clone(),
                    socket: socket.clone(),
                    to: Arc::new(Mutex::new(stream.try_clone().expect("a descriptor"))),
                };
                lock(&life).connections.push(stream.try_clone().expect("a descriptor"));
                std::thread::spawn(move || served.serve(stream));
            }
        });
    }

    /// Ends it as `kill -9` would.
    pub fn kill(&self) {
        kill(&self.life, &self.socket(), &self.book);
    }

    fn socket(&self) -> PathBuf {
        self.home.join("run/gateway")
    }

    /// Lets the next request of this operation, such as `send`, go wrong. Several are used in order.
    pub fn fail_next(&self, op: &'static str, fault: Fault) {
        lock(&self.book.0).faults.push((op, fault));
    }

    /// Turns stay running until the test finishes them.
    pub fn hold_turns(&self) {
        lock(&self.book.0).holds_turns = true;
    }

    /// All requests that it received.
    pub fn asked(&self) -> Vec<ChatRequest> {
        lock(&self.book.0).asked.clone()
    }

    /// Waits for a request, and returns it.
    pub fn wait_for(&self, what: &str, is_so: impl Fn(&ChatRequest) -> bool) -> ChatRequest {
        let deadline = Instant::now() + crate::product::PATIENCE;
        let mut book = lock(&self.book.0);
        loop {
            if let Some(found) = book.asked.iter().rev().find(|request| is_so(request)) {
                return found.clone();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "never asked: {what}, but {:?}", book.asked);
            book = self.book.1.wait_timeout(book, left).expect("nothing panics while it is held").0;
        }
    }

    /// Waits until this many terminals follow a session.
    pub fn wait_for_followers(&self, key: &str, count: usize) {
        let deadline = Instant::now() + crate::product::PATIENCE;
        while self.followers(key).len() != count {
            assert!(Instant::now() < deadline, "never followed by {count}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// For each terminal that follows a session, whether a person uses it.
    pub fn followers(&self, key: &str) -> Vec<bool> {
        lock(&self.book.0).followers.iter().filter(|f| f.key == key).map(|f| f.is_attended).collect()
    }

    /// The turns of a session.
    pub fn turns(&self, key: &str) -> Vec<TurnInfo> {
        lock(&self.book.0).conversations.get(key).map(|c| c.turns.clone()).unwrap_or_default()
    }

    /// Writes a part, and sends it to the followers.
    pub fn part(&self, key: &str, turn: Option<u64>, content: &Content) -> u64 {
        lock(&self.book.0).part(key, turn, content)
    }

    /// Sends a piece of a reply to the followers.
    pub fn draft(&self, key: &str, turn: u64, from: u64, text: &str) {
        lock(&self.book.0).tell(key, &ChatEvent::Draft { turn, attempt: 1, from, text: text.into() });
    }

    /// Changes a turn, and tells its followers and waiting clients.
    pub fn change(&self, key: &str, turn: u64, change: impl FnOnce(&mut TurnInfo)) {
        lock(&self.book.0).change(key, turn, change);
    }

    /// Finishes a turn with a reply.
    pub fn reply(&self, key: &str, turn: u64, text: &str) {
        lock(&self.book.0).reply(key, turn, text);
    }

    /// Changes the standing of a session.
    pub fn stand(&self, key: &str, standing: Standing, strikes: u32) {
        let mut book = lock(&self.book.0);
        let conversation = book.conversation(key);
        (conversation.info.standing, conversation.info.strikes) = (standing.clone(), strikes);
        let generation = conversation.info.generation;
        book.tell(key, &ChatEvent::Standing { standing, strikes, generation });
    }

    /// Deletes all data, as if its database had been removed.
    pub fn forget(&self) {
        let mut book = lock(&self.book.0);
        (book.next_part, book.next_turn) = (1, 1);
        book.conversations.clear();
    }

    /// Sends raw bytes to all followers.
    pub fn say_raw(&self, key: &str, bytes: &[u8]) {
        for follower in lock(&self.book.0).followers.iter().filter(|f| f.key == key) {
            // A follower that has closed the connection receives nothing.
            let _gone = lock(&follower.to).write_all(bytes);
        }
    }
}

impl Drop for FakeGateway {
    fn drop(&mut self) {
        self.kill();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn kill(life: &Mutex<Life>, socket: &Path, book: &(Mutex<Book>, Condvar)) {
    let mut life = lock(life);
    if std::mem::replace(&mut life.is_over, true) {
        return;
    }
    // The accepting thread ends with this connection.
    let _last = UnixStream::connect(socket);
    // A home that was removed has no socket.
    let _gone = std::fs::remove_file(socket);
    for stream in life.connections.drain(..) {
        // The client may have closed it already.
        let _gone = stream.shutdown(std::net::Shutdown::Both);
    }
    let mut book = lock(&book.0);
    book.followers.clear();
    book.waiters.clear();
}

impl Book {
    fn conversation(&mut self, key: &str) -> &mut Conversation {
        self.conversations.entry(key.to_owned()).or_insert_with(|| Conversation {
            info: ConversationInfo::new(key, key.rsplit(':').next().unwrap_or(key), 1),
            turns: Vec::new(),
            parts: Vec::new(),
            seen: None,
        })
    }

    fn tell(&mut self, key: &str, event: &ChatEvent) {
        self.followers
            .retain(|f| f.key != key || lock(&f.to).write_all(&frame::json(&ChatReply::<Value>::event(f.of, event.clone()))).is_ok());
    }

    fn part(&mut self, key: &str, turn: Option<u64>, content: &Content) -> u64 {
        let id = self.next_part;
        self.next_part += 1;
        let part = Part::new(id, turn, 1, content, AT);
        self.conversation(key).parts.push(part.clone());
        self.tell(key, &ChatEvent::Part { part: Box::new(part) });
        id
    }

    fn change(&mut self, key: &str, turn: u64, change: impl FnOnce(&mut TurnInfo)) {
        let conversation = self.conversation(key);
        let Some(found) = conversation.turns.iter_mut().find(|t| t.id == turn) else { panic!("no turn {turn}") };
        change(found);
        let found = found.clone();
        conversation.info.open_turns = conversation.turns.iter().filter(|t| !t.is_finished()).count() as u64;
        self.tell(key, &ChatEvent::Turn { turn: Box::new(found.clone()) });
        if found.is_finished() {
            self.waiters.retain(|w| {
                let is_his = w.key == key && w.turn == turn;
                if is_his {
                    // A client that has closed the connection no longer waits.
                    let _gone = lock(&w.to).write_all(&frame::json(&ChatReply::answer(w.of, found.clone())));
                }
                !is_his
            });
        }
    }

    fn reply(&mut self, key: &str, turn: u64, text: &str) {
        self.part(key, Some(turn), &Content::Text(TextBody::new(text)));
        self.change(key, turn, |t| {
            (t.state, t.outcome, t.reply) = (TurnState::Finished, Some(TurnOutcome::Completed), Some(text.into()));
            t.finished_at = Some(AT);
        });
    }

    fn accept(&mut self, key: &str, message_id: &str, words: &str) -> Accepted {
        let (holds, next) = (self.holds_turns, self.next_turn);
        let conversation = self.conversation(key);
        if let Some(known) = conversation.turns.iter().find(|t| t.cause == message_id) {
            return Accepted::new(known.id, known.state.clone());
        }
        let ahead = conversation.turns.iter().filter(|t| !t.is_finished()).count() as u32;
        let mut turn = TurnInfo::queued(next, TurnKind::Message, message_id);
        (turn.words, turn.accepted_at) = (Some(words.into()), Some(AT));
        conversation.turns.push(turn);
        self.next_turn += 1;
        self.part(key, Some(next), &Content::Words(WordsBody::new(words, message_id)));
        self.change(key, next, |t| {
            if ahead == 0 {
                (t.state, t.attempt, t.started_at) = (TurnState::Running, 1, Some(AT));
            }
        });
        let mut accepted = Accepted::new(next, if ahead == 0 { TurnState::Running } else { TurnState::Queued });
        accepted.ahead = ahead;
        if !holds {
            self.reply(key, next, &format!("you said: {words}"));
        }
        accepted
    }
}

struct Connection {
    book: Arc<(Mutex<Book>, Condvar)>,
    life: Arc<Mutex<Life>>,
    home: PathBuf,
    socket: PathBuf,
    to: Arc<Mutex<UnixStream>>,
}

impl Connection {
    fn serve(&mut self, mut from: UnixStream) {
        let (mut splitter, mut buffer) = (Splitter::default(), vec![0; 64 << 10]);
        loop {
            match from.read(&mut buffer) {
                Ok(0) | Err(_) => break,
                Ok(n) => splitter.push(&buffer[..n]),
            }
            while let Ok(Some(frame)) = splitter.next_frame() {
                let Frame::Json(text) = frame else { panic!("bytes that no request announced") };
                let message: ChatMessage = serde_json::from_slice(&text).expect("a message");
                if !self.on_message(message) {
                    return;
                }
            }
        }
        lock(&self.book.0).followers.retain(|f| !Arc::ptr_eq(&f.to, &self.to));
    }

    /// Returns whether to continue.
    fn on_message(&mut self, ChatMessage { id, request, .. }: ChatMessage) -> bool {
        let op = serde_json::to_value(&request).expect("it serialises")["op"].as_str().expect("a word").to_owned();
        let fault = {
            let mut book = lock(&self.book.0);
            book.asked.push(request.clone());
            self.book.1.notify_all();
            let at = book.faults.iter().position(|(of, _)| *of == op);
            at.map(|at| book.faults.remove(at).1)
        };
        match fault {
            Some(Fault::DieBefore) => return self.die(),
            Some(Fault::Garble(text)) => {
                let mut bytes = vec![0; 4];
                bytes.push(0);
                bytes.extend_from_slice(text.as_bytes());
                let length = u32::try_from(bytes.len() - 4).expect("a short text");
                bytes[..4].copy_from_slice(&length.to_le_bytes());
                self.say(&bytes);
                return true;
            }
            Some(Fault::RefuseAndLeave) => {
                self.refuse(id, Error::new(ErrorKind::Unavailable, code::STOPPING, "the gateway is ending", "ask again"));
                return self.die();
            }
            Some(Fault::DieAfter) => {
                // Its answer is not sent.
                self.to = Arc::new(Mutex::new(UnixStream::pair().expect("a pair").0));
                self.answer(id, request);
                return self.die();
            }
            None => {}
        }
        self.answer(id, request);
        true
    }

    fn die(&self) -> bool {
        kill(&self.life, &self.socket, &self.book);
        false
    }

    fn say(&self, bytes: &[u8]) {
        // A client that has closed the connection receives nothing.
        let _gone = lock(&self.to).write_all(bytes);
    }

    fn done<T: Serialize>(&self, of: u64, answer: T) {
        self.say(&frame::json(&ChatReply::answer(of, answer)));
    }

    fn refuse(&self, of: u64, error: Error) {
        self.say(&frame::json(&ChatReply::<Value>::error(of, error)));
    }

    fn answer(&self, id: u64, request: ChatRequest) {
        let mut book = lock(&self.book.0);
        match request {
            ChatRequest::Hello { .. } => {
                let home = Some(self.home.as_path().into());
                self.done(id, Hello { version: 1, program: "fake".into(), pid: std::process::id(), home });
            }
            ChatRequest::Open { key, agent, .. } => {
                let is_new = !book.conversations.contains_key(&key);
                let conversation = book.conversation(&key);
                if let Some(agent) = agent {
                    conversation.info.agent = Some(match agent {
                        AgentChoice::Command(line) => format!("command `{line}`"),
                        AgentChoice::Agent(name) => name,
                        other => format!("{other:?}"),
                    });
                }
                let mut opened = Opened::new(conversation.info.clone());
                opened.is_new = is_new;
                (opened.last_part, opened.seen_part) = (conversation.parts.last().map(|p| p.id), conversation.seen);
                self.done(id, opened);
            }
            ChatRequest::Send { key, message_id, words, .. } => {
                let accepted = book.accept(&key, &message_id, &words);
                self.done(id, accepted);
            }
            ChatRequest::Follow { key, after, context, is_attended } => {
                let conversation = book.conversation(&key);
                let first = conversation.parts.iter().position(|p| Some(p.id) > after).unwrap_or(conversation.parts.len());
                let from = first.saturating_sub(context as usize);
                let parts = conversation.parts[from..].iter().map(|p| ChatEvent::Part { part: Box::new(p.clone()) });
                let open = conversation.turns.iter().filter(|t| !t.is_finished()).map(|t| ChatEvent::Turn { turn: Box::new(t.clone()) });
                let last_part = conversation.parts.last().map(|p| p.id);
                for event in parts.chain(open).chain([ChatEvent::CaughtUp { last_part }]) {
                    self.say(&frame::json(&ChatReply::<Value>::event(id, event)));
                }
                book.followers.push(Follower { key, of: id, to: self.to.clone(), is_attended });
            }
            ChatRequest::Stop { key, .. } => {
                let running = book.conversation(&key).turns.iter().find(|t| !t.is_finished()).map(|t| t.id);
                let said = match running {
                    Some(turn) => {
                        book.change(&key, turn, |t| {
                            (t.state, t.outcome) = (TurnState::Finished, Some(TurnOutcome::Cancelled));
                            t.why = Some("stopped".into());
                        });
                        "the turn was stopped"
                    }
                    None => "no turn runs",
                };
                let info = &book.conversation(&key).info;
                self.done(id, Changed::new(info.standing.clone(), info.generation, said));
            }
            ChatRequest::New { key, .. } => {
                let conversation = book.conversation(&key);
                conversation.info.generation += 1;
                conversation.turns.clear();
                let generation = conversation.info.generation;
                book.part(&key, None, &Content::Line(LineBody::new("a new conversation begins", "new")));
                self.done(id, Changed::new(Standing::Active, generation, "a new conversation begins"));
            }
            ChatRequest::Resume { key, .. } | ChatRequest::Allow { key, .. } => {
                let info = &book.conversation(&key).info;
                self.done(id, Changed::new(Standing::Active, info.generation, "done"));
            }
            ChatRequest::Seen { key, part } => {
                let seen = &mut book.conversation(&key).seen;
                *seen = (*seen).max(Some(part));
                self.done(id, Done::ok());
            }
            ChatRequest::List => {
                self.done(id, Conversations::new(book.conversations.values().map(|c| c.info.clone()).collect()));
            }
            ChatRequest::Show { key, .. } => match book.conversations.get(&key) {
                Some(conversation) => {
                    let mut shown = Shown::new(conversation.info.clone(), conversation.turns.clone());
                    let current = conversation.info.generation;
                    shown.generations = (1..=current).map(|number| GenerationInfo::new(number, AT)).collect();
                    shown.generations.iter_mut().filter(|of| of.generation < current).for_each(|of| of.ended_at = Some(AT));
                    self.done(id, shown);
                }
                None => {
                    self.refuse(id, Error::new(ErrorKind::Refusal, code::NO_CONVERSATION, format!("there is no conversation {key}"), ""))
                }
            },
            ChatRequest::Wait { key, turn, .. } => {
                match book.conversation(&key).turns.iter().find(|t| t.id == turn) {
                    Some(found) if found.is_finished() => self.done(id, found),
                    // The client measures the timeout itself.
                    Some(_) => book.waiters.push(Waiter { key, turn, of: id, to: self.to.clone() }),
                    None => self.refuse(id, Error::new(ErrorKind::Refusal, code::NO_CONVERSATION, format!("there is no turn {turn}"), "")),
                }
            }
            ChatRequest::Status => {
                let mut status = GatewayStatus::new(std::process::id(), "0.1.0", self.home.to_string_lossy(), AT);
                let turns = || book.conversations.values().flat_map(|c| &c.turns);
                status.running = turns().filter(|t| t.state == TurnState::Running).count() as u64;
                status.idle = turns().all(TurnInfo::is_finished);
                (status.draining, status.terminals) = (book.drained, book.followers.len() as u64);
                self.done(id, status);
            }
            ChatRequest::Drain { .. } | ChatRequest::Undrain => {
                book.drained = matches!(request, ChatRequest::Drain { .. });
                self.done(id, Done::ok());
            }
            ChatRequest::Restart { .. } | ChatRequest::Shutdown { .. } => {
                self.done(id, Done::ok());
                drop(book);
                self.die();
            }
            ChatRequest::Cancel { of } => book.followers.retain(|f| f.of != of || !Arc::ptr_eq(&f.to, &self.to)),
        }
    }
}
