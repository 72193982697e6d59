//! What is known of a call while it is answered: when it has to be answered, who makes it, and which process it is about.
//!
//! Decision 390: docs/decisions/tools-mcp.md.

use crate::start_table::StartTable;
use crate::{AboutProcess, Host};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A wait of no time would be one without a limit.
pub(crate) const SHORTEST_WAIT: Duration = Duration::from_millis(1);

/// A call that is being answered.
#[derive(Debug)]
pub(crate) struct ThisCall {
    pub(crate) about: AboutProcess,
    /// The conversation that makes it.
    pub(crate) conversation: Arc<str>,
    /// Starts that take longer than their calls.
    pub(crate) starts: StartTable,
    began: Instant,
    /// When it has to be answered if it names no wait of its own. `None` if its host does not mind.
    answer_by: Option<Instant>,
}

/// How long a call waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CallWait {
    pub(crate) most: Duration,
    /// Whether the call names it. Such a wait stands, whatever came before it.
    pub(crate) is_named: bool,
}

impl CallWait {
    /// No wait at all.
    pub(crate) const NONE: Self = Self { most: Duration::ZERO, is_named: true };
}

impl ThisCall {
    /// A call that begins now.
    pub(crate) fn new(host: &Host, about: AboutProcess, conversation: Arc<str>, starts: StartTable) -> Self {
        let began = Instant::now();
        Self { about, conversation, starts, began, answer_by: host.answer_within.map(|time| began + time) }
    }

    /// How long it waits from now on. What was done before, such as the start of the command, is part of a wait that the call does not name.
    pub(crate) fn left_of(&self, wait: CallWait) -> Duration {
        match self.answer_by.filter(|_| !wait.is_named) {
            Some(by) => wait.most.min(by.saturating_duration_since(Instant::now())),
            None => wait.most,
        }
    }

    /// Until when it waits for the start of its command.
    pub(crate) fn start_by(&self, wait: CallWait) -> Option<Instant> {
        let named = wait.is_named.then(|| self.began.checked_add(wait.most)).flatten();
        self.answer_by.map(|by| named.map_or(by, |named| by.max(named)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_client::caller;

    #[test]
    fn what_was_done_before_a_wait_is_part_of_it_unless_the_call_names_it() {
        let second = Duration::from_secs(1);
        let mut host = Host::new(caller([], std::path::Path::new("/work")));
        let call = |host: &Host| {
            let mut call = ThisCall::new(host, AboutProcess::default(), "a".into(), StartTable::default());
            call.began -= 3 * second;
            call.answer_by = call.answer_by.map(|by| by - 3 * second);
            call
        };
        let (usual, named) = (CallWait { most: 10 * second, is_named: false }, CallWait { most: 10 * second, is_named: true });
        let unhurried = call(&host);
        assert_eq!((unhurried.left_of(usual), unhurried.start_by(usual)), (10 * second, None));
        host.answer_within = Some(4 * second);
        let hurried = call(&host);
        assert!(hurried.left_of(usual) <= second && hurried.left_of(named) == 10 * second);
        assert_eq!(hurried.start_by(usual), hurried.answer_by);
        assert_eq!(hurried.start_by(CallWait::NONE), hurried.answer_by);
        assert_eq!(hurried.start_by(named), Some(hurried.began + 10 * second));
        host.answer_within = Some(2 * second);
        assert_eq!(call(&host).left_of(usual), Duration::ZERO, "its time is over");
    }
}
