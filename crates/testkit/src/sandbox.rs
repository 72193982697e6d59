//! A sandbox's home without a link: the test is the other side of the keeper's `connect`.

use crate::waiting::{PATIENCE, kill_and_wait};
use anyhow::{Context, Result, bail, ensure};
use outlast_core::{Command as Run, EnvVar, OsText, ProcessId, Spec, Stop, Time};
use outlast_store::dir::{Home, ProcessDir};
use outlast_store::meta::Snapshot;
use outlast_store::segments::Keep;
use outlast_store::spec::{Kept, Launch, SpecFile};
use outlast_wire::frame::{self, Frame, Splitter};
use outlast_wire::v1::keeper::{FromKeeper, KeeperReply, KeeperRequest, ToKeeper};
use outlast_wire::v1::sandbox::{
    FileOffsets, FromSandbox, LOG_WINDOW, PREAMBLE, SandboxHello, SandboxReply, SandboxRequest, ToSandbox, Update,
};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

/// A sandbox's home.
#[derive(Debug)]
pub struct TestSandbox {
    tmp: tempfile::TempDir,
    keeper: PathBuf,
}

impl TestSandbox {
    /// A fresh one. `keeper` is the program that is there.
    pub fn new(keeper: impl Into<PathBuf>) -> Result<Self> {
        Ok(Self { tmp: tempfile::Builder::new().prefix("sandbox").tempdir()?, keeper: keeper.into() })
    }

    /// The home.
    pub fn home(&self) -> Home {
        Home::new(self.tmp.path().join("home"))
    }

    /// A directory for the test's own files.
    pub fn path(&self) -> &Path {
        self.tmp.path()
    }

    /// Starts `connect`, without a hello.
    pub fn silent(&self) -> Result<Line> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_read_timeout(Some(PATIENCE))?;
        let theirs = OwnedFd::from(theirs);
        let mut command = Command::new(&self.keeper);
        command.args(["connect", "--home"]).arg(self.home().root).stdin(theirs.try_clone()?).stdout(theirs);
        command.env_clear().env("HOME", self.tmp.path()).env("OUTLAST_TEST_POINTS", self.tmp.path().join("points"));
        command.stderr(std::fs::File::options().create(true).append(true).open(self.tmp.path().join("stderr"))?);
        let child = command.spawn().context("start the keeper")?;
        // The child alone has the other end from here on.
        drop(command);
        let mut line = Line { child, stream: ours, split: Splitter::default(), last: 0, come: VecDeque::new() };
        let mut preamble = vec![0; PREAMBLE.len()];
        line.stream.read_exact(&mut preamble).context("connect writes nothing")?;
        ensure!(preamble == PREAMBLE, "{preamble:?} instead of the preamble");
        Ok(line)
    }

    /// Starts `connect`, and says hello.
    pub fn connect(&self) -> Result<(Line, SandboxHello)> {
        let mut line = self.silent()?;
        let of = line.ask(SandboxRequest::Hello { version: 1 })?;
        match line.answer(of)? {
            SandboxReply::Hello(hello) => Ok((line, *hello)),
            other => bail!("{other:?} instead of a hello"),
        }
    }

    /// The folder of a process.
    pub fn dir(&self, id: ProcessId) -> ProcessDir {
        self.home().process(id)
    }

    /// What the error stream of each `connect` has had.
    pub fn complaints(&self) -> String {
        std::fs::read_to_string(self.tmp.path().join("stderr")).unwrap_or_default()
    }

    /// The bytes of a request, as a link has them. `change` changes what a shell line is started with.
    pub fn request(&self, id: ProcessId, line: &str, change: impl FnOnce(&mut Kept, &mut Launch)) -> Result<Vec<u8>> {
        let var = |name: &str, value: &str| EnvVar { name: name.into(), value: value.into() };
        let mut launch = Launch {
            program: OsText::default(),
            argv: ["", "-c", line].map(OsText::from).to_vec(),
            env: vec![var("OUTLAST_PROCESS_ID", &id.to_string()), var("TEST_SANDBOX", &self.tmp.path().to_string_lossy())],
            cwd: OsText::default(),
            pty: None,
            stdin: false,
            timeout: None,
            keep: Keep::default(),
            home: OsText::default(),
            run_dir: OsText::default(),
            engine: None,
            cgroup: None,
            oom_score_adj: 0,
            grace: Duration::from_millis(500),
            umask: None,
            nofile: None,
            program_shown: None,
            cwd_shown: None,
            limits: None,
        };
        let mut kept = Kept {
            id,
            spec: Spec::of(Run::Shell(line.into())),
            hash: format!("hash of {line}"),
            accepted_at: Time::from_micros(0),
            cwd: OsText::default(),
            shell: None,
            command_scrubbed: false,
            masks: None,
            env_scrubbed: Vec::new(),
            warnings: Vec::new(),
            keep: launch.keep,
        };
        change(&mut kept, &mut launch);
        let dir = ProcessDir { path: self.tmp.path().join(format!("request-{id}")) };
        let _old = std::fs::remove_dir_all(&dir.path);
        dir.create()?;
        SpecFile::create(&dir, &kept, &launch)?;
        Ok(std::fs::read(dir.spec())?)
    }

    /// The processes that belong to this sandbox: by their command line, or by their environment.
    pub fn processes(&self) -> Vec<(u32, String)> {
        let needle = self.tmp.path().as_os_str().as_encoded_bytes();
        let has = |bytes: &[u8]| bytes.windows(needle.len()).any(|w| w == needle);
        let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = all.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok()).filter(|pid| *pid != std::process::id());
        pids.filter_map(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            let env = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            (has(&line) || has(&env)).then(|| (pid, String::from_utf8_lossy(&line).replace('\0', " ")))
        })
        .collect()
    }
}

