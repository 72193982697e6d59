//! `bwrap`: a sandbox of bubblewrap on this machine. The file system is read-only, but for `/tmp` and a directory to work in; processes and
//! System V objects are its own; the network is this machine's, or none.
//!
//! `bwrap`, `bwrap:/dir`, `bwrap:offline`, `bwrap:offline:/dir`.

use crate::transport::{Opened, Transport, Working};
use crate::{KeeperFile, TransportError};
use outlast_store::lock;
use std::ffi::OsString;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;

/// How long bubblewrap may take to make the sandbox.
const MAKING: Duration = Duration::from_secs(20);

/// A sandbox of bubblewrap.
#[derive(Debug)]
pub(crate) struct Bwrap {
    keeper: KeeperFile,
    /// The sandbox's own directory, at the same path inside.
    dir: PathBuf,
    work: Option<PathBuf>,
    is_offline: bool,
}

impl Bwrap {
    /// `profile` is what follows `bwrap:`.
    pub(crate) fn new(profile: Option<&str>, keeper: KeeperFile, dir: &Path) -> Result<Self, TransportError> {
        let (is_offline, work) = match profile {
            None => (false, None),
            Some("offline") => (true, None),
            Some(rest) => match rest.strip_prefix("offline:") {
                Some(work) => (true, Some(work)),
                None => (false, Some(rest)),
            },
        };
        let refused = |what| TransportError::refused(what, "use bwrap, bwrap:offline, bwrap:/DIR or bwrap:offline:/DIR");
        let work = match work {
            Some(work) if !work.starts_with('/') => return Err(refused(format!("{work} is no profile and no absolute path"))),
            Some(work) if !Path::new(work).is_dir() => return Err(refused(format!("there is no directory {work}"))),
            work => work.map(PathBuf::from),
        };
        Ok(Self { keeper, dir: dir.join("sandbox"), work, is_offline })
    }

    fn arguments(&self, program: &Path) -> Vec<OsString> {
        let mut all: Vec<OsString> = Vec::new();
        let mut add = |args: &[&std::ffi::OsStr]| all.extend(args.iter().map(|arg| (*arg).to_owned()));
        let text = std::ffi::OsStr::new;
        add(&["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"].map(text));
        add(&["--unshare-pid", "--unshare-ipc", "--unshare-uts"].map(text));
        if self.is_offline {
            add(&[text("--unshare-net")]);
        }
        if let Some(work) = &self.work {
            add(&[text("--bind"), work.as_os_str(), work.as_os_str()]);
            add(&[text("--setenv"), text("OUTLAST_START_DIRECTORY"), work.as_os_str()]);
        }
        add(&[text("--bind"), self.dir.as_os_str(), self.dir.as_os_str(), text("--chdir"), self.dir.as_os_str(), text("--")]);
        add(&[program.as_os_str(), text("hold"), text("--dir"), self.dir.as_os_str()]);
        all
    }

    /// Starts the sandbox, and returns once it listens.
    async fn make(&self, program: &Path) -> Result<(), TransportError> {
        let mut command = tokio::process::Command::new("bwrap");
        command.args(self.arguments(program)).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // It outlives this link.
        command.process_group(0);
        let mut child = command.spawn().map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => {
                TransportError::refused("bubblewrap is not installed", "install it (Debian: apt-get install bubblewrap)")
            }
            _ => TransportError::unavailable(format!("cannot start bwrap: {e}")),
        })?;
        let (Some(mut told), Some(mut words)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(TransportError::unavailable("bwrap was started without its standard streams"));
        };
        match tokio::time::timeout(MAKING, told.read(&mut [0])).await {
            Ok(Ok(1)) => Ok(()),
            Ok(Ok(_)) | Ok(Err(_)) if self.is_there() => Ok(()),
            Ok(Ok(_)) | Ok(Err(_)) => {
                let mut said = String::new();
                let _unread = tokio::time::timeout(Duration::from_secs(1), words.read_to_string(&mut said)).await;
                let said = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ");
                Err(TransportError::refused(
                    format!("bubblewrap made no sandbox: {said}"),
                    "see `outlast doctor` for what this machine allows",
                ))
            }
            Err(_) => Err(TransportError::unavailable(format!("bubblewrap made no sandbox within {} s", MAKING.as_secs()))),
        }
    }

    fn is_there(&self) -> bool {
        lock::is_held(&self.dir.join("door.lock")).unwrap_or(false)
    }
}

impl Transport for Bwrap {
    fn ensure(&self) -> Working<'_, PathBuf> {
        Box::pin(async {
            let program = self.keeper.copy_to(&self.dir.join("bin"))?;
            if !self.is_there() {
                self.make(&program).await?;
            }
            Ok(program)
        })
    }

    fn open<'a>(&'a self, _: &'a Path) -> Working<'a, Opened> {
        Box::pin(async {
            let failed =
                |e: io::Error| TransportError::unavailable(format!("cannot connect to the sandbox in {}: {e}", self.dir.display()));
            // Through the descriptor of the directory, because its path may be too long for a socket.
            let dir = std::fs::File::open(&self.dir).map_err(failed)?;
            let door = format!("/proc/self/fd/{}/door", dir.as_raw_fd());
            let (from, to) = UnixStream::connect(door).await.map_err(failed)?.into_split();
            Ok(Opened { from: Box::new(from), to: Box::new(to), why: None })
        })
    }
}
