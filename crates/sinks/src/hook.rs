//! One run of a hook command: in a process group of its own, with bounded input, output and time.
//!
//! Decision 53: docs/decisions/sinks.md.

use crate::os::Life;
use crate::run::Outcome;
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

/// How much of what a hook writes is kept: the end of it.
const TAIL: usize = 4 * 1024;

/// How much is read after a hook ended, for its last words. A child that it left behind may write for ever.
const LAST_WORDS: usize = 64 * 1024;

/// How long a hook goes on when the engine stops. Whatever has not ended is run again by the next engine.
const STOP_WAIT: Duration = Duration::from_secs(1);

/// A variable longer than this is left out, and the text is cut: the kernel would refuse the whole command. The JSON has all of it.
const LONGEST_VARIABLE: usize = 4 * 1024;

/// Runs the hook for these, and says how that went. `stop` turns true when the engine stops.
pub(crate) async fn tell(hook: &Hook, batch: &[Delivery], stop: watch::Receiver<bool>) -> Outcome {
    match call(hook, batch, stop).await {
        Called { failure: None, .. } => Outcome::Done,
        Called { failure: Some(what), output, .. } => Outcome::failed(reason::with(&what, &output)),
    }
}

/// How a run of a hook ended.
pub(crate) struct Called {
    /// What went wrong, if anything did.
    pub(crate) failure: Option<String>,
    /// Nothing if it was not started, or not even KILL ended it in time.
    pub(crate) status: Option<ExitStatus>,
    /// The end of what it wrote.
    pub(crate) output: Vec<u8>,
}

/// Runs the hook once for these.
pub(crate) async fn call(hook: &Hook, batch: &[Delivery], mut stop: watch::Receiver<bool>) -> Called {
    let Some(first) = batch.first() else { return Called { failure: None, status: None, output: Vec::new() } };
    let input = if hook.gather.gathers() { event::many(batch) } else { event::one(first) };
    let mut run = match start(hook, &variables(first, batch.len())) {
        Ok(run) => run,
        Err(error) => return Called { failure: Some(format!("cannot run the hook: {error}")), status: None, output: Vec::new() },
    };
    let why = run.until_over(&input, hook, &mut stop).await;
    let status = run.finish(why, hook.grace).await;
    let output = run.tail();
    let failure = match (why, status) {
        (Why::Ended, Some(status)) if status.success() => None,
        (Why::Ended, status) => Some(ending(status)),
        (Why::TooLong, _) => Some(format!("did not end within {:?}, and was stopped", hook.time_limit)),
        (Why::Stopping, _) => Some("the engine stopped while the hook ran".to_owned()),
    };
    Called { failure, status, output }
}

fn ending(status: Option<ExitStatus>) -> String {
    match status.map(|s| (s.code(), s.signal())) {
        Some((Some(code), _)) => format!("exit code {code}"),
        Some((_, Some(signal))) => format!("ended by signal {signal}"),
        _ => "ended, and its exit status is unknown".to_owned(),
    }
}

/// What a hook can know without reading its input: about the first notice, and how many there are.
fn variables(first: &Delivery, count: usize) -> Vec<(&'static str, String)> {
    let notice = &first.event;
    let all = [
        ("OUTLAST_EVENT_ID", notice.event_id.clone()),
        ("OUTLAST_EVENT_KIND", notice.kind().to_owned()),
        ("OUTLAST_EVENT_COUNT", count.to_string()),
        ("OUTLAST_SESSION", notice.session_key.clone()),
        ("OUTLAST_PROCESS", notice.session_id.clone()),
        ("OUTLAST_NAME", notice.name().unwrap_or_default().to_owned()),
        ("OUTLAST_EXIT_CODE", exit_code(notice).map(|code| code.to_string()).unwrap_or_default()),
        ("OUTLAST_TEXT", beginning(&first.text)),
    ];
    all.into_iter().filter(|(_, value)| value.len() <= LONGEST_VARIABLE && !value.contains('\0')).collect()
}

/// The exit code of the process whose end is told, if it is known.
fn exit_code(notice: &Notice) -> Option<i32> {
    match &notice.body {
        Body::Completion(end) => end.exit_code,
        _ => None,
    }
}

/// As much of a text as a variable may hold.
fn beginning(text: &str) -> String {
    let mut end = text.len().min(LONGEST_VARIABLE);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

/// Why a run is over, or has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    Ended,
    TooLong,
    Stopping,
}

