//! One request of a webhook: signed as Standard Webhooks says, bounded in time and size.

mod secret;

pub use secret::{BadSecret, Secret};

use crate::call_result::CallResult;
use crate::request::{self, Answer, OutRequest, Reading, Trust};
use crate::target::Target;
use crate::{event, reason};
use http::{Method, StatusCode};
use outlast_client::Delivery;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A receiver of signed requests.
#[derive(Debug, Clone)]
pub struct Webhook {
    target: Target,
    /// At least one.
    secrets: Vec<Secret>,
    trust: Arc<Trust>,
    /// How long finding the receiver, connecting and agreeing on TLS may take.
    pub connect: Duration,
    /// How long the whole request may take.
    pub whole: Duration,
}

/// The longest `Retry-After` that is honoured, so that a receiver cannot make the engine keep a notice for ever.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60 * 60);

/// How much of an answer is read to explain a failure.
pub(crate) const READ_ON_FAILURE: Reading = Reading { always: false, most: 4 * 1024, within: Duration::from_secs(2) };

impl Webhook {
    /// How long connecting may take unless configured otherwise.
    pub const CONNECT: Duration = Duration::from_secs(5);
    /// How long the whole request may take unless configured otherwise.
    pub const WHOLE: Duration = Duration::from_secs(20);

    /// A receiver at `target`. Each request is signed with every secret, so that a receiver can replace its secret.
    /// `more_roots` is a PEM file with certificates that are trusted beside the system's.
    pub fn new(target: Target, secrets: Vec<Secret>, more_roots: Option<PathBuf>) -> Result<Self, BadSecret> {
        if secrets.is_empty() {
            return Err(BadSecret::Missing);
        }
        Ok(Self { target, secrets, trust: Arc::new(Trust::new(more_roots)), connect: Self::CONNECT, whole: Self::WHOLE })
    }
}

/// Makes the request and judges the answer.
pub(crate) async fn deliver(webhook: &Webhook, delivery: &Delivery) -> CallResult {
    match call(webhook, delivery, READ_ON_FAILURE).await {
        Ok(answer) => judge(&answer, SystemTime::now()),
        Err(why) => CallResult::failed(why),
    }
}

/// Makes the request once. An error says why there is no answer.
pub(crate) async fn call(webhook: &Webhook, delivery: &Delivery, reading: Reading) -> Result<Answer, String> {
    let body = event::body(delivery);
    let id = id(&delivery.event.event_id);
    // If the clock is before 1970, the receiver rejects the time, as it should.
    let timestamp = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let signatures: Vec<String> = webhook.secrets.iter().map(|s| s.sign(&id, timestamp, &body)).collect();
    let headers = [("webhook-id", id), ("webhook-timestamp", timestamp.to_string()), ("webhook-signature", signatures.join(" "))];
    let Webhook { target, connect, whole, .. } = webhook;
    let asked = OutRequest { method: Method::POST, target, headers: &headers, body, connect: *connect, whole: *whole, reading };
    request::send(asked, &webhook.trust).await
}

/// The id of a request: the notice's id, the same for every attempt. The signed text separates its parts with full stops, so an id with a
/// full stop is replaced by its hash.
fn id(event_id: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if !event_id.is_empty() && event_id.len() <= 128 && event_id.bytes().all(plain) {
        return event_id.to_owned();
    }
    let hash = ring::digest::digest(&ring::digest::SHA256, event_id.as_bytes());
    let hex: String = hash.as_ref().iter().map(|b| format!("{b:02x}")).collect();
    format!("evt_{hex}")
}

/// Decides what an answer means.
pub(crate) fn judge(answer: &Answer, now: SystemTime) -> CallResult {
    let status = answer.status;
    if status.is_success() {
        return CallResult::Done;
    }
    let answered = format!("answered {}", status.as_u16());
    if status == StatusCode::GONE {
        return CallResult::Gone { reason: reason::with(&format!("{answered}: the receiver unsubscribed"), &answer.said) };
    }
    let what = if status.is_redirection() { format!("{answered}, and redirects are not followed") } else { answered };
    let wait = answer.retry_after.as_deref().and_then(|text| retry_after(text, now));
    CallResult::Failed { reason: reason::with(&what, &answer.said), wait }
}

/// Reads a `Retry-After`, which is in seconds or a date, and limits it.
fn retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    let wait = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let at = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
            let seconds = u64::try_from(at.as_second()).ok()?;
            (UNIX_EPOCH + Duration::from_secs(seconds)).duration_since(now).unwrap_or_default()
        }
    };
    Some(wait.min(MAX_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, retry_after: Option<&str>) -> Answer {
        Answer { status: StatusCode::from_u16(status).unwrap(), retry_after: retry_after.map(Into::into), said: Vec::new() }
    }

    #[test]
    fn answers_mean_what_standard_webhooks_says() {
        let judged = |status| judge(&answer(status, None), UNIX_EPOCH);
        for good in [200, 201, 204, 299] {
            assert_eq!(judged(good), CallResult::Done);
        }
        for bad in [301, 302, 304, 307, 400, 401, 404, 408, 429, 500, 502, 503] {
            assert!(matches!(judged(bad), CallResult::Failed { wait: None, .. }), "{bad}");
        }
        assert!(matches!(judged(410), CallResult::Gone { .. }));
    }

    #[test]
    fn a_wish_to_be_asked_later_is_followed_within_bounds() {
        let now = UNIX_EPOCH + Duration::from_secs(784_111_777 - 30);
        let s = |n| Some(Duration::from_secs(n));
        assert_eq!(retry_after("120", now), s(120));
        assert_eq!(retry_after(" 7 ", now), s(7));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:37 GMT", now), s(30));
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:00:00 GMT", now), s(0));
        assert_eq!(retry_after("999999999999", now), Some(MAX_RETRY_AFTER));
        for nonsense in ["", "-5", "soon", "99999999999999999999999"] {
            assert_eq!(retry_after(nonsense, now), None, "{nonsense}");
        }
    }

    #[test]
    fn an_id_has_no_full_stop() {
        assert_eq!(id("evt_3f-A"), "evt_3f-A");
        let odd = id("a.b");
        assert!(odd.starts_with("evt_") && !odd.contains('.') && odd == id("a.b") && odd != id("a.c"));
        assert!(id("").len() > 4 && id("x\r\ny").bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'));
    }
}
