//! A throwaway home with an engine in this very program.

use outlast_client::{Client, ClientError, Owner, Process, ProcessInfo, Run, Spec, caller};
use outlast_engine::{Config, Engine, KeeperProgram, UserInfo};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) client: Client,
    pub(crate) tmp: tempfile::TempDir,
}

/// The keeper that cargo built next to this test.
fn keeper() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let keeper = here.parent().and_then(|p| p.parent()).unwrap().join("examples/keeper");
    assert!(keeper.exists(), "{} is missing: run the tests with `cargo test -p outlast-engine`, which builds examples", keeper.display());
    keeper
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut Config)) -> Self {
        let tmp = tempfile::Builder::new().prefix("oe-").tempdir().unwrap();
        let (engine, client) = start(&tmp, change).await;
        Self { engine, client, tmp }
    }

    /// Ends the engine and starts another on the same home.
    pub(crate) async fn restart(&mut self, change: impl FnOnce(&mut Config)) {
        self.engine.stop().await;
        (self.engine, self.client) = start(&self.tmp, change).await;
    }

    pub(crate) fn caller(&self) -> outlast_client::Caller {
        let env = [("PATH", "/usr/bin:/bin"), ("HOME", "/nonexistent")].map(|(n, v)| (n.into(), v.into()));
        caller(env, self.tmp.path())
    }

    pub(crate) async fn run(&self, spec: Spec) -> ProcessInfo {
        self.try_run(spec).await.unwrap()
    }

    pub(crate) async fn try_run(&self, spec: Spec) -> Result<ProcessInfo, ClientError> {
        self.client.run_info(Run::new(spec, self.caller())).await
    }

    pub(crate) async fn sh(&self, line: &str) -> Process {
        let info = self.run(Spec::shell(line)).await;
        self.client.process(info.session_id)
    }

    /// The client of a conversation.
    pub(crate) fn session(&self, key: &str) -> Client {
        self.client.with_owner(Owner { session: Some(key.into()), ..Owner::default() })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.tmp.path().join(name)
    }
}

/// What an engine is told that a test starts.
pub(crate) fn config(tmp: &tempfile::TempDir) -> Config {
    let home = tmp.path().join("user");
    std::fs::create_dir_all(&home).unwrap();
    let user = UserInfo::new("test", home, "/bin/bash");
    let mut config = Config::new(tmp.path().join("home"), "/bin/false", KeeperProgram::Binary(keeper()), user);
    config.run_candidates = vec![tmp.path().to_owned()];
    config.detach = false;
    config.idle_exit = Duration::ZERO;
    config
}

async fn start(tmp: &tempfile::TempDir, change: impl FnOnce(&mut Config)) -> (Engine, Client) {
    let mut config = config(tmp);
    change(&mut config);
    let engine = Engine::start(config).await.unwrap();
    let client = Client::over(engine.connect()).await.unwrap();
    (engine, client)
}

impl Drop for World {
    fn drop(&mut self) {
        kill_all_in(self.tmp.path());
    }
}

/// A failed test must not leave its commands behind: kills whatever says that it lives in this place.
pub(crate) fn kill_all_in(place: &Path) {
    let mark = place.as_os_str().as_encoded_bytes().to_vec();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<i32>().ok()) else { continue };
        let holds = |file: &str| std::fs::read(entry.path().join(file)).is_ok_and(|b| b.windows(mark.len()).any(|w| w == mark));
        if pid != std::process::id() as i32
            && (holds("cmdline") || holds("environ"))
            && let Some(pid) = rustix::process::Pid::from_raw(pid)
        {
            let _gone = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}
