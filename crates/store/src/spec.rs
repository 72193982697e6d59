//! The request as it was accepted: what is kept of it, and what is needed once, to start the command.
//!
//! An eight-byte header, then two frames. The second holds the raw command and environment, and is cut off once the command runs.
//!
//! Decision 15: docs/decisions/store.md.

use crate::dir::ProcessDir;
use crate::frame::{self, Head};
use crate::segments::Keep;
use crate::{segments, v1};
use outlast_core::{EnvVar, OsText, ProcessId, ProcessLimits, Spec, Time};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

const HEADER: [u8; 8] = *b"OLSPEC1\n";
/// Arguments and variables take at most 2 MiB, and as JSON at most six times that.
const SECTION_LIMIT: usize = 16 << 20;

/// The part of a request that is kept as long as the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The process id.
    pub id: ProcessId,
    /// The request without secrets.
    pub spec: Spec,
    /// SHA-256 of the whole request, in hexadecimal.
    pub hash: String,
    /// When it was accepted.
    pub accepted_at: Time,
    /// The working directory.
    pub cwd: OsText,
    /// The shell that runs the command line, if it is one.
    pub shell: Option<OsText>,
    /// Whether secrets were removed from the command.
    pub command_scrubbed: bool,
    /// Names of variables whose values were removed.
    pub env_scrubbed: Vec<OsText>,
    /// Warnings that the caller was given.
    pub warnings: Vec<String>,
    /// The layout of its log: the same as in its [`Launch`].
    pub keep: Keep,
    /// The digests that find the values of its secret variables in its output.
    pub masks: Option<Masks>,
}

/// Values of secret variables as keyed digests: enough to find them in output, not to read them. This is also their form on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Masks {
    /// A random key of this process, in hexadecimal.
    pub key: String,
    /// The values, or the lines of values with several lines.
    pub values: Vec<MaskedValue>,
}

/// One value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaskedValue {
    /// Its length in bytes.
    pub length: u32,
    /// Eight bits of a rolling hash, which finds candidates.
    pub tag: u8,
    /// 16 bytes of its HMAC-SHA256 under the key, in hexadecimal.
    pub digest: String,
}

/// What a keeper needs to start the command, raw. Removed once it has started.
#[derive(Clone, PartialEq, Eq)]
pub struct Launch {
    /// The file to execute.
    pub program: OsText,
    /// Its arguments; the first is its name.
    pub argv: Vec<OsText>,
    /// Its whole environment.
    pub env: Vec<EnvVar>,
    /// The working directory.
    pub cwd: OsText,
    /// Rows and columns of its terminal, if it gets one.
    pub pty: Option<(u16, u16)>,
    /// Whether it gets a pipe for its input.
    pub stdin: bool,
    /// How long it may run.
    pub timeout: Option<Duration>,
    /// The layout of its log.
    pub keep: Keep,
    /// The home of the engine.
    pub home: OsText,
    /// The directory of the control socket.
    pub run_dir: OsText,
    /// The program that starts an engine.
    pub engine: Option<OsText>,
    /// The cgroup in which the command may get a leaf.
    pub cgroup: Option<OsText>,
    /// How much earlier than others the kernel may kill it when memory runs out.
    pub oom_score_adj: i32,
    /// How long a stop waits between TERM and KILL, unless the request says otherwise.
    pub grace: Duration,
    /// The file mode mask of the caller.
    pub umask: Option<u32>,
    /// The limit of open descriptors, if `limits` does not contain it: engines of earlier versions wrote only this limit.
    pub nofile: Option<u64>,
    /// The name of the program in errors, if its path contains a secret.
    pub program_shown: Option<OsText>,
    /// The name of the directory in errors, if its path contains a secret.
    pub cwd_shown: Option<OsText>,
    /// The limits of the caller.
    pub limits: Option<ProcessLimits>,
}

impl std::fmt::Debug for Launch {
    // Arguments may be secrets as much as values, and a Debug text may reach a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { program, argv, env, cwd, .. } = self;
        write!(f, "Launch {{ program: {program:?}, argv: {} arguments, env: {} variables, cwd: {cwd:?}, .. }}", argv.len(), env.len())
    }
}

