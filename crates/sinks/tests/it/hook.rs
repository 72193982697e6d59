//! Hook commands.

use crate::queue::{Memory, Running, start};
use outlast_sinks::{Growth, Hook, HookCommand, Policy, Settle, SinkConfig};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A time limit that passes when the test says so: however busy the machine is, a hook has begun its work by then.
const LIMIT: Duration = Duration::from_secs(60);

/// A time limit for hooks of which it does not matter how far they come.
const SHORT_LIMIT: Duration = Duration::from_millis(300);

pub(crate) struct Scene {
    pub(crate) queue: Arc<Memory>,
    pub(crate) dir: TempDir,
    sinks: Vec<SinkConfig>,
}

impl Scene {
    /// A scene with one hook, a shell line that runs in a directory of its own.
    pub(crate) fn new(line: &str) -> Self {
        Self::with(HookCommand::Shell(line.into()), |_, _| {})
    }

    pub(crate) fn with(command: HookCommand, change: impl FnOnce(&mut SinkConfig, &mut Hook)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut hook = Hook::new(command, vec![("PATH".into(), "/usr/bin:/bin".into())], dir.path().into());
        hook.time_limit = Duration::from_secs(30);
        hook.grace = Duration::from_secs(10);
        let mut sink = SinkConfig::hook("h", hook.clone()).unwrap();
        change(&mut sink, &mut hook);
        sink.way = outlast_sinks::Way::Hook(hook);
        Self { queue: Memory::new(), dir, sinks: vec![sink] }
    }

    /// Lets [`LIMIT`] pass once the hook has written into the named pipe `begun`.
    async fn limit_passes(&self) {
        self.hear("begun").await;
        tokio::time::pause();
        tokio::time::advance(LIMIT).await;
        tokio::time::resume();
    }

    pub(crate) fn start(&self) -> Running {
        start(&self.queue, self.sinks.clone())
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.file(name)).unwrap()
    }

    /// Makes a named pipe with which a hook can be held, or can say where it is.
    pub(crate) fn pipe(&self, name: &str) {
        rustix::fs::mknodat(rustix::fs::CWD, self.file(name), rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
    }

    /// Reads a named pipe until all writers closed it.
    pub(crate) async fn hear(&self, name: &str) -> String {
        let path = self.file(name);
        tokio::task::spawn_blocking(move || std::fs::read_to_string(path).unwrap()).await.unwrap()
    }

    /// Releases the reader of a named pipe.
    pub(crate) async fn say(&self, name: &str) {
        let path = self.file(name);
        tokio::task::spawn_blocking(move || std::fs::write(path, "\n").unwrap()).await.unwrap();
    }
}

pub(crate) fn pid(text: &str) -> Pid {
    Pid::from_raw(text.trim().parse().unwrap()).unwrap()
}

/// Whether a process is gone. A zombie of init's counts as gone: a container's init may be slow to reap.
fn is_gone(pid: Pid) -> bool {
    test_kill_process(pid).is_err() || {
        let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_none_or(|rest| rest.starts_with('Z'))
    }
}

