//! The log of an SQLite database that one program writes.

use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// How long the log gets before SQLite starts again at its beginning: a thousand pages with their headers.
const LOG_BYTES: u64 = 32 + 1_000 * (24 + 4_096);
/// The log is lengthened only if this much space is free.
const ROOM: u64 = 256 << 20;

/// Writes the log of a database to its full length once. A commit that makes a file longer also waits for the file system's
/// journal; one that overwrites existing bytes does not. SQLite takes zeros after its last entry for the end. The caller is the
/// only writer, and the log exists.
pub fn lengthen_log(database: &Path) -> io::Result<()> {
    let mut path = database.to_owned().into_os_string();
    path.push("-wal");
    let log = std::fs::OpenOptions::new().write(true).open(path)?;
    let (from, room) = (log.metadata()?.len(), rustix::fs::fstatvfs(&log)?);
    if room.f_bavail.saturating_mul(room.f_frsize) < ROOM {
        return Ok(());
    }
    let zeros = vec![0; 64 << 10];
    let mut at = from;
    while at < LOG_BYTES {
        let some = &zeros[..zeros.len().min((LOG_BYTES - at) as usize)];
        if let Err(error) = log.write_all_at(some, at) {
            log.set_len(from)?;
            return Err(error);
        }
        at += some.len() as u64;
    }
    log.sync_data()
}
