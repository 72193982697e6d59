//! Whoever is to be answered with what their conversation would be told otherwise.

use super::Asked;
use crate::engine::Engine;
use crate::facts::Facts;
use crate::outbox::end_key;
use crate::waits::Waiting;
use outlast_core::ProcessId;

/// One who waits. What they wait for is kept for them when it happens; should they leave without an answer, it is told after all, at once.
pub(crate) struct Awaiting {
    engine: Engine,
    key: String,
    of: Option<ProcessId>,
    /// Nothing once the answer itself is held.
    waiting: Option<Waiting>,
}

impl Awaiting {
    /// Whoever asks waits for the end of a process, if it is their own conversation's.
    pub(crate) fn end(asked: &Asked, of: &Facts) -> Option<Self> {
        let own = asked.owner.session == of.kept.spec.owner.session;
        own.then(|| Self::begin(asked, end_key(of.id()), Some(of.id())))
    }

    /// Whoever asks waits for what is told under this key.
    pub(crate) fn begin(asked: &Asked, key: String, of: Option<ProcessId>) -> Self {
        let waiting = Some(asked.shared().waits.begin(key.clone()));
        Self { engine: asked.engine.clone(), key, of, waiting }
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
        let (engine, key, of) = (self.engine.clone(), std::mem::take(&mut self.key), self.of);
        // Without a runtime there is no engine left that could tell anybody.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { engine.shared().outbox.give_back(key, of).await });
        }
    }
}
