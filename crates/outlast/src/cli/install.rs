//! `outlast install`: adds Outlast to the configuration of a client, or removes it.
//!
//! The table in `clients.rs` says which files a client has and what belongs in each. `edit` changes texts, `file` changes files. All new texts
//! are made before the first file is written. So if one file cannot be read, none is changed.

mod chosen;
mod claude;
mod clients;
pub(crate) mod edit;
mod file;
mod installed;
mod own_command;
mod place;
mod target;
mod wakes;

use super::hook::{WakeCheck, check_wake};
use super::out::tame;
use super::{Context, Failure};
pub(super) use chosen::client_names;
use chosen::{ChosenClient, ClientParser};
use clap::Args;
use clients::{AgentClient, WakeForm, generic_entry};
use edit::EditError;
use file::File;
pub(super) use installed::{InstalledEntry, installed_entries};
use outlast_sinks::{Hook, HookCommand, SinkConfig};
use own_command::OwnCommand;
pub(super) use own_command::ServerCommand;
use place::InstallPlace;
pub(super) use place::Scope;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use target::Target;

/// Configure an agent's client to use Outlast
///
/// Adds Outlast to the client's configuration as an MCP server and, if the client has hooks, hooks that report finished processes. The rest of each file
/// stays as it is, with its comments; a copy is saved beside a file before its first change, and before a value in it is replaced. Running it again
/// changes nothing, and --undo removes exactly what was added.
#[derive(Debug, Args)]
pub(crate) struct Install {
    /// The client; `generic` prints the entry for any other
    #[arg(value_parser = ClientParser)]
    client: ChosenClient,
    /// Print what would be written, and change nothing
    #[arg(long)]
    print: bool,
    /// Remove what was added
    #[arg(long, conflicts_with = "print")]
    undo: bool,
    /// In the files of the project in this directory
    #[arg(long)]
    project: bool,
    /// In your own files (the default)
    #[arg(long, conflicts_with = "project")]
    user: bool,
    /// Which set of tools the client is offered
    #[arg(long, value_name = "NAME", value_parser = profile, conflicts_with = "undo")]
    profile: Option<String>,
    /// For opencode and Hermes: let their server wake idle sessions. `opencode serve`, or the gateway's API, has to run for that
    #[arg(long)]
    wake: bool,
    /// For Codex: ask before it uses a tool that may change something. Without this a new entry allows them, because Codex refuses calls that it cannot ask
    /// about
    #[arg(long, conflicts_with = "undo")]
    ask: bool,
}

fn profile(name: &str) -> Result<String, String> {
    let good = !name.is_empty() && name.len() <= 64 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if good { Ok(name.to_owned()) } else { Err("a name of letters, digits, - and _".into()) }
}

/// What to do with a file.
enum Step {
    Nothing,
    Write {
        text: String,
    },
    /// Only our entries are in it, and it did not exist before them.
    Remove,
}

