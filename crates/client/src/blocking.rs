//! The same, for programs without an async runtime.
//!
//! ```
//! use outlast_client::blocking::Client;
//! use outlast_client::{Chunk, Connect, From, Run, Scope, Spec, caller};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let product = outlast_testkit::product::Product::running();
//! # let (home, program) = (product.home().root, product.program());
//! let client = Client::connect(&Connect::to(home).starting(program))?;
//! let here = caller(std::env::vars_os(), &std::env::current_dir()?);
//! let id = client.run(Run::new(Spec::shell("echo hello"), here))?.to_string();
//! let output: Vec<Chunk> = client.follow(&id, From::Byte(0)).collect::<Result<_, _>>()?;
//! assert_eq!(output, [Chunk::Bytes { at: 0, bytes: b"hello\n".to_vec() }]);
//! assert_eq!(client.wait(&id, None)?.fate.exit_code, Some(Some(0)));
//! assert_eq!(client.list(&Scope::default(), true)?.len(), 1);
//! # Ok(())
//! # }
//! ```

use crate::{At, Chunk, ClientError, Connect, Run, Take};
use outlast_core::Route;
use outlast_core::{EnvVar, Owner, ProcessId, Scope};
use outlast_wire::v1::notice::{Barrier, DeadLetter, History, Judged, Notices, Posted, Replay, Told, Until, Verdict};
use outlast_wire::v1::{
    Active, Activity, AdoptFrom, Adopted, Caller, Cleaned, Done, EngineStatus, From, Kill, KillAll, Killed, LogPage, Page,
    Process as ProcessInfo, Removed, RerunChange, Restarted, ViewClosed, Waited, Written,
};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// [`crate::Client`] with methods that block. Must not be used inside an async runtime.
#[derive(Clone)]
pub struct Client {
    runtime: Arc<Waiter>,
    inner: crate::Client,
}

/// Methods that pass their arguments on and wait.
macro_rules! waits {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty),*) -> $out:ty;)*) => {
        $($(#[$doc])* pub fn $name(&self, $($arg: $ty),*) -> Result<$out, ClientError> {
            self.runtime.block_on(self.inner.$name($($arg),*))
        })*
    };
}

impl Client {
    /// Connects to the engine of a home, and starts one if need be.
    pub fn connect(to: &Connect) -> Result<Self, ClientError> {
        let runtime = runtime()?;
        let inner = runtime.block_on(crate::Client::connect(to))?;
        Ok(Self { runtime, inner })
    }

    /// Speaks over a socket that leads to an engine already.
    pub fn over(stream: std::os::unix::net::UnixStream) -> Result<Self, ClientError> {
        let runtime = runtime()?;
        let inner = runtime.block_on(async {
            let stream = stream.set_nonblocking(true).and_then(|()| tokio::net::UnixStream::from_std(stream));
            crate::Client::over(stream.map_err(cannot_run)?).await
        })?;
        Ok(Self { runtime, inner })
    }

    /// The same connection, speaking for `owner`.
    pub fn with_owner(&self, owner: Owner) -> Self {
        Self { runtime: self.runtime.clone(), inner: self.inner.with_owner(owner) }
    }

    /// Starts a command, and returns its id once it runs or has failed to.
    pub fn run(&self, run: Run) -> Result<ProcessId, ClientError> {
        Ok(self.run_info(run)?.session_id)
    }