impl Drop for TestSandbox {
    fn drop(&mut self) {
        let left = self.processes();
        for (pid, _) in &left {
            let _over = kill_and_wait(*pid);
        }
        if !std::thread::panicking() {
            assert!(left.is_empty(), "left behind: {left:?}\n{}", self.complaints());
        }
    }
}

/// What a link has of a process.
#[derive(Debug, Default)]
pub struct Shadow {
    /// The log, from byte 0; missing bytes are zeros.
    pub log: Vec<u8>,
    /// The ranges that were skipped.
    pub skipped: Vec<(u64, u64)>,
    /// The other files.
    pub files: FileOffsets,
    /// The last `meta`.
    pub meta: Option<Snapshot>,
    /// Whether nothing more will come.
    pub is_over: bool,
    /// How many updates there were.
    pub updates: u64,
}

impl Shadow {
    /// The log as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.log).into_owned()
    }

    fn apply(&mut self, update: &Update, bytes: &[u8]) -> Result<()> {
        let apart = update.split(bytes).context("an update that does not come apart")?;
        let end = self.log.len() as u64;
        ensure!(update.log.at >= end, "byte {} again, after {end}", update.log.at);
        if update.log.at > end {
            self.skipped.push((end, update.log.at));
            self.log.resize(update.log.at as usize, 0);
        }
        self.log.extend_from_slice(apart.log);
        ensure!(update.journal.at == self.files.journal, "{update:?} after {:?}", self.files);
        self.files.journal += update.journal.len;
        self.files.lines += update.lines.len;
        self.files.times += update.times.len;
        if let Some(meta) = apart.meta {
            let meta = Snapshot::parse(&meta[..]).map_err(|(at, what)| anyhow::anyhow!("byte {at} of meta: {what}"))?;
            let has_end = meta.ended.is_some() || meta.closed.is_some();
            ensure!(!has_end || meta.log_end() <= self.log.len() as u64, "an end at {} came before the output", meta.log_end());
            self.meta = Some(meta);
        }
        ensure!(!self.is_over, "an update after the last");
        self.is_over |= update.is_over;
        self.updates += 1;
        Ok(())
    }
}

