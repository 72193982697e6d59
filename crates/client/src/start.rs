//! Starting an engine or a gateway where none runs.

use crate::ClientError;
use crate::dial::greet;
use crate::link::Link;
use crate::peer::{Peer, Talk};
use outlast_core::limits::ENGINE_LOG_BYTES;
use outlast_wire::v1::LockHolder;
use rustix::fs::{FlockOperation, flock};
use rustix::pipe::{PipeFlags, pipe_with};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};

/// How long a program may take to replay its home. It tells when it is ready or dies; this bounds one that does neither.
const READY_LIMIT: Duration = Duration::from_secs(120);
/// How often a program that was killed while it started is started again.
const ATTEMPTS: u32 = 5;
/// How long a program that has let go of the pipe may take to be gone.
const EXIT_LIMIT: Duration = Duration::from_secs(5);
/// How often a client checks a program that holds its lock and does not listen yet.
const LOCK_RETRY: Duration = Duration::from_millis(20);
/// How much of the end of its log is looked at for its last words.
const LAST_WORDS: u64 = 4 << 10;
/// What a program says that gives up. One that listens says `ready`.
const FAILED: &[u8] = b"failed\n";
/// What a gateway says that found another one at work.
const TAKEN: &[u8] = b"taken\n";

/// For whom a program is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Starter {
    /// A user or program that asks something of it.
    Asker,
    /// One that only looks on, in place of a gateway that died. None is started if a person stops the gateway just then.
    Onlooker,
}

/// A connection to the engine or gateway of `home`, which is started unless another client just did.
pub(crate) async fn started<T: Talk>(home: &Path, program: &Path, starter: Starter) -> Result<Link<T>, ClientError> {
    let at = Place { peer: T::PEER, home, program, starter };
    at.make_home()?;
    // Held until the program listens, so that of many who come at once one starts it and the others find it.
    let lock = at.lock().await?;
    if let Some(link) = greet(home).await? {
        return Ok(link);
    }
    let mut failed = String::new();
    for _ in 0..ATTEMPTS {
        if let Some(link) = at.wait_for_lock_holder().await? {
            return Ok(link);
        }
        let (log, said) = at.log()?;
        let mut child = at.spawn(&lock, log, said).await?;
        if let Some(link) = greet(home).await? {
            return Ok(link);
        }
        // What we started ends at once: the engine or gateway is a child of it, and nobody's from then on.
        let status = tokio::time::timeout(EXIT_LIMIT, child.process.wait()).await;
        failed = match status {
            Ok(Ok(status)) => at.last_words(child.said).unwrap_or_else(|| ended(status, &child.word)),
            Ok(Err(_)) | Err(_) => "it runs, but does not listen".into(),
        };
        // One that was killed says nothing about the next; one that gave up would again.
        let killed = matches!(status, Ok(Ok(s)) if s.signal().is_some() || s.success() && child.word != FAILED);
        // The engine starts gateways as well, and may have been first: then that one is waited for, or if it is gone by now, another is started.
        let is_beaten = T::PEER == Peer::Gateway && (child.word == TAKEN || at.is_held());
        if !killed && !is_beaten {
            break;
        }
    }
    Err(at.failed(failed))
}

struct Place<'a> {
    peer: Peer,
    home: &'a Path,
    program: &'a Path,
    starter: Starter,
}

struct Started {
    process: Child,
    /// What it said of itself; nothing if it was killed before it knew.
    word: Vec<u8>,
    /// Where its own words begin in the log.
    said: u64,
}

