//! A server of an agent, as those see it who wake that agent.

use crate::Target;
use crate::request::{Asked, Reading, Trust, send};
use http::Method;
use serde_json::Value;
use std::time::Duration;

/// How long finding the server, connecting and agreeing on TLS may take.
const CONNECT: Duration = Duration::from_secs(5);

/// The longest answer that is read. A conversation comes with all that was said in it.
const MOST_SAID: usize = 64 << 20;

/// A server that answers in JSON, asked one question at a time.
#[derive(Debug)]
pub struct Server {
    target: Target,
    trust: Trust,
    whole: Duration,
}

/// What a server said.
#[derive(Debug, Clone)]
pub struct Said {
    /// The status.
    pub status: u16,
    /// The body; one that is no JSON is null.
    pub json: Value,
    /// The beginning of the body as text, for whoever wants to know what went wrong.
    pub text: String,
}

impl Said {
    /// Whether it did what was asked.
    pub fn is_good(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

impl Server {
    /// The server at an address, whose path all paths are below. `whole` is how long one question may take.
    pub fn new(target: Target, whole: Duration) -> Self {
        Self { target, trust: Trust::new(None), whole }
    }

    /// Asks for something.
    pub async fn get(&self, path: &str, headers: &[(&'static str, String)]) -> Result<Said, String> {
        self.ask(Method::GET, path, headers, Vec::new()).await
    }

    /// Says something, in JSON. The bytes are sent as they are, so that whoever signed them signed what was sent.
    pub async fn post(&self, path: &str, headers: &[(&'static str, String)], body: Vec<u8>) -> Result<Said, String> {
        self.ask(Method::POST, path, headers, body).await
    }

    async fn ask(&self, method: Method, path: &str, headers: &[(&'static str, String)], body: Vec<u8>) -> Result<Said, String> {
        let target = self.target.at(format!("{}{path}", self.target.base()));
        let reading = Reading { always: true, most: MOST_SAID, within: self.whole };
        let asked = Asked { method, target: &target, headers, body, connect: CONNECT, whole: self.whole, reading };
        let answer = send(asked, &self.trust).await?;
        let text = String::from_utf8_lossy(&answer.said[..answer.said.len().min(400)]).into_owned();
        Ok(Said { status: answer.status.as_u16(), json: serde_json::from_slice(&answer.said).unwrap_or_default(), text })
    }

    /// Writes a name so that it can be a part of a path, or a value in a query.
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
