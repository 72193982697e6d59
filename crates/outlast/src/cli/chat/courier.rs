//! Carries what a person wants to the gateway, one thing after the other, and brings back what became of it.

use super::read::{ChatReader, ShownBy};
use super::{Failure, failed, is_passing};
use crate::cli::chat::ChatName;
use outlast_client::{Chat, ClientError, Setup};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// How many wishes may wait. A person who has more hears a bell.
const MAX_WISHES: usize = 64;
/// How long to wait before a message is sent again for which there was no gateway.
const SEND_AGAIN_PAUSE: Duration = Duration::from_secs(1);
/// How long what was asked for last may take when the person leaves.
const LEAVE_LIMIT: Duration = Duration::from_secs(5);

/// What a person wants of the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ChatWish {
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
    /// A person was shown everything up to this part.
    Seen(u64),
}

/// What became of it.
#[derive(Debug)]
pub(super) enum ChatNews {
    /// Something to know, in a sentence.
    Said(String),
    /// It was not done.
    Failed(String),
    /// A message was refused, and why.
    Unsent {
        message_id: String,
        why: String,
    },
    Status(Box<ShownBy>),
    History(Box<ShownBy>),
}

/// The task that carries wishes.
pub(super) struct Courier {
    wishes: mpsc::Sender<ChatWish>,
    news: mpsc::Receiver<ChatNews>,
    task: JoinHandle<()>,
}

impl Courier {
    pub(super) fn new(chat: Chat, reader: ChatReader, name: ChatName, setup: Setup) -> Self {
        let (wishes, mut asked) = mpsc::channel(MAX_WISHES);
        let (tell, news) = mpsc::channel(MAX_WISHES);
        let task = tokio::spawn(async move {
            let carrier = Carrier { chat, reader, name, setup, tell };
            while let Some(wish) = asked.recv().await {
                carrier.carry(wish).await;
            }
        });
        Self { wishes, news, task }
    }

    /// Takes a wish on; `false` if too many wait.
    pub(super) fn ask(&self, wish: ChatWish) -> bool {
        self.wishes.try_send(wish).is_ok()
    }

    /// What became of a wish. May be dropped while it waits.
    pub(super) async fn next(&mut self) -> ChatNews {
        match self.news.recv().await {
            Some(news) => news,
            // The task ends with us, not before.
            None => std::future::pending().await,
        }
    }

    /// Waits a little for what was asked for last; `false` if something was not done.
    pub(super) async fn finish(self) -> bool {
        let Self { wishes, mut news, mut task } = self;
        drop(wishes);
        let done = async {
            loop {
                tokio::select! {
                    ended = &mut task => return ended.is_ok(),
                    // Its reader has left.
                    Some(_unread) = news.recv() => {}
                }
            }
        };
        let is_done = tokio::time::timeout(LEAVE_LIMIT, done).await.unwrap_or(false);
        task.abort();
        is_done
    }
}

struct Carrier {
    chat: Chat,
    /// For what must not start a gateway that a person has stopped.
    reader: ChatReader,
    name: ChatName,
    setup: Setup,
    tell: mpsc::Sender<ChatNews>,
}

impl Carrier {
    async fn carry(&self, wish: ChatWish) {
        let (chat, key) = (&self.chat, self.name.key.as_str());
        let news = match wish {
            ChatWish::Say { message_id, words } => self.say(&message_id, &words).await,
            ChatWish::Stop => self.told(chat.stop(key).await.map(|changed| changed.said)),
            ChatWish::New => self.told(chat.start_anew(key).await.map(|changed| changed.said)),
            ChatWish::Resume(None) => self.told(chat.resume(key).await.map(|changed| changed.said)),
            ChatWish::Resume(Some(number)) => self.told(chat.resume_generation(key, number).await.map(|changed| changed.said)),
            ChatWish::Allow { permission, option } => match chat.allow(key, &permission, &option).await {
                // The part that has the answer is shown.
                Ok(_) => None,
                Err(e) => self.told(Err(e)),
            },
            ChatWish::Status => Some(self.shown(ChatNews::Status).await),
            ChatWish::History => Some(self.shown(ChatNews::History).await),
            ChatWish::Restart => match chat.restart(None).await {
                Err(e) if e.is_not_running() => Some(ChatNews::Failed("no gateway runs: your next message starts it".into())),
                asked => self.told(asked.map(|_| "the gateway restarts when the turns that run have finished".into())),
            },
            ChatWish::Seen(part) => {
                // The next terminal shows it once more.
                let _unseen = chat.seen(key, part).await;
                None
            }
        };
        if let Some(news) = news {
            // A person who has left needs no news.
            let _gone = self.tell.send(news).await;
        }
    }

    async fn shown(&self, news: impl Fn(Box<ShownBy>) -> ChatNews) -> ChatNews {
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
                        // A person who has left needs no news.
                        let _gone = self.tell.send(news).await;
                    }
                    // No descriptor tells when a gateway can be started again.
                    tokio::time::sleep(SEND_AGAIN_PAUSE).await;
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

    /// What was wrong, and what to do about it.
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
