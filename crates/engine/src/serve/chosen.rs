//! Which of many processes a request is about.

use crate::table::ProcessView;
use outlast_core::{ProcessId, Scope};
use std::collections::HashSet;

/// The processes that a stop or a removal of many is about.
#[derive(Debug)]
pub(super) enum Chosen {
    /// All in a scope.
    In(Scope),
    /// Those that the caller was shown, and no others.
    These(HashSet<ProcessId>),
}

impl Chosen {
    pub(super) fn takes(&self, view: &ProcessView) -> bool {
        match self {
            Self::In(scope) => scope.takes(&view.facts.kept.spec.owner),
            Self::These(ids) => ids.contains(&view.id()),
        }
    }
}
