//! What some tests need from the machine: root, private mounts, cgroups. If it is not available, the test prints its name and is
//! skipped.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// Prints that a test is skipped, and why.
pub fn skipped(name: &str, why: impl std::fmt::Display) {
    eprintln!("skipped: {name}: {why}");
}

/// Whether this is root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether other users may enter every directory above `dir`. With a private `TMPDIR` they cannot. A test can change the owner of
/// `dir` itself.
pub fn lets_others_in(dir: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let is_open = |dir: &Path| std::fs::metadata(dir).is_ok_and(|meta| meta.permissions().mode() & 0o001 != 0);
    dir.ancestors().skip(1).all(is_open)
}

/// Whether this process may raise a lowered priority again (CAP_SYS_NICE). Root in a container often may not.
pub fn may_raise_priority() -> bool {
    const CAP_SYS_NICE: u32 = 23;
    has_capability(CAP_SYS_NICE)
}

/// Whether this process may examine processes of other users (CAP_SYS_PTRACE). Root in a container often may not.
pub fn may_examine_others() -> bool {
    const CAP_SYS_PTRACE: u32 = 19;
    has_capability(CAP_SYS_PTRACE)
}

fn has_capability(number: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).is_some_and(|bits| bits & (1 << number) != 0)
}

/// Runs `what` on a thread with mounts of its own. Processes that it starts share them, and the last of them ends them. An error if
/// the machine does not allow that; then `what` did not run.
pub fn in_own_mounts(what: impl FnOnce() + Send) -> Result<()> {
    ensure!(is_root(), "only root may make mounts");
    let ran = std::thread::scope(|scope| {
        scope
            .spawn(|| -> Result<()> {
                own_mounts()?;
                call("mount", &["--make-rprivate", "/"])?;
                what();
                Ok(())
            })
            .join()
    });
    ran.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[allow(unsafe_code)]
fn own_mounts() -> Result<()> {
    // SAFETY: unshare touches no memory; it changes this thread alone, which was made for it and ends soon.
    match unsafe { libc::unshare(libc::CLONE_NEWNS) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()).context("unshare the mounts"),
    }
}

/// Runs `what` in `dir`, on a thread of another, unprivileged user. Relative paths work whatever the directories above allow. An
/// error if the machine does not allow that; then `what` did not run.
pub fn as_stranger<T: Send>(dir: &Path, what: impl FnOnce() -> T + Send) -> Result<T> {
    ensure!(is_root(), "only root can become another user");
    let ran = std::thread::scope(|scope| {
        scope
            .spawn(|| -> Result<T> {
                own_directory()?;
                std::env::set_current_dir(dir).with_context(|| format!("go to {}", dir.display()))?;
                become_nobody()?;
                Ok(what())
            })
            .join()
    });
    ran.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[allow(unsafe_code)]
fn own_directory() -> Result<()> {
    // SAFETY: unshare touches no memory; it changes this thread alone, which was made for it and ends soon.
    match unsafe { libc::unshare(libc::CLONE_FS) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()).context("have a directory of our own"),
    }
}

/// The user and group without files.
const NOBODY: libc::uid_t = 65534;

#[allow(unsafe_code)]
fn become_nobody() -> Result<()> {
    let none: *const libc::gid_t = std::ptr::null();
    // SAFETY: these are the raw system calls, which unlike the library's functions change this thread alone. The thread was made
    // for this and ends soon. No list is read.
    let done = unsafe {
        libc::syscall(libc::SYS_setgroups, 0, none) == 0
            && libc::syscall(libc::SYS_setresgid, NOBODY, NOBODY, NOBODY) == 0
            && libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) == 0
    };
    ensure!(done, "become user {NOBODY}: {}", std::io::Error::last_os_error());
    Ok(())
}

