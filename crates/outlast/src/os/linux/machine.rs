//! Linux: file systems by their numbers, `/proc`, and systemd.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// I/O class and level of this process.
#[allow(unsafe_code)]
pub(crate) fn io_priority() -> Option<i32> {
    const WHO_PROCESS: libc::c_int = 1;
    // SAFETY: the call takes numbers only.
    let found = unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, 0) };
    i32::try_from(found).ok().filter(|found| *found >= 0)
}

/// How long a file system keeps what was written to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lasting {
    /// As long as the disk lasts.
    Disk,
    /// Until the machine is restarted.
    Memory,
    /// As long as the other side of a network keeps its word.
    Network,
}

/// File systems by the kernel's number, with their names. One that is not listed counts as a disk.
const KINDS: [(i64, &str, Lasting); 18] = [
    (0xef53, "ext4", Lasting::Disk),
    (0x5846_5342, "XFS", Lasting::Disk),
    (0x9123_683e, "btrfs", Lasting::Disk),
    (0x2fc1_2fc1, "ZFS", Lasting::Disk),
    (0xf2f5_2010, "F2FS", Lasting::Disk),
    (0x794c_7630, "overlayfs", Lasting::Disk),
    (0x0102_1994, "tmpfs", Lasting::Memory),
    (0x8584_58f6, "ramfs", Lasting::Memory),
    (0x6969, "NFS", Lasting::Network),
    (0x517b, "SMB", Lasting::Network),
    (0xff53_4d42, "CIFS", Lasting::Network),
    (0xfe53_4d42, "SMB2", Lasting::Network),
    (0x0102_1997, "9p", Lasting::Network),
    (0x00c3_6400, "Ceph", Lasting::Network),
    (0x0bd0_0bd0, "Lustre", Lasting::Network),
    (0x5346_414f, "AFS", Lasting::Network),
    (0x7375_7245, "Coda", Lasting::Network),
    (0x4750_4653, "GPFS", Lasting::Network),
];

/// The file system of a directory (an empty name if it is not listed), and how long it keeps what is written to it.
pub(crate) fn file_system(dir: &Path) -> Option<(&'static str, Lasting)> {
    let found = rustix::fs::statfs(dir).ok()?;
    // The type's width and sign differ between machines; every number fits into 32 bits.
    #[allow(clippy::unnecessary_cast)]
    let number = found.f_type as i64 & 0xffff_ffff;
    let kind = KINDS.iter().find(|(magic, ..)| *magic == number);
    Some(kind.map_or(("", Lasting::Disk), |(_, name, lasting)| (*name, *lasting)))
}

/// The kernel's release.
pub(crate) fn kernel() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// The current directory of this process. A removed one keeps its path, so that a start in it is refused and does not happen elsewhere.
pub(crate) fn working_dir() -> PathBuf {
    std::env::current_dir().unwrap_or_else(|_| {
        let linked = std::fs::read_link("/proc/self/cwd").unwrap_or_else(|_| "/(unknown)".into());
        let named = linked.as_os_str().as_bytes();
        OsStr::from_bytes(named.strip_suffix(b" (deleted)").unwrap_or(named)).into()
    })
}

/// Where a process is in the unified hierarchy of cgroups.
pub(crate) fn cgroup_of(pid: u32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("0::")).map(str::to_owned)
}

/// Whether systemd is the service manager of this machine.
pub(crate) fn systemd_runs() -> bool {
    Path::new("/run/systemd/system").is_dir()
}

/// Whether the processes of a user keep running after a logout.
pub(crate) fn lingers(user: &str) -> bool {
    !user.is_empty() && !user.contains('/') && Path::new("/var/lib/systemd/linger").join(user).exists()
}

/// The processes of a home whose keepers are copies of another program than `current`.
pub(crate) fn older_keepers(home: &Path, current: &Path) -> Vec<String> {
    let bin = home.join("bin");
    let pids = std::fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    let older = pids.filter_map(|pid| {
        // Processes of other users, and ones that have ended, cannot be read.
        let exe = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
        let exe = exe.to_str().map(|path| path.strip_suffix(" (deleted)").unwrap_or(path))?;
        (Path::new(exe).parent() == Some(&bin) && Path::new(exe) != current).then_some(pid)
    });
    let folder = |pid: u32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let names = words.split(|b| *b == 0).filter_map(|word| Path::new(std::str::from_utf8(word).ok()?).file_name()?.to_str());
        names.filter(|name| name.starts_with("proc_")).map(str::to_owned).next_back()
    };
    // Each process has two keepers.
    older.filter_map(folder).collect::<BTreeSet<_>>().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_told_from_disks() {
        assert_eq!(file_system(Path::new("/dev/shm")), Some(("tmpfs", Lasting::Memory)));
        assert_eq!(file_system(Path::new("/nowhere at all")), None);
    }

    #[test]
    fn this_process_is_somewhere() {
        assert!(cgroup_of(u32::MAX).is_none());
        assert!(!kernel().is_empty());
        assert!(!lingers("") && !lingers("../../etc"));
        assert!(older_keepers(Path::new("/nowhere"), Path::new("/nowhere/bin/x")).is_empty());
    }
}
