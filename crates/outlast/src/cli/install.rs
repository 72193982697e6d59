//! `outlast install`: adds Outlast to a client's configuration, or removes it.
//!
//! The module of a client (`claude.rs` and so on) says what goes into which file; `edit` changes texts, `file` changes files. All texts are prepared before the
//! first file is changed, so that nothing is changed if one of the files cannot be read.

mod claude;
mod codex;
mod configured;
pub(crate) mod edit;
mod file;
mod hermes;
mod kimi;
mod opencode;
mod us;

use super::out::tame;
use super::{Context, Failure};
use crate::config::World;
use clap::{Args, ValueEnum};
pub(super) use configured::{Call, Configured, configured};
use edit::{Trouble, json, toml, yaml};
use file::File;
use outlast_client::code;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use us::Us;

/// Configure an agent's client to use Outlast
///
/// Adds Outlast to the client's configuration as an MCP server and, if the client has hooks, hooks that report finished processes. The rest of each file
/// stays as it is, with its comments; a copy is saved beside a file before its first change, and before a value in it is replaced. Running it again
/// changes nothing, and --undo removes exactly what was added.
#[derive(Debug, Args)]
pub(crate) struct Install {
    /// The client
    #[arg(value_enum)]
    client: Client,
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

/// The clients that are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Client {
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
    Client::value_variants().iter().filter_map(|client| Some(client.to_possible_value()?.get_name().to_owned())).collect()
}

impl Client {
    const ALL: [Self; 5] = [Self::Claude, Self::Codex, Self::Opencode, Self::Hermes, Self::Kimi];

    /// The name on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Opencode => "opencode",
            Self::Hermes => "hermes",
            Self::Kimi => "kimi",
        }
    }

    /// The set of tools if none is named and the client's name over MCP does not decide it.
    fn profile(self) -> Option<&'static str> {
        match self {
            // It calls itself `mcp`.
            Self::Hermes => Some("hermes"),
            Self::Claude | Self::Codex | Self::Opencode | Self::Kimi => None,
        }
    }

    /// The name that its makers use.
    fn title(self) -> &'static str {
        match self {
            Self::Claude => "Claude Code",
            Self::Codex => "Codex",
            Self::Opencode => "opencode",
            Self::Hermes => "Hermes",
            Self::Kimi => "Kimi Code",
        }
    }

    fn targets(self, place: &Place<'_>, us: &Us) -> Result<Vec<Target>, Failure> {
        match self {
            Self::Claude => claude::targets(place, us),
            Self::Codex => codex::targets(place, us),
            Self::Opencode => opencode::targets(place, us),
            Self::Hermes => hermes::targets(place, us),
            Self::Kimi => kimi::targets(place, us),
        }
    }
}

fn profile(name: &str) -> Result<String, String> {
    let good = !name.is_empty() && name.len() <= 64 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if good { Ok(name.to_owned()) } else { Err("a name of letters, digits, - and _".into()) }
}

/// Where the files of a client are.
#[derive(Clone, Copy)]
struct Place<'a> {
    world: &'a World,
    /// Our own configuration.
    config: &'a Path,
    scope: Scope,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    User,
    Project,
}

impl Place<'_> {
    /// A directory of the client: the one that its variable names, else one below the user's home.
    fn dir(&self, variable: &str, below_home: &str) -> Result<PathBuf, Failure> {
        let known = self.world.place(variable, below_home);
        known.ok_or_else(|| Failure::refused("no home directory is known", format!("set HOME or {variable}")))
    }

    /// A file of the project.
    fn project(&self, path: &str) -> PathBuf {
        self.world.cwd.join(path)
    }
}

/// A file, and the entries that it should contain.
struct Target {
    path: PathBuf,
    wishes: Wishes,
    /// Whether it is the configuration of Outlast, which engines read when they start.
    ours: bool,
    /// Remarks about entries that stay as the user has changed them.
    stays: Vec<String>,
}

impl Target {
    fn new(path: PathBuf, wishes: Wishes) -> Self {
        Self { path, wishes, ours: false, stays: Vec::new() }
    }

    fn of_ours(self, stays: Vec<String>) -> Self {
        Self { ours: true, stays, ..self }
    }

