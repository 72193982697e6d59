//! `outlast install`: adds Outlast to the configuration of a client, or removes it.
//!
//! `claude.rs` and its neighbours name the files of a client and what belongs in each. `edit` changes texts, `file` changes files. All new
//! texts are made before the first file is written. So if one file cannot be read, none is changed.

mod claude;
mod codex;
pub(crate) mod edit;
mod file;
mod hermes;
mod installed;
mod kimi;
mod opencode;
mod own_command;

use super::out::tame;
use super::{Context, Failure};
use crate::config::World;
use clap::{Args, ValueEnum};
use edit::{EditError, json, toml, yaml};
use file::File;
pub(super) use installed::{InstalledEntry, installed_entries};
use outlast_client::code;
use own_command::OwnCommand;
pub(super) use own_command::ServerCommand;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Configure an agent's client to use Outlast
///
/// Adds Outlast to the client's configuration as an MCP server and, if the client has hooks, hooks that report finished processes. The rest of each file
/// stays as it is, with its comments; a copy is saved beside a file before its first change, and before a value in it is replaced. Running it again
/// changes nothing, and --undo removes exactly what was added.
#[derive(Debug, Args)]
pub(crate) struct Install {
    /// The client
    #[arg(value_enum)]
    client: AgentClient,
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

/// The clients that `outlast install` can configure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum AgentClient {
    /// Claude Code
    Claude,
    /// OpenAI Codex
    Codex,
    /// opencode
    Opencode,
    /// Hermes Agent
    Hermes,
    /// Kimi Code
    Kimi,
}

/// The clients that can be configured.
pub(super) fn client_names() -> Vec<String> {
    AgentClient::value_variants().iter().filter_map(|client| Some(client.to_possible_value()?.get_name().to_owned())).collect()
}

impl AgentClient {
    const ALL: [Self; 5] = [Self::Claude, Self::Codex, Self::Opencode, Self::Hermes, Self::Kimi];

    /// Its name on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Opencode => "opencode",
            Self::Hermes => "hermes",
            Self::Kimi => "kimi",
        }
    }

    /// The tool profile of a client that gets none from `--profile` and cannot be recognised by its name in MCP.
    fn profile(self) -> Option<&'static str> {
        match self {
            // It calls itself `mcp`.
            Self::Hermes => Some("hermes"),
            Self::Claude | Self::Codex | Self::Opencode | Self::Kimi => None,
        }
    }

    /// Its product name, for messages.
    fn title(self) -> &'static str {
        match self {
            Self::Claude => "Claude Code",
            Self::Codex => "Codex",
            Self::Opencode => "opencode",
            Self::Hermes => "Hermes",
            Self::Kimi => "Kimi Code",
        }
    }

    fn targets(self, place: &InstallPlace<'_>, own: &OwnCommand) -> Result<Vec<Target>, Failure> {
        match self {
            Self::Claude => claude::targets(place, own),
            Self::Codex => codex::targets(place, own),
            Self::Opencode => opencode::targets(place, own),
            Self::Hermes => hermes::targets(place, own),
            Self::Kimi => kimi::targets(place, own),
        }
    }
}

fn profile(name: &str) -> Result<String, String> {
    let good = !name.is_empty() && name.len() <= 64 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if good { Ok(name.to_owned()) } else { Err("a name of letters, digits, - and _".into()) }
}

/// Where the files to change are.
#[derive(Clone, Copy)]
struct InstallPlace<'a> {
    world: &'a World,
    /// The configuration file of Outlast.
    config: &'a Path,
    scope: Scope,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    User,
    Project,
}

impl InstallPlace<'_> {
    /// A directory of the client: from its variable, else below the user's home.
    fn dir(&self, variable: &str, below_home: &str) -> Result<PathBuf, Failure> {
        let known = self.world.place(variable, below_home);
        known.ok_or_else(|| Failure::refused("no home directory is known", format!("set HOME or {variable}")))
    }

    /// A file of the project.
    fn project(&self, path: &str) -> PathBuf {
        self.world.cwd.join(path)
    }
}

/// A file, and the entries that it should have.
struct Target {
    path: PathBuf,
    edits: FileEdits,
    /// Whether it is the configuration of Outlast, which an engine reads when it starts.
    is_own_config: bool,
    /// Notes about settings in it that the user changed and that are kept.
    kept_notes: Vec<String>,
}

