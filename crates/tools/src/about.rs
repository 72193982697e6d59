//! Which process a call is about.

use outlast_client::ProcessId;
use std::sync::{Arc, OnceLock};

/// The process that a call is about. Known as soon as it was started or looked up, also if the call is then cancelled.
#[derive(Debug, Clone, Default)]
pub struct AboutProcess(Arc<OnceLock<ProcessId>>);

impl AboutProcess {
    /// Notes it. The first one counts.
    pub fn set(&self, process: ProcessId) {
        // A call is about one process. A second lookup gives the same.
        let _same = self.0.set(process);
    }

    /// The process, if it is known.
    pub fn get(&self) -> Option<ProcessId> {
        self.0.get().copied()
    }
}
