//! Decides which session a request is made for, and which of the conversations that share the session makes it.
//!
//! Decision 344: docs/decisions/tools-mcp.md.

use outlast_core::{Instance, InstanceKind, Owner};
use rmcp::model::ProtocolVersion;
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::sync::Arc;

/// The argument with which a caller names its conversation, if several share one server.
pub(crate) const HANDLE: &str = "conversation";
/// The longest name that a caller may choose.
const MAX_NAME_BYTES: usize = 200;

/// A connection of a client, or a session over HTTP.
#[derive(Debug, Clone, Default)]
pub(crate) struct Connection {
    /// The conversation of the server, if it serves one client.
    of: Option<Instance>,
    number: u64,
    /// When it began, in microseconds since the machine was started.
    begun: i64,
}

impl Connection {
    /// The connection with this number, which begins now.
    pub(crate) fn new(of: Option<Instance>, number: u64) -> Self {
        let up = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Self { of, number, begun: up.tv_sec * 1_000_000 + up.tv_nsec / 1_000 }
    }

    /// The conversation that makes a request. Over HTTP a session is one; without sessions all conversations look the same.
    fn instance(&self, context: &RequestContext<RoleServer>) -> Option<Instance> {
        let of = self.of.clone()?;
        Some(match of.kind {
            InstanceKind::Unknown if http_session(context).is_some() => Instance::of_session(of.client, self.number, self.begun),
            _ => of,
        })
    }
}

/// The session over HTTP in which a request is made. Revisions from 2026-07-28 on have no sessions, so there the header, which a client or a
/// proxy may send all the same, means nothing.
pub(crate) fn http_session(context: &RequestContext<RoleServer>) -> Option<&str> {
    let request = context.extensions.get::<http::request::Parts>()?;
    let has_sessions = context.protocol_version().is_none_or(|version| version.as_str() < ProtocolVersion::V_2026_07_28.as_str());
    request.headers.get("mcp-session-id").filter(|_| has_sessions)?.to_str().ok()
}

/// The owner that a request is made for, and how it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asker {
    pub(crate) owner: Owner,
    /// Which conversation of the session it is, if the session does not say that.
    pub(crate) instance: Option<Instance>,
    from: Source,
    /// Which of the conversations with the same owner it is.
    pub(crate) conversation: Conversation,
}

/// Which conversation makes a request, as far as the server itself can tell: what it remembers of answers is by conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Conversation {
    pub(crate) key: Arc<str>,
    /// Whether it may be several, as over HTTP without sessions.
    pub(crate) may_be_several: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// The client named its thread.
    Thread,
    /// The call named its conversation.
    Handle,
    /// The program that started the server set it.
    Environment,
    /// None of these: the client's name and the directory are used.
    Client,
}

impl Asker {
    /// If the server was started for one generation of a session, it serves that session only: a gateway started it, and gets the notices.
    ///
    /// Otherwise the first of these counts: the thread that the client names with each request, the conversation that the call names, the
    /// session that the server was started for, and the pair of client and directory. A conversation that a call names is always below the pair
    /// of its own client, never another's.
    pub(crate) fn of(
        context: &RequestContext<RoleServer>,
        arguments: Option<&Map<String, Value>>,
        started_for: &Owner,
        dir: &Path,
        connection: &Connection,
    ) -> Result<Self, String> {
        let client = context.client_info().map(|info| info.name).unwrap_or_default();
        let thread = context.meta.0.0.get("threadId").and_then(Value::as_str).filter(|id| !id.is_empty());
        let handle = arguments.and_then(|all| all.get(HANDLE)).filter(|v| !v.is_null());
        let (owner, from) = Self::known(&client, thread, handle, started_for, dir)?;
        let instance = connection.instance(context).filter(|_| from == Source::Client);
        // Over HTTP, sessions of one client in one directory have the same owner.
        let key = json!([owner, http_session(context).unwrap_or_default()]).to_string().into();
        let may_be_several = instance.as_ref().is_some_and(|instance| instance.kind == InstanceKind::Unknown);
        Ok(Self { owner, instance, from, conversation: Conversation { key, may_be_several } })
    }

