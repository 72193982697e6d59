//! Times as users write and read them.

use jiff::civil::{Date, DateTime, Time as TimeOfDay};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use outlast_client::Time;
use std::time::Duration;

/// Reads a time: a number of seconds, or numbers with units from the largest to the smallest (`90s`, `5m`, `1h30m`, `1.5h`, `3d 4h`).
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, f64); 6] = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86_400.0), ("w", 604_800.0)];
    let wrong = || format!("{text:?} is not a time: write seconds (90, 0.5) or a time with units (90s, 5m, 1h30m, 2d)");
    let of_seconds = |s: f64| {
        Duration::try_from_secs_f64(s).map_err(|_| (if s < 0.0 { "must be 0 or more" } else { "is longer than a time can be" }).to_owned())
    };
    if let Ok(seconds) = text.trim().parse::<f64>() {
        return of_seconds(seconds);
    }
    let (mut rest, mut sum, mut last) = (text.trim(), 0.0, f64::INFINITY);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let number: f64 = rest[..digits].parse().map_err(|_| wrong())?;
        let after = &rest[digits..];
        let letters = after.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(after.len());
        let (_, unit) = UNITS.iter().find(|(name, _)| *name == &after[..letters]).ok_or_else(wrong)?;
        if *unit >= last {
            return Err(wrong());
        }
        (sum, last, rest) = (sum + number * unit, *unit, after[letters..].trim_start());
    }
    if last.is_infinite() { Err(wrong()) } else { of_seconds(sum) }
}

/// `45s`, `3m 20s`, `2h 5m`, `3d 4h`.
pub(crate) fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m {}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h {}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// The same without zeros: `5m`, `2h`.
pub(crate) fn round_age(seconds: u64) -> String {
    let age = age(seconds);
    [" 0s", " 0m", " 0h"].iter().find_map(|zero| age.strip_suffix(zero)).unwrap_or(&age).to_owned()
}

/// A time that was waited: `0.5s`, `5m`.
pub(crate) fn short(time: std::time::Duration) -> String {
    match time.as_secs() {
        0 => format!("{}s", time.as_secs_f64()),
        seconds => round_age(seconds),
    }
}

/// `3m 20s ago`. None for a time in the future, as after a clock was set back.
pub(crate) fn ago(time: Time, now: Time) -> Option<String> {
    (time <= now).then(|| format!("{} ago", age(now.seconds_since(time))))
}

/// The time of day, `14:03:22`, with the date if that is not today.
pub(crate) fn clock(time: Time, now: Time, zone: &TimeZone) -> String {
    match (local(time, zone), local(now, zone)) {
        (Some(time), Some(now)) if time.date() == now.date() => time.strftime("%H:%M:%S").to_string(),
        (Some(time), _) => time.strftime("%Y-%m-%d %H:%M:%S").to_string(),
        // Out of the calendar.
        (None, _) => time.to_string(),
    }
}

/// `14:03:22, 3m 20s ago`.
pub(crate) fn clock_and_age(time: Time, now: Time, zone: &TimeZone) -> String {
    let clock = clock(time, now, zone);
    ago(time, now).map_or(clock.clone(), |ago| format!("{clock}, {ago}"))
}

/// A sentence of the engine with its times in the user's time zone.
pub(crate) fn with_clock_times(sentence: &str, now: Time, zone: &TimeZone) -> String {
    let word = |word: &str| {
        let bare = word.trim_end_matches(['.', ':', ',']);
        match bare.parse::<Time>() {
            Ok(time) => format!("{}{}", clock(time, now, zone), &word[bare.len()..]),
            Err(_) => word.to_owned(),
        }
    };
    sentence.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

fn local(time: Time, zone: &TimeZone) -> Option<Zoned> {
    Timestamp::from_microsecond(time.micros()).ok().map(|time| time.to_zoned(zone.clone()))
}

/// A time that a user gives. Without a zone it is in the user's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GivenTime {
    /// `2026-01-31T08:00:00Z`.
    Instant(Time),
    /// `14:30`, on a day that the verb chooses.
    OfDay(TimeOfDay),
    /// `2026-01-31 14:30`, or `2026-01-31`.
    Local(DateTime),
}

impl std::str::FromStr for GivenTime {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(time) = text.parse::<Time>() {
            return Ok(Self::Instant(time));
        }
        if let Some(colon @ (1 | 2)) = text.find(':')
            && let Ok(time) = format!("{:0>width$}", text, width = text.len() + 2 - colon).parse::<TimeOfDay>()
        {
            return Ok(Self::OfDay(time));
        }
        // A date with a zone that could not be read must not be taken for a local one.
        if !text.contains(['Z', 'z', '+', '[']) && text.contains('-') {
            if let Ok(date) = text.parse::<Date>()
                && text.len() == "2026-01-31".len()
            {
                return Ok(Self::Local(date.at(0, 0, 0, 0)));
            }
            if let Ok(time) = text.parse::<DateTime>() {
                return Ok(Self::Local(time));
            }
        }
        Err(format!("{text:?} is not a time such as 14:30, 2026-01-31 14:30 or 2026-01-31T14:30:00Z"))
    }
}

