//! The time of day where the user is.
#![allow(unsafe_code)]

/// How many seconds local time is ahead of UTC at this time, given in seconds since 1970, with the daylight saving time of that day. 0 if the system
/// cannot say. `TZ`, else `/etc/localtime`, is read once.
#[allow(dead_code)] // Only the gateway has a time of day.
pub(crate) fn utc_offset_seconds(at: i64) -> i32 {
    // SAFETY: all bits zero are a value of this type.
    let mut local: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both point to values that live as long as the call. `TZ` is read, which no thread of ours changes.
    let found = unsafe { libc::localtime_r(&at, &mut local) };
    if found.is_null() { 0 } else { i32::try_from(local.tm_gmtoff).unwrap_or(0) }
}
