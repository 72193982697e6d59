//! The agents of the rounds: an ACP agent, and a command per turn. Each records every prompt before it acts on it.
//!
//! A prompt has tokens: `[[m17]]` for the message and `[[n17]]` for the notice of round 17. A message may also make the agent start a process
//! that prints a token (`start <<n17>>`), or wait until the round releases it (`<<wait>>`). No other program of the round writes the agents'
//! records.

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// The file of prompts and ends, one line each.
const LOG: &str = "agents.jsonl";
/// How long an agent waits for its round to release it. It only turns a hang into a failure.
const GATE_LIMIT: Duration = Duration::from_secs(120);
/// A text that only the restart note of the gateway has.
const RESTART_NOTE: &str = "This turn was interrupted by";
/// The mark of a notice that may have been delivered before.
const REPEAT: &str = "(this may be a repeat)";

/// One line of the log.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Noted {
    /// A prompt came.
    Prompt(Prompt),
    /// The agent waits to be released with this token.
    Waiting(String),
    /// The agent is about to end the turn of the prompt with this nonce.
    Ending(String),
    /// Another agent of the same conversation was running.
    Clash { key: String },
}

/// A prompt, as its agent read it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Prompt {
    pub(super) key: String,
    pub(super) generation: String,
    pub(super) pid: u32,
    /// The nonce of this prompt. Every part of its reply has it.
    pub(super) nonce: String,
    /// The tokens of the message, without those in quotes.
    pub(super) tokens: BTreeSet<String>,
    /// The tokens that a note quotes.
    pub(super) quoted: BTreeSet<String>,
    /// Whether a note says that the turn may have been started before.
    pub(super) is_restarted: bool,
    /// The tokens of notices that are marked as a repeat.
    pub(super) repeats: BTreeSet<String>,
}

impl Prompt {
    /// Whether the prompt says that it may be a repeat.
    pub(super) fn is_marked(&self, token: &str) -> bool {
        self.is_restarted || self.repeats.contains(token)
    }
}

