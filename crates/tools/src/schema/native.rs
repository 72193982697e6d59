//! Our own tools.

use super::{Hints, Schema};
use crate::{Host, native};
use outlast_core::limits;
use serde_json::{Value, json};

pub(super) fn all(host: &Host) -> Vec<Schema> {
    vec![run(host), wait(host), log(), list(), kill(), write(), notices(host)]
}

fn run(host: &Host) -> Schema {
    let (usual, most) = (host.usual_wait(native::DEFAULT_WAIT).as_secs(), host.foreground_limit.as_secs());
    let description = "Run a command. A long-running one continues in the background after wait_seconds, as a process that the answer names; it survives the end of \
         conversation, host and login. You are told once when it ends or prints a watched line: go on with other work, do not poll. Servers and watchers: wait_seconds=0, \
         and notify=false if their end does not matter. No nohup, disown, setsid or trailing '&'."
        .to_owned();
    let parameters = json!({
        "type": "object",
        "properties": {
            "command": {
                "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}],
                "description": "A shell line, or a program and its arguments.",
            },
            "wait_seconds": {
                "type": "number",
                "minimum": 0,
                "description": format!("Wait for its end (default {usual}, at most {most}). 0: answer once it runs."),
            },
            "notify": {"type": "boolean", "default": true, "description": "Tell of its end later."},
            "watch": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Tell when a line contains one of these texts. For rare signals, as \"Listening on\".",
            },
            "cwd": {"type": "string", "description": "Working directory."},
            "env": {"type": "object", "additionalProperties": {"type": "string"}, "description": "Variables."},
            "pty": {"type": "boolean", "description": "Give it a terminal."},
            "input": {"type": "boolean", "description": "Keep its input open for write."},
            "timeout_seconds": {"type": "integer", "minimum": 1, "description": "Stop it then, waited for or not."},
            "name": {"type": "string", "description": "A name for people."},
            "max_output_tokens": max_output_tokens("; beginning, errors and end are kept"),
        },
        "required": ["command"],
    });
    Schema { name: "run", description, parameters, hints: Hints::ACTS }
}

fn wait(host: &Host) -> Schema {
    let (usual, most) = (host.usual_wait(host.wait_limit).as_secs(), host.wait_limit.as_secs());
    Schema {
        name: "wait",
        description: "Wait for a background process to end, and get its output. Only if nothing else is to do: its end is told anyway."
            .into(),
        parameters: json!({
            "type": "object",
            "properties": {
                "process": process(),
                "seconds": {"type": "number", "minimum": 0, "description": format!("Default {usual}, at most {most}; it continues after that.")},
                "max_output_tokens": max_output_tokens(""),
            },
            "required": ["process"],
        }),
        hints: Hints::LOOKS,
    }
}

fn log() -> Schema {
    let parameters = json!({
        "type": "object",
        "properties": {
            "process": process(),
            "offset": {"type": "integer", "minimum": 0, "description": "First line, from 0. Without: those that matter most; with limit: the last."},
            "limit": {"type": "integer", "minimum": 1, "description": format!("Lines (default {}).", limits::LOG_DEFAULT_LINES)},
            "max_output_tokens": max_output_tokens(""),
        },
        "required": ["process"],
    });
    Schema { name: "log", description: "Read the output of a running or ended process.".into(), parameters, hints: Hints::LOOKS }
}

fn list() -> Schema {
    Schema {
        name: "list",
        description: "List background processes: running and last ended.".into(),
        parameters: json!({"type": "object", "properties": {}}),
        hints: Hints::LOOKS,
    }
}

fn kill() -> Schema {
    let parameters = json!({
        "type": "object",
        "properties": {
            "process": process(),
            "grace_seconds": {"type": "integer", "minimum": 0, "description": "Time to end by itself first; 0: none."},
            "max_output_tokens": max_output_tokens(""),
            "force": super::force(),
        },
        "required": ["process"],
    });
    Schema { name: "kill", description: "Stop a background process and everything it started.".into(), parameters, hints: Hints::ENDS }
}

fn write() -> Schema {
    let parameters = json!({
        "type": "object",
        "properties": {
            "process": process(),
            "text": {"type": "string", "description": "Sent as it is."},
            "enter": {"type": "boolean", "description": "Append a newline."},
            "close": {"type": "boolean", "description": "Then end its input."},
            "force": super::force(),
        },
        "required": ["process"],
    });
    Schema {
        name: "write",
        description: "Write to the input of a process started with pty or input.".into(),
        parameters,
        hints: Hints::ACTS,
    }
}

fn notices(host: &Host) -> Schema {
    let most = host.wait_limit.as_secs();
    Schema {
        name: "notices",
        description: "Get notices of ended processes and watched lines. Each is delivered once, also with other answers.".into(),
        parameters: json!({
            "type": "object",
            "properties": {
                "wait_seconds": {"type": "number", "minimum": 0, "description": format!("Wait for one (default 0, at most {most}).")},
                "told": {"type": "boolean", "description": "Also those delivered in the last day."},
            },
        }),
        hints: Hints { read_only: false, destructive: false, idempotent: false, open_world: false },
    }
}

fn process() -> Value {
    json!({"type": "string", "description": "Its id or name."})
}

fn max_output_tokens(more: &str) -> Value {
    json!({"type": "integer", "minimum": 1, "description": format!("Default {}{more}.", native::DEFAULT_TOKENS)})
}
