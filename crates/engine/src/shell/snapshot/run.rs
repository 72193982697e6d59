//! Runs one login shell under supervision.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, OFlags, SealFlags, fcntl_add_seals, fcntl_getfl, fcntl_setfl, ftruncate, memfd_create, tell};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};

use crate::bytes::random_hex;

use super::super::SYSTEM_PATH;
use super::dump::{self, ANSWER_FD, LoginAnswer};
use super::trace::Trace;
use super::{SnapshotRequest, TakeFailure};

const TRACE_FD: u32 = 188;

/// Longer answers are invalid.
const ANSWER_LIMIT: usize = 16 * 1024 * 1024;

/// How many bytes of a trace are parsed.
const TRACE_LIMIT: u64 = 64 * 1024 * 1024;

/// The result of a run.
pub(super) struct LoginRun {
    pub(super) answer: Result<LoginAnswer, TakeFailure>,
    /// The files that it read until its end.
    pub(super) files: Vec<PathBuf>,
}

/// Runs a login-interactive shell in the user's home and reads its state.
///
/// It has no terminal and no input, the output of login files is discarded, and it leads a kernel session of its own. At its time limit,
/// everything in that session is killed. If it ends in time, background processes of login files stay, because an export may refer to one.
pub(super) fn login(request: &SnapshotRequest<'_>) -> LoginRun {
    let cwd = if request.home.is_dir() { request.home } else { Path::new("/") };
    let mut trace = Trace::new(cwd);
    let answer = attempt(request, cwd, &mut trace);
    LoginRun { answer, files: trace.files(request.home, SYSTEM_PATH) }
}

fn attempt(request: &SnapshotRequest<'_>, cwd: &Path, trace: &mut Trace) -> Result<LoginAnswer, TakeFailure> {
    let not_run = |error: io::Error| TakeFailure::NotRun { shell: request.shell.path.clone(), detail: error.to_string() };
    // Login files cannot know it.
    let marker = random_hex::<16>();
    let base = dump::base_environment(request.home.as_os_str().as_bytes(), request.user, request.shell.path.as_os_str().as_bytes());
    let tracefile = TraceFile::new().map_err(not_run)?;
    let mut command = command(&request.shell.path, &dump::script(&marker));
    command.stderr(tracefile.writer().map_err(not_run)?);
    command.current_dir(cwd).env_clear();
    for (name, value) in &base {
        command.env(std::ffi::OsString::from_vec(name.clone()), std::ffi::OsString::from_vec(value.clone()));
    }
    let mut login = LoginShell::start(command).map_err(not_run)?;
    let mut answer = Vec::new();
    let end = login.watch(request.limit, &mut answer);
    drop(login);
    tracefile.read_into(trace).map_err(not_run)?;
    let end = end.map_err(not_run)?;
    if dump::is_complete(&answer, &marker) {
        return dump::parse(&answer, &marker, &base).map_err(|detail| TakeFailure::Unreadable { detail });
    }
    Err(match end {
        LoginEnd::Exited(status) => TakeFailure::Ended { status: status.to_string() },
        LoginEnd::OutOfTime => TakeFailure::TimedOut { limit: request.limit },
        LoginEnd::TooMuch => TakeFailure::Unreadable { detail: format!("it is longer than {ANSWER_LIMIT} bytes") },
    })
}

/// Starts the shell from a plain one that moves our pipes to descriptors that login files do not write to.
fn command(shell: &Path, script: &str) -> Command {
    let plumbing = format!(
        "exec {ANSWER_FD}>&1 {TRACE_FD}>&2 >/dev/null 2>&1\n\
         export BASH_XTRACEFD={TRACE_FD}\n\
         exec \"$0\" -x -lic \"$1\"\n"
    );
    // Our child leads no group, so `setsid` makes it the leader of a session and executes the shell under the same pid. Without `setsid`, a
    // group has to do.
    let setsid = ["/usr/bin/setsid", "/bin/setsid", "/run/current-system/sw/bin/setsid"].into_iter().find(|path| Path::new(path).exists());
    let mut command = match setsid {
        Some(setsid) => {
            let mut command = Command::new(setsid);
            command.arg(shell);
            command
        }
        None => {
            let mut command = Command::new(shell);
            command.process_group(0);
            command
        }
    };
    command.args(["--noprofile", "--norc", "-c"]).arg(plumbing).arg(shell).arg(script).stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

enum LoginEnd {
    Exited(ExitStatus),
    OutOfTime,
    TooMuch,
}

/// A running login shell. If it is dropped before its end was seen, it is killed with its session.
struct LoginShell {
    child: Child,
    pidfd: OwnedFd,
    reaped: bool,
}

impl LoginShell {
    fn start(mut command: Command) -> io::Result<LoginShell> {
        let mut child = command.spawn()?;
        match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            Ok(pidfd) => Ok(LoginShell { child, pidfd, reaped: false }),
            Err(error) => {
                // The child is ours and not reaped, so its pid is not reused. It may have ended already. The first error is reported.
                let _ = child.kill();
                let _ = child.wait();
                Err(error.into())
            }
        }
    }

    /// Reads the answer until the shell has ended or reached a limit.
    fn watch(&mut self, limit: Duration, answer: &mut Vec<u8>) -> io::Result<LoginEnd> {
        // A day is as good as for ever, and keeps the sum in range.
        let deadline = Instant::now() + limit.min(Duration::from_secs(86_400));
        let mut pipe = self.child.stdout.take().map(|pipe| Pipe::new(pipe.into())).transpose()?;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(LoginEnd::OutOfTime);
            }
            let mut fds = vec![PollFd::new(&self.pidfd, PollFlags::IN)];
            fds.extend(pipe.iter().map(|pipe| PollFd::new(&pipe.0, PollFlags::IN)));
            let timeout = Timespec { tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: left.subsec_nanos().into() };
            match poll(&mut fds, Some(&timeout)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let ended = !fds[0].revents().is_empty();
            // Once the shell has ended, all that it wrote is in the pipe, which holds a bounded amount. A background process may keep the
            // pipe open, so its end is not waited for.
            Pipe::read_some(&mut pipe, answer)?;
            if ended {
                let status = self.child.wait()?;
                self.reaped = true;
                return Ok(LoginEnd::Exited(status));
            }
            if answer.len() > ANSWER_LIMIT {
                return Ok(LoginEnd::TooMuch);
            }
        }
    }
}

