//! `outlast-keeper connect`: serves the processes of a sandbox to a link, over standard input and output.
//!
//! It holds nothing that the folders do not have. When the stream is lost it exits, and the keepers go on without it. The next link starts
//! another one and says how far it had come.
//!
//! Decisions 400 to 402: docs/decisions/anywhere.md.

mod attached;
mod begin;
mod channel;
mod keeper_socket;
mod resolve;
mod sandbox_home;
mod settle;
mod stream;

use crate::os;
use attached::{Attached, input_taken, is_over};
use begin::Starter;
use channel::Channel;
use keeper_socket::Listener;
use outlast_core::ProcessId;
use outlast_store::dir::Home;
use outlast_wire::frame::{BadFrame, Frame};
use outlast_wire::v1::sandbox::{FileOffsets, SPEC_LIMIT, SandboxHello, SandboxReply, SandboxRequest, ToSandbox};
use outlast_wire::{OLDEST, VERSION, code};
use resolve::Surroundings;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::process::{Resource, Rlimit};
use sandbox_home::{SandboxHome, SandboxHomeError};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use stream::Stream;

/// How many processes may be attached, and how many channels open, at once.
const MOST_ATTACHED: usize = 16 << 10;
const MOST_CHANNELS: usize = 1 << 10;
/// How many requests to start may be under way at once. Each holds its spec.
const MOST_STARTS: usize = 64;

/// Why the stream ends before the link closes it.
#[derive(Debug, thiserror::Error)]
enum ConnectError {
    #[error("usage: outlast-keeper connect --home DIR (started by a link, not by hand)")]
    Usage,
    #[error(transparent)]
    Home(#[from] SandboxHomeError),
    #[error("the link violated the protocol: {0}")]
    Protocol(String),
    #[error("another stream serves this home now")]
    Replaced,
    #[error("cannot {doing}: {error}")]
    System { doing: &'static str, error: io::Error },
}

impl From<BadFrame> for ConnectError {
    fn from(e: BadFrame) -> Self {
        Self::Protocol(e.to_string())
    }
}

fn failed<E: Into<io::Error>>(doing: &'static str) -> impl FnOnce(E) -> ConnectError {
    move |e| ConnectError::System { doing, error: e.into() }
}

/// If this is the home of a sandbox, makes its pids pids of that sandbox.
pub(crate) fn name_pids_after(home: &Home) {
    if let Some(identity) = sandbox_home::identity_of(home) {
        // Without /proc no identity can be read at all.
        let _no_proc = outlast_store::os::live_in_sandbox(identity);
    }
}

/// Serves one stream. Returns the exit code.
pub(crate) fn main(args: impl Iterator<Item = OsString>) -> i32 {
    match serve(args) {
        Ok(()) => 0,
        Err(e) => {
            eprintln!("outlast-keeper: {e}");
            if matches!(e, ConnectError::Usage) { 64 } else { 1 }
        }
    }
}

fn serve(mut args: impl Iterator<Item = OsString>) -> Result<(), ConnectError> {
    let (Some(option), Some(root), None) = (args.next(), args.next(), args.next()) else { return Err(ConnectError::Usage) };
    if option != "--home" {
        return Err(ConnectError::Usage);
    }
    // A lock that this program or its keepers held for its starter would never be released.
    os::close_inherited(None);
    if let Some(dir) = std::env::var_os("OUTLAST_TEST_POINTS") {
        outlast_store::points::configure(dir.into());
    }
    let signals = os::take_signals().map_err(failed("take signals"))?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let nofile = raise_descriptors();
    let input = stream::own(rustix::stdio::stdin()).map_err(failed("keep standard input"))?;
    let output = stream::own(rustix::stdio::stdout()).map_err(failed("keep standard output"))?;
    let null = rustix::fs::open("/dev/null", rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC, rustix::fs::Mode::empty());
    let null = null.map_err(failed("open /dev/null"))?;
    os::put_at(null.as_fd(), 0).map_err(failed("let go of standard input"))?;
    os::put_at(null.as_fd(), 1).map_err(failed("let go of standard output"))?;
    let home = SandboxHome::open(&PathBuf::from(root))?;
    name_pids_after(&home.home);
    let program = std::env::current_exe().map_err(failed("find the own program"))?;
    let is_self_as_keeper = program.file_name().is_some_and(|name| name == "outlast");
    let surroundings = Surroundings::of(std::env::vars_os(), nofile);
    let starter = Starter::new(surroundings, program, is_self_as_keeper);
    let stream = Stream::new(input, output).map_err(failed("set up the stream"))?;
    let mut connect = Connect {
        home,
        starter,
        stream,
        signals,
        replaced: None,
        is_greeted: false,
        starts: BTreeMap::new(),
        started: BTreeMap::new(),
        attached: BTreeMap::new(),
        channels: BTreeMap::new(),
        last: 0,
    };
    connect.run()
}

/// Raises the limit of open descriptors as far as it goes: each process takes two. Returns what commands get.
fn raise_descriptors() -> Option<u64> {
    let was = rustix::process::getrlimit(Resource::Nofile);
    // With the old limit fewer processes can be attached.
    let _refused = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: was.maximum, maximum: was.maximum });
    was.current
}

