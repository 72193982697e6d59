//! How we are called by clients, and by the engine on their behalf.

use super::edit::{Data, Fields, toml};
use super::{Call, Context, Failure, File, Place, Target, Wishes};
use serde_json::Value;
use std::path::Path;

/// How we are called by a client.
pub(super) struct Us {
    pub(super) program: String,
    pub(super) args: Vec<String>,
    /// What names our home and configuration where that is not the usual. Some clients pass on next to nothing of their environment.
    pub(super) env: Vec<(&'static str, String)>,
    /// Whether a server of the client's is to be asked to wake its sessions.
    pub(super) wake: bool,
    /// Whether the client is to ask before it uses our tools, where it would not be told to otherwise.
    pub(super) ask: bool,
}

impl Us {
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
        Ok(Self { program: text(&program)?, args, env, wake, ask })
    }

    /// The fields of an MCP server as most clients have them.
    pub(super) fn server(&self) -> Fields {
        self.server_for(None)
    }

    /// The same, for whom it is started where the client does not say.
    pub(super) fn server_for(&self, session: Option<&str>) -> Fields {
        let mut fields = vec![("command".to_owned(), Data::text(&*self.program)), ("args".to_owned(), Data::texts(self.args.clone()))];
        fields.extend(self.env(session).map(|env| ("env".to_owned(), env)));
        fields
    }

    pub(super) fn env(&self, session: Option<&str>) -> Option<Data> {
        let all = self.env.iter().map(|(name, value)| (*name, value.as_str())).chain(session.map(|key| ("OUTLAST_SESSION", key)));
        let each: Fields = all.map(|(name, value)| (name.to_owned(), Data::text(value))).collect();
        (!each.is_empty()).then_some(Data::Map(each))
    }

    /// Whether an entry of our name is ours: it calls an `outlast`, wherever that lies, or calls nothing yet.
    pub(super) fn is_ours(&self, entry: &Value) -> bool {
        if !entry["url"].is_null() {
            return false;
        }
        match Call::of(entry) {
            Some(call) => self.is_called_by(&call.argv[0]),
            None => entry["command"].is_null(),
        }
    }

    /// Whether a program is an `outlast`, by its name.
    fn is_called_by(&self, program: &str) -> bool {
        let name = |program: &str| Path::new(program).file_name().map(ToOwned::to_owned);
        name(program) == name("outlast") || name(program) == name(&self.program)
    }

    /// A line for a shell that calls us with these words.
    pub(super) fn line(&self, words: &str) -> String {
        let env: String = self.env.iter().map(|(name, value)| format!("{name}={} ", quoted(value))).collect();
        format!("{env}{} {words}", quoted(&self.program))
    }

    /// What wakes conversations of a client: in our own configuration, beside what somebody has made of it.
    pub(super) fn wakes(&self, place: &Place<'_>, sink: &Sink<'_>) -> Target {
        let row = File::read(place.config).ok().and_then(|file| toml::row(file.text(), "hook", sink.name).ok().flatten());
        let command = row.as_ref().and_then(|row| row.get("command"));
        let there = command.map(|there| self.own_words(sink, there));
        let mut notes = row.as_ref().map(|row| sink.stays(row)).unwrap_or_default();
        let own =
            |rest: &[String]| Data::texts([&self.program, "hook", sink.client].map(str::to_owned).into_iter().chain(rest.iter().cloned()));
        let set = |rest: Vec<String>| vec![("command".to_owned(), own(&rest))];
        let (fields, mut usual) = match there {
            Some(Some(rest)) => {
                let (words, kept) = sink.set_in(&rest);
                notes.extend(kept);
                (set(words), Vec::new())
            }
            Some(None) => {
                notes.push(format!("the [[hook]] of the name {} has a command of your own, which stays as it is", sink.name));
                (Vec::new(), set(sink.set_in(&[]).0))
            }
            None => (set(sink.set_in(&[]).0), Vec::new()),
        };
        usual.push(("sessions".to_owned(), Data::texts(sink.sessions.iter().copied())));
        usual.push(("wake".to_owned(), Data::Flag(true)));
        usual.extend(sink.limit.map(|seconds| ("timeout_seconds".to_owned(), Data::Number(seconds))));
        let wish = toml::Wish::Row { list: "hook", name: sink.name, fields, usual };
        Target::new(place.config.to_owned(), Wishes::Toml(vec![wish])).of_ours(notes)
    }

    /// What is behind `outlast hook CLIENT`, if that is what a command calls.
    fn own_words(&self, sink: &Sink<'_>, command: &toml::Value) -> Option<Vec<String>> {
        let words: Vec<String> = command.as_array()?.iter().map(|word| word.as_str().map(str::to_owned)).collect::<Option<_>>()?;
        let ([program, hook, client], rest) = words.split_first_chunk::<3>()?;
        (self.is_called_by(program) && hook == "hook" && client == sink.client).then(|| rest.to_vec())
    }
}

/// A sink of ours that wakes conversations of a client: `outlast hook CLIENT`.
pub(super) struct Sink<'a> {
    pub(super) name: &'static str,
    pub(super) client: &'static str,
    /// Flags that say where the client is, each with its value where it is not the usual.
    pub(super) flags: &'a [(&'static str, Option<&'a str>)],
    /// The conversations it is for, where it is new.
    pub(super) sessions: &'a [&'a str],
    /// How long it may take, in seconds, where that is not the usual.
    pub(super) limit: Option<u32>,
}

impl Sink<'_> {
    /// The words behind `outlast hook CLIENT`: those that are there, with our flags set to what they should be. What to say of one that is not ours to set.
    fn set_in(&self, there: &[String]) -> (Vec<String>, Vec<String>) {
        let (mut words, mut notes) = (there.to_vec(), Vec::new());
        for (flag, value) in self.flags {
            let (named, others) = apart(&words, flag);
            // Where the environment says nothing, it may be there by hand, as our pages tell people; twice no command may have it.
            let wanted = value.or(named.last().map(String::as_str));
            if value.is_none() && wanted.is_some() {
                notes.push(format!("the [[hook]] named {} keeps the {flag} of its command", self.name));
            }
            if let Some(wanted) = wanted.filter(|wanted| named != [*wanted]) {
                words = [flag, wanted].map(str::to_owned).into_iter().chain(others).collect();
            }
        }
        (words, notes)
    }

    /// What to say of a row that somebody has changed such that it does not wake what a new one would.
    fn stays(&self, row: &toml::Value) -> Vec<String> {
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

/// The values that a flag is given in these words, and the words without it. No flag of ours takes a value that begins like a flag.
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

/// A word as a shell reads it back.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}
