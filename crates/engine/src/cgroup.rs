//! Moves the engine out of its starter's cgroup, and gives each command a cgroup of its own, a leaf.

use crate::logout::{self, Logout};
use outlast_core::ProcessId;
use outlast_store::dir::{Home, UNNAMED};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

/// How long systemd may take to answer.
const BUS_LIMIT: Duration = Duration::from_secs(2);

/// How long the engine waits at its end for keepers whose process is over.
const LAST_KEEPERS: Duration = Duration::from_secs(10);

/// A cgroup of our own in the hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CgroupDir {
    /// The directory in which leaves are made.
    pub(crate) dir: PathBuf,
    /// Whether the engine removes the directory when it is empty. systemd removes its scopes itself.
    ours: bool,
}

/// Where the v2 hierarchy is mounted, and where this process is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct OwnCgroup {
    mount: PathBuf,
    path: String,
}

/// Why there is no cgroup if they are switched off, and what follows from it.
pub(crate) const SWITCHED_OFF: &str =
    "cgroups are switched off (engine.cgroup): what stops the starter's whole control group may stop processes too";

/// The place of an engine in the cgroup hierarchy after its start.
#[derive(Debug, Default)]
pub(crate) struct CgroupAtStart {
    /// The cgroup that the engine made for itself, if it could.
    pub(crate) place: Option<CgroupDir>,
    /// Why it has none, in a sentence.
    pub(crate) degraded: Option<String>,
    /// Whether the engine stays in the login session on purpose, because processes are likelier to survive there. No reason for a warning.
    pub(crate) stays_in_session: bool,
    /// What a logout ends, in a sentence.
    pub(crate) logout: Option<String>,
}

/// Leaves the starter's cgroup, unless processes are likelier to survive in it.
pub(crate) async fn leave(tag: &str, user: &str) -> CgroupAtStart {
    let logout = match own_path().filter(|_| !rustix::process::geteuid().is_root() && has_systemd()) {
        Some(path) => Some(Logout::find(&path, user).await),
        None => None,
    };
    if logout.is_some_and(Logout::should_stay) {
        let stays = "the engine stays in the login session, which a logout leaves alone (below the user manager it would end with the last one): processes have no cgroup of their own";
        return CgroupAtStart { degraded: Some(stays.into()), stays_in_session: true, ..CgroupAtStart::default() };
    }
    let (place, degraded) = match leave_for(tag).await {
        Ok(place) => (Some(place), None),
        Err(why) => (None, Some(why)),
    };
    let is_below_user_manager = own_path().is_some_and(|path| logout::is_below_user_manager(&path));
    CgroupAtStart { place, degraded, stays_in_session: false, logout: logout.and_then(|logout| logout.danger(is_below_user_manager)) }
}

fn has_systemd() -> bool {
    Path::new("/run/systemd/system").exists()
}

/// Moves to a cgroup of our own. An error says in a sentence why not, and what that means.
async fn leave_for(tag: &str) -> Result<CgroupDir, String> {
    let meaning = "what stops the starter's whole control group (a service manager, the end of a container) may stop processes too";
    let here = OwnCgroup::find().ok_or_else(|| format!("no cgroup v2 hierarchy was found: {meaning}"))?;
    let name = format!("outlast-{tag}");
    if here.path.split('/').any(|part| part == name || part.starts_with(&format!("{name}-"))) {
        // An engine that was started by a keeper is there already.
        if let Some(place) = here.place_of(&name) {
            return move_into(&place.dir.join("engine")).map(|()| place).map_err(|e| format!("cannot enter {name}: {e}: {meaning}"));
        }
    }
    if has_systemd() {
        match scope(&name).await {
            Ok(place) => return Ok(place),
            Err(error) => tracing::warn!(%error, "no scope from systemd"),
        }
    }
    let mut last = None;
    for above in here.ancestors() {
        match migrate(&above.join(&name)) {
            Ok(place) => return Ok(place),
            Err(error) => last = Some(format!("{}: {error}", above.display())),
        }
    }
    Err(format!("the engine could not leave its starter's cgroup ({}): {meaning}", last.unwrap_or_default()))
}

/// The inode number of a kernel's initial PID namespace. All other namespaces have other numbers.
const FIRST_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// Whether this is a container or sandbox with a PID namespace of its own. Its end kills every process in it, in whichever cgroup. So it
/// makes no difference to a command that the engine could not leave its starter's cgroup: `doctor` reports it once, instead of every `run`.
pub(crate) fn ends_with_namespace() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self/ns/pid").is_ok_and(|namespace| namespace.ino() != FIRST_PID_NAMESPACE)
}

