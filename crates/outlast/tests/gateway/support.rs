//! A home with a gateway in it.

use outlast_client::{Accepted, AgentChoice, Chat, ChatEvent, Connect, Content, Heard, Setup, Shown, TurnInfo, message_id};
use outlast_testkit::product::{PATIENCE, Product, eventually, kill_and_wait, wait_for_end};
use outlast_wire::frame;
use outlast_wire::v1::chat::{ChatMessage, ChatReply, ChatRequest};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use tokio::runtime::Runtime;

/// The conversation of most tests.
pub(crate) const KEY: &str = "agent:main:local:dm:main";

/// A home, its gateway, and a client. Dropping it stops all of it, and fails the test if anything is left.
pub(crate) struct Bench {
    product: Option<Product>,
    runtime: Runtime,
    gateway: std::sync::Mutex<Option<Child>>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::configured("")
    }

    /// With this in its configuration.
    pub(crate) fn configured(toml: &str) -> Self {
        let product = Product::new(env!("CARGO_BIN_EXE_outlast"));
        product.configure(toml);
        let bench = Self::stopped(product);
        bench.start();
        bench
    }

    /// Without a gateway.
    pub(crate) fn stopped(product: Product) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        product.engine();
        Self { product: Some(product), runtime, gateway: std::sync::Mutex::new(None) }
    }

    pub(crate) fn product(&self) -> &Product {
        self.product.as_ref().unwrap()
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.product().home().root
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.product().work()
    }

    pub(crate) fn block<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(async { tokio::time::timeout(PATIENCE, future).await.expect("it does not hang") })
    }

    pub(crate) fn command(&self) -> Command {
        let like = self.product().command::<&str>([]);
        let mut command = Command::new(env!("CARGO_BIN_EXE_outlast-gateway"));
        command.env_clear().envs(like.get_envs().filter_map(|(name, value)| Some((name, value?)))).arg("--home").arg(self.home());
        command.current_dir("/").stdin(Stdio::null());
        command
    }

    /// Starts a gateway as a child of the test, and returns when it listens.
    pub(crate) fn start(&self) -> u32 {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.home().join("gateway.log")).unwrap();
        let mut child = self.command().args(["--ready-fd", "1"]).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut word = [0; 6];
        child.stdout.take().unwrap().read_exact(&mut word).unwrap_or_else(|e| panic!("{e}: {}", self.log()));
        assert_eq!(&word, b"ready\n", "{}", self.log());
        let pid = child.id();
        *self.gateway.lock().unwrap() = Some(child);
        pid
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.home().join("gateway.log")).unwrap_or_default()
    }

    /// The pid of the running gateway.
    pub(crate) fn pid(&self) -> u32 {
        eventually("a gateway that answers", || self.try_pid())
    }

    pub(crate) fn try_pid(&self) -> Option<u32> {
        self.block(async { Some(Chat::connect(&self.to()).await.ok()?.status().await.ok()?.pid) })
    }

    /// Kills the gateway with SIGKILL, and waits until it is gone.
    pub(crate) fn kill(&self) -> u32 {
        let pid = self.pid();
        kill_and_wait(pid).unwrap();
        self.reap();
        pid
    }

    pub(crate) fn reap(&self) {
        if let Some(mut child) = self.gateway.lock().unwrap().take() {
            let _ended = child.wait();
        }
    }

    /// Waits until the gateway that the test started has ended.
    pub(crate) fn ended(&self) -> ExitStatus {
        let mut child = self.gateway.lock().unwrap().take().expect("it was started by the test");
        assert!(wait_for_end(child.id(), PATIENCE), "the gateway does not end: {}", self.log());
        child.wait().unwrap()
    }

    /// Waits until another gateway than this one serves the home.
    pub(crate) fn next_after(&self, pid: u32) -> u32 {
        eventually("another gateway", || self.try_pid().filter(|found| *found != pid))
    }

    pub(crate) fn to(&self) -> Connect {
        Connect::to(self.home())
    }

    pub(crate) fn chat(&self) -> Chat {
        self.block(Chat::connect(&self.to())).unwrap_or_else(|e| panic!("{e}: {}", self.log()))
    }

    pub(crate) fn send_to(&self, key: &str, words: &str, agent: &AgentChoice) -> Accepted {
        let setup = Setup::default().answered_by(agent.clone()).in_dir(self.work());
        let id = message_id().unwrap();
        self.block(async { self.chat_now().await.send(key, &id, words, &setup).await }).unwrap_or_else(|e| panic!("{e}: {}", self.log()))
    }

    pub(crate) fn send(&self, words: &str, agent: &AgentChoice) -> Accepted {
        self.send_to(KEY, words, agent)
    }

    pub(crate) async fn chat_now(&self) -> Chat {
        Chat::connect(&self.to()).await.unwrap_or_else(|e| panic!("{e}: {}", self.log()))
    }

    /// Waits until a turn is finished, over restarts of the gateway.
    pub(crate) fn wait(&self, turn: u64) -> TurnInfo {
        eventually("the end of a turn", || {
            let show = self.try_show(KEY)?;
            show.turns.into_iter().find(|found| found.id == turn && found.is_finished())
        })
    }

    pub(crate) fn try_show(&self, key: &str) -> Option<Shown> {
        self.block(async { Chat::connect(&self.to()).await.ok()?.show(key, None).await.ok() })
    }

    pub(crate) fn show(&self) -> Shown {
        eventually("a gateway that shows the conversation", || self.try_show(KEY))
    }

    /// Waits until the conversation is so.
    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&Shown) -> bool) -> Shown {
        eventually(what, || self.try_show(KEY).filter(&is_so))
    }

    /// Everything that was written in the conversation: kind and text of each part.
    pub(crate) fn parts(&self) -> Vec<(String, String)> {
        self.parts_of(KEY)
    }

    fn parts_of(&self, key: &str) -> Vec<(String, String)> {
        self.block(async {
            let mut feed = self.chat_now().await.follow(key);
            let mut all = Vec::new();
            loop {
                match feed.next().await.unwrap() {
                    Heard::Event(ChatEvent::Part { part }) => {
                        let text = match part.content() {
                            Content::Words(body) => body.text,
                            Content::Text(body) => body.text,
                            Content::Line(body) => body.text,
                            Content::Tool(body) => body.title,
                            other => format!("{other:?}"),
                        };
                        all.push((part.kind.to_string(), text));
                    }
                    Heard::Event(ChatEvent::CaughtUp { .. }) => return all,
                    _ => {}
                }
            }
        })
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines_of(KEY)
    }

    pub(crate) fn lines_of(&self, key: &str) -> Vec<String> {
        self.parts_of(key).into_iter().filter(|(kind, _)| kind == "line").map(|(_, text)| text).collect()
    }

    /// What agents of [`Bench::gated`] and [`Bench::acp`] were given, one for each prompt.
    pub(crate) fn prompts(&self) -> Vec<String> {
        let all = std::fs::read_to_string(self.work().join("prompts")).unwrap_or_default();
        all.split("\u{1}\n").filter(|one| !one.is_empty()).map(|one| one.trim_end().to_owned()).collect()
    }

    pub(crate) fn wait_for_prompts(&self, count: usize) -> Vec<String> {
        eventually("prompts", || Some(self.prompts()).filter(|all| all.len() >= count))
    }

    /// An agent that notes its prompt, waits until the test opens the gate, and answers `did: ` and the last line of the prompt.
    pub(crate) fn gated(&self) -> AgentChoice {
        let work = self.work();
        self.make_gate();
        let line = format!(
            "words=$(cat); printf '%s\\n\\001\\n' \"$words\" >> {0}/prompts; read gate < {0}/gate; echo \"did: $(printf '%s' \"$words\" | tail -n 1)\"",
            work.display()
        );
        AgentChoice::Command(line)
    }

    /// A gate at which agents wait.
    pub(crate) fn make_gate(&self) {
        make_fifo(&self.work().join("gate"));
    }

    /// Lets one agent at the gate continue.
    pub(crate) fn open_gate(&self) {
        open_fifo(&self.work().join("gate"));
    }

    pub(crate) fn spawn<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> tokio::task::JoinHandle<T> {
        self.runtime.spawn(future)
    }

    /// Waits until a terminal that comes now is shown this as the draft of a reply.
    pub(crate) fn until_draft(&self, text: &str) {
        let shown = async || {
            let mut feed = self.chat_now().await.follow(KEY);
            loop {
                match feed.next().await.unwrap() {
                    Heard::Event(ChatEvent::Draft { text: of, .. }) if of.contains(text) => return,
                    _ => {}
                }
            }
        };
        self.block(shown());
    }

    /// Waits until a line that the person reads contains this.
    pub(crate) fn until_line(&self, part: &str) {
        eventually(part, || self.lines().iter().any(|line| line.contains(part)).then_some(()));
    }

    /// The name of the current generation.
    pub(crate) fn generation(&self) -> String {
        let name = self.query("SELECT name FROM conversation WHERE ended_at IS NULL AND key LIKE '%:main'");
        name.rsplit(' ').next().unwrap().to_owned()
    }

    /// Changes the database of a gateway that does not run.
    pub(crate) fn sql(&self, sql: &str) {
        rusqlite::Connection::open(self.home().join("gateway.db")).unwrap().execute_batch(sql).unwrap();
    }

    /// Reads from a copy of the database, as the gateway keeps its own to itself.
    pub(crate) fn query(&self, sql: &str) -> String {
        let copy = self.work().join("copy.db");
        for end in ["", "-wal"] {
            let (from, to) = (format!("{}/gateway.db{end}", self.home().display()), format!("{}{end}", copy.display()));
            std::fs::copy(from, to).unwrap();
        }
        rusqlite::Connection::open(&copy).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
    }

    pub(crate) fn socket(&self) -> UnixStream {
        let stream = UnixStream::connect(self.home().join(std::fs::read_link(self.home().join("run")).unwrap()).join("gateway")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends one request over a connection of its own, as it is on the wire.
    pub(crate) fn ask_raw<T: serde::de::DeserializeOwned>(&self, request: &ChatRequest) -> ChatReply<T> {
        let message = ChatMessage { id: 7, session: None, request: request.clone() };
        self.ask_raw_value(&serde_json::to_value(&message).unwrap())
    }

    pub(crate) fn ask_raw_value<T: serde::de::DeserializeOwned>(&self, message: &serde_json::Value) -> ChatReply<T> {
        let mut talk = self.raw();
        talk.say(message);
        talk.hear(7)
    }

    /// A connection that has said hello.
    pub(crate) fn raw(&self) -> RawTalk {
        let mut talk = RawTalk { stream: self.socket(), frames: frame::Splitter::default(), unheard: Vec::new() };
        talk.say(&ChatMessage {
            id: 1,
            session: None,
            request: ChatRequest::Hello { version: 1, client: "a test".into(), namespaces: None },
        });
        talk
    }

    /// Stops the engine as a debugger would: it takes connections and answers nothing, until this is dropped.
    pub(crate) fn freeze_engine(&self) -> Frozen {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.product().engine()).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        Frozen(pid)
    }

    /// The word in the lock.
    pub(crate) fn word(&self) -> String {
        std::fs::read_to_string(self.home().join("gateway.lock")).unwrap_or_default().trim().to_owned()
    }
}

