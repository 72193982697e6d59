//! What clients are answered in place of what they asked for.

use crate::rules::key::{LOCAL_PLATFORM, MAIN_NAMESPACE, parse};
use crate::store::StoreError;
use outlast_wire::code;
use outlast_wire::v1::{Error, ErrorKind};

/// The answer of a gateway that is ending.
pub(crate) fn ending() -> Error {
    Error::new(ErrorKind::Unavailable, code::STOPPING, "the gateway is ending", "ask again: the next gateway answers")
}

/// A request that cannot be granted as it is.
pub(crate) fn refusal(code: &str, what: impl Into<String>, hint: impl Into<String>) -> Error {
    Error::new(ErrorKind::Refusal, code, what, hint)
}

/// The database failed. The same request may work later.
pub(super) fn store_failed(error: &StoreError) -> Error {
    tracing::error!(%error, "the database of the gateway cannot be used");
    Error::new(ErrorKind::Unavailable, code::UNAVAILABLE, error.to_string(), "is the disk full? `outlast doctor` looks at it")
}

/// There is no such conversation.
pub(crate) fn not_found(key: &str) -> Error {
    refusal(code::NO_CONVERSATION, format!("there is no conversation {}", shown_name(key)), "`outlast chat list` shows the conversations")
}

/// A conversation as a person calls it.
pub(super) fn shown_name(key: &str) -> String {
    let parsed = parse(key).filter(|parsed| parsed.platform == LOCAL_PLATFORM && parsed.namespace == MAIN_NAMESPACE);
    shown(&parsed.map_or_else(|| key.to_owned(), |parsed| parsed.chat_id))
}

/// A text from outside, cut and without control characters.
pub(super) fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(80).collect()
}