/// The records of the agents in a directory.
pub(super) fn noted(dir: &Path) -> Vec<Noted> {
    let text = std::fs::read_to_string(dir.join(LOG)).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The prompts with a token.
pub(super) fn prompts_of(dir: &Path, token: &str) -> Vec<Prompt> {
    let is_one = |noted: Noted| match noted {
        Noted::Prompt(prompt) => Some(prompt).filter(|prompt| prompt.tokens.contains(token)),
        Noted::Waiting(_) | Noted::Ending(_) | Noted::Clash { .. } => None,
    };
    noted(dir).into_iter().filter_map(is_one).collect()
}

/// The generation in which a conversation had its last prompt.
pub(super) fn generation_of(dir: &Path, key: &str) -> Option<String> {
    noted(dir).into_iter().rev().find_map(|noted| match noted {
        Noted::Prompt(prompt) if prompt.key == key => Some(prompt.generation),
        Noted::Prompt(_) | Noted::Waiting(_) | Noted::Ending(_) | Noted::Clash { .. } => None,
    })
}

/// Whether an agent waits to be released with a token.
pub(super) fn is_waiting(dir: &Path, token: &str) -> bool {
    noted(dir).iter().any(|noted| matches!(noted, Noted::Waiting(of) if of == token))
}

/// Whether the agent began to end the turn of this prompt.
pub(super) fn is_ending(dir: &Path, nonce: &str) -> bool {
    noted(dir).iter().any(|noted| matches!(noted, Noted::Ending(of) if of == nonce))
}

/// The texts that an agent replies to a prompt, as parts of an agent that speaks ACP.
pub(super) fn reply_parts(tokens: &BTreeSet<String>, nonce: &str) -> [String; 2] {
    let tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
    [format!("working {nonce}"), format!("answer to {} {nonce}", tokens.join(" "))]
}

/// The pid of the last agent of a conversation that started. It may be gone.
pub(super) fn pid_of(dir: &Path, key: &str) -> Option<u32> {
    std::fs::read_to_string(dir.join(format!("{}.pid", plain(key)))).ok()?.trim().parse().ok()
}

/// Releases the agent that waits for this token.
pub(super) fn let_go(dir: &Path, token: &str) -> Result<()> {
    std::fs::write(gate(dir, token), "").with_context(|| format!("cannot let {token} go on"))
}

/// The shell line of a process that waits until it is released, and prints its token.
pub(super) fn process_line(dir: &Path, token: &str) -> String {
    format!("until [ -e '{}' ]; do sleep 0.01; done; echo '[[{token}]]'; exit 3", gate(dir, token).display())
}

/// The request id for the process of a token, so that a repeated turn starts it once.
pub(super) fn process_id(token: &str) -> String {
    let number: u64 = token.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(0);
    format!("proc_{number:012x}")
}

fn gate(dir: &Path, token: &str) -> PathBuf {
    dir.join(format!("{token}.go"))
}

fn plain(key: &str) -> String {
    key.replace(':', "+")
}

/// `xtask __agent acp|turn DIR POINTS PROGRAM`
pub(crate) fn main(args: &[String]) -> Result<()> {
    let [kind, dir, points, program] = args else { bail!("usage: xtask __agent acp|turn DIR POINTS PROGRAM") };
    outlast_store::points::configure(points.into());
    let key = std::env::var("OUTLAST_SESSION").context("an agent belongs to a conversation")?;
    let agent = ScriptedAgent { dir: dir.into(), program: program.into(), key };
    let pid = agent.dir.join(format!("{}.pid", plain(&agent.key)));
    std::fs::write(&pid, std::process::id().to_string())?;
    match kind.as_str() {
        "acp" => agent.speak_acp(),
        "turn" => agent.take_one_turn(),
        other => bail!("no agent {other}"),
    }
}

struct ScriptedAgent {
    dir: PathBuf,
    program: PathBuf,
    key: String,
}

impl ScriptedAgent {
    /// Runs one turn: the prompt on standard input, the reply on standard output.
    fn take_one_turn(&self) -> Result<()> {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text)?;
        let (note, words) = match text.starts_with("[Note from the gateway") {
            true => text.split_once("\n\n").unwrap_or((&text, "")),
            false => ("", text.as_str()),
        };
        let say = |text: &str| -> Result<()> {
            let mut out = std::io::stdout().lock();
            out.write_all(format!("{text}\n").as_bytes())?;
            Ok(out.flush()?)
        };
        self.take(&[note, words], &say, &|_| Ok(()))
    }

    fn speak_acp(&self) -> Result<()> {
        let say = |message: &Value| -> Result<()> {
            let mut out = std::io::stdout().lock();
            out.write_all(format!("{message}\n").as_bytes())?;
            Ok(out.flush()?)
        };
        // In half of the conversations the agent continues its session. In the others it gets a summary.
        let can_resume = self.key.bytes().last().is_some_and(|last| last % 2 == 0);
        for line in std::io::stdin().lock().lines() {
            let message: Value = serde_json::from_str(&line?).context("not JSON")?;
            let result = match message["method"].as_str() {
                Some("initialize") => {
                    let resume = if can_resume { json!({}) } else { Value::Null };
                    json!({"protocolVersion": 1, "agentCapabilities": {"sessionCapabilities": {"resume": resume}}})
                }
                Some("session/new") => json!({"sessionId": "s"}),
                Some("session/resume") => json!({}),
                Some("session/prompt") => {
                    let update = |update: Value| {
                        say(&json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}))
                    };
                    let text =
                        |text: &str| update(json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}));
                    let tool = |is_over: bool| {
                        let (what, status) = if is_over { ("tool_call_update", "completed") } else { ("tool_call", "in_progress") };
                        update(json!({"sessionUpdate": what, "toolCallId": "c", "title": "make", "status": status}))
                    };
                    let blocks = message["params"]["prompt"].as_array().context("a prompt has blocks")?;
                    let blocks: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
                    self.take(&blocks, &text, &tool)?;
                    json!({"stopReason": "end_turn"})
                }
                _ => continue,
            };
            say(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))?;
            if message["method"] == "session/prompt" {
                outlast_store::points::reach("agent.ended");
            }
        }
        Ok(())
    }

    /// One turn, from the prompt to the last part before its end.
    fn take(&self, blocks: &[&str], text: &dyn Fn(&str) -> Result<()>, tool: &dyn Fn(bool) -> Result<()>) -> Result<()> {
        let busy = File::create(self.dir.join(format!("{}.busy", plain(&self.key))))?;
        if flock(&busy, FlockOperation::NonBlockingLockExclusive).is_err() {
            self.note(&Noted::Clash { key: self.key.clone() })?;
        }
        let prompt = read(&self.key, blocks);
        self.note(&Noted::Prompt(prompt.clone()))?;
        outlast_store::points::reach("agent.prompted");
        let [first, last] = reply_parts(&prompt.tokens, &prompt.nonce);
        text(&first)?;
        tool(false)?;
        outlast_store::points::reach("agent.tool");
        let words = words_of(blocks).collect::<Vec<_>>().join("\n");
        for token in between(&words, "start <<", ">>") {
            self.start(token)?;
        }
        if words.contains("<<wait>>") {
            self.wait(&prompt.tokens)?;
        }
        tool(true)?;
        text(&last)?;
        self.note(&Noted::Ending(prompt.nonce))?;
        outlast_store::points::reach("agent.replied");
        drop(busy);
        Ok(())
    }

    /// Records a line, before the agent acts on it.
    fn note(&self, noted: &Noted) -> Result<()> {
        let mut log = OpenOptions::new().create(true).append(true).open(self.dir.join(LOG))?;
        log.write_all(format!("{}\n", serde_json::to_string(noted)?).as_bytes())?;
        Ok(log.sync_data()?)
    }

    /// Starts a process of the conversation, whose end becomes a notice.
    fn start(&self, token: &str) -> Result<()> {
        let (id, line) = (process_id(token), process_line(&self.dir, token));
        let mut run = Command::new(&self.program);
        let ran = run.args(["run", "--notify", "--id", &id, "--", &line]).stdin(Stdio::null()).output()?;
        ensure!(ran.status.success(), "cannot start {token}: {}", String::from_utf8_lossy(&ran.stderr));
        Ok(())
    }

    fn wait(&self, tokens: &BTreeSet<String>) -> Result<()> {
        let began = Instant::now();
        tokens.iter().try_for_each(|token| self.note(&Noted::Waiting(token.clone())))?;
        // No event reports the file that the round makes.
        while !tokens.iter().all(|token| gate(&self.dir, token).exists()) {
            ensure!(began.elapsed() < GATE_LIMIT, "the round keeps {tokens:?} waiting for too long");
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }
}

