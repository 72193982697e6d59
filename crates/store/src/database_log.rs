//! The log of an SQLite database that one program writes.

use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// How long the log becomes before SQLite begins anew at its front: a thousand pages with their heads.
const LOG_BYTES: u64 = 32 + 1_000 * (24 + 4_096);
/// Only where there is so much room that nobody misses those bytes.
const ROOM: u64 = 256 << 20;

/// Writes the log of a database to its full length once. A commit that makes a file longer waits for the file system's own journal as well; one that writes over
/// what is there does not. To SQLite, zeros behind what it wrote are the end. The caller is the only one who writes, and there is a log.
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
