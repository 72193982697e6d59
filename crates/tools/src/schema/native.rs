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
    let description = "Run a command. The answer comes as soon as it ends. If it has not ended after wait_seconds, the answer names a process and the command goes on by itself: also \
         when this conversation, its host or the machine's login ends. You are then told once when it ends, or prints a line that you watch for: go on with other work and \
         do not poll. Give wait_seconds=0 for servers and watchers, with notify=false where their end is of no interest. Never use nohup, disown, setsid or a trailing '&'."
        .to_owned();
    let parameters = json!({
        "type": "object",
        "properties": {
            "command": {
                "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}],
                "description": "A shell line, or a program and its arguments as a list.",
            },
            "wait_seconds": {
                "type": "number",
                "minimum": 0,
                "description": format!("How long to wait for its end (default {usual}, at most {most}). 0 answers as soon as it runs."),
            },
            "notify": {"type": "boolean", "default": true, "description": "Tell of its end, if it comes after this answer."},
            "watch": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Tell when a line of output contains one of these texts. For rare signals of something long-lived, such as \"Listening on\".",
            },
            "cwd": {"type": "string", "description": "The directory to run in, absolute or from the default directory on."},
            "env": {"type": "object", "additionalProperties": {"type": "string"}, "description": "Variables to set."},
            "pty": {"type": "boolean", "default": false, "description": "Give it a terminal, for interactive programs."},
            "input": {"type": "boolean", "default": false, "description": "Keep its input open for write."},
            "timeout_seconds": {"type": "integer", "minimum": 1, "description": "Time limit of the command, in seconds, also if no call waits for it."},
            "name": {"type": "string", "description": "A name for people who look at the list."},
            "max_output_tokens": max_output_tokens(),
        },
        "required": ["command"],
    });
    Schema { name: "run", description, parameters, hints: Hints::ACTS }
}

fn wait(host: &Host) -> Schema {
    let most = host.wait_limit.as_secs();
    Schema {
        name: "wait",
        description: "Wait for the end of a process, and get its output. Only when there is nothing else to do: its end is told anyway."
            .into(),
        parameters: json!({
            "type": "object",
            "properties": {
                "process": process(),
                "seconds": {"type": "number", "minimum": 0, "description": format!("At most so long (default and limit {most}). The process goes on after that.")},
                "max_output_tokens": max_output_tokens(),
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
            "offset": {"type": "integer", "minimum": 0, "description": "The first line, counted from 0. Left out: the lines that matter most, or with limit the last ones."},
            "limit": {"type": "integer", "minimum": 1, "description": format!("How many lines (default {}).", limits::LOG_DEFAULT_LINES)},
            "max_output_tokens": max_output_tokens(),
        },
        "required": ["process"],
    });
    Schema { name: "log", description: "Read the output of a process, running or over.".into(), parameters, hints: Hints::LOOKS }
}

fn list() -> Schema {
    Schema {
        name: "list",
        description: "The processes of this conversation: those that run, and those that ended last.".into(),
        parameters: json!({"type": "object", "properties": {}}),
        hints: Hints::LOOKS,
    }
}

fn kill() -> Schema {
    let parameters = json!({
        "type": "object",
        "properties": {
            "process": process(),
            "grace_seconds": {"type": "integer", "minimum": 0, "description": "How long it may take to end by itself before it is made to; 0 is at once."},
            "max_output_tokens": max_output_tokens(),
        },
        "required": ["process"],
    });
    Schema { name: "kill", description: "Stop a process and everything it started.".into(), parameters, hints: Hints::ENDS }
}

fn write() -> Schema {
    let parameters = json!({
        "type": "object",
        "properties": {
            "process": process(),
            "text": {"type": "string", "description": "What to put into its input, as it is."},
            "enter": {"type": "boolean", "default": false, "description": "A newline behind it."},
            "close": {"type": "boolean", "default": false, "description": "End its input behind it."},
        },
        "required": ["process"],
    });
    Schema {
        name: "write",
        description: "Write to the input of a process that was started with pty or input.".into(),
        parameters,
        hints: Hints::ACTS,
    }
}

fn notices(host: &Host) -> Schema {
    let most = host.wait_limit.as_secs();
    Schema {
        name: "notices",
        description: "Notices for this session: processes that ended, watched lines that were printed. Each is delivered once; told=true shows those of the last day again."
            .into(),
        parameters: json!({
            "type": "object",
            "properties": {
                "wait_seconds": {"type": "number", "minimum": 0, "description": format!("Wait at most this many seconds for a notice (default 0, at most {most}).")},
                "told": {"type": "boolean", "default": false, "description": "Also show notices that were delivered in the last day, each with told_at."},
            },
        }),
        hints: Hints { read_only: false, destructive: false, idempotent: false, open_world: false },
    }
}

fn process() -> Value {
    json!({"type": "string", "description": "The process: the id that run answered, or its name."})
}

fn max_output_tokens() -> Value {
    json!({
        "type": "integer",
        "minimum": 1,
        "description": format!("At most this many tokens of output (default {}): how it began, what went wrong, how it ended.", native::DEFAULT_TOKENS),
    })
}
