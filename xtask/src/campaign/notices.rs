//! `cargo xtask campaign notices`: processes end, and the processes that deliver their notices are killed on the way.
//!
//! Each round starts one process for one of several sessions, kills one link of the chain at one step of "end, record, outbox, lease,
//! deliver, acknowledge", and drains the session as an agent at a terminal does. The deliveries to hook and webhook receiver are checked after
//! all rounds: they must have caught up without a client.

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

/// Longer than any round takes. It only turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(60);
/// How many sessions a home has.
const SESSIONS: u64 = 3;
/// The secret of the webhook, used only here.
const SECRET: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

/// Every step at which a process can be held, from the end of a command to the last acknowledgement.
const POINTS: [&str; 16] = [
    "holder.waited",
    "holder.published",
    "pump.recorded",
    "pump.marked",
    "pump.told",
    "pump.done",
    "news.before_commit",
    "news.after_commit",
    "notice.claimed",
    "notice.leased",
    "notice.before_settle",
    "notice.settled",
    "delivery.leased",
    "delivery.before_settle",
    "delivery.settled",
    "answer.sent",
];

/// Which process is killed, and when.
#[derive(Debug, Clone, Copy)]
enum NoticeFault {
    /// The first process that reaches this point.
    At(&'static str),
    /// The hook or the receiver, before or after it has recorded its notice.
    Sink(&'static str, &'static str),
    /// The engine, while the command runs. No client calls until hook and receiver have the notice.
    Engine,
    /// The call that drains, at some moment.
    Drain(u64),
    NoProcess,
}

/// How the end is reported to the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Drain,
    Wait,
    /// The start itself waits. Beside it a taker waits that must not get the notice.
    Run,
}

struct NoticePlan {
    id: ProcessId,
    session: String,
    code: u64,
    by: By,
    fault: NoticeFault,
}

impl NoticePlan {
    fn draw(seed: u64, round: u64) -> Self {
        let mut rng = Rng::new(seed, round);
        let fault = match rng.below(20) {
            0..12 => NoticeFault::At(rng.pick::<&str>(&POINTS)),
            12..14 => NoticeFault::Sink("hook", rng.pick::<&str>(&["before", "after"])),
            14..16 => NoticeFault::Sink("receiver", rng.pick::<&str>(&["before", "after"])),
            16 => NoticeFault::Engine,
            17..19 => NoticeFault::Drain(rng.below(30_000)),
            _ => NoticeFault::NoProcess,
        };
        let waits = matches!(fault, NoticeFault::At("answer.sent"))
            || (rng.one_in(3) && !matches!(fault, NoticeFault::Engine | NoticeFault::Drain(_)));
        let by = if waits { *rng.pick(&[By::Wait, By::Run]) } else { By::Drain };
        let bytes = rng.next().to_le_bytes();
        Self {
            id: ProcessId::from_bytes([bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5]]),
            session: format!("chat:{}", rng.below(SESSIONS)),
            code: rng.below(100),
            by,
            fault,
        }
    }
}

