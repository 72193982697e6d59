//! Reads the id and the method of a message that is too long to be held.
//!
//! Decision 115: docs/decisions/acp.md.

use serde_json::value::RawValue;

/// The longest `id` and `method` that are kept.
const MAX_FIELD_BYTES: usize = 1 << 10;

/// What is known of an oversized message: the fields of its outermost level.
#[derive(Debug, Clone, Default)]
pub struct OversizedMessage {
    /// Its `id`, as it was written; `None` if it is missing, `null` or not valid.
    pub id: Option<Box<RawValue>>,
    /// Its `method`.
    pub method: Option<String>,
    /// Its length, with its line end.
    pub bytes: u64,
}

impl PartialEq for OversizedMessage {
    fn eq(&self, other: &Self) -> bool {
        let id = |s: &Self| s.id.as_ref().map(|id| id.get().to_owned());
        (id(self), &self.method, self.bytes) == (id(other), &other.method, other.bytes)
    }
}

impl Eq for OversizedMessage {}

/// Reads a message in pieces, and keeps only its outermost `id` and `method`.
#[derive(Debug, Default)]
pub struct OversizedReader {
    bytes: u64,
    depth: u32,
    string: InString,
    /// What comes next at the outermost level.
    expecting: Expecting,
    key: Vec<u8>,
    id: CapturedText,
    method: CapturedText,
    /// It is not an object, so it has no fields.
    is_not_object: bool,
}

/// The position relative to a string.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum InString {
    #[default]
    Outside,
    Inside,
    /// After a backslash.
    Escaped,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Expecting {
    #[default]
    Key,
    Value,
}

/// A value that is kept unless it is too long.
#[derive(Debug, Default)]
struct CapturedText {
    text: Vec<u8>,
    /// Whether the value has begun.
    has_begun: bool,
}

impl OversizedReader {
    /// Takes a piece.
    pub fn push(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.bytes += 1;
            self.byte(b);
        }
    }

    /// The fields that were found.
    pub fn finish(self) -> OversizedMessage {
        let id = self.id.value().filter(|id| {
            let first = id.get().as_bytes().first();
            first.is_some_and(|b| *b == b'"' || *b == b'-' || b.is_ascii_digit())
        });
        let method = self.method.value().and_then(|text| serde_json::from_str(text.get()).ok());
        OversizedMessage { id, method, bytes: self.bytes }
    }

    fn byte(&mut self, b: u8) {
        if self.is_not_object {
            return;
        }
        match (self.string, b) {
            (InString::Escaped, _) => self.string = InString::Inside,
            (InString::Inside, b'\\') => self.string = InString::Escaped,
            (InString::Inside, b'"') => self.string = InString::Outside,
            (InString::Inside, _) => {}
            (InString::Outside, b'"') => self.string = InString::Inside,
            (InString::Outside, _) => return self.mark(b),
        }
        self.keep(b);
    }

    /// Handles a byte outside of a string.
    fn mark(&mut self, b: u8) {
        match b {
            b'{' | b'[' => {
                self.is_not_object |= self.depth == 0 && b == b'[';
                if self.depth > 0 {
                    self.keep(b);
                }
                self.depth = self.depth.saturating_add(1);
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                if self.depth > 0 {
                    self.keep(b);
                }
            }
            b',' if self.depth == 1 => {
                self.expecting = Expecting::Key;
                self.key.clear();
            }
            b':' if self.depth == 1 => self.expecting = Expecting::Value,
            b if b.is_ascii_whitespace() => {}
            _ if self.depth == 0 => self.is_not_object = true,
            _ => self.keep(b),
        }
    }

    fn keep(&mut self, b: u8) {
        if self.depth == 0 {
            // A string in place of an object.
            self.is_not_object = true;
            return;
        }
        match self.expecting {
            // Keys are only at the outermost level: deeper levels are part of a value.
            Expecting::Key if self.key.len() < MAX_FIELD_BYTES => self.key.push(b),
            Expecting::Key => {}
            Expecting::Value => match &self.key[..] {
                b"\"id\"" => self.id.push(b),
                b"\"method\"" => self.method.push(b),
                _ => {}
            },
        }
    }
}

impl CapturedText {
    fn push(&mut self, b: u8) {
        self.has_begun = true;
        if self.text.len() <= MAX_FIELD_BYTES {
            self.text.push(b);
        }
    }

    fn value(self) -> Option<Box<RawValue>> {
        if !self.has_begun || self.text.len() > MAX_FIELD_BYTES {
            return None;
        }
        RawValue::from_string(String::from_utf8(self.text).ok()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> (Option<String>, Option<String>) {
        let mut reader = OversizedReader::default();
        text.as_bytes().chunks(3).for_each(|piece| reader.push(piece));
        let found = reader.finish();
        assert_eq!(found.bytes, text.len() as u64);
        (found.id.map(|id| id.get().to_owned()), found.method)
    }

    #[test]
    fn the_outermost_id_and_method_are_found_wherever_they_stand() {
        let some = |id: &str, method: &str| (Some(id.to_owned()), Some(method.to_owned()));
        assert_eq!(of(r#"{"id":1,"method":"m"}"#), some("1", "m"));
        assert_eq!(
            of(r#" { "params" : {"id":2,"method":"no","x":["id",3]} , "method" : "fs\/x" , "id" : "a\"}b" } "#),
            some(r#""a\"}b""#, "fs/x")
        );
        assert_eq!(of(r#"{"result":"\\","id":-5}"#), (Some("-5".into()), None));
        assert_eq!(of(r#"{"method":"m","params":[1,{"id":7}]}"#), (None, Some("m".into())));
    }

    #[test]
    fn what_is_no_id_is_none() {
        for text in [r#"{"id":null}"#, r#"{"id":{"a":1}}"#, r#"{"id":true}"#, "[1]", "\"id\"", "{", "", r#"[{"id":1}]"#, r#"{"id":1x}"#] {
            assert_eq!(of(text).0, None, "{text}");
        }
        assert_eq!(of(&format!(r#"{{"id":"{}"}}"#, "x".repeat(MAX_FIELD_BYTES))).0, None);
    }
}
