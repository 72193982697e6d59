//! One round: a command, a few kills, and the checks.

use super::faults::{self, Fault, Victim, alive};
use super::report::Report;
use crate::puppet::Part;
use crate::rng::Rng;
use anyhow::{Context, Result, bail, ensure};
use outlast_core::ProcessId;
use outlast_store::dir::ProcessDir;
use outlast_store::meta::{Snapshot, flag};
use outlast_store::segments::{Keep, LogReader};
use outlast_testkit::leftovers;
use outlast_testkit::product::{Answer, Product};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Longer than any round takes. It only turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(40);

struct RoundPlan {
    id: ProcessId,
    part: Part,
    pty: bool,
    input: Vec<String>,
    faults: Vec<Fault>,
    /// Both keepers at once, after this many microseconds. The result may only be that the end is lost.
    both: Option<u64>,
}

impl RoundPlan {
    fn draw(seed: u64, round: u64) -> Self {
        let mut rng = Rng::new(seed, round);
        let both = rng.one_in(20).then(|| rng.below(60_000));
        let reads = both.is_none() && rng.one_in(2);
        let kills = match both {
            Some(_) => 0,
            None if rng.one_in(3) => 2 + rng.below(11),
            None => 1,
        };
        let lines = match rng.below(4) {
            0 => rng.below(4),
            1 => rng.below(100),
            _ => rng.below(4_000),
        };
        // Long enough for a dozen kills.
        let lines = if kills > 1 { 4_000 + rng.below(40_000) } else { lines };
        let part = Part { lines, reads, code: rng.below(120) as i32, seed: rng.next() };
        let input =
            if reads { (0..rng.below(8)).map(|n| format!("{n} {}", "y".repeat(rng.below(400) as usize))).collect() } else { Vec::new() };
        let faults = (0..kills).map(|_| Fault::draw(&mut rng)).collect();
        let bytes = rng.next().to_le_bytes();
        let id = ProcessId::from_bytes([bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5]]);
        Self { id, part, pty: rng.one_in(2), input, faults, both }
    }
}

/// Runs one round and records its results.
pub(crate) fn play(product: &Product, seed: u64, round: u64, report: &Report, fills: bool) {
    let plan = RoundPlan::draw(seed, round);
    report.add("rounds", 1);
    let stage = RoundStage {
        product,
        report,
        dir: product.home().process(plan.id),
        mark: product.work().join(format!("mark-{}", plan.id)),
        id: plan.id.to_string(),
        cli: AtomicU32::new(0),
        over: AtomicBool::new(false),
        fills,
    };
    let result = std::thread::scope(|scope| {
        let saboteur = scope.spawn(|| stage.sabotage(&plan));
        let result = if plan.both.is_some() { stage.honest(&plan) } else { stage.drive(&plan) };
        stage.over.store(true, SeqCst);
        if saboteur.join().is_err() {
            bail!("the saboteur failed");
        }
        result.and_then(|()| stage.tidy())
    });
    if let Err(e) = result {
        let meta = Snapshot::read(&stage.dir)
            .map_or_else(|e| e.to_string(), |m| format!("flags {:#x} deaths {:?} cmd {}", m.flags, m.deaths, m.cmd));
        report.bad(format!(
            "round {round} ({}{}, {} lines, faults {:?}): {e:#} [{meta}] {}",
            if plan.pty { "pty" } else { "pipe" },
            if plan.part.reads { ", input" } else { "" },
            plan.part.lines,
            plan.faults,
            stage.id,
        ));
    }
}

struct RoundStage<'a> {
    product: &'a Product,
    report: &'a Report,
    dir: ProcessDir,
    mark: PathBuf,
    id: String,
    /// The call of the command line that runs now.
    cli: AtomicU32,
    over: AtomicBool,
    /// Whether the disk is full now and then: a call that it refused is repeated, and output may be missing.
    fills: bool,
}