    /// Whether it has an entry of ours; in the configuration of Outlast also one for another client.
    fn has_something_of_ours(&self, text: &str) -> bool {
        let wakes = |name: &&str| toml::row(text, "hook", name).is_ok_and(|row| row.is_some());
        (self.ours && WAKES.iter().any(wakes)) || self.wishes.take(text).is_ok_and(|without| without != text)
    }

    /// A text without our entries; the configuration of Outlast also without those for other clients.
    fn without_us(&self, text: &str) -> Option<String> {
        let rows = WAKES.into_iter().filter(|_| self.ours);
        let rows = rows.map(|name| toml::Wish::Row { list: "hook", name, fields: Vec::new(), usual: Vec::new() });
        let text = rows.into_iter().try_fold(text.to_owned(), |text, row| toml::take(&text, &row)).ok()?;
        self.wishes.take(&text).ok()
    }

    /// Whether a change loses something other than an old path of our program.
    fn loses(&self, before: &str, after: &str, us: &Us) -> bool {
        let rows = WAKES.into_iter().filter(|_| self.ours).filter_map(|name| toml::row(before, "hook", name).ok().flatten());
        let rows = rows.filter_map(|row| serde_json::to_value(row).ok());
        let calls = rows.chain(self.wishes.entry(before).ok().flatten()).filter_map(|entry| Call::of(&entry));
        let calls = calls.filter(|call| !call.argv[0].is_empty());
        let moved = calls.fold(before.to_owned(), |text, call| text.replace(&call.argv[0], &us.program));
        !is_within(before, after) && !is_within(&moved, after)
    }

    /// A description of the entry called `outlast` that is not ours, if there is one.
    fn others_entry(&self, file: &File, us: &Us) -> Result<Option<String>, Failure> {
        let Some(entry) = self.wishes.entry(file.text()).map_err(|e| refusal(self, &e))? else { return Ok(None) };
        if us.is_ours(&entry) {
            return Ok(None);
        }
        // Arguments and address are not shown: there may be secrets in them.
        let program = Call::of(&entry).filter(|_| entry["url"].is_null()).map(|call| tame(&call.argv[0]));
        Ok(Some(
            program
                .map_or_else(|| "one at an address, or one that is called in another way".into(), |program| format!("it calls {program}")),
        ))
    }
}

enum Wishes {
    Json(Vec<json::Wish>),
    Toml(Vec<toml::Wish>),
    Yaml(yaml::Wish),
}

impl Wishes {
    fn put(&self, text: &str) -> Result<String, Trouble> {
        match self {
            Self::Json(all) => all.iter().try_fold(text.to_owned(), |text, wish| json::put(&text, wish)),
            Self::Toml(all) => all.iter().try_fold(text.to_owned(), |text, wish| toml::put(&text, wish)),
            Self::Yaml(wish) => yaml::put(text, wish),
        }
    }

    /// The last entry is removed first, so that each is removed from the text to which it was added.
    fn take(&self, text: &str) -> Result<String, Trouble> {
        match self {
            Self::Json(all) => all.iter().rev().try_fold(text.to_owned(), |text, wish| json::take(&text, wish)),
            Self::Toml(all) => all.iter().rev().try_fold(text.to_owned(), |text, wish| toml::take(&text, wish)),
            Self::Yaml(wish) => yaml::take(text, wish),
        }
    }

    /// Only our entries, for a user to read or paste.
    fn alone(&self) -> String {
        self.put("").unwrap_or_default()
    }

    /// A text without entries that the client can read: some cannot read an empty file.
    fn nothing(&self) -> &'static str {
        match self {
            Self::Json(_) => "{}\n",
            Self::Toml(_) | Self::Yaml(_) => "",
        }
    }

    /// The entry in a text that says how Outlast is called.
    fn entry(&self, text: &str) -> Result<Option<Value>, Trouble> {
        match self {
            Self::Json(all) => match all.first() {
                Some(json::Wish::Member { path, .. }) => json::get(text, path),
                _ => Ok(None),
            },
            Self::Toml(all) => match all.first() {
                Some(toml::Wish::Table { path, .. }) => Ok(toml::get(text, path)?.and_then(|v| serde_json::to_value(v).ok())),
                _ => Ok(None),
            },
            Self::Yaml(wish) => yaml::get(text, wish),
        }
    }
}

