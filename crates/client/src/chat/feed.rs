//! Following a conversation.

use super::{Chat, RECONNECT_PAUSE};
use crate::ClientError;
use crate::link::{CallError, Cut, Link, Stream, StreamItem};
use crate::peer::{GatewayTalk, Peer};
use crate::redial::{is_ending, to_error};
use outlast_wire::code;
use outlast_wire::v1::chat::{ChatEvent, ChatRequest};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Give up on a gateway that cannot be started after this many attempts in a row.
const MAX_START_ATTEMPTS: u32 = 5;
/// How much longer each pause after a connection that brought nothing is than the one before.
const FRUITLESS_PAUSE: Duration = Duration::from_millis(200);
/// The longest such pause.
const MAX_FRUITLESS_PAUSE: Duration = Duration::from_secs(5);

/// A conversation as it happens, piece by piece.
///
/// If the gateway ends, the next one continues after the last part that arrived: none is missed and none comes twice.
pub struct ChatFeed {
    chat: Chat,
    key: String,
    /// The last part that the reader has, context not counted.
    after: Option<u64>,
    /// The last part that came, context counted.
    last_heard: Option<u64>,
    context: u32,
    is_attended: bool,
    /// No gateway is started for the first connection.
    is_of_running: bool,
    connection: Connection,
    /// Connections in a row that ended before anything came over them, and starts that failed.
    fruitless: u32,
    /// No connection is tried before this time. A caller that drops [`ChatFeed::next`] and calls it again does not wait longer for that.
    not_before: Instant,
}

/// Where the connection of a feed stands.
enum Connection {
    /// None was made yet.
    New,
    /// It is there.
    Open(Stream<GatewayTalk>),
    /// It ended, and the reader knows.
    Lost,
    /// The gateway ended it because the reader did not keep up, and the reader knows.
    Behind,
}

/// What a feed brings.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Heard {
    /// Something happened in the conversation.
    Event(ChatEvent),
    /// The gateway has ended. What happens next comes when there is one again.
    Lost {
        /// How that was noticed.
        why: String,
    },
    /// There is a gateway again.
    Regained,
    /// The reader did not keep up, and events were left out. Every part that is missing comes, and so do the turns that are open.
    FellBehind,
}

impl ChatFeed {
    pub(super) fn new(chat: Chat, key: &str) -> Self {
        Self {
            chat,
            key: key.into(),
            after: None,
            last_heard: None,
            context: 0,
            is_attended: false,
            is_of_running: false,
            connection: Connection::New,
            fruitless: 0,
            not_before: Instant::now(),
        }
    }

    /// The same, after this part.
    #[must_use]
    pub fn after(self, part: Option<u64>) -> Self {
        Self { after: part, ..self }
    }

    /// The same, with this many earlier parts, too.
    #[must_use]
    pub fn with_context(self, parts: u32) -> Self {
        Self { context: parts, ..self }
    }

    /// The same, for a person who can answer questions: the turns of the conversation are attended for as long as this is followed.
    #[must_use]
    pub fn attended(self) -> Self {
        Self { is_attended: true, ..self }
    }

    /// The same, over a gateway that runs: none is started for it. If none runs at the beginning, that is an error.
    #[must_use]
    pub fn of_running(self) -> Self {
        Self { is_of_running: true, ..self }
    }

    /// The last part that arrived: where to continue another time.
    pub fn last_part(&self) -> Option<u64> {
        self.after
    }

