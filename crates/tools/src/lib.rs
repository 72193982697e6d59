//! The tools that an agent calls to run commands and to manage processes in the background.
//!
//! There are three sets ([`Profile`]), since models differ in the tools that they know: `terminal` and `process`, as shown here;
//! `exec_command` and `write_stdin`; and `run` with its companions, which is our own.
//!
//! A host (a command line, an MCP server, a gateway) makes [`Tools`] from a [`Client`] that speaks for the session's owner and a [`Host`]
//! that says what the host can do. It shows the model their [`schemas`](Tools::schemas), and gives the arguments of each call to
//! [`Tools::call`]. The answer is always an object, whatever the model sent: an error is an answer, too.
//!
//! ```
//! use outlast_client::{Client, Connect, Owner, caller};
//! use outlast_tools::{Host, Tools};
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let product = outlast_testkit::product::Product::running();
//! # let (home, program) = (product.home().root, product.program());
//! let client = Client::connect(&Connect::to(home).starting(program).speaking_for(Owner::session("chat:42"))).await?;
//! let here = caller(std::env::vars_os(), &std::env::current_dir()?);
//! let tools = Tools::new(client, Host::new(here));
//! let begun = tools.call("terminal", &json!({"command": "echo done", "background": true, "notify_on_complete": true})).await;
//! let ended = tools.call("process", &json!({"action": "wait", "session_id": begun["session_id"]})).await;
//! assert_eq!((&ended["status"], &ended["exit_code"]), (&json!("exited"), &json!(0)));
//! # Ok(())
//! # }
//! ```
//!
//! [`Plan`] and [`ProcessCall`] decide what a call asks for, as functions of the arguments and the host, before anything is done.
//!
//! A host that forwards answers, as a server in front of an agent does, calls [`Tools::relay`] with a client that is
//! [relaying](Client::relaying), and [`OnDelivered::delivered`] when the answer has arrived.

#![forbid(unsafe_code)]

mod about;
mod args;
mod cap;
mod codex;
mod cursors;
mod exit_codes;
mod foreground;
mod guard;
mod hints;
mod hook;
mod host;
mod missed;
mod names;
mod native;
mod notices;
mod on_delivered;
mod outcome;
mod output;
mod pages;
mod plan;
mod process;
mod schema;
mod shell;
mod start;
mod start_table;
mod terminal;
mod this_call;
mod timed_wait;
mod tokens;
mod unchanged;

pub use about::AboutProcess;
pub use guard::{Misuse, misuse};
pub use hook::{Called, HookInput, LONGEST_HOOK_INPUT, ToTell};
pub use host::{AtLimit, Host, Policy, Profile};
pub use missed::Missed;
pub use on_delivered::OnDelivered;
pub use outcome::CallResult;
pub use plan::{Mode, Plan};
pub use process::ProcessCall;
pub use schema::{Hints, Schema};

use args::Args;
use cursors::{ConversationCursors, Cursors};
use outlast_client::{Client, ClientError, ProcessId, Told};
use serde_json::{Map, Value};
use start_table::StartTable;
use std::sync::Arc;
use this_call::{CallWait, ThisCall};

/// The answer of a tool: always an object.
pub type Answer = Map<String, Value>;

/// The tools of one session.
#[derive(Clone)]
pub struct Tools {
    client: Client,
    host: Host,
    cursors: Arc<Cursors>,
    starts: StartTable,
    conversation: Arc<str>,
    /// Whether that may be several, so that what one was shown says nothing of the others.
    may_be_several: bool,
    about: AboutProcess,
}

impl Tools {
    /// Tools that use `client`, whose owner is the session, in the environment of `host`.
    pub fn new(client: Client, host: Host) -> Self {
        Self {
            client,
            host,
            cursors: Arc::default(),
            starts: StartTable::default(),
            conversation: Arc::default(),
            may_be_several: false,
            about: AboutProcess::default(),
        }
    }

    /// The same tools of the same session, with another client.
    #[must_use]
    pub fn through(&self, client: Client) -> Self {
        Self { client, ..self.clone() }
    }

    /// The same tools in the environment of another host.
    #[must_use]
    pub fn with_host(&self, host: Host) -> Self {
        Self { host, ..self.clone() }
    }

