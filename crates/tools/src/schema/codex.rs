//! `exec_command` and `write_stdin`, with the names and limits that models know.

use super::{Hints, Schema};
use crate::codex;
use serde_json::{Value, json};

pub(super) fn all() -> Vec<Schema> {
    vec![exec_command(), write_stdin()]
}

fn exec_command() -> Schema {
    let usual = codex::DEFAULT_WAIT.as_millis();
    Schema {
        name: codex::EXEC,
        description: "Runs a shell command. Returns its output and exit code, or, if it is still running when yield_time_ms is over, its output so far and a session_id \
             for ongoing interaction. It goes on by itself then, also when this conversation or its host ends, and its end is told without being asked for."
            .into(),
        parameters: json!({
            "type": "object",
            "properties": {
                "cmd": {"type": "string", "description": "Shell command to execute."},
                "workdir": {"type": "string", "description": "Working directory to run the command in; the default is that of the server."},
                "tty": {"type": "boolean", "default": false, "description": "Whether to give the command a terminal. Set it for programs that take input."},
                "yield_time_ms": {
                    "type": "integer",
                    "minimum": 0,
                    "description": format!("How long to wait for output before yielding, in milliseconds (default {usual}, 250 to 30000)."),
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
        description: "Writes characters to a running command of exec_command, and returns its recent output. Empty chars only waits and looks. \\u0003 interrupts it.".into(),
        parameters: json!({
            "type": "object",
            "properties": {
                "session_id": {"type": "integer", "description": "The number that exec_command answered with."},
                "chars": {"type": "string", "default": "", "description": "What to write to standard input; may be empty to look only."},
                "yield_time_ms": {
                    "type": "integer",
                    "minimum": 0,
                    "description": "How long to wait for output before yielding, in milliseconds (with chars 250 to 30000, without 5000 to 300000).",
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
        "description": format!("Most tokens of output to return (default {}). What is left out is marked, and the first error is kept.", codex::DEFAULT_TOKENS),
    })
}
