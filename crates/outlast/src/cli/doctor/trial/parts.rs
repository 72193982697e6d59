//! The parts of a trial, one function each. Each returns what it observed, or what did not happen as promised.

use super::super::machine::ENDS_AT_LOGOUT;
use super::{CommandRun, KillSurvived, TrialFailure};
use crate::os;
use outlast_client::{At, Caller, Chunk, Chunks, Client, ClientError, From, Kill, ProcessInfo, Reason, Run, Spec, Take, Tell, Verdict};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long one fact may take. Each takes a fraction of a second; a longer wait is reported as a hang.
const STEP_TIMEOUT: Duration = Duration::from_secs(10);
/// If the doctor is killed, the commands of its trial end after this long.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a stopped tree may take to end before it is killed.
const GRACE: Duration = Duration::from_secs(2);
/// How often a fact is checked that no event announces.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Prints where it runs, reads a word, and prints it many times.
const TALK: &str = "if [ -t 0 ] && [ -t 1 ]; then printf 'terminal ready\\n'; else printf 'pipe ready\\n'; fi
read -r word; i=0
while [ $i -lt 1500 ]; do printf 'line %s of the trial: %s\\n' $i \"$word\"; i=$((i + 1)); done
exit 7";
const TALK_LINES: usize = 1_500;
const TALK_CODE: i32 = 7;

/// A tree of four processes: a child, a grandchild whose parent has ended, a child in a session of its own if `setsid` is installed, and
/// the shell itself.
const TREE: &str = "s=$(command -v setsid)
sleep 60 & echo child $!
(sleep 60 & echo child $!)
$s sh -c 'echo child $$; exec sleep 60' &
echo child $$
wait";
const TREE_MEMBERS: usize = 4;

/// Repeats what it reads.
const ECHO: &str = "while read -r line; do printf 'got %s\\n' \"$line\"; done; exit 9";
const ECHO_CODE: i32 = 9;

/// Which process of Outlast is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Victim {
    Holder,
    Pump,
    Engine,
}

/// An engine in the scratch home, and what commands inherit there.
pub(super) struct Trial {
    pub(super) client: Client,
    pub(super) home: PathBuf,
    pub(super) caller: Caller,
    /// The time limit for login files, which are read before the first command.
    pub(super) login_limit: Duration,
}

impl Trial {
    /// Output, input and an exit code, then the stop of a tree.
    pub(super) async fn talk(&self, on_terminal: bool) -> Result<CommandRun, TrialFailure> {
        let on = |spec: Spec| if on_terminal { spec.on_terminal() } else { spec.with_input() };
        let (info, mut output) = self.start(on(sh(TALK))).await?;
        if on_terminal && !info.pty {
            return Err(TrialFailure::no_terminal(&info.warnings.join("; ")));
        }
        let id = info.session_id.to_string();
        let ready = if on_terminal { "terminal ready" } else { "pipe ready" };
        output.until("the first line of a command", |text| text.contains(ready)).await?;
        let has_leaf = info.pid.and_then(os::cgroup_of).is_some_and(|path| path.split('/').any(|part| part == id));
        within("a command to take input", self.client.submit(&id, b"word", At::Byte(0))).await?;
        output.read_to_end().await?;
        let (seen, wanted) = (plain(&output.text()), talk_output(ready));
        // A terminal echoes its input.
        let seen = if on_terminal { seen.replacen("word\n", "", 1) } else { seen };
        if seen != wanted {
            return Err(TrialFailure::broken(&["P2"], format!("the output is not what was written: {}", difference(&seen, &wanted))));
        }
        let mut warnings = self.has_code(&id, TALK_CODE).await?.warnings;
        // These are not about the trial alone, and have their own checks.
        warnings.retain(|warning| !warning.contains("cgroup") && !warning.contains(ENDS_AT_LOGOUT));
        let stopped = self.stop(on(sh(TREE))).await?;
        Ok(CommandRun { bytes: output.bytes.len(), stopped, has_leaf, warnings })
    }

