//! A text that is one form body.

use super::mask::{Edits, HIDDEN, is_masked};
use super::names::secret_name;

/// Names that are secrets in a form, though not elsewhere.
const ALSO: &[&str] = &["key", "code", "session", "sig", "signature", "assertion", "code_verifier"];

/// Masks the secret fields of a text that is nothing but `name=value&name=value`.
pub(crate) fn mask_form_body(text: &str, edits: &mut Edits) {
    let body = text.trim();
    let is_body = body.contains('&') && !body.contains(|c: char| c.is_whitespace());
    if !is_body || !body.split('&').all(is_field) {
        return;
    }
    let mut at = text.len() - text.trim_start().len();
    for field in body.split('&') {
        if let Some((name, value)) = field.split_once('=') {
            let is_secret = secret_name(name) || ALSO.iter().any(|n| n.eq_ignore_ascii_case(name));
            if is_secret && !value.is_empty() && !is_masked(value) {
                let start = at + name.len() + 1;
                edits.replace(start..start + value.len(), HIDDEN.to_owned());
            }
        }
        at += field.len() + 1;
    }
}

fn is_field(field: &str) -> bool {
    let is_name = |b: u8| b.is_ascii_alphanumeric() || b"_-.[]%".contains(&b);
    field.split_once('=').is_some_and(|(name, _)| !name.is_empty() && name.bytes().all(is_name))
}
