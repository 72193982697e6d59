//! `outlast hook hermes`

use super::super::{Context, Failure, some_seconds};
use super::{SessionLock, own, secret, to_tell};
use clap::Args;
use outlast_sinks::{Said, Server, Target};
use outlast_tools::ToTell;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The default address of the API server of a gateway.
const DEFAULT_URL: &str = "http://127.0.0.1:8642";

/// How long a request that starts no turn may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The prefix of the keys of its sessions.
const PREFIX: &str = "hermes:";

/// The session of processes that Hermes starts over MCP. Hermes sends no session with a call, so all its sessions share this one. No
/// session of Hermes has this name.
pub(super) const OVER_MCP: &str = "hermes:mcp";

/// How many of the sessions that were used last are searched for the one that started a process.
const MOST_SESSIONS: usize = 200;

/// Wake a session of a running Hermes gateway
///
/// For a `[[hook]]` table with `wake = true` and sessions = ["hermes:*"]. The API server of the gateway starts a turn in that session. A notice that the
/// session has already is not delivered again. A notice about a process that Hermes started over MCP (see `install hermes --wake`) goes to the session
/// that started it. With --webhook, a route of the gateway's webhook platform gets a signed request instead; each request starts a new session.
#[derive(Debug, Args)]
pub(crate) struct Hermes {
    /// Where the API server listens [default: HERMES_API_URL, else http://127.0.0.1:8642]
    #[arg(long, value_name = "URL", conflicts_with = "webhook")]
    url: Option<String>,
    /// A file with the key of the API server [default: API_SERVER_KEY; an engine that systemd started does not have it]
    #[arg(long, value_name = "FILE", conflicts_with = "webhook")]
    key_file: Option<PathBuf>,
    /// The address of a webhook route, such as http://127.0.0.1:8644/webhooks/outlast
    #[arg(long, value_name = "URL", requires = "secret_file")]
    webhook: Option<String>,
    /// A file with the secret of that route
    #[arg(long, value_name = "FILE", requires = "webhook")]
    secret_file: Option<PathBuf>,
    /// How long a turn may take, such as 90s or 5m
    #[arg(long, value_name = "DURATION", value_parser = some_seconds, default_value = "10m", allow_negative_numbers = true)]
    timeout: Duration,
    /// Only find out whether the API server answers. Nothing is read or delivered, and a webhook is not called
    #[arg(long)]
    check: bool,
}

impl Hermes {
    /// Whether it only tries what a wake needs.
    pub(super) fn is_check(&self) -> bool {
        self.check
    }

    fn api(&self, ctx: &Context) -> Result<Api, Failure> {
        let var = |name: &str| ctx.world.var(name).and_then(|v| v.to_str()).filter(|v| !v.is_empty()).map(str::to_owned);
        let url = self.url.clone().or_else(|| var("HERMES_API_URL")).unwrap_or_else(|| DEFAULT_URL.into());
        let mut target = target(&url, "--url")?;
        if let Some(key) = secret(ctx, self.key_file.as_deref(), var("API_SERVER_KEY"))? {
            target = target.with_key(&key);
        }
        Ok(Api { looks: Server::new(target.clone(), REQUEST_TIMEOUT), turns: Server::new(target, self.timeout) })
    }

    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        if let Some(url) = &self.webhook {
            let (target, secret) = (target(url, "--webhook")?, secret(ctx, self.secret_file.as_deref(), None)?.unwrap_or_default());
            if self.check {
                return Ok(0);
            }
            let told = to_tell()?;
            let _lock = SessionLock::acquire(&ctx.settings.home, &told.session, self.timeout).await?;
            return post(&target, &secret, &told).await;
        }
        let api = self.api(ctx)?;
        if self.check {
            return good(api.looks.get("/api/sessions?limit=1", &[]).await, "list its sessions").map(|_| 0);
        }
        let told = to_tell()?;
        let _lock = SessionLock::acquire(&ctx.settings.home, &told.session, self.timeout).await?;
        chat(api, told).await
    }
}

fn target(url: &str, flag: &str) -> Result<Target, Failure> {
    Target::parse(url, false).map_err(|e| Failure::refused(format!("the address of {flag}: {e}"), "give another"))
}

/// Takes a turn in the session, or in each session that has notices.
async fn chat(api: Api, told: ToTell) -> Result<i32, Failure> {
    let session = own(&told.session, PREFIX, "Hermes")?.to_owned();
    if told.session != OVER_MCP {
        return api.tell(&session, told).await.map(|()| 0);
    }
    let (started, unseen) = api.who_started(&told).await?;
    let mut sessions: Vec<&String> = started.iter().map(|(_, session)| session).collect();
    sessions.sort();
    sessions.dedup();
    for session in sessions {
        let its = |id: &str| started.iter().any(|(notice, of)| notice == id && of == session);
        api.tell(session, told.clone().without(|id| !its(id))).await?;
    }
    let left = told.notices.iter().find(|n| !started.iter().any(|(id, _)| *id == n.event_id));
    match (left, unseen) {
        (None, _) => Ok(0),
        // It may belong to a session that could not be read.
        (Some(_), Some(why)) => Err(why),
        (Some(left), None) => {
            let what =
                format!("none of Hermes's sessions has started {}", if left.session_id.is_empty() { "this" } else { &left.session_id });
            Err(Failure::refused(what, "it is retried, and delivered with the next answer of our tools"))
        }
    }
}

/// The API server of a gateway.
struct Api {
    looks: Server,
    turns: Server,
}