impl OwnCgroup {
    fn find() -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
        let mount = mounts.lines().find_map(|line| {
            let mut words = line.split(' ');
            let (_, at, kind) = (words.next()?, words.next()?, words.next()?);
            (kind == "cgroup2").then(|| PathBuf::from(at))
        })?;
        Some(Self { mount, path: own_path()? })
    }

    /// From the root of the hierarchy down to where we are.
    fn ancestors(&self) -> Vec<PathBuf> {
        let mut all = vec![self.mount.clone()];
        let mut at = self.mount.clone();
        for part in self.path.split('/').filter(|p| !p.is_empty() && *p != "..") {
            at = at.join(part);
            all.push(at.clone());
        }
        all
    }

    /// The cgroup called `name`, or a scope of it, that this process is in.
    fn place_of(&self, name: &str) -> Option<CgroupDir> {
        let scope = format!("{name}-");
        self.ancestors().into_iter().find_map(|dir| {
            let last = dir.file_name()?.to_str()?;
            (last == name || last.starts_with(&scope)).then(|| CgroupDir { ours: last == name, dir: dir.clone() })
        })
    }
}

/// This process's path in the v2 hierarchy.
fn own_path() -> Option<String> {
    let text = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    text.lines().find_map(|line| line.strip_prefix("0::")).map(str::to_owned)
}

fn migrate(dir: &Path) -> io::Result<CgroupDir> {
    make(dir)?;
    let moved = move_into(&dir.join("engine"));
    if let Err(e) = moved {
        // Other processes may be in it; then it stays.
        let _ = std::fs::remove_dir(dir.join("engine"));
        let _ = std::fs::remove_dir(dir);
        return Err(e);
    }
    Ok(CgroupDir { dir: dir.to_owned(), ours: true })
}

fn make(dir: &Path) -> io::Result<()> {
    match std::fs::create_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        done => done,
    }
}

fn move_into(dir: &Path) -> io::Result<()> {
    let enter = || {
        dir.parent().map_or(Ok(()), make)?;
        make(dir)?;
        std::fs::write(dir.join("cgroup.procs"), std::process::id().to_string())
    };
    // The previous engine may be removing it right now.
    let gone = |done: &io::Result<()>| done.as_ref().is_err_and(|e| matches!(e.raw_os_error(), Some(libc::ENOENT | libc::ENODEV)));
    let mut tries = 0..3;
    let mut entered = enter();
    while gone(&entered) && tries.next().is_some() {
        entered = enter();
    }
    entered?;
    // Some sandboxes accept the write and do nothing.
    let inside = own_path().is_some_and(|path| path.trim_end_matches('/').ends_with(&tail_of(dir)));
    if inside { Ok(()) } else { Err(io::Error::other("the move was accepted and did not happen")) }
}

/// The last two names of a path, which identify our cgroup.
fn tail_of(dir: &Path) -> String {
    let mut names: Vec<_> = dir.iter().rev().take(2).map(|n| n.to_string_lossy().into_owned()).collect();
    names.reverse();
    format!("/{}", names.join("/"))
}

