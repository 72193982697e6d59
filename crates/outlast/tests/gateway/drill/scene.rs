//! One run of the drill: a home, an agent that does what its prompt says, and what is found out about the end of its gateway.

use crate::support::{Bench, KEY};
use outlast_client::{AgentChoice, Owner, Shown, Standing, Time, TurnInfo, TurnOutcome, TurnState};
use outlast_gateway::rules::text::Line;
use outlast_gateway::rules::turn::{DrainKind, FailureReason, WaitReason};
use outlast_testkit::product::{Product, eventually, kill_and_wait};
use serde_json::json;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

/// The next gateway is held here, before it looks at the journal.
const BEFORE_THE_NEXT: &str = "gateway.at_work";
/// Another conversation than the one that is looked at.
const ELSEWHERE: &str = "agent:main:local:dm:elsewhere";

/// Which kind of agent answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Agent {
    /// One program for the whole conversation.
    Acp,
    /// A command for each turn.
    PerTurn,
}

impl Agent {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Acp => "ACP",
            Self::PerTurn => "command per turn",
        }
    }
}

/// What was found out: the cells of one row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) exit: String,
    pub(super) word: String,
    pub(super) left: String,
    pub(super) starter: String,
    pub(super) does: String,
    /// Name and text of each line.
    pub(super) reads: Vec<(String, String)>,
}

pub(super) struct Scene {
    pub(super) bench: Bench,
    agent: AgentChoice,
    facts: Facts,
    /// How many prompts there were when the gateway ended.
    prompts_before: usize,
    /// What the turns looked like then.
    left: Vec<LeftTurn>,
    does: Vec<String>,
}

/// A row of the table `turn`, as the gateway left it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LeftTurn {
    state: String,
    attempt: u32,
    reason: Option<String>,
    outcome: Option<String>,
}

impl Scene {
    pub(super) fn new(agent: Agent) -> Self {
        Self::configured(agent, "")
    }

    /// With this in the section `[gateway]`.
    pub(super) fn configured(agent: Agent, gateway: &str) -> Self {
        let product = Product::new(env!("CARGO_BIN_EXE_outlast"));
        let (work, script) = (product.work(), product.work().join("actor.sh"));
        let text = include_str!("actor.sh").replace("=WORK", &format!("={}", work.display()));
        std::fs::write(&script, text.replace("=OUTLAST", concat!("=", env!("CARGO_BIN_EXE_outlast")))).unwrap();
        for fifo in ["gate", "answers"] {
            assert!(Command::new("mkfifo").arg(work.join(fifo)).status().unwrap().success());
        }
        configure(&product, gateway);
        let agent = match agent {
            Agent::Acp => AgentChoice::Agent("actor".into()),
            Agent::PerTurn => AgentChoice::Command(format!("exec /bin/sh {} turn", script.display())),
        };
        let bench = Bench::stopped(product);
        bench.start();
        Self { bench, agent, facts: Facts::default(), prompts_before: 0, left: Vec::new(), does: Vec::new() }
    }

    /// What gateways that start from now on find in the section `[gateway]`.
    pub(super) fn reconfigure(&self, gateway: &str) {
        configure(self.bench.product(), gateway);
    }

    /// The person writes in another conversation, and its agent has the prompt.
    pub(super) fn works_elsewhere_on(&self, words: &str) {
        let count = self.bench.prompts().len();
        self.bench.send_to(ELSEWHERE, words, &self.agent);
        self.bench.wait_for_prompts(count + 1);
    }

    /// The person writes. Returns what the person is told about it at once.
    pub(super) fn says(&self, words: &str) -> Option<String> {
        self.bench.send(words, &self.agent).note
    }

    /// The person writes, and the agent has the prompt.
    pub(super) fn works_on(&self, words: &str) {
        let count = self.bench.prompts().len();
        self.says(words);
        self.bench.wait_for_prompts(count + 1);
    }

