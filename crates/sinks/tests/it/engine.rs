//! Sinks beside a real engine.

use outlast_client::{Body, Client, DeadLetter, Owner, Push, Route};
use outlast_engine::{Config, Engine, KeeperProgram, Push as For, UserInfo};
use outlast_sinks::{Budget, Gather, Growth, Hook, HookCommand, Policy, SinkConfig, Within};
use outlast_wire::frame::{Frame, Splitter};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

struct World {
    engine: Engine,
    client: Client,
    tmp: TempDir,
}

impl World {
    /// An engine with one sink, `h`, for the sessions of agents.
    async fn new() -> Self {
        let tmp = tempfile::tempdir().unwrap();
        let user = UserInfo::new("test", tmp.path(), "/bin/sh");
        let mut config = Config::new(tmp.path().join("home"), "/bin/false", KeeperProgram::Binary("/bin/false".into()), user);
        config.run_candidates = vec![tmp.path().into()];
        config.detach = false;
        config.cgroup = false;
        config.idle_exit = Duration::ZERO;
        config.sinks = vec![For { sessions: vec!["agent:*".into()], ..For::observer("h") }];
        let engine = Engine::start(config).await.unwrap();
        let client = Client::over(engine.connect()).await.unwrap();
        Self { engine, client, tmp }
    }

    async fn post(&self, session: &str, note: &str) {
        let owner = Owner { session: Some(session.into()), ..Owner::default() };
        let event = json!({"type": "custom", "note": note}).as_object().unwrap().clone();
        self.client.with_owner(owner).post(None, event, Route::default()).await.unwrap();
    }

    fn sink(&self, line: &str, change: impl FnOnce(&mut SinkConfig, &mut Hook)) -> JoinHandle<()> {
        self.sink_over(line, change, |answer| answer)
    }

    /// The same, but `pass` changes the engine's answers. An empty answer becomes a frame that is not valid.
    fn sink_over(&self, line: &str, change: impl FnOnce(&mut SinkConfig, &mut Hook), pass: impl Pass) -> JoinHandle<()> {
        let env = vec![("PATH".into(), "/usr/bin:/bin".into())];
        let mut hook = Hook::new(HookCommand::Shell(line.into()), env, self.tmp.path().into());
        let mut sink = SinkConfig::hook("h", hook.clone()).unwrap();
        change(&mut sink, &mut hook);
        sink.way = outlast_sinks::Way::Hook(hook);
        let (to, of) = (self.engine.clone(), self.engine.clone());
        let queue = Within::new(move || between(to.connect_within(), pass.clone()), move || of.has_stopped());
        tokio::spawn(outlast_sinks::run(vec![sink], Arc::new(queue)))
    }

    /// Waits for lines in a named pipe, which each run of a hook writes to.
    async fn hear(&self, name: &str, count: usize) -> Vec<String> {
        let path = self.tmp.path().join(name);
        let (say, said) = tokio::sync::oneshot::channel();
        // A thread of its own: one that hears nothing must not keep the test from failing.
        std::thread::spawn(move || {
            let mut lines = Vec::new();
            while lines.len() < count {
                lines.extend(std::fs::read_to_string(&path).unwrap().lines().map(str::to_owned));
            }
            let _gone = say.send(lines);
        });
        tokio::time::timeout(Duration::from_secs(60), said).await.expect("the hook is run").unwrap()
    }