impl Target {
    fn new(path: PathBuf, edits: FileEdits) -> Self {
        Self { path, edits, is_own_config: false, kept_notes: Vec::new() }
    }

    /// A target in the configuration of Outlast.
    fn in_own_config(self, kept_notes: Vec<String>) -> Self {
        Self { is_own_config: true, kept_notes, ..self }
    }

    /// Whether an earlier `outlast install` changed this text. In our own configuration, an entry for any client counts.
    fn has_own_entries(&self, text: &str) -> bool {
        let wakes = |name: &&str| toml::row(text, "hook", name).is_ok_and(|row| row.is_some());
        (self.is_own_config && WAKES.iter().any(wakes)) || self.edits.take(text).is_ok_and(|without| without != text)
    }

    /// A text without our entries. From our own configuration, the entries for all clients are removed.
    fn without_own_entries(&self, text: &str) -> Option<String> {
        let rows = WAKES.into_iter().filter(|_| self.is_own_config);
        let rows = rows.map(|name| toml::TomlEdit::Row { list: "hook", name, fields: Vec::new(), defaults: Vec::new() });
        let text = rows.into_iter().try_fold(text.to_owned(), |text, row| toml::take(&text, &row)).ok()?;
        self.edits.take(&text).ok()
    }

    /// Whether a change would lose part of the text. A new path of our own program does not count.
    fn loses(&self, before: &str, after: &str, own: &OwnCommand) -> bool {
        let rows = WAKES.into_iter().filter(|_| self.is_own_config).filter_map(|name| toml::row(before, "hook", name).ok().flatten());
        let rows = rows.filter_map(|row| serde_json::to_value(row).ok());
        let calls = rows.chain(self.edits.entry(before).ok().flatten()).filter_map(|entry| ServerCommand::of(&entry));
        let calls = calls.filter(|call| !call.argv[0].is_empty());
        let moved = calls.fold(before.to_owned(), |text, call| text.replace(&call.argv[0], &own.program));
        !is_within(before, after) && !is_within(&moved, after)
    }

    /// Describes an entry named `outlast` that starts another program, if there is one.
    fn foreign_entry(&self, file: &File, own: &OwnCommand) -> Result<Option<String>, Failure> {
        let Some(entry) = self.edits.entry(file.text()).map_err(|e| refusal(self, &e))? else { return Ok(None) };
        if own.is_ours(&entry) {
            return Ok(None);
        }
        // Arguments and address are left out, because they may contain secrets.
        let program = ServerCommand::of(&entry).filter(|_| entry["url"].is_null()).map(|call| tame(&call.argv[0]));
        Ok(Some(program.map_or_else(|| "it has an address, or is called in another way".into(), |program| format!("it calls {program}"))))
    }
}

enum FileEdits {
    Json(Vec<json::JsonEdit>),
    Toml(Vec<toml::TomlEdit>),
    Yaml(yaml::YamlEdit),
}

impl FileEdits {
    fn put(&self, text: &str) -> Result<String, EditError> {
        match self {
            Self::Json(all) => all.iter().try_fold(text.to_owned(), |text, edit| json::put(&text, edit)),
            Self::Toml(all) => all.iter().try_fold(text.to_owned(), |text, edit| toml::put(&text, edit)),
            Self::Yaml(edit) => yaml::put(text, edit),
        }
    }

    /// The edits are undone in reverse order, so that each finds the text that it made.
    fn take(&self, text: &str) -> Result<String, EditError> {
        match self {
            Self::Json(all) => all.iter().rev().try_fold(text.to_owned(), |text, edit| json::take(&text, edit)),
            Self::Toml(all) => all.iter().rev().try_fold(text.to_owned(), |text, edit| toml::take(&text, edit)),
            Self::Yaml(edit) => yaml::take(text, edit),
        }
    }

    /// Our entries alone, to be shown or pasted.
    fn alone(&self) -> String {
        self.put("").unwrap_or_default()
    }