impl Install {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        match self.client.clone() {
            ChosenClient::Known(client) => self.configure(ctx, client).await,
            ChosenClient::Generic | ChosenClient::Unknown(_) => self.show_generic(ctx),
        }
    }

    async fn configure(self, ctx: &Context, client: &'static AgentClient) -> Result<i32, Failure> {
        let scope = if self.project { Scope::Project } else { Scope::User };
        let place = InstallPlace { world: &ctx.world, config: &ctx.settings.file, scope };
        self.check_flags(client)?;
        let profile = self.profile.as_deref().or(client.profile);
        // An undo removes the waking hook too, also if it was not asked for with --wake.
        let own = OwnCommand::of(ctx, profile, self.wake || self.undo, self.ask)?;
        let targets = client.targets(&place, &own)?;
        if self.print {
            return print(ctx, client, &targets, &own);
        }
        let mut notes = Vec::new();
        // The user's files and those of a project share one waking hook.
        let keeps_waking_hook = self.undo && is_installed_elsewhere(client, &place, &own);
        let mut steps = Vec::new();
        for target in &targets {
            let file = File::read(&target.path)?;
            let step = match self.undo {
                true if target.is_own_config && keeps_waking_hook => {
                    notes.push(format!(
                        "the hook that wakes {} stays: another of its configurations still has an entry of Outlast",
                        client.title
                    ));
                    Step::Nothing
                }
                true => undo(target, &file, &own, &mut notes)?,
                false => {
                    notes.extend(target.kept_notes.iter().cloned());
                    install(target, &file, &own)?
                }
            };
            if !matches!(step, Step::Nothing) {
                file.may_be_changed()?;
            }
            steps.push((target, file, step));
        }
        let is_new =
            |(target, file, _): &(&Target, File, Step)| !target.is_own_config && matches!(target.edits.entry(file.text()), Ok(None));
        let allows = client.can_ask() && !self.ask && !self.undo && steps.iter().any(is_new);
        let mut files = Vec::new();
        let mut changed = false;
        for (target, file, step) in steps {
            let missing = target.path.parent().filter(|dir| !dir.exists());
            if !self.undo
                && !target.is_own_config
                && let Some(dir) = missing.filter(|_| scope == Scope::User)
            {
                notes.push(format!("there was no {}: {} may not be installed, or not have been run yet", dir.display(), client.title));
            }
            let done = match (&step, self.undo) {
                (Step::Nothing, false) => "unchanged",
                (Step::Nothing, true) => "absent",
                (_, false) => "installed",
                (_, true) => "removed",
            };
            let mut about = json!({"path": target.path, "status": done});
            match step {
                Step::Nothing => {}
                Step::Write { text } => {
                    // A file with our entries is no original worth a copy, unless the change would lose something in it.
                    let copied = !self.undo && (!target.has_own_entries(file.text()) || target.loses(file.text(), &text, &own));
                    if let Some(kept) = if copied { file.keep()? } else { None } {
                        about["backup"] = json!(kept);
                    }
                    file.write(&text, scope == Scope::User)?;
                    if self.undo {
                        notes.extend(file.forget_copies(|copy| copy == text || target.without_own_entries(copy).as_ref() == Some(&text))?);
                    }
                    changed = true;
                }
                Step::Remove => {
                    file.remove()?;
                    notes.extend(file.forget_copies(|copy| target.without_own_entries(copy).is_some_and(|rest| rest.trim().is_empty()))?);
                    about["status"] = json!("deleted");
                    changed = true;
                }
            }
            if target.is_own_config && about["status"] != "unchanged" && about["status"] != "absent" {
                notes.push(
                    "a running engine has its configuration already: `outlast engine restart` starts one that reads the change, and processes keep running"
                        .into(),
                );
            }
            files.push(about);
        }
        if allows {
            notes.push(format!(
                "{} may call our tools without asking, and what they start runs outside its sandbox; with `--ask` it asks",
                client.title
            ));
        }
        if changed {
            notes.push(format!("{} reads its configuration when it starts; running sessions do not change", client.title));
        }
        if changed && !self.undo {
            notes.extend(client.notes(scope).map(str::to_owned));
        }
        if !self.undo {
            notes.extend(wake_failures(ctx, &targets).await);
        }
        let status = match (changed, self.undo) {
            (true, false) => "installed",
            (true, true) => "removed",
            (false, false) => "unchanged",
            (false, true) => "absent",
        };
        if ctx.out.json {
            ctx.out.object(&json!({"status": status, "client": client.name, "files": files, "notes": notes}))?;
            return Ok(0);
        }
        for about in &files {
            ctx.out.line(&sentence(about))?;
        }
        notes.iter().for_each(|note| ctx.out.remark(note));
        Ok(0)
    }
}

impl Install {
    /// Refuses a flag that has no effect for this client, so that the user does not rely on it.
    fn check_flags(&self, client: &AgentClient) -> Result<(), Failure> {
        if self.wake && matches!(client.wake, WakeForm::Never) {
            return Err(Failure::refused(format!("no hook can start a turn in {}", client.title), "leave --wake out"));
        }
        if self.ask && !client.can_ask() {
            let what = format!("--ask has no effect for {}, which asks as its own settings say", client.title);
            return Err(Failure::refused(what, "leave --ask out"));
        }
        Ok(())
    }

