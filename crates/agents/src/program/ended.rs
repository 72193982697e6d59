//! How an agent ended.

use super::agent_session;
use outlast_client::{Fate, ProcessInfo, Reason};

/// How an agent ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It exited with this code.
    Exited(i32),
    /// A signal killed it.
    Killed { signal: String, is_out_of_memory: bool },
    /// It never ran.
    NotStarted(String),
    /// Its end was not observed: the machine or its keepers went down.
    Lost,
}

impl Ended {
    pub(crate) fn of(fate: &Fate) -> Self {
        match (&fate.signal, fate.exit_code.flatten()) {
            (Some(signal), _) => Self::Killed { signal: signal.clone(), is_out_of_memory: fate.oom },
            (None, Some(exit)) => Self::Exited(exit),
            (None, None) if fate.completion_reason == Some(Reason::FailedStart) => {
                Self::NotStarted(fate.start_error.clone().unwrap_or_else(|| "it could not be started".into()))
            }
            (None, None) => Self::Lost,
        }
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exited(exit) => write!(f, "exited with code {exit}"),
            Self::Killed { signal, is_out_of_memory: true } => write!(f, "was killed by {signal} because memory ran out"),
            Self::Killed { signal, is_out_of_memory: false } => write!(f, "was killed by {signal}"),
            Self::NotStarted(why) => write!(f, "could not be started: {why}"),
            Self::Lost => f.write_str("is gone, and its end was not observed"),
        }
    }
}

/// Whether a process that the engine knows is the agent of an attempt whose end was observed or can still be.
pub(crate) fn is_held(info: &ProcessInfo, key: &str) -> bool {
    let is_lost = info.status == outlast_client::Status::Exited && Ended::of(&info.fate) == Ended::Lost;
    info.session_key.as_deref() == Some(agent_session(key).as_str()) && !is_lost
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_in_words() {
        let mut fate = Fate::default();
        assert_eq!(Ended::of(&fate), Ended::Lost);
        fate.exit_code = Some(Some(3));
        assert_eq!(Ended::of(&fate).to_string(), "exited with code 3");
        (fate.exit_code, fate.signal, fate.oom) = (Some(Some(-9)), Some("SIGKILL".into()), true);
        assert_eq!(Ended::of(&fate).to_string(), "was killed by SIGKILL because memory ran out");
    }
}
