//! Times as people say them.

use outlast_client::Time;
use std::time::Duration;

/// Reads a time: a number of seconds, or numbers with units from the largest to the smallest (`90s`, `5m`, `1h30m`, `1.5h`, `3d 4h`).
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, f64); 6] = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86_400.0), ("w", 604_800.0)];
    let wrong = || format!("{text:?} is not a time: write seconds (90, 0.5) or a time with units (90s, 5m, 1h30m, 2d)");
    let of_seconds = |s: f64| Duration::try_from_secs_f64(s).map_err(|_| format!("{text} is not a time from 0 on"));
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

/// `3m 20s ago`; of a time that has not come, as a clock that was set back makes them, nothing is said.
pub(crate) fn ago(time: Time, now: Time) -> Option<String> {
    (time <= now).then(|| format!("{} ago", age(now.seconds_since(time))))
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
