//! How a round observes the gateway: over the socket, as a terminal does, and in the process table.

use super::super::faults;
use anyhow::{Context, Result, ensure};
use outlast_client::{Chat, ChatEvent, ClientError, Connect, Heard, Part, Shown, TurnInfo};
use outlast_testkit::product::Product;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// How long a request may take if its gateway is held or dies meanwhile.
const ASK_LIMIT: Duration = Duration::from_secs(5);

/// Observes conversations, and never starts a gateway.
pub(super) struct Eyes {
    runtime: Runtime,
    home: PathBuf,
    followers: Mutex<BTreeMap<String, Follower>>,
}

/// Follows one conversation from its first part to its last, across all deaths of the gateway.
struct Follower {
    parts: Arc<Mutex<Vec<Part>>>,
    task: JoinHandle<Result<()>>,
}

impl Eyes {
    pub(super) fn new(home: PathBuf) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        Ok(Self { runtime, home, followers: Mutex::default() })
    }

    /// A conversation, as the gateway reports it; `None` if no gateway answers.
    pub(super) fn show(&self, key: &str, generation: Option<u64>) -> Option<Shown> {
        self.ask(async |chat| chat.show(key, generation).await.ok())
    }

    /// Whether the gateway has a turn whose message has a token; `None` if no gateway answers.
    pub(super) fn has_turn(&self, key: &str, token: &str) -> Option<bool> {
        let has_chat = self.ask(async |chat| match chat.show(key, None).await {
            Ok(_) => Some(true),
            Err(ClientError::Refused(_)) => Some(false),
            Err(_) => None,
        })?;
        Some(has_chat && self.turn(key, token).is_some())
    }

    /// The turn whose message has a token, in any generation.
    pub(super) fn turn(&self, key: &str, token: &str) -> Option<TurnInfo> {
        let shown = self.show(key, None)?;
        let earlier = (1..shown.conversation.generation).rev();
        let find = |shown: Shown| shown.turns.into_iter().find(|turn| turn.words.as_deref().is_some_and(|words| words.contains(token)));
        find(shown).or_else(|| earlier.filter_map(|number| self.show(key, Some(number))).find_map(find))
    }

    /// Resumes a conversation, as a user does with `/resume`.
    pub(super) fn resume(&self, key: &str) -> bool {
        self.ask(async |chat| chat.resume(key).await.ok()).is_some()
    }

    fn ask<T>(&self, what: impl AsyncFnOnce(Chat) -> Option<T>) -> Option<T> {
        self.runtime.block_on(async {
            let asked = async {
                let chat = Chat::connect(&Connect::to(&self.home)).await.ok()?;
                what(chat).await
            };
            tokio::time::timeout(ASK_LIMIT, asked).await.ok()?
        })
    }

    /// Follows a conversation from here on. It exists.
    pub(super) fn follow(&self, key: &str) {
        let mut followers = lock(&self.followers);
        if followers.contains_key(key) {
            return;
        }
        let parts = Arc::new(Mutex::new(Vec::new()));
        let task = self.runtime.spawn(follow(self.home.clone(), key.to_owned(), parts.clone()));
        followers.insert(key.to_owned(), Follower { parts, task });
    }

    /// What a follower has seen so far.
    pub(super) fn parts(&self, key: &str) -> Result<Vec<Part>> {
        let followers = lock(&self.followers);
        let follower = followers.get(key).with_context(|| format!("{key} has no follower"))?;
        ensure!(!follower.task.is_finished(), "the follower of {key} gave up");
        Ok(lock(&follower.parts).clone())
    }
}

impl Drop for Eyes {
    fn drop(&mut self) {
        lock(&self.followers).values().for_each(|follower| follower.task.abort());
    }
}

async fn follow(home: PathBuf, key: String, parts: Arc<Mutex<Vec<Part>>>) -> Result<()> {
    let chat = loop {
        match Chat::connect(&Connect::to(&home)).await {
            Ok(chat) => break chat,
            // No gateway runs at this moment.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    let mut feed = chat.follow(&key);
    loop {
        match feed.next().await {
            Ok(Heard::Event(ChatEvent::Part { part })) => lock(&parts).push(*part),
            Ok(_) => {}
            Err(error) => {
                eprintln!("the follower of {key}: {error}");
                return Err(error.into());
            }
        }
    }
}

fn lock<T>(held: &Mutex<T>) -> MutexGuard<'_, T> {
    held.lock().unwrap_or_else(|e| e.into_inner())
}

/// The running gateways of a home.
pub(super) fn gateways(product: &Product) -> Vec<u32> {
    let home = product.home().root;
    let needle = home.as_os_str().as_encoded_bytes();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let cmdline = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let has = |word: &[u8]| cmdline.windows(word.len()).any(|w| w == word);
        has(b"outlast-gateway") && has(needle) && faults::alive(*pid)
    })
    .collect()
}

/// Kills all these processes at once. They are stopped first, so that none sees another die.
pub(super) fn kill_together(pids: &[u32]) -> Result<()> {
    for signal in [Signal::STOP, Signal::KILL] {
        for pid in pids {
            let pid = Pid::from_raw(i32::try_from(*pid)?).context("a pid")?;
            // It fails if the process is gone.
            let _gone = kill_process(pid, signal);
        }
    }
    pids.iter().try_for_each(|pid| outlast_testkit::product::kill_and_wait(*pid))
}

/// Kills all processes of a home, and those that `more` names, as a power failure would.
pub(super) fn cut_power(product: &Product, more: impl Fn() -> Option<u32>) -> Result<()> {
    loop {
        let ours = product.processes().into_iter().map(|(pid, _)| pid).filter(|pid| faults::alive(*pid));
        let all: Vec<u32> = ours.chain(gateways(product)).chain(more()).collect();
        if all.is_empty() {
            return Ok(());
        }
        kill_together(&all)?;
    }
}