    /// What comes next. May be dropped while it waits, and called again.
    pub async fn next(&mut self) -> Result<Heard, ClientError> {
        loop {
            let stream = match &mut self.connection {
                Connection::Open(stream) => stream,
                Connection::New => {
                    self.pause().await;
                    let link = match self.is_of_running {
                        true => self.chat.shared.own_running_link().await?,
                        false => self.chat.shared.own_link().await?,
                    };
                    self.open(&link).await?;
                    continue;
                }
                Connection::Lost => {
                    self.reconnect().await?;
                    return Ok(Heard::Regained);
                }
                Connection::Behind => {
                    self.pause().await;
                    match crate::dial::greet::<GatewayTalk>(self.home()?).await? {
                        Some(link) => self.open(&Arc::new(link)).await?,
                        None => return Ok(self.lose("the gateway has ended")),
                    }
                    continue;
                }
            };
            match stream.next().await {
                StreamItem::Event(event) => {
                    self.fruitless = 0;
                    if let Some(event) = self.pass(event) {
                        return Ok(Heard::Event(event));
                    }
                }
                StreamItem::Raw(_) => {}
                StreamItem::End(_) => return Ok(self.lose("the gateway ended the feed")),
                StreamItem::Failed(CallError::Cut(Cut::Gone(why))) => return Ok(self.lose(&why)),
                StreamItem::Failed(CallError::Refused(e)) if is_ending(&e) => return Ok(self.lose(&e.error)),
                StreamItem::Failed(CallError::Refused(e)) if e.code == code::TOO_SLOW => {
                    self.was_fruitless();
                    self.connection = Connection::Behind;
                    return Ok(Heard::FellBehind);
                }
                StreamItem::Failed(e) => return Err(to_error::<GatewayTalk>(e, "follow the conversation")),
            }
        }
    }

    /// Notes how far an event reaches. Nothing is left of one that came before.
    fn pass(&mut self, event: ChatEvent) -> Option<ChatEvent> {
        match &event {
            ChatEvent::Part { part } => {
                let is_known = Some(part.id) <= self.last_heard || self.context == 0 && Some(part.id) <= self.after;
                if is_known {
                    return None;
                }
                self.last_heard = Some(part.id);
                self.after = self.after.max(Some(part.id));
            }
            ChatEvent::CaughtUp { last_part } => {
                self.context = 0;
                if *last_part < self.after {
                    // The gateway's database is another one than before: its parts begin anew, and all of them are new to the reader.
                    (self.after, self.last_heard) = (None, None);
                    self.connection = Connection::New;
                    return None;
                }
            }
            _ => {}
        }
        Some(event)
    }

    fn lose(&mut self, why: &str) -> Heard {
        self.was_fruitless();
        self.connection = Connection::Lost;
        Heard::Lost { why: why.into() }
    }

    async fn reconnect(&mut self) -> Result<(), ClientError> {
        self.pause().await;
        while matches!(self.connection, Connection::Lost) {
            let link = match crate::dial::greet::<GatewayTalk>(self.home()?).await? {
                Some(link) => Arc::new(link),
                None if self.chat.is_start_due() => match self.chat.started_in_place().await {
                    Ok(Some(link)) => link,
                    Ok(None) => continue,
                    Err(ClientError::Start { .. }) if self.fruitless < MAX_START_ATTEMPTS => {
                        self.was_fruitless();
                        self.pause().await;
                        continue;
                    }
                    Err(e) => return Err(e),
                },
                None => {
                    tokio::time::sleep(RECONNECT_PAUSE).await;
                    continue;
                }
            };
            self.open(&link).await?;
        }
        Ok(())
    }

    /// The next connection is tried later, and later still if none brings anything.
    fn was_fruitless(&mut self) {
        self.not_before = Instant::now() + (FRUITLESS_PAUSE * self.fruitless).min(MAX_FRUITLESS_PAUSE);
        self.fruitless += 1;
    }

    async fn pause(&self) {
        // There is no descriptor to wait on for a gateway that lives longer than the last.
        tokio::time::sleep_until(self.not_before.into()).await;
    }

    fn home(&self) -> Result<&std::path::Path, ClientError> {
        let lost = || ClientError::Protocol { peer: Peer::Gateway, what: "the connection cannot be made again".into() };
        self.chat.shared.target().map(|to| to.home.as_path()).ok_or_else(lost)
    }

    async fn open(&mut self, link: &Arc<Link<GatewayTalk>>) -> Result<(), ClientError> {
        let (key, after, context, is_attended) = (self.key.clone(), self.after, self.context, self.is_attended);
        let request = ChatRequest::Follow { key, after, context, is_attended };
        match link.stream_gateway(self.chat.session(), request).await {
            Ok(stream) => self.connection = Connection::Open(stream),
            // It ended meanwhile, and the next one is looked for.
            Err(CallError::Cut(Cut::Gone(_))) => self.was_fruitless(),
            Err(e) => return Err(to_error::<GatewayTalk>(e, "follow the conversation")),
        }
        Ok(())
    }
}
