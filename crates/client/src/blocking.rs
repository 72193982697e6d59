//! The same client for programs without an async runtime. Its types have the names of those that they wrap, so that a program changes its
//! `use` line and nothing else.
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
use outlast_wire::v1::notice::{Barrier, BarrierTarget, Dead, DeadLetter, History, Judged, Notices, Posted, Replay, Told, Verdict};
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
    runtime: Arc<BlockingRuntime>,
    inner: crate::Client,
}

/// Methods that pass on their arguments and wait.
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

    /// Uses a socket that is connected to an engine already.
    pub fn over(stream: std::os::unix::net::UnixStream) -> Result<Self, ClientError> {
        let runtime = runtime()?;
        let inner = runtime.block_on(async {
            let stream = stream.set_nonblocking(true).and_then(|()| tokio::net::UnixStream::from_std(stream));
            crate::Client::over(stream.map_err(cannot_run)?).await
        })?;
        Ok(Self { runtime, inner })
    }

    /// The same connection, for requests of `owner`.
    pub fn with_owner(&self, owner: Owner) -> Self {
        Self { runtime: self.runtime.clone(), inner: self.inner.with_owner(owner) }
    }

    /// Starts a command, and returns its id once it runs or has failed to.
    pub fn run(&self, run: Run) -> Result<ProcessId, ClientError> {
        Ok(self.run_info(run)?.session_id)
    }

    waits! {
        /// Like [`Client::run`], and returns the engine's description of the new process.
        run_info(run: Run) -> ProcessInfo;
        /// Runs the command of another process again.
        rerun(process: &str, caller: Caller, env: Vec<EnvVar>) -> ProcessInfo;
        /// The same, with another name or command.
        rerun_changed(process: &str, caller: Caller, env: Vec<EnvVar>, change: RerunChange) -> ProcessInfo;
        /// Stops a process and its whole tree, and starts its command again.
        restart(process: &str, caller: Caller, env: Vec<EnvVar>, grace: Option<Duration>) -> Restarted;
        /// The processes in a scope: the running ones, and with `all` the finished ones, too.
        list(scope: &Scope, all: bool) -> Vec<ProcessInfo>;
        /// Describes a process.
        poll(process: &str) -> ProcessInfo;
        /// A page of output, without escape sequences and with secrets masked.
        log(process: &str, page: Page) -> LogPage;
        /// Waits for the end, at most this long.
        wait(process: &str, timeout: Option<Duration>) -> Waited;
        /// Cancels the waiting calls of a session; its processes keep running.
        interrupt(session: &str) -> Done;
        /// Reports that the conversation has ended, if it is a session over HTTP.
        end_conversation() -> Done;
        /// Stops a process and its whole tree.
        kill(process: &str, kill: Kill) -> Killed;
        /// Stops every running process in a scope.
        kill_all(scope: &Scope, kill: Kill) -> KillAll;
        /// Stops these processes as [`Client::kill_all`] does: the notices of their ends are not settled.
        kill_these(processes: &[ProcessId], kill: Kill) -> KillAll;
        /// Sends a signal to the command itself.
        signal(process: &str, number: i32) -> Killed;
        /// Writes to the input of a process.
        write(process: &str, bytes: &[u8], at: At) -> Written;
        /// Writes a line to the input of a process.
        submit(process: &str, line: &[u8], at: At) -> Written;
        /// Closes the input of a process.
        close(process: &str) -> Written;
        /// Changes the size of a process's terminal.
        resize(process: &str, rows: u16, cols: u16) -> Done;
        /// Detaches the views of a process.
        view_close(process: &str) -> ViewClosed;
        /// Removes a finished process.
        remove(process: &str) -> Removed;
        /// Removes every finished process in a scope.
        clean(scope: &Scope) -> Cleaned;
        /// Removes those of these processes that are finished.
        clean_these(processes: &[ProcessId]) -> Cleaned;
        /// Whether anything is active.
        active(about: Activity) -> bool;
        /// Whether anything is active, and how many processes run in the home.
        activity(about: Activity) -> Active;
        /// How many processes run in the home.
        count_running() -> u64;
        /// Adopts living processes that Outlast did not start.
        adopt(from: AdoptFrom) -> Adopted;
        /// The state of the engine.
        engine_status() -> EngineStatus;
        /// Takes the next notices of the owner's session.
        take(take: &Take) -> Notices;
        /// Settles notices that were taken.
        settle(ids: &[&str], lease: Option<&str>, verdict: Verdict) -> Judged;
        /// Posts a notice to the owner's session.
        post(id: Option<&str>, event: Map<String, Value>, route: Route) -> Posted;
        /// Reads notices, also settled ones, and changes nothing.
        history(wanted: History) -> Vec<Told>;
        /// Delivers notices again.
        replay(what: Replay) -> u64;
        /// The dead letters of sinks.
        dead_letters(limit: Option<u32>) -> Vec<DeadLetter>;
        /// The dead letters of sinks, and how many each sink has in all.
        dead(limit: Option<u32>) -> Dead;
        /// Whether the owner of a process has seen its end.
        is_completion_consumed(process: &str) -> bool;
        /// Marks the end of a process as seen by its owner.
        mark_completion_consumed(process: &str) -> ();
        /// Sets a barrier and waits until it opens.
        until(until: BarrierTarget) -> Barrier;
        /// Sets a barrier and waits for at most this long.
        until_within(until: BarrierTarget, at_most: Duration) -> Barrier;
        /// Sets a barrier and does not wait.
        set_until(until: BarrierTarget) -> Barrier;
        /// The barriers of the owner's session.
        barriers() -> Vec<Barrier>;
        /// Clears the barriers of the owner's session.
        clear_barriers() -> Vec<Barrier>;
        /// Ends the engine, and returns once it has released the home.
        engine_stop() -> Done;
        /// Ends the engine so that another one can follow, and returns once it has released the home. Every process keeps running.
        engine_hand_over() -> Done;
    }

    /// Every notice as it is made, after the notice `after` or from now on. Following settles no notice.
    pub fn follow_notices(&self, after: Option<u64>) -> Followed {
        Followed { runtime: self.runtime.clone(), inner: self.inner.follow_notices(after), failed: false }
    }

    /// The output so far, as bytes.
    pub fn read(&self, process: &str, from: From) -> Chunks {
        Chunks { runtime: self.runtime.clone(), inner: self.inner.read(process, from) }
    }

    /// The output so far and all that follows, as bytes, until it is closed.
    pub fn follow(&self, process: &str, from: From) -> Chunks {
        Chunks { runtime: self.runtime.clone(), inner: self.inner.follow(process, from) }
    }

    /// Like [`Client::follow`], and continues until the command has ended.
    pub fn follow_to_exit(&self, process: &str, from: From) -> Chunks {
        Chunks { runtime: self.runtime.clone(), inner: self.inner.follow_to_exit(process, from) }
    }

    /// Like [`Client::follow_to_exit`], as a view that can be detached.
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
    runtime: Arc<BlockingRuntime>,
    inner: crate::Chunks,
}

impl Chunks {
    /// The byte after the last one that was returned, once it is known.
    pub fn next_byte(&self) -> Option<u64> {
        self.inner.next_byte()
    }

    /// Whether the output is closed, so that no more will come. Known at the end.
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

/// Notices as they are made, up to the first error.
pub struct Followed {
    runtime: Arc<BlockingRuntime>,
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

/// A runtime that is driven while a call waits.
struct BlockingRuntime(Option<Runtime>);

impl BlockingRuntime {
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        // Only the destructor takes it.
        self.0.as_ref().expect("the runtime is there").block_on(future)
    }
}

impl Drop for BlockingRuntime {
    fn drop(&mut self) {
        // A thread that waits for a lock must not delay a caller that no longer needs the answer.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

fn runtime() -> Result<Arc<BlockingRuntime>, ClientError> {
    Builder::new_current_thread().enable_all().build().map(|r| Arc::new(BlockingRuntime(Some(r)))).map_err(cannot_run)
}

fn cannot_run(error: std::io::Error) -> ClientError {
    ClientError::Unavailable { error: format!("cannot wait for an engine: {error}"), hint: "too many files may be open".into() }
}
