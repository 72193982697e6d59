//! `cargo xtask campaign notices`: processes end, and everybody who is to be told is killed on the way.
//!
//! Each round starts one process for one of several conversations, kills one of the chain at one step of "end, record, outbox, lease, deliver, acknowledge",
//! and drains the conversation as an agent at a terminal does. What hook and webhook receiver were told is looked at when all rounds are over: they must have
//! caught up by themselves.

use super::report::Report;
use super::{Game, faults};
use crate::Flags;
use crate::rng::Rng;
use crate::sink;
use anyhow::{Context, Result, bail, ensure};
use outlast_core::ProcessId;
use outlast_testkit::product::{Product, kill_and_wait};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Longer than any round takes: it only turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(60);
/// How many conversations a home has.
const SESSIONS: u64 = 3;
/// The secret of the webhook, which is nobody's.
const SECRET: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

/// Every step at which somebody can be held, from the end of a command to the last acknowledgement.
const POINTS: [&str; 15] = [
    "holder.waited",
    "holder.published",
    "pump.recorded",
    "pump.marked",
    "pump.told",
    "pump.done",
    "news.before_commit",
    "news.after_commit",
    "notice.leased",
    "notice.before_settle",
    "notice.settled",
    "delivery.leased",
    "delivery.before_settle",
    "delivery.settled",
    "answer.sent",
];

/// Who dies, and when.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// Whoever reaches this point first.
    At(&'static str),
    /// The hook or the receiver, before or after it has written down what it was told.
    Sink(&'static str, &'static str),
    /// The engine, while the command runs; nobody calls until hook and receiver were told.
    Engine,
    /// The call that drains, at some moment.
    Drain(u64),
    Nobody,
}

/// How the conversation learns of the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Drain,
    Wait,
}

struct Plan {
    id: ProcessId,
    session: String,
    code: u64,
    by: By,
    fault: Fault,
}

impl Plan {
    fn draw(seed: u64, round: u64) -> Self {
        let mut rng = Rng::new(seed, round);
        let fault = match rng.below(20) {
            0..12 => Fault::At(rng.pick::<&str>(&POINTS)),
            12..14 => Fault::Sink("hook", rng.pick::<&str>(&["before", "after"])),
            14..16 => Fault::Sink("receiver", rng.pick::<&str>(&["before", "after"])),
            16 => Fault::Engine,
            17..19 => Fault::Drain(rng.below(30_000)),
            _ => Fault::Nobody,
        };
        let waits = matches!(fault, Fault::At("answer.sent")) || (rng.one_in(6) && !matches!(fault, Fault::Engine | Fault::Drain(_)));
        let bytes = rng.next().to_le_bytes();
        Self {
            id: ProcessId::from_bytes([bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5]]),
            session: format!("chat:{}", rng.below(SESSIONS)),
            code: rng.below(100),
            by: if waits { By::Wait } else { By::Drain },
            fault,
        }
    }
}

pub(crate) fn run(flags: &Flags<'_>) -> Result<()> {
    let (game, report) = (Game::of(flags)?, Report::default());
    std::thread::scope(|scope| {
        for _ in 0..game.homes {
            scope.spawn(|| {
                let played = Stage::new(&game.program).and_then(|mut stage| {
                    while let Some(round) = game.round(&report) {
                        stage.play(&Plan::draw(game.seed, round), round, &report);
                    }
                    stage.books(&report)
                });
                if let Err(e) = played {
                    report.bad(format!("a home: {e:#}"));
                }
            });
        }
    });
    game.finish("notices", &report, "0 not told, 0 told to another conversation, 0 told twice without saying so, 0 left over")
}

/// One home, its hook, and its receiver.
struct Stage {
    product: Product,
    dir: PathBuf,
    receiver: Receiver,
    /// The processes that were started, and for which conversation.
    started: BTreeMap<String, String>,
    /// What was drained: the conversation, the process, and whether it said that it may be a repeat.
    drained: Vec<(String, String, bool)>,
    /// Those whose end a wait has shown.
    waited: Vec<String>,
}

