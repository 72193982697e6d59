//! What is known of a message that is too long to be held: whose answer it is, or what it asks for.
//!
//! Decision 115: docs/decisions/acp.md.

use serde_json::value::RawValue;

/// The longest `id` and `method` that are looked for.
const MOST: usize = 1 << 10;

/// What a message says of itself at its outermost level.
#[derive(Debug, Clone, Default)]
pub struct Skimmed {
    /// Its `id`, as it was written; nothing for one that is none or `null`.
    pub id: Option<Box<RawValue>>,
    /// Its `method`.
    pub method: Option<String>,
    /// How long it is, its end of line included.
    pub bytes: u64,
}

impl PartialEq for Skimmed {
    fn eq(&self, other: &Self) -> bool {
        let id = |s: &Self| s.id.as_ref().map(|id| id.get().to_owned());
        (id(self), &self.method, self.bytes) == (id(other), &other.method, other.bytes)
    }
}

impl Eq for Skimmed {}

/// Reads a message in pieces, and keeps its outermost `id` and `method` alone.
#[derive(Debug, Default)]
pub struct Skim {
    bytes: u64,
    depth: u32,
    string: Str,
    /// What the outermost level is about to say.
    place: Place,
    key: Vec<u8>,
    id: Kept,
    method: Kept,
    /// It is no object, so it has no fields.
    strange: bool,
}

/// Where in a string.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Str {
    #[default]
    Outside,
    Inside,
    /// Behind a backslash.
    Escaped,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Place {
    #[default]
    Key,
    Value,
}

/// A value that is kept, unless it is too long.
#[derive(Debug, Default)]
struct Kept {
    text: Vec<u8>,
    /// It was begun.
    some: bool,
}

impl Skim {
    /// Takes a piece.
    pub fn push(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.bytes += 1;
            self.byte(b);
        }
    }

    /// What was found.
    pub fn finish(self) -> Skimmed {
        let id = self.id.value().filter(|id| {
            let first = id.get().as_bytes().first();
            first.is_some_and(|b| *b == b'"' || *b == b'-' || b.is_ascii_digit())
        });
        let method = self.method.value().and_then(|text| serde_json::from_str(text.get()).ok());
        Skimmed { id, method, bytes: self.bytes }
    }

    fn byte(&mut self, b: u8) {
        if self.strange {
            return;
        }
        match (self.string, b) {
            (Str::Escaped, _) => self.string = Str::Inside,
            (Str::Inside, b'\\') => self.string = Str::Escaped,
            (Str::Inside, b'"') => self.string = Str::Outside,
            (Str::Inside, _) => {}
            (Str::Outside, b'"') => self.string = Str::Inside,
            (Str::Outside, _) => return self.mark(b),
        }
        self.keep(b);
    }

    /// Something outside of a string.
    fn mark(&mut self, b: u8) {
        match b {
            b'{' | b'[' => {
                self.strange |= self.depth == 0 && b == b'[';
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
                self.place = Place::Key;
                self.key.clear();
            }
            b':' if self.depth == 1 => self.place = Place::Value,
            b if b.is_ascii_whitespace() => {}
            _ if self.depth == 0 => self.strange = true,
            _ => self.keep(b),
        }
    }

    fn keep(&mut self, b: u8) {
        if self.depth == 0 {
            // A text in place of an object.
            self.strange = true;
            return;
        }
        match self.place {
            // Keys are at the outermost level alone: what is deeper is a value of one of them.
            Place::Key if self.key.len() < MOST => self.key.push(b),
            Place::Key => {}
            Place::Value => match &self.key[..] {
                b"\"id\"" => self.id.push(b),
                b"\"method\"" => self.method.push(b),
                _ => {}
            },
        }
    }
}

impl Kept {
    fn push(&mut self, b: u8) {
        self.some = true;
        if self.text.len() <= MOST {
            self.text.push(b);
        }
    }

    fn value(self) -> Option<Box<RawValue>> {
        if !self.some || self.text.len() > MOST {
            return None;
        }
        RawValue::from_string(String::from_utf8(self.text).ok()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> (Option<String>, Option<String>) {
        let mut skim = Skim::default();
        text.as_bytes().chunks(3).for_each(|piece| skim.push(piece));
        let found = skim.finish();
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
        assert_eq!(of(&format!(r#"{{"id":"{}"}}"#, "x".repeat(MOST))).0, None);
    }
}