    /// The call of the command line that a person makes.
    pub(super) fn outlast(&self, args: &[&str]) {
        let answer = self.bench.product().call(args);
        assert_eq!(answer.code, Some(0), "{args:?}: {answer:?}");
    }

    /// The same, while something else happens.
    pub(super) fn outlast_meanwhile(&self, args: &[&str], meanwhile: impl FnOnce()) {
        let mut child = self.bench.product().command(args).spawn().unwrap();
        meanwhile();
        let status = child.wait().unwrap();
        assert!(status.success(), "{args:?}: {status}");
    }

    /// Waits until what an agent asked of the gateway was answered, and returns the answer.
    pub(super) fn answer_to_the_agent(&self) -> String {
        let said = self.bench.work().join("said");
        eventually("an answer to the agent", || std::fs::read_to_string(&said).ok().filter(|text| text.contains("status")))
    }

    /// Ends the gateway by this, and notes how it ended and what it left. The next one is held before it looks at anything.
    pub(super) fn ends_by(&mut self, act: impl FnOnce(&Self)) {
        self.hold_the_next();
        act(self);
        let status = self.bench.ended();
        self.facts.exit = match (status.code(), status.signal()) {
            (Some(code), _) => code.to_string(),
            (None, signal) => format!("signal {}", signal.unwrap_or_default()),
        };
        self.note_what_is_left();
    }

    pub(super) fn hold_the_next(&self) {
        self.bench.product().points().arm(BEFORE_THE_NEXT).unwrap();
    }

    pub(super) fn held(&self) -> Option<u32> {
        self.bench.product().points().held(BEFORE_THE_NEXT)
    }

    pub(super) fn wait_for_the_next(&self) -> u32 {
        eventually("a gateway that the engine starts", || self.held())
    }

    pub(super) fn release_the_next(&self) {
        self.bench.product().points().release(BEFORE_THE_NEXT).unwrap();
    }

    /// Notes the word in the lock and the rows. If the word has the engine start a gateway, this waits until it has.
    pub(super) fn note_what_is_left(&mut self) {
        let word = self.bench.word();
        if word == "at work" {
            self.wait_for_the_next();
        }
        self.facts.word = if word.is_empty() { "nothing".into() } else { format!("`{word}`") };
        let (turns, strikes, is_suspended) = self.journal();
        let is_pending = turns.iter().any(|turn| turn.state == "interrupted");
        let standing = if is_suspended {
            "suspended"
        } else if is_pending {
            "resume pending"
        } else {
            "active"
        };
        let turns_text: Vec<String> = turns.iter().map(LeftTurn::text).collect();
        self.facts.left = format!("{}; {standing}, strikes {strikes}", turns_text.join("; "));
        (self.left, self.prompts_before) = (turns, self.bench.prompts().len());
    }