impl Stage {
    fn new(program: &Path) -> Result<Self> {
        let product = Product::new(program);
        let dir = product.work();
        let receiver = Receiver::start(&dir)?;
        let exe = std::env::current_exe()?;
        let secret = dir.join("secret");
        std::fs::write(&secret, SECRET)?;
        product.configure(&format!(
            "[[hook]]\nname = \"hook\"\ncommand = [{exe:?}, \"__hook\", {dir:?}]\nretry_seconds = [0.2]\n\
             [[webhook]]\nname = \"web\"\nurl = \"http://127.0.0.1:{}/told\"\nsecret_file = {secret:?}\nretry_seconds = [0.2]\n",
            receiver.port
        ));
        Ok(Self { product, dir, receiver, started: BTreeMap::new(), drained: Vec::new(), waited: Vec::new() })
    }

    fn play(&mut self, plan: &Plan, round: u64, report: &Report) {
        report.add("rounds", 1);
        let id = plan.id.to_string();
        self.started.insert(id.clone(), plan.session.clone());
        let over = AtomicBool::new(false);
        let (product, dir) = (&self.product, &self.dir);
        let (drained, waited, receiver) = (Mutex::new(Vec::new()), AtomicBool::new(false), &self.receiver);
        let result = std::thread::scope(|scope| {
            let saboteur = scope.spawn(|| sabotage(product, dir, plan, &over, report));
            let result = drive(product, dir, receiver, plan, &drained, &waited);
            over.store(true, SeqCst);
            let spoiled = saboteur.join().unwrap_or_else(|_| bail!("the saboteur failed"));
            result.and(spoiled)
        });
        self.drained.extend(drained.into_inner().unwrap_or_default());
        if waited.load(SeqCst) {
            self.waited.push(id.clone());
        }
        match result {
            Ok(()) => report.add(if plan.by == By::Wait { "learned by a wait" } else { "learned by a drain" }, 1),
            Err(e) => report.bad(format!("round {round} ({:?} by {:?}, {id} of {}): {e:#}", plan.fault, plan.by, plan.session)),
        }
    }

    /// Looks at everything that anybody was told in this home.
    fn books(mut self, report: &Report) -> Result<()> {
        // If the last one killed was the engine, and nothing runs any more, whoever calls next starts one; from there on nobody helps.
        self.product.engine();
        let hook = self.caught_up(sink::HOOK_LOG, |told| {
            let event = &told["event"];
            (text(event, "session_id"), text(event, "session_key"), told["repeat"] == true || told["attempt"].as_u64() > Some(1))
        });
        // A receiver knows what it has seen by its id: more of the same is no repeat to it.
        let web = self.caught_up(sink::RECEIVER_LOG, |told| {
            let event = &told["event"];
            (text(event, "session_id"), text(event, "session_key"), told["id"] == event["event_id"])
        });
        for (name, told) in [("hook", hook?), ("webhook", web?)] {
            let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
            for (process, session, marked) in &told {
                let times = seen.entry(process).or_default();
                *times += 1;
                if self.started.get(process) != Some(session) {
                    report.bad(format!("the {name} was told of {process} for {session}"));
                }
                if *times > 1 {
                    report.add(format!("repeats to the {name}, marked"), 1);
                }
                if *times > 1 && !marked {
                    report.bad(format!("the {name} was told of {process} {times} times, and not that it may be a repeat"));
                }
            }
            report.add(format!("told to the {name}"), seen.len() as u64);
        }
        let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
        for (session, process, repeat) in &self.drained {
            let times = seen.entry(process).or_default();
            *times += 1;
            if self.started.get(process) != Some(session) {
                report.bad(format!("{session} drained the end of {process}"));
            }
            if self.waited.contains(process) && !repeat {
                report.bad(format!("{process} was waited for and told all the same"));
            }
            if *times > 1 {
                report.add("repeats to a drain, marked", 1);
            }
            if *times > 1 && !repeat {
                report.bad(format!("{session} drained the end of {process} {times} times, and not that it may be a repeat"));
            }
        }
        for process in self.started.keys() {
            if !seen.contains_key(process.as_str()) && !self.waited.contains(process) {
                report.bad(format!("{process} was never told to its conversation"));
            }
        }
        report.add("told to their conversation", seen.len() as u64);
        self.receiver.stop();
        self.product.shut_down().context("left over at the end")
    }

