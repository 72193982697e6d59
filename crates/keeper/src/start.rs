//! From a folder with a request to a pair that is ready to start the command.

use crate::os::{self, Leaf};
use crate::pair::{Ends, Pair, Pipe, Settings};
use crate::prepared::Prepared;
use outlast_core::ProcessId;
use outlast_store::dir::{FileId, ProcessDir};
use outlast_store::meta::{Image, Meta, flag};
use outlast_store::spec::{Launch, SpecFile};
use outlast_store::{os as store_os, points};
use rustix::event::EventfdFlags;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::SeqCst;

/// Why the keepers could not begin. Nothing was started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error("{path}: not the folder of a process")]
    NotAFolder { path: PathBuf },
    #[error("{0}")]
    Spec(#[from] outlast_store::spec::SpecError),
    #[error("cannot {doing}: {error}")]
    System { doing: &'static str, error: io::Error },
}

fn failed<E: Into<io::Error>>(doing: &'static str) -> impl FnOnce(E) -> StartError {
    move |e| StartError::System { doing, error: e.into() }
}

/// The connection to the engine, if it was passed as standard input.
pub(crate) fn engine_at_stdin() -> Result<Option<OwnedFd>, StartError> {
    if rustix::net::sockopt::socket_type(rustix::stdio::stdin()).is_err() {
        // It is something else, and leads to no engine.
        return Ok(None);
    }
    // Without the engine's go-ahead nothing may be started.
    rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3).map(Some).map_err(failed("keep the engine's connection"))
}

/// The live copy of `meta`, if the engine passed it as standard output.
pub(crate) fn image_at_stdout() -> Option<Image> {
    rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3).ok().and_then(Image::from_fd)
}

/// The descriptors that every keeper needs. The fork server opens them ahead.
#[derive(Debug)]
pub(crate) struct KeeperBase {
    signals: OwnedFd,
    null: OwnedFd,
    spool: Pipe,
    copy: Pipe,
    /// Both ends of the pipe that a successful exec closes.
    executed: (OwnedFd, OwnedFd),
    wake_pump: OwnedFd,
    wake_holder: OwnedFd,
    /// The file of the kernel's OOM counter.
    oom_kills: Option<PathBuf>,
}

impl KeeperBase {
    pub(crate) fn open() -> Result<Self, StartError> {
        if let Some(dir) = std::env::var_os("OUTLAST_TEST_POINTS") {
            points::configure(dir.into());
        }
        // Without this the keepers would end with the terminal or session of the program that started the engine.
        let _already_leader = rustix::process::setsid();
        rustix::process::set_child_subreaper(Some(rustix::process::getpid())).map_err(failed("become heir of orphans"))?;
        let signals = os::take_signals().map_err(failed("take signals"))?;
        rustix::process::umask(Mode::from_raw_mode(0o077));
        let event = || rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(failed("make an event counter"));
        Ok(Self {
            signals,
            null: rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(failed("open /dev/null"))?,
            spool: Pipe::new().map_err(failed("make a pipe"))?,
            copy: Pipe::new().map_err(failed("make a pipe"))?,
            executed: rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(failed("make a pipe"))?,
            wake_pump: event()?,
            wake_holder: event()?,
            oom_kills: os::OomKills::find_file(),
        })
    }
}

