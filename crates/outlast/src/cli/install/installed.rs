//! Finds the configurations of clients that have our entry, for `doctor`.

use super::clients::{AgentClient, CLIENTS};
use super::own_command::{OwnCommand, ServerCommand};
use super::place::{InstallPlace, Scope};
use super::{Context, File, refusal};
use std::path::PathBuf;

/// A configuration with our entry.
pub(crate) struct InstalledEntry {
    pub(crate) client: &'static AgentClient,
    pub(crate) file: PathBuf,
    pub(crate) scope: Scope,
    /// The command of the entry, or why it cannot be read.
    pub(crate) command: Result<ServerCommand, String>,
}

/// All configurations with our entry, and those that cannot be read.
pub(crate) fn installed_entries(ctx: &Context) -> Vec<InstalledEntry> {
    let Ok(own) = OwnCommand::of(ctx, None, false, false) else { return Vec::new() };
    let mut all = Vec::new();
    for client in &CLIENTS {
        for scope in [Scope::User, Scope::Project] {
            let place = InstallPlace { world: &ctx.world, config: &ctx.settings.file, scope };
            let Ok(targets) = client.targets(&place, &own) else { continue };
            for target in targets.iter().filter(|t| !t.is_own_config) {
                // In the home directory, user and project may share a file.
                if all.iter().any(|one: &InstalledEntry| one.file == target.path) {
                    continue;
                }
                let entry = match File::read(&target.path) {
                    Ok(file) => target.edits.entry(file.text()).map_err(|e| refusal(target, &e).error().to_owned()),
                    Err(e) => Err(e.error().to_owned()),
                };
                let command = match entry {
                    Ok(None) => continue,
                    Ok(Some(entry)) => ServerCommand::of(&entry).ok_or_else(|| "the entry outlast names no command".to_owned()),
                    Err(e) => Err(e),
                };
                all.push(InstalledEntry { client, file: target.path.clone(), scope, command });
            }
        }
    }
    all
}
