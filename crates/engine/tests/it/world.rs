//! A throwaway home with an engine in this very program.

use outlast_client::{Client, ClientError, Owner, Process, ProcessInfo, Run, Spec, caller};
use outlast_engine::{Config, Engine, KeeperProgram, UserInfo};
use outlast_testkit::product::{PATIENCE, kill_and_wait};
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

    /// The client of a session.
    pub(crate) fn session(&self, key: &str) -> Client {
        self.client.with_owner(Owner { session: Some(key.into()), ..Owner::default() })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.tmp.path().join(name)
    }
}

/// The settings of an engine that a test starts.
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
        // An engine that runs would write into the home while it is removed.
        let stop = tokio::time::timeout(PATIENCE, self.engine.stop());
        let stopped = tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(stop));
        clear(self.tmp.path());
        assert!(stopped.is_ok() || std::thread::panicking(), "the engine does not end");
    }
}

/// Kills what a test left running in this place, and removes the place.
pub(crate) fn clear(place: &Path) {
    let mark = place.as_os_str().as_encoded_bytes();
    let holds = |pid: u32, file: &str| std::fs::read(format!("/proc/{pid}/{file}")).is_ok_and(|b| b.windows(mark.len()).any(|w| w == mark));
    let is_here = |pid: &u32| *pid != std::process::id() && (holds(*pid, "cmdline") || holds(*pid, "environ"));
    loop {
        let all = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let left: Vec<u32> = all.filter(is_here).collect();
        if left.is_empty() {
            break;
        }
        // A keeper that sees the other one die starts another.
        left.into_iter().for_each(|pid| kill_and_wait(pid).unwrap());
    }
    let removed = std::fs::remove_dir_all(place);
    assert!(removed.is_ok() || std::thread::panicking(), "left behind: {}: {removed:?}", place.display());
}