pub(crate) fn run(flags: &Flags<'_>) -> Result<()> {
    let (game, report) = (Game::of(flags)?, Report::default());
    std::thread::scope(|scope| {
        for _ in 0..game.homes {
            scope.spawn(|| {
                let played = NoticeStage::new(&game.program).and_then(|mut stage| {
                    while let Some(round) = game.round(&report) {
                        stage.play(&NoticePlan::draw(game.seed, round), round, &report);
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
struct NoticeStage {
    product: Product,
    dir: PathBuf,
    receiver: Receiver,
    /// The processes that were started, and their sessions.
    started: BTreeMap<String, String>,
    /// The drained notices: the session, the process, and whether the notice was marked as a repeat.
    drained: Vec<(String, String, bool)>,
    /// The processes whose end a wait has shown.
    waited: Vec<String>,
}

impl NoticeStage {
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

    fn play(&mut self, plan: &NoticePlan, round: u64, report: &Report) {
        report.add("rounds", 1);
        let id = plan.id.to_string();
        self.started.insert(id.clone(), plan.session.clone());
        let over = AtomicBool::new(false);
        let (product, dir) = (&self.product, &self.dir);
        let talk = Talk {
            product,
            dir,
            receiver: &self.receiver,
            plan,
            id: id.clone(),
            began: Instant::now(),
            told: Mutex::default(),
            waited: AtomicBool::new(false),
        };
        let result = std::thread::scope(|scope| {
            let saboteur = scope.spawn(|| sabotage(product, dir, plan, &over, report));
            let result = talk.hold();
            over.store(true, SeqCst);
            let spoiled = saboteur.join().unwrap_or_else(|_| bail!("the saboteur failed"));
            result.and(spoiled)
        });
        let waited = talk.waited.into_inner();
        self.drained.extend(talk.told.into_inner().unwrap_or_else(|e| e.into_inner()));
        if waited {
            self.waited.push(id.clone());
        }
        match result {
            Ok(()) => {
                let how = if waited { plan.by } else { By::Drain };
                report.add(format!("learned by a {}", format!("{how:?}").to_lowercase()), 1);
            }
            Err(e) => report.bad(format!("round {round} ({:?} by {:?}, {id} of {}): {e:#}", plan.fault, plan.by, plan.session)),
        }
    }

    /// Checks every delivery in this home.
    fn books(mut self, report: &Report) -> Result<()> {
        // If the engine was killed last and no process runs, the next call starts one. After that no client helps.
        self.product.engine();
        let hook = self.caught_up(sink::HOOK_LOG, |told| {
            let event = &told["event"];
            (text(event, "session_id"), text(event, "session_key"), told["repeat"] == true || told["attempt"].as_u64() > Some(1))
        });
        // A receiver recognizes a notice by its id, so a second delivery of the same id is not a repeat for it.
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

    /// The deliveries of a sink, once it has all of them. No client helps it.
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

/// One round, as its session sees it.
struct Talk<'a> {
    product: &'a Product,
    dir: &'a Path,
    receiver: &'a Receiver,
    plan: &'a NoticePlan,
    id: String,
    began: Instant,
    /// Its notices: the session, the process, and whether the notice was marked as a repeat.
    told: Mutex<Vec<(String, String, bool)>>,
    /// Whether a wait has shown the end.
    waited: AtomicBool,
}

impl Talk<'_> {
    /// Starts the process and waits for the report of its end.
    fn hold(&self) -> Result<()> {
        if self.plan.by == By::Run && self.run_beside_a_taker()? {
            return Ok(());
        }
        self.start()?;
        if matches!(self.plan.fault, NoticeFault::Engine) {
            self.lose_the_engine()?;
        }
        match self.plan.by {
            By::Wait => self.wait(),
            // If a start that waits gets no answer, the end goes to the next drain.
            By::Drain | By::Run => self.drain(),
        }
    }

    fn start_line(&self, more: &[&str]) -> Vec<String> {
        // If the engine is to be killed while the process runs, the process runs until that has happened.
        let pause = match self.plan.fault {
            NoticeFault::Engine => format!("until [ -e {} ]; do sleep 0.01; done; ", self.gate().display()),
            _ => String::new(),
        };
        let line = format!("{pause}exit {}", self.plan.code);
        let words = ["run", "--json", "--notify", "--session", &self.plan.session, "--id", &self.id];
        words.iter().chain(more).chain(&["--", &line]).map(|word| (*word).to_owned()).collect()
    }

    fn start(&self) -> Result<()> {
        while self.product.call(self.start_line(&[])).code != Some(0) {
            ensure!(self.began.elapsed() < PATIENCE, "it cannot be started");
        }
        Ok(())
    }

    /// Whether the start was answered with the end.
    fn run_beside_a_taker(&self) -> Result<bool> {
        let taker = Taker::default();
        std::thread::scope(|scope| {
            let parked = scope.spawn(|| taker.park(self));
            while !taker.is_there.load(SeqCst) && !parked.is_finished() {
                std::thread::sleep(Duration::from_millis(1));
            }
            let answer = self.product.command(self.start_line(&["--wait"])).output();
            taker.send_away();
            parked.join().unwrap_or_else(|_| bail!("the taker failed"))?;
            self.is_answer(&answer?)
        })
    }

    fn is_answer(&self, answer: &std::process::Output) -> Result<bool> {
        let told: Value = serde_json::from_slice(&answer.stdout).unwrap_or_default();
        let over = told["status"] == "exited";
        if over {
            ensure!(told["exit_code"] == self.plan.code, "the wait says {}", told["exit_code"]);
            self.waited.store(true, SeqCst);
        }
        Ok(over)
    }

    /// The file that a process waits for, if its engine is killed while it runs.
    fn gate(&self) -> PathBuf {
        self.dir.join(format!("{}.go", self.id))
    }

    fn lose_the_engine(&self) -> Result<()> {
        let engine = faults::engine(self.product).context("no engine")?;
        kill_and_wait(engine)?;
        std::fs::write(self.gate(), "")?;
        // No client calls: the keeper has to start an engine.
        for log in [sink::HOOK_LOG, sink::RECEIVER_LOG] {
            while !lines(&self.dir.join(log)).iter().any(|told| told["event"]["session_id"] == *self.id) {
                ensure!(self.began.elapsed() < PATIENCE, "{log} has no call for it although no client called");
                self.receiver.check()?;
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        Ok(())
    }

    fn wait(&self) -> Result<()> {
        loop {
            let mut call = self.product.command(["wait", "--json", "--timeout", "30", &self.id]);
            let answer = call.env("OUTLAST_SESSION", &self.plan.session).output()?;
            if self.is_answer(&answer)? {
                return Ok(());
            }
            ensure!(self.began.elapsed() < PATIENCE, "the wait says {answer:?}");
        }
    }

    fn drain(&self) -> Result<()> {
        loop {
            let mut call = self.product.command(["events", "drain", "--json", "--lease", "1", "--session", &self.plan.session]);
            let child = call.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
            if let NoticeFault::Drain(after) = self.plan.fault {
                std::fs::write(self.dir.join("drain.pid"), format!("{} {after}", child.id()))?;
            }
            let output = child.wait_with_output()?;
            self.hear(&output.stdout, "events")?;
            if self.told().iter().any(|(_, process, _)| *process == self.id) {
                return Ok(());
            }
            ensure!(self.began.elapsed() < PATIENCE, "its end was never told: {}", String::from_utf8_lossy(&output.stderr));
        }
    }

    /// Records the notices of an answer.
    fn hear(&self, answer: &[u8], list: &str) -> Result<()> {
        let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
        for told in answer[list].as_array().into_iter().flatten() {
            let event = &told["event"];
            ensure!(event["session_key"] == *self.plan.session, "{} was told to {}", event["session_key"], self.plan.session);
            let process = text(event, "session_id");
            ensure!(process != self.id || event["exit_code"] == self.plan.code, "the notice says {}", event["exit_code"]);
            self.told().push((self.plan.session.clone(), process, event["repeat"] == true));
        }
        Ok(())
    }

    fn told(&self) -> std::sync::MutexGuard<'_, Vec<(String, String, bool)>> {
        self.told.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// A taker of the session that waits for one notice after the other.
#[derive(Default)]
struct Taker {
    call: Mutex<Option<u32>>,
    is_there: AtomicBool,
    leave: AtomicBool,
}

impl Taker {
    fn park(&self, talk: &Talk<'_>) -> Result<()> {
        while !self.leave.load(SeqCst) {
            let mut call =
                talk.product.command(["events", "next", "--json", "--wait", "30", "--lease", "1", "--session", &talk.plan.session]);
            let child = call.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
            *self.call() = Some(child.id());
            // In some rounds it waits already when the command ends, in others it comes at that moment.
            std::thread::sleep(Duration::from_millis(10));
            self.is_there.store(true, SeqCst);
            if self.leave.load(SeqCst) {
                self.send_away();
            }
            let said = wait_with_output(child, || *self.call() = None)?;
            talk.hear(&said, "notices")?;
        }
        Ok(())
    }

    /// Ends the taker. Its answers so far count as delivered.
    fn send_away(&self) {
        self.leave.store(true, SeqCst);
        if let Some(pid) = *self.call() {
            // It may have ended already.
            let _gone = faults::kill(pid);
        }
    }

    fn call(&self) -> std::sync::MutexGuard<'_, Option<u32>> {
        self.call.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// The output of a call. `reaped` is called before its pid can be reused.
fn wait_with_output(mut child: Child, reaped: impl FnOnce()) -> Result<Vec<u8>> {
    use std::io::Read as _;
    let mut said = Vec::new();
    child.stdout.take().context("a pipe")?.read_to_end(&mut said)?;
    reaped();
    child.wait()?;
    Ok(said)
}

/// Kills the process that the plan names, at the time that it names.
fn sabotage(product: &Product, dir: &Path, plan: &NoticePlan, over: &AtomicBool, report: &Report) -> Result<()> {
    match plan.fault {
        NoticeFault::At(point) => {
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
            // It was taken since the last look. The process that took it keeps running.
            product.points().release(point)
        }
        NoticeFault::Sink(who, step) => {
            report.add(format!("the {who} killed {step} it wrote"), 1);
            sink::arm(dir, who, step)
        }
        NoticeFault::Engine => {
            report.add("the engine killed while it ran, and no client called", 1);
            Ok(())
        }
        NoticeFault::Drain(_) => {
            let file = dir.join("drain.pid");
            while !over.load(SeqCst) {
                let told = std::fs::read_to_string(&file).unwrap_or_default();
                if let Some((pid, after)) = told.split_once(' ') {
                    std::thread::sleep(Duration::from_micros(after.parse()?));
                    std::fs::remove_file(&file)?;
                    // It may have ended already. Then no process was killed.
                    if faults::kill(pid.parse()?) {
                        report.add("drains killed", 1);
                    }
                    return Ok(());
                }
                std::thread::sleep(Duration::from_micros(500));
            }
            // It may have been written after the last look.
            let _absent = std::fs::remove_file(file);
            Ok(())
        }
        NoticeFault::NoProcess => Ok(()),
    }
}

/// The receiver of webhooks, which is restarted whenever it dies.
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

    /// Whether it is still restarted.
    fn check(&self) -> Result<()> {
        ensure!(!self.keeper.as_ref().is_some_and(std::thread::JoinHandle::is_finished), "the receiver cannot be started again");
        Ok(())
    }

    fn stop(&mut self) {
        self.stopping.store(true, SeqCst);
        if let Some(keeper) = self.keeper.take() {
            // A failure there showed as a delivery that never came.
            let _joined = keeper.join();
        }
        if let Some(mut child) = self.child.lock().unwrap_or_else(|e| e.into_inner()).take() {
            // It may have exited already.
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
