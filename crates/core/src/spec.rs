//! What a caller requests to run.

use crate::{EnvironmentName, OsText, Owner, Route};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// A shell line, or a program with its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// One line for the user's shell.
    Shell(OsText),
    /// A program and its arguments, run without a shell.
    Argv(Vec<OsText>),
}

impl Command {
    /// The command as one text for display, and for the `command` field.
    pub fn shown(&self) -> String {
        match self {
            Self::Shell(line) => line.to_lossy().into_owned(),
            Self::Argv(args) => args.iter().map(|a| quoted(&a.to_lossy())).collect::<Vec<_>>().join(" "),
        }
    }
}

fn quoted(arg: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,+@%^".contains(c);
    if !arg.is_empty() && arg.chars().all(plain) { arg.to_owned() } else { format!("'{}'", arg.replace('\'', r"'\''")) }
}

/// One environment variable given by name and value.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EnvVar {
    /// Its name.
    pub name: OsText,
    /// Its value.
    pub value: OsText,
}

impl std::fmt::Debug for EnvVar {
    // A value may be a secret, and a Debug text may reach a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}=…", self.name)
    }
}

/// What happens to the process when the engine is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnStop {
    /// It keeps running.
    #[default]
    Keep,
    /// It is stopped.
    Kill,
}

/// What to run, how, and for whom.
///
/// ```
/// # use outlast_core::{Spec, Tell};
/// let spec = Spec::argv(["cargo", "test"]).named("tests").in_dir("/src").telling(Tell::end());
/// assert_eq!((spec.command.shown().as_str(), spec.name.as_deref()), ("cargo test", Some("tests")));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Spec {
    /// The command to run.
    pub command: Command,
    /// The environment in which it runs; if absent, this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<EnvironmentName>,
    /// Its working directory; if absent, the caller's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<OsText>,
    /// Variables that are set over the inherited environment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvVar>,
    /// Whether it runs on a terminal.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pty: bool,
    /// Whether its input is a pipe. Without a pipe or a terminal its input is empty.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stdin: bool,
    /// A name for display.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Labels, by which processes can be found together.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Who owns the process.
    #[serde(default)]
    pub owner: Owner,
    /// How long it may run before it is stopped.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "millis")]
    pub timeout: Option<Duration>,
    /// What happens to it when the engine is stopped.
    #[serde(default)]
    pub on_stop: OnStop,
    /// What its owner is notified of.
    #[serde(default, skip_serializing_if = "Tell::is_nothing")]
    pub tell: Tell,
}

/// What the owner of a process is notified of. Written to disk before the command starts.
///
/// ```
/// # use outlast_core::Tell;
/// let tell = Tell::end().line("ERROR").line("panicked at");
/// assert!(tell.completion && tell.watch.len() == 2);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Tell {
    /// The end of the process.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub completion: bool,
    /// The end of the process, but only if no client of its session waits for it at that moment. The client that started it intends
    /// to wait for it, but may die.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unless_waited_for: bool,
    /// The client that starts it will wait for its end next. If the process ends before that request arrives, the notice is kept
    /// for the client for a moment.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub awaited: bool,
    /// Each line that contains one of these patterns, in this order of preference.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub watch: Vec<String>,
    /// How many characters of output the completion notice carries; absent means the contract's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chars: Option<u32>,
    /// Where in a chat the owner is.
    #[serde(skip_serializing_if = "Route::is_empty")]
    pub route: Route,
}

impl Tell {
    /// Whether it asks for no notice.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Notify of the end.
    pub fn end() -> Self {
        Self { completion: true, ..Self::default() }
    }

    /// The same, and also of lines that contain `text`.
    #[must_use]
    pub fn line(mut self, text: impl Into<String>) -> Self {
        self.watch.push(text.into());
        self
    }

    /// The same, for an owner in a chat.
    #[must_use]
    pub fn to(self, route: Route) -> Self {
        Self { route, ..self }
    }
}

impl Spec {
    /// A spec for a shell line, everything else at its default.
    pub fn shell(line: impl Into<OsText>) -> Self {
        Self::of(Command::Shell(line.into()))
    }

    /// A spec for a program and its arguments, everything else at its default.
    pub fn argv<T: Into<OsText>>(args: impl IntoIterator<Item = T>) -> Self {
        Self::of(Command::Argv(args.into_iter().map(Into::into).collect()))
    }

