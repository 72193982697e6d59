//! One round: a home, its model, a message or a notice on its way, and a kill.

use super::super::super::faults;
use super::super::super::report::Report;
use super::super::eyes::{Eyes, cut_power, gateways, kill_together};
use super::agent::RealAgent;
use super::model::{FIRST, LAST, NOTICE, RUNS, STARTS, Thinker};
use super::plan::{RealPlan, RealVictim, TurnWay, When};
use super::record::Given;
use crate::wait;
use anyhow::{Context, Result, bail, ensure};
use outlast_client::{Shown, Standing, TurnInfo, TurnKind, TurnOutcome};
use outlast_testkit::product::Product;
use serde_json::Value;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

const KEY: &str = "agent:main:local:dm:main";
/// Longer than any step takes on a busy machine: it only turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(180);
/// How often is looked for something that no descriptor tells of.
const LOOK: Duration = Duration::from_millis(5);
/// The note to the agent about a conversation that it has forgotten.
const SUMMARY: &str = "What was said in this conversation so far";

pub(super) struct Round<'a> {
    product: Product,
    model: Thinker,
    eyes: Eyes,
    agent: &'a RealAgent,
    plan: &'a RealPlan,
    /// The client that is on its way, if one is.
    client: Mutex<Option<u32>>,
    /// Whether the kill is done, or will not be.
    has_struck: AtomicBool,
}

impl<'a> Round<'a> {
    /// Plays it. Everything that is wrong.
    pub(super) fn play(program: &Path, agent: &'a RealAgent, plan: &'a RealPlan, report: &Report) -> Result<Vec<String>> {
        let product = Product::new(program).with_env("PATH", agent.path());
        let work = product.work();
        let start = format!("until [ -e '{0}/go' ]; do sleep 0.05; done; echo '[[{NOTICE}]]'; exit 3", work.display());
        let model = Thinker::start(format!("echo ran >> '{}/ran'", work.display()), start)?;
        agent.configure(&product, &model.url())?;
        let eyes = Eyes::new(product.home().root)?;
        let round = Round { product, model, eyes, agent, plan, client: Mutex::new(None), has_struck: AtomicBool::new(false) };
        let began = Instant::now();
        let played = round.act(report);
        report.add("seconds", began.elapsed().as_secs());
        let wrong = match played {
            Ok(wrong) => wrong,
            Err(e) => vec![format!("{e:#}")],
        };
        round.close(wrong)
    }

    fn act(&self, report: &Report) -> Result<Vec<String>> {
        // The first message has the agent open a session.
        self.say(FIRST, true)?;
        self.eyes.follow(KEY);
        let victim = match self.plan.way {
            TurnWay::Message => self.message()?,
            TurnWay::Notice => self.notice()?,
        };
        report.add(format!("killed {:?}", self.plan.victim), 1);
        report.add(format!("{:?}: killed {}", self.plan.way, self.plan.when.words()), 1);
        let turn = self.finished(&victim)?;
        report.add(format!("{:?}s answered in attempt {}", self.plan.way, turn.attempt), 1);
        if let Some(reason) = &turn.interrupt_reason {
            report.add(format!("interrupted: {reason}"), 1);
        }
        // A user comes back to a conversation that has not changed.
        self.say(LAST, true)?;
        self.audit(&victim, report)
    }

    /// A message, and the kill on its way. What its words have in them.
    fn message(&self) -> Result<String> {
        self.arm(RUNS)?;
        std::thread::scope(|scope| {
            let speaking = scope.spawn(|| self.say(RUNS, false));
            let struck = self.strike();
            self.has_struck.store(true, SeqCst);
            let spoken = speaking.join().unwrap_or_else(|_| bail!("the client failed"));
            struck.and(spoken)
        })?;
        Ok(format!("[[{RUNS}]]"))
    }

    /// A notice, and the kill on its way. What its text has in it.
    fn notice(&self) -> Result<String> {
        self.say(STARTS, true)?;
        let listed = self.product.json(["list", "--session", KEY]);
        let process = listed["processes"][0]["session_id"].as_str().with_context(|| format!("the agent started nothing: {listed}"))?;
        let needle = format!("Background process {process} ");
        self.arm(NOTICE)?;
        let terminal = self.open_terminal()?;
        std::fs::write(self.product.work().join("go"), "")?;
        let struck = self.strike();
        end(terminal, &self.client);
        struck?;
        Ok(needle)
    }

    /// `outlast chat`, opened by a user who does not write.
    fn open_terminal(&self) -> Result<Child> {
        let mut terminal = self.product.command(["chat", "main"]);
        let terminal = terminal.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        *self.client() = Some(terminal.id());
        Ok(terminal)
    }