    /// Shows the entry for a client whose files are not known. A user who did not ask for that is refused with the same text.
    fn show_generic(self, ctx: &Context) -> Result<i32, Failure> {
        let flags = [(self.undo, "--undo"), (self.project, "--project"), (self.wake, "--wake"), (self.ask, "--ask")];
        let unknown = match &self.client {
            ChosenClient::Unknown(name) => Some(format!("the files of {} are not known, so nothing was written", tame(name))),
            ChosenClient::Known(_) | ChosenClient::Generic => None,
        };
        if let Some((_, flag)) = flags.iter().find(|(is_given, _)| *is_given) {
            let what = unknown.unwrap_or_else(|| format!("{flag} has no effect for a client whose files are not known"));
            return Err(Failure::refused(what, "the entry `outlast` in the configuration of the client is yours to add and to remove"));
        }
        let own = OwnCommand::of(ctx, self.profile.as_deref(), false, false)?;
        let text = generic_entry(&own);
        if let Some(unknown) = unknown.as_ref().filter(|_| !self.print) {
            let hint = format!("{GENERIC_HINT}\n{text}Known clients: {}", client_names().join(", "));
            return Err(Failure::refused(unknown, hint).exit(2));
        }
        let notes: Vec<String> = unknown.into_iter().chain([GENERIC_HINT.to_owned()]).collect();
        if ctx.out.json {
            let files = [json!({"path": null, "status": "to be added by hand", "text": text})];
            ctx.out.object(&json!({"status": "ok", "client": self.client.name(), "files": files, "notes": notes}))?;
            return Ok(0);
        }
        ctx.out.text(&text)?;
        notes.iter().for_each(|note| ctx.out.remark(note));
        Ok(0)
    }
}

/// Notes about hooks that were installed and cannot wake the client now.
async fn wake_failures(ctx: &Context, targets: &[Target]) -> Vec<String> {
    let mut notes = Vec::new();
    for (name, words) in targets.iter().flat_map(Target::waking_commands) {
        let dir = ctx.world.user.home.clone().unwrap_or_else(|| "/".into());
        let mut hook = Hook::new(HookCommand::Argv(words), ctx.world.env.clone(), dir);
        hook.wakes = true;
        let Ok(sink) = SinkConfig::hook(name, hook) else { continue };
        if let Some(WakeCheck::Fails(why)) = check_wake(&sink).await {
            notes.push(format!(
                "the [[hook]] named {name} cannot wake it now: {why}. Until it can, notices come with the answers of our tools; `outlast doctor` tries it again"
            ));
        }
    }
    notes
}

/// What to do with the generic entry.
const GENERIC_HINT: &str = "add this MCP server to the configuration of your client: a local one (stdio), with this command and these arguments. Most \
                            clients have a list `mcpServers` of this form. If it has a time limit for tools, set it to 660 s";

/// Whether the client's configuration of the other scope (user or this project) has our entry.
fn is_installed_elsewhere(client: &AgentClient, here: &InstallPlace<'_>, own: &OwnCommand) -> bool {
    let scope = if here.scope == Scope::User { Scope::Project } else { Scope::User };
    let targets = client.targets(&InstallPlace { scope, ..*here }, own).unwrap_or_default();
    let here: Vec<PathBuf> = client.targets(here, own).unwrap_or_default().into_iter().map(|t| t.path).collect();
    targets.iter().filter(|t| !here.contains(&t.path)).any(|target| {
        File::read(&target.path).is_ok_and(|file| matches!(target.edits.entry(file.text()), Ok(Some(entry)) if own.is_ours(&entry)))
    })
}

