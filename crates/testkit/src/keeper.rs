//! Keepers without an engine: a folder with a request, and the program that supervises its process.

use anyhow::{Context, Result, ensure};
use outlast_core::{EnvVar, OsText, ProcessId, Spec, Tell, Time};
use outlast_store::dir::{Home, ProcessDir};
use outlast_store::meta::Snapshot;
use outlast_store::segments::{Keep, LogReader};
use outlast_store::spec::{Kept, Launch, SpecFile};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A home in which keepers can be started by hand.
#[derive(Debug)]
pub struct Nursery {
    tmp: tempfile::TempDir,
    home: Home,
    next: std::sync::atomic::AtomicU32,
    refused: Vec<crate::os::Refusal>,
}

/// A process started in a nursery.
#[derive(Debug)]
pub struct Nursling {
    /// Its folder.
    pub dir: ProcessDir,
    /// Its id.
    pub id: ProcessId,
    child: Child,
    keep: Keep,
}

impl Nursery {
    /// A fresh home below `parent`, removed when dropped.
    pub fn new(parent: &Path) -> Result<Self> {
        let tmp = tempfile::Builder::new().prefix("nursery").tempdir_in(parent)?;
        let home = Home { root: tmp.path().join("home") };
        std::fs::create_dir_all(home.processes())?;
        std::fs::create_dir(tmp.path().join("run"))?;
        Ok(Self { tmp, home, next: 1.into(), refused: Vec::new() })
    }

    /// The same, with a system call refused for every keeper and its command.
    pub fn refusing(mut self, refusal: crate::os::Refusal) -> Self {
        self.refused.push(refusal);
        self
    }

    /// A directory for the test's own files.
    pub fn path(&self) -> &Path {
        self.tmp.path()
    }

    /// The home in which the keepers run.
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// The launch of a shell line; change it before [`Nursery::start`].
    pub fn shell(&self, line: &str) -> Launch {
        self.argv(&["/bin/sh", "-c", line])
    }

    /// The launch of a program.
    pub fn argv(&self, argv: &[&str]) -> Launch {
        let var = |n: &str, v: &str| EnvVar { name: n.into(), value: v.into() };
        Launch {
            program: argv[0].into(),
            argv: argv.iter().map(|a| OsText::from(*a)).collect(),
            env: vec![var("PATH", "/usr/local/bin:/usr/bin:/bin")],
            cwd: "/".into(),
            pty: None,
            stdin: false,
            timeout: None,
            keep: Keep::default(),
            home: self.home.root.as_path().into(),
            run_dir: self.tmp.path().join("run").as_path().into(),
            engine: None,
            cgroup: None,
            oom_score_adj: 0,
            grace: Duration::from_millis(500),
            umask: None,
            nofile: None,
            program_shown: None,
            cwd_shown: None,
            limits: None,
        }
    }

    /// Writes the request and starts a keeper for it.
    pub fn start(&self, keeper: &Path, launch: Launch, points: Option<&Path>) -> Result<Nursling> {
        self.start_watched(keeper, launch, points, &[])
    }

    /// The same, with watched patterns.
    pub fn start_watched(&self, keeper: &Path, mut launch: Launch, points: Option<&Path>, watch: &[String]) -> Result<Nursling> {
        let n = self.next.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let id = ProcessId::from_bytes([0, 0, (n >> 24) as u8, (n >> 16) as u8, (n >> 8) as u8, n as u8]);
        launch.env.push(EnvVar { name: "OUTLAST_PROCESS_ID".into(), value: id.to_string().into() });
        let dir = self.home.process(id);
        dir.create()?;
        let kept = Kept {
            id,
            spec: Spec::shell("test").telling(watch.iter().fold(Tell::default(), |tell, line| tell.line(line))),
            hash: String::new(),
            accepted_at: Time::from_micros(0),
            cwd: launch.cwd.clone(),
            shell: None,
            command_scrubbed: false,
            masks: None,
            env_scrubbed: Vec::new(),
            warnings: Vec::new(),
            keep: launch.keep,
        };
        SpecFile::create(&dir, &kept, &launch)?;
        let mut command = Command::new(keeper);
        command.arg(&dir.path).stdin(Stdio::null()).stdout(Stdio::piped()).env_clear();
        if let Some(points) = points {
            command.env("OUTLAST_TEST_POINTS", points);
        }
        if !self.refused.is_empty() {
            crate::os::refuse(&mut command, &self.refused);
        }
        let child = command.spawn().with_context(|| format!("start {}", keeper.display()))?;
        Ok(Nursling { dir, id, child, keep: launch.keep })
    }
}

impl Nursling {
    /// Its control socket.
    pub fn socket(&self, nursery: &Nursery) -> PathBuf {
        nursery.path().join("run").join(self.id.to_string())
    }

    /// The current contents of its `meta`.
    pub fn meta(&self) -> Result<Snapshot> {
        Ok(Snapshot::read(&self.dir)?)
    }

    /// Waits until both keepers are gone: their shared lock becomes free.
    pub fn wait_gone(&mut self) -> Result<Snapshot> {
        // Reaps the first keeper. One that took over is not a child of this process.
        self.child.wait()?;
        let meta = File::open(self.dir.meta())?;
        rustix::fs::flock(&meta, rustix::fs::FlockOperation::LockShared)?;
        self.meta()
    }

    /// Waits until the command was executed, or could not be.
    pub fn wait_started(&mut self) -> Result<()> {
        use std::io::Read;
        let mut said = String::new();
        self.child.stdout.take().context("waited for already")?.read_to_string(&mut said)?;
        ensure!(said == "exec\n", "the keepers said {said:?}");
        Ok(())
    }

    /// The whole log, which must have no gap.
    pub fn log(&self) -> Result<Vec<u8>> {
        let meta = self.meta()?;
        let mut out = Vec::new();
        let copied = LogReader::open(&self.dir, self.keep).copy_to(0, meta.log_end(), &meta.gaps, &mut out)?;
        ensure!(copied.gaps.is_empty(), "the log has gaps: {:?}", copied.gaps);
        Ok(out)
    }
}