    /// The same tools for one conversation, by a name of the caller's choice. `may_be_several`: several conversations have that name, and cannot
    /// be told apart, so it is not remembered what was shown to them.
    #[must_use]
    pub fn speaking_with(&self, conversation: Arc<str>, may_be_several: bool) -> Self {
        Self { conversation, may_be_several, ..self.clone() }
    }

    /// The same tools for one call, which note what it is about.
    #[must_use]
    pub fn noting(&self, about: AboutProcess) -> Self {
        Self { about, ..self.clone() }
    }

    /// Adds due notices to an answer, within the host's limit, as its field `notices`, which [`text`](Self::text) shows, and a line about each
    /// answer that its model may have missed. Notices that do not fit are released. Returns what to do once the answer has arrived.
    pub async fn tell(&self, answer: &mut Answer, mut due: Vec<Told>, missed: &[Missed]) -> OnDelivered {
        let mut lines = Vec::new();
        for one in missed {
            let notice = due.iter_mut().find(|told| notices::is_end_of(told, one.process));
            match (notice, one.took) {
                // The notice tells more than a line.
                (Some(_), None) => {}
                // The model may have seen it all.
                (Some(notice), Some(_)) => {
                    notice.text = one.line(&self.client, &self.host, &self.starts).await.unwrap_or_else(|| notice.text.clone())
                }
                (None, _) => lines.extend(one.line(&self.client, &self.host, &self.starts).await.map(|line| (one.process, line))),
            }
        }
        let on_delivered = OnDelivered::new(self.client.clone(), self.cursors());
        for refused in self.starts.tell(&self.conversation) {
            lines.push((refused.process, refused.line.clone()));
            on_delivered.refused(refused);
        }
        let given = notices::put_with_lines(answer, &due, &lines, self.host.result_chars);
        on_delivered.told(&due, given).await;
        on_delivered
    }

    /// Whether an answer has something to tell that no notice is about: a start was refused after its call had been answered.
    pub fn has_more_to_tell(&self) -> bool {
        self.starts.has_refused(&self.conversation)
    }

    /// The schemas of the tools, for a model.
    pub fn schemas(&self) -> Vec<Schema> {
        Self::schemas_of(&self.host)
    }

    /// The schemas of the tools that callers of a host have.
    pub fn schemas_of(host: &Host) -> Vec<Schema> {
        schema::of(host)
    }

    /// Answers a call. Arguments are taken as models send them: an object, its text, or nothing.
    ///
    /// If the future is dropped, a foreground command keeps running. If the host can notify, its end becomes a notice.
    pub async fn call(&self, tool: &str, arguments: &Value) -> Answer {
        let (answer, on_delivered) = self.relay(tool, arguments).await;
        on_delivered.delivered().await;
        answer
    }

    /// Answers a call whose answer is forwarded. Returns what to do once the answer has arrived.
    pub async fn relay(&self, tool: &str, arguments: &Value) -> (Answer, OnDelivered) {
        let on_delivered = OnDelivered::new(self.client.clone(), self.cursors());
        let client = if Args::is_forced(arguments) { self.client.forcing() } else { self.client.clone() };
        let call = ThisCall::new(&self.host, self.about.clone(), self.conversation.clone(), self.starts.clone());
        let mut answer = match (self.host.profile, self.host.policy) {
            _ if let Some(error) = names::misnamed(&self.host, tool, arguments) => refused(&self.host, tool, error),
            _ if let Some(early) = self.not_there_yet(&call, tool, arguments, &on_delivered).await => early,
            (Profile::Native, Policy::Agent) => native::answer_to(&client, &self.host, (&call, &on_delivered), tool, arguments).await,
            (Profile::Codex, Policy::Agent) => {
                codex::answer_to(&client, &self.host, (&call, &self.cursors(), &on_delivered), tool, arguments).await
            }
            (Profile::Hermes, _) | (_, Policy::CodeExecution) => self.terminal_or_process(&client, &call, tool, arguments).await,
        };
        unchanged::shorten(&mut answer, self.host.profile, tool, &self.cursors(), &on_delivered);
        cap::cap(&mut answer, self.host.result_chars);
        (answer, on_delivered)
    }

    /// Whether a call runs a command that is expected to end, and waits for its end. It does not if it asks for no wait, or for a process in the
    /// background, or for notices of what the process prints.
    pub fn waits_for_end(&self, tool: &str, arguments: &Value) -> bool {
        match (self.host.profile, tool) {
            (Profile::Native, _) => native::waits_for_end(tool, arguments, &self.host),
            (Profile::Hermes, "terminal") => Plan::of(arguments, &self.host).is_ok_and(|plan| matches!(plan.mode, Mode::Foreground { .. })),
            (Profile::Hermes | Profile::Codex, _) => false,
        }
    }

