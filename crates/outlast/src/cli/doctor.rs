//! `outlast doctor`

use super::out::Tone;
use super::{Context, Failure};
use clap::Args;
use outlast_client::EngineStatus;
use rustix::fs::{Access, access, statfs, statvfs};
use serde::Serialize;
use serde_json::json;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Check that everything is in place, and say what to do where it is not
#[derive(Debug, Args)]
pub(crate) struct Doctor {}

/// How one thing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Ok,
    /// It works, but a promise is weaker than it could be.
    Degraded,
    /// It does not work.
    Broken,
}

/// What was looked at, how it is, and what to do.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    state: State,
    what: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    hint: String,
}

impl Check {
    fn new(name: &'static str, state: State, what: impl Into<String>, hint: &str) -> Self {
        let hint = if state == State::Ok { "" } else { hint };
        Self { name, state, what: what.into(), hint: hint.into() }
    }
    fn ok(name: &'static str, what: impl Into<String>) -> Self {
        Self::new(name, State::Ok, what, "")
    }
}

impl Doctor {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let engine = match ctx.client().await {
            Ok(client) => client.engine_status().await.map_err(Failure::from),
            Err(e) => Err(e),
        };
        let checks = examine(ctx, &engine);
        let worst = checks.iter().map(|c| c.state).max_by_key(|s| *s as u8).unwrap_or(State::Ok);
        if ctx.out.json {
            ctx.out.object(&json!({"status": worst, "checks": checks}))?;
        } else {
            checks.iter().try_for_each(|check| say(ctx, check))?;
        }
        Ok(i32::from(worst == State::Broken))
    }
}

fn say(ctx: &Context, check: &Check) -> Result<(), Failure> {
    let (word, tone) = match check.state {
        State::Ok => ("ok", Tone::Good),
        State::Degraded => ("degraded", Tone::Busy),
        State::Broken => ("broken", Tone::Bad),
    };
    ctx.out.line(&format!("{}{} {:11} {}", ctx.out.paint(tone, word), " ".repeat(9 - word.len()), check.name, check.what))?;
    if check.hint.is_empty() { Ok(()) } else { ctx.out.line(&format!("{:21} → {}", "", check.hint)) }
}

fn examine(ctx: &Context, engine: &Result<EngineStatus, Failure>) -> Vec<Check> {
    let home = &ctx.settings.home;
    let mut checks = vec![check_home(home), check_sockets(home), check_engine(engine), check_keeper(ctx), check_cgroup(), check_kernel()];
    checks.push(match engine {
        Ok(status) => Check::ok("shell", status.shell.clone()),
        Err(_) => Check::new("shell", State::Degraded, "not known while no engine runs", "see to the engine first"),
    });
    for warning in &ctx.settings.warnings {
        checks.push(Check::new("config", State::Degraded, warning.clone(), "correct it, or take it out"));
    }
    if let Ok(status) = engine {
        let lost = status.degraded.iter().map(|what| Check::new("promise", State::Degraded, what.clone(), ""));
        checks.extend(lost);
    }
    checks
}

const NFS: i64 = 0x6969;
const TMPFS: i64 = 0x0102_1994;
/// A home with less room than this will soon drop output.
const LITTLE_ROOM: u64 = 100 << 20;

fn check_home(home: &Path) -> Check {
    const NAME: &str = "home";
    let shown = home.display();
    let meta = match std::fs::metadata(home) {
        Ok(meta) => meta,
        Err(e) => return Check::new(NAME, State::Broken, format!("{shown}: {e}"), "make it, or set OUTLAST_HOME to a directory of yours"),
    };
    let us = rustix::process::geteuid().as_raw();
    if meta.uid() != us {
        return Check::new(
            NAME,
            State::Broken,
            format!("{shown} belongs to user {}", meta.uid()),
            "set OUTLAST_HOME to a directory of yours",
        );
    }
    if access(home, Access::WRITE_OK).is_err() {
        return Check::new(NAME, State::Broken, format!("{shown} cannot be written"), "make it writable, or set OUTLAST_HOME");
    }
    let mode = meta.mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Check::new(NAME, State::Degraded, format!("{shown} has mode {mode:o}: others can look in"), "chmod 700 it");
    }
    if statfs(home).is_ok_and(|s| kind(&s) == NFS) {
        return Check::new(NAME, State::Degraded, format!("{shown} is on a network file system"), "set OUTLAST_HOME to a local directory");
    }
    let room = statvfs(home).map_or(u64::MAX, |s| s.f_bavail.saturating_mul(s.f_frsize));
    if room < LITTLE_ROOM {
        return Check::new(
            NAME,
            State::Degraded,
            format!("{shown} has {} left", super::times::size(room)),
            "free some room, or `outlast clean`",
        );
    }
    Check::ok(NAME, format!("{shown}, mode {mode:o}, writable, {} free", super::times::size(room)))
}

