//! `outlast hook hermes`

use super::super::{Context, Failure, some_seconds};
use super::{own, secret, to_tell};
use clap::Args;
use outlast_sinks::{Said, Server, Target};
use outlast_tools::ToTell;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Where the API server of a gateway listens unless told otherwise.
const USUAL: &str = "http://127.0.0.1:8642";

/// How long one question may take that starts no turn.
const ONE: Duration = Duration::from_secs(10);

/// Wake a session of a running Hermes gateway
///
/// A command for a `[[hook]]` table with `wake = true` and sessions = ["hermes:*"]. The API server of the gateway takes a turn in the very session, and what is told there
/// already is not told again. With --webhook a route of its webhook platform gets a signed request instead: each starts a session of its own.
#[derive(Debug, Args)]
pub(crate) struct Hermes {
    /// Where the API server listens [default: HERMES_API_URL, else http://127.0.0.1:8642]
    #[arg(long, value_name = "URL", conflicts_with = "webhook")]
    url: Option<String>,
    /// A file with the key of the API server [default: API_SERVER_KEY, which an engine that was started without a caller does not have]
    #[arg(long, value_name = "FILE", conflicts_with = "webhook")]
    key_file: Option<PathBuf>,
    /// The address of a webhook route, such as http://127.0.0.1:8644/webhooks/outlast
    #[arg(long, value_name = "URL", requires = "secret_file")]
    webhook: Option<String>,
    /// A file with the secret of that route
    #[arg(long, value_name = "FILE", requires = "webhook")]
    secret_file: Option<PathBuf>,
    /// How many seconds a turn may take
    #[arg(long, value_name = "S", value_parser = some_seconds, default_value = "600", allow_negative_numbers = true)]
    timeout: Duration,
}

impl Hermes {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let told = to_tell()?;
        let var = |name: &str| ctx.world.var(name).and_then(|v| v.to_str()).filter(|v| !v.is_empty()).map(str::to_owned);
        if let Some(url) = &self.webhook {
            let secret = secret(self.secret_file.as_deref(), None)?.unwrap_or_default();
            return post(&target(url, "--webhook")?, &secret, &told).await;
        }
        let url = self.url.or_else(|| var("HERMES_API_URL")).unwrap_or_else(|| USUAL.into());
        let mut target = target(&url, "--url")?;
        if let Some(key) = secret(self.key_file.as_deref(), var("API_SERVER_KEY"))? {
            target = target.with_key(&key);
        }
        chat(target, self.timeout, told).await
    }
}

fn target(url: &str, flag: &str) -> Result<Target, Failure> {
    Target::parse(url, false).map_err(|e| Failure::refused(format!("the address of {flag}: {e}"), "give another"))
}

/// Takes a turn in the session. Its messages hold text alone, so that the names of the notices are in the text.
async fn chat(target: Target, timeout: Duration, told: ToTell) -> Result<i32, Failure> {
    let id = Server::escaped(own(&told.session, "hermes:", "Hermes")?);
    let (looks, turns) = (Server::new(target.clone(), ONE), Server::new(target, timeout));
    let messages = format!("/api/sessions/{id}/messages");
    let there = |messages: &Value, id: &str| {
        let all = messages.get("data").or_else(|| messages.get("messages")).unwrap_or(messages).as_array();
        all.into_iter().flatten().filter(|m| m["role"] == "user").any(|m| m["content"].to_string().contains(id))
    };
    let before = good(looks.get(&messages, &[]).await, "show the session")?;
    let told = told.without(|id| there(&before, id));
    if told.notices.is_empty() {
        return Ok(0);
    }
    let ids: Vec<&str> = told.ids().collect();
    let body = json!({"message": format!("{}\n\n({})", told.text(), ids.join(" "))}).to_string().into_bytes();
    let turn = good(turns.post(&format!("/api/sessions/{id}/chat"), &[], body).await, "take a turn");
    // However the turn went: in the session it is told.
    let after = good(looks.get(&messages, &[]).await, "show the session")?;
    match ids.iter().all(|id| there(&after, id)) {
        true => Ok(0),
        false => Err(turn
            .err()
            .unwrap_or_else(|| Failure::fault("Hermes took a turn, and what it was told is not in the session", "it is tried again"))),
    }
}

/// Sends a signed request for each notice, under its own name: the route drops what it has had within the hour.
async fn post(target: &Target, secret: &str, told: &ToTell) -> Result<i32, Failure> {
    let server = Server::new(target.at(""), ONE);
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
            Err(Failure::refused("Hermes does not know us", "give --key-file, or --secret-file with --webhook"))
        }
        Ok(said) if said.status == 404 => {
            Err(Failure::refused(format!("Hermes does not {what}: there is none"), "is the session, or the route, one of this gateway?"))
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
