//! Whoever is to be answered with what their conversation would be told otherwise.

use super::Asked;
use crate::engine::Engine;
use crate::facts::Facts;
use crate::notices::Waiting;
use crate::notices::end_key;

/// One who waits. What they wait for is kept for them when it happens; should they leave without an answer, it is told after all, at once.
pub(crate) struct Awaiting {
    engine: Engine,
    key: String,
    /// Nothing once the answer itself is held.
    waiting: Option<Waiting>,
}

impl Awaiting {
    /// Whoever asks waits for the end of a process, if it is their own conversation's.
    pub(crate) fn end(asked: &Asked, of: &Facts) -> Option<Self> {
        let own = asked.owner.session == of.kept.spec.owner.session;
        own.then(|| Self::begin(asked, end_key(of.id())))
    }

    /// Whoever asks waits for what is told under this key.
    pub(crate) fn begin(asked: &Asked, key: String) -> Self {
        let waiting = Some(asked.shared().waiters.begin(key.clone()));
        Self { engine: asked.engine.clone(), key, waiting }
    }

    /// From here on the answer is held, and says itself what became of it.
    pub(crate) fn held(mut self) {
        self.waiting = None;
    }
}

impl Drop for Awaiting {
    fn drop(&mut self) {
        let Some(waiting) = self.waiting.take() else { return };
        // First, so that nothing is kept for them any more.
        drop(waiting);
        let (engine, key) = (self.engine.clone(), std::mem::take(&mut self.key));
        // Without a runtime there is no engine left that could tell anybody.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { engine.shared().outbox.give_back(key).await });
        }
    }
}
