//! Requests to the engine.

use crate::error::refusal;
use crate::link::{CallError, Cut, Link, Speaker, decode, read};
use crate::peer::EngineTalk;
use crate::redial::{Redial, Repeat, Tries, to_error};
use crate::relay::{Passing, Receipt};
use crate::{ClientError, Connect};
use outlast_core::{EnvVar, Instance, Owner, ProcessId, Scope, Spec};
use outlast_wire::code;
use outlast_wire::v1::{
    Active, Activity, AdoptFrom, Adopted, Caller, Cleaned, Done, EngineStatus, Found, Kill, KillAll, Killed, List, LogPage, Page,
    Process as ProcessInfo, Removed, Request, RerunChange, Restarted, ViewClosed, Waited, Written,
};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};

/// How many bytes of input are sent with one request.
const WRITE_PIECE: usize = 256 << 10;
/// How long an engine may take to stop the processes that end with it.
const STOP_LIMIT: Duration = Duration::from_secs(60);

/// A client of the engine of one home. Cheap to clone; clones share the connection.
///
/// Dropping the future of a request cancels it. A `process` is named by its id, a unique prefix with at least four of its digits,
/// or its name. Each request looks it up again ([`Client::find`]).
#[derive(Clone)]
pub struct Client {
    shared: Arc<Redial>,
    by: Speaker,
    relay: Option<Arc<Passing>>,
}

/// What to run.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Run {
    /// The command and how to run it. An empty owner means the client's.
    pub spec: Spec,
    /// The environment and limits that it inherits.
    pub caller: Caller,
    /// The id to use, so that a repeated request starts nothing twice; random if absent.
    pub id: Option<ProcessId>,
}

impl Run {
    /// To run `spec` with the environment and limits of `caller`.
    pub fn new(spec: Spec, caller: Caller) -> Self {
        Self { spec, caller, id: None }
    }

    /// The same, with an id that the caller chose.
    pub fn with_id(self, id: ProcessId) -> Self {
        Self { id: Some(id), ..self }
    }

    /// A random id for a process, for a caller that needs it before the start is over.
    pub fn draw_id() -> Result<ProcessId, ClientError> {
        random_id()
    }
}

/// Where input is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// After all earlier input.
    End,
    /// At this offset of the input. Bytes that are there already are not written again, so the only writer of an input may repeat
    /// this safely.
    Byte(u64),
}

/// What a command inherits from this process: this environment and directory, its resource limits, priority and processors.
///
/// ```
/// let here = outlast_client::caller(std::env::vars_os(), std::path::Path::new("/tmp"));
/// assert_eq!(here.cwd.as_bytes(), b"/tmp");
/// ```
pub fn caller(env: impl IntoIterator<Item = (OsString, OsString)>, cwd: &Path) -> Caller {
    let env = env.into_iter().map(|(name, value)| EnvVar { name: name.into(), value: value.into() }).collect();
    let mut caller = Caller::new(env, cwd);
    caller.limits = Some(Box::new(crate::own_limits::own_limits()));
    caller
}

impl Client {
    /// Connects to the engine of a home, and starts one if need be.
    pub async fn connect(to: &Connect) -> Result<Self, ClientError> {
        let client = Self::new(Redial::to(to.absolute()), to.owner.clone());
        client.shared.link().await?;
        Ok(client)
    }