/// Why a request could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// It was never written, or was removed.
    #[error("there is no request {path}")]
    Missing {
        /// The expected path.
        path: PathBuf,
    },
    /// Its contents are not valid.
    #[error("the request {path} is damaged at byte {offset}: {what}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The offset of the damage.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// A newer version wrote it.
    #[error("the request {path} was written by a newer version: use that one")]
    Newer {
        /// The file.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("cannot {doing} the request {path}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What was attempted.
        doing: &'static str,
        /// The error of the system.
        source: io::Error,
    },
}

/// The file `spec`.
#[derive(Debug, Clone, Copy)]
pub struct SpecFile;

impl SpecFile {
    /// Writes the request. It is an error if the file exists.
    pub fn create(dir: &ProcessDir, kept: &Kept, launch: &Launch) -> Result<(), SpecError> {
        Self::write(dir, OFlags::CREATE | OFlags::EXCL, kept, launch)
    }

    /// Writes the request to an existing, empty file.
    pub(crate) fn fill(dir: &ProcessDir, kept: &Kept, launch: &Launch) -> Result<(), SpecError> {
        Self::write(dir, OFlags::empty(), kept, launch)
    }

    fn write(dir: &ProcessDir, how: OFlags, kept: &Kept, launch: &Launch) -> Result<(), SpecError> {
        let path = dir.spec();
        let failed = |source| SpecError::Io { path: path.clone(), doing: "write", source };
        let mut bytes = HEADER.to_vec();
        frame::push(&mut bytes, v1::VERSION, &KeptV1::from(kept), SECTION_LIMIT).map_err(failed)?;
        frame::push(&mut bytes, v1::VERSION, &LaunchV1::from(launch), SECTION_LIMIT).map_err(failed)?;
        let mut file = segments::open(&path, how | OFlags::WRONLY).map_err(failed)?;
        file.write_all(&bytes).map_err(|e| {
            // Half a request is unusable. If the file cannot be removed, it reads as damaged.
            let _ = std::fs::remove_file(&path);
            failed(e)
        })
    }

    /// Reads the kept part, and the part for the start unless it was scrubbed.
    pub fn read(dir: &ProcessDir) -> Result<(Kept, Option<Launch>), SpecError> {
        let open = Open::of(dir, OFlags::RDONLY)?;
        let (kept, kept_end) = open.section::<KeptV1>(HEADER.len() as u64)?;
        let kept = kept.ok_or_else(|| open.damaged(HEADER.len() as u64, "nothing is kept"))?;
        Ok((kept.into(), open.launch(kept_end)?))
    }

    /// Reads the kept part.
    pub fn read_kept(dir: &ProcessDir) -> Result<Kept, SpecError> {
        let open = Open::of(dir, OFlags::RDONLY)?;
        let (kept, _) = open.section::<KeptV1>(HEADER.len() as u64)?;
        kept.map(Into::into).ok_or_else(|| open.damaged(HEADER.len() as u64, "nothing is kept"))
    }

    /// Reads the part for the start; none if it was scrubbed.
    pub fn read_launch(dir: &ProcessDir) -> Result<Option<Launch>, SpecError> {
        let open = Open::of(dir, OFlags::RDONLY)?;
        open.launch(open.kept_end()?)
    }

    /// Removes the part for the start, with its secrets. Works on a full disk, and can be repeated.
    ///
    /// If the kept part is damaged, its end is unknown. Then it is removed, too, and the damage is reported.
    pub fn scrub(dir: &ProcessDir) -> Result<(), SpecError> {
        let open = Open::of(dir, OFlags::RDWR)?;
        let (end, told) = match open.kept_end() {
            Ok(end) => (end, Ok(())),
            Err(e @ SpecError::Damaged { .. }) => (HEADER.len() as u64, Err(e)),
            Err(e) => return Err(e),
        };
        if open.len > end {
            open.file.set_len(end).map_err(|source| SpecError::Io { path: open.path.clone(), doing: "scrub", source })?;
        }
        told
    }
}

