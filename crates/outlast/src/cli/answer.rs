//! Answers in JSON that are put together from several requests.

use outlast_client::ProcessInfo;
use serde_json::{Value, json};

/// The fields that only the start of a process has, for answers that come later.
pub(crate) fn of_start(info: &ProcessInfo) -> Value {
    match &info.not_passed_on[..] {
        [] => json!({}),
        names => json!({"not_passed_on": names}),
    }
}

/// Adds the fields of `more` to `object`. They replace fields of the same name.
pub(crate) fn merge(object: &mut Value, more: Value) {
    if let (Value::Object(object), Value::Object(more)) = (object, more) {
        object.extend(more);
    }
}
