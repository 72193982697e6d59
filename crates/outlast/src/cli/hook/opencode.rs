//! `outlast hook opencode`

use super::super::{Context, Failure, some_seconds};
use super::{SessionLock, own, secret, to_tell};
use clap::Args;
use outlast_sinks::{Said, Server, Target};
use outlast_tools::ToTell;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The default address of `opencode serve`.
const DEFAULT_URL: &str = "http://127.0.0.1:4096";

/// The default user name for its password.
const DEFAULT_USER: &str = "opencode";

/// The key of the metadata that has the ids of delivered notices.
const MARK: &str = "outlast";

/// How many of the sessions that were used last are searched for the one that started a process.
const MOST_SESSIONS: usize = 50;

/// How long one request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// The interval of checks whether an accepted message is in the session. No event says so.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Wake a session of a running `opencode serve`
///
/// A command for a `[[hook]]` table with `wake = true` and sessions = ["opencode:*", "mcp:opencode:*"]. The message is in the session when it exits 0, and is not
/// put there twice.
#[derive(Debug, Args)]
pub(crate) struct Opencode {
    /// Where the server listens [default: OPENCODE_SERVER_URL, else http://127.0.0.1:4096]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// A file with the server's password [default: OPENCODE_SERVER_PASSWORD; an engine that systemd started does not have it]
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Whose password it is [default: OPENCODE_SERVER_USERNAME, else opencode]
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// How long the server may take to accept the message, such as 20s or 5m
    #[arg(long, value_name = "DURATION", value_parser = some_seconds, default_value = "20s", allow_negative_numbers = true)]
    timeout: Duration,
    /// Only find out whether the server answers. Nothing is read or delivered
    #[arg(long)]
    check: bool,
}

impl Opencode {
    /// Whether it only tries what a wake needs.
    pub(super) fn is_check(&self) -> bool {
        self.check
    }

    fn server(&self, ctx: &Context) -> Result<OpencodeServer, Failure> {
        let var = |name: &str| ctx.world.var(name).and_then(|v| v.to_str()).filter(|v| !v.is_empty()).map(str::to_owned);
        let url = self.url.clone().or_else(|| var("OPENCODE_SERVER_URL")).unwrap_or_else(|| DEFAULT_URL.into());
        let target =
            Target::parse(&url, false).map_err(|e| Failure::refused(format!("the server's address: {e}"), "give another --url"))?;
        let user = self.user.clone().or_else(|| var("OPENCODE_SERVER_USERNAME")).unwrap_or_else(|| DEFAULT_USER.into());
        let target = match secret(ctx, self.password_file.as_deref(), var("OPENCODE_SERVER_PASSWORD"))? {
            Some(password) => target.with_login(&user, &password),
            None => target,
        };
        Ok(OpencodeServer { server: Server::new(target, REQUEST_TIMEOUT) })
    }

    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let at = self.server(ctx)?;
        if self.check {
            return good(at.server.get("/session", &[]).await, "list its sessions").map(|_| 0);
        }
        let told = to_tell()?;
        let _lock = SessionLock::acquire(&ctx.settings.home, &told.session, self.timeout).await?;
        for (session, told) in at.sessions(told).await? {
            at.tell(&session, told, self.timeout).await?;
        }
        Ok(0)
    }
}

/// A session of opencode.
struct OpencodeSession {
    id: String,
    dir: String,
}

/// A connection to the server.
struct OpencodeServer {
    server: Server,
}

impl OpencodeServer {
    /// Puts the notices into a session, except those that it has already.
    async fn tell(&self, session: &OpencodeSession, told: ToTell, timeout: Duration) -> Result<(), Failure> {
        let there = marks(&self.messages(session).await?);
        let told = told.without(|id| there.iter().any(|mark| mark == id));
        if told.notices.is_empty() {
            return Ok(());
        }
        let ids: Vec<&str> = told.ids().collect();
        let part = json!({"type": "text", "text": told.text(), "metadata": {MARK: ids}});
        let until = Instant::now() + timeout;
        let path = format!("/session/{}/prompt_async?directory={}", Server::escaped(&session.id), Server::escaped(&session.dir));
        good(self.server.post(&path, &[], json!({"parts": [part]}).to_string().into_bytes()).await, "take the message")?;
        // opencode answers before it has written the message.
        loop {
            let there = marks(&self.messages(session).await?);
            if ids.iter().all(|id| there.iter().any(|mark| mark == id)) {
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(Failure::fault("opencode accepted the message, and it is not in the session", "it is tried again"));
            }
            sleep(CHECK_INTERVAL).await;
        }
    }