struct Open {
    path: PathBuf,
    file: File,
    len: u64,
}

impl Open {
    fn of(dir: &ProcessDir, how: OFlags) -> Result<Self, SpecError> {
        let path = dir.spec();
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => SpecError::Missing { path: path.clone() },
            _ => SpecError::Io { path: path.clone(), doing: "open", source },
        };
        let file = segments::open(&path, how).map_err(failed)?;
        let len = file.metadata().map_err(failed)?.len();
        let open = Self { file, len, path };
        let mut header = [0; HEADER.len()];
        if len < HEADER.len() as u64 {
            return Err(open.damaged(len, "it is cut short"));
        }
        open.fill(&mut header, 0)?;
        match header {
            HEADER => Ok(open),
            [b'O', b'L', b'S', b'P', b'E', b'C', b'2'..=b'9', b'\n'] => Err(SpecError::Newer { path: open.path }),
            _ => Err(open.damaged(0, "it does not begin as a request")),
        }
    }

    /// The section at `at` and its end; none if the file ends there.
    fn section<T: DeserializeOwned>(&self, at: u64) -> Result<(Option<T>, u64), SpecError> {
        let Some((version, payload)) = self.frame(at)? else { return Ok((None, at)) };
        if version != v1::VERSION {
            return Err(SpecError::Newer { path: self.path.clone() });
        }
        let value = serde_json::from_slice(&payload).map_err(|_| self.damaged(at, "a section cannot be understood"))?;
        Ok((Some(value), at + (frame::HEAD + payload.len()) as u64))
    }

    /// The part for the start, which follows the kept part.
    fn launch(&self, kept_end: u64) -> Result<Option<Launch>, SpecError> {
        match self.section::<LaunchV1>(kept_end) {
            Ok((launch, _)) => Ok(launch.map(Into::into)),
            // It was scrubbed while it was read.
            Err(SpecError::Damaged { .. }) if self.file.metadata().is_ok_and(|m| m.len() == kept_end) => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn kept_end(&self) -> Result<u64, SpecError> {
        let at = HEADER.len() as u64;
        let (_, payload) = self.frame(at)?.ok_or_else(|| self.damaged(at, "nothing is kept"))?;
        Ok(at + (frame::HEAD + payload.len()) as u64)
    }

    fn frame(&self, at: u64) -> Result<Option<(u8, Vec<u8>)>, SpecError> {
        if at >= self.len {
            return Ok(None);
        }
        let cut = || self.damaged(self.len, "it is cut short");
        let mut head = [0; frame::HEAD];
        let body = at + frame::HEAD as u64;
        if body > self.len {
            return Err(cut());
        }
        self.fill(&mut head, at)?;
        let head = Head::parse(head);
        if head.len as usize > SECTION_LIMIT {
            return Err(self.damaged(at, "a section claims to be too long"));
        }
        if body + u64::from(head.len) > self.len {
            return Err(cut());
        }
        let mut payload = vec![0; head.len as usize];
        self.fill(&mut payload, body)?;
        if !head.fits(&payload) {
            return Err(self.damaged(at, "a section does not match its checksum"));
        }
        Ok(Some((head.version, payload)))
    }

    fn fill(&self, buf: &mut [u8], at: u64) -> Result<(), SpecError> {
        self.file.read_exact_at(buf, at).map_err(|source| match source.kind() {
            // Cut off between the reads of the length and of the bytes.
            io::ErrorKind::UnexpectedEof => self.damaged(at, "it is cut short"),
            _ => SpecError::Io { path: self.path.clone(), doing: "read", source },
        })
    }

    fn damaged(&self, offset: u64, what: &'static str) -> SpecError {
        SpecError::Damaged { path: self.path.clone(), offset, what }
    }
}

#[derive(Serialize, Deserialize)]
struct KeptV1 {
    id: ProcessId,
    spec: v1::Spec,
    hash: String,
    accepted_at_us: i64,
    cwd: OsText,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shell: Option<OsText>,
    #[serde(default)]
    command_scrubbed: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    env_scrubbed: Vec<OsText>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    keep: KeepV1,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    masks: Option<Masks>,
}

#[derive(Serialize, Deserialize)]
struct LaunchV1 {
    program: OsText,
    argv: Vec<OsText>,
    env: Vec<v1::EnvVar>,
    cwd: OsText,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pty: Option<(u16, u16)>,
    #[serde(default)]
    stdin: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout_us: Option<u64>,
    keep: KeepV1,
    home: OsText,
    run_dir: OsText,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    engine: Option<OsText>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cgroup: Option<OsText>,
    #[serde(default)]
    oom_score_adj: i32,
    grace_us: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    umask: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nofile: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    program_shown: Option<OsText>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cwd_shown: Option<OsText>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    limits: Option<ProcessLimits>,
}

#[derive(Serialize, Deserialize)]
struct KeepV1 {
    head: u64,
    segment: u64,
    tail: u64,
}

impl From<Keep> for KeepV1 {
    fn from(Keep { head, segment, tail }: Keep) -> Self {
        Self { head, segment, tail }
    }
}
impl From<KeepV1> for Keep {
    fn from(KeepV1 { head, segment, tail }: KeepV1) -> Self {
        Self { head, segment, tail }
    }
}

impl From<&Kept> for KeptV1 {
    fn from(k: &Kept) -> Self {
        Self {
            id: k.id,
            spec: (&k.spec).into(),
            hash: k.hash.clone(),
            accepted_at_us: k.accepted_at.micros(),
            cwd: k.cwd.clone(),
            shell: k.shell.clone(),
            command_scrubbed: k.command_scrubbed,
            env_scrubbed: k.env_scrubbed.clone(),
            warnings: k.warnings.clone(),
            keep: k.keep.into(),
            masks: k.masks.clone(),
        }
    }
}
impl From<KeptV1> for Kept {
    fn from(k: KeptV1) -> Self {
        Self {
            id: k.id,
            spec: k.spec.into(),
            hash: k.hash,
            accepted_at: Time::from_micros(k.accepted_at_us),
            cwd: k.cwd,
            shell: k.shell,
            command_scrubbed: k.command_scrubbed,
            env_scrubbed: k.env_scrubbed,
            warnings: k.warnings,
            keep: k.keep.into(),
            masks: k.masks,
        }
    }
}

impl From<&Launch> for LaunchV1 {
    fn from(l: &Launch) -> Self {
        Self {
            program: l.program.clone(),
            argv: l.argv.clone(),
            env: l.env.iter().map(Into::into).collect(),
            cwd: l.cwd.clone(),
            pty: l.pty,
            stdin: l.stdin,
            timeout_us: l.timeout.map(v1::micros),
            keep: l.keep.into(),
            home: l.home.clone(),
            run_dir: l.run_dir.clone(),
            engine: l.engine.clone(),
            cgroup: l.cgroup.clone(),
            oom_score_adj: l.oom_score_adj,
            grace_us: v1::micros(l.grace),
            umask: l.umask,
            nofile: l.nofile,
            program_shown: l.program_shown.clone(),
            cwd_shown: l.cwd_shown.clone(),
            limits: l.limits.clone(),
        }
    }
}
impl From<LaunchV1> for Launch {
    fn from(l: LaunchV1) -> Self {
        Self {
            program: l.program,
            argv: l.argv,
            env: l.env.into_iter().map(Into::into).collect(),
            cwd: l.cwd,
            pty: l.pty,
            stdin: l.stdin,
            timeout: l.timeout_us.map(Duration::from_micros),
            keep: l.keep.into(),
            home: l.home,
            run_dir: l.run_dir,
            engine: l.engine,
            cgroup: l.cgroup,
            oom_score_adj: l.oom_score_adj,
            grace: Duration::from_micros(l.grace_us),
            umask: l.umask,
            nofile: l.nofile,
            program_shown: l.program_shown,
            cwd_shown: l.cwd_shown,
            limits: l.limits,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
