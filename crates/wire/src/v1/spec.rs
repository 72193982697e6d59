//! What a client requests to run. Commands, variables and [`OnStop`] are those of `outlast-core`: fixtures pin their bytes.

use outlast_core::{Command, EnvVar, EnvironmentName, OnStop, OsText, Owner, Route};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What to run, how, and for whom. The owner is in the message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// The command to run.
    pub command: Command,
    /// The environment in which it runs; if absent, the engine's machine. Only in a request that engines without environments refuse.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<EnvironmentName>,
    /// Its working directory; if absent, the caller's own.
    #[serde(default)]
    pub cwd: Option<OsText>,
    /// Variables that are set over the inherited environment.
    #[serde(default)]
    pub env: Vec<EnvVar>,
    /// Whether it runs on a terminal.
    #[serde(default)]
    pub pty: bool,
    /// Whether its input is a pipe.
    #[serde(default)]
    pub stdin: bool,
    /// A name for display.
    #[serde(default)]
    pub name: Option<String>,
    /// Labels, by which processes can be found together.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// How long it may run, in milliseconds.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// What happens to it when the engine is stopped.
    #[serde(default)]
    pub on_stop: OnStop,
    /// What its owner is notified of.
    #[serde(default, skip_serializing_if = "Tell::is_nothing")]
    pub tell: Tell,
}

/// The changes to a command that is run again. An absent field changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct RerunChange {
    /// The new name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The new command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Command>,
}

impl RerunChange {
    /// The same, with this name.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// The same, with this command.
    #[must_use]
    pub fn running(self, command: Command) -> Self {
        Self { command: Some(command), ..self }
    }

    /// Whether it changes nothing.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// What the owner of a process is notified of.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Tell {
    /// The end of the process.
    pub completion: bool,
    /// The end of the process, but only if no client of its session waits for it at that moment.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unless_waited_for: bool,
    /// The client that starts it will wait for its end next.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub awaited: bool,
    /// Each line that contains one of these patterns.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub watch: Vec<String>,
    /// How many characters of output the completion notice carries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chars: Option<u32>,
    /// Where in a chat the owner is.
    #[serde(flatten)]
    pub route: Route,
}

impl Tell {
    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

impl Spec {
    /// The core type, with the message's owner.
    pub fn into_core(self, owner: Owner) -> outlast_core::Spec {
        let Self { command, on, cwd, env, pty, stdin, name, labels, timeout_ms, on_stop, tell } = self;
        let mut spec = outlast_core::Spec::of(command);
        spec.on = on;
        spec.cwd = cwd;
        spec.env = env;
        spec.pty = pty;
        spec.stdin = stdin;
        spec.name = name;
        spec.labels = labels;
        spec.owner = owner;
        spec.timeout = timeout_ms.map(std::time::Duration::from_millis);
        spec.on_stop = on_stop;
        spec.tell = tell.into();
        spec
    }
}

impl From<outlast_core::Spec> for Spec {
    fn from(s: outlast_core::Spec) -> Self {
        Self {
            command: s.command,
            on: s.on,
            cwd: s.cwd,
            env: s.env,
            pty: s.pty,
            stdin: s.stdin,
            name: s.name,
            labels: s.labels,
            timeout_ms: s.timeout.map(|d| d.as_millis() as u64),
            on_stop: s.on_stop,
            tell: s.tell.into(),
        }
    }
}

impl From<Tell> for outlast_core::Tell {
    fn from(Tell { completion, unless_waited_for, awaited, watch, chars, route }: Tell) -> Self {
        let mut tell = Self::default();
        tell.completion = completion;
        tell.unless_waited_for = unless_waited_for;
        tell.awaited = awaited;
        tell.watch = watch;
        tell.chars = chars;
        tell.route = route;
        tell
    }
}

impl From<outlast_core::Tell> for Tell {
    fn from(outlast_core::Tell { completion, unless_waited_for, awaited, watch, chars, route, .. }: outlast_core::Tell) -> Self {
        Self { completion, unless_waited_for, awaited, watch, chars, route }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_spec_is_lost_on_the_way() {
        let spec = outlast_core::Spec::with_everything();
        let sent = serde_json::to_string(&Spec::from(spec.clone())).expect("it serialises");
        let read: Spec = serde_json::from_str(&sent).expect("it reads back");
        assert_eq!(read.into_core(spec.owner.clone()), spec);
    }
}
