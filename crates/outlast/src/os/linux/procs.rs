//! Linux: the processes of a home, found in `/proc`, and how to kill one of them.

use outlast_core::Incarnation;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd as _;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;
use std::time::Duration;

/// How often a process is checked that has no handle to wait on.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// How many parents are looked at for the conversation of an agent: there are wrappers and interpreters in between, and not many.
const MOST_PARENTS: usize = 8;

/// The fields of `/proc/PID/stat` that are used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) parent: u32,
    /// In clock ticks since boot. Together with the pid it identifies a process.
    pub(crate) started: u64,
    pub(crate) is_zombie: bool,
}

/// Reads `/proc/PID/stat`. None if there is no such process.
pub(crate) fn stat(pid: u32) -> Option<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may contain spaces and parentheses. Only numbers follow the last parenthesis.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    Some(Stat { is_zombie: fields.first() == Some(&"Z"), parent: fields.get(1)?.parse().ok()?, started: fields.get(19)?.parse().ok()? })
}

/// Whether a stop signal suspended this process. A tracer's stop does not count.
pub(crate) fn is_suspended(pid: u32) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    text.rsplit_once(')').is_some_and(|(_, fields)| fields.trim_start().starts_with("T "))
}

/// The keepers of the process in this folder.
pub(crate) fn keepers_of(folder: &Path) -> Vec<u32> {
    pids()
        .filter(|pid| arguments(*pid).is_some_and(|args| args.last().is_some_and(|last| *last == folder.as_os_str().as_bytes())))
        .collect()
}

/// Whether a process is the engine of this home.
pub(crate) fn is_engine_of(pid: u32, home: &Path) -> bool {
    arguments(pid).is_some_and(|args| args.iter().any(|a| a == b"__engine") && args.iter().any(|a| *a == home.as_os_str().as_bytes()))
}

/// Everything that runs for this home: its engine, its keepers, and commands that have it in their environment.
pub(crate) fn processes_of(home: &Path) -> Vec<u32> {
    let folders = home.join("proc");
    let is_keeper = |args: &[Vec<u8>]| {
        let is_ours =
            args.first().is_some_and(|program| Path::new(std::ffi::OsStr::from_bytes(program)).file_name().is_some_and(is_program));
        is_ours && args.last().is_some_and(|last| Path::new(std::ffi::OsStr::from_bytes(last)).starts_with(&folders))
    };
    let mark = [b"OUTLAST_HOME=", home.as_os_str().as_bytes()].concat();
    let is_marked = |pid: u32| {
        let env = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        env.split(|b| *b == 0).any(|variable| variable == mark)
    };
    let ours = std::process::id();
    pids()
        .filter(|pid| *pid != ours && stat(*pid).is_some_and(|s| !s.is_zombie))
        .filter(|pid| is_engine_of(*pid, home) || arguments(*pid).is_some_and(|args| is_keeper(&args)) || is_marked(*pid))
        .collect()
}

/// Shells that only run another program, as the `sh -c` with which clients start servers and hooks.
const SHELLS: [&str; 8] = ["sh", "bash", "dash", "ash", "zsh", "ksh", "fish", "busybox"];

/// Programs that adopt processes, as the first of a machine or a container, and start no agent's servers themselves. What is below one was started
/// by a program that has ended.
const ADOPTERS: [&str; 14] = [
    "systemd",
    "init",
    "tini",
    "docker-init",
    "podman-init",
    "dumb-init",
    "catatonit",
    "s6-svscan",
    "runit",
    "runsvdir",
    "supervisord",
    "sleep",
    "tail",
    "pause",
];

/// The client that started this process: the nearest process above it that is neither a shell nor a wrapper, as `timeout` and `npx` are. A wrapper
/// has the same standard input, which the client made for this process.
pub(crate) fn client_above() -> Option<Incarnation> {
    let this = std::process::id();
    let input = input_channel(this);
    let mut pid = stat(this)?.parent;
    for _ in 0..MOST_PARENTS {
        // The parent of the first process, and of one that was brought into a container, is not visible.
        if pid == 0 {
            return None;
        }
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        let name = name.trim_end();
        if ADOPTERS.contains(&name) {
            return None;
        }
        let is_wrapper = input.is_some() && input_channel(pid) == input;
        if !SHELLS.contains(&name) && !is_wrapper {
            return incarnation_of(pid);
        }
        pid = stat(pid)?.parent;
    }
    None
}

/// The pipe or socket that a process has as its standard input: device and inode. A file or a terminal is shared by many.
fn input_channel(pid: u32) -> Option<(u64, u64)> {
    let about = std::fs::metadata(format!("/proc/{pid}/fd/0")).ok()?;
    let kind = about.file_type();
    (kind.is_fifo() || kind.is_socket()).then(|| (about.dev(), about.ino()))
}

/// This process.
pub(crate) fn this_process() -> Option<Incarnation> {
    incarnation_of(std::process::id())
}