    /// The database, as it is now that no gateway has it open.
    fn database(&self) -> (tempfile::TempDir, rusqlite::Connection) {
        let copy = tempfile::tempdir_in(self.bench.work()).unwrap();
        for name in ["gateway.db", "gateway.db-wal"] {
            match std::fs::copy(self.bench.home().join(name), copy.path().join(name)) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                copied => _ = copied.unwrap(),
            }
        }
        let db = rusqlite::Connection::open(copy.path().join("gateway.db")).unwrap();
        (copy, db)
    }

    /// The turns, the strikes, and whether the conversation is suspended.
    fn journal(&self) -> (Vec<LeftTurn>, u32, bool) {
        let (_copy, db) = self.database();
        let mut rows = db.prepare("SELECT state, attempt, interrupt_reason, outcome FROM turn WHERE key = ?1 ORDER BY id").unwrap();
        let turns = rows
            .query_map([KEY], |row| Ok(LeftTurn { state: row.get(0)?, attempt: row.get(1)?, reason: row.get(2)?, outcome: row.get(3)? }))
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        let (strikes, is_suspended) = db
            .query_row("SELECT strikes, suspended_at IS NOT NULL FROM conversation WHERE key = ?1 AND ended_at IS NULL", [KEY], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .unwrap();
        (turns, strikes, is_suspended)
    }

    /// Lets the next gateway start: the one that the engine started, or else one for a person who opens the chat.
    pub(super) fn starts_again(&mut self) {
        if self.bench.word() == "at work" {
            self.facts.starter = "the engine".into();
        } else {
            // The engine has looked at its processes since, and has started none.
            self.outlast(&["run", "--wait", "--", "true"]);
            assert_eq!(self.held(), None, "no person has asked for a gateway");
            self.facts.starter = "a person".into();
        }
        self.opens_the_chat();
    }

    /// The engine starts it, or else opening the chat does.
    pub(super) fn opens_the_chat(&self) {
        // Its input is empty: nothing is said.
        let open = ["chat", "main"];
        let child = self.held().is_none().then(|| self.bench.product().command(open).stdout(std::process::Stdio::null()).spawn().unwrap());
        self.wait_for_the_next();
        self.release_the_next();
        if let Some(mut child) = child {
            assert!(child.wait().unwrap().success());
        }
        self.bench.pid();
    }

    /// How the gateways ended that the engine started, by what they wrote down about it.
    pub(super) fn note_exits(&mut self) {
        let (_copy, db) = self.database();
        let mut rows = db.prepare("SELECT how FROM run ORDER BY id").unwrap();
        let ends: Vec<Option<String>> = rows.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
        let codes: Vec<&str> =
            ends.iter().map(|how| how.as_deref().map_or("signal 9", |how| if how == "restart" { "75" } else { how })).collect();
        self.facts.exit = codes.join(", ");
    }

    /// A process of the conversation ends, and the engine starts a gateway to tell it.
    pub(super) fn starts_for_a_notice(&mut self) {
        assert_eq!(self.held(), None, "nothing has asked for a gateway");
        let (_copy, db) = self.database();
        let name: String = db.query_row("SELECT name FROM conversation WHERE ended_at IS NULL", [], |row| row.get(0)).unwrap();
        let env = [("OUTLAST_SESSION", KEY), ("OUTLAST_GENERATION", name.rsplit(' ').next().unwrap())];
        assert!(self.bench.product().command(["run", "--notify", "--", "true"]).envs(env).output().unwrap().status.success());
        self.wait_for_the_next();
        self.facts.starter = "the engine with the next notice, or a person".into();
        self.release_the_next();
        self.prompts_before = self.bench.wait_for_prompts(self.prompts_before + 1).len();
        self.does.push("a turn about the notice".into());
    }

    /// In how many seconds the engine starts a gateway that asked for it.
    pub(super) fn returns_in_seconds(&self) -> i64 {
        let waits = self.bench.block(async {
            let engine = outlast_client::Client::connect(&self.bench.to()).await.unwrap();
            engine.with_owner(Owner::session("outlast:gateway")).barriers().await.unwrap()
        });
        let [wait] = &waits[..] else { panic!("one barrier: {waits:?}") };
        let at: Time = wait.message.trim_start_matches("Waiting for ").trim_end_matches('.').parse().unwrap();
        (at.micros() - wait.created_at.micros() + 500_000) / 1_000_000
    }

    /// The turn is held back until a person asks for it.
    pub(super) fn resumes_when_asked(&mut self) {
        let shown = self.bench.until("a turn that waits", |shown| shown.conversation.waits_for.is_some());
        assert_eq!((self.bench.prompts().len(), &shown.turns[0].state), (self.prompts_before, &TurnState::Interrupted));
        self.does.push("waits for a message or `/resume`".into());
        self.bench.block(self.bench.chat().resume(KEY)).unwrap();
    }

    pub(super) fn starter(&mut self, who: &str) {
        self.facts.starter = who.to_owned();
    }

    /// Kills the gateway, the engine, and what both have started, at once: none of them sees another one's end.
    pub(super) fn kill_everything(&self) {
        let all: Vec<u32> = self.bench.product().processes().into_iter().map(|(pid, _)| pid).collect();
        assert!(all.contains(&self.bench.pid()) && all.contains(&self.bench.product().engine()), "{all:?}");
        for pid in &all {
            let pid = rustix::process::Pid::from_raw(i32::try_from(*pid).unwrap()).unwrap();
            // A helper of a shell may be over by now.
            let _gone = rustix::process::kill_process(pid, rustix::process::Signal::STOP);
        }
        for pid in all {
            kill_and_wait(pid).unwrap();
        }
    }

    /// What the next gateway makes of the turns, once every one of them is finished or the conversation is suspended.
    pub(super) fn facts(mut self) -> Facts {
        let shown = self.bench.until("the end of the work", is_settled);
        let prompts = self.bench.prompts();
        let mut marks = Vec::new();
        for (turn, left) in shown.turns.iter().zip(&self.left) {
            let is_new_mark = turn.interrupt_reason.is_some() && turn.interrupt_reason != left.reason;
            if let (true, Some(reason)) = (is_new_mark, &turn.interrupt_reason) {
                marks.push(format!("marks it `{reason}`"));
            }
        }
        self.does.splice(0..0, marks);
        let new: Vec<&String> = prompts.iter().skip(self.prompts_before).collect();
        let open: Vec<&TurnInfo> =
            shown.turns.iter().zip(&self.left).filter(|(_, left)| left.state != "finished").map(|(turn, _)| turn).collect();
        let mut prompted = new.iter();
        for turn in &open {
            match (prompted.next(), turn.attempt) {
                (Some(prompt), attempt) => self.does.push(match note_in(prompt) {
                    Some(cause) => format!("attempt {attempt}, with a note about {cause}"),
                    None => format!("attempt {attempt}, without a note"),
                }),
                (None, _) if turn.outcome == Some(TurnOutcome::Completed) => self.does.push("follows its process, which still runs".into()),
                (None, _) => {
                    eventually("no agent is left", || (self.bench.product().json(["list"])["processes"] == json!([])).then_some(()));
                    self.does.push("starts nothing".into());
                }
            }
        }
        assert!(prompted.next().is_none(), "more prompts than turns: {prompts:?}");
        if open.is_empty() && self.does.is_empty() {
            self.does.push("starts nothing".into());
        }
        for turn in open {
            self.does.push(outcome(turn));
        }
        if shown.conversation.standing != Standing::Active || shown.conversation.strikes > 0 {
            self.does.push(format!("{}, strikes {}", shown.conversation.standing.as_str().replace('_', " "), shown.conversation.strikes));
        }
        self.facts.does = self.does.join("; ");
        self.finish_reads();
        std::mem::take(&mut self.facts)
    }

    /// The facts of a row in which the gateway kept running.
    pub(super) fn facts_without_an_end(mut self, starter: &str) -> Facts {
        let shown = self.bench.until("the end of the work", is_settled);
        let turn = &shown.turns[0];
        let prompts = self.bench.prompts();
        let (exit, word) = ("none".into(), format!("`{}`", self.bench.word()));
        let left = format!("{}; {}, strikes {}", marked(turn), shown.conversation.standing.as_str(), shown.conversation.strikes);
        let notes: Vec<String> = prompts.iter().skip(1).filter_map(|prompt| note_in(prompt)).collect();
        assert_eq!(notes.len() + 1, prompts.len(), "each prompt but the first has a note: {prompts:?}");
        let does = format!("attempt {}, with a note about {}; {}", turn.attempt, notes.join(", "), outcome(turn));
        self.facts = Facts { exit, word, left, starter: starter.into(), does, reads: Vec::new() };
        self.finish_reads();
        std::mem::take(&mut self.facts)
    }

    fn finish_reads(&mut self) {
        self.facts.reads = self.bench.lines().into_iter().map(named).collect();
    }
}

