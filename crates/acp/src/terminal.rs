//! The five calls about terminals, one file each, and what they share.

mod create;
mod kill;
mod known;
mod output;
mod release;
mod show;
mod wait_for_exit;

use crate::message::{Failure, INTERNAL, INVALID_PARAMS, NOT_FOUND};
use create::Create;
use known::Known;
use outlast_client::{Caller, Client, ClientError, Connect, Error, ErrorKind, Fate, Owner, ProcessId, ProcessInfo, Reason, Receipt, code};
use outlast_text::Redactor;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};

/// The most unwritten outputs at once. Each has up to [`output::CAP`] bytes, and the agent may be slow to read them.
const MAX_PENDING_OUTPUTS: usize = 8;

/// A call of an agent about terminals.
#[derive(Debug)]
pub(crate) enum Call {
    Create(Create),
    Output(Terminal),
    WaitForExit(Terminal),
    Kill(Terminal),
    Release(Terminal),
}

/// A terminal and its session.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Terminal {
    session_id: String,
    terminal_id: String,
}

impl Call {
    /// Reads a request. `None` if it is not about terminals.
    pub(crate) fn read(method: &str, params: Option<&RawValue>) -> Option<Result<Self, Failure>> {
        Some(match method {
            "terminal/create" => given(params).map(Self::Create),
            "terminal/output" => given(params).map(Self::Output),
            "terminal/wait_for_exit" => given(params).map(Self::WaitForExit),
            "terminal/kill" => given(params).map(Self::Kill),
            "terminal/release" => given(params).map(Self::Release),
            _ => return None,
        })
    }

    /// Whether it is served even if the agent can no longer get the answer.
    pub(crate) fn stops(&self) -> bool {
        matches!(self, Self::Kill(_) | Self::Release(_))
    }

    pub(crate) fn session(&self) -> &str {
        match self {
            Self::Create(create) => create.session(),
            Self::Output(of) | Self::WaitForExit(of) | Self::Kill(of) | Self::Release(of) => &of.session_id,
        }
    }
}

fn given<T: DeserializeOwned>(params: Option<&RawValue>) -> Result<T, Failure> {
    let text = params.map_or("null", RawValue::get);
    // serde accepts an array in place of an object.
    if !text.starts_with('{') {
        return Err(Failure::new(INVALID_PARAMS, "the parameters make no sense: they are no object"));
    }
    serde_json::from_str(text).map_err(|e| Failure::new(INVALID_PARAMS, format!("the parameters make no sense: {e}")))
}

/// A served call: its answer, and what to do once the agent has it.
pub(crate) struct Done {
    pub(crate) outcome: Result<Value, Failure>,
    /// The answer shows the end of this process, which counts as seen once the agent has the answer.
    seen: Option<TerminalSeen>,
    /// The same for an end that the agent waited for. The engine holds its notice meanwhile.
    receipt: Option<Receipt>,
    /// The permit of a pending output.
    _room: Option<OwnedSemaphorePermit>,
}

struct TerminalSeen {
    client: Client,
    id: ProcessId,
}

impl Done {
    /// Says that the agent has the answer.
    pub(crate) async fn delivered(self) {
        if let Some(TerminalSeen { client, id }) = self.seen {
            // If this fails, the end is delivered once more as a notice.
            let _told_again = client.mark_completion_consumed(&id.to_string()).await;
        }
        if let Some(receipt) = self.receipt {
            let _told_again = receipt.passed_on().await;
        }
    }
}

impl From<Result<Value, Failure>> for Done {
    fn from(outcome: Result<Value, Failure>) -> Self {
        Self { outcome, seen: None, receipt: None, _room: None }
    }
}

/// Which session the terminals belong to.
#[derive(Debug, Clone)]
pub(crate) enum SpeaksFor {
    /// The session of each request, by its ACP session id, with this task and generation.
    EachSession(Owner),
    /// One session, whatever the agent calls its own.
    One(Owner),
}

impl SpeaksFor {
    fn owner(&self, session: &str) -> Owner {
        match self {
            Self::EachSession(owner) => Owner { session: Some(format!("acp:{session}")), ..owner.clone() },
            Self::One(owner) => owner.clone(),
        }
    }
}