    waits! {
        /// Like [`Client::run`], with what the engine said about the new process.
        run_info(run: Run) -> ProcessInfo;
        /// Starts again what another process ran.
        rerun(process: &str, caller: Caller, env: Vec<EnvVar>) -> ProcessInfo;
        /// The same, with something else changed: the name or the command.
        rerun_changed(process: &str, caller: Caller, env: Vec<EnvVar>, change: RerunChange) -> ProcessInfo;
        /// Stops a process and its whole tree, and starts its command again.
        restart(process: &str, caller: Caller, env: Vec<EnvVar>, grace: Option<Duration>) -> Restarted;
        /// The processes in a scope: those that run, and with `all` the finished ones too.
        list(scope: &Scope, all: bool) -> Vec<ProcessInfo>;
        /// How a process is.
        poll(process: &str) -> ProcessInfo;
        /// A page of output, as readers see it.
        log(process: &str, page: Page) -> LogPage;
        /// Waits for the end, at most this long.
        wait(process: &str, timeout: Option<Duration>) -> Waited;
        /// Lets go of the waits of a conversation.
        interrupt(session: &str) -> Done;
        /// Stops a process and its whole tree.
        kill(process: &str, kill: Kill) -> Killed;
        /// Stops every running process in a scope.
        kill_all(scope: &Scope, kill: Kill) -> KillAll;
        /// Stops these processes, as a stop of a scope does: no notice of their ends is settled.
        kill_these(processes: &[ProcessId], kill: Kill) -> KillAll;
        /// Sends a signal to the command itself.
        signal(process: &str, number: i32) -> Killed;
        /// Writes into the input of a process.
        write(process: &str, bytes: &[u8], at: At) -> Written;
        /// Writes a line into the input of a process.
        submit(process: &str, line: &[u8], at: At) -> Written;
        /// Ends the input of a process.
        close(process: &str) -> Written;
        /// Changes the size of a process's terminal.
        resize(process: &str, rows: u16, cols: u16) -> Done;
        /// Tells whoever looks at a process to leave.
        view_close(process: &str) -> ViewClosed;
        /// Forgets a finished process.
        remove(process: &str) -> Removed;
        /// Forgets every finished process in a scope.
        clean(scope: &Scope) -> Cleaned;
        /// Forgets these processes, if they are finished.
        clean_these(processes: &[ProcessId]) -> Cleaned;
        /// Whether something is active.
        active(about: Activity) -> bool;
        /// Whether something is active, and how many run in the home.
        activity(about: Activity) -> Active;
        /// How many processes run in the home.
        count_running() -> u64;
        /// Takes in living processes that somebody else started.
        adopt(from: AdoptFrom) -> Adopted;
        /// How the engine is.
        engine_status() -> EngineStatus;
        /// The next notices of the owner's conversation.
        take(take: &Take) -> Notices;
        /// Says what became of notices that were taken.
        settle(ids: &[&str], lease: Option<&str>, verdict: Verdict) -> Judged;
        /// Tells the owner's conversation something.
        post(id: Option<&str>, event: Map<String, Value>, route: Route) -> Posted;
        /// Reads notices, settled ones too, and changes nothing.
        history(wanted: History) -> Vec<Told>;
        /// Offers notices again.
        replay(what: Replay) -> u64;
        /// What sinks gave up on.
        dead_letters(limit: Option<u32>) -> Vec<DeadLetter>;
        /// Whether the owner of a process has seen its end.
        is_completion_consumed(process: &str) -> bool;
        /// Says that the owner of a process has seen its end.
        mark_completion_consumed(process: &str) -> ();
        /// Sets a barrier and waits until it opens.
        until(until: Until) -> Barrier;
        /// Sets a barrier and waits for at most this long.
        until_within(until: Until, at_most: Duration) -> Barrier;
        /// Sets a barrier and does not wait.
        set_until(until: Until) -> Barrier;
        /// The barriers of the owner's conversation.
        barriers() -> Vec<Barrier>;
        /// Takes the barriers of the owner's conversation away.
        clear_barriers() -> Vec<Barrier>;
        /// Ends the engine, and returns when it has let go.
        engine_stop() -> Done;
        /// Ends the engine so that another one can follow, and returns when it has let go. Every process keeps running.
        engine_hand_over() -> Done;
    }

    /// Every notice as it is made, from behind `after` or from now on. Looking on settles nothing.
    pub fn follow_notices(&self, after: Option<u64>) -> Followed {
        Followed { runtime: self.runtime.clone(), inner: self.inner.follow_notices(after), failed: false }
    }

    /// The output there is, as bytes.
    pub fn read(&self, process: &str, from: From) -> Chunks {
        Chunks { runtime: self.runtime.clone(), inner: self.inner.read(process, from) }
    }

    /// The output there is and all that comes, as bytes, until it is closed.
    pub fn follow(&self, process: &str, from: From) -> Chunks {
        Chunks { runtime: self.runtime.clone(), inner: self.inner.follow(process, from) }
    }

    /// Like [`Client::follow`], and then until the command is over.
    pub fn follow_to_exit(&self, process: &str, from: From) -> Chunks {
        Chunks { runtime: self.runtime.clone(), inner: self.inner.follow_to_exit(process, from) }
    }

    /// Like [`Client::follow_to_exit`], for somebody who looks on and can be told to leave.
    pub fn view(&self, process: &str, from: From) -> Chunks {
        Chunks { runtime: self.runtime.clone(), inner: self.inner.view(process, from) }
    }

    /// Like [`Client::follow_to_exit`], for a real terminal.
    pub fn attach(&self, process: &str, from: From, read_only: bool) -> Chunks {
        Chunks { runtime: self.runtime.clone(), inner: self.inner.attach(process, from, read_only) }
    }
}

/// Output from an offset on, piece by piece.
pub struct Chunks {
    runtime: Arc<Waiter>,
    inner: crate::Chunks,
}

impl Chunks {
    /// The byte after the last one that was returned, once it is known.
    pub fn next_byte(&self) -> Option<u64> {
        self.inner.next_byte()
    }

    /// Whether the output is closed, so that nothing will ever follow. Known at the end.
    pub fn closed(&self) -> bool {
        self.inner.closed()
    }

    /// Whether it ended because the view was closed.
    pub fn view_closed(&self) -> bool {
        self.inner.view_closed()
    }
}

impl Iterator for Chunks {
    type Item = Result<Chunk, ClientError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.runtime.block_on(self.inner.next()).transpose()
    }
}

/// Notices as they are made, up to the first failure.
pub struct Followed {
    runtime: Arc<Waiter>,
    inner: crate::Followed,
    failed: bool,
}

impl Iterator for Followed {
    type Item = Result<Told, ClientError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.runtime.block_on(self.inner.next());
        self.failed = next.is_err();
        Some(next)
    }
}

/// A runtime that is driven while somebody waits.
struct Waiter(Option<Runtime>);

impl Waiter {
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        // Only the destructor takes it out.
        self.0.as_ref().expect("the runtime is there").block_on(future)
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        // A thread that waits for a lock must not hold up whoever has no more use for the answer.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

fn runtime() -> Result<Arc<Waiter>, ClientError> {
    Builder::new_current_thread().enable_all().build().map(|r| Arc::new(Waiter(Some(r)))).map_err(cannot_run)
}

fn cannot_run(error: std::io::Error) -> ClientError {
    ClientError::Unavailable { error: format!("cannot wait for an engine: {error}"), hint: "too many files may be open".into() }
}
