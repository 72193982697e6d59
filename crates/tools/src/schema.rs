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
        (Policy::Agent, Profile::Codex) => codex::all(),
        (Policy::Agent, Profile::Native) => native::all(host),
    }
}

fn terminal(host: &Host) -> Schema {
    let (default, most) = (host.default_timeout.as_secs(), host.foreground_limit.as_secs());
    let description = format!(
        "Run a shell command.\n\
         \n\
         Where there is a tool made for it (reading, searching, writing or patching files), use that instead of cat, grep, sed or echo.\n\
         \n\
         Foreground (the default): the answer comes as soon as the command is done, so a large timeout costs nothing; give up to {most} seconds where it may take long. \
         A command that is not done in time goes on in the background, under a session_id that the answer names. Do not use nohup, disown, setsid or a trailing '&' here.\n\
         \n\
         Background (background=true): the answer comes at once, with a session_id for the process tool. There are two good uses. A job that ends by itself (tests, a build, a \
         deployment): nearly always with notify_on_complete=true, so that you can go on and are told of its end without polling. And a server or watcher that never ends: \
         without it. Check that a server is ready (curl, its log) before you use it. watch_patterns tells you of a rare, one-time line of such a process; it and \
         notify_on_complete exclude each other.\n\
         \n\
         pty=true is for programs that want a terminal, such as a REPL or an interactive installer; write to them with the process tool."
    );
    let parameters = json!({
        "type": "object",
        "properties": {
            "command": command(),
            "background": {
                "type": "boolean",
                "default": false,
                "description": "Run it apart from this call. For servers and watchers, and with notify_on_complete=true for long jobs that end by themselves.",
            },
            "timeout": timeout(default, most, " Ignored with background=true."),
            "workdir": workdir(),
            "pty": {
                "type": "boolean",
                "default": false,
                "description": "Give it a terminal, for programs that are interactive or behave differently without one.",
            },
            "notify_on_complete": {
                "type": "boolean",
                "default": false,
                "description": "With background=true: you are told once, with the exit code and the end of the output, when it ends. Set it for every job that ends by itself. \
                    Not together with watch_patterns.",
            },
            "watch_patterns": {
                "type": "array",
                "items": {"type": "string"},
                "description": "With background=true: you are told when a line of output contains one of these texts (plain text, case matters). Only for rare, one-time signals of a \
                    long-lived process, such as \"Listening on\" of a server. Never for the end of a job, which notify_on_complete tells, and never for lines that repeat, such \
                    as errors in a loop: too many matches end the watching. Not together with notify_on_complete, which wins.",
            },
            "max_output_tokens": max_output_tokens("in the foreground"),
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
            "properties": {"command": command(), "timeout": timeout(default, most, ""), "workdir": workdir()},
            "required": ["command"],
        }),
        hints: Hints::ACTS,
    }
}

fn command() -> Value {
    json!({"type": "string", "description": "The shell line to run."})
}

fn timeout(default: u64, most: u64, more: &str) -> Value {
    json!({
        "type": "integer",
        "minimum": 1,
        "description": format!("Seconds to wait for a foreground command (default {default}, at most {most}).{more}"),
    })
}

fn workdir() -> Value {
    json!({"type": "string", "description": "The directory to run in, absolute or from the default directory on. Each call begins anew: a cd of an earlier one does not last."})
}

/// Of tools that change a process.
fn force() -> Value {
    json!({"type": "boolean", "default": false, "description": "Also if another open conversation started it."})
}

fn max_output_tokens(of: &str) -> Value {
    json!({
        "type": "integer",
        "minimum": 1,
        "description": format!(
            "At most this many tokens of output, {of}: how it began, what went wrong and how it ended, with markers that say how to read what is left out."
        ),
    })
}

fn process(host: &Host) -> Schema {
    let most = host.wait_limit.as_secs();
    let description = "Look after processes that terminal runs in the background.\n\
         \n\
         list: those there are. poll: how one is, and the end of its output. log: its output, in pages of lines. wait: until it ends or the time is over. kill: stop it and \
         everything it started. write: put text into its input as it is. submit: the same with a newline, as if typed and entered. close: end its input. Input is for processes \
         started with pty=true."
        .to_owned();
    let parameters = json!({
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": ACTIONS, "description": "What to do."},
            "session_id": {"type": "string", "description": "The process, as terminal named it. For every action but list."},
            "data": {"type": "string", "description": "The text for write and submit."},
            "timeout": {
                "type": "integer",
                "minimum": 1,
                "description": format!("For wait: at most this many seconds (default and limit {most}). The process goes on when they are over."),
            },
            "offset": {"type": "integer", "description": "For log: the first line to show, counted from 0. Left out: the last lines."},
            "limit": {
                "type": "integer",
                "minimum": 1,
                "description": format!("For log: how many lines (default {}).", limits::LOG_DEFAULT_LINES),
            },
            "max_output_tokens": max_output_tokens("for log, wait, kill and poll"),
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