/// An engine that answers nothing.
pub(crate) struct Frozen(rustix::process::Pid);

impl Drop for Frozen {
    fn drop(&mut self) {
        // One that is gone needs none.
        let _gone = rustix::process::kill_process(self.0, rustix::process::Signal::CONT);
    }
}

/// One connection, message by message.
pub(crate) struct RawTalk {
    stream: UnixStream,
    frames: frame::Splitter,
    /// Messages about requests that no caller has asked for yet: the gateway answers in any order.
    unheard: Vec<(u64, Vec<u8>)>,
}

impl RawTalk {
    pub(crate) fn say(&mut self, message: &impl serde::Serialize) {
        self.stream.write_all(&frame::json(message)).unwrap();
    }

    /// The next message about a request.
    pub(crate) fn hear<T: serde::de::DeserializeOwned>(&mut self, of: u64) -> ChatReply<T> {
        let mut buffer = [0; 4096];
        loop {
            while let Some(frame) = self.frames.next_frame().unwrap() {
                let frame::Frame::Json(text) = frame else { panic!("bytes") };
                self.unheard.push((serde_json::from_slice::<ChatReply<serde_json::Value>>(&text).unwrap().of, text.to_vec()));
            }
            if let Some(at) = self.unheard.iter().position(|(about, _)| *about == of) {
                return serde_json::from_slice(&self.unheard.remove(at).1).unwrap();
            }
            let count = self.stream.read(&mut buffer).unwrap();
            assert!(count > 0, "closed");
            self.frames.push(&buffer[..count]);
        }
    }
}