/// A hook that was started. Dropped before it was reaped, it is killed with its group.
struct Run {
    /// Nothing once it was reaped, or given to whoever reaps it.
    child: Option<Child>,
    group: Pid,
    life: Life,
    output: pipe::Receiver,
    tail: Mutex<Vec<u8>>,
}

fn start(hook: &Hook, variables: &[(&str, String)]) -> io::Result<Run> {
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
    // The command holds our copies of the writing end.
    drop(command);
    let group = Pid::from_child(&child);
    match Life::of(group) {
        Ok(life) => Ok(Run { child: Some(child), group, life, output, tail: Mutex::default() }),
        Err(error) => {
            // Not reaped yet, so the number is still its own. It has no input yet and cannot have done its work.
            let _gone = kill_process_group(group, Signal::KILL);
            let _reaped = child.wait();
            Err(error)
        }
    }
}

impl Run {
    /// Feeds and reads it until it ends or has to.
    async fn until_over(&mut self, input: &[u8], hook: &Hook, stop: &mut watch::Receiver<bool>) -> Why {
        let stdin = self.child.as_mut().and_then(|c| c.stdin.take());
        let talk = async {
            tokio::join!(feed(stdin, input), self.drain());
            pending::<()>().await;
        };
        let stopping = async {
            // A sender that is gone means the same: whoever started the sinks let go of them.
            drop(stop.wait_for(|stop| *stop).await);
            sleep(STOP_WAIT).await;
        };
        tokio::select! {
            biased;
            () = self.life.ended() => Why::Ended,
            () = sleep(hook.time_limit) => Why::TooLong,
            () = stopping => Why::Stopping,
            () = talk => unreachable!("it waits for ever once all is said"),
        }
    }

    /// Stops what has not ended, and reaps it. Nothing where even KILL did not end it in time.
    async fn finish(&mut self, why: Why, grace: Duration) -> Option<ExitStatus> {
        let grace = match why {
            Why::Ended => return self.reap(),
            Why::TooLong => grace,
            Why::Stopping => grace.min(STOP_WAIT),
        };
        self.signal(Signal::TERM);
        // Over are they all when the leader ended and nobody holds the output.
        let _late = timeout(grace, async { tokio::join!(self.life.ended(), self.drain()) }).await;
        self.signal(Signal::KILL);
        match timeout(grace, self.life.ended()).await {
            Ok(()) => self.reap(),
            Err(_) => {
                // In the kernel's hands, as with a dead network disk. Somebody has to wait for it, but not we.
                self.abandon();
                None
            }
        }
    }

    fn signal(&self, signal: Signal) {
        if self.child.is_some() {
            // Gone already, or not allowed as after a setuid: nothing that could be done about it here.
            let _gone = kill_process_group(self.group, signal);
        }
    }

    fn reap(&mut self) -> Option<ExitStatus> {
        // It has ended, so this does not wait.
        self.child.take().and_then(|mut child| child.wait().ok())
    }

    fn abandon(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Without a thread for it the zombie stays for as long as the engine does.
            let _none = std::thread::Builder::new().name("hook-reaper".into()).spawn(move || child.wait());
        }
    }

    /// Reads output into the tail until nobody can write any more.
    async fn drain(&self) {
        let mut buffer = [0; 8 * 1024];
        loop {
            match self.output.try_read(&mut buffer) {
                Ok(0) => return,
                Ok(n) => {
                    self.keep(&buffer[..n]);
                    // A hook that floods must not keep its time limit from being looked at.
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
        let mut tail = self.tail.lock().expect("nobody panics while holding it");
        tail.extend_from_slice(bytes);
        let over = tail.len().saturating_sub(TAIL);
        tail.drain(..over);
    }

    /// The end of what it wrote, with its last words.
    fn tail(&self) -> Vec<u8> {
        let mut buffer = [0; 8 * 1024];
        let mut read = 0;
        while read < LAST_WORDS {
            // Asked of the kernel: the runtime may not have heard yet that there is something.
            match rustix::io::read(&self.output, &mut buffer) {
                Ok(n) if n > 0 => {
                    self.keep(&buffer[..n]);
                    read += n;
                }
                _ => break,
            }
        }
        std::mem::take(&mut *self.tail.lock().expect("nobody panics while holding it"))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        self.abandon();
    }
}

/// Writes the input, for as long as it is read, and closes it.
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
            // It does not want to read, which is its own business.
            Err(_) => return,
        }
    }
}