/// A spec that is arriving.
struct ArrivingSpec {
    process: ProcessId,
    len: u64,
    bytes: Vec<u8>,
}

/// One stream and what it serves, by the numbers of the link's requests.
struct Connect {
    home: SandboxHome,
    starter: Starter,
    stream: Stream,
    signals: OwnedFd,
    /// Readable once another stream serves the home.
    replaced: Option<OwnedFd>,
    is_greeted: bool,
    starts: BTreeMap<u64, ArrivingSpec>,
    /// The connections of keepers whose processes are not attached yet.
    started: BTreeMap<ProcessId, Listener>,
    attached: BTreeMap<u64, Attached>,
    channels: BTreeMap<u64, Channel>,
    /// Which attached process was served last: each has its turn.
    last: u64,
}

impl Connect {
    fn run(&mut self) -> Result<(), ConnectError> {
        loop {
            for attached in self.attached.values_mut() {
                attached.seek(&self.home, &self.starter).map_err(|e| look_failed(attached.process, &e))?;
            }
            self.update().map_err(failed("read the folder of a process"))?;
            self.stream.send().map_err(failed("write to the stream"))?;
            if !self.wait()? {
                return Ok(());
            }
        }
    }

    /// Adds updates while there is room for them, one for each process in turn.
    fn update(&mut self) -> io::Result<()> {
        let mut idle = 0;
        while self.stream.takes_updates() && idle < self.attached.len() {
            let later = self.attached.range_mut(self.last + 1..).next().map(|(of, _)| *of);
            let Some(of) = later.or_else(|| self.attached.keys().next().copied()) else { return Ok(()) };
            self.last = of;
            let Some(attached) = self.attached.get_mut(&of) else { return Ok(()) };
            match attached.next_update()? {
                Some((update, bytes)) => {
                    self.stream.update(of, update, &bytes);
                    idle = 0;
                }
                None => idle += 1,
            }
        }
        Ok(())
    }

