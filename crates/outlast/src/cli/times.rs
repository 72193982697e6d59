//! Times as people say them.

use outlast_client::Time;

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
