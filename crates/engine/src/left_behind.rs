//! Processes that a command leaves running after its end: which they are, as far as that can be proven, and how they are shown.
//!
//! Decisions 261 and 285: docs/decisions/stop.md.

use crate::facts::{Facts, FolderLook, LocalFacts};
use crate::final_record;
use crate::masks::Finder;
use crate::orphan::{Environments, OwnPlaces, Tree, TreeMember};
use outlast_core::{Incarnation, Phase, limits};
use outlast_store::dir::ProcessDir;
use outlast_store::meta::Snapshot;
use outlast_store::os::{boot_id, runs_on};
use outlast_text::{Redactor, head_chars, strip};
use outlast_wire::v1::LeftProcess;
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

/// Finds what finished processes have left running. Copies are cheap.
#[derive(Debug, Clone)]
pub(crate) struct Leftovers {
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) own: OwnPlaces,
}

impl Leftovers {
    pub(crate) fn look(&self) -> LeftoverSearch {
        LeftoverSearch { of: self.clone(), environments: OnceLock::new() }
    }

    /// The rest of the tree of a finished process. None if it never ran.
    pub(crate) fn tree_of(&self, dir: &ProcessDir, facts: LocalFacts<'_>) -> Option<Tree> {
        let seen = FolderLook::look(dir, 0);
        let root = final_record::started_as(&seen)?;
        Some(self.tree(dir, facts, root, seen.meta.as_ref()))
    }

    fn tree(&self, dir: &ProcessDir, facts: LocalFacts<'_>, root: Incarnation, meta: Option<&Snapshot>) -> Tree {
        let left = meta.map(|meta| meta.left.clone()).unwrap_or_default();
        Tree::new(&self.own, facts.id(), root, facts.detached).after_the_end(&self.own, left, dir.clone())
    }

    /// An operating-system process as callers see it, without the secrets of the process of ours that started it.
    pub(crate) fn shown(&self, facts: &Facts, named: &TreeMember) -> LeftProcess {
        let arguments: Vec<Cow<'_, str>> = named.arguments.iter().map(|argument| Cow::Borrowed(argument.as_str())).collect();
        let line = self.redactor.arguments(&arguments).join(" ");
        // A shell may have put the values of variables into the arguments.
        let finder = facts.kept.masks.as_ref().and_then(Finder::new);
        let line = finder.map_or_else(|| line.clone(), |finder| finder.masked(&line));
        // An argument may be a shell command line with secrets of its own.
        let masked = self.redactor.command_line(&line);
        LeftProcess::new(named.life.pid, head_chars(&one_line(&masked), limits::LIST_PREVIEW_CHARS).text)
    }
}

/// A search for what finished processes have left running. The processes of the machine are read once for all of them.
#[derive(Debug)]
pub(crate) struct LeftoverSearch {
    of: Leftovers,
    environments: OnceLock<Environments>,
}

impl LeftoverSearch {
    /// What one process has left running, if its record says that there may be something. Those that have ended since are left out.
    pub(crate) fn at(&self, dir: &ProcessDir, facts: &Facts, meta: Option<&Snapshot>) -> Vec<LeftProcess> {
        let Some(facts) = facts.local().filter(|facts| may_have_left(&facts.phase)) else { return Vec::new() };
        let root = match &facts.phase {
            // Its keepers may have died before they wrote its identity into `meta`.
            Phase::Lost { .. } => final_record::started_as(&FolderLook::look(dir, 0)),
            _ => meta.and_then(Snapshot::command),
        };
        // Nothing of an earlier boot runs. After a reboot there may be many such records.
        let Some(root) = root.filter(|root| boot_id().is_ok_and(|boot| boot == root.boot)) else { return Vec::new() };
        let members = self.of.tree(dir, facts, root, meta).members_among(self.environments());
        let mut left: Vec<Incarnation> = members.into_iter().filter(runs_on).collect();
        left.sort_by_key(|life| (life.start_ticks, life.pid));
        // A process that has ended since has no arguments, and is not listed.
        left.into_iter()
            .map(TreeMember::of)
            .filter(|named| !named.arguments.is_empty())
            .map(|named| self.of.shown(&facts, &named))
            .collect()
    }

    /// Whether a stop of all processes has to handle a finished one: its output is still open, or a process of its tree was found.
    pub(crate) fn has_left(&self, dir: &ProcessDir, facts: &Facts) -> bool {
        match &facts.phase {
            Phase::Draining { .. } => true,
            _ if facts.local().is_none() => false,
            _ if self.environments().has(facts.id()) => true,
            phase => may_have_left(phase) && !self.at(dir, facts, Snapshot::read(dir).ok().as_ref()).is_empty(),
        }
    }

    /// The process ids in the environments of the machine's processes.
    fn environments(&self) -> &Environments {
        self.environments.get_or_init(Environments::read)
    }
}

/// Whether a finished process may have left something, by its record. A lost one always may: no keeper saw its end.
pub(crate) fn may_have_left(phase: &Phase) -> bool {
    match phase {
        Phase::Draining { .. } | Phase::Lost { .. } => true,
        Phase::Done { output, .. } => output.left_running > 0,
        Phase::Accepted | Phase::Running { .. } | Phase::Stopping { .. } | Phase::Orphaned { .. } => false,
    }
}

/// A text that a program chose, on one line and without control sequences.
fn one_line(text: &str) -> String {
    let words = strip(text);
    let words = words.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}
