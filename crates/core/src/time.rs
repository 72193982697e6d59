//! Times as they are written down: UTC, microseconds.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A time in UTC, in microseconds since 1970. Displayed and serialised as RFC 3339.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

impl Time {
    /// The time `micros` microseconds after the start of 1970.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the start of 1970.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// Seconds from `earlier` to this time. Never negative, so a clock that was set back shows no negative age.
    pub fn seconds_since(self, earlier: Self) -> u64 {
        u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0) / 1_000_000
    }
}

impl std::fmt::Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(t) => write!(f, "{t:.6}"),
            // Outside the calendar. Only a damaged file holds such a time, and it must be printable, too.
            Err(_) => write!(f, "{}us", self.0),
        }
    }
}

impl std::str::FromStr for Time {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        s.parse::<jiff::Timestamp>().map(|t| Self(t.as_microsecond())).map_err(|e| format!("not an RFC 3339 time: {s:?} ({e})"))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let s = std::borrow::Cow::<'de, str>::deserialize(d)?;
        s.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_print_as_rfc_3339_and_read_back() {
        let t = Time::from_micros(1_700_000_000_123_456);
        assert_eq!(t.to_string(), "2023-11-14T22:13:20.123456Z");
        assert_eq!(t.to_string().parse::<Time>().unwrap(), t);
    }

    #[test]
    fn an_age_is_never_negative() {
        assert_eq!(Time::from_micros(0).seconds_since(Time::from_micros(5_000_000)), 0);
    }
}
