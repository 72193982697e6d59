//! The table of clients: where each keeps its MCP servers, and what our entry looks like there.
//!
//! Files and keys are those that each client documents. docs/agents says which were checked with the client itself.

use super::claude;
use super::edit::json::JsonEdit;
use super::edit::toml::TomlEdit;
use super::edit::yaml::YamlEdit;
use super::edit::{Data, Fields};
use super::own_command::OwnCommand;
use super::place::VariableMeaning::Directory;
use super::place::{InstallPlace, Scope, UserFile, VariableMeaning};
use super::target::{FileEdits, Target};
use super::wakes::{self, WakingHook};
use super::{Failure, File};
use crate::cli::hook::HERMES_OVER_MCP;
use outlast_client::code;
use std::path::PathBuf;

/// How long a client should wait for a tool, in seconds: a little more than our slowest call takes.
const TOOL_LIMIT: u32 = 660;
/// The same in milliseconds.
const TOOL_LIMIT_MS: u32 = TOOL_LIMIT * 1000;

/// A client that `outlast install` can configure.
#[derive(Debug)]
pub(crate) struct AgentClient {
    /// Its name on the command line.
    pub(super) name: &'static str,
    /// Other names that users give it.
    pub(super) aliases: &'static [&'static str],
    /// Its product name, for messages.
    pub(super) title: &'static str,
    /// The tool profile of a client that gets none from `--profile` and cannot be recognised by its name in MCP.
    pub(super) profile: Option<&'static str>,
    /// The user's file with its MCP servers.
    user: UserFile,
    /// The same for a project, below its directory; the first that exists is meant. Empty if the client has none.
    project: &'static [&'static str],
    entry: EntryForm,
    pub(super) wake: WakeForm,
    /// What the user has to know or do after an installation.
    note: &'static str,
    /// The same, in the files of a project.
    project_note: &'static str,
}

/// What our entry looks like.
#[derive(Debug)]
struct EntryForm {
    list: ServerList,
    /// Fields before the command.
    first: &'static [(&'static str, Fixed)],
    words: CommandWords,
    /// Fields that only a new entry gets.
    defaults: &'static [(&'static str, Fixed)],
    /// The setting that says whether the client asks before it calls a tool.
    approval: Option<Approval>,
    /// The session of what the client starts, if the engine wakes it.
    woken_session: Option<&'static str>,
}