fn sentence(about: &Value) -> String {
    let path = about["path"].as_str().unwrap_or_default();
    let what = match about["status"].as_str() {
        Some("installed") => "installed",
        Some("unchanged") => "already installed",
        Some("removed") => "removed the entries of Outlast",
        Some("deleted") => "removed, as nothing else was in it",
        _ if !Path::new(path).exists() => "there is no such file, and nothing to remove",
        _ => "it has no entry of Outlast",
    };
    match about["backup"].as_str() {
        Some(kept) => format!("{path}: {what}; the file before the change: {kept}"),
        None => format!("{path}: {what}"),
    }
}

fn install(target: &Target, file: &File, own: &OwnCommand) -> Result<Step, Failure> {
    if let Some(other) = target.foreign_entry(file, own)? {
        let what = format!("{} has another server of the name outlast: {other}", target.path.display());
        return Err(Failure::refused(
            what,
            "nothing was changed; give that one another name first, or leave it and set the client up by hand",
        ));
    }
    let text = target.edits.put(file.text()).map_err(|e| refusal(target, &e))?;
    Ok(if text == file.text() && file.exists() { Step::Nothing } else { Step::Write { text } })
}

fn undo(target: &Target, file: &File, own: &OwnCommand, notes: &mut Vec<String>) -> Result<Step, Failure> {
    if let Some(other) = target.foreign_entry(file, own)? {
        notes.push(format!("{} has another server of the name outlast, which stays: {other}", target.path.display()));
        return Ok(Step::Nothing);
    }
    let text = target.edits.take(file.text()).map_err(|e| refusal(target, &e))?;
    if text == file.text() {
        return Ok(Step::Nothing);
    }
    if !text.trim().is_empty() {
        return Ok(Step::Write { text });
    }
    // If the first copy has our entries, it was made after them, and there was no file before.
    Ok(match file.first_copy()?.filter(|copy| !target.has_own_entries(copy)) {
        None => Step::Remove,
        Some(copy) if copy.trim().is_empty() => Step::Write { text },
        Some(_) => Step::Write { text: target.edits.empty_file().into() },
    })
}

fn refusal(target: &Target, error: &EditError) -> Failure {
    let line = error.line.map(|n| format!(", line {n}")).unwrap_or_default();
    let what = format!("{}{line}: {}", target.path.display(), error.what);
    match error.is_malformed {
        true => Failure::refused(what, "correct it, or move it out of the way; nothing was changed"),
        false => Failure::refused(what, format!("nothing was changed; add or remove this by hand:\n{}", target.edits.alone())),
    }
}

fn print(ctx: &Context, client: &AgentClient, targets: &[Target], own: &OwnCommand) -> Result<i32, Failure> {
    let mut files = Vec::new();
    for target in targets {
        let file = File::read(&target.path)?;
        let status = match install(target, &file, own) {
            Err(e) => format!("cannot be changed: {}", e.error()),
            Ok(Step::Nothing) => "already installed".into(),
            Ok(_) if file.exists() => "would be added".into(),
            Ok(_) => "would be a new file".into(),
        };
        files.push((target, status));
    }
    if ctx.out.json {
        let files: Vec<_> =
            files.iter().map(|(target, status)| json!({"path": target.path, "status": status, "text": target.edits.alone()})).collect();
        ctx.out.object(&json!({"status": "ok", "client": client.name, "files": files}))?;
        return Ok(0);
    }
    for (n, (target, status)) in files.iter().enumerate() {
        let gap = if n == 0 { "" } else { "\n" };
        ctx.out.line(&format!("{gap}# {} ({status})", target.path.display()))?;
        ctx.out.text(&target.edits.alone())?;
    }
    Ok(0)
}

/// Whether `more` is `text` with an insertion at one place.
fn is_within(text: &str, more: &str) -> bool {
    let start = text.bytes().zip(more.bytes()).take_while(|(a, b)| a == b).count();
    let end = text.bytes().rev().zip(more.bytes().rev()).take_while(|(a, b)| a == b).count();
    more.len() >= text.len() && start + end >= text.len()
}

#[cfg(test)]
mod tests;