    /// Waits until something is to be done, and does it. False at the end of the stream.
    fn wait(&mut self) -> Result<bool, ConnectError> {
        let reads = self.stream.takes_updates();
        let [input, output] = self.stream.poll_fds();
        let mut fds = vec![input, output, PollFd::new(&self.signals, PollFlags::IN)];
        fds.extend(self.replaced.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
        let first = fds.len();
        let channels: Vec<u64> = self.channels.keys().copied().collect();
        fds.extend(self.channels.values().map(|channel| channel.poll_fd(reads)));
        let mut attached = Vec::new();
        for (of, one) in &self.attached {
            if let Some(fd) = one.poll_fd() {
                attached.push(*of);
                fds.push(fd);
            }
        }
        let due = self.attached.values().filter_map(Attached::due).min().map(|at| at.saturating_duration_since(Instant::now()));
        let due = due.map(|due: Duration| Timespec { tv_sec: due.as_secs() as i64, tv_nsec: i64::from(due.subsec_nanos()) });
        // Interrupted or not, everything is looked at.
        let _woken = poll(&mut fds, due.as_ref());
        let fired: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        if fired[2] {
            os::read_signals(self.signals.as_fd());
            while os::reap_any().is_some() {}
        }
        if self.replaced.is_some() && fired[3] {
            return Err(ConnectError::Replaced);
        }
        for (of, _) in channels.iter().zip(&fired[first..]).filter(|(_, fired)| **fired) {
            self.hear_channel(*of);
        }
        for (of, _) in attached.iter().zip(&fired[first + channels.len()..]).filter(|(_, fired)| **fired) {
            if let Some(attached) = self.attached.get_mut(of) {
                attached.hear();
            }
        }
        if !fired[0] {
            return Ok(true);
        }
        let is_open = self.stream.read().map_err(failed("read from the stream"))?;
        while let Some(frame) = self.stream.next_frame()? {
            match frame {
                Frame::Json(json) => {
                    let asked: ToSandbox = serde_json::from_slice(&json).map_err(|e| ConnectError::Protocol(e.to_string()))?;
                    self.asked(asked)?;
                }
                Frame::Raw { of, bytes } => self.raw(of, bytes)?,
            }
        }
        Ok(is_open)
    }

    fn hear_channel(&mut self, of: u64) {
        let Some(channel) = self.channels.get_mut(&of) else { return };
        let news = channel.hear();
        if news.taken > 0 {
            self.stream.say(of, SandboxReply::Taken { bytes: news.taken });
        }
        if !news.bytes.is_empty() {
            self.stream.raw(of, &news.bytes);
        }
        if news.is_hung_up {
            self.channels.remove(&of);
            self.stream.say(of, SandboxReply::HungUp);
        }
    }

    fn asked(&mut self, ToSandbox { id, ask }: ToSandbox) -> Result<(), ConnectError> {
        if !self.is_greeted && !matches!(ask, SandboxRequest::Hello { .. }) {
            return Err(ConnectError::Protocol("it did not say hello first".into()));
        }
        match ask {
            SandboxRequest::Hello { version } => self.greet(id, version)?,
            SandboxRequest::Ping => self.stream.say(id, SandboxReply::Ok),
            SandboxRequest::Start { process, len } => {
                if len > SPEC_LIMIT || self.starts.len() >= MOST_STARTS {
                    return Err(ConnectError::Protocol(format!("a request to start of {len} bytes, beside {} others", self.starts.len())));
                }
                self.starts.insert(id, ArrivingSpec { process, len, bytes: Vec::new() });
            }
            SandboxRequest::Attach { process, log, files, upto } => self.attach(id, process, log, files, upto),
            SandboxRequest::Allow { of, upto } => {
                if let Some(attached) = self.attached.get_mut(&of) {
                    attached.allow(upto);
                }
            }
            SandboxRequest::Detach { of } => _ = self.attached.remove(&of),
            SandboxRequest::Dial { process } => match Channel::dial(&self.home.socket(process)) {
                Ok(channel) if self.channels.len() < MOST_CHANNELS => _ = self.channels.insert(id, channel),
                Ok(_) | Err(_) => self.stream.say(id, SandboxReply::HungUp),
            },
            SandboxRequest::HangUp { of } => _ = self.channels.remove(&of),
            SandboxRequest::InputTaken { process } => match input_taken(&self.home.home.process(process)) {
                Ok(bytes) => self.stream.say(id, SandboxReply::InputTaken { bytes }),
                Err(e) => self.stream.refuse_about(id, code::FAULT, process, e),
            },
            SandboxRequest::List => match self.home.home.ids() {
                Ok(processes) => self.stream.say(id, SandboxReply::Processes { processes }),
                Err(e) => self.stream.refuse(id, code::FAULT, format_args!("cannot list the sandbox's home: {e}")),
            },
            SandboxRequest::Remove { process } => self.remove(id, process)?,
        }
        Ok(())
    }

    fn greet(&mut self, id: u64, version: u32) -> Result<(), ConnectError> {
        if version < OLDEST {
            self.stream.refuse(
                id,
                code::BAD_VERSION,
                format_args!("version {version} is too old: this keeper speaks {OLDEST} to {VERSION}"),
            );
            return Ok(());
        }
        self.replaced = self.home.take_over().map_err(failed("take over the sandbox's home"))?;
        self.is_greeted = true;
        let boot = outlast_store::os::boot_id().map_err(failed("read the boot id"))?;
        let hello = SandboxHello {
            version: version.min(VERSION),
            program: env!("CARGO_PKG_VERSION").to_owned(),
            home: format!("{:032x}", self.home.identity),
            boot: format!("{boot:032x}"),
            uid: rustix::process::geteuid().as_raw(),
            arch: std::env::consts::ARCH.to_owned(),
            clock_us: outlast_store::os::now().micros(),
            cwd: self.starter.surroundings.cwd.as_path().into(),
        };
        self.stream.say(id, SandboxReply::Hello(Box::new(hello)));
        Ok(())
    }

    fn raw(&mut self, of: u64, bytes: Vec<u8>) -> Result<(), ConnectError> {
        if let Some(channel) = self.channels.get_mut(&of) {
            match channel.pass(&bytes) {
                Ok(0) => {}
                Ok(bytes) => self.stream.say(of, SandboxReply::Taken { bytes }),
                Err(_) => {
                    self.channels.remove(&of);
                    self.stream.say(of, SandboxReply::HungUp);
                }
            }
            return Ok(());
        }
        // Bytes for a channel that has closed since are dropped.
        let Some(spec) = self.starts.get_mut(&of) else { return Ok(()) };
        spec.bytes.extend(bytes);
        if spec.bytes.len() as u64 > spec.len {
            return Err(ConnectError::Protocol("a spec is longer than was said".into()));
        }
        if spec.bytes.len() as u64 == spec.len
            && let Some(ArrivingSpec { process, bytes, .. }) = self.starts.remove(&of)
        {
            let Some(_turn) = self.home.turn().map_err(failed("lock the sandbox's home"))? else { return Err(ConnectError::Replaced) };
            match self.starter.take_in(&self.home, process, &bytes) {
                Ok(is_new) => {
                    // If this fails, it is tried again, and reported, when the process is attached.
                    let started = is_new.then(|| self.starter.start(&self.home, &self.home.home.process(process)));
                    if let Some(Ok(listener)) = started {
                        self.started.insert(process, listener);
                    }
                    self.stream.say(of, SandboxReply::Ok);
                }
                Err(e) => self.stream.refuse_about(of, e.code, process, e.error),
            }
        }
        Ok(())
    }

    /// A process that has a folder and was not started is started by this.
    fn attach(&mut self, id: u64, process: ProcessId, log: u64, files: FileOffsets, upto: u64) {
        let is_there = self.home.home.process(process).path.exists();
        match Attached::new(&self.home, process, log, files, upto) {
            Ok(attached) if self.attached.len() < MOST_ATTACHED => {
                let attached = match self.started.remove(&process) {
                    Some(listener) => attached.started_with(listener),
                    None => attached,
                };
                self.attached.insert(id, attached);
            }
            Ok(_) => self.stream.refuse_about(id, code::TOO_MANY, process, "more processes than can be attached at once"),
            Err(e) if is_there => self.stream.refuse_about(id, code::FAULT, process, e),
            Err(_) => self.stream.refuse_about(id, code::NOT_FOUND, process, "the sandbox has no such process"),
        }
    }

    fn remove(&mut self, id: u64, process: ProcessId) -> Result<(), ConnectError> {
        let dir = self.home.home.process(process);
        let Some(_turn) = self.home.turn().map_err(failed("lock the sandbox's home"))? else { return Err(ConnectError::Replaced) };
        let removed = match dir.path.exists() {
            false => Ok(()),
            true => match is_over(&dir) {
                Ok(true) => dir.remove(),
                Ok(false) => {
                    self.stream.refuse_about(id, code::STILL_RUNNING, process, "it is not over");
                    return Ok(());
                }
                Err(e) => Err(e),
            },
        };
        match removed {
            Ok(()) => {
                self.attached.retain(|_, attached| attached.process != process);
                self.stream.say(id, SandboxReply::Ok);
            }
            Err(e) => self.stream.refuse_about(id, code::FAULT, process, e),
        }
        Ok(())
    }
}

fn look_failed(id: ProcessId, error: &io::Error) -> ConnectError {
    if error.kind() == io::ErrorKind::ConnectionAborted {
        return ConnectError::Replaced;
    }
    failed("look at the folder of a process")(io::Error::other(format!("{id}: {error}")))
}
