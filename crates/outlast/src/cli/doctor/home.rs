//! The home: whose it is, what it lies on, how much room there is.

use super::super::times;
use super::Check;
use crate::os::{self, Lasting};
use rustix::fs::{Access, access, statvfs};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// A home with less room than this will soon drop output.
const LITTLE_ROOM: u64 = 100 << 20;
/// Each process takes a handful of files, and each longer log a few more.
const FEW_FILES: u64 = 1_000;

pub(super) fn checks(home: &Path) -> Vec<Check> {
    let mut all = vec![owned(home)];
    if home.is_dir() {
        all.push(lasting(home));
        all.push(room(home));
        all.push(sockets(home));
    }
    all
}

fn owned(home: &Path) -> Check {
    const NAME: &str = "home";
    let shown = home.display();
    let meta = match std::fs::metadata(home) {
        Ok(meta) => meta,
        Err(e) => return Check::broken(NAME, format!("{shown}: {e}")).hint("make it, or set OUTLAST_HOME to a directory of yours"),
    };
    if meta.uid() != rustix::process::geteuid().as_raw() {
        return Check::broken(NAME, format!("{shown} belongs to user {}", meta.uid()))
            .means("no engine serves somebody else's home")
            .hint("set OUTLAST_HOME to a directory of yours");
    }
    if access(home, Access::WRITE_OK).is_err() {
        return Check::broken(NAME, format!("{shown} cannot be written"))
            .means("nothing new can be started; what runs goes on")
            .hint("make it writable, or set OUTLAST_HOME");
    }
    let mode = meta.mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Check::degraded(NAME, &["P8"], format!("{shown} has mode {mode:o}"))
            .means("other users of this machine can look into it")
            .hint(format!("chmod 700 {shown}"));
    }
    Check::ok(NAME, format!("{shown}, yours alone"))
}

fn lasting(home: &Path) -> Check {
    const NAME: &str = "file system";
    match os::file_system(home) {
        Some((kind, Lasting::Memory)) => Check::degraded(NAME, &["P1", "P2", "P3"], format!("the home lies in memory ({kind})"))
            .means("a restart of the machine takes requests, output and exit codes along, and nobody is told what was lost")
            .hint("set OUTLAST_HOME to a directory on a disk"),
        Some((kind, Lasting::Network)) => Check::degraded(NAME, &["P1", "P2", "P5"], format!("the home lies on a network ({kind})"))
            .means("its locks may not keep a second machine out, and what was synced may still be lost with the server")
            .hint("set OUTLAST_HOME to a directory on a disk of this machine"),
        Some((kind, Lasting::Disk)) => Check::ok(NAME, format!("{kind} of this machine")),
        None => Check::degraded(NAME, &[], "nobody can say what the home lies on").hint("look at it with `df`"),
    }
}

fn room(home: &Path) -> Check {
    const NAME: &str = "room";
    let Ok(s) = statvfs(home) else { return Check::degraded(NAME, &["P2"], "nobody can say how much room there is") };
    let bytes = s.f_bavail.saturating_mul(s.f_frsize);
    let means = "when it is used up, output is dropped, with a gap that says so, and nothing new is started; exit codes are still recorded";
    let hint = "free some room: `outlast clean` forgets what is finished, retention.bytes keeps less";
    if bytes < LITTLE_ROOM {
        return Check::degraded(NAME, &["P2"], format!("{} are left for the home", times::size(bytes))).means(means).hint(hint);
    }
    // Some file systems count no files.
    if s.f_files > 0 && s.f_favail < FEW_FILES {
        return Check::degraded(NAME, &["P1", "P2"], format!("{} files can still be made for the home", s.f_favail))
            .means(means)
            .hint(hint);
    }
    Check::ok(NAME, format!("{} free", times::size(bytes)))
}

fn sockets(home: &Path) -> Check {
    const NAME: &str = "sockets";
    let link = home.join("run");
    let missing = |path: &Path, e: std::io::Error| {
        Check::degraded(NAME, &[], format!("{}: {e}", path.display()))
            .means("the engine cannot be reached until it has made it again")
            .hint("any command that starts an engine makes it; `outlast engine stop` if one runs")
    };
    let dir = match std::fs::read_link(&link) {
        Ok(dir) => home.join(dir),
        Err(e) => return missing(&link, e),
    };
    let shown = dir.display();
    match std::fs::symlink_metadata(&dir) {
        Err(e) => missing(&dir, e),
        Ok(meta) if meta.uid() != rustix::process::geteuid().as_raw() || meta.mode() & 0o077 != 0 => {
            Check::broken(NAME, format!("{shown} is not yours alone"))
                .means("somebody else could pass for the engine")
                .hint("remove the link `run` in the home and end the engine")
        }
        Ok(_) => match os::file_system(&dir) {
            Some((_, Lasting::Memory)) => Check::ok(NAME, shown.to_string()),
            _ => Check::ok(NAME, format!("{shown} (a restart of the machine leaves old sockets there, which do no harm)")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn a_home_is_looked_at_from_all_sides() {
        let tmp = tempfile::tempdir().unwrap();
        let home = tmp.path().join("home");
        assert_eq!(checks(&home).iter().map(|c| c.state).collect::<Vec<_>>(), [State::Broken]);
        std::fs::create_dir(&home).unwrap();
        std::fs::set_permissions(&home, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let open = owned(&home);
        assert_eq!((open.state, open.promises), (State::Degraded, &["P8"][..]), "{open:?}");
        let shm = lasting(Path::new("/dev/shm"));
        assert!(shm.state == State::Degraded && shm.means.contains("restart"), "{shm:?}");
        assert_eq!(sockets(&home).state, State::Degraded);
        std::os::unix::fs::symlink(&home, home.join("run")).unwrap();
        assert_eq!(sockets(&home).state, State::Broken);
    }
}
