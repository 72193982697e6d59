//! Asking the gateway: conversations with an agent that survive every restart.

mod feed;

pub use feed::{ChatFeed, Heard};

use crate::client::{millis, random};
use crate::link::{CallError, Cut, Link, read};
use crate::peer::{GatewayTalk, Peer};
use crate::redial::{Redial, Repeat, Tries, is_ending, to_error};
use crate::{ClientError, Connect, Done};
use outlast_core::OsText;
use outlast_wire::v1::chat::{
    Accepted, AgentChoice, Changed, ChatRequest, ConversationInfo, Conversations, GatewayStatus, Opened, Shown, TurnInfo,
};
use serde::de::DeserializeOwned;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long turns may take to finish when a gateway is stopped without a limit of the caller's.
const DRAIN_LIMIT: Duration = Duration::from_secs(60);
/// How long a gateway may take to end when its turns have finished or were interrupted: it cancels them, and stops agents.
const LEAVE_LIMIT: Duration = Duration::from_secs(30);
/// How long to wait between two looks for a gateway. A socket that is not there has no descriptor that could be waited on.
const RECONNECT_PAUSE: Duration = Duration::from_millis(200);

/// A way to the gateway of one home. Cheap to clone; clones share the connection.
///
/// ```no_run
/// use outlast_client::{Chat, Connect, Setup, message_id};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let chat = Chat::connect(&Connect::to("/home/me/.local/state/outlast").starting("outlast-gateway")).await?;
/// let key = "agent:main:local:dm:main";
/// let accepted = chat.send(key, &message_id()?, "what is left to do?", &Setup::default()).await?;
/// if let Some(turn) = chat.wait(key, accepted.turn, None).await? {
///     println!("{}", turn.reply.unwrap_or_default());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Chat {
    shared: Arc<Redial<GatewayTalk>>,
}

/// Who answers in a conversation, and where. What is absent is left as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Setup {
    /// Who answers from now on.
    pub agent: Option<AgentChoice>,
    /// The directory that the agent of a new conversation works in.
    pub cwd: Option<PathBuf>,
}

impl Setup {
    /// The same, answered by this agent or command.
    #[must_use]
    pub fn answered_by(self, agent: AgentChoice) -> Self {
        Self { agent: Some(agent), ..self }
    }

    /// The same, with this directory for the agent of a new conversation.
    #[must_use]
    pub fn in_dir(self, cwd: impl Into<PathBuf>) -> Self {
        Self { cwd: Some(cwd.into()), ..self }
    }

    fn cwd(&self) -> Option<OsText> {
        self.cwd.as_deref().map(Into::into)
    }
}

/// A new id for a message. A message that is sent again under its id is recognised.
pub fn message_id() -> Result<String, ClientError> {
    Ok(format!("msg:{}", digits()?))
}

/// A new id for an order about a conversation.
fn request_id() -> Result<String, ClientError> {
    Ok(format!("req:{}", digits()?))
}