/// Prepares the pair. `None` if there is nothing to start: other keepers have it, or had it.
///
/// `image` is the live copy of `meta`, which the engine created and holds. The engine reads the pid there that the kernel stored,
/// even if both keepers are killed at once.
pub(crate) fn prepare(path: PathBuf, engine: Option<OwnedFd>, image: Option<Image>, base: KeeperBase) -> Result<Option<Pair>, StartError> {
    let id: ProcessId = path
        .file_name()
        .and_then(|n| n.to_str())
        .and_then(|n| n.parse().ok())
        .ok_or_else(|| StartError::NotAFolder { path: path.clone() })?;
    let dir = ProcessDir { path };
    let is_held_by_engine = image.is_some();
    let image = image.map_or_else(Image::new, Ok).map_err(failed("make the live copy of meta"))?;
    let meta = Meta::hold_with(&dir, id, store_os::now(), image).map_err(failed("make the meta file"))?;
    let Some(meta) = meta else { return Ok(None) };
    if meta.live().cmd.load(SeqCst) != 0 {
        return Ok(None);
    }
    match engine {
        // Earlier keepers may have received the go-ahead, and have died before they acted on it.
        Some(_) => _ = meta.live().flags.fetch_and(!flag::GO, SeqCst),
        None => _ = meta.live().set(flag::GO),
    }
    let (kept, launch) = SpecFile::read(&dir)?;
    let Some(launch) = launch else { return Ok(None) };
    let tell = kept.spec.tell;
    meta.live().pump.store(rustix::process::getpid().as_raw_nonzero().get(), SeqCst);
    points::reach("pump.prepare");

    let KeeperBase { signals, null, spool, copy, executed: (executed_r, executed_w), wake_pump, wake_holder, oom_kills } = base;
    let streams = Streams::make(&launch, &meta, &null)?;
    let listen = listen(&socket_path(launch.run_dir.as_path(), id)).map_err(failed("listen on the control socket"))?;
    let leaf = launch.cgroup.as_ref().and_then(|parent| Leaf::make(parent.as_path(), &id.to_string()).ok());
    // The engine learns of the start on its connection.
    let report = match is_held_by_engine {
        true => None,
        false => Some(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3).map_err(failed("keep the report pipe"))?),
    };
    // From here on the standard streams lead nowhere: a closed terminal must not affect the keepers.
    os::put_at(null.as_fd(), 0).map_err(failed("let go of standard input"))?;
    os::put_at(null.as_fd(), 1).map_err(failed("let go of standard output"))?;

    let pair = Pair {
        id,
        folder: FileId::at(&dir.path).ok(),
        settings: Settings {
            keep: launch.keep,
            home: launch.home.clone(),
            run_dir: launch.run_dir.clone(),
            engine: launch.engine.clone(),
            grace: launch.grace,
            timeout: launch.timeout,
            pty: streams.pty,
            program: launch.program_shown.clone().unwrap_or_else(|| launch.program.clone()),
            cwd: launch.cwd_shown.clone().unwrap_or_else(|| launch.cwd.clone()),
            tells: tell.completion || !tell.watch.is_empty(),
            watch: tell.watch,
        },
        prepared: Some(Prepared::new(&launch, streams.pty)),
        ends: Some(Ends { stdin: streams.cmd_stdin, output: streams.cmd_output, _executed: executed_w }),
        executed: Some(executed_r),
        out: Some(streams.out),
        spool,
        copy,
        null,
        in_spool: streams.input.is_some().then(Pipe::new).transpose().map_err(failed("make a pipe"))?,
        input: streams.input,
        listen,
        wake_pump,
        wake_holder,
        signals,
        cmd: None,
        over_since: std::cell::Cell::new(None),
        partner: None,
        leaf,
        oom_kills: oom_kills.and_then(|file| os::OomKills::begin(&file)),
        report,
        engine,
        dir,
        meta,
    };
    points::reach("pump.ready");
    Ok(Some(pair))
}

struct Streams {
    out: OwnedFd,
    input: Option<OwnedFd>,
    cmd_output: OwnedFd,
    cmd_stdin: OwnedFd,
    pty: bool,
}

impl Streams {
    fn make(launch: &Launch, meta: &Meta, null: &OwnedFd) -> Result<Self, StartError> {
        if let Some((rows, cols)) = launch.pty {
            match crate::tty::open(rows, cols) {
                Ok((master, slave)) => {
                    meta.live().size.store(u32::from(rows) << 16 | u32::from(cols), SeqCst);
                    let dup = |fd: &OwnedFd| fd.try_clone().map_err(failed("copy a descriptor"));
                    return Ok(Self { input: Some(dup(&master)?), out: master, cmd_stdin: dup(&slave)?, cmd_output: slave, pty: true });
                }
                // Nothing has run yet, so the pipe below is used from the start. The caller is warned.
                Err(_) => meta.live().set(flag::NO_PTY),
            };
        }
        use rustix::pipe::{PipeFlags, pipe_with};
        let (out, cmd_output) = pipe_with(PipeFlags::CLOEXEC).map_err(failed("make a pipe"))?;
        nonblocking(&out).map_err(failed("set up a pipe"))?;
        let (cmd_stdin, input) = if launch.stdin || launch.pty.is_some() {
            let (r, w) = pipe_with(PipeFlags::CLOEXEC).map_err(failed("make a pipe"))?;
            nonblocking(&w).map_err(failed("set up a pipe"))?;
            (r, Some(w))
        } else {
            (null.try_clone().map_err(failed("copy a descriptor"))?, None)
        };
        Ok(Self { out, input, cmd_output, cmd_stdin, pty: false })
    }
}

/// Each end of a pipe is its own open description, so the command's end stays blocking.
fn nonblocking(fd: &OwnedFd) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(fd)?;
    Ok(rustix::fs::fcntl_setfl(fd, flags | OFlags::NONBLOCK)?)
}

/// The path of a process's control socket.
pub(crate) fn socket_path(run_dir: &Path, id: ProcessId) -> PathBuf {
    run_dir.join(id.to_string())
}

/// Listens at `path` and replaces an existing file: the lock on `meta` proves that the path is this pair's.
pub(crate) fn listen(path: &Path) -> io::Result<OwnedFd> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        Ok(()) | Err(_) => {}
    }
    let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    rustix::net::bind(&fd, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&fd, 128)?;
    Ok(fd)
}