/// Asks systemd for a scope of our own, which is what it calls a cgroup that it did not start.
async fn scope(name: &str) -> Result<CgroupDir, String> {
    let uid = rustix::process::geteuid().as_raw();
    let bus = if uid == 0 { "/run/dbus/system_bus_socket".to_owned() } else { format!("/run/user/{uid}/bus") };
    if !Path::new(&bus).exists() {
        return Err(format!("there is no bus at {bus}"));
    }
    let pid = std::process::id();
    let unit = format!("{name}-{pid}.scope");
    let mut call = tokio::process::Command::new("busctl");
    call.arg(format!("--address=unix:path={bus}"))
        .args(["call", "org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager"])
        .args(["StartTransientUnit", "ssa(sv)a(sa(sv))", &unit, "fail", "3"])
        .args(["PIDs", "au", "1", &pid.to_string(), "Delegate", "b", "true", "CollectMode", "s", "inactive-or-failed", "0"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let ran = tokio::time::timeout(BUS_LIMIT, call.output()).await.map_err(|_| "busctl did not answer".to_owned())?;
    let ran = ran.map_err(|e| format!("cannot run busctl: {e}"))?;
    if !ran.status.success() {
        return Err(String::from_utf8_lossy(&ran.stderr).trim().to_owned());
    }
    // The answer is only that the job was queued.
    let moved = async {
        loop {
            if let Some(here) = OwnCgroup::find()
                && here.path.ends_with(&unit)
                && let Some(dir) = here.ancestors().pop()
            {
                return dir;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let dir = tokio::time::timeout(BUS_LIMIT, moved).await.map_err(|_| "the scope was made, but the engine is not in it".to_owned())?;
    move_into(&dir.join("engine")).map_err(|e| format!("cannot make a cgroup in the scope: {e}"))?;
    Ok(CgroupDir { dir, ours: false })
}

impl CgroupDir {
    /// The path of a process's leaf. It may not exist.
    pub(crate) fn leaf(&self, id: ProcessId) -> PathBuf {
        self.dir.join(id.to_string())
    }

    /// Removes the leaf of a finished process if it is empty.
    pub(crate) fn remove_leaf(&self, id: ProcessId) {
        outlast_store::os::remove_cgroup(&self.leaf(id));
    }

    /// The processes that have a leaf.
    pub(crate) fn leaves(&self) -> Vec<ProcessId> {
        let all = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    }

    /// Removes every empty leaf. Not to be called while a process is being started: its leaf is empty at first.
    fn sweep(&self) {
        for id in self.leaves() {
            self.remove_leaf(id);
        }
    }

    /// Leaves the cgroup and removes what is empty, so that an engine that ends leaves nothing behind. If no command runs any more, the
    /// last keepers are about to leave, and this waits for them.
    pub(crate) fn leave_behind(&self, home: &Home, nothing_runs: bool) {
        self.sweep();
        let Some(above) = self.dir.parent().filter(|_| self.ours) else { return };
        if std::fs::write(above.join("cgroup.procs"), std::process::id().to_string()).is_ok() {
            if nothing_runs && let Err(error) = emptied(&self.dir.join("engine"), home) {
                tracing::debug!(%error, "cannot wait for the last keepers");
            }
            self.sweep();
            outlast_store::os::remove_cgroup(&self.dir.join("engine"));
            outlast_store::os::remove_cgroup(&self.dir);
        }
    }

    /// Removes it if no process is in it. Waits for processes in it only if all of them are leaving.
    pub(crate) fn remove_if_empty(&self, home: &Home, all_leave: bool) {
        if self.ours {
            if all_leave && let Err(error) = emptied(&self.dir.join("engine"), home) {
                tracing::debug!(%error, "cannot wait for the last keepers");
            }
            // It may be in use by keepers, the last of which removes it, or by the next engine.
            let _in_use = std::fs::remove_dir(self.dir.join("engine")).and_then(|()| std::fs::remove_dir(&self.dir));
        }
    }
}

/// Whether a process in our cgroup is about to exit. Keepers of a home that was removed stay until their command ends.
fn is_leaving(pid: u32, home: &Home) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let Ok(line) = std::fs::read(format!("/proc/{pid}/cmdline")) else { return true };
    let folder =
        line.split(|b| *b == 0).map(|arg| Path::new(std::ffi::OsStr::from_bytes(arg))).find(|arg| arg.starts_with(home.processes()));
    // A process that is exiting has no command line any more.
    folder.is_none_or(|folder| folder.ends_with(UNNAMED) || folder.exists())
}

/// Returns once no process in this cgroup is about to exit, or after a time limit.
fn emptied(dir: &Path, home: &Home) -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fs::inotify;
    let events = dir.join("cgroup.events");
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
    inotify::add_watch(&watch, &events, inotify::WatchFlags::MODIFY)?;
    let until = std::time::Instant::now() + LAST_KEEPERS;
    loop {
        // Watched first, looked at second: a change in between is not missed.
        if std::fs::read_to_string(&events)?.lines().any(|line| line == "populated 0") {
            return Ok(());
        }
        let members = std::fs::read_to_string(dir.join("cgroup.procs"))?;
        if !members.lines().filter_map(|pid| pid.parse().ok()).any(|pid| is_leaving(pid, home)) {
            return Ok(());
        }
        let left = until.saturating_duration_since(std::time::Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        // An event comes when the last process leaves. None comes if keepers stay that do not leave with us, so this also checks at
        // intervals.
        let left = left.min(Duration::from_millis(100));
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        poll(&mut [PollFd::new(&watch, PollFlags::IN)], Some(&left))?;
        let mut told = [0; 4096];
        while rustix::io::read(&watch, &mut told).is_ok_and(|n| n > 0) {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ancestors_come_from_the_root_down() {
        let here = OwnCgroup { mount: "/sys/fs/cgroup".into(), path: "/a.slice/outlast-12345678/engine".into() };
        let all = here.ancestors();
        assert_eq!(all.first().unwrap(), Path::new("/sys/fs/cgroup"));
        assert_eq!(all.last().unwrap(), Path::new("/sys/fs/cgroup/a.slice/outlast-12345678/engine"));
        let place = here.place_of("outlast-12345678").unwrap();
        assert_eq!(place.dir, Path::new("/sys/fs/cgroup/a.slice/outlast-12345678"));
        assert_eq!(here.place_of("outlast-1"), None);
    }
}