/// The other side of one `connect`.
#[derive(Debug)]
pub struct Line {
    /// The process.
    pub child: Child,
    stream: UnixStream,
    split: Splitter,
    last: u64,
    come: VecDeque<Arrived>,
}

/// What came, with the raw frame that follows an update.
#[derive(Debug)]
enum Arrived {
    Said(FromSandbox, Vec<u8>),
    Raw(u64, Vec<u8>),
}

impl Arrived {
    fn of(&self) -> u64 {
        match self {
            Self::Said(said, _) => said.of,
            Self::Raw(of, _) => *of,
        }
    }
}

impl Line {
    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.stream.write_all(bytes)?)
    }

    /// Sends a request, and returns its number.
    pub fn ask(&mut self, ask: SandboxRequest) -> Result<u64> {
        self.last += 1;
        self.send(&frame::json(&ToSandbox { id: self.last, ask }))?;
        Ok(self.last)
    }

    /// Closes this side.
    pub fn close(&mut self) {
        let _closed = self.stream.shutdown(std::net::Shutdown::Both);
    }

    /// Kills `connect`, and waits for its end.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    fn read(&mut self) -> Result<bool> {
        let mut piece = vec![0; 64 << 10];
        let n = self.stream.read(&mut piece).context("nothing came")?;
        self.split.push(&piece[..n]);
        let mut frames = VecDeque::new();
        while let Some(one) = self.split.next_frame()? {
            frames.push_back(one);
        }
        while let Some(one) = frames.pop_front() {
            match one {
                Frame::Raw { of, bytes } => self.come.push_back(Arrived::Raw(of, bytes)),
                Frame::Json(json) => {
                    let said: FromSandbox = serde_json::from_slice(&json)?;
                    self.come.push_back(Arrived::Said(said, Vec::new()));
                }
            }
        }
        Ok(n > 0)
    }

    /// The next message of request `of`.
    fn next(&mut self, of: u64) -> Result<Arrived> {
        loop {
            let at = self.come.iter().position(|one| one.of() == of);
            let Some(at) = at else {
                ensure!(self.read()?, "the stream ended");
                continue;
            };
            if !matches!(&self.come[at], Arrived::Said(FromSandbox { say: SandboxReply::Update(_), .. }, _)) {
                return self.come.remove(at).context("it is there");
            }
            // Its bytes are in the next frame of the same number.
            let Some(raw) = self.come.iter().skip(at + 1).position(|one| one.of() == of) else {
                ensure!(self.read()?, "the stream ended");
                continue;
            };
            let bytes = match self.come.remove(at + 1 + raw) {
                Some(Arrived::Raw(_, bytes)) => bytes,
                other => bail!("{other:?} instead of the bytes of an update"),
            };
            return match self.come.remove(at) {
                Some(Arrived::Said(said, _)) => Ok(Arrived::Said(said, bytes)),
                other => bail!("{other:?}"),
            };
        }
    }

    /// The answer to request `of`.
    pub fn answer(&mut self, of: u64) -> Result<SandboxReply> {
        match self.next(of)? {
            Arrived::Said(said, _) => Ok(said.say),
            other @ Arrived::Raw(..) => bail!("{other:?} instead of an answer"),
        }
    }

    /// Whether the stream has ended, after what was sent before.
    pub fn is_over(&mut self) -> bool {
        loop {
            match self.read() {
                Ok(true) => {}
                Ok(false) => return true,
                // What it had not read yet is gone with it.
                Err(e) => {
                    return e.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::ConnectionReset);
                }
            }
        }
    }

    /// Asks to start a process.
    pub fn start(&mut self, process: ProcessId, request: &[u8]) -> Result<SandboxReply> {
        let of = self.ask(SandboxRequest::Start { process, len: request.len() as u64 })?;
        for chunk in request.chunks(frame::RAW_CHUNK) {
            self.send(&frame::raw(of, chunk))?;
        }
        self.answer(of)
    }

    /// Attaches a process after what the shadow has.
    pub fn attach(&mut self, process: ProcessId, shadow: &Shadow, upto: u64) -> Result<u64> {
        let log = shadow.log.len() as u64;
        self.ask(SandboxRequest::Attach { process, log, files: shadow.files, upto })
    }

    /// Takes in one update of an attached process.
    pub fn update(&mut self, of: u64, shadow: &mut Shadow) -> Result<()> {
        match self.next(of)? {
            Arrived::Said(FromSandbox { say: SandboxReply::Update(update), .. }, bytes) => shadow.apply(&update, &bytes),
            other => bail!("{other:?} instead of an update"),
        }
    }

    /// Takes in updates until the shadow is as wanted, and allows more as they come.
    pub fn follow(&mut self, of: u64, shadow: &mut Shadow, is_enough: impl Fn(&Shadow) -> bool) -> Result<()> {
        while !is_enough(shadow) {
            self.update(of, shadow)?;
            self.ask(SandboxRequest::Allow { of, upto: shadow.log.len() as u64 + LOG_WINDOW })?;
        }
        Ok(())
    }

    /// Connects to the pump of a process, after the hello.
    pub fn dial(&mut self, process: ProcessId) -> Result<Channel> {
        let of = self.ask(SandboxRequest::Dial { process })?;
        let mut channel = Channel { of, asked: 0, split: Splitter::default() };
        let hello = channel.ask(self, KeeperRequest::Hello { version: 1, listener: false })?;
        ensure!(matches!(hello, KeeperReply::Hello { .. }), "{hello:?} instead of a hello");
        Ok(channel)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.close();
        // It exits at the end of the stream.
        let _over = self.child.wait();
    }
}

