//! One process, by its id.

use crate::{At, Chunks, Client, ClientError, Run};
use outlast_core::ProcessId;
use outlast_wire::v1::{From, Kill, Killed, LogPage, Page, Process as ProcessInfo, Removed, Waited, Written};
use std::time::Duration;

/// A handle on one process. It holds only the id: dropping it does not affect the process.
///
/// ```
/// # use outlast_client::{At, Client, Connect, Run, Spec, caller};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let product = outlast_testkit::product::Product::running();
/// # let client = Client::connect(&Connect::to(product.home().root)).await?;
/// # let here = caller(std::env::vars_os(), &product.work());
/// let sum = client.run(Run::new(Spec::shell("read a b; echo $((a * b))").with_input(), here)).await?;
/// sum.submit(b"6 7", At::End).await?;
/// assert_eq!(sum.wait(None).await?.output, "42\n");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Process {
    client: Client,
    id: ProcessId,
    name: String,
}

impl Client {
    /// A handle on a process by its id. The id is looked up when the handle is used.
    pub fn process(&self, id: ProcessId) -> Process {
        Process::new(self.clone(), id)
    }

    /// Starts a command, and returns once it runs or could not be started. If the engine crashes, the request is repeated, and the
    /// command is still started once.
    ///
    /// ```
    /// # use outlast_client::{Client, Connect, Run, Spec, caller};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let product = outlast_testkit::product::Product::running();
    /// # let client = Client::connect(&Connect::to(product.home().root)).await?;
    /// # let dir = product.work();
    /// let here = caller(std::env::vars_os(), &dir);
    /// let spec = Spec::argv(["sh", "-c", "echo $GREETING"]).named("greeter").with_env("GREETING", "hello");
    /// let process = client.run(Run::new(spec, here)).await?;
    /// assert_eq!(process.poll().await?.name.as_deref(), Some("greeter"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run(&self, run: Run) -> Result<Process, ClientError> {
        let info = self.run_info(run).await?;
        Ok(self.process(info.session_id))
    }
}

impl Process {
    pub(crate) fn new(client: Client, id: ProcessId) -> Self {
        Self { client, id, name: id.to_string() }
    }

    /// Its id.
    pub fn id(&self) -> ProcessId {
        self.id
    }

    /// Describes it.
    pub async fn poll(&self) -> Result<ProcessInfo, ClientError> {
        self.client.poll(&self.name).await
    }

    /// A page of its output.
    pub async fn log(&self, page: Page) -> Result<LogPage, ClientError> {
        self.client.log(&self.name, page).await
    }

    /// Its output so far, as bytes.
    pub fn read(&self, from: From) -> Chunks {
        self.client.read(&self.name, from)
    }

    /// Its output until it is closed, as bytes.
    pub fn follow(&self, from: From) -> Chunks {
        self.client.follow(&self.name, from)
    }

    /// Waits for its end, at most this long.
    pub async fn wait(&self, timeout: Option<Duration>) -> Result<Waited, ClientError> {
        self.client.wait(&self.name, timeout).await
    }

    /// Stops it and its whole tree.
    pub async fn kill(&self, kill: Kill) -> Result<Killed, ClientError> {
        self.client.kill(&self.name, kill).await
    }

    /// Sends the command itself a signal.
    pub async fn signal(&self, number: i32) -> Result<Killed, ClientError> {
        self.client.signal(&self.name, number).await
    }

    /// Writes to its input.
    pub async fn write(&self, bytes: &[u8], at: At) -> Result<Written, ClientError> {
        self.client.write(&self.name, bytes, at).await
    }

    /// Writes a line to its input.
    pub async fn submit(&self, line: &[u8], at: At) -> Result<Written, ClientError> {
        self.client.submit(&self.name, line, at).await
    }

    /// Closes its input.
    pub async fn close(&self) -> Result<Written, ClientError> {
        self.client.close(&self.name).await
    }

    /// Removes it if it has ended.
    pub async fn remove(&self) -> Result<Removed, ClientError> {
        self.client.remove(&self.name).await
    }
}
