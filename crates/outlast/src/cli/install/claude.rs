//! Claude Code: `mcpServers` in `~/.claude.json` or a project's `.mcp.json`, and hooks in `settings.json`.

use super::edit::Data;
use super::edit::json::{Ours, Wish};
use super::{Failure, Place, Scope, Target, Us, Wishes};
use serde_json::Value;

/// How long a hook that only looks may take, in seconds.
const LOOK: u32 = 15;
/// How long the one that waits does so, in seconds. Each turn that ends starts another, so that it must not be for ever.
const WAIT: u32 = 14_400;
/// How long it may take until it is ended, in seconds: a little more than it waits.
const WAIT_LIMIT: u32 = WAIT + 60;

pub(super) fn targets(place: &Place<'_>, us: &Us) -> Result<Vec<Target>, Failure> {
    let (servers, settings) = match place.scope {
        // The variable moves the file into the directory, which without it lies beside it.
        Scope::User => match place.world.var("CLAUDE_CONFIG_DIR") {
            Some(_) => {
                let dir = place.dir("CLAUDE_CONFIG_DIR", "")?;
                (dir.join(".claude.json"), dir.join("settings.json"))
            }
            None => {
                let home = place.dir("CLAUDE_CONFIG_DIR", "")?;
                (home.join(".claude.json"), home.join(".claude/settings.json"))
            }
        },
        Scope::Project => (place.project(".mcp.json"), place.project(".claude/settings.json")),
    };
    let mut fields = vec![("type".to_owned(), Data::text("stdio"))];
    fields.extend(us.server());
    let server = Wish::Member { path: vec!["mcpServers", "outlast"], fields, usual: Vec::new() };
    // What is due is said at each boundary. The one that waits begins when a turn ends, and starts the next: at the start of a session it would hold that up.
    let hooks =
        vec![event("SessionStart", vec![looks(us)]), event("UserPromptSubmit", vec![looks(us)]), event("Stop", vec![looks(us), waits(us)])];
    Ok(vec![Target::new(servers, Wishes::Json(vec![server])), Target::new(settings, Wishes::Json(hooks))])
}

fn event(name: &'static str, hooks: Vec<Data>) -> Wish {
    Wish::Element { path: vec!["hooks", name], data: Data::map([("hooks", Data::List(hooks))]), ours }
}

fn looks(us: &Us) -> Data {
    Data::map([("type", Data::text("command")), ("command", Data::text(us.line("hook claude"))), ("timeout", Data::Number(LOOK))])
}

fn waits(us: &Us) -> Data {
    Data::map([
        ("type", Data::text("command")),
        ("command", Data::text(us.line(&format!("hook claude --wait --timeout {WAIT}")))),
        ("asyncRewake", Data::Flag(true)),
        ("timeout", Data::Number(WAIT_LIMIT)),
    ])
}

/// How much of a group of hooks, or of one hook, is ours.
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

/// Whether a line for a shell calls an `outlast`, wherever it lies, for Claude Code.
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