fn kind(s: &rustix::fs::StatFs) -> i64 {
    // The type's width differs between machines; every magic number fits.
    #[allow(clippy::unnecessary_cast)]
    {
        s.f_type as i64
    }
}

fn check_sockets(home: &Path) -> Check {
    const NAME: &str = "sockets";
    let link = home.join("run");
    let dir = match std::fs::read_link(&link) {
        Ok(dir) => home.join(dir),
        Err(e) => return Check::new(NAME, State::Degraded, format!("{}: {e}", link.display()), "the engine makes it at its start"),
    };
    let shown = dir.display();
    match std::fs::symlink_metadata(&dir) {
        Err(e) => Check::new(NAME, State::Degraded, format!("{shown}: {e}"), "the engine makes it at its start"),
        Ok(meta) if meta.uid() != rustix::process::geteuid().as_raw() || meta.mode() & 0o077 != 0 => {
            Check::new(NAME, State::Broken, format!("{shown} is not yours alone"), "remove the link `run` in the home and end the engine")
        }
        Ok(_) if statfs(&dir).is_ok_and(|s| kind(&s) != TMPFS) => {
            Check::ok(NAME, format!("{shown} (not on a tmpfs; a restart of the machine leaves old sockets there, which do no harm)"))
        }
        Ok(_) => Check::ok(NAME, format!("{shown}, on a tmpfs")),
    }
}

fn check_engine(engine: &Result<EngineStatus, Failure>) -> Check {
    const NAME: &str = "engine";
    match engine {
        Err(e) => Check::new(NAME, State::Broken, e.error().to_owned(), e.hint()),
        Ok(s) if s.version != env!("CARGO_PKG_VERSION") => Check::new(
            NAME,
            State::Degraded,
            format!("pid {} is version {}, this is {}", s.pid, s.version, env!("CARGO_PKG_VERSION")),
            "`outlast engine stop`; the next command starts the new one, and processes go on",
        ),
        Ok(s) => Check::ok(NAME, format!("pid {}, version {}, {} running of {} known", s.pid, s.version, s.running, s.known)),
    }
}

fn check_keeper(ctx: &Context) -> Check {
    match ctx.world.keeper() {
        Some(path) => Check::ok("keeper", path.display().to_string()),
        None => Check::new(
            "keeper",
            State::Degraded,
            "no outlast-keeper lies beside this program, so it runs itself as keeper, which costs more memory for each process",
            "install outlast-keeper into the same directory",
        ),
    }
}

fn check_cgroup() -> Check {
    const NAME: &str = "cgroup";
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let Some(path) = own.lines().find_map(|l| l.strip_prefix("0::")) else {
        return Check::new(
            NAME,
            State::Degraded,
            "no unified cgroup hierarchy: a stop follows the tree process by process",
            "boot with cgroup v2",
        );
    };
    let dir = Path::new("/sys/fs/cgroup").join(path.trim_start_matches('/'));
    let leaf = access(&dir, Access::WRITE_OK).is_ok() && access(dir.join("cgroup.procs"), Access::WRITE_OK).is_ok();
    match leaf {
        true => Check::ok(NAME, format!("a leaf of its own can be made for each process under {}", dir.display())),
        false => Check::new(
            NAME,
            State::Degraded,
            format!("{} cannot be written: a stop follows the tree process by process", dir.display()),
            "with systemd, run in a user session or with Delegate=yes",
        ),
    }
}

fn check_kernel() -> Check {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy().into_owned();
    match full_protection(&release) {
        true => Check::ok("kernel", format!("{release}: full protection, also after a keeper was lost")),
        false => Check::new(
            "kernel",
            State::Degraded,
            format!("{release}: after a keeper was lost, a second loss can cost the exit code (never the output)"),
            "6.15 or newer protects both",
        ),
    }
}

/// Whether the kernel keeps an exit status for whoever holds a pidfd, as it does since 6.15.
fn full_protection(release: &str) -> bool {
    let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse::<u32>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (6, 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_told_apart() {
        for (release, want) in
            [("6.15.0", true), ("6.18.3-generic", true), ("7.0", true), ("6.9.12", false), ("5.15.0-91", false), ("odd", false)]
        {
            assert_eq!(full_protection(release), want, "{release}");
        }
    }
}