    /// The sessions of these notices, each with its own: the session with the id of the key, or of those in the key's directory the one that
    /// started the process.
    async fn sessions(&self, told: ToTell) -> Result<Vec<(OpencodeSession, ToTell)>, Failure> {
        let Some(dir) = told.session.strip_prefix("mcp:opencode:").map(str::to_owned) else {
            let id = own(&told.session, "opencode:", "opencode")?;
            let found = good(self.server.get(&format!("/session/{}", Server::escaped(id)), &[]).await, "say where the session works")?;
            return Ok(vec![(OpencodeSession { id: id.to_owned(), dir: text(&found["directory"]) }, told)]);
        };
        let all = self.newest_first(&dir).await?;
        let started = match &all[..] {
            [_] => vec![0; told.notices.len()],
            all => self.who_started(all, &told).await,
        };
        let of = |(n, session): (usize, OpencodeSession)| {
            let ids: Vec<String> = told.ids().zip(&started).filter(|(_, of)| **of == n).map(|(id, _)| id.to_owned()).collect();
            (session, told.clone().without(|id| !ids.iter().any(|own| own == id)))
        };
        Ok(all.into_iter().enumerate().map(of).filter(|(_, told)| !told.notices.is_empty()).collect())
    }

    /// The sessions of a directory, at least one. The one that was used last comes first.
    async fn newest_first(&self, dir: &str) -> Result<Vec<OpencodeSession>, Failure> {
        let all = good(self.server.get(&format!("/session?directory={}", Server::escaped(dir)), &[]).await, "list its sessions")?;
        let own = |s: &&Value| s["directory"] == dir && s["parentID"].is_null();
        let mut all: Vec<&Value> = all.as_array().into_iter().flatten().filter(own).collect();
        all.sort_by_key(|s| std::cmp::Reverse(s["time"]["updated"].as_i64()));
        let session = |s: &&Value| Some(OpencodeSession { id: s["id"].as_str()?.to_owned(), dir: dir.to_owned() });
        let all: Vec<OpencodeSession> = all.iter().filter_map(session).take(MOST_SESSIONS).collect();
        if all.is_empty() {
            let what = format!("opencode has no session in {dir}");
            return Err(Failure::refused(what, "it is tried again; is this the server of that directory?"));
        }
        Ok(all)
    }

    /// For each notice, which of these sessions started its process: the first one in which a tool has answered with the id. Later ones saw it
    /// in a list. If none has, it is the first of these sessions.
    async fn who_started(&self, all: &[OpencodeSession], told: &ToTell) -> Vec<usize> {
        let mut first = vec![(i64::MAX, 0); told.notices.len()];
        for (n, session) in all.iter().enumerate() {
            // A session that cannot be read may have just been removed.
            let messages = self.messages(session).await.unwrap_or_default();
            for (notice, first) in told.notices.iter().zip(&mut first).filter(|(notice, _)| !notice.session_id.is_empty()) {
                let answered = |m: &&Value| parts(m).any(|p| p["type"] == "tool" && p["state"].to_string().contains(&notice.session_id));
                let at = messages.iter().filter(answered).filter_map(|m| m["info"]["time"]["created"].as_i64()).min();
                if let Some(at) = at.filter(|at| *at < first.0) {
                    *first = (at, n);
                }
            }
        }
        first.into_iter().map(|(_, n)| n).collect()
    }

    async fn messages(&self, session: &OpencodeSession) -> Result<Vec<Value>, Failure> {
        let path = format!("/session/{}/message?directory={}", Server::escaped(&session.id), Server::escaped(&session.dir));
        match good(self.server.get(&path, &[]).await, "show the session")? {
            Value::Array(messages) => Ok(messages),
            _ => Ok(Vec::new()),
        }
    }
}

fn parts(message: &Value) -> impl Iterator<Item = &Value> {
    message["parts"].as_array().into_iter().flatten()
}

/// The ids of the notices in messages.
fn marks(messages: &[Value]) -> Vec<String> {
    messages.iter().flat_map(parts).filter_map(|p| p["metadata"][MARK].as_array()).flatten().map(text).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn good(said: Result<Said, String>, what: &str) -> Result<Value, Failure> {
    match said {
        Ok(said) if said.is_good() => Ok(said.json),
        Ok(said) if said.status == 401 => Err(Failure::refused("opencode requires a password", "give --password-file")),
        Ok(said) => {
            Err(Failure::refused(format!("opencode does not {what}: it answered {}: {}", said.status, said.text), "it is tried again"))
        }
        Err(why) => {
            Err(Failure::fault(format!("opencode cannot be asked to {what}: {why}"), "is `opencode serve` running? --url says where"))
        }
    }
}
