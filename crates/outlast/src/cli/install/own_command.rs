//! The commands with which clients start us, and with which the engine wakes their sessions.

use super::edit::{Data, Fields, toml};
use super::target::{FileEdits, InstallPlace, Target};
use super::{Context, Failure, File};
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
    fn is_own_program(&self, program: &str) -> bool {
        let name = |program: &str| Path::new(program).file_name().map(ToOwned::to_owned);
        name(program) == name("outlast") || name(program) == name(&self.program)
    }

    /// A shell command line that calls us with these arguments.
    pub(super) fn shell_line(&self, words: &str) -> String {
        let env: String = self.env.iter().map(|(name, value)| format!("{name}={} ", quoted(value))).collect();
        format!("{env}{} {words}", quoted(&self.program))
    }

    /// The `[[hook]]` in our own configuration that wakes sessions of a client. What the user changed in it is kept.
    pub(super) fn waking_target(&self, place: &InstallPlace<'_>, sink: &WakingHook) -> Target {
        let row = File::read(place.config).ok().and_then(|file| toml::row(file.text(), "hook", sink.name).ok().flatten());
        let command = row.as_ref().and_then(|row| row.get("command"));
        let there = command.map(|there| self.hook_arguments(sink, there));
        let mut notes = row.as_ref().map(|row| sink.notes_on(row)).unwrap_or_default();
        let home = sink.home(place);
        let own =
            |rest: &[String]| Data::texts([&self.program, "hook", sink.client].map(str::to_owned).into_iter().chain(rest.iter().cloned()));
        let set = |rest: Vec<String>| vec![("command".to_owned(), own(&rest))];
        let (fields, mut defaults) = match there {
            Some(Some(rest)) => {
                let (words, kept) = sink.set_in(&rest, home.as_deref());
                notes.extend(kept);
                (set(words), Vec::new())
            }
            Some(None) => {
                notes.push(format!("the [[hook]] of the name {} has a command of your own, which stays as it is", sink.name));
                (Vec::new(), set(sink.set_in(&[], home.as_deref()).0))
            }
            None => (set(sink.set_in(&[], home.as_deref()).0), Vec::new()),
        };
        defaults.push(("sessions".to_owned(), Data::texts(sink.sessions.iter().copied())));
        defaults.push(("wake".to_owned(), Data::Flag(true)));
        defaults.extend(sink.limit.map(|seconds| ("timeout_seconds".to_owned(), Data::Number(seconds))));
        let edit = toml::TomlEdit::Row { list: "hook", name: sink.name, fields, defaults };
        Target::new(place.config.to_owned(), FileEdits::Toml(vec![edit])).in_own_config(notes)
    }

    /// The arguments after `outlast hook CLIENT`, if that is what a command calls.
    fn hook_arguments(&self, sink: &WakingHook, command: &toml::Value) -> Option<Vec<String>> {
        let words: Vec<String> = command.as_array()?.iter().map(|word| word.as_str().map(str::to_owned)).collect::<Option<_>>()?;
        let ([program, hook, client], rest) = words.split_first_chunk::<3>()?;
        (self.is_own_program(program) && hook == "hook" && client == sink.client).then(|| rest.to_vec())
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

/// A hook that wakes sessions of a client: `outlast hook CLIENT`.
#[derive(Debug)]
pub(super) struct WakingHook {
    pub(super) name: &'static str,
    pub(super) client: &'static str,
    /// A flag that says where the client keeps its data, and the variable that it repeats.
    pub(super) home_flag: Option<(&'static str, &'static str)>,
    /// The sessions that it wakes. Written only with a new hook.
    pub(super) sessions: &'static [&'static str],
    /// Its time limit in seconds, if that is not the default.
    pub(super) limit: Option<u32>,
}

impl WakingHook {
    /// The directory that the variable of its flag names.
    fn home(&self, place: &InstallPlace<'_>) -> Option<String> {
        let (_, variable) = self.home_flag?;
        place.world.path(place.world.var(variable)?).to_str().map(str::to_owned)
    }

    /// The arguments after `outlast hook CLIENT`, with our flag set; and a note about a flag that is kept as the user set it.
    fn set_in(&self, there: &[String], home: Option<&str>) -> (Vec<String>, Vec<String>) {
        let (mut words, mut notes) = (there.to_vec(), Vec::new());
        let Some((flag, _)) = self.home_flag else { return (words, notes) };
        let (named, others) = apart(&words, flag);
        // Without a value from the environment, a flag that the user added is kept. A flag given twice is reduced to one.
        let wanted = home.or(named.last().map(String::as_str));
        if home.is_none() && wanted.is_some() {
            notes.push(format!("the [[hook]] named {} keeps the {flag} of its command", self.name));
        }
        if let Some(wanted) = wanted.filter(|wanted| named != [*wanted]) {
            words = [flag, wanted].map(str::to_owned).into_iter().chain(others).collect();
        }
        (words, notes)
    }

    /// Notes about an existing hook that wakes less than a new one would.
    fn notes_on(&self, row: &toml::Value) -> Vec<String> {
        let mut notes = Vec::new();
        if row.get("wake").and_then(toml::Value::as_bool) != Some(true) {
            notes.push(format!("the [[hook]] of the name {} stays without wake = true: it starts no turn", self.name));
        }
        let theirs = row.get("sessions").and_then(toml::Value::as_array);
        let covered = |ours: &str| {
            theirs.is_none_or(|all| {
                let mut all = all.iter().filter_map(toml::Value::as_str);
                all.any(|one| one == ours || one.strip_suffix('*').is_some_and(|start| ours.starts_with(start)))
            })
        };
        let missing: Vec<String> = self.sessions.iter().filter(|ours| !covered(ours)).map(|ours| format!("{ours:?}")).collect();
        if !missing.is_empty() {
            notes.push(format!(
                "the [[hook]] of the name {} stays for the sessions that it names: it does not wake all of {}",
                self.name,
                missing.join(", ")
            ));
        }
        notes
    }
}

/// The values that these arguments give a flag, and the arguments without it. None of our flags takes a value that begins like a flag.
fn apart(words: &[String], flag: &str) -> (Vec<String>, Vec<String>) {
    let (mut values, mut others) = (Vec::new(), Vec::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.strip_prefix(flag) {
            Some("") => values.push(words.next().cloned().unwrap_or_default()),
            Some(rest) if rest.starts_with('=') => values.push(rest[1..].to_owned()),
            _ => others.push(word.clone()),
        }
    }
    (values, others)
}

/// A word, quoted for a shell if necessary.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}
