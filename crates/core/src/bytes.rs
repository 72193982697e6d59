//! Bytes that are nearly always text: arguments, paths, environment values.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// An argument, path or environment value as the system has it: any bytes except NUL.
///
/// In JSON it is a string if it is UTF-8 and `{"hex": "…"}` if it is not. No byte is lost, and readers stay simple.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct OsText(Vec<u8>);

impl OsText {
    /// The bytes, borrowed.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes, taken out.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// As the system's own string type.
    pub fn as_os_str(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }

    /// As a path.
    pub fn as_path(&self) -> &Path {
        Path::new(self.as_os_str())
    }

    /// As text for display. Invalid UTF-8 becomes U+FFFD.
    pub fn to_lossy(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }

    /// Whether it contains a NUL, which no argument, path or value may contain.
    pub fn has_nul(&self) -> bool {
        self.0.contains(&0)
    }
}

impl std::fmt::Debug for OsText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.to_lossy())
    }
}

impl From<&str> for OsText {
    fn from(s: &str) -> Self {
        Self(s.as_bytes().to_vec())
    }
}
impl From<String> for OsText {
    fn from(s: String) -> Self {
        Self(s.into_bytes())
    }
}
impl From<Vec<u8>> for OsText {
    fn from(v: Vec<u8>) -> Self {
        Self(v)
    }
}
impl From<&OsStr> for OsText {
    fn from(s: &OsStr) -> Self {
        Self(s.as_bytes().to_vec())
    }
}
impl From<std::ffi::OsString> for OsText {
    fn from(s: std::ffi::OsString) -> Self {
        Self(s.into_vec())
    }
}
impl From<&Path> for OsText {
    fn from(p: &Path) -> Self {
        p.as_os_str().into()
    }
}

#[derive(Serialize, Deserialize)]
struct Hex {
    hex: String,
}

impl Serialize for OsText {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => s.serialize_str(text),
            Err(_) => Hex { hex: self.0.iter().map(|b| format!("{b:02x}")).collect() }.serialize(s),
        }
    }
}

impl<'de> Deserialize<'de> for OsText {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Text(String),
            Hex(Hex),
        }
        match Either::deserialize(d)? {
            Either::Text(t) => Ok(Self(t.into_bytes())),
            Either::Hex(Hex { hex }) => unhex(&hex).map(Self).ok_or_else(|| de::Error::custom(format!("not hexadecimal: {hex:?}"))),
        }
    }
}

fn unhex(s: &str) -> Option<Vec<u8>> {
    if !s.is_ascii() || !s.len().is_multiple_of(2) {
        return None;
    }
    (0..s.len()).step_by(2).map(|i| u8::from_str_radix(&s[i..i + 2], 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_a_string_and_other_bytes_survive() {
        for (bytes, json) in [(&b"caf\xc3\xa9"[..], "\"café\""), (&b"a\xff"[..], r#"{"hex":"61ff"}"#)] {
            let t = OsText::from(bytes.to_vec());
            assert_eq!(serde_json::to_string(&t).unwrap(), json);
            assert_eq!(serde_json::from_str::<OsText>(json).unwrap(), t);
        }
        assert!(serde_json::from_str::<OsText>(r#"{"hex":"6"}"#).is_err());
    }
}
