//! One process of the sandbox with its mirror here.

use super::control;
use super::{Link, LinkInput, Numbered, StreamPhase};
use outlast_core::{ProcessId, StartFailure};
use outlast_store::dir::ProcessDir;
use outlast_store::meta::flag;
use outlast_store::mirror::{GrowingFile, Mirror, MirrorError};
use outlast_store::os::now;
use outlast_store::spec::SpecFile;
use outlast_wire::code;
use outlast_wire::frame;
use outlast_wire::v1::link::LinkReply;
use outlast_wire::v1::sandbox::{FileOffsets, LOG_WINDOW, SandboxRequest, Update};
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::task::JoinHandle;

/// How long a disk that refused a mirror is left alone.
const DISK_AGAIN: Duration = Duration::from_secs(1);
/// The state file says how far behind the mirror is once it is behind by this much.
const BEHIND: u64 = 1 << 20;

/// A mirrored process.
#[derive(Debug)]
pub(super) struct Mirrored {
    pub(super) mirror: Mirror,
    /// The number under which its updates come.
    attached: Option<u64>,
    /// The log may be sent up to here.
    upto: u64,
    /// Whether its request still has what a start needs.
    may_start: bool,
    socket: std::path::PathBuf,
    listener: JoinHandle<()>,
}

impl Drop for Mirrored {
    fn drop(&mut self) {
        self.listener.abort();
        let _gone = std::fs::remove_file(&self.socket);
    }
}

impl Mirrored {
    pub(super) fn input_taken(&mut self, bytes: u64) {
        if let Err(error) = self.mirror.input_taken(bytes) {
            tracing::warn!(%error, "cannot write down how much input was taken");
        }
    }

    fn offsets(&self) -> std::io::Result<FileOffsets> {
        let end = |file| self.mirror.file_end(file);
        Ok(FileOffsets { journal: end(GrowingFile::Journal)?, lines: end(GrowingFile::Lines)?, times: end(GrowingFile::Times)? })
    }
}

/// Why an update is not applied.
#[derive(Debug, thiserror::Error)]
enum NotApplied {
    #[error("the sandbox violated the protocol: {0}")]
    Protocol(String),
    #[error(transparent)]
    Disk(#[from] std::io::Error),
}

impl From<MirrorError> for NotApplied {
    fn from(e: MirrorError) -> Self {
        match e {
            MirrorError::Io(e) => Self::Disk(e),
            other => Self::Protocol(other.to_string()),
        }
    }
}

fn refused(error: impl std::fmt::Display) -> LinkReply {
    LinkReply::Refused { code: code::FAULT.into(), error: error.to_string(), hint: String::new() }
}

impl Link {
    /// Holds the folder of a process from now on.
    pub(super) fn take(&mut self, process: ProcessId) -> LinkReply {
        if self.processes.contains_key(&process) {
            return LinkReply::Ok;
        }
        match self.hold(process) {
            Ok(Some(mirrored)) => {
                self.processes.insert(process, mirrored);
                self.mark_reachable(process);
                self.attach(process);
                LinkReply::Ok
            }
            Ok(None) => refused(format!("{process} is held by another program")),
            Err(error) => refused(format!("cannot hold the folder of {process}: {error}")),
        }
    }

    fn hold(&self, process: ProcessId) -> std::io::Result<Option<Mirrored>> {
        let dir = outlast_store::dir::Home::new(&self.settings.home).process(process);
        let kept = SpecFile::read_kept(&dir).map_err(std::io::Error::other)?;
        if kept.id != process || kept.spec.on.as_ref() != Some(&self.settings.on) {
            return Err(std::io::Error::other(format!("it is not a process of {}", self.settings.on)));
        }
        let may_start = SpecFile::read_launch(&dir).map_err(std::io::Error::other)?.is_some();
        let Some(mirror) = Mirror::hold(&dir, process, kept.keep)? else { return Ok(None) };
        let socket = self.settings.run_dir.join(process.to_string());
        // The lock says that a socket which is there is of an earlier link.
        let _stale = std::fs::remove_file(&socket);
        let listener = control::listen(UnixListener::bind(&socket)?, process, self.inbox.clone());
        Ok(Some(Mirrored { mirror, attached: None, upto: 0, may_start, socket, listener }))
    }

