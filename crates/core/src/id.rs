//! The id of a process, and the ways to name one.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// `proc_` and twelve hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId([u8; 6]);

const PREFIX: &str = "proc_";
/// How many hexadecimal digits a prefix needs before it may name a process.
const SHORTEST: usize = 4;

impl ProcessId {
    /// The id with these six bytes. The caller draws them at random.
    pub const fn from_bytes(bytes: [u8; 6]) -> Self {
        Self(bytes)
    }

    /// The six bytes.
    pub const fn bytes(self) -> [u8; 6] {
        self.0
    }
}

impl std::fmt::Display for ProcessId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(PREFIX)?;
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

/// A text that names no process.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not a process id: expected proc_ and 12 hexadecimal digits, or at least {SHORTEST} of them")]
pub struct BadId {
    /// The text, cut after 80 characters.
    pub given: String,
}

impl std::str::FromStr for ProcessId {
    type Err = BadId;
    fn from_str(s: &str) -> Result<Self, BadId> {
        let bad = || BadId { given: s.chars().take(80).collect() };
        match s.parse::<IdRef>()? {
            IdRef::Exact(id) if s.starts_with(PREFIX) => Ok(id),
            IdRef::Exact(_) | IdRef::Prefix(_) => Err(bad()),
        }
    }
}

/// How a caller names a process: by its whole id, or by a prefix that must be unique.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdRef {
    /// All twelve digits.
    Exact(ProcessId),
    /// Four to eleven digits, in lower case.
    Prefix(String),
}

impl IdRef {
    /// Whether `id` is this id, or begins with this prefix.
    pub fn matches(&self, id: ProcessId) -> bool {
        match self {
            Self::Exact(exact) => *exact == id,
            Self::Prefix(p) => id.to_string()[PREFIX.len()..].starts_with(p.as_str()),
        }
    }
}

impl std::str::FromStr for IdRef {
    type Err = BadId;
    fn from_str(s: &str) -> Result<Self, BadId> {
        let bad = || BadId { given: s.chars().take(80).collect() };
        let hex = s.strip_prefix(PREFIX).unwrap_or(s);
        if !(SHORTEST..=12).contains(&hex.len()) || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(bad());
        }
        let hex = hex.to_ascii_lowercase();
        if hex.len() < 12 {
            return Ok(Self::Prefix(hex));
        }
        let mut bytes = [0; 6];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).map_err(|_| bad())?;
        }
        Ok(Self::Exact(ProcessId(bytes)))
    }
}

impl Serialize for ProcessId {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ProcessId {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let s = std::borrow::Cow::<'de, str>::deserialize(d)?;
        s.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: ProcessId = ProcessId::from_bytes([0xab, 0x12, 0, 0, 0, 0xff]);

    #[test]
    fn ids_print_and_read_back() {
        assert_eq!(ID.to_string(), "proc_ab12000000ff");
        assert_eq!("proc_ab12000000ff".parse(), Ok(ID));
    }

    #[test]
    fn case_102_prefixes_need_four_digits() {
        for good in ["ab12", "proc_ab12", "AB12", "proc_ab12000000f"] {
            assert!(good.parse::<IdRef>().unwrap().matches(ID), "{good}");
        }
        for bad in ["", "ab1", "proc_", "proc_ab1", "proc_ab12000000ff0", "xyzw", "../../etc", "proc_ab12 "] {
            assert!(bad.parse::<IdRef>().is_err(), "{bad}");
        }
        assert!(!"ab13".parse::<IdRef>().unwrap().matches(ID));
    }
}