    /// Stops a tree, checks that all its processes are gone, and returns how many there were.
    async fn stop(&self, spec: Spec) -> Result<usize, TrialFailure> {
        let (info, mut output) = self.start(spec).await?;
        let id = info.session_id.to_string();
        output.until("a tree of processes to start", |text| tree(text).len() == TREE_MEMBERS).await?;
        let members: BTreeMap<u32, u64> = tree(&output.text()).into_iter().filter_map(|pid| Some((pid, os::stat(pid)?.started))).collect();
        within("a tree to be stopped", self.client.kill(&id, Kill::within(GRACE))).await?;
        let lives = |(pid, started): (&u32, &u64)| os::stat(*pid).is_some_and(|now| now.started == *started && !now.is_zombie);
        let alive: Vec<String> = members.iter().filter(|member| lives(*member)).map(|(pid, _)| pid.to_string()).collect();
        match alive.is_empty() {
            true => Ok(members.len()),
            false => Err(TrialFailure::broken(
                &["P6"],
                format!("a stop left {} of {} processes alive: {}", alive.len(), members.len(), alive.join(", ")),
            )),
        }
    }

    /// Kills one process of Outlast with SIGKILL while a command runs. The command must not be affected.
    pub(super) async fn kill(&self, victim: Victim) -> Result<KillSurvived, TrialFailure> {
        let (info, mut output) = self.start(sh(ECHO).with_input().telling(Tell::end())).await?;
        let id = info.session_id.to_string();
        let sent = within("a command to take input", self.client.submit(&id, b"one", At::Byte(0))).await?;
        output.until("a command to answer", |text| text == "got one\n").await?;
        match victim {
            Victim::Engine => self.kill_engine().await?,
            Victim::Holder | Victim::Pump => self.kill_keeper(&info, victim).await?,
        }
        let next = At::Byte(sent.next_offset.unwrap_or(4));
        let what = format!("a command to take input after {} was killed", victim.name());
        within(&what, self.client.submit(&id, b"two", next)).await?;
        let what = format!("output after {} was killed", victim.name());
        output.until(&what, |text| text == "got one\ngot two\n").await?;
        let now = within("the state of a command", self.client.poll(&id)).await?;
        if now.pid != info.pid {
            return Err(TrialFailure::broken(&["P5"], format!("after {} was killed the command has another pid", victim.name())));
        }
        within("the input of a command to be closed", self.client.close(&id)).await?;
        output.read_to_end().await?;
        self.has_code(&id, ECHO_CODE).await?;
        self.is_told_once(&id).await?;
        Ok(KillSurvived { protection: now.protection.unwrap_or_default() })
    }

    /// Kills one keeper of a process, and waits until the other has replaced it.
    async fn kill_keeper(&self, info: &ProcessInfo, victim: Victim) -> Result<(), TrialFailure> {
        let folder = self.home.join("proc").join(info.session_id.to_string());
        let not_found = || TrialFailure::broken(&["P5"], format!("{} of a command was not found below /proc", victim.name()));
        let keepers = os::keepers_of(&folder);
        let holder =
            info.pid.and_then(os::stat).map(|command| command.parent).filter(|parent| keepers.contains(parent)).ok_or_else(not_found)?;
        let pid = match victim {
            Victim::Holder => holder,
            Victim::Pump | Victim::Engine => keepers.iter().copied().find(|pid| *pid != holder).ok_or_else(not_found)?,
        };
        end(pid, victim, || os::keepers_of(&folder).contains(&pid))?;
        let replaced = || {
            let now = os::keepers_of(&folder);
            (now.len() == 2 && !now.contains(&pid)).then_some(())
        };
        eventually(&format!("{} to be replaced", victim.name()), replaced).await
    }