/// Waits for a process that was signalled to be gone. No descriptor is held on it, so it has to be asked for.
pub(crate) async fn gone(pid: Pid) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is_gone(pid) {
        assert!(Instant::now() < end, "{pid} lives on");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) fn reason(settle: &Settle) -> &str {
    match settle {
        Settle::Retry { reason, .. } | Settle::Dead { reason } => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_hook_gets_the_event_in_one_line_and_says_by_its_exit_that_it_has_it() {
    let scene = Scene::new("cat > in; env > env; pwd > pwd; ps -o pgid= -p $$ > group; echo $$ > pid");
    let seq = scene.queue.post("h", "agent:1", "it is \"done\"\nreally");
    let _running = scene.start();
    assert_eq!(scene.queue.end_of(seq).await, Settle::Delivered);
    let input = scene.read("in");
    assert!(input.ends_with('\n') && input.lines().count() == 1, "{input}");
    let told: Value = serde_json::from_str(&input).unwrap();
    assert_eq!(told["event"]["event_id"], "evt_1");
    assert_eq!(told["event"]["type"], "custom");
    assert_eq!(told["text"], "it is \"done\"\nreally");
    assert_eq!((&told["attempt"], &told["repeat"]), (&1.into(), &false.into()));
    let env = scene.read("env");
    for line in [
        "OUTLAST_EVENT_ID=evt_1",
        "OUTLAST_EVENT_KIND=custom",
        "OUTLAST_EVENT_COUNT=1",
        "OUTLAST_SESSION=agent:1",
        "OUTLAST_PROCESS=proc_070707070707",
        "OUTLAST_NAME=",
        "OUTLAST_EXIT_CODE=",
        "OUTLAST_TEXT=it is \"done\"",
    ] {
        assert!(env.lines().any(|l| l == line), "{line} is not in {env}");
    }
    assert!(!env.contains("CARGO"), "nothing of ours is inherited: {env}");
    assert_eq!(scene.read("group").trim(), scene.read("pid").trim(), "a group of its own");
    assert_eq!(Path::new(scene.read("pwd").trim()).canonicalize().unwrap(), scene.dir.path().canonicalize().unwrap());
}

#[tokio::test]
async fn a_hook_that_fails_is_run_again_and_told_that_it_is_a_repeat() {
    let scene = Scene::new("cat >> in; n=$(wc -l < in); echo failure number $n >&2; [ $n -ge 3 ]");
    let seq = scene.queue.post("h", "s", "x");
    let _running = scene.start();
    assert_eq!(scene.queue.end_of(seq).await, Settle::Delivered);
    let settled = scene.queue.settled();
    assert_eq!(settled.len(), 3);
    assert_eq!(reason(&settled[0].1), "exit code 1: failure number 1");
    assert_eq!(reason(&settled[1].1), "exit code 1: failure number 2");
    let waits: Vec<u128> =
        settled[..2].iter().map(|(_, s)| if let Settle::Retry { after, .. } = s { after.as_millis() } else { 0 }).collect();
    assert!((800..=1_000).contains(&waits[0]) && (1_600..=2_000).contains(&waits[1]), "{waits:?}");
    let told: Vec<Value> = scene.read("in").lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let marks: Vec<(u64, bool)> = told.iter().map(|t| (t["attempt"].as_u64().unwrap(), t["repeat"].as_bool().unwrap())).collect();
    assert_eq!(marks, [(1, false), (2, true), (3, true)]);
}

#[tokio::test]
async fn what_keeps_failing_is_dead_in_the_end() {
    let scene = Scene::with(HookCommand::Shell("kill -KILL $$".into()), |sink, _| {
        let step = Duration::from_secs(1);
        sink.retry = Policy { growth: Growth::Steps(vec![step]), jitter: 0.0, give_up: step * 2 };
    });
    let seq = scene.queue.post("h", "s", "x");
    let _running = scene.start();
    let end = scene.queue.end_of(seq).await;
    assert_eq!(reason(&end), "gave up after 3 attempts, the last of which failed: ended by signal 9");
    assert_eq!(scene.queue.settled().len(), 3);
}

#[tokio::test]
async fn a_hook_that_is_not_there_is_tried_again() {
    let scene = Scene::with(HookCommand::Argv(vec!["/nonexistent/hook".into()]), |_, _| {});
    scene.queue.post("h", "s", "x");
    let _running = scene.start();
    let settled = scene.queue.settlements(1).await;
    assert!(reason(&settled[0].1).starts_with("cannot run the hook: "), "{settled:?}");
}

#[tokio::test]
async fn an_argv_is_not_a_shell_line() {
    let words = ["sh", "-c", "printf %s \"$1\" > out", "sh", "a; $b 'c'"];
    let scene = Scene::with(HookCommand::Argv(words.map(Into::into).to_vec()), |_, _| {});
    let seq = scene.queue.post("h", "s", "x");
    let _running = scene.start();
    assert_eq!(scene.queue.end_of(seq).await, Settle::Delivered);
    assert_eq!(scene.read("out"), "a; $b 'c'");
}

#[tokio::test]
async fn a_hook_that_hangs_is_stopped_with_its_group() {
    let line = "echo started; sleep 1000 & echo $! > child; echo > begun; sleep 1000";
    let scene = Scene::with(HookCommand::Shell(line.into()), |_, hook| hook.time_limit = LIMIT);
    scene.pipe("begun");
    scene.queue.post("h", "s", "x");
    let running = scene.start();
    scene.limit_passes().await;
    let settled = scene.queue.settlements(1).await;
    drop(running);
    assert_eq!(reason(&settled[0].1), "did not end within 60s, and was stopped: started");
    gone(pid(&scene.read("child"))).await;
}

#[tokio::test]
async fn a_hook_that_ignores_term_is_killed_with_its_group() {
    let line = "trap '' TERM; echo $$ > pid; (while :; do sleep 1000; done) & echo $! > child; echo > begun; while :; do sleep 1000; done";
    let scene = Scene::with(HookCommand::Shell(line.into()), |_, hook| {
        hook.time_limit = LIMIT;
        hook.grace = Duration::from_millis(100);
    });
    scene.pipe("begun");
    scene.queue.post("h", "s", "x");
    let running = scene.start();
    scene.limit_passes().await;
    let settled = scene.queue.settlements(1).await;
    drop(running);
    assert!(reason(&settled[0].1).starts_with("did not end within"), "{settled:?}");
    gone(pid(&scene.read("pid"))).await;
    gone(pid(&scene.read("child"))).await;
}

#[tokio::test]
async fn a_hook_that_obeys_term_may_clean_up() {
    let line = "trap 'echo cleaned > cleaned; exit 0' TERM; sleep 1000 & echo > begun; wait";
    let scene = Scene::with(HookCommand::Shell(line.into()), |_, hook| hook.time_limit = LIMIT);
    scene.pipe("begun");
    scene.queue.post("h", "s", "x");
    let running = scene.start();
    scene.limit_passes().await;
    let settled = scene.queue.settlements(1).await;
    drop(running);
    assert!(reason(&settled[0].1).starts_with("did not end within"), "an exit code after the limit counts for nothing: {settled:?}");
    assert_eq!(scene.read("cleaned"), "cleaned\n");
}

#[tokio::test]
async fn of_a_flood_the_end_is_kept() {
    let scene = Scene::new("head -c 30000000 /dev/zero | tr '\\0' x; echo; echo the end; exit 3");
    scene.queue.post("h", "s", "x");
    let _running = scene.start();
    let settled = scene.queue.settlements(1).await;
    let reason = reason(&settled[0].1);
    assert!(reason.starts_with("exit code 3: ") && reason.ends_with("x the end") && reason.len() < 1_000, "{reason}");
}

#[tokio::test]
async fn an_endless_flood_does_not_outlast_its_time_limit() {
    let scene = Scene::with(HookCommand::Shell("yes".into()), |_, hook| hook.time_limit = SHORT_LIMIT);
    scene.queue.post("h", "s", "x");
    let running = scene.start();
    let settled = scene.queue.settlements(1).await;
    drop(running);
    assert!(reason(&settled[0].1).starts_with("did not end within"), "{settled:?}");
}

#[tokio::test]
async fn a_large_event_need_not_be_read() {
    let large = "x".repeat(1 << 20);
    let scene = Scene::new("exit 0");
    let seq = scene.queue.post("h", "s", &large);
    let _running = scene.start();
    assert_eq!(scene.queue.end_of(seq).await, Settle::Delivered);
}

#[tokio::test]
async fn a_large_event_can_be_read_while_much_is_written() {
    let large = "x".repeat(1 << 20);
    let scene = Scene::new("head -c 1000000 /dev/zero; wc -c > count");
    let seq = scene.queue.post("h", "s", &large);
    let _running = scene.start();
    assert_eq!(scene.queue.end_of(seq).await, Settle::Delivered);
    assert!(scene.read("count").trim().parse::<usize>().unwrap() > 2 << 20, "the note and the text");
}

#[tokio::test]
async fn a_hook_that_never_reads_a_large_event_hangs_alone() {
    let large = "x".repeat(1 << 20);
    let scene = Scene::with(HookCommand::Shell("sleep 1000".into()), |_, hook| hook.time_limit = SHORT_LIMIT);
    scene.queue.post("h", "s", &large);
    let running = scene.start();
    let settled = scene.queue.settlements(1).await;
    drop(running);
    assert!(reason(&settled[0].1).starts_with("did not end within"));
}

#[tokio::test]
async fn a_child_that_a_hook_leaves_behind_is_neither_waited_for_nor_touched() {
    let scene = Scene::new("setsid sleep 1000 & echo $! > child; sleep 1000 & echo $! > other; exit 0");
    let seq = scene.queue.post("h", "s", "x");
    let began = Instant::now();
    let running = scene.start();
    assert_eq!(scene.queue.end_of(seq).await, Settle::Delivered);
    assert!(began.elapsed() < Duration::from_secs(25), "the output is still open");
    scene.queue.stop();
    running.ended().await;
    for name in ["child", "other"] {
        let left = pid(&scene.read(name));
        assert!(!is_gone(left), "{name}");
        kill_process(left, Signal::KILL).unwrap();
        gone(left).await;
    }
}

#[tokio::test]
async fn secrets_in_what_a_hook_says_are_masked() {
    let scene = Scene::new("echo 'Authorization: Bearer abcdefghijklmnopqrstuvwxyz012345' >&2; exit 1");
    scene.queue.post("h", "s", "x");
    let _running = scene.start();
    let settled = scene.queue.settlements(1).await;
    assert!(!reason(&settled[0].1).contains("ghijklmnop"), "{settled:?}");
}

#[tokio::test]
async fn a_hook_that_wakes_asks_what_it_may_tell_and_tells_that_as_it_is_now() {
    let scene = Scene::with(HookCommand::Shell("cat >> told".into()), |_, hook| {
        hook.wakes = true;
        hook.gather = outlast_sinks::Gather::together(Duration::from_millis(300), None);
    });
    let _running = scene.start();
    // The engine cannot answer: the delivery is handed back without a call.
    let first = scene.queue.post("h", "agent:1", "unknown");
    assert!(matches!(&scene.queue.settlements(1).await[..], [(seq, Settle::Later { .. })] if *seq == first));
    scene.queue.has("by other ways");
    scene.queue.post("h", "agent:1", "by other ways");
    let told = scene.queue.post("h", "agent:1", "new");
    assert_eq!(scene.queue.end_of(told).await, Settle::Delivered);
    let said: Value = serde_json::from_str(&scene.read("told")).unwrap();
    let events = said["events"].as_array().unwrap();
    assert_eq!((events.len(), &events[0]["text"], &events[0]["repeat"]), (1, &"new".into(), &true.into()), "{said}");
    // If the agent has every notice, the hook is not run and nothing is reported.
    scene.queue.has("this, too");
    scene.queue.post("h", "agent:1", "this, too");
    while scene.queue.asked() < 3 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let last = scene.queue.post("h", "agent:1", "last");
    scene.queue.end_of(last).await;
    assert_eq!(scene.read("told").lines().count(), 2);
    assert_eq!(scene.queue.settled().len(), 3);
}