    /// The outcome of a process: the answer of a call that waited for its end, or that it is still running. May be called any number of times.
    pub async fn outcome(&self, process: &str) -> Result<CallResult, ClientError> {
        outcome::of(&self.client, &self.host, process).await
    }

    /// An answer as text, for a model. An answer with notices is JSON.
    pub fn text(&self, answer: &Answer) -> String {
        let plain = match (self.host.profile, self.host.policy) {
            _ if notices::are_in(answer) => None,
            (Profile::Native, Policy::Agent) => native::text(answer),
            (Profile::Codex, Policy::Agent) => codex::text(answer),
            (Profile::Hermes, _) | (_, Policy::CodeExecution) => None,
        };
        plain.unwrap_or_else(|| Value::Object(answer.clone()).to_string())
    }

    /// What the conversation was shown.
    fn cursors(&self) -> ConversationCursors {
        ConversationCursors::new(self.cursors.clone(), (!self.may_be_several).then(|| self.conversation.clone()))
    }

    /// The answer to a call that names a process whose start takes long: that it goes on, or why there is no such process. `None` if there is.
    async fn not_there_yet(&self, call: &ThisCall, tool: &str, arguments: &Value, on_delivered: &OnDelivered) -> Option<Answer> {
        let process = self.named(tool, arguments)?;
        if !self.starts.is_over(process, call.start_by(CallWait::NONE)).await {
            call.about.set(process);
            return Some(match self.host.profile {
                Profile::Native => native::renamed(start::starting(process)),
                Profile::Codex => codex::with_number(start::starting(process), process),
                Profile::Hermes => start::starting(process),
            });
        }
        let refused = self.starts.tell_of(process, &self.conversation)?;
        let answer = start::not_started(&refused.why);
        on_delivered.refused(refused);
        Some(answer)
    }

    /// The process that a call names by its id.
    fn named(&self, tool: &str, arguments: &Value) -> Option<ProcessId> {
        let args = Args::of(arguments).ok()?;
        match (self.host.profile, tool) {
            (Profile::Native, _) => args.text("process")?.trim().parse().ok(),
            (Profile::Codex, codex::STDIN) => codex::process_of(args.text("session_id")?.trim()),
            (Profile::Hermes, "process") => args.text("session_id")?.trim().parse().ok(),
            (Profile::Codex | Profile::Hermes, _) => None,
        }
    }

    async fn terminal_or_process(&self, client: &Client, call: &ThisCall, tool: &str, arguments: &Value) -> Answer {
        match tool {
            "terminal" => terminal::answer_to(client, &self.host, call, arguments).await,
            "process" if self.host.policy == Policy::Agent => process::answer_to(client, &self.host, call, arguments).await,
            "process" => answer([("error", "the process tool is not there for scripts: call it as an agent".into())]),
            other => unknown(other, &["terminal", "process"]),
        }
    }
}

/// Checks the arguments of a call without running it. The error is the answer to the call.
pub fn understood(tool: &str, arguments: &Value, host: &Host) -> Result<(), Answer> {
    match (host.profile, host.policy) {
        (Profile::Native, Policy::Agent) => native::understood(tool, arguments, host),
        (Profile::Codex, Policy::Agent) => codex::understood(tool, arguments, host),
        (Profile::Hermes, _) | (_, Policy::CodeExecution) => match tool {
            "terminal" => Plan::of(arguments, host).map(drop),
            "process" if host.policy == Policy::Agent => ProcessCall::of(arguments).map(drop),
            other => Err(unknown(other, &["terminal", "process"])),
        },
    }
}

/// The answer to a call whose arguments are wrong.
fn refused(host: &Host, tool: &str, error: String) -> Answer {
    match (host.profile, tool) {
        (Profile::Hermes, "terminal") => plan::refused(&error),
        _ => answer([("error", error.into())]),
    }
}

/// The answer to a call of an unknown tool.
fn unknown(tool: &str, there: &[&str]) -> Answer {
    answer([("error", format!("Unknown tool: {}. Use: {}", args::short(tool), there.join(", ")).into())])
}

fn answer<const N: usize>(fields: [(&str, Value); N]) -> Answer {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
