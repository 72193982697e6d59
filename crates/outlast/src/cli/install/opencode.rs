//! opencode: `mcp.outlast` in its `opencode.json`, which may have comments; with `--wake`, a hook of ours that has its server start a turn.

use super::edit::Data;
use super::edit::json::JsonEdit;
use super::own_command::WakingHook;
use super::{Failure, File, FileEdits, InstallPlace, OwnCommand, Scope, Target};
use std::path::PathBuf;

/// The file names that it reads; a later one wins.
const NAMES: [&str; 2] = ["opencode.jsonc", "opencode.json"];

/// The name of the hook that wakes it.
pub(super) const WAKES: &str = "wake-opencode";

pub(super) fn targets(place: &InstallPlace<'_>, own: &OwnCommand) -> Result<Vec<Target>, Failure> {
    let dir = match place.scope {
        Scope::User => place.dir("XDG_CONFIG_HOME", ".config")?.join("opencode"),
        Scope::Project => place.project(""),
    };
    let command = [own.program.clone()].into_iter().chain(own.args.iter().cloned());
    let mut fields = vec![("type".to_owned(), Data::text("local")), ("command".to_owned(), Data::texts(command))];
    fields.extend(own.env(None).map(|env| ("environment".to_owned(), env)));
    let edits = FileEdits::Json(vec![JsonEdit::Member { path: vec!["mcp", "outlast"], fields, defaults: Vec::new() }]);
    let mut targets = vec![Target::new(file(&NAMES.map(|name| dir.join(name)), &edits), edits)];
    if own.should_wake {
        let hook = WakingHook { name: WAKES, client: "opencode", flags: &[], sessions: &["opencode:*", "mcp:opencode:*"], limit: None };
        targets.push(own.waking_target(place, &hook));
    }
    Ok(targets)
}

/// The file with our entry, else one that exists, else a new one.
fn file(all: &[PathBuf; 2], edits: &FileEdits) -> PathBuf {
    let has_own_entry = |path: &&PathBuf| File::read(path).is_ok_and(|file| matches!(edits.entry(file.text()), Ok(Some(_))));
    all.iter().find(has_own_entry).or_else(|| all.iter().find(|path| path.exists())).unwrap_or(&all[1]).clone()
}
