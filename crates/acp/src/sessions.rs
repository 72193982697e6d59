//! The working directory of each session, for terminals that name none.

use crate::message::Message;
use serde::Deserialize;
use std::collections::{HashMap, VecDeque};

/// The most sessions that are remembered. The oldest is forgotten first; its terminals then start in the proxy's directory.
const MAX_SESSIONS: usize = 4_096;
/// The most unanswered requests for a new session.
const MAX_OPENING: usize = 256;

/// The directories of sessions, as client and agent agreed on them.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    dirs: HashMap<String, String>,
    order: VecDeque<String>,
    /// The directories of unanswered requests, by the id of the request.
    asked: HashMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Opens {
    cwd: String,
    #[serde(default)]
    session_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Opened {
    session_id: String,
}

impl Sessions {
    /// Reads a request of the client.
    pub(crate) fn asked(&mut self, message: &Message<'_>) {
        let Some((method, id)) = message.asks() else { return };
        match method {
            "session/new" | "session/fork" => {
                if let Some(Opens { cwd, .. }) = message.params()
                    && self.asked.len() < MAX_OPENING
                {
                    self.asked.insert(id.get().to_owned(), cwd);
                }
            }
            "session/load" | "session/resume" => {
                if let Some(Opens { cwd, session_id: Some(session) }) = message.params() {
                    self.is_in(session, cwd);
                }
            }
            _ => {}
        }
    }

    /// Reads an answer of the agent.
    pub(crate) fn answered(&mut self, message: &Message<'_>) {
        if message.method.is_some() || self.asked.is_empty() {
            return;
        }
        let Some(cwd) = message.id.and_then(|id| self.asked.remove(id.get())) else { return };
        // A refusal opens no session.
        if let Some(Ok(Opened { session_id })) = message.result.map(|result| serde_json::from_str(result.get())) {
            self.is_in(session_id, cwd);
        }
    }

    /// The directory of a session, if it is known.
    pub(crate) fn dir(&self, session: &str) -> Option<&str> {
        self.dirs.get(session).map(String::as_str)
    }

    fn is_in(&mut self, session: String, cwd: String) {
        if self.dirs.insert(session.clone(), cwd).is_none() {
            self.order.push_back(session);
        }
        if self.order.len() > MAX_SESSIONS
            && let Some(oldest) = self.order.pop_front()
        {
            self.dirs.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Message<'_> {
        Message::read(line.as_bytes()).unwrap()
    }

    #[test]
    fn a_conversation_works_where_it_was_opened_or_loaded_last() {
        let mut sessions = Sessions::default();
        sessions.asked(&read(r#"{"id":3,"method":"session/new","params":{"cwd":"/a","mcpServers":[]}}"#));
        sessions.asked(&read(r#"{"id":"3","method":"session/new","params":{"cwd":"/b"}}"#));
        assert_eq!(sessions.dir("s1"), None);
        sessions.answered(&read(r#"{"id":"3","result":{"sessionId":"s2"}}"#));
        sessions.answered(&read(r#"{"id":3,"result":{"sessionId":"s1"}}"#));
        sessions.answered(&read(r#"{"id":3,"result":{"sessionId":"s3"}}"#));
        assert_eq!((sessions.dir("s1"), sessions.dir("s2"), sessions.dir("s3")), (Some("/a"), Some("/b"), None));
        sessions.asked(&read(r#"{"id":4,"method":"session/resume","params":{"cwd":"/c","sessionId":"s1"}}"#));
        assert_eq!(sessions.dir("s1"), Some("/c"));
    }

    #[test]
    fn what_was_refused_or_says_nothing_is_forgotten() {
        let mut sessions = Sessions::default();
        sessions.asked(&read(r#"{"id":1,"method":"session/new","params":{"cwd":"/a"}}"#));
        sessions.answered(&read(r#"{"id":1,"error":{"code":-32000,"message":"log in"}}"#));
        sessions.asked(&read(r#"{"id":2,"method":"session/new","params":{}}"#));
        assert!(sessions.asked.is_empty() && sessions.dirs.is_empty());
    }

    #[test]
    fn no_number_of_conversations_takes_all_memory() {
        let mut sessions = Sessions::default();
        for n in 0..=MAX_SESSIONS {
            sessions.is_in(n.to_string(), "/".into());
        }
        assert_eq!((sessions.dir("0"), sessions.dir("1"), sessions.dirs.len()), (None, Some("/"), MAX_SESSIONS));
    }
}
