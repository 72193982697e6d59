//! Arguments that a model gives under the name that another tool has for them.
//!
//! Decision 354: docs/decisions/tools-mcp.md.

use crate::args::{Args, short};
use crate::{Host, Tools};
use outlast_core::nearest;
use serde_json::Value;

/// Names of the same argument in our tools and in others that models know.
const SAME: [&[&str]; 8] = [
    &["command", "cmd", "script", "shell_command", "command_line"],
    &["cwd", "workdir", "working_directory", "working_dir", "directory", "dir"],
    &["process", "session_id", "process_id", "id"],
    &["text", "data", "chars", "stdin"],
    &["pty", "tty"],
    &["watch", "watch_patterns"],
    &["notify", "notify_on_complete"],
    &["timeout_seconds", "timeout"],
];

/// What is wrong with the names of the arguments, if one is that of an argument which is missing. Other unknown arguments are ignored: hosts
/// add some of their own.
pub(crate) fn misnamed(host: &Host, tool: &str, arguments: &Value) -> Option<String> {
    let schemas = Tools::schemas_of(host);
    let schema = schemas.iter().find(|schema| schema.name == tool)?;
    let known = schema.parameters.get("properties").and_then(Value::as_object)?;
    // Arguments that are no object are refused later.
    let args = Args::of(arguments).ok()?;
    let is_missing = |name: &&str| args.get(name).is_none();
    args.names().filter(|given| !known.contains_key(*given) && !is_taken(tool, given) && args.get(given).is_some()).find_map(|given| {
        let same =
            SAME.iter().find(|names| names.contains(&given)).and_then(|names| names.iter().copied().find(|n| known.contains_key(*n)));
        let near = || nearest(given, known.keys().map(String::as_str)).first().copied();
        let meant = same.or_else(near).filter(is_missing)?;
        Some(format!("{tool} has no argument {}: did you mean {meant}?", short(given)))
    })
}

/// Whether a tool takes this name as well.
fn is_taken(tool: &str, given: &str) -> bool {
    (tool, given) == (crate::codex::EXEC, "command")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;
    use outlast_client::caller;
    use serde_json::json;

    #[test]
    fn the_right_name_is_given_for_a_wrong_one() {
        for (profile, tool, arguments, want) in [
            (Profile::Native, "run", json!({"cmd": "ls"}), Some("run has no argument cmd: did you mean command?")),
            (Profile::Native, "run", json!({"command": "ls", "workdir": "/"}), Some("run has no argument workdir: did you mean cwd?")),
            (
                Profile::Native,
                "run",
                json!({"command": "ls", "wait_second": 1}),
                Some("run has no argument wait_second: did you mean wait_seconds?"),
            ),
            (
                Profile::Native,
                "run",
                json!({"command": "ls", "timeout": 1}),
                Some("run has no argument timeout: did you mean timeout_seconds?"),
            ),
            (Profile::Native, "log", json!({"session_id": "x"}), Some("log has no argument session_id: did you mean process?")),
            (
                Profile::Hermes,
                "terminal",
                json!({"command": "ls", "cwd": "/"}),
                Some("terminal has no argument cwd: did you mean workdir?"),
            ),
            (
                Profile::Hermes,
                "process",
                json!({"action": "log", "process": "x"}),
                Some("process has no argument process: did you mean session_id?"),
            ),
            (
                Profile::Codex,
                "exec_command",
                json!({"cmd": "ls", "cwd": "/"}),
                Some("exec_command has no argument cwd: did you mean workdir?"),
            ),
            (
                Profile::Codex,
                "write_stdin",
                json!({"session_id": 1, "text": "x"}),
                Some("write_stdin has no argument text: did you mean chars?"),
            ),
            // What is given under its name counts, and what hosts add means nothing here.
            (Profile::Native, "run", json!({"command": "ls", "cmd": "ls", "cwd": "/", "dir": null, "conversation": "x"}), None),
            (Profile::Codex, "exec_command", json!({"command": "ls", "shell": "bash", "login": true, "justification": "x"}), None),
            (Profile::Hermes, "terminal", json!({"command": "ls", "force": true, "task_id": "x"}), None),
            (Profile::Native, "list", json!({"anything": 1}), None),
            (Profile::Native, "run", json!("no object"), None),
            (Profile::Native, "dance", json!({"cmd": "ls"}), None),
        ] {
            let host = Host { profile, ..Host::new(caller([], std::path::Path::new("/"))) };
            assert_eq!(misnamed(&host, tool, &arguments).as_deref(), want, "{tool} {arguments}");
        }
    }
}
