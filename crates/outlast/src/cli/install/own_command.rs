//! The command with which clients start us.

use super::edit::{Data, Fields};
use super::{Context, Failure};
use serde_json::Value;
use std::path::Path;

/// The command with which a client starts us, as it is written into its configuration.
pub(super) struct OwnCommand {
    pub(super) program: String,
    pub(super) args: Vec<String>,
    /// Variables with our home and configuration, if these are not the default. Some clients pass on almost nothing of their environment.
    pub(super) env: Vec<(&'static str, String)>,
    /// Whether the engine should wake idle sessions through the server of the client.
    pub(super) should_wake: bool,
    /// Whether the client should ask the user before it calls our tools.
    pub(super) should_ask: bool,
}

impl OwnCommand {
    pub(super) fn of(ctx: &Context, profile: Option<&str>, wake: bool, ask: bool) -> Result<Self, Failure> {
        let text = |path: &Path| {
            let bad = || {
                Failure::refused(
                    format!("the path {} is not valid UTF-8, which a configuration needs", path.display()),
                    "give it another name",
                )
            };
            path.to_str().map(str::to_owned).ok_or_else(bad)
        };
        let program = ctx.world.lasting_program().ok_or_else(|| {
            Failure::refused(
                "the path of this program is unknown, so a client cannot be configured to start it",
                "call it again by its whole path",
            )
        })?;
        let args = ["mcp"].into_iter().chain(profile.iter().flat_map(|name| ["--profile", name])).map(str::to_owned).collect();
        let mut env = Vec::new();
        if ctx.world.var("OUTLAST_HOME").is_some() || ctx.world.var("XDG_STATE_HOME").is_some() {
            env.push(("OUTLAST_HOME", text(&ctx.settings.home)?));
        }
        if let Some(dir) = ctx.world.var("XDG_CONFIG_HOME") {
            env.push(("XDG_CONFIG_HOME", text(Path::new(dir))?));
        }
        Ok(Self { program: text(&program)?, args, env, should_wake: wake, should_ask: ask })
    }

    /// The variables, with the session if there is one; none if the list is empty.
    pub(super) fn env(&self, session: Option<&str>) -> Option<Data> {
        let all = self.env.iter().map(|(name, value)| (*name, value.as_str())).chain(session.map(|key| ("OUTLAST_SESSION", key)));
        let each: Fields = all.map(|(name, value)| (name.to_owned(), Data::text(value))).collect();
        (!each.is_empty()).then_some(Data::Map(each))
    }

    /// Whether an entry named `outlast` is ours: it starts a program of our name at any path, or names no command.
    pub(super) fn is_ours(&self, entry: &Value) -> bool {
        if has_address(entry) || entry["transport"].is_object() {
            return false;
        }
        match ServerCommand::of(entry) {
            Some(call) => self.is_own_program(&call.argv[0]),
            None => entry["command"].is_null() && entry["cmd"].is_null(),
        }
    }

    /// Whether a path leads to a program named `outlast`, or named like this one.
    pub(super) fn is_own_program(&self, program: &str) -> bool {
        let name = |program: &str| Path::new(program).file_name().map(ToOwned::to_owned);
        name(program) == name("outlast") || name(program) == name(&self.program)
    }

    /// A shell command line that calls us with these arguments.
    pub(super) fn shell_line(&self, words: &str) -> String {
        let env: String = self.env.iter().map(|(name, value)| format!("{name}={} ", quoted(value))).collect();
        format!("{env}{} {words}", quoted(&self.program))
    }
}

/// The command with which a client starts its MCP server, as its configuration has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerCommand {
    pub(crate) argv: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
}

impl ServerCommand {
    /// Reads an entry in the form of any client: the arguments are in `args`, or follow the program in `command`.
    pub(super) fn of(entry: &Value) -> Option<Self> {
        let words =
            |value: &Value| value.as_array().map(|all| all.iter().filter_map(|w| w.as_str().map(str::to_owned)).collect::<Vec<_>>());
        let command = ["command", "cmd"].iter().find_map(|name| entry.get(name))?;
        let mut argv = match command {
            Value::String(program) => vec![program.clone()],
            list => words(list)?,
        };
        argv.extend(words(&entry["args"]).unwrap_or_default());
        let env = ["env", "environment", "envs"].iter().find_map(|name| entry[*name].as_object());
        let env = env.into_iter().flatten().filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
        (!argv.is_empty()).then(|| Self { env: env.collect(), argv })
    }
}

/// Whether an entry is of a server that the client connects to, whatever the client calls the address.
pub(super) fn has_address(entry: &Value) -> bool {
    ["url", "uri", "httpUrl", "serverUrl"].iter().any(|name| !entry[*name].is_null())
}

/// A word, quoted for a shell if necessary.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}
