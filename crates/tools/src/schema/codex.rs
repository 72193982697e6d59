//! `exec_command` and `write_stdin`, with the names and limits that models know.

use super::{Hints, Schema};
use crate::{Host, codex};
use serde_json::{Value, json};

pub(super) fn all(host: &Host) -> Vec<Schema> {
    vec![exec_command(host), write_stdin()]
}

fn exec_command(host: &Host) -> Schema {
    let usual = host.usual_wait(codex::DEFAULT_WAIT).as_millis();
    Schema {
        name: codex::EXEC,
        description: "Runs a shell command, also a long-running one. Returns its output and exit code, or, if it still runs after yield_time_ms, its output so far and a session_id \
             for ongoing interaction. It then continues in the background and survives the end of this conversation or its host; its end is told without being asked for."
            .into(),
        parameters: json!({
            "type": "object",
            "properties": {
                "cmd": {"type": "string", "description": "Shell command to execute."},
                "workdir": {"type": "string", "description": "Working directory; default: the server's."},
                "tty": {"type": "boolean", "default": false, "description": "Give it a terminal, for programs that take input."},
                "yield_time_ms": {
                    "type": "integer",
                    "minimum": 0,
                    "description": format!("How long to wait for output (default {usual}, 250 to 30000)."),
                },
                "max_output_tokens": max_output_tokens(),
            },
            "required": ["cmd"],
        }),
        hints: Hints::ACTS,
    }
}

fn write_stdin() -> Schema {
    Schema {
        name: codex::STDIN,
        description: "Writes characters to a running exec_command session and returns its new output. Empty chars only waits and looks. \\u0003 interrupts it.".into(),
        parameters: json!({
            "type": "object",
            "properties": {
                "session_id": {"type": "integer", "description": "The number that exec_command returned."},
                "chars": {"type": "string", "default": "", "description": "What to write to standard input."},
                "yield_time_ms": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "How long to wait for output (with chars 250 to 30000, without 5000 to 300000).",
                },
                "max_output_tokens": max_output_tokens(),
            },
            "required": ["session_id"],
        }),
        hints: Hints::ACTS,
    }
}

fn max_output_tokens() -> Value {
    json!({
        "type": "integer",
        "minimum": 1,
        "description": format!("Most tokens of output (default {}). What is left out is marked; the first error is kept.", codex::DEFAULT_TOKENS),
    })
}