    /// A file without settings, in a form that the client can read.
    fn empty_file(&self) -> &'static str {
        match self {
            Self::Json(_) => "{}\n",
            Self::Toml(_) | Self::Yaml(_) => "",
        }
    }

    /// The entry of the MCP server `outlast` in a text.
    fn entry(&self, text: &str) -> Result<Option<Value>, EditError> {
        match self {
            Self::Json(all) => match all.first() {
                Some(json::JsonEdit::Member { path, .. }) => json::get(text, path),
                _ => Ok(None),
            },
            Self::Toml(all) => match all.first() {
                Some(toml::TomlEdit::Table { path, .. }) => Ok(toml::get(text, path)?.and_then(|v| serde_json::to_value(v).ok())),
                _ => Ok(None),
            },
            Self::Yaml(edit) => yaml::get(text, edit),
        }
    }
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
    pub(crate) fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let scope = if self.project { Scope::Project } else { Scope::User };
        let place = InstallPlace { world: &ctx.world, config: &ctx.settings.file, scope };
        self.check_flags()?;
        let profile = self.profile.as_deref().or(self.client.profile());
        // An undo removes the waking hook too, also if it was not asked for with --wake.
        let own = OwnCommand::of(ctx, profile, self.wake || self.undo, self.ask)?;
        let targets = self.client.targets(&place, &own)?;
        if self.print {
            return print(ctx, self.client, &targets, &own);
        }
        let mut notes = Vec::new();
        // The user's files and those of a project share one waking hook.
        let keeps_waking_hook = self.undo && self.is_installed_elsewhere(&place, &own);
        let mut steps = Vec::new();
        for target in &targets {
            let file = File::read(&target.path)?;
            let step = match self.undo {
                true if target.is_own_config && keeps_waking_hook => {
                    notes.push(format!(
                        "the hook that wakes {} stays: another of its configurations still has an entry of Outlast",
                        self.client.title()
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
        let allows = self.client == AgentClient::Codex && !self.ask && !self.undo && steps.iter().any(is_new);
        let mut files = Vec::new();
        let mut changed = false;
        for (target, file, step) in steps {
            let missing = target.path.parent().filter(|dir| !dir.exists());
            if !self.undo
                && !target.is_own_config
                && let Some(dir) = missing.filter(|_| scope == Scope::User)
            {
                notes.push(format!(
                    "there was no {}: {} may not be installed, or not have been run yet",
                    dir.display(),
                    self.client.title()
                ));
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
            notes
                .push("Codex may call our tools without asking, and what they start runs outside its sandbox; with `--ask` it asks".into());
        }
        if changed {
            notes.push(format!("{} reads its configuration when it starts; running sessions do not change", self.client.title()));
        }
        let status = match (changed, self.undo) {
            (true, false) => "installed",
            (true, true) => "removed",
            (false, false) => "unchanged",
            (false, true) => "absent",
        };
        if ctx.out.json {
            ctx.out.object(&json!({"status": status, "client": self.client.name(), "files": files, "notes": notes}))?;
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
    fn check_flags(&self) -> Result<(), Failure> {
        let title = self.client.title();
        if self.wake && self.client == AgentClient::Kimi {
            return Err(Failure::new(code::USAGE, format!("no hook can start a turn in {title}"), "leave --wake out"));
        }
        if self.ask && self.client != AgentClient::Codex {
            return Err(Failure::new(
                code::USAGE,
                format!("--ask has no effect for {title}, which asks as its own settings say"),
                "leave --ask out",
            ));
        }
        Ok(())
    }

    /// Whether the client's configuration of the other scope (user or this project) has our entry.
    fn is_installed_elsewhere(&self, here: &InstallPlace<'_>, own: &OwnCommand) -> bool {
        let scope = if here.scope == Scope::User { Scope::Project } else { Scope::User };
        let targets = self.client.targets(&InstallPlace { scope, ..*here }, own).unwrap_or_default();
        let here: Vec<PathBuf> = self.client.targets(here, own).unwrap_or_default().into_iter().map(|t| t.path).collect();
        targets.iter().filter(|t| !here.contains(&t.path)).any(|target| {
            File::read(&target.path).is_ok_and(|file| matches!(target.edits.entry(file.text()), Ok(Some(entry)) if own.is_ours(&entry)))
        })
    }
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

fn print(ctx: &Context, client: AgentClient, targets: &[Target], own: &OwnCommand) -> Result<i32, Failure> {
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
        ctx.out.object(&json!({"status": "ok", "client": client.name(), "files": files}))?;
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

/// The names of the waking hooks of all clients.
const WAKES: [&str; 3] = [codex::WAKES, opencode::WAKES, hermes::WAKES];

/// Refuses `--project` for a client that has no such files.
fn no_project(client: AgentClient) -> Failure {
    Failure::new(code::USAGE, format!("{} has no configuration of a project", client.title()), "leave --project out")
}

#[cfg(test)]
mod tests;
