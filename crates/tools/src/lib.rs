//! The two tools that an agent calls: `terminal` runs a command, `process` looks after those in the background.
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

#![forbid(unsafe_code)]

mod args;
mod cap;
mod foreground;
mod guard;
mod hook;
mod host;
mod meaning;
mod output;
mod pages;
mod plan;
mod process;
mod schema;
mod shell;
mod terminal;
mod tokens;

pub use guard::{Misuse, misuse};
pub use hook::{Called, HookInput, LONGEST_HOOK_INPUT, ToTell};
pub use host::{AtLimit, Host, Policy};
pub use plan::{Mode, Plan};
pub use process::Ask;
pub use schema::Schema;

use outlast_client::Client;
use serde_json::{Map, Value};

/// What a tool answers: always an object.
pub type Answer = Map<String, Value>;

/// The tools of one conversation.
#[derive(Clone)]
pub struct Tools {
    client: Client,
    host: Host,
}

impl Tools {
    /// Tools that ask through `client`, whose owner is the conversation, in the surroundings of `host`.
    pub fn new(client: Client, host: Host) -> Self {
        Self { client, host }
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
        let mut answer = match tool {
            "terminal" => terminal::answer_to(&self.client, &self.host, arguments).await,
            "process" if self.host.policy == Policy::Agent => process::answer_to(&self.client, &self.host, arguments).await,
            "process" => answer([("error", "the process tool is not there for scripts: call it as an agent".into())]),
            other => answer([("error", format!("Unknown tool: {}. Use: terminal, process", args::short(other)).into())]),
        };
        cap::cap(&mut answer, self.host.result_chars);
        answer
    }
}

fn answer<const N: usize>(fields: [(&str, Value); N]) -> Answer {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
