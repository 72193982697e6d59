//! Sinks beside a real engine.

use outlast_client::{Client, Owner, Push, Route};
use outlast_engine::{Config, Engine, KeeperProgram, Push as For, UserInfo};
use outlast_sinks::{Budget, Gather, Growth, Hook, HookCommand, Policy, SinkConfig};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::task::JoinHandle;

struct World {
    engine: Engine,
    client: Client,
    tmp: TempDir,
}

impl World {
    /// An engine with one sink, `h`, which is for the conversations of agents.
    async fn new() -> Self {
        let tmp = tempfile::tempdir().unwrap();
        let user = UserInfo { name: "test".into(), home: tmp.path().into(), shell: "/bin/sh".into() };
        let mut config = Config::new(tmp.path().join("home"), "/bin/false", KeeperProgram::Binary("/bin/false".into()), user);
        config.run_candidates = vec![tmp.path().into()];
        config.detach = false;
        config.cgroup = false;
        config.idle_exit = Duration::ZERO;
        config.sinks = vec![For { name: "h".into(), kinds: Vec::new(), sessions: vec!["agent:*".into()] }];
        let engine = Engine::start(config).await.unwrap();
        let client = Client::over(engine.connect()).await.unwrap();
        Self { engine, client, tmp }
    }

    async fn post(&self, session: &str, note: &str) {
        let owner = Owner { session: Some(session.into()), ..Owner::default() };
        let event = json!({"type": "custom", "note": note}).as_object().unwrap().clone();
        self.client.with_owner(owner).post(None, event, Route::default()).await.unwrap();
    }

    async fn sink(&self, line: &str, change: impl FnOnce(&mut SinkConfig, &mut Hook)) -> JoinHandle<()> {
        let env = vec![("PATH".into(), "/usr/bin:/bin".into())];
        let mut hook = Hook::new(HookCommand::Shell(line.into()), env, self.tmp.path().into());
        let mut sink = SinkConfig::hook("h", hook.clone()).unwrap();
        change(&mut sink, &mut hook);
        sink.way = outlast_sinks::Way::Hook(hook);
        let desk = Client::over(self.engine.connect_within()).await.unwrap();
        tokio::spawn(outlast_sinks::run(vec![sink], Arc::new(desk)))
    }

    /// Waits for lines in a named pipe, which each run of a hook writes to.
    async fn hear(&self, name: &str, count: usize) -> Vec<String> {
        let path = self.tmp.path().join(name);
        let read = move || {
            let mut lines = Vec::new();
            while lines.len() < count {
                lines.extend(std::fs::read_to_string(&path).unwrap().lines().map(str::to_owned));
            }
            lines
        };
        tokio::task::spawn_blocking(read).await.unwrap()
    }

    fn pipe(&self, name: &str) {
        let path = self.tmp.path().join(name);
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_posted_runs_the_hook_and_the_end_of_the_engine_is_the_end_of_the_sinks() {
    let world = World::new().await;
    world.pipe("in");
    world.post("person", "not for this sink").await;
    world.post("agent:1", "before the sink runs").await;
    let sinks = world.sink("cat > in", |_, _| {}).await;
    let first: Value = serde_json::from_str(&world.hear("in", 1).await[0]).unwrap();
    world.post("agent:2", "while it runs").await;
    let second: Value = serde_json::from_str(&world.hear("in", 1).await[0]).unwrap();
    assert_eq!((&first["event"]["note"], &second["event"]["note"]), (&"before the sink runs".into(), &"while it runs".into()));
    assert_eq!((&first["attempt"], &first["repeat"]), (&1.into(), &false.into()));
    assert!(first["text"].as_str().unwrap().contains("before the sink runs"), "{first}");
    world.engine.stop().await;
    tokio::time::timeout(Duration::from_secs(30), sinks).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_delivered_becomes_a_dead_letter() {
    let world = World::new().await;
    world.pipe("told");
    let at_once = Policy { growth: Growth::Steps(vec![Duration::from_millis(1)]), jitter: 0.0, give_up: Duration::from_millis(2) };
    world.post("agent:1", "x").await;
    let _sinks = world.sink("echo attempt > told; echo broken >&2; exit 4", |sink, _| sink.retry = at_once).await;
    world.hear("told", 3).await;
    let end = std::time::Instant::now() + Duration::from_secs(30);
    let letters = loop {
        // Nothing tells of a dead letter; the engine has to be asked.
        match world.client.dead_letters(None).await.unwrap() {
            letters if !letters.is_empty() => break letters,
            _ => assert!(std::time::Instant::now() < end, "no dead letter"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert_eq!((letters.len(), letters[0].attempts, letters[0].sink.as_str()), (1, 3, "h"));
    assert_eq!(letters[0].reason, "gave up after 3 attempts, the last of which failed: exit code 4: broken");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_handed_back_was_not_tried() {
    let world = World::new().await;
    world.post("agent:1", "x").await;
    let lease = Duration::from_secs(600);
    let take = || async { world.client.deliveries("h", 8, lease).await.unwrap().remove(0) };
    let first = take().await;
    assert!(world.client.pushed("h", &first, Push::Later { after_ms: 0 }).await.unwrap());
    assert!(!world.client.pushed("h", &first, Push::Delivered).await.unwrap(), "it is no longer ours");
    let second = take().await;
    assert_eq!((second.attempts, second.event.repeat), (0, false));
    assert!(world.client.pushed("h", &second, Push::Again { after_ms: 0, reason: "no".into() }).await.unwrap());
    let third = take().await;
    assert!(world.client.pushed("h", &third, Push::Later { after_ms: 0 }).await.unwrap());
    let fourth = take().await;
    assert_eq!((third.attempts, fourth.attempts, fourth.first_at), (1, 1, third.first_at));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_notices_of_one_conversation_are_each_told_once_in_order() {
    let world = World::new().await;
    world.pipe("in");
    for n in 0..400 {
        world.post("agent:1", &n.to_string()).await;
    }
    let change = |_: &mut SinkConfig, hook: &mut Hook| {
        hook.gather = Gather::together(Duration::from_millis(20), Some(Budget { count: 50, per: Duration::from_secs(1) }));
    };
    let _sinks = world.sink("cat > in", change).await;
    let mut told: Vec<u64> = Vec::new();
    while told.len() < 400 {
        for line in world.hear("in", 1).await {
            let call: Value = serde_json::from_str(&line).unwrap();
            for one in call["events"].as_array().unwrap() {
                assert_eq!((&one["attempt"], &one["repeat"]), (&1.into(), &false.into()));
                told.push(one["event"]["note"].as_str().unwrap().parse().unwrap());
            }
        }
    }
    assert_eq!(told, (0..400).collect::<Vec<_>>());
}
