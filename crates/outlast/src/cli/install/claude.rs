//! The hooks of Claude Code in its `settings.json`.

use super::Failure;
use super::edit::Data;
use super::edit::json::{JsonEdit, Ours};
use super::own_command::OwnCommand;
use super::place::{InstallPlace, Scope, UserFile, VariableMeaning};
use super::target::{FileEdits, Target};
use serde_json::Value;

/// The time limit of a hook that delivers what is pending and returns, in seconds.
const LOOK: u32 = 15;
/// How long the waiting hook waits, in seconds. It must end, because each end of a turn starts another one.
const WAIT: u32 = 14_400;
/// The time limit of the waiting hook, in seconds: a little more than it waits.
const WAIT_LIMIT: u32 = WAIT + 60;

const SETTINGS: UserFile =
    UserFile { variables: &[("CLAUDE_CONFIG_DIR", VariableMeaning::Directory(""))], home: ".claude", names: &["settings.json"] };

pub(super) fn hooks(place: &InstallPlace<'_>, own: &OwnCommand) -> Result<Target, Failure> {
    let file = match place.scope {
        Scope::User => SETTINGS.paths(place)?.swap_remove(0),
        Scope::Project => place.world.cwd.join(".claude/settings.json"),
    };
    // Each boundary delivers what is pending. The waiting hook starts at the end of a turn, and what it reports starts the next turn. At
    // the start of a session it would delay that.
    let hooks = vec![
        event("SessionStart", vec![looks(own)]),
        event("UserPromptSubmit", vec![looks(own)]),
        event("Stop", vec![looks(own), waits(own)]),
    ];
    Ok(Target::new(file, FileEdits::Json(hooks)))
}

fn event(name: &'static str, hooks: Vec<Data>) -> JsonEdit {
    JsonEdit::Element { path: vec!["hooks", name], data: Data::map([("hooks", Data::List(hooks))]), ours }
}

fn looks(own: &OwnCommand) -> Data {
    Data::map([("type", Data::text("command")), ("command", Data::text(own.shell_line("hook claude"))), ("timeout", Data::Number(LOOK))])
}

fn waits(own: &OwnCommand) -> Data {
    Data::map([
        ("type", Data::text("command")),
        ("command", Data::text(own.shell_line(&format!("hook claude --wait --timeout {WAIT}")))),
        ("asyncRewake", Data::Flag(true)),
        ("timeout", Data::Number(WAIT_LIMIT)),
    ])
}

/// How much of a group of hooks, or of one hook, was made by us.
fn ours(value: &Value) -> Ours {
    let Some(inner) = value["hooks"].as_array() else {
        return if value["command"].as_str().is_some_and(calls_us) { Ours::Whole } else { Ours::Nothing };
    };
    match inner.iter().filter(|hook| hook["command"].as_str().is_some_and(calls_us)).count() {
        0 => Ours::Nothing,
        n if n == inner.len() => Ours::Whole,
        _ => Ours::Within("hooks"),
    }
}

/// Whether a shell command line calls `outlast hook claude`, at any path.
fn calls_us(line: &str) -> bool {
    let Some((program, rest)) = line.split_once(" hook claude") else { return false };
    let program = program.trim_end_matches('\'').rsplit(['/', ' ', '\'']).next();
    program == Some("outlast") && (rest.is_empty() || rest.starts_with(" --"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_hooks_are_known_wherever_we_lie() {
        for line in
            ["/bin/outlast hook claude", "'/my programs/outlast' hook claude --wait --timeout 9", "OUTLAST_HOME=/x outlast hook claude"]
        {
            assert!(calls_us(line), "{line}");
        }
        for line in ["/bin/outlasting hook claude", "outlast hook codex", "echo outlast hook claude now", "outlast", ""] {
            assert!(!calls_us(line), "{line}");
        }
    }
}
