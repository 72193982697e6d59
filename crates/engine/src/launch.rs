//! Asks for keepers, and has them start commands.

use crate::fork_server::{ForkServer, pair};
use crate::link::Link;
use crate::points::point;
use crate::program::KeeperStarter;
use outlast_core::ProcessId;
use outlast_store::dir::{Home, ProcessDir};
use outlast_store::meta::Image;
use rustix::net::SocketType;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// How long a keeper that is not to start its command may take to leave the folder.
const LEAVING: Duration = Duration::from_secs(1);

/// Where a keeper comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeeperSource {
    /// The fork server.
    ForkServer,
    /// The program, executed for this process alone.
    Program,
}

/// Makes keepers for the processes of a home.
#[derive(Debug)]
pub(crate) struct Launcher {
    home: Home,
    pub(crate) starter: Arc<KeeperStarter>,
    pub(crate) fork_server: Arc<ForkServer>,
}

impl Launcher {
    pub(crate) fn new(home: &Home, starter: KeeperStarter) -> Self {
        let starter = Arc::new(starter);
        Self { home: home.clone(), fork_server: Arc::new(ForkServer::new(home, &starter)), starter }
    }

    /// Asks for a keeper of the process.
    pub(crate) async fn ask(&self, id: ProcessId, source: KeeperSource) -> io::Result<PreparedKeeper> {
        let (ours, theirs) = pair(SocketType::STREAM)?;
        // The engine holds the live copy from before the keeper can start a command. So it knows the result, whichever keeper is killed.
        let (dir, image) = (self.home.process(id), Arc::new(Image::new()?));
        image.hold(&dir);
        match source {
            KeeperSource::ForkServer => self.fork_server.ask(id, &theirs, &image).await?,
            KeeperSource::Program => {
                let mut child = self.starter.spawn(&dir.path, theirs, Some(&image)).await?;
                tokio::spawn(async move {
                    // Only reaps the keeper. How it ended is in the folder.
                    match child.wait().await {
                        Ok(status) if status.success() => {}
                        Ok(status) => tracing::warn!(%id, %status, "a keeper failed"),
                        Err(error) => tracing::warn!(%id, %error, "cannot wait for a keeper"),
                    }
                });
            }
        }
        Ok(PreparedKeeper { link: Link::given(ours.into())?, dir })
    }
}

/// A keeper that has prepared itself to start a command, and waits for the engine's go-ahead. Its result is in the folder.
#[derive(Debug)]
pub(crate) struct PreparedKeeper {
    link: Link,
    dir: ProcessDir,
}

impl PreparedKeeper {
    /// Has it start the command. It reports news on this connection, or leaves.
    pub(crate) async fn go(mut self) -> io::Result<Link> {
        point!("run.before_spawn");
        self.link.go().await?;
        point!("run.after_spawn");
        Ok(self.link)
    }

    /// Has it leave without starting the command, and returns when it has left.
    pub(crate) async fn call_off(mut self) {
        if tokio::time::timeout(LEAVING, self.link.call_off()).await.is_err() {
            tracing::warn!("a keeper that was called off does not leave; it will find nothing to start");
        }
        Image::forget(&self.dir);
    }
}