/// Parses a prompt. Its message is in the blocks that are neither a note nor a summary.
fn read(key: &str, blocks: &[&str]) -> Prompt {
    let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_micros() as i64;
    let pid = std::process::id();
    let notes: Vec<&str> = blocks.iter().copied().filter(|block| block.starts_with("[Note from the gateway")).collect();
    let mut tokens = BTreeSet::new();
    let mut repeats = BTreeSet::new();
    for block in words_of(blocks) {
        let own: BTreeSet<String> = between(block, "[[", "]]").map(str::to_owned).collect();
        if block.contains(REPEAT) {
            repeats.extend(own.iter().cloned());
        }
        tokens.extend(own);
    }
    Prompt {
        key: key.to_owned(),
        generation: std::env::var("OUTLAST_GENERATION").unwrap_or_default(),
        pid,
        nonce: format!("{at:x}-{pid}"),
        tokens,
        quoted: notes.iter().flat_map(|note| between(note, "[[", "]]")).map(str::to_owned).collect(),
        is_restarted: notes.iter().any(|note| note.contains(RESTART_NOTE)),
        repeats,
    }
}

fn words_of<'a>(blocks: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    let is_ours = |block: &&&str| !block.starts_with("[Note from the gateway") && !block.starts_with("What was said in this conversation");
    blocks.iter().filter(is_ours).copied()
}

/// All texts between two marks.
fn between<'a>(text: &'a str, open: &'a str, close: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(open).skip(1).filter_map(move |rest| Some(rest.split_once(close)?.0))
}