pub(crate) fn cat() -> AgentChoice {
    AgentChoice::Command("cat".into())
}

/// An agent that speaks ACP, notes its prompts, and waits at the gate for each: to be put into the configuration as `scripted`.
pub(crate) fn acp_config(work: &Path) -> String {
    make_fifo(&work.join("gate"));
    let script = work.join("agent.sh");
    let text = r#"
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p' | head -n 1)
  case "$line" in
    *'"initialize"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":1,"agentCapabilities":{}}}' ;;
    *'"session/new"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"sessionId":"s1"}}' ;;
    *'"session/prompt"'*)
      printf '%s\n\001\n' "$line" >> WORK/prompts
      case "$line" in *'may I'*)
        case "$line" in *'call'*) echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"tool_call","toolCallId":"c0","title":"rm -r target","status":"in_progress"}}}' ;; esac
        echo '{"jsonrpc":"2.0","id":900,"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"c0","title":"rm -r target"},"options":[{"optionId":"yes","name":"Allow","kind":"allow_once"},{"optionId":"no","name":"Deny","kind":"reject_once"}]}}'
        read -r answer; printf '%s\n' "$answer" >> WORK/answers
        case "$line" in *'twice'*)
          echo '{"jsonrpc":"2.0","id":901,"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"c0","title":"rm -r target as root"},"options":[{"optionId":"yes","name":"Allow","kind":"allow_once"},{"optionId":"no","name":"Deny","kind":"reject_once"}]}}'
          read -r answer; printf '%s\n' "$answer" >> WORK/answers ;;
        esac
        echo '{"jsonrpc":"2.0","id":'$id',"result":{"stopReason":"end_turn"}}'; continue ;;
      esac
      echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"tool_call","toolCallId":"c1","title":"make","status":"in_progress"}}}'
      read gate < WORK/gate
      echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"tool_call_update","toolCallId":"c1","status":"completed"}}}'
      echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"all done"}}}}'
      echo '{"jsonrpc":"2.0","id":'$id',"result":{"stopReason":"end_turn"}}' ;;
  esac
