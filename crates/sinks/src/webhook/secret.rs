//! The secrets that sign requests.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use std::fmt;

/// A secret that sender and receiver share. Nothing shows its value.
#[derive(Clone)]
pub struct Secret {
    key: hmac::Key,
}

/// Why a text is not a secret. The error never holds the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadSecret {
    /// No secret was given.
    #[error("a webhook needs a secret to sign with")]
    Missing,
    /// The text is not `whsec_` and base64.
    #[error("a webhook's secret is `whsec_` and base64 behind it")]
    Form,
    /// It is too short to be safe, or too long to be a secret.
    #[error("a webhook's secret has 24 to 64 bytes, and this has {0}")]
    Length(usize),
}

impl Secret {
    /// Reads `whsec_…`. White space around it is ignored.
    pub fn parse(text: &str) -> Result<Self, BadSecret> {
        let coded = text.trim().strip_prefix("whsec_").ok_or(BadSecret::Form)?;
        let bytes = STANDARD.decode(coded).map_err(|_| BadSecret::Form)?;
        if !(24..=64).contains(&bytes.len()) {
            return Err(BadSecret::Length(bytes.len()));
        }
        Ok(Self { key: hmac::Key::new(hmac::HMAC_SHA256, &bytes) })
    }

    /// The signature of one request, after its version.
    pub(crate) fn sign(&self, id: &str, timestamp: u64, body: &[u8]) -> String {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(format!("{id}.{timestamp}.").as_bytes());
        context.update(body);
        format!("v1,{}", STANDARD.encode(context.sign()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFERENCE: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    #[test]
    fn the_reference_vector_of_standard_webhooks_is_met() {
        let secret = Secret::parse(&format!(" {REFERENCE}\n")).unwrap();
        let signature = secret.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn what_is_no_secret_is_refused_without_repeating_it() {
        let bad = |text: &str| Secret::parse(text).unwrap_err();
        assert_eq!(bad("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), BadSecret::Form);
        assert_eq!(bad("whsec_not base64"), BadSecret::Form);
        assert_eq!(bad("whsec_"), BadSecret::Length(0));
        assert_eq!(bad("whsec_AAAA"), BadSecret::Length(3));
        assert_eq!(bad(&format!("whsec_{}", "AAAA".repeat(22))), BadSecret::Length(66));
        assert!(!format!("{:?} {}", bad("whsec_hush"), bad("whsec_hush")).contains("hush"));
        assert_eq!(format!("{:?}", Secret::parse(REFERENCE).unwrap()), "Secret(…)");
    }
}
