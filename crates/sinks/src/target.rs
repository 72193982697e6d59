//! The address of a receiver.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use std::fmt;
use std::net::IpAddr;

/// A checked address. Only its origin is ever shown: user, path and query can hold credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    pub(crate) tls: bool,
    /// A host name, or an IP address without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// For the `Host` header.
    pub(crate) authority: String,
    pub(crate) path: String,
    /// For the `Authorization` header, made from the user in the address.
    pub(crate) authorization: Option<String>,
    /// Whether the request must stay on this machine.
    pub(crate) loopback_only: bool,
}

/// Why a webhook cannot use an address. The error never holds the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadUrl {
    /// It cannot be parsed.
    #[error("this is no address; one looks like https://example.com/hook")]
    Form,
    /// It is neither `https://` nor `http://`.
    #[error("a webhook goes to an address that begins with https://, or http:// for this machine")]
    Scheme,
    /// It is `http://` to another machine.
    #[error("http:// is for this machine only, since anyone on the way can read it; use https://, or set `allow_http = true`")]
    Unencrypted,
}

impl Target {
    /// Parses an address. Unless `allow_http`, `http://` is for this machine only.
    pub fn parse(url: &str, allow_http: bool) -> Result<Self, BadUrl> {
        let uri: Uri = url.trim().parse().map_err(|_| BadUrl::Form)?;
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            Some(_) => return Err(BadUrl::Scheme),
            None => return Err(BadUrl::Form),
        };
        let whole = uri.authority().ok_or(BadUrl::Form)?;
        let (user, authority) = match whole.as_str().rsplit_once('@') {
            Some((user, rest)) => (Some(user), rest),
            None => (None, whole.as_str()),
        };
        let host = whole.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        // The port is not a number, or it is missing after a colon.
        if host.is_empty() || (whole.port_u16().is_none() && authority.len() != whole.host().len()) {
            return Err(BadUrl::Form);
        }
        let port = whole.port_u16().unwrap_or(if tls { 443 } else { 80 });
        let loopback_only = !tls && !allow_http;
        if loopback_only && !is_loopback(&host) {
            return Err(BadUrl::Unencrypted);
        }
        Ok(Self {
            tls,
            port,
            authority: authority.to_owned(),
            path: uri.path_and_query().map_or("/", |p| p.as_str()).to_owned(),
            authorization: user.map(|u| format!("Basic {}", STANDARD.encode(unescape(u)))),
            loopback_only,
            host,
        })
    }
}

impl Target {
    /// The same server with another path and query.
    #[must_use]
    pub fn at(&self, path: impl Into<String>) -> Self {
        Self { path: path.into(), ..self.clone() }
    }

    /// The same server, with a user and a password.
    #[must_use]
    pub fn with_login(&self, user: &str, password: &str) -> Self {
        Self { authorization: Some(format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))), ..self.clone() }
    }

    /// The same server, with a bearer key.
    #[must_use]
    pub fn with_key(&self, key: &str) -> Self {
        Self { authorization: Some(format!("Bearer {key}")), ..self.clone() }
    }

    /// Its path, without a slash at the end.
    pub fn base(&self) -> &str {
        self.path.trim_end_matches('/')
    }
}

/// Whether a host names this machine. The addresses that a name resolves to are checked again before connecting.
fn is_loopback(host: &str) -> bool {
    match host.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

/// Decodes `%41` and the like in a user or password.
fn unescape(text: &str) -> Vec<u8> {
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        let code = bytes.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok()).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (bytes[at], code) {
            (b'%', Some(byte)) => {
                out.push(byte);
                at += 3;
            }
            (byte, _) => {
                out.push(byte);
                at += 1;
            }
        }
    }
    out
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.tls { "https" } else { "http" }, self.authority)
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_apart() {
        let t = Target::parse("https://me:p%40ss@example.com:8443/a/b?token=x#frag", false).unwrap();
        assert_eq!((t.tls, t.host.as_str(), t.port, t.authority.as_str()), (true, "example.com", 8443, "example.com:8443"));
        assert_eq!(t.path, "/a/b?token=x");
        assert_eq!(t.authorization.as_deref(), Some(format!("Basic {}", STANDARD.encode("me:p@ss")).as_str()));
        let t = Target::parse("https://example.com", false).unwrap();
        assert_eq!((t.port, t.path.as_str(), t.authorization), (443, "/", None));
        let t = Target::parse("http://[::1]:90/", false).unwrap();
        assert_eq!((t.host.as_str(), t.port, t.authority.as_str(), t.loopback_only), ("::1", 90, "[::1]:90", true));
    }

    #[test]
    fn an_address_shows_its_origin_alone() {
        let t = Target::parse("https://me:hush@example.com/hush?hush#hush", false).unwrap();
        assert_eq!((t.to_string(), format!("{t:?}")), ("https://example.com".into(), "Target(https://example.com)".into()));
    }

    #[test]
    fn plain_http_is_for_this_machine() {
        for here in ["http://localhost/", "http://127.0.0.1:1/x", "http://127.9.9.9", "http://[::1]/"] {
            assert!(Target::parse(here, false).is_ok(), "{here}");
        }
        for there in [
            "http://example.com/",
            "http://10.0.0.1/",
            "http://localhost.example.com/",
            "http://me@10.0.0.1/",
            "http://localhost@10.0.0.1/",
        ] {
            assert_eq!(Target::parse(there, false), Err(BadUrl::Unencrypted), "{there}");
            assert!(Target::parse(there, true).is_ok_and(|t| !t.loopback_only), "{there}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for bad in [
            "",
            "example.com/x",
            "/x",
            "https://",
            "https:///x",
            "https://a:b:c/",
            "https://example.com:99999/",
            "https://example.com:/",
            "https://ex ample.com",
        ] {
            assert_eq!(Target::parse(bad, true), Err(BadUrl::Form), "{bad}");
        }
        assert_eq!(Target::parse("ftp://example.com/", true), Err(BadUrl::Scheme));
    }
}