impl GivenTime {
    /// The instant. A time of day is the next one after `now`.
    pub(crate) fn next(self, now: Time, zone: &TimeZone) -> Option<Time> {
        self.resolve(now, zone, |of_day, today| if of_day > now { Some(of_day) } else { today(1) })
    }

    /// The instant. A time of day is the last one before `now`.
    pub(crate) fn last(self, now: Time, zone: &TimeZone) -> Option<Time> {
        self.resolve(now, zone, |of_day, today| if of_day <= now { Some(of_day) } else { today(-1) })
    }

    fn resolve(self, now: Time, zone: &TimeZone, fitting: impl Fn(Time, &dyn Fn(i64) -> Option<Time>) -> Option<Time>) -> Option<Time> {
        let instant =
            |at: DateTime| zone.to_ambiguous_zoned(at).compatible().ok().map(|at| Time::from_micros(at.timestamp().as_microsecond()));
        match self {
            Self::Instant(time) => Some(time),
            Self::Local(at) => instant(at),
            Self::OfDay(of_day) => {
                let today = local(now, zone)?.date();
                let on = |days: i64| instant(today.checked_add(jiff::Span::new().days(days)).ok()?.to_datetime(of_day));
                fitting(on(0)?, &on)
            }
        }
    }
}

/// `1.5 KiB`, `64 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut unit = 0;
    let mut n = bytes as f64;
    while n >= 1024.0 && unit + 1 < UNITS.len() {
        n /= 1024.0;
        unit += 1;
    }
    if unit == 0 || n.fract() == 0.0 { format!("{n:.0} {}", UNITS[unit]) } else { format!("{n:.1} {}", UNITS[unit]) }
}

/// Now.
pub(crate) fn now() -> Time {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Time::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Time {
        text.parse().unwrap()
    }

    fn berlin() -> TimeZone {
        TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
    }

    #[test]
    fn times_are_those_of_the_wall_and_short() {
        let now = time("2026-07-01T12:30:00Z");
        let table = [
            ("2026-07-01T12:03:22.5Z", "14:03:22"),
            ("2026-06-30T22:00:00Z", "00:00:00"),
            ("2026-06-30T21:59:59Z", "2026-06-30 23:59:59"),
            ("2026-01-31T08:00:00Z", "2026-01-31 09:00:00"),
        ];
        for (given, shown) in table {
            assert_eq!(clock(time(given), now, &berlin()), shown, "{given}");
        }
        assert_eq!(clock_and_age(time("2026-07-01T12:26:40Z"), now, &berlin()), "14:26:40, 3m 20s ago");
        let sentence = "Waiting for 2026-07-01T13:00:00.000000Z.";
        assert_eq!(with_clock_times(sentence, now, &berlin()), "Waiting for 15:00:00.");
    }

    #[test]
    fn a_round_time_has_no_zeros() {
        let shown = [10, 60, 90, 300, 600, 7_200, 86_400].map(round_age);
        assert_eq!(shown, ["10s", "1m", "1m 30s", "5m", "10m", "2h", "1d"]);
    }

    #[test]
    fn a_clock_time_is_the_users_own() {
        let now = time("2026-07-01T12:30:00Z");
        let given = |text: &str| text.parse::<GivenTime>().unwrap();
        let table = [
            ("14:45", "2026-07-01T12:45:00Z", "2026-06-30T12:45:00Z"),
            ("14:30:00", "2026-07-02T12:30:00Z", "2026-07-01T12:30:00Z"),
            ("9:00", "2026-07-02T07:00:00Z", "2026-07-01T07:00:00Z"),
            ("2026-01-31 14:30", "2026-01-31T13:30:00Z", "2026-01-31T13:30:00Z"),
            ("2026-01-31T14:30:05", "2026-01-31T13:30:05Z", "2026-01-31T13:30:05Z"),
            ("2026-01-31", "2026-01-30T23:00:00Z", "2026-01-30T23:00:00Z"),
            ("2026-01-31T14:30:00Z", "2026-01-31T14:30:00Z", "2026-01-31T14:30:00Z"),
            ("2026-01-31T14:30:00+02:00", "2026-01-31T12:30:00Z", "2026-01-31T12:30:00Z"),
        ];
        for (text, next, last) in table {
            assert_eq!(given(text).next(now, &berlin()), Some(time(next)), "{text}");
            assert_eq!(given(text).last(now, &berlin()), Some(time(last)), "{text}");
        }
        for bad in ["", "soon", "25:00", "14:60", "14", "1430", "2026-13-01", "2026-01-31T14:30:00+99:00", "20260131"] {
            assert!(bad.parse::<GivenTime>().is_err(), "{bad}");
        }
    }
}
