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
            let bad =
                || Failure::refused(format!("{} is no text, which a configuration cannot hold", path.display()), "give it another name");
            path.to_str().map(str::to_owned).ok_or_else(bad)
        };
        let program = ctx.world.lasting_program().ok_or_else(|| {
            Failure::refused("nobody can say where this program lies, so that a client could not be told", "call it by its path once more")
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
        let name = |program: &str| Path::new(program).file_name().map(ToOwned::to_owned);
        match Call::of(entry) {
            Some(call) => name(&call.argv[0]) == name("outlast") || name(&call.argv[0]) == name(&self.program),
            None => entry["command"].is_null(),
        }
    }

    /// A line for a shell that calls us with these words.
    pub(super) fn line(&self, words: &str) -> String {
        let env: String = self.env.iter().map(|(name, value)| format!("{name}={} ", quoted(value))).collect();
        format!("{env}{} {words}", quoted(&self.program))
    }

    /// A sink of ours that wakes conversations of a client: `outlast hook` with these words.
    pub(super) fn wakes(&self, place: &Place<'_>, name: &'static str, words: &[&str], sessions: &[&str], usual: Fields) -> Target {
        let own = [self.program.as_str(), "hook"].into_iter().chain(words.iter().copied()).map(str::to_owned);
        let command = own.chain(added_to(place.config, name, words));
        let fields = vec![
            ("command".to_owned(), Data::texts(command)),
            ("sessions".to_owned(), Data::texts(sessions.iter().copied())),
            ("wake".to_owned(), Data::Flag(true)),
        ];
        Target::new(place.config.to_owned(), Wishes::Toml(vec![toml::Wish::Row { list: "hook", name, fields, usual }])).of_ours()
    }
}

/// The flags that somebody has added to the command of a sink, as our pages tell them to: where a server listens, where its key is.
fn added_to(config: &Path, name: &str, words: &[&str]) -> Vec<String> {
    let row = File::read(config).ok().and_then(|file| toml::row(file.text(), "hook", name).ok().flatten());
    let command = row.as_ref().and_then(|row| row.get("command")?.as_array());
    let there: Vec<&str> = command.into_iter().flatten().filter_map(|word| word.as_str()).collect();
    let Some(([_, hook, client], mut rest)) = there.split_first_chunk::<3>() else { return Vec::new() };
    if *hook != "hook" || words.first() != Some(client) {
        return Vec::new();
    }
    let mut added = Vec::new();
    // What we set ourselves is set anew: a flag and its value.
    while let [word, more @ ..] = rest {
        rest = match words[1..].contains(word) {
            true => more.get(1..).unwrap_or_default(),
            false => {
                added.push((*word).to_owned());
                more
            }
        };
    }
    added
}

/// A word as a shell reads it back.
pub(super) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}
