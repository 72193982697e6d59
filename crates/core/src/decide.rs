//! What may be asked of a process, where it stands.

use crate::{Incarnation, Outcome, Phase, Stop};

/// A caller's wish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// End it.
    Kill(Stop),
    /// Send the command itself this signal.
    Signal(i32),
    /// Put bytes into its input.
    Write,
    /// End its input.
    CloseInput,
    /// Forget it and its files.
    Remove,
}

/// What the edge then does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Have the keeper stop the tree.
    StopTree(Stop),
    /// No keeper is there: stop what descends from this life.
    StopOrphan(Incarnation, Stop),
    /// Have the keeper pass this signal on.
    PassSignal(i32),
    /// No keeper is there: signal this life.
    SignalOrphan(Incarnation, i32),
    /// Have the keeper take the input.
    PassInput,
    /// Have the keeper end the input.
    EndInput,
    /// Delete row and folder.
    Forget,
}

/// Why not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is over.
    #[error("Process has already finished")]
    AlreadyExited {
        /// With what.
        exit_code: Option<i32>,
    },
    /// It takes no input.
    #[error("Process stdin not available (non-local backend or stdin closed)")]
    NoInput,
    /// It runs.
    #[error("the process is still running: stop it first")]
    StillRunning,
    /// It has not started yet.
    #[error("the process is still starting: ask again in a moment")]
    StillStarting,
}

/// Turns a wish into what is to be done, or refuses it. `takes_input`: whether it was started with an input that is still open.
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