/// The process that has this pid now.
fn incarnation_of(pid: u32) -> Option<Incarnation> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let boot = u128::from_str_radix(&boot.trim().replace('-', ""), 16).ok()?;
    Some(Incarnation { pid, start_ticks: stat(pid)?.started, boot })
}

/// The session and generation for which a process above this one was started by the gateway of this home. An agent runs so; what it starts may have been given less.
pub(crate) fn conversation_above(home: &Path) -> Option<(String, String)> {
    let mark = [b"OUTLAST_HOME=", home.as_os_str().as_bytes()].concat();
    let mut pid = stat(std::process::id())?.parent;
    for _ in 0..MOST_PARENTS {
        let env = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let value = |name: &[u8]| {
            let value = env.split(|b| *b == 0).find_map(|variable| variable.strip_prefix(name))?;
            Some(String::from_utf8_lossy(value).into_owned()).filter(|value| !value.is_empty())
        };
        if let (Some(session), Some(generation)) = (value(b"OUTLAST_SESSION="), value(b"OUTLAST_GENERATION="))
            && env.split(|b| *b == 0).any(|variable| variable == mark)
        {
            return Some((session, generation));
        }
        pid = stat(pid).map(|stat| stat.parent).filter(|parent| *parent > 1)?;
    }
    None
}

/// Ended processes of Outlast that process 1, their parent, has not reaped.
pub(crate) fn unreaped_by_init() -> Vec<u32> {
    let is_ours = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with("outlast"));
    pids().filter(|pid| stat(*pid).is_some_and(|s| s.is_zombie && s.parent == 1) && is_ours(*pid)).collect()
}

/// Kills a process with SIGKILL if `is_it` still identifies it, and waits for its end. Returns whether it has ended.
pub(crate) fn kill_now(pid: u32, is_it: impl FnOnce() -> bool, at_most: Duration) -> io::Result<bool> {
    let Some(raw) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(true) };
    // The handle is opened before the check, so that it belongs to the checked process.
    let handle = match pidfd_open(raw, PidfdFlags::empty()) {
        Ok(handle) => handle,
        Err(rustix::io::Errno::SRCH) => return Ok(true),
        Err(e) => return Err(e.into()),
    };
    if !is_it() {
        return Ok(true);
    }
    match pidfd_send_signal(handle.as_fd(), Signal::KILL) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(readable(&handle, at_most)),
        Err(e) => Err(e.into()),
    }
}

/// Waits for the end of a process. Without a handle, waits one interval. Returns whether the process has ended.
pub(crate) fn wait_for_end(pid: u32, at_most: Duration) -> bool {
    let Some(raw) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return true };
    match pidfd_open(raw, PidfdFlags::empty()) {
        Ok(handle) => readable(&handle, at_most),
        Err(rustix::io::Errno::SRCH) => true,
        Err(_) => {
            // Without a pidfd no descriptor reports the end. The caller repeats this until its own time limit.
            std::thread::sleep(at_most.min(LOOK_INTERVAL));
            stat(pid).is_none_or(|now| now.is_zombie)
        }
    }
}

fn readable(handle: &rustix::fd::OwnedFd, at_most: Duration) -> bool {
    let limit = Timespec { tv_sec: at_most.as_secs().cast_signed(), tv_nsec: i64::from(at_most.subsec_nanos()) };
    matches!(poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&limit)), Ok(n) if n > 0)
}

fn pids() -> impl Iterator<Item = u32> {
    std::fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|e| e.file_name().to_str()?.parse().ok())
}

/// The arguments of its command line; none for a zombie.
fn arguments(pid: u32) -> Option<Vec<Vec<u8>>> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let line = line.strip_suffix(b"\0").unwrap_or(&line);
    (!line.is_empty()).then(|| line.split(|b| *b == 0).map(<[u8]>::to_vec).collect())
}

fn is_program(name: &std::ffi::OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"outlast")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_found_and_a_missing_one_is_not() {
        let us = stat(std::process::id()).unwrap();
        assert!(!us.is_zombie && us.parent != 0 && us.started > 0);
        assert_eq!(stat(u32::MAX), None);
        assert!(wait_for_end(u32::MAX, Duration::ZERO));
        assert!(kill_now(u32::MAX, || true, Duration::ZERO).unwrap());
    }

    #[test]
    fn only_what_is_known_is_killed() {
        let tmp = tempfile::tempdir().unwrap();
        let mut child = std::process::Command::new("sleep").arg("1000").env("OUTLAST_HOME", tmp.path()).spawn().unwrap();
        let pid = child.id();
        assert!(kill_now(pid, || false, Duration::ZERO).unwrap());
        assert_eq!(processes_of(tmp.path()), [pid]);
        assert!(keepers_of(tmp.path()).is_empty() && !is_engine_of(pid, tmp.path()));
        assert!(kill_now(pid, || processes_of(tmp.path()).contains(&pid), Duration::from_secs(60)).unwrap());
        assert!(processes_of(tmp.path()).is_empty(), "it is a zombie until it is reaped");
        assert!(!child.wait().unwrap().success());
    }
}
