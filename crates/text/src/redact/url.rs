//! Credentials before the host of an address.

use super::Mode;
use super::header::looks_opaque;
use super::mask::{Edit, HIDDEN, is_masked, masked};
use super::place::Place;

/// Schemes whose password is a secret, whatever follows a `+` in them.
const DATABASES: &[&str] = &[
    "postgres",
    "postgresql",
    "mysql",
    "mariadb",
    "mongodb",
    "redis",
    "rediss",
    "amqp",
    "amqps",
    "mssql",
    "sqlserver",
    "oracle",
    "clickhouse",
    "cockroachdb",
    "nats",
];

/// How far to look for the end of a password that has a slash in it.
const LONGEST: usize = 1024;

/// Masks the password in a database address, or a token that stands alone before a host.
pub(crate) fn credentials(place: Place<'_>, mode: Mode) -> Option<Edit> {
    let text = place.text;
    let start = place.end;
    let is_database = is_database(scheme(text, place.start));
    let user_info = user_info(&text[start..], is_database)?;
    match user_info.split_once(':') {
        Some((user, password)) if is_database => {
            let is_template = password.starts_with(['{', '$', '<', '%']);
            let is_kept = mode != Mode::Full && is_template;
            if password.is_empty() || is_masked(password) || is_kept {
                return None;
            }
            let at = start + user.len() + 1;
            Some((at..start + user_info.len(), HIDDEN.to_owned()))
        }
        // A user and a password of a web address are left alone.
        Some(_) => None,
        None => {
            let is_token = user_info.len() >= 16
                && looks_opaque(user_info)
                && user_info.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
            is_token.then(|| masked(text, start..start + user_info.len()))?
        }
    }
}

fn is_database(scheme: &str) -> bool {
    let name = scheme.split('+').next().unwrap_or(scheme);
    DATABASES.iter().any(|database| database.eq_ignore_ascii_case(name))
}

fn scheme(text: &str, end: usize) -> &str {
    let is_scheme = |b: &&u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'.' | b'-');
    let bytes = text.as_bytes()[..end].iter().rev();
    &text[end - bytes.take(32).take_while(is_scheme).count()..end]
}

/// What stands between `://` and the `@` before the host.
fn user_info(text: &str, is_database: bool) -> Option<&str> {
    let bytes = text.as_bytes();
    let ends_address = |b: &u8| b.is_ascii_whitespace() || b.is_ascii_control() || b"\"'`<>\\".contains(b);
    let ends_authority = |b: &u8| ends_address(b) || matches!(b, b'/' | b'?' | b'#');
    let authority = &bytes[..bytes.iter().position(ends_authority).unwrap_or(bytes.len())];
    if let Some(at) = authority.iter().rposition(|&b| b == b'@') {
        return Some(&text[..at]);
    }
    // No host looks like `user:pass/word@host`, unless what follows the colon is a port.
    let colon = authority.iter().position(|&b| b == b':')?;
    let is_port = authority[colon + 1..].iter().all(u8::is_ascii_digit);
    if !is_database || is_port || authority.contains(&b'[') {
        return None;
    }
    let near = &bytes[..bytes.len().min(LONGEST)];
    let address = &near[..near.iter().position(ends_address).unwrap_or(near.len())];
    let at = address.iter().position(|&b| b == b'@')?;
    Some(&text[..at])
}
