//! One run of a hook command: in a process group of its own, with bounded input, output and time.
//!
//! Decision 53: docs/decisions/sinks.md.

use crate::call_result::CallResult;
use crate::os::ChildHandle;
use crate::{Hook, HookCommand, event, reason};
use outlast_client::{Body, Delivery, Notice};
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsString;
use std::future::pending;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::Duration;
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// How much of a hook's output is kept: the end of it.
const OUTPUT_TAIL_BYTES: usize = 4 * 1024;

/// How much output is read after a hook exited. A child that outlived it may write for ever.
const MAX_READ_AFTER_EXIT: usize = 64 * 1024;

/// How long a hook may keep running when the engine stops. The next engine runs an unfinished hook again.
const ENGINE_STOP_GRACE: Duration = Duration::from_secs(1);

/// A longer variable is left out, and a longer text is cut: the kernel would refuse the whole command. The JSON has all of it.
const MAX_VARIABLE_BYTES: usize = 4 * 1024;

/// Runs the hook for a batch of notices. `stop` turns true when the engine stops.
pub(crate) async fn deliver(hook: &Hook, batch: &[Delivery], stop: watch::Receiver<bool>) -> CallResult {
    match call(hook, batch, stop).await {
        HookRun { failure: None, .. } => CallResult::Done,
        HookRun { failure: Some(what), output, .. } => CallResult::failed(reason::with(&what, &output)),
    }
}

