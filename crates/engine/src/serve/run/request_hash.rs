//! What makes two requests the same: command, directory, explicit environment, flags and owner.
//!
//! A retry after an upgrade compares the hashes of two releases. So the bytes that are hashed have a shape of their own, which does not
//! change when a type of `core` does.

use crate::bytes::hex;
use outlast_core::{Command, EnvVar, OnStop, OsText, Owner, ProcessId, Route, Spec, Tell};
use outlast_wire::v1::Caller;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::Path;

/// The hash of a request. It contains the id, so that equal requests cannot be recognised by their hashes.
pub(super) fn hash(id: ProcessId, spec: &Spec, caller: &Caller) -> String {
    let here = caller.cwd.as_path();
    let cwd = OsText::from(spec.cwd.as_ref().map_or(here.to_owned(), |dir| here.join(dir.as_path())).as_path() as &Path);
    let mut sum = Sha256::new();
    sum.update(id.bytes());
    // It holds strings, numbers and lists only, which always serialise.
    sum.update(serde_json::to_vec(&HashV1::of(spec, &cwd)).expect("a request serialises"));
    hex(&sum.finalize())
}

/// The bytes that are hashed. The order of fields counts. A field that is added must be absent while it has no value.
#[derive(Serialize)]
struct HashV1<'a> {
    command: CommandV1<'a>,
    cwd: &'a OsText,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    env: Vec<EnvV1<'a>>,
    #[serde(skip_serializing_if = "is_false")]
    pty: bool,
    #[serde(skip_serializing_if = "is_false")]
    stdin: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: &'a BTreeMap<String, String>,
    owner: OwnerV1<'a>,
    /// Milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<u64>,
    on_stop: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tell: Option<TellV1<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum CommandV1<'a> {
    Shell(&'a OsText),
    Argv(&'a [OsText]),
}

#[derive(Serialize)]
struct EnvV1<'a> {
    name: &'a OsText,
    value: &'a OsText,
}

#[derive(Serialize)]
struct OwnerV1<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<&'a str>,
}

#[derive(Serialize)]
struct TellV1<'a> {
    #[serde(skip_serializing_if = "is_false")]
    completion: bool,
    #[serde(skip_serializing_if = "is_false")]
    unless_waited_for: bool,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    watch: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    chars: Option<u32>,
    #[serde(skip_serializing_if = "RouteV1::is_empty")]
    route: RouteV1<'a>,
}

#[derive(PartialEq, Default, Serialize)]
struct RouteV1<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    platform: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chat_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<&'a str>,
}

impl RouteV1<'_> {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

// serde passes a reference.
fn is_false(flag: &bool) -> bool {
    !flag
}

impl<'a> HashV1<'a> {
    fn of(spec: &'a Spec, cwd: &'a OsText) -> Self {
        Self {
            command: match &spec.command {
                Command::Shell(line) => CommandV1::Shell(line),
                Command::Argv(args) => CommandV1::Argv(args),
            },
            cwd,
            env: spec.env.iter().map(|EnvVar { name, value }| EnvV1 { name, value }).collect(),
            pty: spec.pty,
            stdin: spec.stdin,
            name: spec.name.as_deref(),
            labels: &spec.labels,
            owner: OwnerV1::of(&spec.owner),
            timeout: spec.timeout.map(|timeout| timeout.as_millis() as u64),
            on_stop: match spec.on_stop {
                OnStop::Keep => "keep",
                OnStop::Kill => "kill",
            },
            tell: TellV1::of(&spec.tell),
        }
    }
}

impl<'a> OwnerV1<'a> {
    fn of(owner: &'a Owner) -> Self {
        Self { session: owner.session.as_deref(), task: owner.task.as_deref(), generation: owner.generation.as_deref() }
    }
}

impl<'a> TellV1<'a> {
    /// Absent if it asks for nothing. A retry may wait or not, so `awaited` is not hashed.
    fn of(tell: &'a Tell) -> Option<Self> {
        let mut hashed = tell.clone();
        hashed.awaited = false;
        (!hashed.is_nothing()).then(|| Self {
            completion: tell.completion,
            unless_waited_for: tell.unless_waited_for,
            watch: &tell.watch,
            chars: tell.chars,
            route: RouteV1::of(&tell.route),
        })
    }
}

impl<'a> RouteV1<'a> {
    fn of(route: &'a Route) -> Self {
        Self {
            platform: route.platform.as_deref(),
            chat_id: route.chat_id.as_deref(),
            user_id: route.user_id.as_deref(),
            user_name: route.user_name.as_deref(),
            thread_id: route.thread_id.as_deref(),
            message_id: route.message_id.as_deref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_hashed_as_its_spec_was_first_written() {
        let mut whole = Spec::with_everything();
        whole.tell.awaited = false;
        let mut asked = Spec::shell("make").telling(Tell::end().line("ERROR")).in_dir("/src");
        asked.owner.session = Some("s".into());
        for spec in [whole, asked, Spec::shell("make").in_dir("/src")] {
            let cwd = spec.cwd.clone().unwrap();
            assert_eq!(serde_json::to_string(&HashV1::of(&spec, &cwd)).unwrap(), serde_json::to_string(&spec).unwrap());
        }
    }

    #[test]
    fn the_hash_of_a_request_is_the_same_in_every_release() {
        let (id, caller) = (ProcessId::from_bytes([1, 2, 3, 4, 5, 6]), Caller::new(Vec::new(), "/tmp"));
        assert_eq!(hash(id, &Spec::shell("make"), &caller), "68c2cf89142cf44d550efe7cf942d27ec7c18623c87d1a34d1dd09e566b98de5");
        let mut everything = Spec::with_everything();
        assert_eq!(hash(id, &everything, &caller), "2ea99d3b9ccf00de41485edb81251a14488521d9b0ab0bf645ae7c60d1a60955");
        everything.labels.clear();
        assert_eq!(hash(id, &everything, &caller), "10849503ab2d2f15861853a5013e9663cd2bd40062efaee628693e4d85007168");
        everything.tell.awaited = false;
        assert_eq!(hash(id, &everything, &caller), "10849503ab2d2f15861853a5013e9663cd2bd40062efaee628693e4d85007168");
    }
}