    /// Sends a message until it is answered, under one id. A client that is killed comes back.
    fn say(&self, token: &str, must_live: bool) -> Result<()> {
        loop {
            let words = format!("[[{token}]] please");
            let mut call = self.product.command(["chat", "send", "--json", "main", &words, "--id", token, "--wait", "--timeout", "170"]);
            call.args(["--agent", self.agent.name()]).stdout(Stdio::piped()).stderr(Stdio::piped());
            let child = call.spawn()?;
            *self.client() = Some(child.id());
            let output = child.wait_with_output()?;
            *self.client() = None;
            if output.status.signal() == Some(9) && !must_live {
                // Until then those who are to die together may not all be dead.
                self.until("the end of the kill", || Ok(self.has_struck.load(SeqCst).then_some(())))?;
                continue;
            }
            let said: Value = serde_json::from_slice(&output.stdout).with_context(|| format!("the client of {token}: {output:?}"))?;
            ensure!(said["outcome"] == "completed", "{token} was not answered: {said}");
            return Ok(());
        }
    }

    fn arm(&self, token: &'static str) -> Result<()> {
        match self.plan.when {
            When::Held(point) => self.product.points().arm(point),
            When::Thinking(moment) => {
                self.model.arm(moment, token);
                Ok(())
            }
        }
    }

    /// Kills the planned process at the planned time.
    fn strike(&self) -> Result<()> {
        let points = self.product.points();
        let held = match self.plan.when {
            When::Held(point) => Some(self.until(point, || Ok(points.held(point)))),
            When::Thinking(_) => {
                self.until("the model", || Ok(self.model.is_held().then_some(())))?;
                None
            }
        };
        let held = held.transpose().inspect_err(|_| {
            if let When::Held(point) = self.plan.when {
                points.disarm(point);
            }
        })?;
        self.kill()?;
        self.has_struck.store(true, SeqCst);
        if let (When::Held(point), Some(held)) = (self.plan.when, held) {
            match faults::alive(held) {
                true => points.release(point)?,
                false => std::fs::remove_file(points.dir().join(format!("{point}.held.{held}")))?,
            }
        }
        self.model.release();
        let victim = self.plan.victim;
        // If no process is left that could start one, an unrelated call is made.
        if victim.has_gateway() && victim.has_engine() {
            self.product.engine();
        }
        Ok(())
    }

    fn kill(&self) -> Result<()> {
        let victim = self.plan.victim;
        let mut pids = Vec::new();
        if victim.has_agent() {
            let own = self.agents()?;
            if victim != RealVictim::Agent {
                pids.extend(own.iter().flat_map(|pid| below(*pid)));
            }
            pids.extend(own);
        }
        if victim.has_gateway() {
            pids.extend(gateways(&self.product));
        }
        if victim.has_engine() {
            pids.extend(faults::engine(&self.product));
        }
        let client = || self.client().filter(|pid| faults::alive(*pid));
        if victim.has_client() {
            pids.extend(client());
        }
        match victim {
            RealVictim::Everything => cut_power(&self.product, client),
            _ => kill_together(&pids),
        }
    }

    /// The running programs of the conversation's agents.
    fn agents(&self) -> Result<Vec<u32>> {
        let listed = self.product.json(["list", "--session", &format!("outlast:agent:{KEY}")]);
        let pids = listed["processes"].as_array().context("a list")?.iter().filter_map(|process| process["pid"].as_u64());
        Ok(pids.map(|pid| pid as u32).collect())
    }

    /// The turn whose message has this text, once it is finished.
    fn finished(&self, needle: &str) -> Result<TurnInfo> {
        self.until(&format!("the end of the turn about {needle}"), || Ok(self.eyes.turn(KEY, needle).filter(TurnInfo::is_finished)))
    }

    fn show(&self) -> Result<Shown> {
        self.until("a gateway", || Ok(self.eyes.show(KEY, None)))
    }