impl Drop for LoginShell {
    fn drop(&mut self) {
        if !self.reaped {
            end_session(&mut self.child);
        }
    }
}

/// The read end of a pipe, set to non-blocking. The write end is another file description and blocks.
struct Pipe(OwnedFd);

impl Pipe {
    /// More than a pipe holds, unless a process has enlarged it.
    const AT_ONCE: usize = 1024 * 1024;

    fn new(fd: OwnedFd) -> io::Result<Pipe> {
        let flags = fcntl_getfl(&fd)?;
        fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?;
        Ok(Pipe(fd))
    }

    /// Reads what is there, and closes the pipe at its end.
    fn read_some(pipe: &mut Option<Pipe>, answer: &mut Vec<u8>) -> io::Result<()> {
        let Some(open) = pipe else { return Ok(()) };
        let mut buffer = [0; 64 * 1024];
        let mut taken = 0;
        while taken < Pipe::AT_ONCE {
            match rustix::io::read(open.0.as_fd(), &mut buffer) {
                Ok(0) => {
                    *pipe = None;
                    break;
                }
                Ok(count) => {
                    answer.extend_from_slice(&buffer[..count]);
                    taken += count;
                }
                Err(rustix::io::Errno::AGAIN) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// The file for the shell's trace: anonymous memory, because a trace shows every value.
///
/// A pipe would not do: background processes of login files may still write traces when the reader is gone, and SIGPIPE would kill them.
/// Here their writes are harmless.
struct TraceFile(OwnedFd);

impl TraceFile {
    fn new() -> io::Result<TraceFile> {
        let fd = memfd_create("trace", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        // It has its full length from the start, without using the memory, and is sealed against growth.
        ftruncate(&fd, TRACE_LIMIT)?;
        fcntl_add_seals(&fd, SealFlags::GROW)?;
        Ok(TraceFile(fd))
    }

    fn writer(&self) -> io::Result<OwnedFd> {
        self.0.try_clone()
    }

    /// Reads what was written so far. The writers share our file position, which shows how much that is.
    fn read_into(self, trace: &mut Trace) -> io::Result<()> {
        let end = tell(&self.0)?;
        let mut buffer = [0; 64 * 1024];
        let mut at = 0;
        while at < end {
            let count = rustix::io::pread(&self.0, &mut buffer, at)?;
            if count == 0 {
                break;
            }
            let left = usize::try_from(end - at).unwrap_or(usize::MAX);
            trace.feed(&buffer[..count.min(left)]);
            at += count as u64;
        }
        // Processes that still have it open cannot write any more, and the memory is freed.
        ftruncate(&self.0, 0)?;
        fcntl_add_seals(&self.0, SealFlags::WRITE)?;
        Ok(())
    }
}

/// Kills a child that is not reaped yet and everything in its session or group, and returns when they are dead. As long as the child is not
/// reaped, no other session can have its number.
fn end_session(child: &mut Child) {
    let leader = Pid::from_child(child);
    // Fails if there is no such group: then `setsid` has not run yet, and the child is alone.
    let _ = kill_process_group(leader, Signal::KILL);
    // Fails if it has ended already, which is fine.
    let _ = child.kill();
    // A member that forks meanwhile is seen in the next round. Rounds are bounded, because one may fork faster than this can look.
    for _ in 0..1000 {
        let mut alive = false;
        for pid in members(leader) {
            alive = true;
            let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else {
                continue;
            };
            // The pid may have been reused since. The descriptor refers to one process, so membership is checked again.
            if is_member(pid, leader) && pidfd_send_signal(&pidfd, Signal::KILL).is_ok() {
                let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
                let second = Timespec { tv_sec: 1, tv_nsec: 0 };
                // The next round checks whether it is gone.
                let _ = poll(&mut fds, Some(&second));
            }
        }
        if !alive {
            break;
        }
    }
    // It was killed, and no other thread waits for it.
    let _ = child.wait();
}

fn members(leader: Pid) -> Vec<Pid> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(Pid::from_raw)
        .filter(|pid| is_member(*pid, leader))
        .collect()
}

/// Whether a process is alive and in the session or group that `leader` leads.
fn is_member(pid: Pid, leader: Pid) -> bool {
    let path = format!("/proc/{}/stat", pid.as_raw_nonzero());
    let Ok(stat) = std::fs::read(path) else {
        return false;
    };
    // The name in parentheses may contain anything, also parentheses.
    let Some(end) = stat.iter().rposition(|byte| *byte == b')') else {
        return false;
    };
    let stat = String::from_utf8_lossy(&stat[end + 1..]);
    let fields: Vec<&str> = stat.split_whitespace().take(4).collect();
    let [state, _parent, group, session] = fields[..] else {
        return false;
    };
    let leader = leader.as_raw_nonzero().to_string();
    !matches!(state, "Z" | "X") && (group == leader || session == leader)
}
