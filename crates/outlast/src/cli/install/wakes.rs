//! The hooks of ours that wake sessions of clients.

use super::File;
use super::edit::{Data, toml};
use super::own_command::OwnCommand;
use super::place::InstallPlace;

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

/// How long a hook that waits for a turn may run, in seconds: longer than a turn.
const TURN_LIMIT: u32 = 660;

pub(super) static CODEX: WakingHook = WakingHook {
    name: "wake-codex",
    client: "codex",
    home_flag: Some(("--codex-home", "CODEX_HOME")),
    sessions: &["codex:*"],
    limit: Some(TURN_LIMIT),
};

pub(super) static OPENCODE: WakingHook =
    WakingHook { name: "wake-opencode", client: "opencode", home_flag: None, sessions: &["opencode:*", "mcp:opencode:*"], limit: None };

pub(super) static HERMES: WakingHook =
    WakingHook { name: "wake-hermes", client: "hermes", home_flag: None, sessions: &["hermes:*"], limit: Some(TURN_LIMIT) };

/// The names of all of them.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    [&CODEX, &OPENCODE, &HERMES].into_iter().map(|hook| hook.name)
}

impl WakingHook {
    /// Its table in our own configuration, and notes about what the user changed in it, which is kept.
    pub(super) fn edit(&self, place: &InstallPlace<'_>, own: &OwnCommand) -> (toml::TomlEdit, Vec<String>) {
        let row = File::read(place.config).ok().and_then(|file| toml::row(file.text(), "hook", self.name).ok().flatten());
        let command = row.as_ref().and_then(|row| row.get("command"));
        let there = command.map(|there| self.arguments(own, there));
        let mut notes = row.as_ref().map(|row| self.notes_on(row)).unwrap_or_default();
        let home = self.home(place);
        let call = [&own.program, "hook", self.client];
        let set = |rest: Vec<String>| vec![("command".to_owned(), Data::texts(call.map(str::to_owned).into_iter().chain(rest)))];
        let (fields, mut defaults) = match there {
            Some(Some(rest)) => {
                let (words, kept) = self.set_in(&rest, home.as_deref());
                notes.extend(kept);
                (set(words), Vec::new())
            }
            Some(None) => {
                notes.push(format!("the [[hook]] of the name {} has a command of your own, which stays as it is", self.name));
                (Vec::new(), set(self.set_in(&[], home.as_deref()).0))
            }
            None => (set(self.set_in(&[], home.as_deref()).0), Vec::new()),
        };
        defaults.push(("sessions".to_owned(), Data::texts(self.sessions.iter().copied())));
        defaults.push(("wake".to_owned(), Data::Flag(true)));
        defaults.extend(self.limit.map(|seconds| ("timeout_seconds".to_owned(), Data::Number(seconds))));
        (toml::TomlEdit::Row { list: "hook", name: self.name, fields, defaults }, notes)
    }

    /// The arguments after `outlast hook CLIENT`, if that is what a command calls.
    fn arguments(&self, own: &OwnCommand, command: &toml::Value) -> Option<Vec<String>> {
        let words: Vec<String> = command.as_array()?.iter().map(|word| word.as_str().map(str::to_owned)).collect::<Option<_>>()?;
        let ([program, hook, client], rest) = words.split_first_chunk::<3>()?;
        (own.is_own_program(program) && hook == "hook" && client == self.client).then(|| rest.to_vec())
    }

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