    /// Waits for a dead letter.
    async fn letters(&self) -> Vec<DeadLetter> {
        let end = std::time::Instant::now() + Duration::from_secs(30);
        loop {
            // Nothing tells of a dead letter; the engine has to be asked.
            match self.client.dead_letters(None).await.unwrap() {
                letters if !letters.is_empty() => return letters,
                _ => assert!(std::time::Instant::now() < end, "no dead letter"),
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn pipe(&self, name: &str) {
        let path = self.tmp.path().join(name);
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
    }
}

trait Pass: Fn(String) -> String + Clone + Send + Sync + 'static {}

impl<T: Fn(String) -> String + Clone + Send + Sync + 'static> Pass for T {}

/// A way to the engine on which each answer is passed on as `pass` says.
fn between(engine: DuplexStream, pass: impl Pass) -> DuplexStream {
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let (mut answers, mut to_engine) = tokio::io::split(engine);
    let (mut requests, mut to_sinks) = tokio::io::split(ours);
    tokio::spawn(async move {
        let _gone = tokio::io::copy(&mut requests, &mut to_engine).await;
        let _gone = to_engine.shutdown().await;
    });
    tokio::spawn(async move {
        let mut frames = Splitter::default();
        let mut buffer = vec![0; 64 << 10];
        while let Ok(n @ 1..) = answers.read(&mut buffer).await {
            frames.push(&buffer[..n]);
            while let Some(Frame::Json(text)) = frames.next_frame().unwrap() {
                let text = pass(String::from_utf8(text).unwrap());
                let mut frame = (text.len() as u32 + 1).to_le_bytes().to_vec();
                frame.push(if text.is_empty() { 9 } else { 0 });
                frame.extend(text.into_bytes());
                let _gone = to_sinks.write_all(&frame).await;
            }
        }
        let _gone = to_sinks.shutdown().await;
    });
    theirs
}

fn note(line: &str) -> String {
    let told: Value = serde_json::from_str(line).unwrap();
    assert_eq!(told["attempt"], 1, "{line}");
    told["event"]["note"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_notice_that_cannot_be_read_is_a_dead_letter_and_the_others_go_out() {
    let world = World::new().await;
    world.pipe("in");
    for note in ["first", "odd", "last"] {
        world.post("agent:1", note).await;
    }
    // Nested too deeply for any reader.
    let deep = |answer: String| answer.replace("\"odd\"", &format!("{}{}", "[".repeat(500), "]".repeat(500)));
    let sinks = world.sink_over("cat > in", |_, _| {}, deep);
    for wanted in ["first", "last"] {
        assert_eq!(note(&world.hear("in", 1).await[0]), wanted);
    }
    let letters = world.letters().await;
    assert_eq!((letters.len(), letters[0].sink.as_str()), (1, "h"));
    assert!(matches!(&letters[0].event.body, Body::Posted(fields) if fields["note"] == "odd"), "{letters:?}");
    assert!(letters[0].reason.starts_with("it cannot be read: "), "{letters:?}");
    world.post("agent:2", "later").await;
    assert_eq!(note(&world.hear("in", 1).await[0]), "later");
    world.engine.stop().await;
    tokio::time::timeout(Duration::from_secs(30), sinks).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_breaks_is_made_anew_and_what_broke_it_is_put_off_alone() {
    let world = World::new().await;
    for note in ["first", "odd", "last"] {
        world.post("agent:1", note).await;
    }
    let broke = Arc::new(Notify::new());
    let breaks = Arc::clone(&broke);
    let pass = move |answer: String| {
        if !answer.contains("\"odd\"") {
            return answer;
        }
        breaks.notify_one();
        String::new()
    };
    // A lease lasts for little more than two runs.
    let soon = |_: &mut SinkConfig, hook: &mut Hook| (hook.time_limit, hook.grace) = (Duration::from_secs(1), Duration::ZERO);
    let sinks = world.sink_over("cat >> told", soon, pass);
    broke.notified().await;
    world.post("agent:2", "other").await;
    let path = world.tmp.path().join("told");
    let told = || {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        lines.map(|line| serde_json::from_str::<Value>(line).unwrap()["event"]["note"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let end = std::time::Instant::now() + Duration::from_secs(60);
    while !["other", "first", "last"].iter().all(|note| told().iter().any(|t| t == note)) {
        assert!(std::time::Instant::now() < end && !sinks.is_finished(), "{:?}", told());
        // The hook only writes into the file.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // It did not wait for the leases of what came with the one that cannot be read.
    assert_eq!(told()[0], "other");
    world.engine.stop().await;
    tokio::time::timeout(Duration::from_secs(30), sinks).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_posted_runs_the_hook_and_the_end_of_the_engine_is_the_end_of_the_sinks() {
    let world = World::new().await;
    world.pipe("in");
    world.post("person", "not for this sink").await;
    world.post("agent:1", "before the sink runs").await;
    let sinks = world.sink("cat > in", |_, _| {});
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
    let _sinks = world.sink("echo attempt > told; echo broken >&2; exit 4", |sink, _| sink.retry = at_once);
    world.hear("told", 3).await;
    let letters = world.letters().await;
    assert_eq!((letters.len(), letters[0].attempts, letters[0].sink.as_str()), (1, 3, "h"));
    assert_eq!(letters[0].reason, "gave up after 3 attempts, the last of which failed: exit code 4: broken");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_handed_back_was_not_tried() {
    let world = World::new().await;
    world.post("agent:1", "x").await;
    let lease = Duration::from_secs(600);
    let take = || async { world.client.deliveries("h", 8, lease).await.unwrap().deliveries.remove(0) };
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
    let _sinks = world.sink("cat > in", change);
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
