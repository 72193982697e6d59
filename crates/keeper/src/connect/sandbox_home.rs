//! The home of a sandbox: where its processes have their folders, which stream may change them, and where its sockets are.
//!
//! A stream may be frozen and come back after the link has made another. The newer one writes its number into a file, and every change is
//! made under the lock on that file after a look at the number. So an earlier stream starts and removes nothing any more.
//!
//! Decision 401: docs/decisions/anywhere.md.

use outlast_core::ProcessId;
use outlast_store::dir::Home;
use outlast_store::lock;
use rustix::fd::OwnedFd;
use rustix::fs::inotify;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The longest path in a socket address, in bytes.
const ADDRESS: usize = 107;
const LONGEST_NAME: usize = "proc_000000000000".len();
/// Where sockets go if the path of the home is too long for them.
const SHORT: [&str; 2] = ["/dev/shm", "/tmp"];

/// Why a directory cannot be the home of a sandbox.
#[derive(Debug, thiserror::Error)]
pub(super) enum SandboxHomeError {
    #[error(transparent)]
    Home(#[from] outlast_store::dir::HomeError),
    #[error("cannot {doing} in the sandbox's home {home}: {error}")]
    Io { doing: &'static str, home: PathBuf, error: io::Error },
    #[error("no directory for sockets: {home} is too long a path for them, and neither /dev/shm nor /tmp can be used")]
    NoRunDir { home: PathBuf },
}

/// The home of a sandbox, as one stream serves it.
#[derive(Debug)]
pub(super) struct SandboxHome {
    pub(super) home: Home,
    /// Random, and made with the home.
    pub(super) identity: u128,
    pub(super) run_dir: PathBuf,
    stream: File,
    /// The number of this stream; none before its hello.
    number: Option<u64>,
}

/// The right to change something, for as long as it is held.
pub(super) struct Turn<'a>(&'a File);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // The lock is on the description, which stays open.
        let _free = rustix::fs::flock(self.0, rustix::fs::FlockOperation::Unlock);
    }
}

impl SandboxHome {
    /// Opens the home, or makes it.
    pub(super) fn open(root: &Path) -> Result<Self, SandboxHomeError> {
        if let Some(above) = root.parent().filter(|above| !above.as_os_str().is_empty()) {
            let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(above);
            made.map_err(|error| SandboxHomeError::Io { doing: "make the directories above", home: root.to_owned(), error })?;
        }
        let home = Home::new(root);
        home.create()?;
        let failed = |doing| {
            let home = root.to_owned();
            move |error| SandboxHomeError::Io { doing, home, error }
        };
        let stream = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(home.sandbox_stream());
        let stream = stream.map_err(failed("open the file of the stream"))?;
        lock::hold(&stream).map_err(failed("lock the file of the stream"))?;
        let turn = Turn(&stream);
        let identity = identity(&home).map_err(failed("read or make the identity"))?;
        drop(turn);
        let run_dir = run_dir(&home, identity)?;
        Ok(Self { home, identity, run_dir, stream, number: None })
    }

    /// Makes this the stream that serves the home. Returns a descriptor that is readable once another one is.
    pub(super) fn take_over(&mut self) -> io::Result<Option<OwnedFd>> {
        let turn = Turn::of(&self.stream)?;
        let number = read_number(&self.stream)? + 1;
        self.stream.write_all_at(&number.to_le_bytes(), 0)?;
        drop(turn);
        self.number = Some(number);
        // Without inotify it learns that with its next change.
        let watch = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK).ok();
        let watch = watch.filter(|w| inotify::add_watch(w, self.home.sandbox_stream(), inotify::WatchFlags::MODIFY).is_ok());
        Ok(if self.is_replaced()? { None } else { watch })
    }

    /// Whether a later stream serves the home.
    pub(super) fn is_replaced(&self) -> io::Result<bool> {
        Ok(self.number != Some(read_number(&self.stream)?))
    }

    /// The right to change something. None if a later stream serves the home.
    pub(super) fn turn(&self) -> io::Result<Option<Turn<'_>>> {
        let turn = Turn::of(&self.stream)?;
        Ok((!self.is_replaced()?).then_some(turn))
    }

    /// The socket of a process's pump.
    pub(super) fn socket(&self, id: ProcessId) -> PathBuf {
        crate::start::socket_path(&self.run_dir, id)
    }
}

impl<'a> Turn<'a> {
    fn of(stream: &'a File) -> io::Result<Self> {
        lock::hold(stream)?;
        Ok(Self(stream))
    }
}

fn read_number(stream: &File) -> io::Result<u64> {
    let mut number = [0; 8];
    match stream.read_exact_at(&mut number, 0) {
        Ok(()) => Ok(u64::from_le_bytes(number)),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
        Err(e) => Err(e),
    }
}

/// The identity of a sandbox's home, if it is one.
pub(super) fn identity_of(home: &Home) -> Option<u128> {
    u128::from_str_radix(std::fs::read_to_string(home.sandbox_identity()).ok()?.trim(), 16).ok()
}

/// Reads the identity, or makes one. The caller holds the lock.
fn identity(home: &Home) -> io::Result<u128> {
    if let Some(found) = identity_of(home) {
        return Ok(found);
    }
    let mut random = [0; 16];
    io::Read::read_exact(&mut File::open("/dev/urandom")?, &mut random)?;
    let identity = u128::from_le_bytes(random);
    let new = home.root.join("sandbox.new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    writeln!(file, "{identity:032x}")?;
    file.sync_all()?;
    std::fs::rename(&new, home.sandbox_identity())?;
    Ok(identity)
}

/// A directory for the sockets: in the home, unless its path is too long.
fn run_dir(home: &Home, identity: u128) -> Result<PathBuf, SandboxHomeError> {
    let fits = |dir: &Path| dir.as_os_str().len() + 1 + LONGEST_NAME <= ADDRESS;
    let name = format!("outlast-sandbox-{:08x}", identity as u32);
    let short = SHORT.iter().map(|dir| Path::new(dir).join(&name));
    let mut all = std::iter::once(home.run_dir()).chain(short).filter(|dir| fits(dir));
    let dir = all.find(|dir| own(dir).is_ok()).ok_or_else(|| SandboxHomeError::NoRunDir { home: home.root.clone() })?;
    // A keeper that is told to listen again looks where this leads. A file that cannot be written leaves it where it was.
    if std::fs::read_link(home.run_link()).ok().as_ref() != Some(&dir) {
        let _stale = std::fs::remove_file(home.run_link());
        let _kept = std::os::unix::fs::symlink(&dir, home.run_link());
    }
    Ok(dir)
}

/// Makes a directory that is closed to other users, or accepts one.
fn own(dir: &Path) -> io::Result<()> {
    match std::fs::DirBuilder::new().mode(0o700).create(dir) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
        Ok(()) | Err(_) => {}
    }
    let found = std::fs::symlink_metadata(dir)?;
    let is_own = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o022 == 0;
    if is_own { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}
