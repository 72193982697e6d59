//! The keys that leave an `attach`.

use std::str::FromStr;

/// Keys that leave, one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DetachKey {
    bytes: Vec<u8>,
    shown: String,
}

impl Default for DetachKey {
    fn default() -> Self {
        Self { bytes: vec![0x1c], shown: "Ctrl-\\".into() }
    }
}

impl DetachKey {
    /// What the terminal sends for them; nothing if no key leaves.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl std::fmt::Display for DetachKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown)
    }
}

impl FromStr for DetachKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = |why: &str| format!("{text:?} is not a key to leave with: {why}; write ctrl-], ^], ctrl-p,ctrl-q or none");
        if text.eq_ignore_ascii_case("none") {
            return Ok(Self { bytes: Vec::new(), shown: "none".into() });
        }
        let mut all = Self { bytes: Vec::new(), shown: String::new() };
        for word in text.split(',') {
            let (byte, shown) = key(word).ok_or_else(|| bad(&format!("{word:?} is not a key")))?;
            if all.bytes.is_empty() && byte >= 0x20 {
                return Err(bad("the first has to be one that is not typed, such as ctrl-b"));
            }
            if byte == 0x1b && all.bytes.is_empty() {
                return Err(bad("every arrow key begins with Escape"));
            }
            all.bytes.push(byte);
            all.shown += &format!("{}{shown}", if all.shown.is_empty() { "" } else { " " });
        }
        Ok(all)
    }
}

/// One key: `ctrl-x`, `^x` or `C-x`, or what can be typed.
fn key(word: &str) -> Option<(u8, String)> {
    let lower = word.to_ascii_lowercase();
    let of = lower
        .strip_prefix("ctrl-")
        .or_else(|| lower.strip_prefix("c-"))
        .or_else(|| lower.strip_prefix('^').filter(|rest| !rest.is_empty()));
    match of.map(str::as_bytes) {
        Some([c @ (b'a'..=b'z' | b'@' | b'['..=b'_')]) => Some((c & 0x1f, format!("Ctrl-{}", (*c as char).to_ascii_uppercase()))),
        Some(_) => None,
        None => match word.as_bytes() {
            [c @ b'!'..=b'~'] => Some((*c, (*c as char).to_string())),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_written_in_several_ways() {
        for (text, bytes, shown) in [
            ("ctrl-\\", &[0x1c][..], "Ctrl-\\"),
            ("^]", &[0x1d], "Ctrl-]"),
            ("C-a", &[1], "Ctrl-A"),
            ("CTRL-P,ctrl-q", &[0x10, 0x11], "Ctrl-P Ctrl-Q"),
            ("ctrl-b,d", &[2, b'd'], "Ctrl-B d"),
            ("none", &[], "none"),
        ] {
            let key: DetachKey = text.parse().unwrap();
            assert_eq!((key.bytes(), key.to_string().as_str()), (bytes, shown), "{text}");
        }
        assert_eq!("ctrl-\\".parse(), Ok(DetachKey::default()));
        for bad in ["", "q", "d,ctrl-a", "ctrl-", "ctrl-ab", "ctrl-é", "^", "ctrl-[", "ctrl-a,", "escape"] {
            assert!(bad.parse::<DetachKey>().is_err(), "{bad}");
        }
    }
}
