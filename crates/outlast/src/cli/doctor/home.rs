//! The home: its owner, file system, free space and sockets.

use super::super::times;
use super::Check;
use crate::os::{self, Container, Lasting};
use rustix::fs::{Access, access, statvfs};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// A home with less room than this will soon drop output.
const LITTLE_ROOM: u64 = 100 << 20;
/// Each process takes a handful of files, and each longer log a few more.
const FEW_FILES: u64 = 1_000;

pub(super) fn checks(home: &Path, container: Option<Container>) -> Vec<Check> {
    let mut all = vec![owned(home)];
    if home.is_dir() {
        let device = |path: &Path| std::fs::metadata(path).map(|m| m.dev()).ok();
        // Everything on a container's root file system is removed with the container, with every storage driver.
        let goes_with = container.filter(|_| device(home) == device(Path::new("/")));
        all.push(lasting(os::file_system(home), container, goes_with));
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
        Err(e) => {
            return Check::broken(NAME, format!("{shown}: {e}"))
                .means("nothing can be started or asked for")
                .hint("create it, or set OUTLAST_HOME to a directory that you may write");
        }
    };
    if meta.uid() != rustix::process::geteuid().as_raw() {
        return Check::broken(NAME, format!("{shown} belongs to user {}", meta.uid()))
            .means("an engine serves only a home of its own user")
            .hint("set OUTLAST_HOME to a directory of yours");
    }
    if access(home, Access::WRITE_OK).is_err() {
        return Check::broken(NAME, format!("{shown} cannot be written"))
            .means("no new command can be started; running ones keep running")
            .hint("make it writable, or set OUTLAST_HOME to a directory that is");
    }
    let mode = meta.mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Check::degraded(NAME, &["P8"], format!("{shown} has mode {mode:o}"))
            .means("other users of this machine can look into it")
            .hint(format!("chmod 700 {shown}"));
    }
    Check::ok(NAME, format!("{shown}, only yours"))
}

/// How long the home's file system keeps it. `goes_with`: the container, if it is the container's own file system.
fn lasting(found: Option<(&str, Lasting)>, container: Option<Container>, goes_with: Option<Container>) -> Check {
    const NAME: &str = "file system";
    let restart = if container.is_some() { "a restart of the container" } else { "a restart of the machine" };
    match (found, goes_with) {
        (Some((kind, Lasting::Memory)), _) => Check::degraded(NAME, &["P1", "P2", "P3"], format!("the home is in memory ({kind})"))
            .means(format!("{restart} removes requests, output and exit codes, and no notice says what was lost"))
            .hint(match container {
                Some(_) => "put OUTLAST_HOME on a volume",
                None => "set OUTLAST_HOME to a directory on a disk",
            }),
        (Some((kind, Lasting::Network)), _) => {
            Check::degraded(NAME, &["P1", "P2", "P5"], format!("the home is on a network file system ({kind})"))
                .means("its locks may not keep a second machine out, and the server may lose what was synced")
                .hint("set OUTLAST_HOME to a directory on a disk of this machine")
        }
        (Some((kind, Lasting::Disk)), Some(container)) => {
            let kind = if kind.is_empty() { "its own file system" } else { kind };
            Check::ok(NAME, format!("{kind} of the container: survives its restart, and {}", container.removal()))
                .hint("put OUTLAST_HOME on a volume to keep it longer")
        }
        (Some((kind, Lasting::Disk)), None) => {
            let name = if kind.is_empty() { String::new() } else { format!(" ({kind})") };
            let what = if container.is_some() { "a volume of the container" } else { "a disk of this machine" };
            Check::ok(NAME, format!("{what}{name}"))
        }
        (None, _) => Check::degraded(NAME, &[], "the file system of the home cannot be read").hint("look at it with `df`"),
    }
}

fn room(home: &Path) -> Check {
    const NAME: &str = "disk space";
    let Ok(s) = statvfs(home) else {
        return Check::degraded(NAME, &["P2"], "the free disk space of the home cannot be read")
            .means("output may be dropped without an earlier warning")
            .hint("look at it with `df`");
    };
    let bytes = s.f_bavail.saturating_mul(s.f_frsize);
    let means = "once it is full, output is dropped and shown as a gap, and no new command is started; exit codes are still recorded";
    let hint = "free some disk space: `outlast clean` removes finished processes, and a smaller retention.bytes keeps less";
    if bytes < LITTLE_ROOM {
        return Check::degraded(NAME, &["P2"], format!("{} are left for the home", times::size(bytes))).means(means).hint(hint);
    }
    // Some file systems count no files.
    if s.f_files > 0 && s.f_favail < FEW_FILES {
        return Check::degraded(NAME, &["P1", "P2"], format!("{} more files can be created in the home", s.f_favail))
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
            .means("clients cannot reach the engine until it has created the directory again")
            .hint("`outlast engine stop` if one runs; the next command starts one, which creates it")
    };
    let dir = match std::fs::read_link(&link) {
        Ok(dir) => home.join(dir),
        Err(e) => return missing(&link, e),
    };
    let shown = dir.display();
    match std::fs::symlink_metadata(&dir) {
        Err(e) => missing(&dir, e),
        Ok(meta) if meta.uid() != rustix::process::geteuid().as_raw() || meta.mode() & 0o077 != 0 => {
            Check::broken(NAME, format!("{shown} can be used by other users"))
                .means("another user could impersonate the engine")
                .hint("`outlast engine stop`, then remove the link `run` in the home")
        }
        Ok(_) => Check::ok(NAME, shown.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::CheckState;
    use super::super::tests::shown;
    use super::*;

    #[test]
    fn file_systems_are_described_for_the_place() {
        let docker = Some(Container::Docker);
        let cases = [
            ("a machine", Some(("ext4", Lasting::Disk)), None, None),
            ("a machine, a file system that is not listed", Some(("", Lasting::Disk)), None, None),
            ("a machine, in memory", Some(("tmpfs", Lasting::Memory)), None, None),
            ("a machine, on a network", Some(("NFS", Lasting::Network)), None, None),
            ("Docker", Some(("overlayfs", Lasting::Disk)), docker, docker),
            ("Docker, on a volume", Some(("ext4", Lasting::Disk)), docker, None),
            ("Docker, in memory", Some(("tmpfs", Lasting::Memory)), docker, None),
            ("not to be read", None, None, None),
        ];
        let text = cases.map(|(name, found, container, goes_with)| format!("# {name}\n{}", shown(&[lasting(found, container, goes_with)])));
        insta::assert_snapshot!(text.join("\n"));
    }

    #[test]
    fn a_home_is_looked_at_from_all_sides() {
        let tmp = tempfile::tempdir().unwrap();
        let home = tmp.path().join("home");
        assert_eq!(checks(&home, None).iter().map(|c| c.state).collect::<Vec<_>>(), [CheckState::Broken]);
        std::fs::create_dir(&home).unwrap();
        std::fs::set_permissions(&home, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let open = owned(&home);
        assert_eq!((open.state, open.promises), (CheckState::Degraded, &["P8"][..]), "{open:?}");
        assert_eq!(sockets(&home).state, CheckState::Degraded);
        std::os::unix::fs::symlink(&home, home.join("run")).unwrap();
        assert_eq!(sockets(&home).state, CheckState::Broken);
    }
}