/// A channel to the socket of a pump.
#[derive(Debug)]
pub struct Channel {
    of: u64,
    asked: u64,
    split: Splitter,
}

impl Channel {
    /// Sends a request to the pump, and returns its answer.
    pub fn ask(&mut self, line: &mut Line, ask: KeeperRequest) -> Result<KeeperReply> {
        self.tell(line, ask)?;
        self.answer(line)
    }

    /// Sends a request to the pump, and returns its number.
    pub fn tell(&mut self, line: &mut Line, ask: KeeperRequest) -> Result<u64> {
        self.asked += 1;
        let request = frame::json(&ToKeeper { id: self.asked, ask });
        line.send(&frame::raw(self.of, &request))?;
        Ok(self.asked)
    }

    /// The answer to the last request.
    pub fn answer(&mut self, line: &mut Line) -> Result<KeeperReply> {
        loop {
            while let Some(Frame::Json(json)) = self.split.next_frame()? {
                let said: FromKeeper = serde_json::from_slice(&json)?;
                if said.of == Some(self.asked) {
                    return Ok(said.say);
                }
            }
            match line.next(self.of)? {
                Arrived::Raw(_, bytes) => self.split.push(&bytes),
                Arrived::Said(FromSandbox { say: SandboxReply::Taken { .. }, .. }, _) => {}
                other @ Arrived::Said(..) => bail!("{other:?} on a channel"),
            }
        }
    }

    /// Writes input at an offset.
    pub fn write(&mut self, line: &mut Line, at: u64, bytes: &[u8]) -> Result<KeeperReply> {
        self.tell(line, KeeperRequest::Write { at: Some(at), len: bytes.len() as u64 })?;
        self.bytes(line, bytes)?;
        self.answer(line)
    }

    /// Sends bytes for the last request.
    pub fn bytes(&mut self, line: &mut Line, bytes: &[u8]) -> Result<()> {
        bytes.chunks(16 << 10).try_for_each(|chunk| line.send(&frame::raw(self.of, &frame::raw(self.asked, chunk))))
    }

    /// Stops the tree.
    pub fn stop(&mut self, line: &mut Line, stop: Stop) -> Result<KeeperReply> {
        self.ask(line, KeeperRequest::Stop { stop })
    }
}