    /// Has the sandbox send what is new of a process; starts it there first, if it may not have been started.
    pub(super) fn attach(&mut self, process: ProcessId) {
        let StreamPhase::Open { hello, .. } = &self.phase else { return };
        let home = hello.home.clone();
        let Some(mirrored) = self.processes.get_mut(&process) else { return };
        if mirrored.attached.is_some() {
            return;
        }
        match &mirrored.mirror.state().sandbox {
            Some(known) if *known != home => {
                return self.lose(process, "its sandbox is gone: what is reached under its name now is another");
            }
            Some(_) => {}
            // Before the start is sent: an answer that is lost must not let another sandbox start it again.
            None => {
                if let Err(error) = mirrored.mirror.set_state(|state| state.sandbox = Some(home)) {
                    return self.disk_refused(process, &error);
                }
            }
        }
        if mirrored.may_start {
            match std::fs::read(mirrored.mirror.dir().spec()) {
                Ok(spec) => {
                    let of = self.number(Numbered::Start(process), SandboxRequest::Start { process, len: spec.len() as u64 });
                    for chunk in spec.chunks(frame::RAW_CHUNK) {
                        self.send(frame::raw(of, chunk));
                    }
                }
                Err(error) => return self.disk_refused(process, &error),
            }
        }
        let Some(mirrored) = self.processes.get_mut(&process) else { return };
        let log = mirrored.mirror.log_end();
        mirrored.upto = log + LOG_WINDOW;
        match mirrored.offsets() {
            Ok(files) => {
                let upto = mirrored.upto;
                let of = self.number(Numbered::Attach(process), SandboxRequest::Attach { process, log, files, upto });
                if let Some(mirrored) = self.processes.get_mut(&process) {
                    mirrored.attached = Some(of);
                }
            }
            Err(error) => self.disk_refused(process, &error),
        }
    }

    /// Nothing comes any more from the stream that was lost.
    pub(super) fn detach_all(&mut self) {
        self.processes.values_mut().for_each(|mirrored| mirrored.attached = None);
    }

    /// Writes down that the sandbox can or cannot be reached.
    pub(super) fn mark_reachable(&mut self, process: ProcessId) {
        let why = match &self.phase {
            StreamPhase::Opening(why) => why.as_ref().map(|why| why.what.clone()),
            StreamPhase::Open { .. } => None,
        };
        let Some(mirrored) = self.processes.get_mut(&process) else { return };
        match mirrored.mirror.set_state(|state| state.unreachable = why) {
            Ok(true) => self.news(process),
            Ok(false) => {}
            Err(error) => tracing::warn!(%process, %error, "cannot write down whether its sandbox can be reached"),
        }
    }

    /// An update came.
    pub(super) fn updated(&mut self, of: u64, process: ProcessId, update: &Update, bytes: &[u8]) {
        let StreamPhase::Open { boot, .. } = self.phase else { return };
        let Some(mirrored) = self.processes.get_mut(&process).filter(|mirrored| mirrored.attached == Some(of)) else { return };
        let is_news = match apply(mirrored, update, bytes, boot) {
            Ok(is_news) => is_news,
            Err(NotApplied::Disk(error)) => return self.disk_refused(process, &error),
            Err(error @ NotApplied::Protocol(_)) => return self.lose(process, &error.to_string()),
        };
        let end = mirrored.mirror.log_end();
        if mirrored.upto < end + LOG_WINDOW / 2 {
            mirrored.upto = end + LOG_WINDOW;
            let upto = mirrored.upto;
            self.ask(SandboxRequest::Allow { of, upto });
        }
        if is_news {
            self.news(process);
        }
        self.report_output(process);
        if update.is_over {
            self.finish(process);
        }
    }

    /// Everything that the sandbox has of a process is here.
    fn finish(&mut self, process: ProcessId) {
        let Some(mirrored) = self.processes.get_mut(&process) else { return };
        let kept = mirrored.mirror.sync().and_then(|()| mirrored.mirror.set_state(|state| state.is_whole = true));
        if let Err(error) = kept {
            return self.disk_refused(process, &error);
        }
        self.number(Numbered::Remove, SandboxRequest::Remove { process });
        self.let_go(process);
    }

    /// Releases a folder.
    fn let_go(&mut self, process: ProcessId) {
        self.news(process);
        let of = self.processes.remove(&process).and_then(|mirrored| mirrored.attached);
        if let Some(of) = of {
            self.numbers.remove(&of);
        }
        let conns: Vec<u64> = self.conns.iter().filter(|(_, conn)| conn.process == process).map(|(number, _)| *number).collect();
        conns.into_iter().for_each(|number| self.close_conn(number));
    }

    /// The process is provably gone.
    pub(super) fn lose(&mut self, process: ProcessId, why: &str) {
        tracing::error!(%process, why, "lost");
        let Some(mirrored) = self.processes.get_mut(&process) else { return };
        // A process that was never known to run may have run: the start was sent.
        if let Err(error) = mirrored.mirror.lose(why, now()) {
            return self.disk_refused(process, &error);
        }
        scrub(mirrored.mirror.dir());
        self.let_go(process);
    }