/// The list of MCP servers in a file.
#[derive(Debug, Clone, Copy)]
enum ServerList {
    /// The object under these names.
    Json(&'static [&'static str]),
    TomlTable(&'static str),
    /// A list of tables with a field `name`.
    TomlRows(&'static str),
    Yaml(&'static str),
}

/// The names of the fields that say how we are called.
#[derive(Debug, Clone, Copy)]
enum CommandWords {
    Apart {
        program: &'static str,
        args: &'static str,
        env: &'static str,
    },
    /// The program and its arguments are one list.
    Together {
        command: &'static str,
        env: &'static str,
    },
}

#[derive(Debug, Clone, Copy)]
enum Fixed {
    Text(&'static str),
    Number(u32),
    Flag(bool),
}

#[derive(Debug, Clone, Copy)]
struct Approval {
    key: &'static str,
    ask: &'static str,
    allow: &'static str,
}

/// What starts a turn of the client when a notice is due.
#[derive(Debug)]
pub(super) enum WakeForm {
    /// Nothing can.
    Never,
    /// Hooks of the client itself, which are installed with it.
    OwnHooks(fn(&InstallPlace<'_>, &OwnCommand) -> Result<Target, Failure>),
    /// A hook of ours.
    Always(&'static WakingHook),
    /// A hook of ours, for which a server of the client has to run.
    OnRequest(&'static WakingHook),
}

const PLAIN: CommandWords = CommandWords::Apart { program: "command", args: "args", env: "env" };

/// An entry as most clients have it.
const fn entry(list: ServerList) -> EntryForm {
    EntryForm { list, first: &[], words: PLAIN, defaults: &[], approval: None, woken_session: None }
}

const MCP_SERVERS: ServerList = ServerList::Json(&["mcpServers"]);
const STDIO: &[(&str, Fixed)] = &[("type", Fixed::Text("stdio"))];
const XDG_CONFIG: &str = "XDG_CONFIG_HOME";

/// A client without anything special.
const fn client(name: &'static str, title: &'static str, user: UserFile, entry: EntryForm) -> AgentClient {
    AgentClient { name, aliases: &[], title, profile: None, user, project: &[], entry, wake: WakeForm::Never, note: "", project_note: "" }
}

const fn file(variables: &'static [(&'static str, VariableMeaning)], home: &'static str, names: &'static [&'static str]) -> UserFile {
    UserFile { variables, home, names }
}

/// The clients, in the order in which they are listed.
pub(super) static CLIENTS: [AgentClient; 15] = [
    AgentClient {
        aliases: &["claude-code"],
        project: &[".mcp.json"],
        wake: WakeForm::OwnHooks(claude::hooks),
        ..client(
            "claude",
            "Claude Code",
            // With the variable, `.claude.json` is inside the directory; without it, beside it.
            file(&[("CLAUDE_CONFIG_DIR", Directory(""))], "", &[".claude.json"]),
            EntryForm { first: STDIO, ..entry(MCP_SERVERS) },
        )
    },
    AgentClient {
        project: &[".codex/config.toml"],
        wake: WakeForm::Always(&wakes::CODEX),
        ..client(
            "codex",
            "Codex",
            file(&[("CODEX_HOME", Directory(""))], ".codex", &["config.toml"]),
            EntryForm {
                defaults: &[("tool_timeout_sec", Fixed::Number(TOOL_LIMIT))],
                // With `auto` it asks before a tool that may change something, and refuses such a call if no user can answer.
                approval: Some(Approval { key: "default_tools_approval_mode", ask: "auto", allow: "approve" }),
                ..entry(ServerList::TomlTable("mcp_servers"))
            },
        )
    },
    AgentClient {
        project: &["opencode.jsonc", "opencode.json"],
        wake: WakeForm::OnRequest(&wakes::OPENCODE),
        ..client(
            "opencode",
            "opencode",
            file(&[(XDG_CONFIG, Directory("opencode"))], ".config/opencode", &["opencode.jsonc", "opencode.json"]),
            EntryForm {
                first: &[("type", Fixed::Text("local"))],
                words: CommandWords::Together { command: "command", env: "environment" },
                ..entry(ServerList::Json(&["mcp"]))
            },
        )
    },
    AgentClient {
        // It calls itself `mcp`.
        profile: Some("hermes"),
        wake: WakeForm::OnRequest(&wakes::HERMES),
        ..client(
            "hermes",
            "Hermes",
            file(&[("HERMES_HOME", Directory(""))], ".hermes", &["config.yaml"]),
            EntryForm {
                defaults: &[("timeout", Fixed::Number(TOOL_LIMIT))],
                // Hermes sends no session with a call. So what it starts belongs to all of its sessions, and the hook finds out which one to wake.
                woken_session: Some(HERMES_OVER_MCP),
                ..entry(ServerList::Yaml("mcp_servers"))
            },
        )
    },
    AgentClient {
        aliases: &["kimi-code", "kimi-cli"],
        project: &[".kimi-code/mcp.json"],
        ..client(
            "kimi",
            "Kimi Code",
            file(&[("KIMI_CODE_HOME", Directory(""))], ".kimi-code", &["mcp.json"]),
            EntryForm { defaults: &[("toolTimeoutMs", Fixed::Number(TOOL_LIMIT_MS))], ..entry(MCP_SERVERS) },
        )
    },
    AgentClient {
        aliases: &["cursor-agent", "cursor-cli"],
        project: &[".cursor/mcp.json"],
        ..client("cursor", "Cursor", file(&[], ".cursor", &["mcp.json"]), EntryForm { first: STDIO, ..entry(MCP_SERVERS) })
    },
    AgentClient {
        aliases: &["vs-code", "visual-studio-code"],
        project: &[".vscode/mcp.json"],
        note: "VS Code asks once whether you trust the server. Another profile than the default one has an mcp.json of its own: `MCP: Open User \
               Configuration` opens it",
        ..client(
            "vscode",
            "VS Code",
            file(&[(XDG_CONFIG, Directory("Code/User"))], ".config/Code/User", &["mcp.json"]),
            EntryForm { first: STDIO, ..entry(ServerList::Json(&["servers"])) },
        )
    },
    AgentClient {
        aliases: &["gemini-cli"],
        project: &[".gemini/settings.json"],
        note: "Gemini CLI starts no server in a folder that it does not trust",
        ..client(
            "gemini",
            "Gemini CLI",
            file(&[("GEMINI_CLI_HOME", Directory(".gemini"))], ".gemini", &["settings.json"]),
            EntryForm { defaults: &[("timeout", Fixed::Number(TOOL_LIMIT_MS))], ..entry(MCP_SERVERS) },
        )
    },
    AgentClient {
        aliases: &["qwen-code"],
        project: &[".qwen/settings.json"],
        ..client(
            "qwen",
            "Qwen Code",
            file(&[("QWEN_HOME", Directory(""))], ".qwen", &["settings.json"]),
            EntryForm { defaults: &[("timeout", Fixed::Number(TOOL_LIMIT_MS))], ..entry(MCP_SERVERS) },
        )
    },
    AgentClient {
        aliases: &["cline-cli"],
        note: "the CLI and the extensions of current versions share this file",
        ..client(
            "cline",
            "Cline",
            file(
                &[
                    ("CLINE_MCP_SETTINGS_PATH", VariableMeaning::File),
                    ("CLINE_DATA_DIR", Directory("settings")),
                    ("CLINE_DIR", Directory("data/settings")),
                ],
                ".cline/data/settings",
                &["cline_mcp_settings.json"],
            ),
            EntryForm { defaults: &[("timeout", Fixed::Number(TOOL_LIMIT))], ..entry(MCP_SERVERS) },
        )
    },
    AgentClient {
        project: &[".zed/settings.json"],
        project_note: "Zed starts a server of a project only if you trust the project",
        ..client(
            "zed",
            "Zed",
            file(&[(XDG_CONFIG, Directory("zed"))], ".config/zed", &["settings.json"]),
            EntryForm { defaults: &[("timeout", Fixed::Number(TOOL_LIMIT))], ..entry(ServerList::Json(&["context_servers"])) },
        )
    },
    client("windsurf", "Windsurf", file(&[], ".codeium/windsurf", &["mcp_config.json"]), entry(MCP_SERVERS)),
    client(
        "goose",
        "goose",
        file(&[("GOOSE_PATH_ROOT", Directory("config")), (XDG_CONFIG, Directory("goose"))], ".config/goose", &["config.yaml"]),
        EntryForm {
            first: &[("name", Fixed::Text("outlast")), ("type", Fixed::Text("stdio"))],
            words: CommandWords::Apart { program: "cmd", args: "args", env: "envs" },
            defaults: &[("enabled", Fixed::Flag(true)), ("timeout", Fixed::Number(TOOL_LIMIT))],
            ..entry(ServerList::Yaml("extensions"))
        },
    ),
    AgentClient {
        aliases: &["ampcode"],
        project: &[".amp/settings.json", ".amp/settings.jsonc"],
        project_note: "Amp starts a server of a project only after `amp mcp approve outlast`",
        ..client(
            "amp",
            "Amp",
            file(&[(XDG_CONFIG, Directory("amp"))], ".config/amp", &["settings.json", "settings.jsonc"]),
            entry(ServerList::Json(&["amp.mcpServers"])),
        )
    },
    AgentClient {
        aliases: &["mistral-vibe", "mistral"],
        // It reads `.vibe/config.toml` of a project that is trusted, and 3.0.2 starts no server that is named there.
        ..client(
            "vibe",
            "Mistral Vibe",
            file(&[("VIBE_HOME", Directory(""))], ".vibe", &["config.toml"]),
            EntryForm {
                first: &[("transport", Fixed::Text("stdio"))],
                defaults: &[("tool_timeout_sec", Fixed::Number(TOOL_LIMIT))],
                ..entry(ServerList::TomlRows("mcp_servers"))
            },
        )
    },
];

impl AgentClient {
    /// The client of this name or alias.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        CLIENTS.iter().find(|client| client.name == name || client.aliases.contains(&name))
    }

    /// Its name on the command line.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Whether `--ask` has an effect.
    pub(super) fn can_ask(&self) -> bool {
        self.entry.approval.is_some()
    }

    /// What the user has to know or do after an installation.
    pub(super) fn notes(&self, scope: Scope) -> impl Iterator<Item = &'static str> {
        let of_project = if scope == Scope::Project { self.project_note } else { "" };
        [self.note, of_project].into_iter().filter(|note| !note.is_empty())
    }

    /// The files to change, and the entries that each should have.
    pub(super) fn targets(&self, place: &InstallPlace<'_>, own: &OwnCommand) -> Result<Vec<Target>, Failure> {
        let edits = self.entry.edits(own);
        let paths = match place.scope {
            Scope::User => self.user.paths(place)?,
            Scope::Project if self.project.is_empty() => return Err(self.no_project()),
            Scope::Project => self.project.iter().map(|path| place.world.cwd.join(path)).collect(),
        };
        let mut targets = vec![Target::new(the_one_in_use(&paths, &edits), edits)];
        match &self.wake {
            WakeForm::OwnHooks(hooks) => targets.push(hooks(place, own)?),
            WakeForm::Always(hook) => targets.push(waking_target(place, own, hook)),
            WakeForm::OnRequest(hook) if own.should_wake => targets.push(waking_target(place, own, hook)),
            WakeForm::OnRequest(_) | WakeForm::Never => {}
        }
        Ok(targets)
    }

    fn no_project(&self) -> Failure {
        Failure::new(code::USAGE, format!("{} has no configuration of a project", self.title), "leave --project out")
    }
}

fn waking_target(place: &InstallPlace<'_>, own: &OwnCommand, hook: &WakingHook) -> Target {
    let (edit, notes) = hook.edit(place, own);
    Target::new(place.config.to_owned(), FileEdits::Toml(vec![edit])).in_own_config(notes)
}

/// Our entry as most clients have it, for one that is not in the table.
pub(super) fn generic_entry(own: &OwnCommand) -> String {
    entry(MCP_SERVERS).edits(own).alone()
}

/// The file with our entry, else the first that exists, else a new one.
fn the_one_in_use(paths: &[PathBuf], edits: &FileEdits) -> PathBuf {
    let has_own_entry = |path: &&PathBuf| File::read(path).is_ok_and(|file| matches!(edits.entry(file.text()), Ok(Some(_))));
    // A new file has no comments.
    let is_plain = |path: &&PathBuf| path.extension().is_none_or(|ending| ending != "jsonc");
    let found = paths.iter().find(has_own_entry).or_else(|| paths.iter().find(|path| path.exists()));
    found.or_else(|| paths.iter().find(is_plain)).unwrap_or(&paths[0]).clone()
}

impl EntryForm {
    fn edits(&self, own: &OwnCommand) -> FileEdits {
        let (mut fields, mut defaults) = (fixed(self.first), fixed(self.defaults));
        fields.extend(self.command(own));
        if let Some(approval) = &self.approval {
            match own.should_ask {
                true => fields.push((approval.key.to_owned(), Data::text(approval.ask))),
                false => defaults.push((approval.key.to_owned(), Data::text(approval.allow))),
            }
        }
        match self.list {
            ServerList::Json(path) => {
                let path = path.iter().copied().chain(["outlast"]).collect();
                FileEdits::Json(vec![JsonEdit::Member { path, fields, defaults }])
            }
            ServerList::TomlTable(list) => FileEdits::Toml(vec![TomlEdit::Table { path: vec![list, "outlast"], fields, defaults }]),
            ServerList::TomlRows(list) => FileEdits::Toml(vec![TomlEdit::Row { list, name: "outlast", fields, defaults }]),
            ServerList::Yaml(map) => FileEdits::Yaml(YamlEdit { map, name: "outlast", fields, defaults }),
        }
    }

    fn command(&self, own: &OwnCommand) -> Fields {
        let named = |name: &str, data: Data| (name.to_owned(), data);
        let (mut fields, env) = match self.words {
            CommandWords::Apart { program, args, env } => {
                (vec![named(program, Data::text(&*own.program)), named(args, Data::texts(own.args.clone()))], env)
            }
            CommandWords::Together { command, env } => {
                let words = [own.program.clone()].into_iter().chain(own.args.iter().cloned());
                (vec![named(command, Data::texts(words))], env)
            }
        };
        let session = self.woken_session.filter(|_| own.should_wake);
        fields.extend(own.env(session).map(|all| named(env, all)));
        fields
    }
}

fn fixed(fields: &[(&str, Fixed)]) -> Fields {
    let data = |fixed: Fixed| match fixed {
        Fixed::Text(text) => Data::text(text),
        Fixed::Number(n) => Data::Number(n),
        Fixed::Flag(flag) => Data::Flag(flag),
    };
    fields.iter().map(|(name, value)| ((*name).to_owned(), data(*value))).collect()
}
