//! The entries of lists. Clients request lists every second and most entries are unchanged, so each process caches its last entry.

use crate::facts::{Facts, FolderLook};
use crate::left_behind::{LeftoverSearch, may_have_left};
use crate::mutex::lock;
use crate::render::{Detail, process, ran_until};
use outlast_core::{ProcessId, Status, Time};
use outlast_store::dir::Home;
use outlast_store::meta::{Snapshot, Stamp, Stamped};
use outlast_text::Redactor;
use outlast_wire::v1::Process;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// A process to be listed.
pub(crate) struct Listing {
    pub(crate) facts: Arc<Facts>,
    pub(crate) listed: Arc<LastEntry>,
}

/// If at least this many entries have changed, two threads make them.
const MANY: usize = 64;

/// The cached entry of a process.
#[derive(Debug, Default)]
pub(crate) struct LastEntry(Mutex<Option<ListEntry>>);

/// An entry as it is answered.
#[derive(Debug)]
struct ListEntry {
    /// The facts that it was made from, and the state of `meta` then. It is valid while both are unchanged.
    facts: Arc<Facts>,
    meta: EntryValidity,
    order: Order,
    /// Whether the process runs, or something that it left running.
    runs: bool,
    /// The times between which its age is counted.
    since: Time,
    until: Option<Time>,
    /// Its JSON up to its age, and from there on.
    before: String,
    after: String,
}

/// How long an entry is valid.
#[derive(Debug)]
enum EntryValidity {
    /// The facts are final.
    Final,
    /// Valid while this file has this stamp.
    Until(Stamped, Box<Stamp>),
    /// The folder could not be read, so the next request reads it again.
    Never,
}

/// Running processes come first, and older ones before younger ones.
pub(crate) type Order = (bool, Time, ProcessId);

/// What an entry is made with.
pub(crate) struct Lister {
    pub(crate) home: Home,
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) left: LeftoverSearch,
    pub(crate) now: Time,
}

impl Lister {
    /// Makes the entry of a process anew.
    pub(crate) fn entry(&self, of: &Listing) -> Process {
        let (_, _, shown) = self.look(of);
        shown
    }

    /// Reads the folder. Returns how long that is valid, the facts, and the entry.
    fn look(&self, of: &Listing) -> (EntryValidity, Facts, Process) {
        let dir = self.home.process(of.facts.id());
        let is_final = of.facts.phase.is_final();
        // Read first, so that a change in between is seen the next time.
        let held = match Stamped::open(&dir).and_then(|meta| Ok((Box::new(meta.read()?), meta))) {
            Ok(_) if is_final => EntryValidity::Final,
            Ok((stamp, meta)) => EntryValidity::Until(meta, stamp),
            Err(_) => EntryValidity::Never,
        };
        // For a finished process only `meta` is read.
        let seen = if is_final {
            FolderLook { meta: Snapshot::read(&dir).ok(), ..FolderLook::default() }
        } else {
            FolderLook::look(&dir, of.facts.cursor)
        };
        let facts = if is_final { Facts::clone(&of.facts) } else { of.facts.with(&seen) };
        let shown = process(&self.redactor, &dir, &facts, &seen, Detail::Entry, self.now, &self.left);
        let is_whole = seen.meta.is_some() && shown.warnings.len() == facts.kept.warnings.len();
        // Left-over processes may end without a change in the folder.
        let may_end = !shown.left.is_empty() || (!is_final && may_have_left(&facts.phase));
        (if is_whole && !may_end { held } else { EntryValidity::Never }, facts, shown)
    }
}

/// Makes the entries that are not valid any more.
pub(crate) fn remembered(lister: &Lister, all: Vec<Listing>) -> Vec<Listing> {
    let (known, changed): (Vec<Listing>, Vec<Listing>) = all.into_iter().partition(|l| l.listed.holds(&l.facts));
    let (first, second) = changed.split_at(if changed.len() < MANY { changed.len() } else { changed.len() / 2 });
    let remember = |some: &[Listing]| some.iter().for_each(|l| l.listed.remember(lister, l));
    std::thread::scope(|scope| {
        // A panic there is a panic here.
        let _both = (!second.is_empty()).then(|| scope.spawn(|| remember(second)));
        remember(first);
    });
    known.into_iter().chain(changed).collect()
}

impl LastEntry {
    /// Appends the entry as JSON with its current age, if it is wanted. Returns its range in the text, and its place in the order.
    pub(crate) fn write(&self, text: &mut Vec<u8>, now: Time, is_wanted: impl Fn(bool) -> bool) -> Option<(Order, Range<usize>)> {
        let entry = lock(&self.0);
        let entry = entry.as_ref().filter(|entry| is_wanted(entry.runs))?;
        let from = text.len();
        text.extend_from_slice(entry.before.as_bytes());
        text.extend_from_slice(entry.until.unwrap_or(now).seconds_since(entry.since).to_string().as_bytes());
        text.extend_from_slice(entry.after.as_bytes());
        Some((entry.order, from..text.len()))
    }

    fn holds(&self, facts: &Arc<Facts>) -> bool {
        let entry = lock(&self.0);
        entry.as_ref().is_some_and(|entry| {
            Arc::ptr_eq(&entry.facts, facts)
                && match &entry.meta {
                    EntryValidity::Final => true,
                    EntryValidity::Until(meta, stamp) => meta.read().is_ok_and(|now| now == **stamp),
                    EntryValidity::Never => false,
                }
        })
    }

    fn remember(&self, lister: &Lister, of: &Listing) {
        let (meta, facts, mut shown) = lister.look(of);
        let (order, runs) = (order(&shown), runs(&shown));
        shown.uptime_seconds = u64::MAX;
        let text = serde_json::to_string(&shown).expect("an answer serialises");
        // Inside of a string the quotes would be escaped, so this is the field, which is never left out.
        let age = format!("\"uptime_seconds\":{}", u64::MAX);
        let (before, after) = text.split_once(&age).expect("a process has an age");
        let before = format!("{before}\"uptime_seconds\":");
        let (since, until) = (facts.since(), ran_until(&facts, shown.last_output_at));
        let entry = ListEntry { facts: Arc::clone(&of.facts), meta, order, runs, since, until, before, after: after.to_owned() };
        *lock(&self.0) = Some(entry);
    }
}

/// Whether the process runs, or something that it left running.
pub(crate) fn runs(process: &Process) -> bool {
    process.status == Status::Running || !process.left.is_empty()
}

pub(crate) fn order(process: &Process) -> Order {
    (process.status != Status::Running, process.started_at, process.session_id)
}
