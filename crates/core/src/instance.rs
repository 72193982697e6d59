//! Instances: the conversations that share a session. Two conversations of one client in one directory have the same session; an instance
//! says which of them makes a request.
//!
//! Times are microseconds since the machine was started.

use crate::Incarnation;
use crate::notice_state::Uptime;
use serde::{Deserialize, Serialize};

/// How long a session over HTTP counts as open after it was used last.
pub const HTTP_SESSION_IDLE: Uptime = 600_000_000;
/// An instance that began at most this long before another ended counts as its successor. A client that is started again may begin before the
/// old one has exited.
pub const SUCCESSOR_OVERLAP: Uptime = 1_000_000;
/// The kernel counts the start of a process in ticks of this length.
const TICK: Uptime = 10_000;

/// One of the conversations that share a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    /// Its name, unique among the instances of the session. Empty if the conversation is not known.
    pub key: String,
    /// What it is known by.
    pub kind: InstanceKind,
    /// The process whose end ends it: the client, or the server of clients that connect over HTTP.
    pub client: Incarnation,
}

/// What an instance is known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InstanceKind {
    /// A server that the client started.
    Server {
        /// The process of the server.
        server: Incarnation,
    },
    /// The client's process itself, which calls hooks. It stands for all conversations of the process.
    Client,
    /// A session over HTTP.
    Session {
        /// When it began.
        begun: Uptime,
    },
    /// Any of several conversations that share a server and cannot be told apart. Nothing belongs to it.
    Unknown,
}

/// An instance that has made a request, and what is known of its life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownInstance {
    /// The instance.
    pub about: Instance,
    /// When it was last known to be alive. For a session over HTTP, when it was used last.
    pub seen: Uptime,
    /// When its server ended.
    pub server_gone: Option<Uptime>,
    /// When its client ended.
    pub client_gone: Option<Uptime>,
}

/// To whom something belongs, as one instance sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Belonging {
    /// To the instance itself, or to no instance.
    Own,
    /// To an instance that has ended.
    Ended,
    /// To another instance that is alive.
    Other,
}

impl Instance {
    /// The longest key, in bytes.
    const MAX_KEY_BYTES: usize = 256;

    /// A server that a client started. `named`: the conversation's own name, if the client gives it one. It stays when the conversation is
    /// resumed by another process.
    pub fn of_server(server: Incarnation, client: Incarnation, named: Option<&str>) -> Self {
        let key = named.map_or_else(|| format!("server:{}", server.text()), |name| format!("named:{name}"));
        Self { key, kind: InstanceKind::Server { server }, client }
    }

    /// A client, as its hooks see it.
    pub fn of_client(client: Incarnation) -> Self {
        Self { key: format!("client:{}", client.text()), kind: InstanceKind::Client, client }
    }

    /// The session with this number over HTTP.
    pub fn of_session(server: Incarnation, number: u64, begun: Uptime) -> Self {
        Self { key: format!("session:{}:{number}", server.text()), kind: InstanceKind::Session { begun }, client: server }
    }

    /// Any conversation over HTTP without sessions.
    pub fn unknown(server: Incarnation) -> Self {
        Self { key: String::new(), kind: InstanceKind::Unknown, client: server }
    }

    /// Whether it has a short key exactly if the conversation is known.
    pub fn is_valid(&self) -> bool {
        self.key.is_empty() == (self.kind == InstanceKind::Unknown) && self.key.len() <= Self::MAX_KEY_BYTES
    }
}

impl Incarnation {
    /// A short text that no other process has.
    fn text(&self) -> String {
        format!("{}.{}.{:x}", self.pid, self.start_ticks, self.boot)
    }

    /// When the process began.
    fn began(&self) -> Uptime {
        Uptime::try_from(self.start_ticks).unwrap_or(Uptime::MAX).saturating_mul(TICK)
    }
}

impl KnownInstance {
    /// An instance that makes its first request.
    pub fn new(about: Instance, now: Uptime) -> Self {
        Self { about, seen: now, server_gone: None, client_gone: None }
    }

    /// Whether both are of one process of a client, so that the servers tell them apart.
    fn shares_client(&self, with: &Instance) -> bool {
        matches!((self.about.kind, with.kind), (InstanceKind::Server { .. }, InstanceKind::Server { .. }))
            && self.about.client == with.client
    }

    /// When the instance ended, as all but other servers of its client see it.
    fn over(&self, now: Uptime) -> Option<Uptime> {
        let idle = self.seen.saturating_add(HTTP_SESSION_IDLE);
        let is_session = matches!(self.about.kind, InstanceKind::Session { .. });
        self.client_gone.or((is_session && idle < now).then_some(idle))
    }

    /// Whether it has ended, also as other clients see it.
    pub fn is_over(&self, now: Uptime) -> bool {
        self.over(now).is_some()
    }

    /// When the instance ended, if it has. A client that lives may start another server for the same conversation, so the end of a server
    /// counts only for other servers of the same process.
    pub fn ended(&self, asker: &Instance, now: Uptime) -> Option<Uptime> {
        let server_gone = self.server_gone.filter(|_| self.shares_client(asker));
        server_gone.or_else(|| self.over(now))
    }

    /// To whom something of this instance belongs, as the asker sees it.
    pub fn belonging(&self, asker: &Instance, now: Uptime) -> Belonging {
        let is_client = |of: &Instance| of.kind == InstanceKind::Client;
        let of_one_client = self.about.client == asker.client && (is_client(&self.about) || is_client(asker));
        if self.about.key == asker.key || of_one_client {
            Belonging::Own
        } else if self.ended(asker, now).is_some() {
            Belonging::Ended
        } else {
            Belonging::Other
        }
    }

    /// Whether everything of this instance passes to a new one, because that began after this one ended. Then also whether it is marked as of
    /// an earlier conversation: another server of the same process may continue the same one. `is_client_new`: the client has had no other
    /// instance in the session. Then the client may be a background process that an earlier conversation started, so its server counts.
    pub fn passes_to(&self, new: &Instance, is_client_new: bool, now: Uptime) -> Option<bool> {
        if self.about.key == new.key {
            return None;
        }
        let shares_client = self.shares_client(new);
        let began = match new.kind {
            InstanceKind::Session { begun } => begun,
            InstanceKind::Server { server } if shares_client || is_client_new => server.began(),
            InstanceKind::Server { .. } | InstanceKind::Client => new.client.began(),
            InstanceKind::Unknown => return None,
        };
        let ended = self.ended(new, now).filter(|ended| *ended <= began.saturating_add(SUCCESSOR_OVERLAP));
        ended.map(|_| !shares_client)
    }
}

#[cfg(test)]
mod tests;