/// A run that failed leaves no gateway that is held.
impl Drop for Scene {
    fn drop(&mut self) {
        self.bench.product().points().disarm(BEFORE_THE_NEXT);
        let _released = self.bench.product().points().release(BEFORE_THE_NEXT);
    }
}

fn is_settled(shown: &Shown) -> bool {
    !shown.turns.is_empty() && (shown.conversation.standing == Standing::Suspended || shown.turns.iter().all(TurnInfo::is_finished))
}

impl LeftTurn {
    fn text(&self) -> String {
        match (self.state.as_str(), &self.reason, &self.outcome) {
            ("interrupted", Some(reason), _) => format!("interrupted, `{reason}`, attempt {}", self.attempt),
            ("finished", _, Some(outcome)) => format!("finished: {}", outcome.replace('_', " ")),
            ("queued", ..) => "queued".into(),
            (state, ..) => format!("{state}, attempt {}", self.attempt),
        }
    }
}

fn marked(turn: &TurnInfo) -> String {
    let reason = turn.interrupt_reason.as_deref().unwrap_or_default();
    format!("{}, `{reason}`, attempt {}", turn.state, turn.attempt)
}

fn outcome(turn: &TurnInfo) -> String {
    match &turn.outcome {
        Some(outcome) if turn.state == TurnState::Finished => outcome.to_string().replace('_', " "),
        _ => turn.state.to_string(),
    }
}