    /// A spec for a command, everything else at its default.
    pub fn of(command: Command) -> Self {
        Self {
            command,
            on: None,
            cwd: None,
            env: Vec::new(),
            pty: false,
            stdin: false,
            name: None,
            labels: BTreeMap::new(),
            owner: Owner::default(),
            timeout: None,
            on_stop: OnStop::Keep,
            tell: Tell::default(),
        }
    }

    /// The same, with a name for display.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// The same, with this label.
    #[must_use]
    pub fn labelled(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }

    /// The same, in this environment.
    #[must_use]
    pub fn on(self, environment: EnvironmentName) -> Self {
        Self { on: Some(environment), ..self }
    }

    /// The same, in this directory.
    #[must_use]
    pub fn in_dir(self, dir: impl Into<OsText>) -> Self {
        Self { cwd: Some(dir.into()), ..self }
    }

    /// The same, with this variable set over the inherited environment.
    #[must_use]
    pub fn with_env(mut self, name: impl Into<OsText>, value: impl Into<OsText>) -> Self {
        self.env.push(EnvVar { name: name.into(), value: value.into() });
        self
    }

    /// The same, on a terminal.
    #[must_use]
    pub fn on_terminal(self) -> Self {
        Self { pty: true, ..self }
    }

    /// The same, with a pipe for its input.
    #[must_use]
    pub fn with_input(self) -> Self {
        Self { stdin: true, ..self }
    }

    /// The same, for another owner than the caller.
    #[must_use]
    pub fn owned_by(self, owner: Owner) -> Self {
        Self { owner, ..self }
    }

    /// The same, with this time limit.
    #[must_use]
    pub fn at_most(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }

    /// The same, stopped when the engine is stopped.
    #[must_use]
    pub fn ending_with_the_engine(self) -> Self {
        Self { on_stop: OnStop::Kill, ..self }
    }

    /// The same, and its owner is notified of this.
    #[must_use]
    pub fn telling(self, tell: Tell) -> Self {
        Self { tell, ..self }
    }

    /// A spec with every field set, for tests of formats: they notice a field that a format omits.
    #[doc(hidden)]
    pub fn with_everything() -> Self {
        Self {
            command: Command::Argv(vec!["echo".into(), vec![0xff, b'\n', 1].into(), "".into()]),
            on: "ssh:me@host".parse().ok(),
            cwd: Some(vec![b'/', 0x80].into()),
            env: vec![EnvVar { name: "TOKEN".into(), value: "…".into() }],
            pty: true,
            stdin: true,
            name: Some("né\0".into()),
            labels: BTreeMap::from([("k".into(), "v".into())]),
            owner: Owner { session: Some("s".into()), task: Some("t".into()), generation: Some("g".into()) },
            timeout: Some(Duration::from_millis(1)),
            on_stop: OnStop::Kill,
            tell: Tell {
                completion: true,
                unless_waited_for: true,
                awaited: true,
                watch: vec!["ERROR".into()],
                chars: Some(9),
                route: Route {
                    platform: Some("p".into()),
                    chat_id: Some("c".into()),
                    user_id: Some("i".into()),
                    user_name: Some("u".into()),
                    thread_id: Some("t".into()),
                    message_id: Some("m".into()),
                },
            },
        }
    }

    /// Whether the process takes input.
    pub fn takes_input(&self) -> bool {
        self.pty || self.stdin
    }
}

mod millis {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::time::Duration;

    pub(super) fn serialize<S: Serializer>(d: &Option<Duration>, s: S) -> Result<S::Ok, S::Error> {
        d.map(|d| d.as_millis() as u64).serialize(s)
    }
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(d)?.map(Duration::from_millis))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argv_is_shown_so_that_a_shell_could_read_it() {
        assert_eq!(Spec::argv(["echo", "a b", "it's", ""]).command.shown(), r"echo 'a b' 'it'\''s' ''");
    }

    #[test]
    fn a_debug_text_shows_no_value() {
        let mut spec = Spec::shell("true");
        spec.env.push(EnvVar { name: "K".into(), value: "hunter2".into() });
        assert!(!format!("{spec:?}").contains("hunter2"));
    }
}
