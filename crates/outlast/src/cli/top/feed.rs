//! What comes from outside: lists, output, and what became of what was asked for. One task for each, and one queue of news.

use super::act::Act;
use super::lines::{Piece, Words};
use super::reading::{Part, Reader, Way};
use crate::cli::{ending, left_running};
use crate::os::{Sampler, Usage};
use outlast_client::{At, Caller, Client, ClientError, Kill, Killed, Owner, ProcessId, ProcessInfo, Reason, Scope, Status, code};
use outlast_text::Redactor;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};

/// How much news may wait to be looked at; whoever has more waits.
const QUEUE: usize = 64;
/// An engine that says nothing for so long is not there, as far as a person can tell.
const SILENCE: Duration = Duration::from_secs(2);
/// How long a reader that failed waits before it tries again.
const AGAIN: Duration = Duration::from_secs(1);

/// Something to know.
pub(super) enum News {
    /// What there is, what the trees of those that run use, by pid, and when that was so.
    Listed { processes: Vec<ProcessInfo>, usage: HashMap<u32, Usage>, at: Instant },
    /// Why there is no list.
    Trouble(String),
    /// Output as it comes; `fresh` if it is not the continuation of what came before.
    Output { of: u64, piece: Piece, fresh: bool },
    /// A part that was asked for.
    Part { of: u64, part: Part, piece: Piece },
    /// How far a search has come.
    Searched { of: u64, at: u64 },
    /// The end of a search.
    Found { of: u64, at: Option<u64> },
    /// What could not be read.
    Unread { of: u64, why: String },
    /// What became of something that was done: a sentence for each process, and the process that was started, if one was.
    Did { act: Act, results: Vec<(ProcessId, Result<String, String>)>, started: Option<ProcessId> },
    /// What became of a line that was typed, or of the end of input.
    Typed(Result<&'static str, String>),
}

/// Whom to tell, and about which of the things that were asked for.
#[derive(Clone)]
pub(super) struct Tell {
    of: u64,
    to: mpsc::Sender<News>,
}

impl Tell {
    /// Output as it comes. Whether somebody listens.
    pub(super) async fn output(&self, piece: Piece, fresh: bool) -> bool {
        self.news(News::Output { of: self.of, piece, fresh }).await
    }

    /// How far a search is. Not worth waiting for: the next word about it comes soon.
    pub(super) fn searched(&self, at: u64) {
        let _next_time = self.to.try_send(News::Searched { of: self.of, at });
    }

    async fn news(&self, news: News) -> bool {
        self.to.send(news).await.is_ok()
    }
}

/// Which processes are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) scope: Scope,
    pub(super) all: bool,
}

/// The tasks.
pub(super) struct Feed {
    client: Client,
    redact: Arc<Redactor>,
    to: mpsc::Sender<News>,
    from: mpsc::Receiver<News>,
    wanted: watch::Sender<Wanted>,
    reader: Option<Arc<Reader>>,
    listing: JoinSet<()>,
    reading: JoinSet<()>,
    searching: JoinSet<()>,
    asking: JoinSet<()>,
    /// What is asked for there.
    asked: Vec<(String, AbortHandle)>,
}

