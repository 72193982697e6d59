//! The HTTP server of an agent, as hooks that wake the agent use it.

use crate::Target;
use crate::request::{OutRequest, Reading, Trust, send};
use http::Method;
use serde_json::Value;
use std::time::Duration;

/// How long finding the server, connecting and agreeing on TLS may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest answer that is read. An answer about a session can have all its messages.
const MAX_ANSWER_BYTES: usize = 64 << 20;

/// A server that answers in JSON, one request at a time.
#[derive(Debug)]
pub struct Server {
    target: Target,
    trust: Trust,
    whole: Duration,
}

/// An answer of a server.
#[derive(Debug, Clone)]
pub struct Said {
    /// The HTTP status.
    pub status: u16,
    /// The body; null if it is not JSON.
    pub json: Value,
    /// The beginning of the body as text, for error messages.
    pub text: String,
}

impl Said {
    /// Whether the status is a success.
    pub fn is_good(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

impl Server {
    /// The server at an address. All paths are below the path of the address. `whole` is how long one request may take.
    pub fn new(target: Target, whole: Duration) -> Self {
        Self { target, trust: Trust::new(None), whole }
    }

    /// Makes a GET request.
    pub async fn get(&self, path: &str, headers: &[(&'static str, String)]) -> Result<Said, String> {
        self.ask(Method::GET, path, headers, Vec::new()).await
    }

    /// Posts JSON. The bytes are sent unchanged, so that a signature over them stays valid.
    pub async fn post(&self, path: &str, headers: &[(&'static str, String)], body: Vec<u8>) -> Result<Said, String> {
        self.ask(Method::POST, path, headers, body).await
    }

    async fn ask(&self, method: Method, path: &str, headers: &[(&'static str, String)], body: Vec<u8>) -> Result<Said, String> {
        let target = self.target.at(format!("{}{path}", self.target.base()));
        let reading = Reading { always: true, most: MAX_ANSWER_BYTES, within: self.whole };
        let asked = OutRequest { method, target: &target, headers, body, connect: CONNECT_TIMEOUT, whole: self.whole, reading };
        let answer = send(asked, &self.trust).await?;
        let text = String::from_utf8_lossy(&answer.said[..answer.said.len().min(400)]).into_owned();
        Ok(Said { status: answer.status.as_u16(), json: serde_json::from_slice(&answer.said).unwrap_or_default(), text })
    }

    /// Percent-encodes a name for use in a path or a query.
    pub fn escaped(text: &str) -> String {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
        text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_lead_elsewhere() {
        assert_eq!(Server::escaped("ses_1-a.b~"), "ses_1-a.b~");
        assert_eq!(Server::escaped("../x?y=1#ä"), "..%2Fx%3Fy%3D1%23%C3%A4");
    }
}
