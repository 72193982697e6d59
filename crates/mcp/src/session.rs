//! The sessions of HTTP clients of the old era.
//!
//! Sessions do not expire: an agent may think or sleep for days, and most clients do not begin a new session when theirs is gone. Their number
//! is limited instead, and the session that was unused for longest ends.

use http::{HeaderMap, Method, Request, Response};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{SessionId, SessionManager};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

/// The most sessions at once.
pub(crate) const MAX_SESSIONS: usize = 1_024;

/// The open sessions.
pub(crate) struct Sessions {
    manager: Arc<LocalSessionManager>,
    /// When each session was used last.
    used: Mutex<HashMap<SessionId, Instant>>,
    most: usize,
}

impl Default for Sessions {
    fn default() -> Self {
        Self::at_most(MAX_SESSIONS)
    }
}

impl Sessions {
    fn at_most(most: usize) -> Self {
        let mut manager = LocalSessionManager::default();
        manager.session_config.keep_alive = None;
        Self { manager: Arc::new(manager), used: Mutex::default(), most }
    }

    /// The library's table of sessions.
    pub(crate) fn manager(&self) -> Arc<LocalSessionManager> {
        self.manager.clone()
    }

    /// Notes the session of a request as used.
    pub(crate) fn used_by<B>(&self, request: &Request<B>) {
        let Some(id) = named(request.headers()) else { return };
        let mut used = self.lock();
        if request.method() == Method::DELETE {
            used.remove(&id);
        } else if let Some(last) = used.get_mut(&id) {
            *last = Instant::now();
        }
    }

    /// Adds the session that an answer has begun, if it has. Ends the oldest session if there are too many, and returns it.
    pub(crate) async fn begun_by<B>(&self, answer: &Response<B>) -> Option<SessionId> {
        let ended = self.add(named(answer.headers())?)?;
        if let Err(error) = self.manager.close_session(&ended).await {
            tracing::warn!(%error, "a session could not be ended");
        }
        Some(ended)
    }

    /// Adds a session, and returns the one that has to end if there are too many.
    fn add(&self, id: SessionId) -> Option<SessionId> {
        let mut used = self.lock();
        used.insert(id, Instant::now());
        if used.len() <= self.most {
            return None;
        }
        let oldest = used.iter().min_by_key(|(_, last)| **last).map(|(id, _)| id.clone())?;
        used.remove(&oldest);
        Some(oldest)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Instant>> {
        self.used.lock().expect("nothing panics while it is held")
    }
}

/// The session that a request or an answer names.
pub(crate) fn named(headers: &HeaderMap) -> Option<SessionId> {
    headers.get("mcp-session-id")?.to_str().ok().map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn begin(sessions: &Sessions) -> SessionId {
        let (id, _transport) = sessions.manager.create_session().await.unwrap();
        sessions.begun_by(&Response::builder().header("Mcp-Session-Id", &*id).body(()).unwrap()).await;
        id
    }

    fn use_again(sessions: &Sessions, id: &SessionId, method: Method) {
        sessions.used_by(&Request::builder().method(method).header("Mcp-Session-Id", &**id).body(()).unwrap());
    }

    #[tokio::test]
    async fn the_one_that_nobody_used_for_longest_makes_room() {
        let sessions = Sessions::at_most(2);
        assert!(sessions.manager.session_config.keep_alive.is_none(), "none ends because its agent sleeps");
        let (one, two) = (begin(&sessions).await, begin(&sessions).await);
        use_again(&sessions, &one, Method::POST);
        let three = begin(&sessions).await;
        for (id, want) in [(&one, true), (&two, false), (&three, true)] {
            assert_eq!(sessions.manager.has_session(id).await.unwrap(), want);
        }
        // A session that ended by itself no longer counts, and an invented id never did.
        use_again(&sessions, &one, Method::DELETE);
        use_again(&sessions, &"made-up".into(), Method::POST);
        let four = begin(&sessions).await;
        assert!(sessions.manager.has_session(&three).await.unwrap() && sessions.manager.has_session(&four).await.unwrap());
    }
}