    /// Kills the engine. The next request starts another.
    async fn kill_engine(&self) -> Result<(), TrialFailure> {
        let pid = within("the state of the engine", self.client.engine_status()).await?.pid;
        end(pid, Victim::Engine, || os::is_engine_of(pid, &self.home))?;
        let next = within("another engine after one was killed", self.client.engine_status()).await?;
        match next.pid == pid {
            true => Err(TrialFailure::broken(&["P5"], "the engine that was killed still answers")),
            false => Ok(()),
        }
    }

    async fn start(&self, spec: Spec) -> Result<(ProcessInfo, Output), TrialFailure> {
        let run = Run::new(spec.at_most(COMMAND_TIMEOUT).ending_with_the_engine(), self.caller.clone());
        let start = within_limit(STEP_TIMEOUT + self.login_limit, "a command to start", self.client.run_info(run));
        let info = start.await.map_err(TrialFailure::fatal)?;
        if info.fate.completion_reason == Some(Reason::FailedStart) {
            let why = info.fate.start_error.unwrap_or_else(|| "no reason was given".into());
            return Err(TrialFailure::broken(&[], format!("no command can be started: {why}")).fatal());
        }
        let chunks = self.client.follow_to_exit(&info.session_id.to_string(), From::Byte(0));
        Ok((info, Output { chunks, bytes: Vec::new(), missing: None }))
    }

    async fn has_code(&self, id: &str, wanted: i32) -> Result<ProcessInfo, TrialFailure> {
        let info = within("the exit code of a command", self.client.poll(id)).await?;
        match info.fate.exit_code.flatten() {
            Some(code) if code == wanted => Ok(info),
            Some(code) => Err(TrialFailure::broken(&["P3"], format!("the exit code is {code}, and the command exited with {wanted}"))),
            None => Err(TrialFailure::broken(&["P3"], format!("the exit code of a command is not known: it is {}", info.phase))),
        }
    }

    /// Takes the notice of an end as an agent does. It must come once.
    async fn is_told_once(&self, id: &str) -> Result<(), TrialFailure> {
        let mut times = 0;
        for wait in [STEP_TIMEOUT, Duration::ZERO] {
            let take = Take::default().limit(10).wait_at_most(wait);
            let taken = within_limit(STEP_TIMEOUT * 2, "the notice of an end", self.client.take(&take)).await?;
            for told in &taken.notices {
                let ids = [told.event.event_id.as_str()];
                within("a notice to be settled", self.client.settle(&ids, told.lease.as_deref(), Verdict::Delivered)).await?;
            }
            times +=
                taken.notices.iter().filter(|told| serde_json::to_value(&told.event).is_ok_and(|event| event["session_id"] == id)).count();
        }
        match times {
            1 => Ok(()),
            0 => Err(TrialFailure::broken(&["P4"], "no notice of the end of a command came")),
            n => Err(TrialFailure::broken(&["P4"], format!("the end of a command was reported {n} times"))),
        }
    }
}

impl Victim {
    fn name(self) -> &'static str {
        match self {
            Self::Holder => "the holder",
            Self::Pump => "the pump",
            Self::Engine => "the engine",
        }
    }
}

/// Kills a process if `is_it` still identifies it, and waits for its end.
fn end(pid: u32, victim: Victim, is_it: impl FnOnce() -> bool) -> Result<(), TrialFailure> {
    match os::kill_now(pid, is_it, STEP_TIMEOUT) {
        Ok(true) => Ok(()),
        Ok(false) => Err(TrialFailure::hang(&format!("{} (pid {pid}) to die of SIGKILL", victim.name()), STEP_TIMEOUT)),
        Err(e) => Err(TrialFailure::broken(&["P5"], format!("cannot kill {} (pid {pid}): {e}", victim.name()))),
    }
}

fn sh(script: &str) -> Spec {
    Spec::argv(["/bin/sh", "-c", script])
}

