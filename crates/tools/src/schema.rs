//! The schemas of the tools, as models read them.

mod codex;
mod native;

use crate::process::ACTIONS;
use crate::{Host, Policy, Profile};
use outlast_core::limits;
use serde_json::{Value, json};

/// One tool: its name, what it is for, and a JSON schema of its arguments.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Schema {
    /// Its name.
    pub name: &'static str,
    /// Its description.
    pub description: String,
    /// The JSON schema of its arguments.
    pub parameters: Value,
    /// What a host may assume about it.
    pub hints: Hints,
}

/// What a host may assume about a tool before it asks its user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hints {
    /// It changes nothing.
    pub read_only: bool,
    /// It may end or change what existed before.
    pub destructive: bool,
    /// A second call with the same arguments changes nothing more.
    pub idempotent: bool,
    /// It reaches beyond Outlast: a command may do anything.
    pub open_world: bool,
}

impl Hints {
    /// A tool that only reads.
    const LOOKS: Self = Self { read_only: true, destructive: false, idempotent: true, open_world: false };
    /// A tool that ends a process.
    const ENDS: Self = Self { read_only: false, destructive: true, idempotent: true, open_world: false };
    /// A tool that runs a command or writes to one.
    const ACTS: Self = Self { read_only: false, destructive: true, idempotent: false, open_world: true };
}

impl Schema {
    /// As one object with `name`, `description` and `parameters`.
    pub fn to_json(&self) -> Value {
        json!({"name": self.name, "description": self.description, "parameters": self.parameters})
    }
}

/// The tools that callers of this host have.
pub(crate) fn of(host: &Host) -> Vec<Schema> {
    match (host.policy, host.profile) {
        (Policy::CodeExecution, _) => vec![terminal_of_a_script(host)],
        (Policy::Agent, Profile::Hermes) => vec![terminal(host), process(host)],
        (Policy::Agent, Profile::Codex) => codex::all(host),
        (Policy::Agent, Profile::Native) => native::all(host),
    }
}

fn terminal(host: &Host) -> Schema {
    let (usual, most) = (host.usual_wait(host.default_timeout).as_secs(), host.foreground_limit.as_secs());
    let description = format!(
        "Run a shell command. A long-running one can go on in the background, and survives the end of this conversation or its host. For reading, searching, writing or patching \
         files, use the tools made for that.\n\
         Foreground (default): the answer comes as soon as it is done, so a large timeout costs nothing; give up to {most} seconds where it may take long. What is not done in \
         time goes on in the background, under a session_id. No nohup, disown, setsid or trailing '&' here.\n\
         background=true: the answer comes at once, with a session_id for process. Jobs that end by themselves (tests, a build, a deployment): nearly always with \
         notify_on_complete=true, so that you are told and need not poll. Servers and watchers: without it; check that a server is ready before you use it."
    );
    let parameters = json!({
        "type": "object",
        "properties": {
            "command": command(),
            "background": {"type": "boolean", "default": false, "description": "Run it apart from this call."},
            "timeout": timeout(usual, most),
            "workdir": workdir(),
            "pty": {"type": "boolean", "default": false, "description": "Give it a terminal, for interactive programs (a REPL, an installer); write to them with process."},
            "notify_on_complete": {
                "type": "boolean",
                "default": false,
                "description": "With background: tell once, with exit code and end of output, when it ends. For every job that ends by itself.",
            },
            "watch_patterns": {
                "type": "array",
                "items": {"type": "string"},
                "description": "With background: tell when a line of output contains one of these texts (case matters). Only for rare, one-time signals of something long-lived, \
                    such as \"Listening on\"; never for the end of a job or lines that repeat: too many matches end the watching. Not with notify_on_complete, which wins.",
            },
            "max_output_tokens": max_output_tokens("Foreground"),
        },
        "required": ["command"],
    });
    Schema { name: "terminal", description, parameters, hints: Hints::ACTS }
}

fn terminal_of_a_script(host: &Host) -> Schema {
    let (default, most) = (host.default_timeout.as_secs(), host.foreground_limit.as_secs());
    Schema {
        name: "terminal",
        description:
            "Run a shell command in the foreground and return its output and exit code. A command that is not done in time is stopped."
                .into(),
        parameters: json!({
            "type": "object",
            "properties": {"command": command(), "timeout": timeout(default, most), "workdir": workdir()},
            "required": ["command"],
        }),
        hints: Hints::ACTS,
    }
}

fn command() -> Value {
    json!({"type": "string", "description": "The shell line to run."})
}

fn timeout(usual: u64, most: u64) -> Value {
    json!({"type": "integer", "minimum": 1, "description": format!("Seconds to wait in the foreground (default {usual}, at most {most}).")})
}

fn workdir() -> Value {
    json!({"type": "string", "description": "Directory to run in. A cd of an earlier call does not last."})
}

/// Of tools that change a process.
fn force() -> Value {
    json!({"type": "boolean", "description": "Also if another open conversation has it."})
}

fn max_output_tokens(of: &str) -> Value {
    json!({"type": "integer", "minimum": 1, "description": format!("{of}: most tokens of output; what matters is kept, markers say how to read the rest.")})
}

fn process(host: &Host) -> Schema {
    let (usual, most) = (host.usual_wait(host.wait_limit).as_secs(), host.wait_limit.as_secs());
    let description = "Manage background processes that terminal started. list: all. poll: state and end of output. log: output, in pages of lines. wait: until it ends or the time is \
         over. kill: stop it and everything it started. write: text into its input. submit: the same with a newline. close: end its input. Input needs pty=true."
        .to_owned();
    let parameters = json!({
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": ACTIONS},
            "session_id": {"type": "string", "description": "The process, as terminal named it; for all but list."},
            "data": {"type": "string", "description": "Text for write and submit."},
            "timeout": {
                "type": "integer",
                "minimum": 1,
                "description": format!("For wait: seconds (default {usual}, at most {most}). The process continues after that."),
            },
            "offset": {"type": "integer", "description": "For log: first line, from 0. Without: the last lines."},
            "limit": {"type": "integer", "minimum": 1, "description": format!("For log: lines (default {}).", limits::LOG_DEFAULT_LINES)},
            "max_output_tokens": max_output_tokens("For log, wait, kill, poll"),
            "force": force(),
        },
        "required": ["action"],
    });
    Schema { name: "process", description, parameters, hints: Hints::ACTS }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_client::caller;

    #[test]
    fn what_models_are_told() {
        let host = Host::new(caller([], std::path::Path::new("/")));
        let all: Vec<Value> = of(&host).iter().map(Schema::to_json).collect();
        insta::assert_json_snapshot!("schemas", all);
        for profile in [Profile::Native, Profile::Codex] {
            let host = Host { profile, ..host.clone() };
            let all: Vec<Value> = of(&host).iter().map(Schema::to_json).collect();
            insta::assert_json_snapshot!(format!("schemas_of_{}", profile.name()), all);
        }
        let script = Host { policy: Policy::CodeExecution, ..host };
        let all: Vec<Value> = of(&script).iter().map(Schema::to_json).collect();
        insta::assert_json_snapshot!("schemas_for_scripts", all);
    }
}