impl Feed {
    /// Lists from now on, every so often.
    pub(super) fn new(client: &Client, redact: Arc<Redactor>, wanted: Wanted, every: Duration) -> Self {
        // Without an owner: what is shown here must not count as seen by the session of the shell.
        let client = client.with_owner(Owner::default());
        let (to, from) = mpsc::channel(QUEUE);
        let (wanted, asked) = watch::channel(wanted);
        let mut listing = JoinSet::new();
        listing.spawn(list(client.clone(), asked, every, to.clone()));
        let (reading, searching, asking) = (JoinSet::new(), JoinSet::new(), JoinSet::new());
        Self { client, redact, to, from, wanted, reader: None, listing, reading, searching, asking, asked: Vec::new() }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// The next news. May be dropped while it waits.
    pub(super) async fn next(&mut self) -> News {
        loop {
            let done = tokio::select! {
                Some(news) = self.from.recv() => return news,
                Some(done) = self.listing.join_next() => done,
                Some(done) = self.reading.join_next() => done,
                Some(done) = self.searching.join_next() => done,
                Some(done) = self.asking.join_next() => done,
            };
            // A panic there is a panic here; one that was called off has nothing to say.
            if let Err(e) = done
                && let Ok(panic) = e.try_into_panic()
            {
                std::panic::resume_unwind(panic);
            }
        }
    }

    /// Asks for others from now on, at once.
    pub(super) fn list(&self, wanted: Wanted) {
        self.wanted.send_replace(wanted);
    }

    /// Asks again at once.
    pub(super) fn look_again(&self) {
        self.wanted.send_modify(|_| ());
    }

    /// Follows the end of a log, instead of whatever was read before.
    pub(super) fn follow(&mut self, id: ProcessId, of: u64) {
        let (reader, tell) = (self.reader(id), Tell { of, to: self.to.clone() });
        self.reading = JoinSet::new();
        self.reading.spawn(async move {
            while let Err(e) = reader.follow(&tell).await {
                let is_heard = tell.news(News::Unread { of, why: said(&e) }).await;
                if !is_heard || matches!(e, ClientError::Refused(_)) {
                    return;
                }
                // What is wrong may be over soon, and nothing tells when.
                tokio::time::sleep(AGAIN).await;
            }
        });
    }

    /// Reads a part of a log, instead of whatever was read before.
    pub(super) fn read(&mut self, id: ProcessId, part: Part, of: u64) {
        let (reader, tell) = (self.reader(id), Tell { of, to: self.to.clone() });
        self.reading = JoinSet::new();
        self.reading.spawn(async move {
            let news = match reader.part(part).await {
                Ok(piece) => News::Part { of, part, piece },
                Err(e) => News::Unread { of, why: said(&e) },
            };
            tell.news(news).await;
        });
    }

    /// Looks for something, instead of what was looked for before.
    pub(super) fn search(&mut self, id: ProcessId, words: Words, way: Way, of: u64) {
        let (reader, tell) = (self.reader(id), Tell { of, to: self.to.clone() });
        self.stop_searching();
        self.searching.spawn(async move {
            let news = match reader.search(&words, way, &tell).await {
                Ok(at) => News::Found { of, at },
                Err(e) => News::Unread { of, why: said(&e) },
            };
            tell.news(news).await;
        });
    }

    pub(super) fn stop_searching(&mut self) {
        self.searching = JoinSet::new();
    }

    /// Follows no more.
    pub(super) fn pause(&mut self) {
        self.reading = JoinSet::new();
    }

    /// Reads nothing any more.
    pub(super) fn let_go(&mut self) {
        self.stop_searching();
        self.pause();
        self.reader = None;
    }

    /// Does something to processes, to all at the same time.
    pub(super) fn act(&mut self, act: Act, ids: Vec<ProcessId>, with: &With) {
        let (client, to, with) = (self.client.clone(), self.to.clone(), with.clone());
        self.ask(act.request(&ids), async move {
            let mut requests = JoinSet::new();
            for (at, id) in ids.iter().copied().enumerate() {
                let (client, with) = (client.clone(), with.clone());
                requests.spawn(async move { (at, id, act_on(&client, act, id, with).await) });
            }
            let mut done = requests.join_all().await;
            done.sort_by_key(|(at, ..)| *at);
            let mut started = None;
            let results = done.into_iter().map(|(_, id, result)| {
                let result = result.map(|done| {
                    started = done.started.or(started);
                    done.sentence
                });
                (id, result)
            });
            let results = results.collect();
            // The user may have left and stopped waiting.
            let _left = to.send(News::Did { act, results, started }).await;
        });
    }

    /// Types a line into a process.
    pub(super) fn submit(&mut self, id: ProcessId, line: String) {
        let (client, to) = (self.client.clone(), self.to.clone());
        self.ask(format!("the line for {id}"), async move {
            let typed = client.submit(&id.to_string(), line.as_bytes(), At::End).await;
            let _left = to.send(News::Typed(typed.map(|_| "the line was sent").map_err(|e| said(&e)))).await;
        });
    }

    /// Ends the input of a process.
    pub(super) fn close(&mut self, id: ProcessId) {
        let (client, to) = (self.client.clone(), self.to.clone());
        self.ask(format!("the end of input of {id}"), async move {
            let closed = client.close(&id.to_string()).await;
            let _left = to.send(News::Typed(closed.map(|_| "its input was ended").map_err(|e| said(&e)))).await;
        });
    }

    fn ask(&mut self, what: String, task: impl Future<Output = ()> + Send + 'static) {
        self.asked.retain(|(_, task)| !task.is_finished());
        self.asked.push((what, self.asking.spawn(task)));
    }

    /// Waits for what was asked for, as long as an engine may take. What became of it, and what is still under way.
    pub(super) async fn finish(&mut self) -> (Vec<News>, Vec<&str>) {
        (self.listing, self.reading, self.searching) = Default::default();
        let mut news = Vec::new();
        let finished = async {
            loop {
                tokio::select! {
                    Some(one) = self.from.recv() => news.push(one),
                    done = self.asking.join_next() => if done.is_none() { break },
                }
            }
        };
        // What is under way then is told.
        let _is_in_time = tokio::time::timeout(SILENCE, finished).await;
        news.extend(std::iter::from_fn(|| self.from.try_recv().ok()));
        let under_way = self.asked.iter().filter(|(_, task)| !task.is_finished()).map(|(what, _)| &**what).collect();
        (news, under_way)
    }

    fn reader(&mut self, id: ProcessId) -> Arc<Reader> {
        let id = id.to_string();
        match &self.reader {
            Some(reader) if reader.id == id => reader.clone(),
            _ => {
                let reader = Arc::new(Reader::new(self.client.clone(), id, self.redact.clone()));
                self.reader = Some(reader.clone());
                reader
            }
        }
    }
}

/// What acts need besides the processes: how to stop, and the surroundings of a command that is started.
#[derive(Clone)]
pub(super) struct With {
    pub(super) kill: Kill,
    pub(super) caller: Arc<Caller>,
}

/// What an act on one process came to.
struct ActDone {
    sentence: String,
    started: Option<ProcessId>,
}

async fn act_on(client: &Client, act: Act, id: ProcessId, with: With) -> Result<ActDone, String> {
    let name = id.to_string();
    let done = |sentence: String| Ok(ActDone { sentence, started: None });
    match act {
        Act::Stop => match client.kill(&name, with.kill).await {
            Ok(killed) => done(stopped(&killed)),
            Err(ClientError::Refused(e)) if e.code == code::ALREADY_EXITED && e.stopped_left.is_some() => {
                let left = e.stopped_left.unwrap_or_default();
                match left.warning {
                    Some(warning) => Err(warning),
                    None => done(format!("stopped what {id} had left running: {}", left_running::named(&left.left_killed))),
                }
            }
            Err(e) => Err(said(&e)),
        },
        Act::Remove => match client.remove(&name).await {
            Ok(_) => done(format!("{id} was removed")),
            Err(e) => Err(said(&e)),
        },
        Act::Signal(signal) => match client.signal(&name, signal.number).await {
            Ok(_) => done(format!("{id} was sent {}", signal.name)),
            Err(e) => Err(said(&e)),
        },
        Act::Rerun => match client.rerun(&name, (*with.caller).clone(), Vec::new()).await {
            Ok(info) if info.fate.completion_reason == Some(Reason::FailedStart) => Err(ending::sentence(&info.fate)),
            Ok(info) => Ok(ActDone { sentence: format!("{id} runs again as {}", info.session_id), started: Some(info.session_id) }),
            Err(e) => Err(said(&e)),
        },
    }
}

/// What became of a stop, in words that fit a small screen.
fn stopped(killed: &Killed) -> String {
    let how = match (&killed.fate.signal, killed.fate.exit_code.flatten()) {
        (Some(signal), _) => format!(" by {signal}"),
        (None, Some(code)) => format!(" and exited {code}"),
        (None, None) => String::new(),
    };
    let tree = killed.seen_dead.filter(|n| *n > 1).map(|n| format!(", {n} processes in all")).unwrap_or_default();
    let warning = killed.warning.as_ref().map(|warning| format!("; {warning}")).unwrap_or_default();
    format!("{} was stopped{how}{tree}{warning}", killed.session_id)
}

fn said(error: &ClientError) -> String {
    match error.hint() {
        "" => error.to_string(),
        hint => format!("{error}; {hint}"),
    }
}

/// Lists again and again: one request at a time, and one look at `/proc` for all that run.
async fn list(client: Client, mut wanted: watch::Receiver<Wanted>, every: Duration, to: mpsc::Sender<News>) {
    let mut sampler = Sampler::default();
    loop {
        let now = wanted.borrow_and_update().clone();
        let news = match answer(&client, &now, &to).await {
            Ok(processes) => {
                let roots: Vec<u32> = processes.iter().filter(|p| p.status == Status::Running).filter_map(|p| p.pid).collect();
                let look = move || {
                    let usage = sampler.sample(&roots);
                    (sampler, usage)
                };
                match tokio::task::spawn_blocking(look).await {
                    Ok((again, usage)) => {
                        sampler = again;
                        News::Listed { processes, usage, at: Instant::now() }
                    }
                    Err(panic) => std::panic::resume_unwind(panic.into_panic()),
                }
            }
            Err(e) => News::Trouble(e.to_string()),
        };
        if to.send(news).await.is_err() {
            return;
        }
        tokio::select! {
            // Ages and usage change by themselves, and nothing tells of that.
            () = tokio::time::sleep(every) => {}
            changed = wanted.changed() => if changed.is_err() { return },
        }
    }
}

async fn answer(client: &Client, wanted: &Wanted, to: &mpsc::Sender<News>) -> Result<Vec<ProcessInfo>, ClientError> {
    let listing = client.list(&wanted.scope, wanted.all);
    tokio::pin!(listing);
    if let Ok(answer) = tokio::time::timeout(SILENCE, &mut listing).await {
        return marked(answer);
    }
    // Nobody listens any more; then there is nobody to tell.
    let _left = to.send(News::Trouble("the engine does not answer".into())).await;
    marked(listing.await)
}

fn marked(mut answer: Result<Vec<ProcessInfo>, ClientError>) -> Result<Vec<ProcessInfo>, ClientError> {
    if let Ok(processes) = &mut answer {
        ending::mark_suspended(processes);
    }
    answer
}