    fn known(
        client: &str,
        thread: Option<&str>,
        handle: Option<&Value>,
        started_for: &Owner,
        dir: &Path,
    ) -> Result<(Owner, Source), String> {
        if started_for.session.is_some() && started_for.generation.is_some() {
            return Ok((started_for.clone(), Source::Environment));
        }
        let rest = |session: String| Owner { session: Some(session), ..started_for.clone() };
        if let Some(thread) = thread {
            let session = format!("{}:{}", agent(client), plain(thread, "threadId")?);
            return Ok((rest(session), Source::Thread));
        }
        let pair = Owner::of_agent(named(client), dir).session.unwrap_or_default();
        if let Some(handle) = handle {
            let given = handle.as_str().ok_or_else(|| format!("{HANDLE} must be a text"))?;
            let session = format!("{pair}#{}", plain(given, HANDLE)?);
            return Ok((rest(session), Source::Handle));
        }
        if started_for.session.is_some() {
            return Ok((started_for.clone(), Source::Environment));
        }
        Ok((rest(pair), Source::Client))
    }

    /// Whether requests without arguments, as for a task, are made for the same session.
    pub(crate) fn comes_back(&self) -> bool {
        self.from != Source::Handle
    }

    /// The owner, as the client sees it.
    pub(crate) fn to_json(&self) -> Value {
        let from = match self.from {
            Source::Thread => "threadId",
            Source::Handle => HANDLE,
            Source::Environment => "OUTLAST_SESSION",
            Source::Client => "client and directory",
        };
        json!({"session": self.owner.session, "from": from})
    }
}

/// A client's name in the key of a session: `codex-mcp-client` becomes `codex`.
fn agent(client: &str) -> String {
    let name = Owner::of_agent(named(client), Path::new("")).session.unwrap_or_default();
    let name = name.trim_start_matches("mcp:").trim_end_matches(':');
    name.trim_end_matches("-client").trim_end_matches("-mcp").to_owned()
}

fn named(client: &str) -> &str {
    if client.trim().is_empty() { "unknown" } else { client }
}

/// Checks that a name is short and has only visible characters.
fn plain<'a>(name: &'a str, what: &str) -> Result<&'a str, String> {
    match name.len() {
        1..=MAX_NAME_BYTES if name.chars().all(|c| c.is_ascii_graphic() && c != '#') => Ok(name),
        _ => Err(format!("{what} must be 1 to {MAX_NAME_BYTES} visible ASCII characters without `#`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(client: &str, thread: Option<&str>, handle: Option<Value>, started_for: Option<&str>) -> Result<(String, Source), String> {
        let started_for = Owner { session: started_for.map(str::to_owned), task: Some("t".into()), ..Owner::default() };
        let (owner, from) = Asker::known(client, thread, handle.as_ref(), &started_for, Path::new("/work"))?;
        assert_eq!(owner.task.as_deref(), Some("t"));
        Ok((owner.session.unwrap(), from))
    }

    #[test]
    fn the_surest_word_counts() {
        let all = |thread, handle: Option<&str>, session| known("codex-mcp-client", thread, handle.map(Value::from), session).unwrap();
        assert_eq!(all(Some("0199-a"), Some("h"), Some("s")), ("codex:0199-a".into(), Source::Thread));
        assert_eq!(all(None, Some("h"), Some("s")), ("mcp:codex-mcp-client:/work#h".into(), Source::Handle));
        assert_eq!(all(None, None, Some("s")), ("s".into(), Source::Environment));
        assert_eq!(all(None, None, None), ("mcp:codex-mcp-client:/work".into(), Source::Client));
    }

    #[test]
    fn a_server_for_one_generation_speaks_for_no_thread_of_its_client() {
        let started_for = Owner { session: Some("agent:main:local:dm:x".into()), generation: Some("1-2".into()), ..Owner::default() };
        let known = Asker::known("codex-mcp-client", Some("0199-a"), Some(&json!("h")), &started_for, Path::new("/work"));
        assert_eq!(known.unwrap(), (started_for, Source::Environment));
    }

    #[test]
    fn no_handle_reaches_another_conversation() {
        // A name must not contain the separator, nor look like another client's.
        for bad in [json!("a#b"), json!(""), json!("a b"), json!("ä"), json!("x".repeat(201)), json!(7)] {
            assert!(known("c", None, Some(bad.clone()), None).is_err(), "{bad}");
        }
        assert_eq!(known("c", None, Some(json!("codex:1")), None).unwrap().0, "mcp:c:/work#codex:1");
        assert!(known("c", Some("a b"), None, None).is_err());
    }

    #[test]
    fn agents_have_short_names() {
        for (client, want) in
            [("codex-mcp-client", "codex"), ("Claude Code", "claude-code"), ("opencode", "opencode"), ("", "unknown"), ("x-mcp", "x")]
        {
            assert_eq!(agent(client), want);
        }
    }
}
