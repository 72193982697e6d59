//! The breaker: after three starts in a row that each found an interrupted turn, the gateway resumes nothing by itself.

use std::time::Duration;

use outlast_core::Time;

/// The breaker opens at this many starts in a chain: one restart may be a coincidence, and two may be an upgrade that went wrong.
pub const BREAKER_STARTS: usize = 3;

/// Two starts belong to one chain if at most this much time lies between them. It covers a turn of a few minutes that ends by killing the
/// gateway, each time.
pub const BREAKER_MAX_GAP: Duration = Duration::from_secs(300);

/// One start of the gateway, as its row in `run` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunStart {
    /// When the gateway started.
    pub at: Time,
    /// Whether it found an interrupted turn, or interrupted one that it found running, and the gateway before it was not stopped by a user.
    pub has_found_interrupted: bool,
}

/// Whether interrupted turns are held back for this run. People and new notices pass either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breaker {
    /// Interrupted turns are resumed.
    Closed,
    /// Interrupted turns wait for a person.
    Open,
}

/// Judges `starts`, oldest first and with this start at the end. A start ahead of the one after it breaks the chain: the clock was stepped
/// back, so the gap between them is unknown.
pub fn judge(starts: &[RunStart]) -> Breaker {
    let Some(chain) = starts.last_chunk::<BREAKER_STARTS>() else { return Breaker::Closed };
    let has_found = chain.iter().all(|start| start.has_found_interrupted);
    let is_close = chain.windows(2).all(|pair| {
        let gap = i128::from(pair[1].at.micros()) - i128::from(pair[0].at.micros());
        u128::try_from(gap).is_ok_and(|gap| gap <= BREAKER_MAX_GAP.as_micros())
    });
    if has_found && is_close { Breaker::Open } else { Breaker::Closed }
}
