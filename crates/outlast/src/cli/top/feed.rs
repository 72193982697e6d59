//! Carries out commands in tasks of its own: listing, reading, searching, acts. All tasks report through one queue of news.

use super::act::Act;
use super::command::{ListRequest, LogPart, SearchFrom};
use super::lines::Words;
use super::news::{News, NewsSender};
use super::reading::LogReader;
use crate::cli::{ending, left_running};
use crate::os::Sampler;
use outlast_client::{At, Caller, Client, ClientError, Kill, Killed, Owner, ProcessId, ProcessInfo, Reason, Status, code};
use outlast_text::Redactor;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};

/// How many news wait for the screen. If the queue is full, the tasks wait.
const MAX_QUEUED_NEWS: usize = 64;
/// After this long without an answer the engine is reported as not answering.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a failed reader waits before it retries.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The tasks that carry out commands, and the queue of their news.
pub(super) struct Feed {
    client: Client,
    redact: Arc<Redactor>,
    to: mpsc::Sender<News>,
    from: mpsc::Receiver<News>,
    wanted: watch::Sender<ListRequest>,
    reader: Option<Arc<LogReader>>,
    listing: JoinSet<()>,
    reading: JoinSet<()>,
    searching: JoinSet<()>,
    asking: JoinSet<()>,
    /// The requests that `asking` runs, each with its description.
    asked: Vec<(String, AbortHandle)>,
}

impl Feed {
    /// Starts listing at this interval.
    pub(super) fn new(client: &Client, redact: Arc<Redactor>, wanted: ListRequest, every: Duration) -> Self {
        // Without an owner: what is shown here must not count as seen by the session of the shell.
        let client = client.with_owner(Owner::default());
        let (to, from) = mpsc::channel(MAX_QUEUED_NEWS);
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
            // A panic of a task is a panic here. A task that was aborted reports nothing.
            if let Err(e) = done
                && let Ok(panic) = e.try_into_panic()
            {
                std::panic::resume_unwind(panic);
            }
        }
    }

    /// Lists other processes from now on, at once.
    pub(super) fn list(&self, wanted: ListRequest) {
        self.wanted.send_replace(wanted);
    }

    /// Lists again at once.
    pub(super) fn look_again(&self) {
        self.wanted.send_modify(|_| ());
    }

    /// Follows the end of a log, and stops any other read.
    pub(super) fn follow(&mut self, id: ProcessId, of: u64) {
        let (reader, news) = (self.reader(id), NewsSender::new(of, self.to.clone()));
        self.reading = JoinSet::new();
        self.reading.spawn(async move {
            while let Err(e) = reader.follow(&news).await {
                let is_heard = news.send(News::Unread { of, why: said(&e) }).await;
                if !is_heard || matches!(e, ClientError::Refused(_)) {
                    return;
                }
                // The fault may pass, and no event says when.
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        });
    }

    /// Reads a part of a log, and stops any other read.
    pub(super) fn read(&mut self, id: ProcessId, part: LogPart, of: u64) {
        let (reader, news) = (self.reader(id), NewsSender::new(of, self.to.clone()));
        self.reading = JoinSet::new();
        self.reading.spawn(async move {
            let answer = match reader.part(part).await {
                Ok(piece) => News::Part { of, part, piece },
                Err(e) => News::Unread { of, why: said(&e) },
            };
            news.send(answer).await;
        });
    }

    /// Searches a log, and stops any other search.
    pub(super) fn search(&mut self, id: ProcessId, words: Words, from: SearchFrom, of: u64) {
        let (reader, news) = (self.reader(id), NewsSender::new(of, self.to.clone()));
        self.stop_searching();
        self.searching.spawn(async move {
            let answer = match reader.search(&words, from, &news).await {
                Ok(at) => News::Found { of, at },
                Err(e) => News::Unread { of, why: said(&e) },
            };
            news.send(answer).await;
        });
    }

    pub(super) fn stop_searching(&mut self) {
        self.searching = JoinSet::new();
    }

    /// Stops reading.
    pub(super) fn pause(&mut self) {
        self.reading = JoinSet::new();
    }

    /// Stops reading and searching, and forgets the open process.
    pub(super) fn close_log(&mut self) {
        self.stop_searching();
        self.pause();
        self.reader = None;
    }

    /// Applies an act to all these processes at the same time.
    pub(super) fn act(&mut self, act: Act, ids: Vec<ProcessId>, with: &ActContext) {
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

    /// Submits a line to a process.
    pub(super) fn submit(&mut self, id: ProcessId, line: String) {
        let (client, to) = (self.client.clone(), self.to.clone());
        self.ask(format!("the line for {id}"), async move {
            let typed = client.submit(&id.to_string(), line.as_bytes(), At::End).await;
            let _left = to.send(News::Typed(typed.map(|_| "the line was sent").map_err(|e| said(&e)))).await;
        });
    }

    /// Closes the input of a process.
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

    /// Waits up to the time limit for the answers to all requests. Returns the news, and descriptions of the requests that are still open.
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
        // Requests without an answer by then are returned as open.
        let _is_in_time = tokio::time::timeout(ANSWER_TIMEOUT, finished).await;
        news.extend(std::iter::from_fn(|| self.from.try_recv().ok()));
        let under_way = self.asked.iter().filter(|(_, task)| !task.is_finished()).map(|(what, _)| &**what).collect();
        (news, under_way)
    }

    fn reader(&mut self, id: ProcessId) -> Arc<LogReader> {
        let id = id.to_string();
        match &self.reader {
            Some(reader) if reader.id == id => reader.clone(),
            _ => {
                let reader = Arc::new(LogReader::new(self.client.clone(), id, self.redact.clone()));
                self.reader = Some(reader.clone());
                reader
            }
        }
    }
}

/// What acts need besides the processes: how to stop one, and the environment of a command that is run again.
#[derive(Clone)]
pub(super) struct ActContext {
    pub(super) kill: Kill,
    pub(super) caller: Arc<Caller>,
}

/// The outcome of an act on one process.
struct ActDone {
    sentence: String,
    started: Option<ProcessId>,
}

async fn act_on(client: &Client, act: Act, id: ProcessId, with: ActContext) -> Result<ActDone, String> {
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

/// The outcome of a stop, short enough for a small screen.
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

/// Lists at an interval: one request at a time, and one read of `/proc` for all running processes.
async fn list(client: Client, mut wanted: watch::Receiver<ListRequest>, every: Duration, to: mpsc::Sender<News>) {
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
            // No event announces new ages and usage.
            () = tokio::time::sleep(every) => {}
            changed = wanted.changed() => if changed.is_err() { return },
        }
    }
}

async fn answer(client: &Client, wanted: &ListRequest, to: &mpsc::Sender<News>) -> Result<Vec<ProcessInfo>, ClientError> {
    let listing = client.list(&wanted.scope, wanted.all);
    tokio::pin!(listing);
    if let Ok(answer) = tokio::time::timeout(ANSWER_TIMEOUT, &mut listing).await {
        return marked(answer);
    }
    // If the screen is gone, the report is not needed.
    let _left = to.send(News::Trouble("the engine does not answer".into())).await;
    marked(listing.await)
}

fn marked(mut answer: Result<Vec<ProcessInfo>, ClientError>) -> Result<Vec<ProcessInfo>, ClientError> {
    if let Ok(processes) = &mut answer {
        ending::mark_suspended(processes);
    }
    answer
}
