//! The notices of owners.

use crate::{Owner, ProcessId, Reason, Route, Time};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One notice: what happened, for whom, and where they are. Its JSON is the contract's event, flat, with our fields beside the contract's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Notice {
    /// Where in a chat its owner is. Before the body, which takes whatever is left when it is read.
    #[serde(flatten)]
    pub route: Route,
    /// What happened.
    #[serde(flatten)]
    pub body: Body,
    /// Its lasting name: the same for every delivery, and the same after the index was rebuilt.
    pub event_id: String,
    /// Its place among all notices of the home; 0 before it has one.
    #[serde(default)]
    pub seq: u64,
    /// When it was made.
    pub created_at: Time,
    /// The process it is about, under the contract's name; empty where it is about none.
    #[serde(default)]
    pub session_id: String,
    /// The conversation it is for, under the contract's name; empty where it is a person.
    #[serde(default)]
    pub session_key: String,
    /// The task it is for.
    #[serde(default)]
    pub task_id: String,
    /// The generation of the session that it is for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub generation: String,
    /// Whether its owner may have been told before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeat: bool,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Body {
    /// A process is over.
    Completion(Box<Completion>),
    /// A line held a pattern.
    WatchMatch(WatchMatch),
    /// A process is no longer watched.
    WatchDisabled {
        /// The name of the process, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Its command, secrets masked.
        command: String,
        /// Why, in the contract's words.
        message: String,
        /// How many matches were held back.
        suppressed: u64,
    },
    /// Too many matches came at once, so none are reported for a while.
    WatchOverflowTripped {
        /// In the contract's words.
        message: String,
    },
    /// Matches are reported again.
    WatchOverflowReleased {
        /// In the contract's words.
        message: String,
        /// How many of this conversation's were held back.
        suppressed: u64,
    },
    /// A barrier is open.
    Until {
        /// Its id.
        barrier: String,
        /// Why: `exited`, `matched`, `unknown`, `pid_gone`, `time`.
        why: String,
        /// In a sentence.
        message: String,
    },
    /// A notice that a client posted, its `type` among the fields: `async_delegation`, or a kind of its own.
    #[serde(untagged)]
    Posted(Map<String, Value>),
}

/// How a process ended, for its owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Completion {
    /// The name of the process, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its command, secrets masked.
    pub command: String,
    /// The own code, minus the signal, or null if it is unknown.
    pub exit_code: Option<i32>,
    /// The signal's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Whether the kernel killed it because memory ran out. False also if that is not known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub oom: bool,
    /// Why it is over.
    pub completion_reason: Reason,
    /// Who ended it, or empty.
    #[serde(default)]
    pub termination_source: String,
    /// The end of its output, for readers: stripped, masked, then cut.
    #[serde(default)]
    pub output: String,
    /// How many characters were left out before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_cut: Option<u64>,
    /// How many bytes of output are missing because the disk refused them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_missing: Option<u64>,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it ended, or was found gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    /// How it came to run in the background, where its caller did not ask for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handoff_note: Option<String>,
}

/// Lines that held a pattern, for their owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WatchMatch {
    /// The name of the process, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The process's command, secrets masked.
    pub command: String,
    /// The pattern of the first of them.
    pub pattern: String,
    /// The lines, masked and cut.
    pub output: String,
    /// How many matches before them were held back.
    #[serde(default)]
    pub suppressed: u64,
}

impl Completion {
    /// The end of a command of which nothing else is known.
    pub fn new(command: impl Into<String>, exit_code: Option<i32>, reason: Reason) -> Self {
        Self {
            name: None,
            command: command.into(),
            exit_code,
            signal: None,
            oom: false,
            completion_reason: reason,
            termination_source: String::new(),
            output: String::new(),
            output_cut: None,
            output_missing: None,
            started_at: None,
            ended_at: None,
            handoff_note: None,
        }
    }
}

impl WatchMatch {
    /// Lines of a command's output that held a pattern, the first ones of all.
    pub fn new(command: impl Into<String>, pattern: impl Into<String>, output: impl Into<String>) -> Self {
        Self { name: None, command: command.into(), pattern: pattern.into(), output: output.into(), suppressed: 0 }
    }
}

impl Notice {
    /// The kinds of notices that are not posted.
    pub const KINDS: [&str; 6] =
        ["completion", "watch_match", "watch_disabled", "watch_overflow_tripped", "watch_overflow_released", "until"];

    /// Its kind: the `type` field.
    pub fn kind(&self) -> &str {
        match &self.body {
            Body::Completion(_) => "completion",
            Body::WatchMatch(_) => "watch_match",
            Body::WatchDisabled { .. } => "watch_disabled",
            Body::WatchOverflowTripped { .. } => "watch_overflow_tripped",
            Body::WatchOverflowReleased { .. } => "watch_overflow_released",
            Body::Until { .. } => "until",
            Body::Posted(fields) => fields.get("type").and_then(Value::as_str).unwrap_or("unknown"),
        }
    }

    /// The name of the process that it is about, if there is one and it has a name.
    pub fn name(&self) -> Option<&str> {
        match &self.body {
            Body::Completion(end) => end.name.as_deref(),
            Body::WatchMatch(seen) => seen.name.as_deref(),
            Body::WatchDisabled { name, .. } => name.as_deref(),
            // What was posted may have a `name` of its own, which is no process.
            Body::WatchOverflowTripped { .. } | Body::WatchOverflowReleased { .. } | Body::Until { .. } | Body::Posted(_) => None,
        }
    }

