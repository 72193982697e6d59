//! What may be asked of a process in each phase.

use crate::{Incarnation, Outcome, Phase, Stop};

/// A caller's request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// End it.
    Kill(Stop),
    /// Send the command itself this signal.
    Signal(i32),
    /// Put bytes into its input.
    Write,
    /// Close its input.
    CloseInput,
    /// Delete the process and its files.
    Remove,
}

/// What the engine does to fulfil a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Have the keeper stop the tree.
    StopTree(Stop),
    /// Stop the descendants of this incarnation without a keeper.
    StopOrphan(Incarnation, Stop),
    /// Have the keeper send this signal to the command.
    PassSignal(i32),
    /// Send this signal to this incarnation without a keeper.
    SignalOrphan(Incarnation, i32),
    /// Have the keeper write to the input.
    PassInput,
    /// Have the keeper close the input.
    EndInput,
    /// Delete the index row and the folder.
    Forget,
}

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The process has ended.
    #[error("Process has already finished")]
    AlreadyExited {
        /// Its exit code, if it is known.
        exit_code: Option<i32>,
    },
    /// The process has no input, or its input was closed.
    #[error("Process stdin not available (non-local backend or stdin closed)")]
    NoInput,
    /// The process is running.
    #[error("the process is still running: stop it first")]
    StillRunning,
    /// The process has not started yet.
    #[error("the process is still starting: ask again in a moment")]
    StillStarting,
}

/// Returns what to do for a request, or why it is refused. `takes_input`: whether it was started with an input that is still open.
pub fn decide(phase: &Phase, ask: Ask, takes_input: bool) -> Result<Action, Refusal> {
    let over = |outcome: Option<&Outcome>| Refusal::AlreadyExited { exit_code: outcome.and_then(Outcome::exit_code) };
    match (phase, ask) {
        (Phase::Done { .. } | Phase::Lost { .. } | Phase::Draining { .. }, Ask::Remove) if phase.is_final() => Ok(Action::Forget),
        (_, Ask::Remove) => Err(Refusal::StillRunning),
        (Phase::Draining { ending } | Phase::Done { ending, .. }, _) => Err(over(Some(&ending.outcome))),
        (Phase::Lost { .. }, _) => Err(over(None)),
        (Phase::Accepted, _) => Err(Refusal::StillStarting),
        (Phase::Running { .. } | Phase::Stopping { .. }, Ask::Kill(stop)) => Ok(Action::StopTree(stop)),
        (Phase::Running { .. } | Phase::Stopping { .. }, Ask::Signal(n)) => Ok(Action::PassSignal(n)),
        (Phase::Running { .. } | Phase::Stopping { .. }, Ask::Write) if takes_input => Ok(Action::PassInput),
        (Phase::Running { .. } | Phase::Stopping { .. }, Ask::CloseInput) if takes_input => Ok(Action::EndInput),
        (Phase::Orphaned { of }, Ask::Kill(stop)) => Ok(Action::StopOrphan(*of, stop)),
        (Phase::Orphaned { of }, Ask::Signal(n)) => Ok(Action::SignalOrphan(*of, n)),
        (Phase::Running { .. } | Phase::Stopping { .. } | Phase::Orphaned { .. }, Ask::Write | Ask::CloseInput) => Err(Refusal::NoInput),
    }
}
