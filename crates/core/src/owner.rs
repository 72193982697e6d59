//! Who owns a process, and who may act on it.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// The session, task and generation for which a request is made. All empty: a person at a shell.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Owner {
    /// The key of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The task, which may be part of a session or span several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The generation of the session: opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<String>,
}

impl Owner {
    /// The owner that is a session.
    pub fn session(key: impl Into<String>) -> Self {
        Self { session: Some(key.into()), ..Self::default() }
    }

    /// The session of an agent that names none: its program's name and its working directory. The agent's tools and hooks know
    /// both, so they derive the same key.
    pub fn of_agent(client: &str, dir: &Path) -> Self {
        let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c.to_ascii_lowercase() } else { '-' };
        Self::session(format!("mcp:{}:{}", client.chars().map(plain).collect::<String>(), dir.display()))
    }

    /// Whether a request of this owner may act on a process of `other`. A request without a session is a person's, who may act on
    /// every process of the user.
    pub fn may_touch(&self, other: &Self) -> bool {
        self.session.is_none() || self.session == other.session
    }
}

/// Where in a chat an owner is: what a channel needs to answer there. Opaque to Outlast.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Route {
    /// The chat platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
    /// The chat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chat_id: Option<String>,
    /// The person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// The person's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_name: Option<String>,
    /// The thread or topic in the chat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
    /// The message to answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
}

impl Route {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Which processes a list or a stop is about. A process belongs to the scope if its task *or* its session is the named one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Scope {
    /// Processes of this task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Processes of this session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

impl Scope {
    /// The processes of a session.
    pub fn session(key: impl Into<String>) -> Self {
        Self { session: Some(key.into()), ..Self::default() }
    }

    /// The processes of a task.
    pub fn task(task: impl Into<String>) -> Self {
        Self { task: Some(task.into()), ..Self::default() }
    }

    /// Whether a process of `owner` belongs to the scope. Every process belongs to an empty scope.
    pub fn takes(&self, owner: &Owner) -> bool {
        match (&self.task, &self.session) {
            (None, None) => true,
            (task, session) => (task.is_some() && *task == owner.task) || (session.is_some() && *session == owner.session),
        }
    }

    /// Whether the process belongs by its session only, although the scope names a task too.
    pub fn by_session_only(&self, owner: &Owner) -> bool {
        self.task.is_some() && self.session.is_some() && self.task != owner.task && self.session == owner.session
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(task: &str, session: &str) -> Owner {
        Owner { task: Some(task.into()), session: Some(session.into()), generation: None }
    }

    #[test]
    fn case_177_another_task_of_the_same_conversation_is_flagged() {
        let scope = Scope { task: Some("t1".into()), session: Some("s1".into()) };
        assert!(scope.takes(&owner("t1", "s1")) && !scope.by_session_only(&owner("t1", "s1")));
        assert!(scope.takes(&owner("t2", "s1")) && scope.by_session_only(&owner("t2", "s1")));
        assert!(!scope.takes(&owner("t2", "s2")));
        assert!(Scope::default().takes(&Owner::default()));
    }

    #[test]
    fn an_agent_that_names_no_conversation_is_known_by_program_and_directory() {
        assert_eq!(Owner::of_agent("Claude Code", Path::new("/home/me/My Work")), Owner::session("mcp:claude-code:/home/me/My Work"));
        assert_eq!(Owner::of_agent("a:b/c_1.0", Path::new("/x")), Owner::session("mcp:a-b-c_1.0:/x"));
    }

    #[test]
    fn an_agent_touches_its_own_conversation_only() {
        assert!(Owner::default().may_touch(&owner("t", "a")));
        assert!(owner("t", "a").may_touch(&owner("u", "a")));
        assert!(!owner("t", "a").may_touch(&owner("t", "b")));
        assert!(!owner("t", "a").may_touch(&Owner::default()));
    }
}