/// Creates a file system of this kind and size, and mounts it at `dir`. An error if the machine cannot.
pub fn mount_image(dir: &Path, kind: &str, mib: u64) -> Result<()> {
    let image = tempfile::NamedTempFile::new()?;
    image.as_file().set_len(mib << 20)?;
    let path = image.path().to_str().context("a path in UTF-8")?;
    let force = if kind == "ext4" { "-F" } else { "-f" };
    call(&format!("mkfs.{kind}"), &["-q", force, path])?;
    std::fs::create_dir_all(dir)?;
    // The loop device keeps the file until it is unmounted.
    call("mount", &["-o", "loop", path, dir.to_str().context("a path in UTF-8")?])?;
    std::fs::set_permissions(dir, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    Ok(())
}

/// Fills a file system completely, with files that [`free`] removes.
pub fn fill(dir: &Path) -> Result<()> {
    use std::io::Write;
    for round in 0..3 {
        let mut ballast = std::fs::File::create(dir.join(format!("ballast-{round}"))).ok();
        for size in [1 << 20, 64 << 10, 4096, 1] {
            while ballast.as_mut().is_some_and(|file| file.write_all(&vec![1; size]).is_ok()) {}
        }
        // Delayed allocation may free some space when it is written out.
        call("sync", &["-f", dir.to_str().context("a path in UTF-8")?])?;
    }
    ensure!(std::fs::write(dir.join("ballast-more"), [1; 8192]).is_err(), "{} does not fill up", dir.display());
    Ok(())
}

/// Removes the files of [`fill`].
pub fn free(dir: &Path) -> Result<()> {
    for name in ["ballast-0", "ballast-1", "ballast-2", "ballast-more"] {
        // A file is missing if there was no space even for its name.
        let _none = std::fs::remove_file(dir.join(name));
    }
    call("sync", &["-f", dir.to_str().context("a path in UTF-8")?])
}

/// Mounts a tmpfs of this many bytes at `dir`, which is created.
pub fn mount_tmpfs(dir: &Path, options: &str) -> Result<()> {
    std::fs::create_dir_all(dir)?;
    call("mount", &["-t", "tmpfs", "-o", options, "tmpfs", &dir.to_string_lossy()])
}

/// Unmounts all mounts of this thread at `dir` and below, so that the directory can be removed.
pub fn unmount_all(dir: &Path) -> Result<()> {
    let mounts = std::fs::read_to_string("/proc/thread-self/mounts").context("read the mounts")?;
    let places = mounts.lines().filter_map(|line| line.split(' ').nth(1)).filter(|place| Path::new(place).starts_with(dir));
    // The last one is on top.
    places.collect::<Vec<_>>().into_iter().rev().try_for_each(|place| call("umount", &["--lazy", place]))
}

/// Changes the options of the mount at `dir`.
pub fn remount(dir: &Path, options: &str) -> Result<()> {
    call("mount", &["-o", &format!("remount,{options}"), &dir.to_string_lossy()])
}

fn call(program: &str, args: &[&str]) -> Result<()> {
    let done = Command::new(program).args(args).output().with_context(|| format!("run {program}"))?;
    ensure!(done.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&done.stderr).trim());
    Ok(())
}

/// A cgroup for one test, removed with it.
#[derive(Debug)]
pub struct Group {
    /// Its directory.
    pub path: PathBuf,
}

static GROUPS: AtomicU32 = AtomicU32::new(0);

impl Group {
    /// A cgroup in the v2 hierarchy.
    pub fn v2() -> Result<Self> {
        Self::below(&mount_of("cgroup2", None).context("no cgroup v2 hierarchy is mounted")?)
    }

    /// A cgroup in the v1 hierarchy of a controller.
    pub fn v1(controller: &str) -> Result<Self> {
        Self::below(&mount_of("cgroup", Some(controller)).with_context(|| format!("no cgroup v1 hierarchy of {controller} is mounted"))?)
    }

    fn below(root: &Path) -> Result<Self> {
        let path = root.join(format!("test-{}-{}", std::process::id(), GROUPS.fetch_add(1, SeqCst)));
        std::fs::create_dir(&path).with_context(|| format!("make {}", path.display()))?;
        Ok(Self { path })
    }

    /// Writes one of its files.
    pub fn set(&self, file: &str, value: &str) -> Result<()> {
        let path = self.path.join(file);
        std::fs::write(&path, value).with_context(|| format!("write {value:?} to {}", path.display()))
    }

    /// Reads one of its files.
    pub fn get(&self, file: &str) -> Result<String> {
        let path = self.path.join(file);
        Ok(std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?.trim().to_owned())
    }

    /// The pids in it.
    pub fn pids(&self) -> Vec<u32> {
        self.get("cgroup.procs").unwrap_or_default().lines().filter_map(|l| l.parse().ok()).collect()
    }

    /// The same call, made from inside it.
    pub fn around(&self, call: &Command) -> Command {
        let mut inside = Command::new("/bin/sh");
        inside
            .args(["-c", "echo $$ > \"$0\" && exec \"$@\""])
            .arg(self.path.join("cgroup.procs"))
            .arg(call.get_program())
            .args(call.get_args());
        inside.env_clear().envs(call.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if let Some(dir) = call.get_current_dir() {
            inside.current_dir(dir);
        }
        inside.stdin(std::process::Stdio::null());
        inside
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for pid in self.pids() {
            // A failed test may leave processes in it; a passed one does not.
            let _gone = crate::waiting::kill_and_wait(pid);
        }
        let removed = std::fs::remove_dir(&self.path);
        if let (Err(e), false) = (removed, std::thread::panicking()) {
            panic!("left behind: {}: {e}", self.path.display());
        }
    }
}

fn mount_of(kind: &str, option: Option<&str>) -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    mounts.lines().find_map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let is_it = words.get(2) == Some(&kind) && option.is_none_or(|o| words.get(3).is_some_and(|all| all.split(',').any(|w| w == o)));
        is_it.then(|| PathBuf::from(words[1]))
    })
}