impl Api {
    /// Takes a turn in a session. A message of Hermes has only text, so the ids of the notices are in the text.
    async fn tell(&self, session: &str, told: ToTell) -> Result<(), Failure> {
        let there = |messages: &[Value], id: &str| messages.iter().filter(|m| m["role"] == "user").any(|m| mentions(m, id));
        let before = self.messages(session).await?;
        let told = told.without(|id| there(&before, id));
        if told.notices.is_empty() {
            return Ok(());
        }
        let ids: Vec<&str> = told.ids().collect();
        let body = json!({"message": format!("{}\n\n({})", told.text(), ids.join(" "))}).to_string().into_bytes();
        let turn = good(self.turns.post(&format!("/api/sessions/{}/chat", Server::escaped(session)), &[], body).await, "take a turn");
        // Also after a failed turn, a notice that is in the session was delivered.
        let after = self.messages(session).await?;
        match ids.iter().all(|id| there(&after, id)) {
            true => Ok(()),
            false => Err(turn
                .err()
                .unwrap_or_else(|| Failure::fault("Hermes took a turn, but the notice is not in the session", "it is tried again"))),
        }
    }

    /// For each notice with a known process, the session that started the process: the first one in which a tool has answered with the id.
    /// Later ones saw it in a list. Also why a session could not be read, if there is one.
    async fn who_started(&self, told: &ToTell) -> Result<(Vec<(String, String)>, Option<Failure>), Failure> {
        let listed = good(self.looks.get(&format!("/api/sessions?limit={MOST_SESSIONS}"), &[]).await, "list its sessions")?;
        let mut first: HashMap<&str, (f64, String)> = HashMap::new();
        let mut unseen = None;
        for session in data(listed).iter().filter_map(|s| s["id"].as_str()) {
            let messages = match self.messages(session).await {
                Ok(messages) => messages,
                // A session may have just been deleted, or be too large.
                Err(why) => {
                    unseen = Some(why);
                    continue;
                }
            };
            let answers: Vec<&Value> = messages.iter().filter(|m| m["role"] == "tool").collect();
            for notice in told.notices.iter().filter(|n| !n.session_id.is_empty()) {
                let Some(answer) = answers.iter().find(|m| mentions(m, &notice.session_id)) else { continue };
                let at = answer["timestamp"].as_f64().unwrap_or(f64::MAX);
                if first.get(notice.event_id.as_str()).is_none_or(|(before, _)| at < *before) {
                    first.insert(&notice.event_id, (at, session.to_owned()));
                }
            }
        }
        Ok((first.into_iter().map(|(notice, (_, session))| (notice.to_owned(), session)).collect(), unseen))
    }

    async fn messages(&self, session: &str) -> Result<Vec<Value>, Failure> {
        let path = format!("/api/sessions/{}/messages", Server::escaped(session));
        Ok(data(good(self.looks.get(&path, &[]).await, "show the session")?))
    }
}

/// The elements of a list.
fn data(mut list: Value) -> Vec<Value> {
    let all = ["data", "messages"].into_iter().find_map(|name| list.get_mut(name).map(Value::take)).unwrap_or(list);
    if let Value::Array(all) = all { all } else { Vec::new() }
}

/// Whether a message has this id in it.
fn mentions(message: &Value, name: &str) -> bool {
    message["content"].to_string().contains(name)
}

/// Sends a signed request for each notice, with its id: the route drops a repeated id for an hour.
async fn post(target: &Target, secret: &str, told: &ToTell) -> Result<i32, Failure> {
    let server = Server::new(target.at(""), REQUEST_TIMEOUT);
    for notice in &told.notices {
        let event = serde_json::to_value(notice).unwrap_or_default();
        let text = outlast_text::announce(notice);
        let body = json!({"event_type": notice.kind(), "session_key": told.session, "text": text, "event": event}).to_string().into_bytes();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs().to_string();
        let headers = [
            ("x-request-id", notice.event_id.clone()),
            ("x-webhook-signature-v2", signature(secret, &now, &body)),
            ("x-webhook-timestamp", now),
        ];
        good(server.post(target.base(), &headers, body).await, "take the request")?;
    }
    Ok(0)
}

/// HMAC-SHA256 of "timestamp.body", in hexadecimal digits.
fn signature(secret: &str, timestamp: &str, body: &[u8]) -> String {
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes());
    let signed = ring::hmac::sign(&key, &[timestamp.as_bytes(), b".", body].concat());
    signed.as_ref().iter().map(|b| format!("{b:02x}")).collect()
}

fn good(said: Result<Said, String>, what: &str) -> Result<Value, Failure> {
    match said {
        Ok(said) if said.is_good() => Ok(said.json),
        Ok(said) if said.status == 401 => {
            Err(Failure::refused("Hermes refuses our key or signature", "give --key-file, or --secret-file with --webhook"))
        }
        Ok(said) if said.status == 404 => {
            Err(Failure::refused(format!("Hermes does not {what}: not found"), "is the session, or the route, one of this gateway?"))
        }
        Ok(said) => {
            Err(Failure::refused(format!("Hermes does not {what}: it answered {}: {}", said.status, said.text), "it is tried again"))
        }
        Err(why) => Err(Failure::fault(format!("Hermes cannot be asked to {what}: {why}"), "is its gateway running? --url says where")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_signed_with_its_time() {
        // printf '1700000000.{}' | openssl dgst -sha256 -hmac secret
        let want = "b8569b78799ff9e3cbff0fc2d63a33a2b57f3282abd07c37ae5e8e7d79a5f163";
        assert_eq!(signature("secret", "1700000000", b"{}"), want);
    }
}
