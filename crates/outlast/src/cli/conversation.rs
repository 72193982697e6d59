//! Which conversation a process belongs to, read from the session that owns it.

use outlast_client::{ProcessInfo, Status};

/// The beginning of every key of a conversation in a terminal.
pub(super) const LOCAL_KEY_PREFIX: &str = "agent:main:local:dm:";
/// The beginning of the session in which the gateway runs the agent of a conversation; the conversation's key follows.
const AGENT_SESSION_PREFIX: &str = "outlast:agent:";

/// A conversation, and what a process is to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Conversation<'a> {
    /// Its key.
    pub(super) key: &'a str,
    /// The process is the agent itself, and not something that the agent started.
    pub(super) is_agent: bool,
}

impl<'a> Conversation<'a> {
    /// The conversation of a process. None if its session is not one: other programs have sessions, too.
    pub(super) fn of(process: &'a ProcessInfo) -> Option<Self> {
        let session = process.session_key.as_deref()?;
        if let Some(key) = session.strip_prefix(AGENT_SESSION_PREFIX) {
            return Some(Self { key, is_agent: true });
        }
        session.starts_with(LOCAL_KEY_PREFIX).then_some(Self { key: session, is_agent: false })
    }

    /// The name by which a user calls it.
    pub(super) fn name(self) -> &'a str {
        name_of(self.key)
    }
}

/// The name by which a user calls the conversation with this key.
pub(super) fn name_of(key: &str) -> &str {
    key.strip_prefix(LOCAL_KEY_PREFIX).unwrap_or(key)
}

/// Whether a process is the agent of a conversation.
pub(super) fn is_agent(process: &ProcessInfo) -> bool {
    Conversation::of(process).is_some_and(|conversation| conversation.is_agent)
}

/// Whether a process is an agent that has exited. Its output is in its conversation.
pub(super) fn is_finished_agent(process: &ProcessInfo) -> bool {
    is_agent(process) && process.status == Status::Exited
}

/// The command of a process as its user gave it: without the shell that the gateway puts around an agent.
pub(super) fn command(process: &ProcessInfo) -> &str {
    let own = is_agent(process).then(|| process.command.split_once(" outlast-agent ")).flatten();
    own.map_or(&process.command, |(_, own)| own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(session: &str, command: &str) -> ProcessInfo {
        serde_json::from_value(serde_json::json!({
            "session_id": "proc_0123456789ab", "command": command, "status": "running", "phase": "running", "cwd": "/",
            "started_at": "2023-11-14T22:13:20.000000Z", "uptime_seconds": 1, "output_bytes": 0, "session_key": session,
        }))
        .unwrap()
    }

    fn found(session: &str) -> Option<(String, bool)> {
        Conversation::of(&process(session, "true")).map(|found| (found.name().to_owned(), found.is_agent))
    }

    #[test]
    fn a_session_names_a_conversation_its_agent_or_neither() {
        assert_eq!(found("agent:main:local:dm:main"), Some(("main".into(), false)));
        assert_eq!(found("outlast:agent:agent:main:local:dm:main"), Some(("main".into(), true)));
        assert_eq!(found("outlast:agent:agent:main:telegram:dm:7"), Some(("agent:main:telegram:dm:7".into(), true)));
        assert_eq!((found("agent:main:telegram:dm:7"), found("chat:42"), found("outlast:gateway")), (None, None, None));
    }

    #[test]
    fn the_command_of_an_agent_is_shown_as_it_was_given() {
        let around = r#"/bin/sh -c 'eval "$OUTLAST_START"' outlast-agent"#;
        let whole = format!("{around} opencode acp");
        assert_eq!(command(&process("outlast:agent:k", &whole)), "opencode acp");
        assert_eq!(command(&process("chat:42", &whole)), whole, "it is the user's own");
    }
}