fn digits() -> Result<String, ClientError> {
    Ok(random::<16>()?.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl Chat {
    /// Connects to the gateway of a home, and starts one if `to` has a program for that: an `outlast-gateway`. If `to` speaks for a conversation of that gateway,
    /// this is its agent: it may look at its own conversation, and not speak in any.
    pub async fn connect(to: &Connect) -> Result<Self, ClientError> {
        let chat = Self { shared: Arc::new(Redial::to(to.absolute())) };
        chat.shared.link().await?;
        Ok(chat)
    }

    /// Starts the next gateway of a home whose last one has ended, and returns when it answers. `false` if a person has stopped the gateway: then none is started.
    pub async fn start_in_place(to: &Connect) -> Result<bool, ClientError> {
        Ok(to.absolute().link_in_place().await?.is_some())
    }

    /// Opens a conversation. If there is none with this key, it is created.
    pub async fn open(&self, key: &str, setup: &Setup) -> Result<Opened, ClientError> {
        let request = ChatRequest::Open { key: key.into(), agent: setup.agent.clone(), cwd: setup.cwd() };
        self.ask("open the conversation", request, Repeat::Safe).await
    }

    /// Says something in a conversation, and returns when that is written down. If there is no conversation with this key, it is created.
    /// Sent again after a crash of the gateway, the message is still answered once.
    pub async fn send(&self, key: &str, message_id: &str, words: &str, setup: &Setup) -> Result<Accepted, ClientError> {
        let request = ChatRequest::Send {
            key: key.into(),
            message_id: message_id.into(),
            words: words.into(),
            agent: setup.agent.clone(),
            cwd: setup.cwd(),
        };
        self.ask("send the message", request, Repeat::Safe).await
    }

    /// What happened in a conversation, and what happens.
    pub fn follow(&self, key: &str) -> ChatFeed {
        ChatFeed::new(self.clone(), key)
    }

    /// Waits until a turn is finished, at most this long; nothing if the time is over first. Goes on over a restart of the gateway. A
    /// gateway that a person has stopped is not started for it.
    pub async fn wait(&self, key: &str, turn: u64, timeout: Option<Duration>) -> Result<Option<TurnInfo>, ClientError> {
        // A time too far away to be an instant is no limit.
        let deadline = timeout.and_then(|t| Instant::now().checked_add(t));
        let waiting = self.wait_until(key, turn, deadline);
        let waited = match deadline {
            Some(at) => tokio::time::timeout_at(at.into(), waiting).await.unwrap_or(Ok(None)),
            None => waiting.await,
        }?;
        Ok(waited.filter(TurnInfo::is_finished))
    }

    async fn wait_until(&self, key: &str, turn: u64, deadline: Option<Instant>) -> Result<Option<TurnInfo>, ClientError> {
        const DOING: &str = "wait for the reply";
        let mut tries = Tries::patient();
        loop {
            let link = self.regained().await?;
            let timeout_ms = deadline.map(|at| millis(at.saturating_duration_since(Instant::now())));
            let request = ChatRequest::Wait { key: key.into(), turn, timeout_ms };
            match link.ask_gateway(self.session(), request).await {
                Ok(answer) => return read(&answer).map(Some).map_err(nonsense),
                Err(e) if self.shared.can_redial() && tries.again(&e, Some(&link), Repeat::Safe).await => {}
                Err(CallError::Cut(Cut::Gone(why))) => {
                    return Err(to_error::<GatewayTalk>(tries.gave_up::<GatewayTalk>(DOING, &why), DOING));
                }
                Err(e) => return Err(to_error::<GatewayTalk>(e, DOING)),
            }
        }
    }

    /// Cancels the turn that runs in a conversation, or that waits to be resumed.
    pub async fn stop(&self, key: &str) -> Result<Changed, ClientError> {
        // Sent again under its id, it does not cancel the turn after the intended one.
        let request_id = Some(request_id()?);
        self.ask("stop the turn", ChatRequest::Stop { key: key.into(), request_id }, Repeat::Safe).await
    }

    /// Starts a new generation of a conversation.
    pub async fn start_anew(&self, key: &str) -> Result<Changed, ClientError> {
        let request_id = Some(request_id()?);
        self.ask("start anew", ChatRequest::New { key: key.into(), request_id }, Repeat::Safe).await
    }

    /// Continues a suspended conversation, or an interrupted turn that is held back.
    pub async fn resume(&self, key: &str) -> Result<Changed, ClientError> {
        let request_id = Some(request_id()?);
        self.ask("resume the conversation", ChatRequest::Resume { key: key.into(), request_id, generation: None }, Repeat::Safe).await
    }

    /// Continues where an earlier generation of a conversation ended, in a new generation. The current one ends as with
    /// [`Chat::start_anew`]; if it is the one that is named, this is [`Chat::resume`].
    pub async fn resume_generation(&self, key: &str, generation: u64) -> Result<Changed, ClientError> {
        let request = ChatRequest::Resume { key: key.into(), request_id: Some(request_id()?), generation: Some(generation) };
        self.ask("resume the earlier conversation", request, Repeat::Safe).await
    }

    /// Answers a question about a permission.
    pub async fn allow(&self, key: &str, permission: &str, option: &str) -> Result<Changed, ClientError> {
        let request = ChatRequest::Allow { key: key.into(), permission: permission.into(), option: option.into() };
        self.ask("answer the question", request, Repeat::Safe).await
    }

    /// Says that a person was shown everything up to this part. The next terminal that opens the conversation shows what came later as new. No gateway is
    /// started for that: `false` if none runs.
    pub async fn seen(&self, key: &str, part: u64) -> Result<bool, ClientError> {
        let Some(link) = self.shared.link_if_running().await? else { return Ok(false) };
        match link.ask_gateway(self.session(), ChatRequest::Seen { key: key.into(), part }).await {
            Ok(_) => Ok(true),
            Err(CallError::Cut(Cut::Gone(_))) => Ok(false),
            Err(e) => Err(to_error::<GatewayTalk>(e, "say what was shown")),
        }
    }

    /// All conversations.
    pub async fn list(&self) -> Result<Vec<ConversationInfo>, ClientError> {
        let all: Conversations = self.ask("list conversations", ChatRequest::List, Repeat::Safe).await?;
        Ok(all.conversations)
    }

    /// A conversation with its turns in one generation, or in the current one.
    pub async fn show(&self, key: &str, generation: Option<u64>) -> Result<Shown, ClientError> {
        self.ask("show the conversation", ChatRequest::Show { key: key.into(), generation }, Repeat::Safe).await
    }

    /// How the gateway is.
    pub async fn status(&self) -> Result<GatewayStatus, ClientError> {
        self.ask("ask how the gateway is", ChatRequest::Status, Repeat::Safe).await
    }

    /// Holds new turns back for this long, an hour at most. Running ones continue.
    pub async fn drain(&self, hold: Option<Duration>) -> Result<Done, ClientError> {
        let hold_seconds = hold.map(|time| time.as_secs_f64().ceil() as u64);
        self.ask("hold new turns back", ChatRequest::Drain { hold_seconds }, Repeat::Safe).await
    }

    /// Lets turns start again.
    pub async fn undrain(&self) -> Result<Done, ClientError> {
        self.ask("let turns start", ChatRequest::Undrain, Repeat::Safe).await
    }

    /// Has the gateway end and be started again, and returns at once. If none runs, none is started: that is an error. `from` is the conversation whose agent asks for it from within a turn.
    pub async fn restart(&self, from: Option<&str>) -> Result<Done, ClientError> {
        self.end("restart the gateway", ChatRequest::Restart { from: from.map(Into::into) }).await
    }

    /// Has the gateway end and be started again, and returns when it has ended; `false` if it has not within that time.
    pub async fn restart_within(&self, limit: Duration) -> Result<bool, ClientError> {
        // The connection is that of the gateway that ends: the next one may answer before its end is noticed here.
        let link = self.shared.running_link().await?;
        match link.ask_gateway(self.session(), ChatRequest::Restart { from: None }).await {
            Ok(_) => Ok(link.closed(limit).await),
            // It was faster with its end than with its answer.
            Err(CallError::Cut(Cut::Gone(_))) => Ok(true),
            Err(e) => Err(to_error::<GatewayTalk>(e, "restart the gateway")),
        }
    }

    /// Ends the gateway, and returns when it has. Turns may take so long to finish; then they are interrupted, and resumed by the next
    /// gateway. A person starts that one: with `outlast chat` or `outlast gateway run`. The status is `unmarked` if the gateway could not write when it was asked:
    /// the next one resumes such turns all the same, as after a crash. It is `gone` if the gateway ended before it answered: if it ended for a restart, the engine
    /// starts the next one.
    pub async fn shutdown(&self, timeout: Option<Duration>) -> Result<Done, ClientError> {
        let link = self.shared.running_link().await?;
        let request = ChatRequest::Shutdown { timeout_ms: timeout.map(millis), from: None };
        let done = match link.ask_gateway(self.session(), request).await {
            Ok(answer) => read(&answer).map_err(nonsense)?,
            // It was faster with its end than with its answer.
            Err(CallError::Cut(Cut::Gone(_))) => Done::word("gone"),
            Err(CallError::Refused(e)) if is_ending(&e) => Done::word("gone"),
            Err(e) => return Err(to_error::<GatewayTalk>(e, "stop the gateway")),
        };
        let limit = timeout.unwrap_or(DRAIN_LIMIT).saturating_add(LEAVE_LIMIT);
        if link.closed(limit).await {
            return Ok(done);
        }
        Err(ClientError::Unavailable {
            error: format!("the gateway was asked to end, and has not within {} s", limit.as_secs()),
            hint: "`outlast gateway status` shows what it does; `kill -9` of it loses no message".into(),
        })
    }

    /// Has the gateway end as [`Chat::shutdown`] does, and returns at once. `from` is the conversation whose agent asks for it from within a turn: it would wait
    /// for the end of its own turn.
    pub async fn begin_shutdown(&self, timeout: Option<Duration>, from: Option<&str>) -> Result<Done, ClientError> {
        let request = ChatRequest::Shutdown { timeout_ms: timeout.map(millis), from: from.map(Into::into) };
        self.end("stop the gateway", request).await
    }

    async fn end(&self, doing: &str, request: ChatRequest) -> Result<Done, ClientError> {
        let mut tries = Tries::patient();
        loop {
            let link = self.shared.running_link().await?;
            match link.ask_gateway(self.session(), request.clone()).await {
                Ok(answer) => return read(&answer).map_err(nonsense),
                // It was faster with its end than with its answer.
                Err(CallError::Cut(Cut::Gone(_))) => return Ok(Done::ok()),
                Err(e) if self.shared.can_redial() && tries.again(&e, Some(&link), Repeat::Never).await => {}
                Err(e) => return Err(to_error::<GatewayTalk>(e, doing)),
            }
        }
    }

    async fn ask<A: DeserializeOwned>(&self, doing: &str, request: ChatRequest, repeat: Repeat) -> Result<A, ClientError> {
        let mut tries = Tries::patient();
        loop {
            let link = self.shared.link().await?;
            match link.ask_gateway(self.session(), request.clone()).await {
                Ok(answer) => return read(&answer).map_err(nonsense),
                Err(e) if self.shared.can_redial() && tries.again(&e, Some(&link), repeat).await => {}
                Err(CallError::Cut(Cut::Gone(why))) if repeat == Repeat::Safe => {
                    return Err(to_error::<GatewayTalk>(tries.gave_up::<GatewayTalk>(doing, &why), doing));
                }
                Err(e) => return Err(to_error::<GatewayTalk>(e, doing)),
            }
        }
    }

    /// For whom requests are made.
    fn session(&self) -> Option<String> {
        self.shared.target().and_then(|to| to.owner.session.clone())
    }

    /// The connection again, whenever there is a gateway. One that died, or asked to be started again, is started; one that a person has
    /// stopped is waited for.
    async fn regained(&self) -> Result<Arc<Link<GatewayTalk>>, ClientError> {
        loop {
            if let Some(link) = self.shared.link_if_running().await? {
                return Ok(link);
            }
            // The link is this request's own. The next request makes one that all share.
            if self.is_start_due()
                && let Some(link) = self.started_in_place().await?
            {
                return Ok(link);
            }
            tokio::time::sleep(RECONNECT_PAUSE).await;
        }
    }

    /// A connection to a gateway that is started in place of one that died. Nothing: a person has stopped the gateway meanwhile.
    async fn started_in_place(&self) -> Result<Option<Arc<Link<GatewayTalk>>>, ClientError> {
        match self.shared.target() {
            Some(to) => Ok(to.link_in_place().await?.map(Arc::new)),
            None => Ok(None),
        }
    }

    /// Whether a client that only looks on may start a gateway now.
    fn is_start_due(&self) -> bool {
        #[cfg(feature = "start")]
        if let Some(Connect { home, start: crate::Start::OnDemand { .. }, .. }) = self.shared.target() {
            return crate::start::is_gateway_due(home);
        }
        false
    }
}

fn nonsense(error: serde_json::Error) -> ClientError {
    ClientError::Protocol { peer: Peer::Gateway, what: error.to_string() }
}