/// What the note of a prompt says the interruption was.
fn note_in(prompt: &str) -> Option<String> {
    let (_, rest) = prompt.split_once("[Note from the gateway.")?;
    let (_, cause) = rest.split_once("interrupted by ").expect("only turns that were interrupted have a note here");
    let (cause, _) = cause.split_once(" at ").expect("the note says when");
    assert!(rest.contains("it has happened. Do not ask for it again."), "{prompt}");
    Some(cause.to_owned())
}

/// A short name for a line, and the line.
fn named(line: String) -> (String, String) {
    let known = [
        ("restarting", Line::Banner(DrainKind::Restart)),
        ("shutting down", Line::Banner(DrainKind::Shutdown)),
        ("kept for after the restart", Line::KeptWhileDraining(DrainKind::Restart)),
        ("kept for the next start", Line::KeptWhileDraining(DrainKind::Shutdown)),
        ("resumed", Line::ResumedAfterRestart),
        ("resumed after an interruption", Line::ResumedAfterInterruption),
        ("held back", Line::Waiting(WaitReason::Breaker)),
        ("continued", Line::Continued),
        ("failed", Line::Failed(FailureReason::AgentEnded)),
        ("suspended", Line::Suspended),
    ];
    if let Some((name, _)) = known.iter().find(|(_, of)| of.to_string() == line) {
        return ((*name).to_owned(), line);
    }
    if line == "A process ended (exit code 0): true" {
        return ("a process ended".to_owned(), line);
    }
    if line.ends_with(" was killed by SIGKILL. Trying again.") {
        let text = "what the agent ended by, such as: The agent was killed by SIGKILL. Trying again.";
        return ("trying again".to_owned(), text.to_owned());
    }
    // The driver says what it saw: it differs between agents in the first words only.
    assert!(line.ends_with("was killed by SIGKILL"), "{line}");
    ("the cause".to_owned(), "what the agent ended by, such as: was killed by SIGKILL.".to_owned())
}

fn configure(product: &Product, gateway: &str) {
    let script = product.work().join("actor.sh").display().to_string();
    product.configure(&format!("[gateway]\n{gateway}\n[gateway.agents.actor]\nargv = [\"/bin/sh\", {script:?}, \"acp\"]\n"));
}
