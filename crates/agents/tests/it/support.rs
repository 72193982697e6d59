use outlast_agents::{
    AcpDriver, AcpSettings, AgentEvent, AgentHandle, AgentNews, AgentPlace, Attempt, Block, Conversation, Driver, Started,
};
use outlast_client::{Client, Connect};
use outlast_testkit::built;
use outlast_testkit::product::{PATIENCE, Product};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::mpsc;

pub(crate) const KEY: &str = "agent:main:local:dm:test";
pub(crate) const GENERATION: &str = "1-20261118";

/// A home with an engine, and agents in it.
pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) place: AgentPlace,
    pub(crate) product: Product,
}

impl World {
    pub(crate) async fn new() -> Self {
        let product = Product::running();
        let to = Connect::to(product.home().root).starting(product.program());
        let client = Client::connect(&to).await.unwrap();
        let home = product.home().root;
        // Processes that are left over are found by the name of the home.
        let place = AgentPlace::of_login(&client, "tester", &product.user(), &[("OUTLAST_HOME", home.as_os_str())]);
        Self { client, place, product }
    }

    pub(crate) fn files(&self) -> PathBuf {
        self.product.work().join("files")
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.product.work().join(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn conversation(&self) -> Conversation {
        Conversation::new(KEY, GENERATION, self.product.work(), self.files())
    }

    pub(crate) fn settings(&self, script: &Value) -> AcpSettings {
        let file = self.path("script");
        std::fs::write(&file, script.to_string()).unwrap();
        AcpSettings::new([built::program("examples/scripted_agent").to_str().unwrap(), &file])
    }

    /// Starts a scripted agent in a new conversation.
    pub(crate) fn start(&self, script: &Value) -> Chat {
        self.start_with(self.settings(script), self.conversation())
    }

    pub(crate) fn start_with(&self, settings: AcpSettings, conversation: Conversation) -> Chat {
        Chat::of(AcpDriver::new(self.place.clone(), settings).start(conversation))
    }

    /// The messages that the scripted agent has read.
    pub(crate) fn heard(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path("script.heard")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Waits until a file is there. No descriptor tells of it; the actor runs on meanwhile.
    pub(crate) async fn appears(&self, name: &str) {
        let look = async {
            while !self.product.work().join(name).exists() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(PATIENCE, look).await.unwrap_or_else(|_| panic!("never came: {name}"));
    }

    /// A shell line that lives until the file `go` is there, and holds what it inherited.
    pub(crate) fn lingering(&self) -> String {
        format!("while ! [ -e {} ]; do sleep 0.01; done", self.path("go"))
    }

    /// Ends what lingers.
    pub(crate) fn go(&self) {
        std::fs::write(self.path("go"), "").unwrap();
    }

    pub(crate) async fn running(&self) -> usize {
        outlast_agents::running_agents(&self.client).await.unwrap().len()
    }
}

/// Waits until something holds.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, is_so: impl Fn() -> F) {
    let look = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, look).await.unwrap_or_else(|_| panic!("never came: {what}"));
}

/// The gateway's side of one actor.
pub(crate) struct Chat {
    pub(crate) handle: AgentHandle,
    pub(crate) events: mpsc::Receiver<AgentEvent>,
}

impl Chat {
    pub(crate) fn of(started: Started) -> Self {
        Self { handle: started.handle, events: started.events }
    }

    pub(crate) fn prompt(&self, number: u32, words: &str) -> Attempt {
        let attempt = Attempt::new("turn-1", number);
        self.handle.prompt(attempt.clone(), vec![Block::Text(words.into())]).unwrap();
        attempt
    }

    /// The next event; nothing when the channel is closed.
    pub(crate) async fn next(&mut self) -> Option<AgentEvent> {
        tokio::time::timeout(PATIENCE, self.events.recv()).await.expect("an event")
    }

    /// Events up to the first that is wanted, which is the last one returned.
    pub(crate) async fn until(&mut self, is_wanted: impl Fn(&AgentNews) -> bool) -> Vec<AgentNews> {
        let mut all = Vec::new();
        loop {
            let event = self.next().await.unwrap_or_else(|| panic!("the channel was closed after {all:?}"));
            let is_last = is_wanted(&event.what);
            all.push(event.what);
            if is_last {
                return all;
            }
        }
    }

    /// Events up to the end of the attempt.
    pub(crate) async fn turn(&mut self) -> Vec<AgentNews> {
        self.until(|news| matches!(news, AgentNews::Completed { .. } | AgentNews::Failed { .. } | AgentNews::Gone { .. })).await
    }

    /// The last event, and that none follows.
    pub(crate) async fn gone(&mut self) -> (Option<Attempt>, bool, String) {
        loop {
            let event = self.next().await.expect("the last event is that the agent is gone");
            if let AgentNews::Gone { had_prompt, why, .. } = event.what {
                assert_eq!(self.next().await, None);
                return (event.attempt, had_prompt, why);
            }
        }
    }

    pub(crate) async fn stop(mut self) {
        self.handle.stop().unwrap();
        self.gone().await;
    }
}

/// The text parts among events.
pub(crate) fn texts(events: &[AgentNews]) -> Vec<&str> {
    let mut all = Vec::new();
    for news in events {
        if let AgentNews::Text(text) = news {
            all.push(text.as_str());
        }
    }
    all
}

/// The drafts among events, in one.
pub(crate) fn drafts(events: &[AgentNews]) -> String {
    let mut all = String::new();
    for news in events {
        if let AgentNews::Draft(text) = news {
            all.push_str(text);
        }
    }
    all
}
