//! Waits for facts that no descriptor reports.

use anyhow::{Result, ensure};
use std::time::{Duration, Instant};

/// Looks every `pause` until there is something to return, for `patience` at most.
pub(crate) fn until<T>(what: &str, patience: Duration, pause: Duration, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let began = Instant::now();
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        ensure!(began.elapsed() < patience, "never came: {what}");
        std::thread::sleep(pause);
    }
}