/// The terminals of all sessions of one agent.
pub(crate) struct Terminals {
    to: Option<Connect>,
    caller: Caller,
    speaks_for: SpeaksFor,
    redactor: Redactor,
    client: OnceCell<Client>,
    known: Mutex<Known>,
    room: Arc<Semaphore>,
}

impl Terminals {
    pub(crate) fn new(to: Connect, caller: Caller, owner: Owner, redact: bool) -> Self {
        Self::with(Some(to), OnceCell::new(), caller, SpeaksFor::EachSession(owner), redact)
    }

    /// The terminals of one session, over an existing client.
    pub(crate) fn over(client: Client, caller: Caller, owner: Owner, redact: bool) -> Self {
        Self::with(None, OnceCell::new_with(Some(client)), caller, SpeaksFor::One(owner), redact)
    }

    fn with(to: Option<Connect>, client: OnceCell<Client>, caller: Caller, speaks_for: SpeaksFor, redact: bool) -> Self {
        let (known, room) = (Mutex::default(), Arc::new(Semaphore::new(MAX_PENDING_OUTPUTS)));
        Self { to, caller, speaks_for, redactor: Redactor::new(redact), client, known, room }
    }

    /// Checks a call in the order in which calls arrive: calls after a release find no terminal, calls before it are still served.
    pub(crate) fn arrived(&self, call: &Call) -> Result<(), Failure> {
        match call {
            Call::Create(_) => Ok(()),
            Call::Output(of) | Call::WaitForExit(of) | Call::Kill(of) => {
                let id = of.id()?;
                if self.known().is_released(&of.session_id, id) { Err(of.not_found()) } else { Ok(()) }
            }
            Call::Release(of) => {
                let id = of.id()?;
                if self.known().release(&of.session_id, id) { Ok(()) } else { Err(of.not_found()) }
            }
        }
    }

