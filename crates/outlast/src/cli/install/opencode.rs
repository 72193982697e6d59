//! opencode: `mcp.outlast` in its `opencode.json`, which may have comments; if asked for, a hook of ours that has its server start a turn.

use super::edit::Data;
use super::edit::json::Wish;
use super::us::Sink;
use super::{Failure, File, Place, Scope, Target, Us, Wishes};
use std::path::PathBuf;

/// The names it reads, of which a later one wins.
const NAMES: [&str; 2] = ["opencode.jsonc", "opencode.json"];

/// The name of the sink that wakes it.
pub(super) const WAKES: &str = "wake-opencode";

pub(super) fn targets(place: &Place<'_>, us: &Us) -> Result<Vec<Target>, Failure> {
    let dir = match place.scope {
        Scope::User => place.dir("XDG_CONFIG_HOME", ".config")?.join("opencode"),
        Scope::Project => place.project(""),
    };
    let command = [us.program.clone()].into_iter().chain(us.args.iter().cloned());
    let mut fields = vec![("type".to_owned(), Data::text("local")), ("command".to_owned(), Data::texts(command))];
    fields.extend(us.env(None).map(|env| ("environment".to_owned(), env)));
    let wishes = Wishes::Json(vec![Wish::Member { path: vec!["mcp", "outlast"], fields, usual: Vec::new() }]);
    let mut targets = vec![Target::new(file(&NAMES.map(|name| dir.join(name)), &wishes), wishes)];
    if us.wake {
        let sink = Sink { name: WAKES, client: "opencode", flags: &[], sessions: &["opencode:*", "mcp:opencode:*"], limit: None };
        targets.push(us.wakes(place, &sink));
    }
    Ok(targets)
}

/// The one that names us, else one that is there, else a new one.
fn file(all: &[PathBuf; 2], wishes: &Wishes) -> PathBuf {
    let names_us = |path: &&PathBuf| File::read(path).is_ok_and(|file| matches!(wishes.entry(file.text()), Ok(Some(_))));
    all.iter().find(names_us).or_else(|| all.iter().find(|path| path.exists())).unwrap_or(&all[1]).clone()
}
