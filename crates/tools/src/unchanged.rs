//! A look at a running process that finds nothing new repeats nothing.
//!
//! Decision 355: docs/decisions/tools-mcp.md.

use crate::cursors::ConversationCursors;
use crate::on_delivered::OnDelivered;
use crate::{Answer, Profile};
use outlast_client::ProcessId;
use serde_json::Value;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// The field that says so.
pub(crate) const UNCHANGED: &str = "unchanged";
/// Fields that repeat what an earlier answer said.
const REPEATED: [&str; 5] = ["output_cut", "gaps", "command", "cwd", "note"];

/// Shortens the answer of a poll, or of a wait that ran out, if it shows what the last one did.
pub(crate) fn shorten(all: &mut Answer, profile: Profile, tool: &str, cursors: &ConversationCursors, on_delivered: &OnDelivered) {
    let Some((process, field)) = looked(all, profile, tool) else { return };
    let seen = print(all, field);
    if cursors.seen(process) != Some(seen) {
        return on_delivered.shows(process, seen);
    }
    for name in REPEATED {
        all.remove(name);
    }
    match profile {
        // A text is made from it.
        Profile::Native => _ = all.insert(field.into(), "".into()),
        Profile::Hermes | Profile::Codex => _ = all.remove(field),
    }
    all.insert(UNCHANGED.into(), true.into());
}

/// The process that was looked at and still runs, and the field with its output.
fn looked(all: &Answer, profile: Profile, tool: &str) -> Option<(ProcessId, &'static str)> {
    let word = |name: &str| all.get(name).and_then(Value::as_str);
    let (named, field) = match (profile, tool, word("status")?) {
        (Profile::Native, "wait", "running") => ("process", "output"),
        (Profile::Hermes, "process", "running") => ("session_id", "output_preview"),
        (Profile::Hermes, "process", "timeout") => ("session_id", "output"),
        _ => return None,
    };
    all.contains_key(field).then_some(())?;
    Some((word(named)?.parse().ok()?, field))
}

/// A number that differs if the output does.
fn print(all: &Answer, field: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    field.hash(&mut hasher);
    for name in [field, "output_bytes", "input_bytes", "is_suspended"] {
        all.get(name).map(Value::to_string).hash(&mut hasher);
    }
    hasher.finish()
}