    /// Serves a call. When `cancelled` returns, a wait is given up; the command keeps running.
    pub(crate) async fn serve(&self, call: Call, dir: Option<String>, cancelled: impl Future<Output = ()>) -> Done {
        match call {
            Call::Create(create) => self.create(create, dir).await,
            Call::Output(of) => self.output(&of).await,
            Call::WaitForExit(of) => self.wait_for_exit(&of, cancelled).await.unwrap_or_else(|failure| Err(failure).into()),
            Call::Kill(of) => self.kill(&of).await.into(),
            Call::Release(of) => self.release(&of).await.into(),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // A panic leaves the table consistent: each change is one call.
        self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// A client for a session. It connects at the first call, so that an agent without terminals needs no engine.
    async fn client(&self, session: &str) -> Result<Client, ClientError> {
        let connect = || async {
            match &self.to {
                Some(to) => Client::connect(to).await,
                None => unreachable!("a client was given"),
            }
        };
        let client = self.client.get_or_try_init(connect).await?;
        Ok(client.with_owner(self.speaks_for.owner(session)))
    }

    /// The state of a terminal, and a client that can read it. That client has no owner, so that this look does not mark an end as seen. `None`
    /// if the terminal belongs to another session.
    async fn look_on(&self, session: &str, id: &str) -> Result<Option<(Client, ProcessInfo)>, ClientError> {
        let client = self.client(session).await?;
        let onlooker = client.with_owner(Owner::default());
        let info = onlooker.poll(id).await?;
        let own = info.session_key == client.owner().session;
        Ok(own.then_some((onlooker, info)))
    }
}

impl Terminal {
    fn id(&self) -> Result<ProcessId, Failure> {
        // Only a full id names a terminal; a unique beginning does not.
        self.terminal_id.parse().map_err(|_| self.not_found())
    }

    fn not_found(&self) -> Failure {
        let shown: String = self.terminal_id.chars().take(80).collect();
        let message = format!("there is no terminal {shown} in this session, or it was released");
        Failure { code: NOT_FOUND, message, data: Some(json!({ "terminalId": shown })) }
    }

    /// The engine's refusal, as the agent gets it.
    fn refused(&self, error: &ClientError) -> Failure {
        match error.code() {
            code::NOT_FOUND | code::NOT_YOURS | code::BAD_ID => self.not_found(),
            _ => refused(error),
        }
    }
}

fn refused(error: &ClientError) -> Failure {
    let code = match error {
        ClientError::Refused(Error { kind: ErrorKind::Refusal, .. }) => INVALID_PARAMS,
        _ => INTERNAL,
    };
    let hint = if error.hint().is_empty() { String::new() } else { format!(" ({})", error.hint()) };
    Failure { code, message: format!("{error}{hint}"), data: Some(json!({ "code": error.code() })) }
}

/// How a command ended, as ACP has it: its exit code or the name of a signal. Both are missing if the end was not observed; `_meta` then says
/// why.
fn exit_status(fate: &Fate) -> Value {
    let code = fate.exit_code.flatten().and_then(|code| u32::try_from(code).ok());
    let mut status = json!({ "exitCode": code, "signal": fate.signal });
    if code.is_none() && fate.signal.is_none() {
        let reason = match fate.completion_reason {
            Some(Reason::FailedStart) => "failed_start",
            _ => "lost",
        };
        status["_meta"] = json!({ "outlast": { "reason": reason } });
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: &str, params: &str) -> Option<Result<Call, Failure>> {
        let params: Box<RawValue> = serde_json::from_str(params).unwrap();
        Call::read(method, Some(&params))
    }

    #[test]
    fn every_call_is_read_with_what_newer_versions_add() {
        let of = Terminal { session_id: "s".into(), terminal_id: "t".into() };
        for method in ["terminal/output", "terminal/wait_for_exit", "terminal/kill", "terminal/release"] {
            let call = read(method, r#"{"sessionId":"s","terminalId":"t","_meta":{"a":1},"new":true}"#).unwrap().unwrap();
            assert_eq!((call.session(), call.stops()), ("s", method == "terminal/kill" || method == "terminal/release"));
            let (Call::Output(got) | Call::WaitForExit(got) | Call::Kill(got) | Call::Release(got)) = call else { panic!("{method}") };
            assert_eq!(got, of, "{method}");
        }
        let create = read("terminal/create", r#"{"sessionId":"s","command":"ls","outputByteLimit":1,"new":{}}"#).unwrap().unwrap();
        assert!(matches!(create, Call::Create(_)) && !create.stops());
    }

    #[test]
    fn what_is_not_about_terminals_is_not_ours() {
        for method in ["terminal/resize", "terminal", "session/update", "Terminal/create", "terminal/create "] {
            assert!(read(method, "{}").is_none(), "{method}");
        }
        assert_eq!(Call::read("terminal/kill", None).unwrap().unwrap_err().code, INVALID_PARAMS);
        for params in [r#"{"sessionId":1}"#, r#"["s","proc_0123456789ab"]"#, "null", "7"] {
            assert_eq!(read("terminal/kill", params).unwrap().unwrap_err().code, INVALID_PARAMS, "{params}");
        }
    }

    #[test]
    fn an_end_is_told_as_the_protocol_has_it() {
        let status = |code: Option<i32>, signal: Option<&str>| {
            let mut fate = Fate::default();
            (fate.exit_code, fate.signal) = (Some(code), signal.map(Into::into));
            exit_status(&fate)
        };
        assert_eq!(status(Some(3), None), json!({"exitCode": 3, "signal": null}));
        assert_eq!(status(Some(-9), Some("SIGKILL")), json!({"exitCode": null, "signal": "SIGKILL"}));
        assert_eq!(status(None, None), json!({"exitCode": null, "signal": null, "_meta": {"outlast": {"reason": "lost"}}}));
    }

    #[test]
    fn only_a_whole_id_names_a_terminal() {
        let id = |text: &str| Terminal { session_id: "s".into(), terminal_id: text.into() }.id();
        assert!(id("proc_0123456789ab").is_ok());
        for text in ["proc_0123", "0123456789ab", "0123", "", "proc_0123456789ab\n", "../proc_0123456789ab"] {
            assert_eq!(id(text).unwrap_err().code, NOT_FOUND, "{text}");
        }
    }
}
