//! For whom a process runs, and who may touch it.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// The conversation, task and generation a request speaks for. All empty: a person at a shell.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Owner {
    /// The conversation's key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The task inside or across conversations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Which life of the conversation: opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<String>,
}

impl Owner {
    /// A conversation.
    pub fn session(key: impl Into<String>) -> Self {
        Self { session: Some(key.into()), ..Self::default() }
    }

    /// The conversation of an agent that names none: the stable pair of its program's name and the directory it works in. Whoever sees
    /// both, its tools or its hooks, comes to the same key.
    pub fn of_agent(client: &str, dir: &Path) -> Self {
        let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c.to_ascii_lowercase() } else { '-' };
        Self::session(format!("mcp:{}:{}", client.chars().map(plain).collect::<String>(), dir.display()))
    }

    /// Whether a request by this owner may touch a process of `other`. Without a session it is a person of the same user, who may touch everything.
    pub fn may_touch(&self, other: &Self) -> bool {
        self.session.is_none() || self.session == other.session
    }
}

/// Where in a chat an owner is: what a channel needs to answer there. Opaque to us.
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
    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Which processes a list or a stop of many is about. A process belongs if its task *or* its session is the one named.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Scope {
    /// Those of this task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Those of this session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

impl Scope {
    /// The processes of a conversation.
    pub fn session(key: impl Into<String>) -> Self {
        Self { session: Some(key.into()), ..Self::default() }
    }

    /// The processes of a task.
    pub fn task(task: impl Into<String>) -> Self {
        Self { task: Some(task.into()), ..Self::default() }
    }

    /// Whether a process of `owner` belongs. An empty scope is everything.
    pub fn takes(&self, owner: &Owner) -> bool {
        match (&self.task, &self.session) {
            (None, None) => true,
            (task, session) => (task.is_some() && *task == owner.task) || (session.is_some() && *session == owner.session),
        }
    }

    /// Whether it belongs by its session alone, though a task was named too.
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
