//! The stages in which an engine ends.

use tokio::sync::watch;

/// A stage of the engine's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Closing {
    /// It has not begun.
    Open,
    /// The engine accepts nothing new.
    Stopping,
    /// Everything is written.
    Closed,
}

/// The stage of an engine, shared by its tasks. Copies are cheap.
#[derive(Debug, Clone)]
pub(crate) struct Shutdown(watch::Sender<Closing>);

impl Default for Shutdown {
    fn default() -> Self {
        Self(watch::Sender::new(Closing::Open))
    }
}

impl Shutdown {
    /// The current stage.
    pub(crate) fn stage(&self) -> Closing {
        *self.0.borrow()
    }

    /// Enters a stage.
    pub(crate) fn set(&self, stage: Closing) {
        self.0.send_replace(stage);
    }

    /// Returns once the engine has reached this stage.
    pub(crate) fn reached(&self, stage: Closing) -> impl Future<Output = ()> + Send + use<> {
        let mut closing = self.0.subscribe();
        async move {
            // A sender that is gone means that the engine is closed.
            let _reached = closing.wait_for(|c| *c >= stage).await.map(|_| ());
        }
    }
}