impl Place<'_> {
    fn make_home(&self) -> Result<(), ClientError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(self.home).and_then(|()| std::fs::metadata(self.home));
        let owner = made.map_err(|e| self.unusable(format!("cannot make the home {}: {e}", self.home.display())))?.uid();
        let us = rustix::process::geteuid().as_raw();
        if owner == us {
            return Ok(());
        }
        Err(ClientError::Start {
            peer: self.peer,
            program: self.program.into(),
            error: format!("the home {} belongs to user {owner}, not to you (user {us})", self.home.display()),
            hint: "set OUTLAST_HOME to a directory of yours".into(),
        })
    }

    async fn lock(&self) -> Result<File, ClientError> {
        let path = self.home.join(match self.peer {
            Peer::Engine => "start.lock",
            Peer::Gateway => "gateway-start.lock",
        });
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path).map_err(|e| self.cannot("open", &path, e))?;
        match tokio::time::timeout(READY_LIMIT, hold(file, FlockOperation::LockExclusive)).await {
            Ok(held) => held.map_err(|e| self.cannot("lock", &path, e)),
            Err(_) => Err(self.failed(format!("another one has been starting for {} s", READY_LIMIT.as_secs()))),
        }
    }

    /// The lock that the program holds for as long as it lives.
    fn life_lock(&self) -> PathBuf {
        self.home.join(match self.peer {
            Peer::Engine => "lock",
            Peer::Gateway => "gateway.lock",
        })
    }

    fn is_held(&self) -> bool {
        File::open(self.life_lock()).is_ok_and(|lock| !is_free(&lock))
    }

    /// How long a program that no longer listens may take to let go of its lock. An engine may be stopping processes, a gateway agents.
    fn ending_limit(&self) -> Duration {
        match self.peer {
            Peer::Engine => Duration::from_secs(30),
            Peer::Gateway => Duration::from_secs(90),
        }
    }

    /// The engine that holds the home, if it runs in another container or on another machine. The client does not wait for it: its sockets
    /// cannot be reached from here. A gateway runs where its engine does.
    fn held_elsewhere(&self) -> Option<LockHolder> {
        let pid = std::fs::read_to_string(self.home.join("lock")).ok()?;
        let holder: LockHolder = serde_json::from_slice(&std::fs::read(self.home.join("lock.ns")).ok()?).ok()?;
        let is_current = pid.trim().parse() == Ok(holder.pid);
        (is_current && !holder.namespaces.shares_pids(&crate::place::namespaces())).then_some(holder)
    }

    /// Waits while a program holds its lock and does not listen. The program may be ending, and unlocks last. Or another program, such as a
    /// service manager or the engine, has just started it, and it is about to listen.
    async fn wait_for_lock_holder<T: Talk>(&self) -> Result<Option<Link<T>>, ClientError> {
        let path = self.life_lock();
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(self.cannot("open", &path, e)),
        };
        if is_free(&file) {
            return Ok(None);
        }
        if let Some(holder) = self.held_elsewhere() {
            return Err(ClientError::Unavailable {
                error: format!(
                    "the home {} is held by an engine in another container or on another machine (pid {} there), and its sockets cannot be reached from here",
                    self.home.display(),
                    holder.pid
                ),
                hint: "set OUTLAST_HOME to a directory that is not shared, or let both use one XDG_RUNTIME_DIR".into(),
            });
        }
        let began = tokio::time::Instant::now();
        while began.elapsed() < self.ending_limit() {
            if let Some(link) = greet(self.home).await? {
                return Ok(Some(link));
            }
            if is_free(&file) {
                return Ok(None);
            }
            // A thread that blocks on the lock could not be cancelled once the program listens. So lock and socket are checked again until
            // the time limit.
            tokio::time::sleep(LOCK_RETRY).await;
        }
        let (error, hint) = match self.peer {
            Peer::Engine => {
                let pid = std::fs::read_to_string(&path).unwrap_or_default();
                (
                    format!("an engine (pid {}) holds the home {} and does not listen", pid.trim(), self.home.display()),
                    "it may still be ending, or be stuck: `kill -9` of the engine harms no process, and the next command starts another",
                )
            }
            Peer::Gateway => (
                format!("a gateway holds {} and does not listen", path.display()),
                "it may still be ending, or be stuck: `fuser` of that file names it, and `kill -9` of it loses no message",
            ),
        };
        Err(ClientError::Unavailable { error, hint: hint.into() })
    }

    fn log_path(&self) -> PathBuf {
        self.home.join(self.peer.log())
    }

    /// The program's log, and how long it is already.
    fn log(&self) -> Result<(File, u64), ClientError> {
        let path = self.log_path();
        if std::fs::metadata(&path).is_ok_and(|m| m.len() > ENGINE_LOG_BYTES) {
            std::fs::rename(&path, path.with_extension("log.old")).map_err(|e| self.cannot("set aside", &path, e))?;
        }
        let log = OpenOptions::new().create(true).append(true).mode(0o600).open(&path).map_err(|e| self.cannot("open", &path, e))?;
        let said = log.metadata().map_err(|e| self.cannot("look at", &path, e))?.len();
        Ok((log, said))
    }

    /// Starts the program, and returns when it is ready or has let go of the pipe.
    async fn spawn(&self, lock: &File, log: File, said: u64) -> Result<Started, ClientError> {
        let (ready, tell) = pipe_with(PipeFlags::CLOEXEC).map_err(|e| self.failed(format!("cannot make a pipe: {e}")))?;
        let mut command = Command::new(self.program);
        // The pipe comes as its output, which is how a descriptor is passed without a hook between fork and exec.
        // An engine first called from within a command is not that command's, and a gateway is of no conversation.
        command.env_remove("OUTLAST_PROCESS_ID");
        match self.peer {
            Peer::Engine => _ = command.arg("__engine"),
            Peer::Gateway => ["OUTLAST_SESSION", "OUTLAST_TASK", "OUTLAST_GENERATION"].iter().for_each(|name| _ = command.env_remove(name)),
        }
        command.arg("--home").arg(self.home).args(["--ready-fd", "1", "--detach"]);
        if self.starter == Starter::Onlooker {
            command.arg("--unless-stopped");
        }
        // The lock comes as its input: should we be killed now, the next caller still waits until this program listens or is gone.
        let lock = lock.try_clone().map_err(|e| self.failed(format!("cannot pass the lock on: {e}")))?;
        command.stdin(Stdio::from(lock)).stdout(Stdio::from(tell)).stderr(Stdio::from(log)).current_dir("/");
        let process = command.spawn().map_err(|e| ClientError::Start {
            peer: self.peer,
            program: self.program.into(),
            error: e.to_string(),
            hint: match self.peer {
                Peer::Engine => "the `outlast` program must be there and executable".into(),
                Peer::Gateway => "the `outlast-gateway` program must be there and executable: install it beside `outlast`".into(),
            },
        })?;
        // Our copy of the pipe's other end lives in the command.
        drop(command);
        match tokio::time::timeout(READY_LIMIT, end_of(ready)).await {
            Ok(Ok(word)) => Ok(Started { process, word, said }),
            Ok(Err(e)) => Err(self.failed(format!("cannot read the pipe from it: {e}"))),
            Err(_) => Err(self.failed(format!("it was not ready within {} s", READY_LIMIT.as_secs()))),
        }
    }

    /// The last line the program wrote into its log behind `said`.
    fn last_words(&self, said: u64) -> Option<String> {
        let mut log = File::open(self.log_path()).ok()?;
        let len = log.metadata().ok()?.len();
        log.seek(SeekFrom::Start(said.max(len.saturating_sub(LAST_WORDS)))).ok()?;
        let mut text = Vec::new();
        log.take(LAST_WORDS).read_to_end(&mut text).ok()?;
        let text = String::from_utf8_lossy(&text);
        text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
    }

    fn cannot(&self, what: &str, path: &Path, error: io::Error) -> ClientError {
        let text = format!("cannot {what} {}: {error}", path.display());
        match error.kind() {
            io::ErrorKind::ReadOnlyFilesystem => ClientError::Start {
                peer: self.peer,
                program: self.program.into(),
                error: text,
                hint: "make its file system writable again (`mount -o remount,rw`), or set OUTLAST_HOME to another directory; commands of this home \
                       keep running meanwhile, and can be stopped with `kill PID`"
                    .into(),
            },
            io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound => self.unusable(text),
            _ => self.failed(text),
        }
    }

    /// An error without the path of a log: a home that cannot be used has none.
    fn unusable(&self, error: String) -> ClientError {
        let hint = "set OUTLAST_HOME to a directory that you can write".into();
        ClientError::Start { peer: self.peer, program: self.program.into(), error, hint }
    }

    fn failed(&self, error: String) -> ClientError {
        let hint = format!("its log is {}; `outlast doctor` looks at the rest", self.log_path().display());
        ClientError::Start { peer: self.peer, program: self.program.into(), error, hint }
    }
}