    /// All problems, once everything is answered.
    fn audit(&self, needle: &str, report: &Report) -> Result<Vec<String>> {
        let mut wrong = Vec::new();
        // A notice whose acknowledgement was lost is offered again when its lease is over, and recognised. Nothing may come of that.
        let history = self.until("the end of every lease", || {
            let history = self.product.json(["events", "history"]);
            let is_open = |one: &Value| one["state"] == "pending" || one["state"] == "leased";
            Ok((!history["notices"].as_array().context("a history")?.iter().any(is_open)).then_some(history))
        })?;
        for one in history["notices"].as_array().into_iter().flatten() {
            let is_told = needle.contains(one["event"]["session_id"].as_str().unwrap_or("?"));
            // An end in an answer to an agent is consumed.
            if one["state"] != "delivered" && (is_told || one["state"] != "consumed") {
                wrong.push(format!("a notice is {}: {one}", one["state"]));
            }
        }
        let shown = self.show()?;
        let info = &shown.conversation;
        if info.standing != Standing::Active || info.strikes != 0 || info.open_turns != 0 || info.generation != 1 {
            wrong.push(format!("everything ended well, and the conversation says {info:?}"));
        }
        let mut want = vec![(TurnKind::Message, format!("[[{FIRST}]]"), FIRST)];
        match self.plan.way {
            TurnWay::Message => want.push((TurnKind::Message, needle.to_owned(), RUNS)),
            TurnWay::Notice => {
                want.push((TurnKind::Message, format!("[[{STARTS}]]"), STARTS));
                want.push((TurnKind::Notice, needle.to_owned(), NOTICE));
            }
        }
        want.push((TurnKind::Message, format!("[[{LAST}]]"), LAST));
        let turns = self.model.turns();
        for (kind, words, token) in &want {
            let rows: Vec<&TurnInfo> =
                shown.turns.iter().filter(|turn| turn.words.as_deref().is_some_and(|text| text.contains(words.as_str()))).collect();
            let [turn] = rows[..] else {
                wrong.push(format!("{words} has {} turns: {:?}", rows.len(), shown.turns));
                continue;
            };
            if turn.kind != *kind || turn.outcome != Some(TurnOutcome::Completed) {
                wrong.push(format!("{words} is {turn:?}"));
            }
            let reply = turn.reply.as_deref().unwrap_or_default();
            // Of an attempt that was interrupted, the reply may have been recorded as well.
            let times = reply.matches(&format!("answer to {token}")).count();
            if times == 0 || times > turn.attempt as usize {
                wrong.push(format!("the reply to {words} in {} attempts is {reply:?}", turn.attempt));
            }
            wrong.extend(Given::of(&turns, words).wrong(turn.attempt).map(|what| format!("{words}: {what}")));
        }
        // A command in one of our terminals outlives its agent, and if no agent saw its end, the end is reported.
        let is_wanted = |turn: &&TurnInfo| want.iter().any(|(_, words, _)| turn.words.as_deref().is_some_and(|text| text.contains(words)));
        for turn in shown.turns.iter().filter(|turn| !is_wanted(turn)) {
            match turn.kind == TurnKind::Notice && turn.outcome == Some(TurnOutcome::Completed) && self.plan.victim.has_agent_or_gateway() {
                true => report.add("ends of terminals that were told", 1),
                false => wrong.push(format!("no client asked for {turn:?}")),
            }
        }
        let last = turns.last().map(Value::to_string).unwrap_or_default();
        if !last.contains(&format!("[[{FIRST}]]")) || last.contains(SUMMARY) {
            wrong.push(format!("the session did not go on: {last}"));
        }
        Ok(wrong)
    }

    /// Ends the round. Leftover processes and files are problems as well.
    fn close(self, mut wrong: Vec<String>) -> Result<Vec<String>> {
        if wrong.is_empty() {
            let stopped = self.product.call(["gateway", "stop"]);
            if stopped.code != Some(0) {
                wrong.push(format!("the gateway cannot be stopped: {stopped:?}"));
            }
            self.until("the end of the gateway", || Ok(gateways(&self.product).is_empty().then_some(())))?;
        }
        let Self { product, model, eyes, client, .. } = self;
        drop((model, eyes));
        if wrong.is_empty() {
            if let Err(e) = product.shut_down() {
                wrong.push(format!("left over at the end: {e:#}"));
            }
            return Ok(wrong);
        }
        if let Some(pid) = client.into_inner().unwrap_or_else(|e| e.into_inner()) {
            // It may have ended already.
            let _gone = faults::kill(pid);
        }
        let kept = tempfile::Builder::new().prefix("real-").tempdir()?.keep();
        cut_power(&product, || None)?;
        let home = product.home().root;
        // Otherwise the next engine would start a gateway. A gateway that was killed leaves its socket.
        std::fs::write(home.join("gateway.lock"), "stopped\n")?;
        if let Some(dir) = product.socket_dir() {
            let _absent = std::fs::remove_file(dir.join("gateway"));
        }
        let copied = std::process::Command::new("cp").arg("-r").arg(&home).arg(&kept).status();
        wrong.push(format!("kept: {} ({})", kept.display(), copied.is_ok_and(|status| status.success())));
        Ok(wrong)
    }

    fn until<T>(&self, what: &str, look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
        wait::until(what, PATIENCE, LOOK, look)
    }

    fn client(&self) -> std::sync::MutexGuard<'_, Option<u32>> {
        self.client.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// Ends a terminal that is no longer needed.
fn end(mut terminal: Child, client: &Mutex<Option<u32>>) {
    drop(terminal.stdin.take());
    // It may be killed already, and it waits for nothing else.
    let _over = terminal.kill();
    let _status = terminal.wait();
    *client.lock().unwrap_or_else(|e| e.into_inner()) = None;
}

/// What a process started, and what that did.
fn below(pid: u32) -> Vec<u32> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let children = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
    let own: Vec<u32> =
        tasks.flatten().map(children).flat_map(|text| text.split_whitespace().filter_map(|p| p.parse().ok()).collect::<Vec<_>>()).collect();
    own.iter().copied().chain(own.iter().flat_map(|pid| below(*pid))).collect()
}
