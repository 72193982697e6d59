//! The tools that an agent calls: to run a command, and to look after those in the background.
//!
//! There are three sets of them ([`Profile`]), since models differ in what they know: `terminal` and `process`, as shown here; `exec_command` and `write_stdin`; and
//! `run` with its companions, which is our own.
//!
//! A host (a command line, an MCP server, a gateway) makes [`Tools`] from a [`Client`] that speaks for the conversation's owner and a [`Host`] that says what the
//! host can do, shows the model their [`schemas`](Tools::schemas), and passes each call's arguments to [`Tools::call`]. The answer is always an object, whatever the
//! model sent: what is wrong with a call is an answer to it.
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
//! What a call asks for is decided apart from doing it, by [`Plan`] and [`Ask`], which are functions of the arguments and the host.
//!
//! A host that passes answers on, as a server in front of an agent does, calls [`Tools::relay`] with a client that is [relaying](Client::relaying), and says with
//! [`After::arrived`] when the answer is where it belongs.

#![forbid(unsafe_code)]

mod after;
mod args;
mod cap;
mod codex;
mod foreground;
mod guard;
mod hook;
mod host;
mod meaning;
mod native;
mod notices;
mod outcome;
mod output;
mod pages;
mod plan;
mod process;
mod schema;
mod shell;
mod terminal;
mod tokens;
mod words;
mod yielding;

pub use after::After;
pub use guard::{Misuse, misuse};
pub use hook::{Called, HookInput, LONGEST_HOOK_INPUT, ToTell};
pub use host::{AtLimit, Host, Policy, Profile};
pub use outcome::Outcome;
pub use plan::{Mode, Plan};
pub use process::Ask;
pub use schema::{Hints, Schema};

use after::Cursors;
use outlast_client::{Client, ClientError, Told};
use serde_json::{Map, Value};
use std::sync::Arc;

/// What a tool answers: always an object.
pub type Answer = Map<String, Value>;

/// The tools of one conversation.
#[derive(Clone)]
pub struct Tools {
    client: Client,
    host: Host,
    cursors: Arc<Cursors>,
}

impl Tools {
    /// Tools that ask through `client`, whose owner is the conversation, in the surroundings of `host`.
    pub fn new(client: Client, host: Host) -> Self {
        Self { client, host, cursors: Arc::default() }
    }

    /// The same tools, of the same conversation, asking through another client.
    #[must_use]
    pub fn through(&self, client: Client) -> Self {
        Self { client, ..self.clone() }
    }

    /// The same tools in the surroundings of another host.
    #[must_use]
    pub fn with_host(&self, host: Host) -> Self {
        Self { host, ..self.clone() }
    }

    /// Adds due notices to an answer, within the host's limit, as its field `notices`, which [`text`](Self::text) shows. Notices that do
    /// not fit are released. Returns what to do once the answer has arrived.
    pub async fn tell(&self, answer: &mut Answer, due: &[Told]) -> After {
        let after = After::new(self.client.clone(), self.cursors.clone());
        let given = notices::put(answer, due, notices::beside, self.host.result_chars);
        after.told(due, given).await;
        after
    }

    /// What to tell a model of the tools there are.
    pub fn schemas(&self) -> Vec<Schema> {
        Self::schemas_of(&self.host)
    }

    /// What to tell a model of the tools there are for callers of a host.
    pub fn schemas_of(host: &Host) -> Vec<Schema> {
        schema::of(host)
    }

    /// Answers a call. Arguments are taken as models send them: an object, its text, or nothing.
    ///
    /// A future that is dropped leaves a foreground command running; where the host can notify, its end will be told.
    pub async fn call(&self, tool: &str, arguments: &Value) -> Answer {
        let (answer, after) = self.relay(tool, arguments).await;
        after.arrived().await;
        answer
    }

    /// Answers a call of somebody to whom the answer is passed on, and says what is left to do when it has arrived.
    pub async fn relay(&self, tool: &str, arguments: &Value) -> (Answer, After) {
        let after = After::new(self.client.clone(), self.cursors.clone());
        let mut answer = match (self.host.profile, self.host.policy) {
            (Profile::Native, Policy::Agent) => native::answer_to(&self.client, &self.host, &after, tool, arguments).await,
            (Profile::Codex, Policy::Agent) => codex::answer_to(&self.client, &self.host, (&self.cursors, &after), tool, arguments).await,
            (Profile::Hermes, _) | (_, Policy::CodeExecution) => self.terminal_or_process(tool, arguments).await,
        };
        cap::cap(&mut answer, self.host.result_chars);
        (answer, after)
    }

    /// How a process is: what a call that had waited for its end would have answered, or that it goes on. It may be asked for again and again.
    pub async fn outcome(&self, process: &str) -> Result<Outcome, ClientError> {
        outcome::of(&self.client, &self.host, process).await
    }

    /// What a model reads of an answer, as text. An answer with notices is JSON.
    pub fn text(&self, answer: &Answer) -> String {
        let plain = match (self.host.profile, self.host.policy) {
            _ if notices::are_in(answer) => None,
            (Profile::Native, Policy::Agent) => native::text(answer),
            (Profile::Codex, Policy::Agent) => codex::text(answer),
            (Profile::Hermes, _) | (_, Policy::CodeExecution) => None,
        };
        plain.unwrap_or_else(|| Value::Object(answer.clone()).to_string())
    }

    async fn terminal_or_process(&self, tool: &str, arguments: &Value) -> Answer {
        match tool {
            "terminal" => terminal::answer_to(&self.client, &self.host, arguments).await,
            "process" if self.host.policy == Policy::Agent => process::answer_to(&self.client, &self.host, arguments).await,
            "process" => answer([("error", "the process tool is not there for scripts: call it as an agent".into())]),
            other => unknown(other, &["terminal", "process"]),
        }
    }
}

/// Whether a call can be understood, and if not, the answer to it. Nothing is done.
pub fn understood(tool: &str, arguments: &Value, host: &Host) -> Result<(), Answer> {
    match (host.profile, host.policy) {
        (Profile::Native, Policy::Agent) => native::understood(tool, arguments, host),
        (Profile::Codex, Policy::Agent) => codex::understood(tool, arguments, host),
        (Profile::Hermes, _) | (_, Policy::CodeExecution) => match tool {
            "terminal" => Plan::of(arguments, host).map(drop),
            "process" if host.policy == Policy::Agent => Ask::of(arguments).map(drop),
            other => Err(unknown(other, &["terminal", "process"])),
        },
    }
}

/// The answer to a call of a tool that is not there.
fn unknown(tool: &str, there: &[&str]) -> Answer {
    answer([("error", format!("Unknown tool: {}. Use: {}", args::short(tool), there.join(", ")).into())])
}

fn answer<const N: usize>(fields: [(&str, Value); N]) -> Answer {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