/// Whether a gateway of this home died, or asked to be started again: its lock is free and says that it was at work. An empty lock, or one
/// that says `stopped`, is that of a gateway that ended as it should.
pub(crate) fn is_gateway_due(home: &Path) -> bool {
    let path = home.join("gateway.lock");
    let says = std::fs::read_to_string(&path).unwrap_or_default();
    says.trim() == "at work" && File::open(&path).is_ok_and(|lock| is_free(&lock))
}

/// Whether a person has stopped the gateway of this home.
pub(crate) fn is_gateway_stopped(home: &Path) -> bool {
    std::fs::read_to_string(home.join("gateway.lock")).unwrap_or_default().trim() == "stopped"
}

/// Whether no program holds this lock of a home.
fn is_free(lock: &File) -> bool {
    flock(lock, FlockOperation::NonBlockingLockShared).is_ok()
}

/// Takes a lock. Waiting for it takes a thread, not the runtime.
async fn hold(file: File, how: FlockOperation) -> io::Result<File> {
    tokio::task::spawn_blocking(move || flock(&file, how).map(|()| file)).await.map_err(io::Error::other)?.map_err(io::Error::from)
}

/// Waits for the word, or for the last holder of the other end to let go of it.
async fn end_of(ready: OwnedFd) -> io::Result<Vec<u8>> {
    let mut ready = pipe::Receiver::from_owned_fd(ready)?;
    let mut word = Vec::new();
    while !word.contains(&b'\n') && ready.read_buf(&mut word).await? > 0 {}
    Ok(word)
}

fn ended(status: ExitStatus, word: &[u8]) -> String {
    match word {
        TAKEN => "another one was started each time, and did not stay".into(),
        FAILED => "it gave up, and could not write why into its log; is the disk full?".into(),
        // That is what it came from, which ends well; of itself, an engine that could not start says so.
        _ if status.success() => "it was killed while it started".into(),
        _ => format!("it ended at once, without a word ({status})"),
    }
}
