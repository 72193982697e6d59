//! Sends the user's requests to the gateway, one after the other, and reports the outcomes.

use super::read::{ChatReader, ShownConversation};
use super::{Failure, failed, is_passing};
use crate::cli::chat::ChatName;
use outlast_client::{Chat, ClientError, Setup};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// How many requests may wait. If there are more, the terminal rings.
const MAX_QUEUED_REQUESTS: usize = 64;
/// How long to wait before a message is sent again after the gateway could not be reached.
const RESEND_PAUSE: Duration = Duration::from_secs(1);
/// How long the open requests may take when the user leaves.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(5);

/// A request of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ChatRequest {
    Say {
        message_id: String,
        words: String,
    },
    Stop,
    New,
    Resume(Option<u64>),
    Allow {
        permission: String,
        option: String,
    },
    Status,
    History,
    Restart,
    /// The user was shown everything up to this part.
    Seen(u64),
}

/// The outcome of a request.
#[derive(Debug)]
pub(super) enum ChatNews {
    /// A message from the gateway.
    Said(String),
    /// The request failed.
    Failed(String),
    /// A message was refused, so it is not sent again.
    Unsent {
        message_id: String,
        why: String,
    },
    Status(Box<ShownConversation>),
    History(Box<ShownConversation>),
}

/// The queue of requests, and the task that sends them.
pub(super) struct RequestQueue {
    queue: mpsc::Sender<ChatRequest>,
    news: mpsc::Receiver<ChatNews>,
    task: JoinHandle<()>,
}

impl RequestQueue {
    pub(super) fn new(chat: Chat, reader: ChatReader, name: ChatName, setup: Setup) -> Self {
        let (queue, mut asked) = mpsc::channel(MAX_QUEUED_REQUESTS);
        let (tell, news) = mpsc::channel(MAX_QUEUED_REQUESTS);
        let task = tokio::spawn(async move {
            let sender = RequestSender { chat, reader, name, setup, tell };
            while let Some(request) = asked.recv().await {
                sender.send(request).await;
            }
        });
        Self { queue, news, task }
    }

    /// Queues a request. False if too many wait.
    pub(super) fn ask(&self, request: ChatRequest) -> bool {
        self.queue.try_send(request).is_ok()
    }

    /// The outcome of a request. May be dropped while it waits.
    pub(super) async fn next(&mut self) -> ChatNews {
        match self.news.recv().await {
            Some(news) => news,
            // The task ends with us, not before.
            None => std::future::pending().await,
        }
    }

    /// Waits for the open requests, up to the time limit. False if one was not sent.
    pub(super) async fn finish(self) -> bool {
        let Self { queue, mut news, mut task } = self;
        drop(queue);
        let done = async {
            loop {
                tokio::select! {
                    ended = &mut task => return ended.is_ok(),
                    // The user has left, so outcomes are not shown.
                    Some(_unread) = news.recv() => {}
                }
            }
        };
        let is_done = tokio::time::timeout(LEAVE_TIMEOUT, done).await.unwrap_or(false);
        task.abort();
        is_done
    }
}

/// What the task needs to send a request.
struct RequestSender {
    chat: Chat,
    /// For requests that must not start a gateway that the user stopped.
    reader: ChatReader,
    name: ChatName,
    setup: Setup,
    tell: mpsc::Sender<ChatNews>,
}

impl RequestSender {
    async fn send(&self, request: ChatRequest) {
        let (chat, key) = (&self.chat, self.name.key.as_str());
        let news = match request {
            ChatRequest::Say { message_id, words } => self.say(&message_id, &words).await,
            ChatRequest::Stop => self.told(chat.stop(key).await.map(|changed| changed.said)),
            ChatRequest::New => self.told(chat.start_anew(key).await.map(|changed| changed.said)),
            ChatRequest::Resume(None) => self.told(chat.resume(key).await.map(|changed| changed.said)),
            ChatRequest::Resume(Some(number)) => self.told(chat.resume_generation(key, number).await.map(|changed| changed.said)),
            ChatRequest::Allow { permission, option } => match chat.allow(key, &permission, &option).await {
                // The part with the answer is shown.
                Ok(_) => None,
                Err(e) => self.told(Err(e)),
            },
            ChatRequest::Status => Some(self.shown(ChatNews::Status).await),
            ChatRequest::History => Some(self.shown(ChatNews::History).await),
            ChatRequest::Restart => match chat.restart(None).await {
                Err(e) if e.is_not_running() => Some(ChatNews::Failed("no gateway runs: your next message starts it".into())),
                asked => self.told(asked.map(|done| match done.status.as_str() {
                    "stopping" => "the gateway is being stopped; your next message starts it".into(),
                    _ => "the gateway restarts when the turns that run have finished".into(),
                })),
            },
            ChatRequest::Seen(part) => {
                // If this fails, the next terminal shows the part again.
                let _unseen = chat.seen(key, part).await;
                None
            }
        };
        if let Some(news) = news {
            // The user may have left.
            let _gone = self.tell.send(news).await;
        }
    }

    async fn shown(&self, news: impl Fn(Box<ShownConversation>) -> ChatNews) -> ChatNews {
        match self.reader.show(&self.name, None).await {
            Ok(found) => news(Box::new(found)),
            Err(failure) => ChatNews::Failed(words(&failure)),
        }
    }

    /// Sends a message until it is accepted or refused.
    async fn say(&self, message_id: &str, words: &str) -> Option<ChatNews> {
        let mut is_late = false;
        loop {
            match self.chat.send(&self.name.key, message_id, words, &self.setup).await {
                Ok(accepted) => {
                    let queued = (accepted.ahead > 0).then(|| format!("queued: {} first", turns(accepted.ahead)));
                    let sent = is_late.then(|| "the message is sent now".to_owned());
                    return accepted.note.or(queued).or(sent).map(ChatNews::Said);
                }
                Err(e) if is_passing(&e) => {
                    if !std::mem::replace(&mut is_late, true) {
                        let news = ChatNews::Failed(format!("not sent yet, and tried again: {e}"));
                        // The user may have left.
                        let _gone = self.tell.send(news).await;
                    }
                    // No descriptor says when a gateway can be started again.
                    tokio::time::sleep(RESEND_PAUSE).await;
                }
                Err(e) => return Some(ChatNews::Unsent { message_id: message_id.to_owned(), why: self.reason(e) }),
            }
        }
    }

    fn told(&self, said: Result<String, ClientError>) -> Option<ChatNews> {
        match said {
            Ok(said) => (!said.is_empty()).then_some(ChatNews::Said(said)),
            Err(e) => Some(self.failure(e)),
        }
    }

    fn failure(&self, error: ClientError) -> ChatNews {
        ChatNews::Failed(self.reason(error))
    }

    /// The error and its hint.
    fn reason(&self, error: ClientError) -> String {
        words(&failed(&self.name, error))
    }
}

fn words(failure: &Failure) -> String {
    let hint = if failure.hint().is_empty() { String::new() } else { format!("\n  {}", failure.hint()) };
    format!("{}{hint}", failure.error())
}

fn turns(count: u32) -> String {
    if count == 1 { "1 other turn comes".into() } else { format!("{count} other turns come") }
}
