//! The part of JSON-RPC that a proxy has to read.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The message is not a request.
pub(crate) const INVALID_REQUEST: i32 = -32600;
/// The parameters are not valid.
pub(crate) const INVALID_PARAMS: i32 = -32602;
/// The request failed.
pub(crate) const INTERNAL: i32 = -32603;
/// The terminal does not exist.
pub(crate) const NOT_FOUND: i32 = -32002;
/// The agent cancelled its request.
pub(crate) const CANCELLED: i32 = -32800;

/// The outermost level of a message.
#[derive(Debug, Deserialize)]
pub(crate) struct Message<'a> {
    #[serde(borrow, default)]
    pub(crate) method: Option<Cow<'a, str>>,
    /// `None` for `null` as well.
    #[serde(borrow, default)]
    pub(crate) id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) result: Option<&'a RawValue>,
}

impl<'a> Message<'a> {
    /// Reads a line. `None` if it is not an object with these fields; the proxy then forwards it unchanged.
    pub(crate) fn read(line: &'a [u8]) -> Option<Self> {
        // serde accepts an array in place of an object.
        let is_object = line.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'{');
        if is_object { serde_json::from_slice(line).ok() } else { None }
    }

    /// The method and the id of a request; `None` for an answer or a notification.
    pub(crate) fn asks(&self) -> Option<(&str, &'a RawValue)> {
        Some((self.method.as_deref()?, self.id?))
    }

    /// Its parameters as `T`; `None` if they do not fit.
    pub(crate) fn params<T: Deserialize<'a>>(&self) -> Option<T> {
        serde_json::from_str(self.params?.get()).ok()
    }
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Failure {
    pub(crate) code: i32,
    pub(crate) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<Value>,
}

impl Failure {
    pub(crate) fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }
}

/// An answer, as a line. It has no id if the request could not be read.
pub(crate) fn answer(id: Option<&RawValue>, outcome: &Result<Value, Failure>) -> Vec<u8> {
    #[derive(Serialize)]
    struct Answer<'a> {
        jsonrpc: &'static str,
        id: Option<&'a RawValue>,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<&'a Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a Failure>,
    }
    let whole = Answer { jsonrpc: "2.0", id, result: outcome.as_ref().ok(), error: outcome.as_ref().err() };
    let mut line = serde_json::to_vec(&whole).expect("strings and numbers are JSON");
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_no_message_is_not_understood() {
        for line in ["", "\n", "x", "[\"terminal/create\",1,{}]", "{\"method\":1}", "{\"id\":1,\"id\":2}", "{", "\"method\"", "7"] {
            assert!(Message::read(line.as_bytes()).is_none(), "{line}");
        }
        assert!(Message::read(b"{\"method\":\"\xff\"}").is_none());
    }

    #[test]
    fn an_id_comes_back_as_it_was_written() {
        for id in ["1", "1.0", "-3", "18446744073709551617", r#""a\u0062""#] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"terminal/kill"}}"#);
            let message = Message::read(line.as_bytes()).unwrap();
            let (method, given) = message.asks().unwrap();
            assert_eq!((method, given.get()), ("terminal/kill", id));
            let said = String::from_utf8(answer(Some(given), &Ok(json!({})))).unwrap();
            assert_eq!(said, format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}\n"));
        }
    }
}