    /// What a sink was told, once it has everything; nobody helps it.
    fn caught_up(&self, log: &str, of: impl Fn(&Value) -> (String, String, bool)) -> Result<Vec<(String, String, bool)>> {
        let began = Instant::now();
        loop {
            let told: Vec<_> = lines(&self.dir.join(log)).iter().map(&of).collect();
            let missing = self.started.keys().filter(|id| !told.iter().any(|(process, ..)| process == *id)).count();
            if missing == 0 {
                return Ok(told);
            }
            ensure!(began.elapsed() < PATIENCE, "{missing} of {} never came to {log}", self.started.len());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn text(event: &Value, field: &str) -> String {
    event[field].as_str().unwrap_or_default().to_owned()
}

/// The whole lines of a file, as JSON.
fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().filter_map(|l| serde_json::from_str(l).ok()).collect()
}

/// Starts the process and has its conversation learn of the end.
fn drive(
    product: &Product,
    dir: &Path,
    receiver: &Receiver,
    plan: &Plan,
    drained: &Mutex<Vec<(String, String, bool)>>,
    waited: &AtomicBool,
) -> Result<()> {
    let (id, began) = (plan.id.to_string(), Instant::now());
    // Long enough for the engine to be killed while it runs, where that is wanted.
    let pause = if matches!(plan.fault, Fault::Engine) { "sleep 0.3; " } else { "" };
    let line = format!("{pause}exit {}", plan.code);
    let start = ["run", "--json", "--notify", "--session", &plan.session, "--id", &id, "--", &line];
    while product.call(start).code != Some(0) {
        ensure!(began.elapsed() < PATIENCE, "it cannot be started");
    }
    if matches!(plan.fault, Fault::Engine) {
        let engine = faults::engine(product).context("no engine")?;
        kill_and_wait(engine)?;
        // Nobody calls: whoever keeps the process has to find somebody to tell.
        for log in [sink::HOOK_LOG, sink::RECEIVER_LOG] {
            while !lines(&dir.join(log)).iter().any(|told| told["event"]["session_id"] == *id) {
                ensure!(began.elapsed() < PATIENCE, "{log} never heard of it, though nobody called");
                receiver.check()?;
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
    if plan.by == By::Wait {
        loop {
            let answer = product.command(["wait", "--json", "--timeout", "30", &id]).env("OUTLAST_SESSION", &plan.session).output()?;
            let told: Value = serde_json::from_slice(&answer.stdout).unwrap_or_default();
            if told["status"] == "exited" {
                ensure!(told["exit_code"] == plan.code, "the wait says {}", told["exit_code"]);
                waited.store(true, SeqCst);
                return Ok(());
            }
            ensure!(began.elapsed() < PATIENCE, "the wait says {told} {}", String::from_utf8_lossy(&answer.stderr));
        }
    }
    loop {
        let mut call = product.command(["events", "drain", "--json", "--lease", "1", "--session", &plan.session]);
        let child = call.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        if let Fault::Drain(after) = plan.fault {
            std::fs::write(dir.join("drain.pid"), format!("{} {after}", child.id()))?;
        }
        let output = child.wait_with_output()?;
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let mut found = false;
        for told in answer["events"].as_array().into_iter().flatten() {
            let event = &told["event"];
            ensure!(event["session_key"] == *plan.session, "{} was told to {}", event["session_key"], plan.session);
            let process = text(event, "session_id");
            if process == id {
                ensure!(event["exit_code"] == plan.code, "the notice says {}", event["exit_code"]);
                found = true;
            }
            drained.lock().unwrap_or_else(|e| e.into_inner()).push((plan.session.clone(), process, event["repeat"] == true));
        }
        if found || drained.lock().unwrap_or_else(|e| e.into_inner()).iter().any(|(_, process, _)| *process == id) {
            return Ok(());
        }
        ensure!(began.elapsed() < PATIENCE, "its end was never told: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Kills whom the plan says, when it says.
fn sabotage(product: &Product, dir: &Path, plan: &Plan, over: &AtomicBool, report: &Report) -> Result<()> {
    match plan.fault {
        Fault::At(point) => {
            product.points().arm(point)?;
            while !over.load(SeqCst) {
                if let Some(pid) = product.points().held(point) {
                    kill_and_wait(pid)?;
                    product.points().release(point)?;
                    report.add(format!("killed at {point}"), 1);
                    return Ok(());
                }
                std::thread::sleep(Duration::from_micros(500));
            }
            product.points().disarm(point);
            // Taken between the last look and now: whoever it is goes on.
            product.points().release(point)
        }
        Fault::Sink(who, step) => {
            report.add(format!("the {who} killed {step} it wrote"), 1);
            sink::arm(dir, who, step)
        }
        Fault::Engine => {
            report.add("the engine killed while it ran, and nobody called", 1);
            Ok(())
        }
        Fault::Drain(_) => {
            let file = dir.join("drain.pid");
            while !over.load(SeqCst) {
                let told = std::fs::read_to_string(&file).unwrap_or_default();
                if let Some((pid, after)) = told.split_once(' ') {
                    std::thread::sleep(Duration::from_micros(after.parse()?));
                    std::fs::remove_file(&file)?;
                    // It may be over already: then nobody was killed.
                    if faults::kill(pid.parse()?) {
                        report.add("drains killed", 1);
                    }
                    return Ok(());
                }
                std::thread::sleep(Duration::from_micros(500));
            }
            // Written after the last look, perhaps.
            let _absent = std::fs::remove_file(file);
            Ok(())
        }
        Fault::Nobody => Ok(()),
    }
}

/// The receiver of webhooks, started anew whenever it dies.
struct Receiver {
    port: u16,
    stopping: Arc<AtomicBool>,
    child: Arc<Mutex<Option<Child>>>,
    keeper: Option<std::thread::JoinHandle<Result<()>>>,
}

impl Receiver {
    fn start(dir: &Path) -> Result<Self> {
        let (first, port) = spawn(dir, 0)?;
        let (stopping, child) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Some(first))));
        let (stop, held, dir) = (Arc::clone(&stopping), Arc::clone(&child), dir.to_owned());
        let keeper = std::thread::spawn(move || {
            while !stop.load(SeqCst) {
                let pid = held.lock().unwrap_or_else(|e| e.into_inner()).as_ref().map_or(0, Child::id);
                if outlast_testkit::product::wait_for_end(pid, Duration::from_millis(50)) && !stop.load(SeqCst) {
                    let mut held = held.lock().unwrap_or_else(|e| e.into_inner());
                    if let Some(mut dead) = held.take() {
                        dead.wait()?;
                    }
                    *held = Some(spawn(&dir, port)?.0);
                }
            }
            Ok(())
        });
        Ok(Self { port, stopping, child, keeper: Some(keeper) })
    }

    /// Whether whoever starts it anew still does.
    fn check(&self) -> Result<()> {
        ensure!(!self.keeper.as_ref().is_some_and(std::thread::JoinHandle::is_finished), "the receiver cannot be started again");
        Ok(())
    }

    fn stop(&mut self) {
        self.stopping.store(true, SeqCst);
        if let Some(keeper) = self.keeper.take() {
            // What went wrong there was seen as something that never came.
            let _joined = keeper.join();
        }
        if let Some(mut child) = self.child.lock().unwrap_or_else(|e| e.into_inner()).take() {
            // It may be dead already.
            let _dead = child.kill();
            let _reaped = child.wait();
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.stop();
    }
}

fn spawn(dir: &Path, port: u16) -> Result<(Child, u16)> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["__receiver".into(), dir.as_os_str().to_owned(), port.to_string().into()])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().context("a pipe")?).read_line(&mut line)?;
    let port = line.trim().parse().with_context(|| format!("the receiver said {line:?}"))?;
    Ok((child, port))
}