/// What is done to a file.
enum Step {
    Nothing,
    Write {
        text: String,
    },
    /// Nothing else is in it, and it did not exist before.
    Remove,
}

impl Install {
    pub(crate) fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let scope = if self.project { Scope::Project } else { Scope::User };
        let place = Place { world: &ctx.world, config: &ctx.settings.file, scope };
        self.makes_sense()?;
        let profile = self.profile.as_deref().or(self.client.profile());
        // An undo removes everything, whichever flags it was installed with.
        let us = Us::of(ctx, profile, self.wake || self.undo, self.ask)?;
        let targets = self.client.targets(&place, &us)?;
        if self.print {
            return print(ctx, self.client, &targets, &us);
        }
        let mut notes = Vec::new();
        // The hook that wakes is shared by the user's files and those of a project.
        let stays = self.undo && self.is_installed_elsewhere(&place, &us);
        let mut steps = Vec::new();
        for target in &targets {
            let file = File::read(&target.path)?;
            let step = match self.undo {
                true if target.ours && stays => {
                    notes.push(format!("what wakes {} stays: another of its configurations still names us", self.client.title()));
                    Step::Nothing
                }
                true => undo(target, &file, &us, &mut notes)?,
                false => {
                    notes.extend(target.stays.iter().cloned());
                    install(target, &file, &us)?
                }
            };
            if !matches!(step, Step::Nothing) {
                file.may_be_changed()?;
            }
            steps.push((target, file, step));
        }
        let is_new = |(target, file, _): &(&Target, File, Step)| !target.ours && matches!(target.wishes.entry(file.text()), Ok(None));
        let allows = self.client == Client::Codex && !self.ask && !self.undo && steps.iter().any(is_new);
        let mut files = Vec::new();
        let mut changed = false;
        for (target, file, step) in steps {
            let missing = target.path.parent().filter(|dir| !dir.exists());
            if !self.undo
                && !target.ours
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
                    // A file with an entry of ours is not the original. It is copied only if the change would lose something of the user's.
                    let copied = !self.undo && (!target.has_something_of_ours(file.text()) || target.loses(file.text(), &text, &us));
                    if let Some(kept) = if copied { file.keep()? } else { None } {
                        about["backup"] = json!(kept);
                    }
                    file.write(&text, scope == Scope::User)?;
                    if self.undo {
                        notes.extend(file.forget_copies(|copy| copy == text || target.without_us(copy).as_ref() == Some(&text))?);
                    }
                    changed = true;
                }
                Step::Remove => {
                    file.remove()?;
                    notes.extend(file.forget_copies(|copy| target.without_us(copy).is_some_and(|rest| rest.trim().is_empty()))?);
                    about["status"] = json!("deleted");
                    changed = true;
                }
            }
            if target.ours && about["status"] != "unchanged" && about["status"] != "absent" {
                notes.push(
                    "the engine has read its configuration before: `outlast engine restart` has the next one read it, and harms no process"
                        .into(),
                );
            }
            files.push(about);
        }
        if allows {
            notes
                .push("Codex may use our tools without asking, and what they start runs outside of its sandbox: `--ask` has it ask".into());
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
    /// Refuses a flag that would do nothing, because the user may rely on it.
    fn makes_sense(&self) -> Result<(), Failure> {
        let title = self.client.title();
        if self.wake && self.client == Client::Kimi {
            return Err(Failure::new(code::USAGE, format!("nothing can start a turn in {title} from outside"), "leave --wake out"));
        }
        if self.ask && self.client != Client::Codex {
            return Err(Failure::new(
                code::USAGE,
                format!("{title} asks as it is set to, and is told nothing about that"),
                "leave --ask out",
            ));
        }
        Ok(())
    }

    /// Whether the client's configuration of the other scope names us: the user's, or that of the project here.
    fn is_installed_elsewhere(&self, here: &Place<'_>, us: &Us) -> bool {
        let scope = if here.scope == Scope::User { Scope::Project } else { Scope::User };
        let targets = self.client.targets(&Place { scope, ..*here }, us).unwrap_or_default();
        let here: Vec<PathBuf> = self.client.targets(here, us).unwrap_or_default().into_iter().map(|t| t.path).collect();
        targets.iter().filter(|t| !here.contains(&t.path)).any(|target| {
            File::read(&target.path).is_ok_and(|file| matches!(target.wishes.entry(file.text()), Ok(Some(entry)) if us.is_ours(&entry)))
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
        Some(kept) => format!("{path}: {what}; as it was before: {kept}"),
        None => format!("{path}: {what}"),
    }
}

fn install(target: &Target, file: &File, us: &Us) -> Result<Step, Failure> {
    if let Some(other) = target.others_entry(file, us)? {
        let what = format!("{} has another server of the name outlast: {other}", target.path.display());
        return Err(Failure::refused(
            what,
            "nothing was changed; give that one another name first, or leave it and set the client up by hand",
        ));
    }
    let text = target.wishes.put(file.text()).map_err(|e| refusal(target, &e))?;
    Ok(if text == file.text() && file.exists() { Step::Nothing } else { Step::Write { text } })
}

fn undo(target: &Target, file: &File, us: &Us, notes: &mut Vec<String>) -> Result<Step, Failure> {
    if let Some(other) = target.others_entry(file, us)? {
        notes.push(format!("{} has another server of the name outlast, which stays: {other}", target.path.display()));
        return Ok(Step::Nothing);
    }
    let text = target.wishes.take(file.text()).map_err(|e| refusal(target, &e))?;
    if text == file.text() {
        return Ok(Step::Nothing);
    }
    if !text.trim().is_empty() {
        return Ok(Step::Write { text });
    }
    // A copy with an entry of ours is not the original: there was no file before.
    Ok(match file.first_copy()?.filter(|copy| !target.has_something_of_ours(copy)) {
        None => Step::Remove,
        Some(copy) if copy.trim().is_empty() => Step::Write { text },
        Some(_) => Step::Write { text: target.wishes.nothing().into() },
    })
}

fn refusal(target: &Target, trouble: &Trouble) -> Failure {
    let line = trouble.line.map(|n| format!(", line {n}")).unwrap_or_default();
    let what = format!("{}{line}: {}", target.path.display(), trouble.what);
    match trouble.malformed {
        true => Failure::refused(what, "correct it, or move it out of the way; nothing was changed"),
        false => Failure::refused(
            what,
            format!("nothing was changed; see to it by hand that this is in it, or no longer is:\n{}", target.wishes.alone()),
        ),
    }
}

fn print(ctx: &Context, client: Client, targets: &[Target], us: &Us) -> Result<i32, Failure> {
    let mut files = Vec::new();
    for target in targets {
        let file = File::read(&target.path)?;
        let status = match install(target, &file, us) {
            Err(e) => format!("cannot be changed: {}", e.error()),
            Ok(Step::Nothing) => "already installed".into(),
            Ok(_) if file.exists() => "would be added".into(),
            Ok(_) => "would be a new file".into(),
        };
        files.push((target, status));
    }
    if ctx.out.json {
        let files: Vec<_> =
            files.iter().map(|(target, status)| json!({"path": target.path, "status": status, "text": target.wishes.alone()})).collect();
        ctx.out.object(&json!({"status": "ok", "client": client.name(), "files": files}))?;
        return Ok(0);
    }
    for (n, (target, status)) in files.iter().enumerate() {
        let gap = if n == 0 { "" } else { "\n" };
        ctx.out.line(&format!("{gap}# {} ({status})", target.path.display()))?;
        ctx.out.text(&target.wishes.alone())?;
    }
    Ok(0)
}

/// Whether `more` is `text` with an insertion at one place.
fn is_within(text: &str, more: &str) -> bool {
    let start = text.bytes().zip(more.bytes()).take_while(|(a, b)| a == b).count();
    let end = text.bytes().rev().zip(more.bytes().rev()).take_while(|(a, b)| a == b).count();
    more.len() >= text.len() && start + end >= text.len()
}

/// The names of the sinks that wake clients.
const WAKES: [&str; 3] = [codex::WAKES, opencode::WAKES, hermes::WAKES];

/// The refusal for clients without project configuration.
fn no_project(client: Client) -> Failure {
    Failure::new(code::USAGE, format!("{} has no configuration of a project", client.title()), "leave --project out")
}

#[cfg(test)]
mod tests;