    /// The sandbox has refused a start.
    pub(super) fn start_refused(&mut self, process: ProcessId, error: String) {
        tracing::warn!(%process, error, "its start was refused in the sandbox");
        self.news(process);
        let Some(mut mirrored) = self.processes.remove(&process) else { return };
        if let Some(of) = mirrored.attached.take() {
            self.numbers.remove(&of);
        }
        let dir = mirrored.mirror.dir().clone();
        let failed = mirrored.never_started(StartFailure { errno: 0, what: error });
        if let Err(error) = failed {
            tracing::error!(%process, %error, "cannot record that it was never started");
        }
        scrub(&dir);
        let conns: Vec<u64> = self.conns.iter().filter(|(_, conn)| conn.process == process).map(|(number, _)| *number).collect();
        conns.into_iter().for_each(|number| self.close_conn(number));
    }

    /// The sandbox does not know a process that was started there.
    pub(super) fn unknown_there(&mut self, process: ProcessId) {
        if self.processes.get(&process).is_some_and(|mirrored| !mirrored.may_start) {
            self.lose(process, "its folder in the sandbox is gone");
        }
    }

    /// The disk here refuses a mirror. Nothing is lost: the sandbox has it.
    pub(super) fn disk_refused(&mut self, process: ProcessId, error: &std::io::Error) {
        tracing::error!(%process, %error, "the folder of a process cannot be written: it is tried again");
        if let Some(of) = self.processes.get_mut(&process).and_then(|mirrored| mirrored.attached.take()) {
            self.numbers.remove(&of);
            self.ask(SandboxRequest::Detach { of });
        }
        let inbox = self.inbox.clone();
        tokio::spawn(async move {
            // No descriptor reports that a disk has space again.
            tokio::time::sleep(DISK_AGAIN).await;
            let _ends = inbox.send(LinkInput::TryAgain(process)).await;
        });
    }
}

impl Mirrored {
    fn never_started(self, failure: StartFailure) -> std::io::Result<()> {
        self.listener.abort();
        // The lock is taken again for this record.
        let dir = self.mirror.dir().clone();
        let id = self.mirror.id();
        let keep = outlast_store::segments::Keep::default();
        drop(self);
        match Mirror::hold(&dir, id, keep)? {
            Some(mirror) => mirror.never_started(failure, now()),
            None => Err(std::io::ErrorKind::WouldBlock.into()),
        }
    }
}

/// Writes an update into the folder: output first, facts last. Returns whether there is news.
fn apply(mirrored: &mut Mirrored, update: &Update, bytes: &[u8], boot: u128) -> Result<bool, NotApplied> {
    let apart = update.split(bytes).ok_or_else(|| NotApplied::Protocol("an update that does not come apart".into()))?;
    let mirror = &mut mirrored.mirror;
    let files = [
        (GrowingFile::Journal, update.journal, apart.journal),
        (GrowingFile::Lines, update.lines, apart.lines),
        (GrowingFile::Times, update.times, apart.times),
    ];
    for (file, piece, bytes) in files {
        if !bytes.is_empty() && piece.at != mirror.file_end(file)? {
            return Err(NotApplied::Protocol(format!("bytes of {file:?} at {}", piece.at)));
        }
        mirror.add(file, piece.at, bytes)?;
    }
    if update.log.at < mirror.log_end() {
        return Err(NotApplied::Protocol(format!("output at {} after {}", update.log.at, mirror.log_end())));
    }
    mirror.add_log(update.log.at, apart.log)?;
    let is_changed = mirror.commit(apart.meta.as_deref(), boot)?;
    let known = mirror.state().log_end;
    let behind = update.log_end.saturating_sub(mirror.log_end());
    if behind > BEHIND || (behind == 0 && known > mirror.log_end()) {
        mirror.set_state(|state| state.log_end = update.log_end)?;
    }
    let is_begun = mirror.snapshot().is_some_and(|meta| meta.has(flag::STARTED) || meta.ended.is_some());
    if mirrored.may_start && is_begun {
        mirrored.may_start = false;
        scrub(mirrored.mirror.dir());
    }
    Ok(is_changed || !apart.journal.is_empty())
}

/// Removes the values that only the start needed. If they cannot be removed, they stay in a file that no other user can read.
fn scrub(dir: &ProcessDir) {
    if let Err(error) = SpecFile::scrub(dir) {
        tracing::warn!(%error, "cannot scrub");
    }
}