done
"#;
    std::fs::write(&script, text.replace("WORK", &work.display().to_string())).unwrap();
    format!("[gateway.agents.scripted]\nargv = [\"/bin/sh\", {:?}]\n", script.display().to_string())
}

pub(crate) fn scripted() -> AgentChoice {
    AgentChoice::Agent("scripted".into())
}

fn make_fifo(path: &Path) {
    if !path.exists() {
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    }
}

/// Opens a FIFO once a reader is there, and closes it.
fn open_fifo(path: &Path) {
    use std::os::unix::fs::OpenOptionsExt;
    // Without a reader, opening it so fails; opening it otherwise would wait for ever if the agent has died.
    let nonblocking = 0o4000;
    let opened = eventually("an agent at the gate", || std::fs::OpenOptions::new().write(true).custom_flags(nonblocking).open(path).ok());
    drop(opened);
}

impl Drop for Bench {
    fn drop(&mut self) {
        // A gateway that died is started again by the engine or by this, and then stopped in order.
        if self.home().join("gateway.db").exists() {
            let is_running = self.try_pid().is_some();
            if !is_running && self.word() == "at work" && !std::thread::panicking() {
                self.pid();
            }
            self.block(async {
                if let Ok(chat) = Chat::connect(&self.to()).await {
                    let _stopped = chat.shutdown(Some(Duration::ZERO)).await;
                }
            });
        }
        if let Some(mut child) = self.gateway.lock().unwrap().take() {
            let _killed = child.kill();
            let _ended = child.wait();
        }
        if std::thread::panicking() {
            eprintln!("gateway.log:\n{}", self.log());
        }
        drop(self.product.take());
    }
}
