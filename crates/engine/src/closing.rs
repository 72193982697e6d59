//! How far the end of an engine has come.

use tokio::sync::watch;

/// How far the end of the engine has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Closing {
    /// It has not begun.
    Open,
    /// The engine accepts nothing new.
    Stopping,
    /// Everything is written.
    Closed,
}

/// The end of an engine, for all who have to know of it. Copies are cheap.
#[derive(Debug, Clone)]
pub(crate) struct Shutdown(watch::Sender<Closing>);

impl Default for Shutdown {
    fn default() -> Self {
        Self(watch::Sender::new(Closing::Open))
    }
}

impl Shutdown {
    /// How far it has come.
    pub(crate) fn stage(&self) -> Closing {
        *self.0.borrow()
    }

    /// It has come that far.
    pub(crate) fn set(&self, stage: Closing) {
        self.0.send_replace(stage);
    }

    /// Returns once it has come that far.
    pub(crate) fn reached(&self, stage: Closing) -> impl Future<Output = ()> + Send + use<> {
        let mut closing = self.0.subscribe();
        async move {
            // A sender that is gone means that the engine is closed.
            let _reached = closing.wait_for(|c| *c >= stage).await.map(|_| ());
        }
    }
}
