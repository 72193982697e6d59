//! The processes that a request about several of them means.

use crate::table::ProcessView;
use outlast_core::{ProcessId, Scope};
use std::collections::HashSet;

/// The processes that a request stops or removes.
#[derive(Debug)]
pub(super) enum Chosen {
    /// All in a scope.
    In(Scope),
    /// Only those that the caller named.
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
