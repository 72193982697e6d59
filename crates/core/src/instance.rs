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
    /// The instance, with the process that began to serve it last.
    pub about: Instance,
    /// Other processes that serve it and are alive: a conversation was resumed while it was still open.
    pub others: Vec<Instance>,
    /// When it was last known to be alive. For a session over HTTP, when it was used last.
    pub seen: Uptime,
    /// How many of its requests are under way. Counted for sessions over HTTP only.
    pub under_way: u32,
    /// When its server ended.
    pub server_gone: Option<Uptime>,
    /// When its client ended.
    pub client_gone: Option<Uptime>,
    /// Whether its processes are in another PID namespace than the engine, so that it is not known whether they are alive.
    pub is_foreign: bool,
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
    /// To an instance of another PID namespace, of which it is not known whether it is alive.
    Foreign,
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

    /// The processes on which it depends.
    pub fn lives(&self) -> Vec<Incarnation> {
        match self.kind {
            InstanceKind::Server { server } if server != self.client => vec![server, self.client],
            InstanceKind::Server { .. } | InstanceKind::Client | InstanceKind::Session { .. } | InstanceKind::Unknown => vec![self.client],
        }
    }

    /// Whether both name the same processes. A server whose client has ended stands for the client.
    fn is_same_process(&self, sent: &Self) -> bool {
        let stands_for_client = matches!(sent.kind, InstanceKind::Server { server } if server == self.client);
        self.kind == sent.kind && (self.client == sent.client || stands_for_client)
    }

    /// When it began. `by_server`: the client may be older than the conversation, so its server counts.
    fn began(&self, by_server: bool) -> Option<Uptime> {
        match self.kind {
            InstanceKind::Session { begun } => Some(begun),
            InstanceKind::Server { server } if by_server => Some(server.began()),
            InstanceKind::Server { .. } | InstanceKind::Client => Some(self.client.began()),
            InstanceKind::Unknown => None,
        }
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
    /// The most other processes that are remembered.
    const MAX_OTHERS: usize = 8;

    /// An instance that makes its first request.
    pub fn new(about: Instance, now: Uptime) -> Self {
        Self { about, others: Vec::new(), seen: now, under_way: 0, server_gone: None, client_gone: None, is_foreign: false }
    }

    /// The same instance once another process serves it. Those that served it before and are alive still do.
    pub fn resumed(&self, about: Instance, now: Uptime) -> Self {
        let is_served = |one: &&Instance| matches!(one.kind, InstanceKind::Server { .. }) && !one.is_same_process(&about);
        let is_about_alive = self.server_gone.is_none() && self.client_gone.is_none();
        let before = Some(&self.about).filter(|_| is_about_alive).into_iter().chain(&self.others).filter(is_served);
        let others = before.filter(|_| !self.is_foreign).take(Self::MAX_OTHERS).cloned().collect();
        Self { others, under_way: self.under_way, ..Self::new(about, now) }
    }

    /// The processes that serve it, the last one first.
    pub fn serving(&self) -> impl Iterator<Item = &Instance> {
        std::iter::once(&self.about).chain(&self.others)
    }

    /// Whether a request of this instance comes from a process that is known to serve it.
    pub fn is_served_by(&self, sent: &Instance) -> bool {
        self.serving().any(|one| one.is_same_process(sent))
    }

    /// Whether this process is a client of the instance.
    pub fn has_client(&self, client: &Incarnation) -> bool {
        self.serving().any(|one| one.client == *client)
    }

    /// Whether it is a session over HTTP.
    pub fn is_session(&self) -> bool {
        matches!(self.about.kind, InstanceKind::Session { .. })
    }

    /// A process has ended at this time. Returns whether that changes anything.
    pub fn process_ended(&mut self, life: Incarnation, at: Uptime) -> bool {
        let before = (self.others.len(), self.server_gone, self.client_gone);
        self.others.retain(|one| !one.lives().contains(&life));
        if matches!(self.about.kind, InstanceKind::Server { server } if server == life) {
            self.server_gone.get_or_insert(at);
        }
        if self.about.client == life {
            self.client_gone.get_or_insert(at);
        }
        let is_changed = before != (self.others.len(), self.server_gone, self.client_gone);
        if (self.server_gone.is_some() || self.client_gone.is_some()) && !self.others.is_empty() {
            self.about = self.others.remove(0);
            (self.server_gone, self.client_gone) = (None, None);
        }
        is_changed
    }

    /// Whether both are of one process of a client, so that the servers tell them apart.
    fn shares_client(&self, with: &Instance) -> bool {
        matches!((self.about.kind, with.kind), (InstanceKind::Server { .. }, InstanceKind::Server { .. })) && self.has_client(&with.client)
    }

    /// When the instance ended, as all but other servers of its client see it. A session over HTTP has ended with its last use: its client
    /// may have left right afterwards, and begun another one.
    fn over(&self, now: Uptime) -> Option<Uptime> {
        if !self.is_session() {
            return self.client_gone.filter(|_| !self.is_foreign);
        }
        let is_idle = self.under_way == 0 && self.seen.saturating_add(HTTP_SESSION_IDLE) < now;
        let is_over = !self.is_foreign && (is_idle || self.client_gone.is_some());
        // A request may still be under way when its client has left.
        is_over.then(|| self.client_gone.map_or(self.seen, |gone| gone.min(self.seen)))
    }

    /// Whether it has ended, also as other clients see it.
    pub fn is_over(&self, now: Uptime) -> bool {
        self.over(now).is_some()
    }

    /// When the instance ended, if it has. A client that lives may start another server for the same conversation, so the end of a server
    /// counts only for other servers of the same process.
    pub fn ended(&self, asker: &Instance, now: Uptime) -> Option<Uptime> {
        let server_gone = self.server_gone.filter(|_| self.shares_client(asker) && !self.is_foreign);
        server_gone.or_else(|| self.over(now))
    }

    /// To whom something of this instance belongs, as the asker sees it.
    pub fn belonging(&self, asker: &Instance, now: Uptime) -> Belonging {
        let is_client = |of: &Instance| of.kind == InstanceKind::Client;
        let of_one_client = self.has_client(&asker.client) && (is_client(&self.about) || is_client(asker));
        if self.about.key == asker.key {
            Belonging::Own
        } else if self.is_foreign {
            Belonging::Foreign
        } else if of_one_client {
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
        self.passes(new, is_client_new, now, SUCCESSOR_OVERLAP)
    }

    /// The same for an instance that has made requests before. Only a session over HTTP is found ended later than its successor begins, since
    /// it is open for a while after its last use. One that began just before that use lived beside it.
    pub fn passes_later_to(&self, living: &Instance, is_client_new: bool, now: Uptime) -> Option<bool> {
        if self.is_session() { self.passes(living, is_client_new, now, 0) } else { None }
    }

    fn passes(&self, to: &Instance, is_client_new: bool, now: Uptime, overlap: Uptime) -> Option<bool> {
        let shares_client = self.shares_client(to);
        let began = to.began(shares_client || is_client_new)?;
        let ended = self.ended(to, now).filter(|ended| self.about.key != to.key && *ended <= began.saturating_add(overlap));
        ended.map(|_| !shares_client)
    }
}

#[cfg(test)]
mod tests;
