//! Changes `initialize`, so that the agent learns that the client has terminals.

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// The same message with the capability `terminal`. All other fields keep their bytes and their order. `None` if it is not a request with
/// parameters.
pub fn with_terminals(line: &[u8]) -> Option<Vec<u8>> {
    let mut message: Fields = serde_json::from_slice(line).ok()?;
    let mut params: Fields = message.object("params")?;
    let mut capabilities = params.object("clientCapabilities").unwrap_or_default();
    capabilities.set("terminal", "true");
    params.set("clientCapabilities", &capabilities.text());
    message.set("params", &params.text());
    let mut changed = message.text().into_bytes();
    changed.push(b'\n');
    Some(changed)
}

/// The fields of an object in their order, each as it was written.
#[derive(Default)]
struct Fields(Vec<(String, Box<RawValue>)>);

impl Fields {
    /// A field that is an object itself.
    fn object(&self, name: &str) -> Option<Self> {
        let (_, value) = self.0.iter().find(|(key, _)| key == name)?;
        serde_json::from_str(value.get()).ok()
    }

    /// Replaces the value of a field, or appends the field.
    fn set(&mut self, name: &str, value: &str) {
        let value = RawValue::from_string(value.to_owned()).expect("made of JSON");
        match self.0.iter_mut().find(|(key, _)| key == name) {
            Some((_, there)) => *there = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    fn text(&self) -> String {
        let field = |(key, value): &(String, Box<RawValue>)| format!("{}:{}", serde_json::Value::from(key.as_str()), value.get());
        format!("{{{}}}", self.0.iter().map(field).collect::<Vec<_>>().join(","))
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        from.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(text: &str) -> Option<String> {
        with_terminals(text.as_bytes()).map(|line| String::from_utf8(line).unwrap())
    }

    #[test]
    fn terminals_are_there_whatever_the_client_said() {
        for said in
            [r#"{"fs":{"readTextFile":true},"terminal":false,"x":1.50}"#, r#"{"fs":{"readTextFile":true},"terminal":true,"x":1.50}"#]
        {
            let line =
                format!(r#"{{"method":"initialize","id":0,"params":{{"z":1,"clientCapabilities":{said},"a":[ 1 ]}},"jsonrpc":"2.0"}}"#);
            let want = r#"{"method":"initialize","id":0,"params":{"z":1,"clientCapabilities":{"fs":{"readTextFile":true},"terminal":true,"x":1.50},"a":[ 1 ]},"jsonrpc":"2.0"}"#;
            assert_eq!(changed(&line), Some(format!("{want}\n")));
        }
    }

    #[test]
    fn capabilities_that_are_not_there_or_no_object_are_made() {
        for params in [
            r#"{"protocolVersion":1}"#,
            r#"{"protocolVersion":1,"clientCapabilities":null}"#,
            r#"{"protocolVersion":1,"clientCapabilities":3}"#,
        ] {
            let line = format!("{{\"id\":1,\"method\":\"initialize\",\"params\":{params}}}\r\n");
            let want = r#"{"id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"terminal":true}}}"#;
            assert_eq!(changed(&line), Some(format!("{want}\n")));
        }
    }

    #[test]
    fn what_has_no_parameters_is_left_to_the_agent() {
        for line in ["{}", "[]", "x", r#"{"params":[1]}"#, r#"{"params":null}"#] {
            assert_eq!(changed(line), None);
        }
    }
}