fn talk_output(ready: &str) -> String {
    let lines = (0..TALK_LINES).map(|n| format!("line {n} of the trial: word\n"));
    std::iter::once(format!("{ready}\n")).chain(lines).collect()
}

/// The pids that a tree has printed.
fn tree(text: &str) -> Vec<u32> {
    let complete = text.rfind('\n').map_or("", |end| &text[..end]);
    complete.lines().filter_map(|line| line.trim_end().strip_prefix("child ")?.parse().ok()).collect()
}

/// Undoes the line ends that a terminal makes.
fn plain(text: &str) -> String {
    text.replace("\r\n", "\n")
}

fn difference(seen: &str, wanted: &str) -> String {
    let at = seen.bytes().zip(wanted.bytes()).take_while(|(a, b)| a == b).count();
    format!("{} of {} bytes arrived, and they differ from byte {at} on", seen.len(), wanted.len())
}

/// The output of one command, as it arrives.
struct Output {
    chunks: Chunks,
    bytes: Vec<u8>,
    /// A description of the first gap.
    missing: Option<String>,
}

impl Output {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// Reads until the text meets a condition.
    async fn until(&mut self, what: &str, is_there: impl Fn(&str) -> bool) -> Result<(), TrialFailure> {
        let read = async {
            while !is_there(&plain(&self.text())) {
                if !self.more().await? {
                    return Ok(Err(TrialFailure::broken(&["P2"], format!("the output ended while the trial waited for {what}"))));
                }
            }
            Ok(Ok(()))
        };
        within(what, read).await?
    }

    /// Reads until the command has ended.
    async fn read_to_end(&mut self) -> Result<(), TrialFailure> {
        within("a command to end", async {
            while self.more().await? {}
            Ok(())
        })
        .await?;
        match self.missing.take() {
            Some(missing) => Err(TrialFailure::broken(&["P2"], missing)),
            None => Ok(()),
        }
    }

    /// Reads the next part of the output. Returns whether there was one.
    async fn more(&mut self) -> Result<bool, ClientError> {
        match self.chunks.next().await? {
            Some(Chunk::Bytes { bytes, .. }) => self.bytes.extend(bytes),
            Some(Chunk::Gap { from, to, why }) => {
                self.missing.get_or_insert_with(|| format!("bytes {from} to {to} of the output are missing: {why}"));
            }
            None => return Ok(false),
        }
        Ok(true)
    }
}

/// Waits for an answer, up to the time limit.
pub(super) async fn within<T>(what: &str, work: impl Future<Output = Result<T, ClientError>>) -> Result<T, TrialFailure> {
    within_limit(STEP_TIMEOUT, what, work).await
}

pub(super) async fn within_limit<T>(
    limit: Duration,
    what: &str,
    work: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, TrialFailure> {
    match tokio::time::timeout(limit, work).await {
        Ok(done) => done.map_err(|e| TrialFailure::refused(what, &e)),
        Err(_) => Err(TrialFailure::hang(what, limit)),
    }
}

/// Polls for a fact that no event announces, up to the time limit.
async fn eventually(what: &str, look: impl Fn() -> Option<()>) -> Result<(), TrialFailure> {
    let until = Instant::now() + STEP_TIMEOUT;
    while look().is_none() {
        if Instant::now() >= until {
            return Err(TrialFailure::hang(what, STEP_TIMEOUT));
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_lines_of_a_tree_count() {
        assert_eq!(tree("child 12\nchild 345"), [12]);
        assert_eq!(tree("child 12\r\nchild 345\r\n"), [12, 345]);
        assert!(tree("").is_empty());
    }

    #[test]
    fn what_is_wrong_with_output_is_named() {
        assert_eq!(difference("abX", "abcd"), "3 of 4 bytes arrived, and they differ from byte 2 on");
        assert!(talk_output("pipe ready").starts_with("pipe ready\nline 0 of the trial: word\nline 1 "));
    }
}