    /// Whether it is about lines of output rather than about an end.
    pub fn is_watch(&self) -> bool {
        match &self.body {
            Body::WatchMatch(_) | Body::WatchDisabled { .. } | Body::WatchOverflowTripped { .. } | Body::WatchOverflowReleased { .. } => {
                true
            }
            Body::Completion(_) | Body::Until { .. } | Body::Posted(_) => false,
        }
    }

    /// A notice about a process, or about none.
    pub fn new(event_id: String, at: Time, process: Option<ProcessId>, owner: &Owner, route: Route, body: Body) -> Self {
        let text = |part: &Option<String>| part.clone().unwrap_or_default();
        Self {
            route,
            body,
            event_id,
            seq: 0,
            created_at: at,
            session_id: process.map(|id| id.to_string()).unwrap_or_default(),
            session_key: text(&owner.session),
            task_id: text(&owner.task),
            generation: text(&owner.generation),
            repeat: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(body: Body) -> Notice {
        let owner = Owner { session: Some("s".into()), task: None, generation: None };
        let route = Route { chat_id: Some("42".into()), ..Route::default() };
        Notice::new("evt_1".into(), Time::from_micros(0), Some(ProcessId::from_bytes([1; 6])), &owner, route, body)
    }

    #[test]
    fn a_notice_that_was_read_is_written_as_it_was() {
        let posted = serde_json::json!({"type": "deploy", "text": "done", "nested": {"chat_id": 7}});
        let told = Notice { seq: 7, ..notice(Body::Posted(posted.as_object().unwrap().clone())) };
        let text = serde_json::to_string(&told).unwrap();
        // As text: in a value a name that comes twice is there once.
        let back: Notice = serde_json::from_str(&text).unwrap();
        assert_eq!((&back, serde_json::to_string(&back).unwrap()), (&told, text));
    }

    #[test]
    fn an_event_is_flat_and_reads_back() {
        let posted = serde_json::json!({"type": "async_delegation", "delegation_id": "deleg_1", "api_calls": 3});
        let bodies = [
            Body::WatchMatch(WatchMatch { suppressed: 4, ..WatchMatch::new("c", "p", "o") }),
            Body::WatchMatch(WatchMatch { name: Some("web".into()), ..WatchMatch::new("c", "p", "o") }),
            Body::WatchDisabled { name: Some("web".into()), command: "c".into(), message: "m".into(), suppressed: 1 },
            Body::WatchOverflowTripped { message: "m".into() },
            Body::Posted(posted.as_object().unwrap().clone()),
        ];
        for body in bodies {
            let told = notice(body);
            let json = serde_json::to_value(&told).unwrap();
            assert_eq!(json["type"], told.kind());
            assert_eq!((json["session_key"].as_str(), json["chat_id"].as_str()), (Some("s"), Some("42")));
            let back: Notice = serde_json::from_value(json.clone()).unwrap();
            assert_eq!(serde_json::to_value(&back).unwrap(), json);
            assert_eq!(back.kind(), told.kind());
        }
    }

    /// Notices as the index of an earlier release holds them, one of each kind with every field.
    const STORED: &str = include_str!("../../../fixtures/notices-1.jsonl");

    fn of_each_kind() -> Vec<Notice> {
        let at = Time::from_micros(1_700_000_000_000_001);
        let mut end = Completion::new("make \"all\"", Some(-9), Reason::Killed);
        end.name = Some("web".into());
        end.signal = Some("SIGKILL".into());
        end.oom = true;
        end.termination_source = "process.kill".into();
        end.output = "one\ntwo".into();
        end.output_cut = Some(3);
        end.output_missing = Some(4);
        (end.started_at, end.ended_at) = (Some(at), Some(at));
        end.handoff_note = Some("n".into());
        let (name, command, message) = (Some("web".to_owned()), "c".to_owned(), "m".to_owned());
        let posted = serde_json::json!({"type": "async_delegation", "delegation_id": "deleg_1", "nested": {"chat_id": 7}});
        let bodies = [
            Body::Completion(Box::new(Completion::new("true", None, Reason::Lost))),
            Body::Completion(Box::new(end)),
            Body::WatchMatch(WatchMatch { name: name.clone(), suppressed: 4, ..WatchMatch::new("c", "p", "o") }),
            Body::WatchDisabled { name, command, message: message.clone(), suppressed: 1 },
            Body::WatchOverflowTripped { message: message.clone() },
            Body::WatchOverflowReleased { message: message.clone(), suppressed: 2 },
            Body::Until { barrier: "bar_1".into(), why: "exited".into(), message },
            Body::Posted(posted.as_object().unwrap().clone()),
        ];
        let part = |text: &str| Some(text.to_owned());
        let owner = Owner { session: part("s"), task: part("t"), generation: part("g") };
        let route = Route {
            platform: part("p"),
            chat_id: part("c"),
            user_id: part("i"),
            user_name: part("u"),
            thread_id: part("t"),
            message_id: part("m"),
        };
        let process = Some(ProcessId::from_bytes([1; 6]));
        let mut all: Vec<Notice> =
            bodies.map(|body| Notice::new("evt_1".into(), at, process, &owner, route.clone(), body)).into_iter().collect();
        all[1].repeat = true;
        all.push(Notice::new("evt_2".into(), at, None, &Owner::default(), Route::default(), all[4].body.clone()));
        all
    }

    #[test]
    fn a_notice_is_stored_the_same_way_in_every_release() {
        let written: String = of_each_kind().iter().map(|n| serde_json::to_string(n).unwrap() + "\n").collect();
        assert_eq!(written, STORED);
        let read: Vec<Notice> = STORED.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(read, of_each_kind());
    }
}