    /// Uses a stream that is connected to an engine already, for instance to one in this program. It cannot reconnect.
    ///
    /// All requests share the one connection. Read a [`Chunks`](crate::Chunks) to its end or drop it: an idle one blocks the other requests.
    pub async fn over<S>(stream: S) -> Result<Self, ClientError>
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let (read, write) = tokio::io::split(stream);
        let link = Link::open(read, write).await.map_err(|e| to_error::<EngineTalk>(e, "connect"))?;
        Ok(Self::new(Redial::given(link), Owner::default()))
    }

    fn new(shared: Redial, owner: Owner) -> Self {
        Self { shared: Arc::new(shared), by: Speaker { owner, ..Speaker::default() }, relay: None }
    }

    /// The same connection, for requests of `owner`.
    pub fn with_owner(&self, owner: Owner) -> Self {
        Self { by: Speaker { owner, ..self.by.clone() }, ..self.clone() }
    }

    /// The same connection, for one of several conversations that share the owner's session. It gets its own notices. While another
    /// conversation is open, it gets none of that one's, and does not change that one's processes. What a conversation leaves behind
    /// passes to the first one that begins after its end. Without an instance, a request is made for the session as a whole.
    pub fn with_instance(&self, instance: Option<Instance>) -> Self {
        Self { by: Speaker { instance: instance.map(Box::new), ..self.by.clone() }, ..self.clone() }
    }

    /// The same client, whose requests may change processes of another conversation of the session although that one is open.
    pub fn forcing(&self) -> Self {
        Self { by: Speaker { force: true, ..self.by.clone() }, ..self.clone() }
    }

    /// The same connection for a program that forwards answers, such as a server in front of an agent. The effects of an answer
    /// wait for [`Receipt::passed_on`]: an end that it shows then counts as seen by its owner, and a process that it reports as
    /// removed is removed. If the receipt is dropped or this program is killed, the owner is notified of the end after all, and the
    /// process stays. Notices that were taken and not settled are offered to the next taker, as possible repeats.
    ///
    /// ```
    /// # use outlast_client::{Client, Connect, Owner, Run, Spec, Take, Tell, caller};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let product = outlast_testkit::product::Product::running();
    /// # let client = Client::connect(&Connect::to(product.home().root)).await?.with_owner(Owner::session("chat:42"));
    /// # let here = caller(std::env::vars_os(), &product.work());
    /// let (asking, receipt) = client.relaying();
    /// let process = asking.run(Run::new(Spec::argv(["true"]).telling(Tell::end()), here)).await?;
    /// let end = process.wait(None).await?;
    /// println!("{}", end.output); // ... to the agent, and once it has arrived:
    /// receipt.passed_on().await?;
    /// assert!(client.take(&Take::default()).await?.notices.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn relaying(&self) -> (Self, Receipt) {
        let passing = Arc::new(Passing::default());
        let client = Self { relay: Some(passing.clone()), ..self.clone() };
        (client, Receipt::new(self.by.clone(), passing))
    }

    /// The owner for which it makes requests.
    pub fn owner(&self) -> &Owner {
        &self.by.owner
    }

    /// For whom it makes requests.
    pub(crate) fn by(&self) -> &Speaker {
        &self.by
    }

    /// Like [`Client::run`], and returns the engine's description of the new process.
    pub async fn run_info(&self, run: Run) -> Result<ProcessInfo, ClientError> {
        let owner = if run.spec.owner == Owner::default() { self.by.owner.clone() } else { run.spec.owner.clone() };
        let is_elsewhere = run.spec.on.is_some();
        let (spec, want, caller) = (Box::new(run.spec.into()), Some(run.id.map_or_else(random_id, Ok)?), run.caller);
        let request = if is_elsewhere { Request::RunOn { spec, want, caller } } else { Request::Run { spec, want, caller } };
        self.with_owner(owner).ask("start the command", request, Repeat::Safe).await
    }

    /// Runs the command of another process again, with the caller's current environment and limits, and with these variables set.
    pub async fn rerun(&self, process: &str, caller: Caller, env: Vec<EnvVar>) -> Result<ProcessInfo, ClientError> {
        let request = Request::Rerun { process: process.into(), caller, env, want: Some(random_id()?) };
        self.ask("start it again", request, Repeat::Safe).await
    }

    /// Like [`Client::rerun`], with another name or command.
    ///
    /// ```
    /// # use outlast_client::{Client, Command, Connect, RerunChange, Run, Spec, caller};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let product = outlast_testkit::product::Product::running();
    /// # let client = Client::connect(&Connect::to(product.home().root)).await?;
    /// # let here = caller(std::env::vars_os(), &product.work());
    /// let first = client.run(Run::new(Spec::shell("echo one").named("greeter"), here.clone())).await?;
    /// let change = RerunChange::default().named("other").running(Command::Shell("echo two".into()));
    /// let again = client.rerun_changed(&first.id().to_string(), here, Vec::new(), change).await?;
    /// assert_eq!((again.name.as_deref(), again.command.as_str()), (Some("other"), "echo two"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn rerun_changed(
        &self,
        process: &str,
        caller: Caller,
        env: Vec<EnvVar>,
        change: RerunChange,
    ) -> Result<ProcessInfo, ClientError> {
        if change.is_nothing() {
            return self.rerun(process, caller, env).await;
        }
        let request = Request::RerunChanged { process: process.into(), caller, env, change, want: Some(random_id()?) };
        self.ask("start it again", request, Repeat::Safe).await
    }

    /// Stops a process and its whole tree, and runs its command again, with the caller's current environment and limits, and with
    /// these variables set. A process that could not be started again is not stopped. A finished one is only run again. `grace` is
    /// the time between TERM and KILL.
    ///
    /// Use an id: the request may be repeated after a crash of the engine, and a name may refer to the new process then.
    pub async fn restart(
        &self,
        process: &str,
        caller: Caller,
        env: Vec<EnvVar>,
        grace: Option<Duration>,
    ) -> Result<Restarted, ClientError> {
        let request = Request::Restart { process: process.into(), caller, env, want: Some(random_id()?), grace_ms: grace.map(millis) };
        self.ask("restart the process", request, Repeat::Safe).await
    }

    /// The processes in a scope: the running ones, and with `all` the finished ones, too.
    pub async fn list(&self, scope: &Scope, all: bool) -> Result<Vec<ProcessInfo>, ClientError> {
        let list: List = self.ask("list processes", Request::List { scope: scope.clone(), all }, Repeat::Safe).await?;
        Ok(list.processes)
    }

    /// The process that an id, the beginning of one, or a name refers to, among those that the owner may act on.
    ///
    /// If several processes have the name, it is the newest running one, or the newest if none runs. To do several things with one
    /// process, look it up once and use its id from then on: the name may refer to another process a moment later.
    ///
    /// ```
    /// # use outlast_client::{Client, Connect, Run, Spec, caller};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let product = outlast_testkit::product::Product::running();
    /// # let client = Client::connect(&Connect::to(product.home().root)).await?;
    /// # let here = caller(std::env::vars_os(), &product.work());
    /// let started = client.run(Run::new(Spec::argv(["true"]).named("web"), here)).await?;
    /// let found = client.find("web").await?;
    /// assert_eq!((found.session_id, found.namesakes), (started.id(), 1));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn find(&self, process: &str) -> Result<Found, ClientError> {
        self.ask("look up the process", Request::Find { process: process.into() }, Repeat::Safe).await
    }

    /// Describes a process.
    pub async fn poll(&self, process: &str) -> Result<ProcessInfo, ClientError> {
        self.ask("look at the process", Request::Poll { process: process.into() }, Repeat::Safe).await
    }

    /// A page of output for readers: without escape sequences, and with secrets masked.
    pub async fn log(&self, process: &str, page: Page) -> Result<LogPage, ClientError> {
        self.ask("read its log", Request::Log { process: process.into(), page }, Repeat::Safe).await
    }

    /// Detaches the views of a process; the process keeps running. Views are [`Client::attach`] and [`Client::view`].
    pub async fn view_close(&self, process: &str) -> Result<ViewClosed, ClientError> {
        self.ask("close the view", Request::ViewClose { process: process.into() }, Repeat::Never).await
    }

    /// Waits for the end, at most this long. The wait survives a restart of the engine.
    pub async fn wait(&self, process: &str, timeout: Option<Duration>) -> Result<Waited, ClientError> {
        // A time too far in the future for an instant is no limit.
        let deadline = timeout.and_then(|t| Instant::now().checked_add(t));
        // After the time is over, a repeated request looks once more. It must not ask for zero time, which would be refused as a
        // mistake.
        let left = |d: Instant| millis(d.saturating_duration_since(Instant::now())).max(u64::from(timeout != Some(Duration::ZERO)));
        let request = || Request::Wait { process: process.into(), timeout_ms: deadline.map(left) };
        let mut waited: Waited = self.ask_with("wait for its end", request, Repeat::Safe).await?;
        if let (Some(note), Some(timeout)) = (&mut waited.timeout_note, timeout) {
            // The repeated request has only the remaining time; the caller expects its own.
            *note = format!("Waited {}s, process still running", millis(timeout) as f64 / 1_000.0);
        }
        Ok(waited)
    }

    /// Cancels the waiting calls of a session; its processes keep running.
    pub async fn interrupt(&self, session: &str) -> Result<Done, ClientError> {
        self.ask("interrupt the waits", Request::Interrupt { session: session.into() }, Repeat::Safe).await
    }

    /// Reports that the conversation of [`Client::with_instance`] has ended, if it is a session over HTTP. What it leaves behind passes
    /// to the first conversation of the session that begins afterwards.
    pub async fn end_conversation(&self) -> Result<Done, ClientError> {
        self.ask("end the conversation", Request::EndConversation, Repeat::Safe).await
    }

    /// Stops a process and its whole tree. If the request is repeated after a crash of the engine, the answer may be that the
    /// process has ended already.
    pub async fn kill(&self, process: &str, kill: Kill) -> Result<Killed, ClientError> {
        self.ask("stop the process", Request::Kill { process: process.into(), kill }, Repeat::Safe).await
    }

    /// Stops every running process in a scope.
    pub async fn kill_all(&self, scope: &Scope, kill: Kill) -> Result<KillAll, ClientError> {
        self.ask("stop the processes", Request::KillAll { scope: scope.clone(), kill }, Repeat::Never).await
    }

    /// Stops these processes as [`Client::kill_all`] does: the notices of their ends are not settled. Those that have ended are
    /// skipped.
    pub async fn kill_these(&self, processes: &[ProcessId], kill: Kill) -> Result<KillAll, ClientError> {
        self.ask("stop the processes", Request::KillThese { processes: processes.to_vec(), kill }, Repeat::Never).await
    }

    /// Sends a signal to the command itself.
    pub async fn signal(&self, process: &str, number: i32) -> Result<Killed, ClientError> {
        self.ask("send the signal", Request::Signal { process: process.into(), number }, Repeat::Never).await
    }

    /// Writes to the input of a process.
    pub async fn write(&self, process: &str, bytes: &[u8], at: At) -> Result<Written, ClientError> {
        let mut at = at;
        let (mut next, mut warning) = (None, None);
        let mut done = 0;
        let mut already = 0;
        loop {
            let piece = &bytes[done..bytes.len().min(done + WRITE_PIECE)];
            let written = self.write_piece(process, piece, at).await.map_err(|e| after_some(e, done, next))?;
            let taken = usize::try_from(written.bytes_written.unwrap_or(piece.len() as u64)).unwrap_or(piece.len()).min(piece.len());
            done += taken;
            already += written.already.unwrap_or(0);
            next = written.next_offset;
            // A writer that does not count may not be the only one, and another's bytes must not be taken for its own.
            if let At::Byte(byte) = &mut at {
                *byte += taken as u64;
            }
            if done == bytes.len() {
                let mut all = written;
                all.bytes_written = Some((done as u64).saturating_sub(already));
                all.already = Some(already).filter(|already| *already > 0);
                all.warning = warning.or(all.warning);
                return Ok(all);
            }
            warning = warning.or(written.warning);
            if taken == 0 {
                return Err(after_some(
                    refusal(code::INPUT_FULL, "the process does not read its input".into(), "try again later"),
                    done,
                    next,
                ));
            }
        }
    }

    async fn write_piece(&self, process: &str, piece: &[u8], at: At) -> Result<Written, ClientError> {
        let (at, repeat) = match at {
            At::End => (None, Repeat::Never),
            At::Byte(byte) => (Some(byte), Repeat::Safe),
        };
        let request = || Request::Write { process: process.into(), at, len: piece.len() as u64 };
        match self.send("write to its input", &request, piece, repeat).await {
            Ok(answer) => decode(&answer),
            Err(CallError::Cut(Cut::Gone(why))) if at.is_none() => Err(refusal(
                code::MAYBE_WRITTEN,
                format!("it is not known whether the input was written: {why}"),
                "compare `input_bytes` of a poll with what you wrote; with an offset a repeated write is safe",
            )),
            Err(e) => Err(to_error::<EngineTalk>(e, "write to its input")),
        }
    }

    /// Writes a line to the input of a process: the bytes and a newline.
    pub async fn submit(&self, process: &str, line: &[u8], at: At) -> Result<Written, ClientError> {
        self.write(process, &[line, b"\n"].concat(), at).await
    }

    /// Closes the input of a process after everything that was written.
    pub async fn close(&self, process: &str) -> Result<Written, ClientError> {
        self.ask("close its input", Request::Close { process: process.into() }, Repeat::Never).await
    }

    /// Changes the size of a process's terminal.
    pub async fn resize(&self, process: &str, rows: u16, cols: u16) -> Result<Done, ClientError> {
        self.ask("resize its terminal", Request::Resize { process: process.into(), rows, cols }, Repeat::Safe).await
    }

    /// Removes a finished process.
    pub async fn remove(&self, process: &str) -> Result<Removed, ClientError> {
        self.ask("remove the process", Request::Remove { process: process.into(), set_aside: false }, Repeat::Never).await
    }

    /// Marks a finished process as one whose end and whole output its caller was given. It is kept for a day, and lists for agents leave it
    /// out. An engine of an earlier release removes it.
    pub async fn set_aside(&self, process: &str) -> Result<Removed, ClientError> {
        self.ask("set the process aside", Request::Remove { process: process.into(), set_aside: true }, Repeat::Never).await
    }

    /// Removes every finished process in a scope.
    pub async fn clean(&self, scope: &Scope) -> Result<Cleaned, ClientError> {
        self.ask("clean up", Request::Clean { scope: scope.clone() }, Repeat::Never).await
    }

    /// Removes those of these processes that are finished.
    pub async fn clean_these(&self, processes: &[ProcessId]) -> Result<Cleaned, ClientError> {
        self.ask("clean up", Request::CleanThese { processes: processes.to_vec() }, Repeat::Never).await
    }

    /// Whether anything is active.
    ///
    /// ```
    /// # use outlast_client::{Activity, Client, Connect};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let product = outlast_testkit::product::Product::running();
    /// # let client = Client::connect(&Connect::to(product.home().root)).await?;
    /// let day = std::time::Duration::from_secs(86_400);
    /// let busy = client.active(Activity::Session { session: "chat:42".into(), max_age_ms: Some(day.as_millis() as u64) }).await?;
    /// assert!(!busy);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn active(&self, about: Activity) -> Result<bool, ClientError> {
        Ok(self.activity(about).await?.active)
    }

    /// How many processes run in the home.
    pub async fn count_running(&self) -> Result<u64, ClientError> {
        Ok(self.activity(Activity::Any).await?.running)
    }

    /// Whether anything is active, and how many processes run in the home.
    pub async fn activity(&self, about: Activity) -> Result<Active, ClientError> {
        self.ask("look for activity", Request::Active(about), Repeat::Safe).await
    }

    /// Adopts living processes that Outlast did not start.
    pub async fn adopt(&self, from: AdoptFrom) -> Result<Adopted, ClientError> {
        self.ask("adopt", Request::Adopt(from), Repeat::Safe).await
    }

    /// The state of the engine.
    pub async fn engine_status(&self) -> Result<EngineStatus, ClientError> {
        self.ask("ask how the engine is", Request::EngineStatus, Repeat::Safe).await
    }

    /// Ends the engine, and returns once it has released the home. Processes keep running unless they were started to end with it.
    pub async fn engine_stop(&self) -> Result<Done, ClientError> {
        self.end_engine(Request::EngineStop).await
    }

    /// Ends the engine so that another one can follow, and returns once it has released the home. Every process keeps running.
    pub async fn engine_hand_over(&self) -> Result<Done, ClientError> {
        self.end_engine(Request::EngineHandOver).await
    }

    async fn end_engine(&self, request: Request) -> Result<Done, ClientError> {
        let link = self.shared.link().await?;
        let done = match link.call(&self.by, request, &[]).await {
            Ok(answer) => decode(&answer)?,
            // The engine ended before its answer was sent.
            Err(CallError::Cut(Cut::Gone(_))) => Done::ok(),
            Err(e) => return Err(to_error::<EngineTalk>(e, "stop the engine")),
        };
        if link.closed(STOP_LIMIT).await {
            return Ok(done);
        }
        Err(ClientError::Unavailable {
            error: format!("the engine was asked to end, and has not within {} s", STOP_LIMIT.as_secs()),
            hint: "it may be stopping processes; `kill -9` of the engine harms no running process".into(),
        })
    }

    pub(crate) fn can_redial(&self) -> bool {
        self.shared.can_redial()
    }

    /// A connection for one reader alone if one can be made, else the shared one.
    pub(crate) async fn own_link(&self) -> Result<Arc<Link>, ClientError> {
        self.shared.own_link().await
    }

    pub(crate) async fn ask<T: DeserializeOwned>(&self, doing: &str, request: Request, repeat: Repeat) -> Result<T, ClientError> {
        self.ask_with(doing, || request.clone(), repeat).await
    }

    pub(crate) async fn ask_with<T: DeserializeOwned>(
        &self,
        doing: &str,
        request: impl Fn() -> Request + Sync,
        repeat: Repeat,
    ) -> Result<T, ClientError> {
        self.send(doing, &request, &[], repeat).await.map_err(|e| to_error::<EngineTalk>(e, doing)).and_then(|answer| decode(&answer))
    }

    /// Like [`Client::ask`], for a list whose items can be read one by one: the text of the answer if it cannot be read as a whole.
    pub(crate) async fn ask_or_text<T: DeserializeOwned>(
        &self,
        doing: &str,
        request: Request,
    ) -> Result<Result<T, Box<RawValue>>, ClientError> {
        let answer = match self.send(doing, &|| request.clone(), &[], Repeat::Safe).await {
            Ok(answer) => answer,
            Err(CallError::Unreadable { answer: Some(text), .. }) => return Ok(Err(text)),
            Err(e) => return Err(to_error::<EngineTalk>(e, doing)),
        };
        Ok(read(&answer).map_err(|_| answer))
    }

    async fn send(
        &self,
        doing: &str,
        request: &(dyn Fn() -> Request + Sync),
        raw: &[u8],
        repeat: Repeat,
    ) -> Result<Box<RawValue>, CallError> {
        let mut tries = Tries::default();
        loop {
            let link = self.shared.link().await.map_err(CallError::Unsent)?;
            let answered = match &self.relay {
                Some(passing) => passing.call(&link, &self.by, request(), raw).await,
                None => link.call(&self.by, request(), raw).await,
            };
            match answered {
                Ok(answer) => return Ok(answer),
                Err(e) if self.can_redial() && tries.again(&e, Some(&link), repeat).await => {}
                Err(e) => {
                    return Err(match e {
                        CallError::Cut(Cut::Gone(why)) if repeat == Repeat::Safe && self.can_redial() => {
                            tries.gave_up::<EngineTalk>(doing, &why)
                        }
                        other => other,
                    });
                }
            }
        }
    }
}

fn after_some(error: ClientError, done: usize, next: Option<u64>) -> ClientError {
    match (error, next) {
        (ClientError::Refused(mut e), Some(next)) if done > 0 => {
            e.error = format!("{}; the first {done} bytes are written", e.error);
            e.hint = format!("continue with the rest at offset {next}");
            ClientError::Refused(e)
        }
        (error, _) => error,
    }
}

/// Rounded up, so that a remaining time is never cut short.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

pub(crate) fn random_id() -> Result<ProcessId, ClientError> {
    Ok(ProcessId::from_bytes(random()?))
}

/// Random bytes, for ids.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], ClientError> {
    let mut bytes = [0; N];
    let mut drawn = 0;
    while drawn < bytes.len() {
        drawn += rustix::rand::getrandom(&mut bytes[drawn..], rustix::rand::GetRandomFlags::empty()).map_err(|e| {
            ClientError::Unavailable { error: format!("cannot draw an id: {e}"), hint: "the kernel gives no random bytes".into() }
        })?;
    }
    Ok(bytes)
}