/// How a run of a hook ended.
pub(crate) struct HookRun {
    /// Why the run failed, if it did.
    pub(crate) failure: Option<String>,
    /// `None` if it did not start, or if KILL did not end it in time.
    pub(crate) status: Option<ExitStatus>,
    /// The end of its output.
    pub(crate) output: Vec<u8>,
    /// The variables that it was given about the first notice.
    pub(crate) variables: Vec<(&'static str, String)>,
}

/// Runs the hook once for a batch of notices.
pub(crate) async fn call(hook: &Hook, batch: &[Delivery], mut stop: watch::Receiver<bool>) -> HookRun {
    let Some(first) = batch.first() else {
        return HookRun { failure: None, status: None, output: Vec::new(), variables: Vec::new() };
    };
    let input = if hook.gather.gathers() { event::many(batch) } else { event::one(first) };
    let variables = variables(hook, first, batch.len());
    let mut run = match start(hook, &variables) {
        Ok(run) => run,
        Err(error) => {
            return HookRun { failure: Some(format!("cannot run the hook: {error}")), status: None, output: Vec::new(), variables };
        }
    };
    let end = run.wait(&input, hook, &mut stop).await;
    let status = run.finish(end, hook.grace).await;
    let output = run.tail();
    let failure = match (end, status) {
        (RunEnd::Exited, Some(status)) if status.success() => None,
        (RunEnd::Exited, status) => Some(ending(status)),
        (RunEnd::TimedOut, _) => Some(format!("did not end within {:?}, and was stopped", hook.time_limit)),
        (RunEnd::EngineStopped, _) => Some("the engine stopped while the hook ran".to_owned()),
    };
    HookRun { failure, status, output, variables }
}

fn ending(status: Option<ExitStatus>) -> String {
    match status.map(|s| (s.code(), s.signal())) {
        Some((Some(code), _)) => format!("exit code {code}"),
        Some((_, Some(signal))) => format!("ended by signal {signal}"),
        _ => "ended, and its exit status is unknown".to_owned(),
    }
}

/// The variables of a hook: facts about the first notice, and the number of notices.
fn variables(hook: &Hook, first: &Delivery, count: usize) -> Vec<(&'static str, String)> {
    let notice = &first.event;
    let text = hook.one_line.as_ref().map_or_else(|| first.text.clone(), |one_line| one_line(notice));
    let all = [
        ("OUTLAST_EVENT_ID", notice.event_id.clone()),
        ("OUTLAST_EVENT_KIND", notice.kind().to_owned()),
        ("OUTLAST_EVENT_COUNT", count.to_string()),
        ("OUTLAST_SESSION", notice.session_key.clone()),
        ("OUTLAST_PROCESS", notice.session_id.clone()),
        ("OUTLAST_NAME", notice.name().unwrap_or_default().to_owned()),
        ("OUTLAST_EXIT_CODE", exit_code(notice).map(|code| code.to_string()).unwrap_or_default()),
        ("OUTLAST_TEXT", beginning(&text)),
    ];
    all.into_iter().filter(|(_, value)| value.len() <= MAX_VARIABLE_BYTES && !value.contains('\0')).collect()
}

/// The exit code of the process, if the notice is about its end and the code is known.
fn exit_code(notice: &Notice) -> Option<i32> {
    match &notice.body {
        Body::Completion(end) => end.exit_code,
        _ => None,
    }
}

/// The part of a text that fits into a variable.
fn beginning(text: &str) -> String {
    let mut end = text.len().min(MAX_VARIABLE_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

/// Why a run ended, or has to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunEnd {
    Exited,
    TimedOut,
    EngineStopped,
}

/// A running hook. If it is dropped before it was reaped, its group is killed.
struct RunningHook {
    /// `None` once it was reaped, or handed to the thread that reaps it.
    child: Option<Child>,
    group: Pid,
    process: ChildHandle,
    output: pipe::Receiver,
    tail: Mutex<Vec<u8>>,
}

fn start(hook: &Hook, variables: &[(&str, String)]) -> io::Result<RunningHook> {
    let (ours, theirs) = io::pipe()?;
    let output = pipe::Receiver::from_owned_fd(ours.into())?;
    let (program, arguments): (OsString, Vec<OsString>) = match &hook.command {
        HookCommand::Shell(line) => ("/bin/sh".into(), vec!["-c".into(), line.into()]),
        HookCommand::Argv(words) => {
            let (program, rest) = words.split_first().ok_or_else(|| io::Error::other("the command is empty"))?;
            (program.into(), rest.iter().map(Into::into).collect())
        }
    };
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(hook.env.iter().cloned());
    command.envs(variables.iter().map(|(name, value)| (name, value))).current_dir(&hook.dir);
    command.stdin(Stdio::piped()).stdout(theirs.try_clone()?).stderr(theirs).process_group(0);
    let mut child = command.spawn()?;
    // The command holds our copies of the pipe's writing end.
    drop(command);
    let group = Pid::from_child(&child);
    match ChildHandle::of(group) {
        Ok(process) => Ok(RunningHook { child: Some(child), group, process, output, tail: Mutex::default() }),
        Err(error) => {
            // The child is not reaped yet, so the pid is still its own. It got no input, so it cannot have done its work.
            let _gone = kill_process_group(group, Signal::KILL);
            let _reaped = child.wait();
            Err(error)
        }
    }
}

impl RunningHook {
    /// Writes its input and reads its output until it exits or has to be stopped.
    async fn wait(&mut self, input: &[u8], hook: &Hook, stop: &mut watch::Receiver<bool>) -> RunEnd {
        let stdin = self.child.as_mut().and_then(|c| c.stdin.take());
        let talk = async {
            tokio::join!(feed(stdin, input), self.drain());
            pending::<()>().await;
        };
        let stopping = async {
            // If the sender is gone, the engine dropped its sinks: the same.
            drop(stop.wait_for(|stop| *stop).await);
            sleep(ENGINE_STOP_GRACE).await;
        };
        tokio::select! {
            biased;
            () = self.process.exited() => RunEnd::Exited,
            () = sleep(hook.time_limit) => RunEnd::TimedOut,
            () = stopping => RunEnd::EngineStopped,
            () = talk => unreachable!("it waits for ever once input and output are closed"),
        }
    }

    /// Stops a hook that did not exit, and reaps it. `None` if KILL did not end it in time.
    async fn finish(&mut self, end: RunEnd, grace: Duration) -> Option<ExitStatus> {
        let grace = match end {
            RunEnd::Exited => return self.reap(),
            RunEnd::TimedOut => grace,
            RunEnd::EngineStopped => grace.min(ENGINE_STOP_GRACE),
        };
        self.signal(Signal::TERM);
        // The whole group has ended when the leader exited and the output is closed.
        let _late = timeout(grace, async { tokio::join!(self.process.exited(), self.drain()) }).await;
        self.signal(Signal::KILL);
        match timeout(grace, self.process.exited()).await {
            Ok(()) => self.reap(),
            Err(_) => {
                // It hangs in the kernel, as on a dead network disk. A thread waits for it.
                self.abandon();
                None
            }
        }
    }

    fn signal(&self, signal: Signal) {
        if self.child.is_some() {
            // The group has ended, or we may not signal it, as after a setuid. Either way there is nothing else to try.
            let _gone = kill_process_group(self.group, signal);
        }
    }

    fn reap(&mut self) -> Option<ExitStatus> {
        // The child has exited, so this does not block.
        self.child.take().and_then(|mut child| child.wait().ok())
    }

    fn abandon(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Without this thread the zombie stays until the engine exits.
            let _none = std::thread::Builder::new().name("hook-reaper".into()).spawn(move || child.wait());
        }
    }

    /// Reads output into the tail until the last writer closed it.
    async fn drain(&self) {
        let mut buffer = [0; 8 * 1024];
        loop {
            match self.output.try_read(&mut buffer) {
                Ok(0) => return,
                Ok(n) => {
                    self.keep(&buffer[..n]);
                    // A hook that floods must not keep the time limit from being checked.
                    tokio::task::yield_now().await;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    if self.output.readable().await.is_err() {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
    }

    fn keep(&self, bytes: &[u8]) {
        let mut tail = self.tail.lock().expect("no code panics while holding it");
        tail.extend_from_slice(bytes);
        let over = tail.len().saturating_sub(OUTPUT_TAIL_BYTES);
        tail.drain(..over);
    }

    /// The end of its output, with what the pipe still holds.
    fn tail(&self) -> Vec<u8> {
        let mut buffer = [0; 8 * 1024];
        let mut read = 0;
        while read < MAX_READ_AFTER_EXIT {
            // The kernel is asked directly: the runtime may not know yet that there is data.
            match rustix::io::read(&self.output, &mut buffer) {
                Ok(n) if n > 0 => {
                    self.keep(&buffer[..n]);
                    read += n;
                }
                _ => break,
            }
        }
        std::mem::take(&mut *self.tail.lock().expect("no code panics while holding it"))
    }
}

impl Drop for RunningHook {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        self.abandon();
    }
}

/// Writes the input for as long as the hook reads it, and closes it.
async fn feed(stdin: Option<ChildStdin>, input: &[u8]) {
    let Some(Ok(pipe)) = stdin.map(|s| pipe::Sender::from_owned_fd(s.into())) else { return };
    let mut left = input;
    while !left.is_empty() {
        match pipe.try_write(left) {
            Ok(n) => left = &left[n..],
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                if pipe.writable().await.is_err() {
                    return;
                }
            }
            // The hook closed its input, as it may.
            Err(_) => return,
        }
    }
}