impl RoundStage<'_> {
    /// Calls the program until a call was not killed.
    fn call(&self, args: &[String]) -> Result<Answer> {
        let began = Instant::now();
        loop {
            let child = self.product.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
            self.cli.store(child.id(), SeqCst);
            let output = child.wait_with_output();
            self.cli.store(0, SeqCst);
            let output = output?;
            if let Some(code) = output.status.code() {
                let answer = Answer { code: Some(code), out: output.stdout, err: String::from_utf8_lossy(&output.stderr).into_owned() };
                if !self.fills || !is_refused_by_disk(&answer) || began.elapsed() > PATIENCE {
                    return Ok(answer);
                }
                self.report.add("calls refused by the disk", 1);
                // No descriptor reports that a disk has space again; PATIENCE is the bound.
                std::thread::sleep(Duration::from_millis(20));
            }
            ensure!(began.elapsed() < PATIENCE, "{args:?} was killed for too long");
        }
    }

    fn json(&self, args: &[&str]) -> Result<Value> {
        let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
        let answer = self.call(&args)?;
        serde_json::from_str(&answer.text()).with_context(|| format!("{args:?} answered {:?} {:?}", answer.text(), answer.err))
    }

    /// Starts the command. A repeated request with the same id starts it once.
    fn start(&self, plan: &RoundPlan) -> Result<Value> {
        let exe = std::env::current_exe()?;
        let mut args: Vec<String> = ["run", "--json", "--id", &self.id].map(str::to_owned).to_vec();
        if plan.pty {
            args.push("--pty".into());
        } else if plan.part.reads {
            args.push("--stdin".into());
        }
        args.push("--".into());
        args.push(exe.display().to_string());
        args.extend(plan.part.args(&self.mark));
        let answer = self.call(&args)?;
        let started: Value =
            serde_json::from_str(&answer.text()).with_context(|| format!("run answered {:?} {:?}", answer.text(), answer.err))?;
        ensure!(started["session_id"] == self.id.as_str(), "run answered {started}");
        self.report.add("requests accepted", 1);
        Ok(started)
    }

    /// Runs the command to its end and checks everything that was promised.
    fn drive(&self, plan: &RoundPlan) -> Result<()> {
        self.start(plan)?;
        if plan.part.reads && !self.was_not_started()? {
            self.feed(plan)?;
        }
        let ended = self.json(&["wait", "--json", &self.id, "--timeout", "40"])?;
        ensure!(ended["status"] == "exited", "wait answered {ended}");
        if self.was_not_started()? {
            return Ok(());
        }
        ensure!(ended["exit_code"] == plan.part.code, "exit code {} instead of {}", ended["exit_code"], plan.part.code);
        ensure!(ended["completion_reason"] == "exited", "reason {}", ended["completion_reason"]);
        self.report.add("exit codes right", 1);
        let want = plan.part.output(&plan.input, plan.pty);
        let raw = self.call(&["log".into(), self.id.clone(), "--raw".into()])?;
        ensure!(raw.code == Some(0), "log answered {}", raw.err);
        let kept = self.without_gaps(&want)?;
        if raw.out != kept {
            bail!("output differs: {}", difference(&raw.out, &kept));
        }
        self.report.add("output lines right", kept.iter().filter(|b| **b == b'\n').count() as u64);
        self.report.add("output bytes that the disk refused, told as gaps", (want.len() - kept.len()) as u64);
        self.report.add("input lines right", plan.input.len() as u64);
        let marks = std::fs::read_to_string(&self.mark).unwrap_or_default();
        ensure!(marks == "started\n", "marks: {marks:?}");
        let meta = Snapshot::read(&self.dir)?;
        self.report.add("takeovers", u64::from(meta.deaths.0 + meta.deaths.1));
        ensure!(meta.ended.as_ref().is_some_and(|e| e.log_end == want.len() as u64), "recorded length {:?}", meta.ended);
        Ok(())
    }

    /// Writes the input line by line, each at its offset: a retry writes nothing twice.
    fn feed(&self, plan: &RoundPlan) -> Result<()> {
        let began = Instant::now();
        let want = plan.part.output(&[], plan.pty);
        let ready = want.windows(5).position(|w| w == b"ready").context("a puppet that reads says that it is ready")? as u64 + 5;
        while Snapshot::read(&self.dir).map_or(0, |meta| meta.commit.base) < ready {
            if self.was_not_started()? {
                return Ok(());
            }
            ensure!(began.elapsed() < PATIENCE, "the command never asked for input");
            std::thread::sleep(Duration::from_millis(2));
        }
        let mut offset = 0;
        for line in &plan.input {
            let text = format!("{line}\n");
            let written = self.json(&["write", "--json", &self.id, &text, "--offset", &offset.to_string()])?;
            offset += text.len();
            ensure!(written["status"] == "ok" && written["next_offset"] == offset, "write answered {written}");
        }
        // The client does not repeat it, since on a terminal it is a character. If the engine is killed meanwhile, the call fails.
        let closed = loop {
            let closed = self.json(&["close", "--json", &self.id])?;
            if (closed["code"] != "unavailable" && closed["code"] != "stopping") || began.elapsed() > PATIENCE {
                break closed;
            }
        };
        // A repeated call may find that the first succeeded.
        ensure!(
            closed["status"] == "ok" || closed["status"] == "already_exited" || closed["code"] == "no_input",
            "close answered {closed}"
        );
        Ok(())
    }

    /// Checks a command whose keepers were killed at once: an unknown result must not be invented.
    fn honest(&self, plan: &RoundPlan) -> Result<()> {
        self.start(plan)?;
        let began = Instant::now();
        while !self.over.load(SeqCst) && outlast_store::lock::is_held(&self.dir.meta())? {
            ensure!(began.elapsed() < PATIENCE, "the keepers neither end nor die");
            std::thread::sleep(Duration::from_millis(1));
        }
        let polled = loop {
            let polled = self.json(&["poll", "--json", &self.id])?;
            match polled["phase"].as_str() {
                Some("running" | "stopping" | "starting" | "draining" | "unreachable") if began.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(2))
                }
                _ => break polled,
            }
        };
        let phase = polled["phase"].as_str().unwrap_or("none").to_owned();
        self.report.add(format!("both at once: {phase}"), 1);
        let want = plan.part.output(&plan.input, plan.pty);
        let (log, end) = self.log();
        let kept = self.without_gaps(want.get(..end as usize).context("more output than there was")?)?;
        ensure!(log == kept, "output was invented: {}", difference(&log, &kept));
        let marks = std::fs::read_to_string(&self.mark).unwrap_or_default();
        ensure!(marks.matches("started").count() <= 1, "started twice: {marks:?}");
        match phase.as_str() {
            "failed_start" if self.fills => ensure!(marks.is_empty(), "a command that ran is said to have failed to start"),
            "exited" => ensure!(polled["exit_code"] == plan.part.code, "exit code {}", polled["exit_code"]),
            "lost" | "orphaned" => ensure!(polled["exit_code"].is_null(), "an exit code was invented: {polled}"),
            _ => bail!("poll answered {polled}"),
        }
        if phase == "orphaned" {
            let killed = self.json(&["kill", "--json", &self.id, "--grace", "0"])?;
            ensure!(["killed", "already_exited"].iter().any(|s| killed["status"] == *s), "kill answered {killed}");
        }
        Ok(())
    }

    /// Whether a full disk refused the start, the answer says so, and the command has not run.
    fn was_not_started(&self) -> Result<bool> {
        if !self.fills || self.json(&["poll", "--json", &self.id])?["phase"] != "failed_start" {
            return Ok(false);
        }
        ensure!(!self.mark.exists(), "a command that ran is said to have failed to start");
        self.report.add("looks at starts that a full disk refused, and said so", 1);
        Ok(true)
    }

    /// The contents of the log, read from the folder, and its length including gaps.
    fn log(&self) -> (Vec<u8>, u64) {
        let Ok(meta) = Snapshot::read(&self.dir) else { return (Vec::new(), 0) };
        let mut all = Vec::new();
        // A missing log is empty.
        let _none_yet = LogReader::open(&self.dir, Keep::default()).copy_to(0, meta.commit.base, &meta.gaps, &mut all);
        (all, meta.commit.base)
    }

    /// These bytes without the ones in recorded gaps. Only a full disk may cause gaps.
    fn without_gaps(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let gaps = Snapshot::read(&self.dir)?.gaps;
        ensure!(self.fills || gaps.is_empty(), "gaps: {gaps:?}");
        let is_missing = |at: usize| gaps.iter().any(|g| (g.from..g.to).contains(&(at as u64)));
        Ok(bytes.iter().enumerate().filter(|(at, _)| !is_missing(*at)).map(|(_, b)| *b).collect())
    }

    /// Checks that no process of it is left, and removes it.
    fn tidy(&self) -> Result<()> {
        let began = Instant::now();
        loop {
            let left: Vec<_> = leftovers::of_process(&self.id).into_iter().filter(|(pid, _)| alive(*pid)).collect();
            if left.is_empty() {
                break;
            }
            ensure!(began.elapsed() < PATIENCE, "left running: {left:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
        let removed = loop {
            let removed = self.json(&["rm", "--json", &self.id])?;
            if removed["code"] != "still_running" || began.elapsed() > PATIENCE {
                break removed;
            }
        };
        ensure!(removed["status"] == "removed", "rm answered {removed}");
        ensure!(!self.dir.path.exists(), "{} is still there", self.dir.path.display());
        // Not made where the command never ran.
        let _none = std::fs::remove_file(&self.mark);
        Ok(())
    }

    /// Kills as planned, one at a time, each after the pair is whole again.
    fn sabotage(&self, plan: &RoundPlan) {
        if let Some(after) = plan.both {
            self.kill_both(after);
            return;
        }
        let mut dead = Vec::new();
        for (n, fault) in plan.faults.iter().enumerate() {
            if n > 0 && faults::whole(&self.dir, &dead).is_none() {
                break;
            }
            if self.over.load(SeqCst) {
                break;
            }
            match fault {
                Fault::After(victim, micros) => self.kill_after(*victim, *micros, &mut dead),
                Fault::At(point) => {
                    if self.product.points().arm(point).is_ok() {
                        self.kill_at(point, &mut dead);
                    }
                }
                Fault::AfterTakeover(victim) => self.kill_after_takeover(*victim, &mut dead),
            }
        }
        self.report.add(format!("rounds with {:>2} kills", dead.len()), 1);
    }

    /// Kills one keeper, then the other at the instant at which it has made a new one: from the fork on the pair is whole.
    fn kill_after_takeover(&self, victim: Victim, dead: &mut Vec<u32>) {
        let Some(meta) = faults::whole(&self.dir, dead) else { return };
        let (pid, point) = match victim {
            Victim::Holder => (meta.holder, "pump.fork.after"),
            Victim::Pump | Victim::Engine | Victim::Nest | Victim::Cli => (meta.pump, "holder.fork.after"),
        };
        if self.product.points().arm(point).is_err() {
            return;
        }
        if faults::kill(pid) {
            dead.push(pid);
            self.report.add(format!("killed for a takeover: {victim:?}").to_lowercase(), 1);
        }
        self.kill_at(point, dead);
    }

    fn kill_after(&self, victim: Victim, micros: u64, dead: &mut Vec<u32>) {
        std::thread::sleep(Duration::from_micros(micros));
        let meta = Snapshot::read(&self.dir).ok();
        let both_live = meta.as_ref().is_some_and(|m| alive(m.pump) && (m.holder == 0 || alive(m.holder)));
        let pid = match victim {
            Victim::Engine => faults::engine(self.product),
            Victim::Nest => faults::nest(self.product),
            Victim::Cli => Some(self.cli.load(SeqCst)).filter(|p| *p != 0),
            Victim::Holder => meta.filter(|m| both_live && !m.has(flag::DONE)).map(|m| m.holder),
            Victim::Pump => meta.filter(|m| both_live && !m.has(flag::DONE)).map(|m| m.pump),
        };
        if let Some(pid) = pid.filter(|p| faults::kill(*p)) {
            dead.push(pid);
            self.report.add(format!("killed at random: {victim:?}").to_lowercase(), 1);
        }
    }

    /// Kills the process that is held at an armed point, if that is the only fault.
    fn kill_at(&self, point: &'static str, dead: &mut Vec<u32>) {
        let points = self.product.points();
        let began = Instant::now();
        let held = loop {
            if let Some(pid) = points.held(point) {
                break Some(pid);
            }
            if self.over.load(SeqCst) || began.elapsed() > Duration::from_millis(1_500) {
                points.disarm(point);
                // It may have been taken just before.
                break points.held(point);
            }
            std::thread::sleep(Duration::from_micros(200));
        };
        let Some(pid) = held else { return };
        // While the other keeper is dead a kill here would be the second of two.
        let single = match Snapshot::read(&self.dir) {
            Ok(m) if pid == m.pump => m.holder == 0 || alive(m.holder),
            Ok(m) if pid == m.holder => alive(m.pump),
            Ok(_) | Err(_) => true,
        };
        if single && faults::kill(pid) {
            dead.push(pid);
            self.report.add(format!("killed at {point}"), 1);
        }
        // A spared process continues. For a killed one this only removes the file.
        if let Err(e) = points.release(point) {
            self.report.bad(format!("cannot release {point}: {e}"));
        }
    }

    fn kill_both(&self, after: u64) {
        let began = Instant::now();
        let meta = loop {
            match Snapshot::read(&self.dir) {
                Ok(m) if m.pump != 0 && m.holder != 0 => break m,
                _ if self.over.load(SeqCst) || began.elapsed() > PATIENCE => return,
                _ => std::thread::sleep(Duration::from_micros(200)),
            }
        };
        std::thread::sleep(Duration::from_micros(after));
        let handles: Vec<_> = [meta.pump, meta.holder]
            .iter()
            .filter_map(|p| rustix::process::Pid::from_raw(*p as i32))
            .filter_map(|p| rustix::process::pidfd_open(p, rustix::process::PidfdFlags::empty()).ok())
            .collect();
        // Stopped first: else the one that is killed second has made a new one by then.
        for signal in [rustix::process::Signal::STOP, rustix::process::Signal::KILL] {
            for handle in &handles {
                // Gone already: then the round is an ordinary one.
                let _gone = rustix::process::pidfd_send_signal(handle, signal);
            }
        }
        self.report.add("killed at once: both keepers", 1);
    }
}

/// Whether a call failed because the disk was full.
fn is_refused_by_disk(answer: &Answer) -> bool {
    let said = answer.text() + &answer.err;
    let words = ["No space left", "disk is full", "disk I/O error", "cannot start an engine"];
    // The description of an ending may contain the same text.
    answer.code != Some(0) && !said.contains("\"status\":\"exited\"") && words.iter().any(|w| said.contains(w))
}

fn difference(got: &[u8], want: &[u8]) -> String {
    let at = got.iter().zip(want).take_while(|(a, b)| a == b).count();
    let near = |b: &[u8]| String::from_utf8_lossy(&b[at.saturating_sub(20).min(b.len())..(at + 40).min(b.len())]).into_owned();
    format!("{} bytes instead of {}; from byte {at}: {:?} instead of {:?}", got.len(), want.len(), near(got), near(want))
}
