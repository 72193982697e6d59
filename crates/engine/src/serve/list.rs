//! `list`: those in a scope, running ones first.
//!
//! Somebody asks for it every second, and most of what it shows is as it was: each process remembers how it was listed last.

use super::{Asked, reading};
use crate::facts::{Facts, Seen};
use crate::render::{Detail, process};
use crate::shared::Shared;
use crate::state::{Listing, Which};
use outlast_core::{ProcessId, Scope, Status, Time};
use outlast_store::meta::{Snapshot, Stamp};
use outlast_wire::v1::{Error, Process};
use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};

/// From so many on, entries that have to be made anew are made by two threads.
const MANY: usize = 64;

/// How a process was listed last.
#[derive(Debug, Default)]
pub(crate) struct Listed(Mutex<Option<Entry>>);

/// An entry as it is answered.
#[derive(Debug)]
struct Entry {
    /// What was known when it was made, and how `meta` was. As long as both are so, it is true.
    facts: Arc<Facts>,
    meta: Option<(File, Stamp)>,
    order: Order,
    /// Its JSON up to its age, and from there on.
    before: String,
    after: String,
}

/// Those that run come first, and the older before the younger.
type Order = (bool, Time, ProcessId);

/// The whole answer, as JSON.
pub(super) async fn list(asked: &Asked, scope: &Scope, all: bool) -> Result<Vec<u8>, Error> {
    let mut listing = asked.engine.listing(&asked.owner, if all { Which::All } else { Which::Live }).await?;
    listing.retain(|l| scope.takes(&l.facts.kept.spec.owner) && (all || !l.facts.phase.is_final()));
    let (shared, scope) = (Arc::clone(asked.shared()), scope.clone());
    let (mut text, mut pieces, mut others) = reading(move || {
        // What only this question or the index can say is not remembered.
        let is_plain = |l: &Listing| l.facts.kept.spec.tell.watch.is_empty() && !scope.by_session_only(&l.facts.kept.spec.owner);
        let (plain, others): (Vec<Listing>, Vec<Listing>) = listing.into_iter().partition(is_plain);
        let (mut text, mut pieces) = (Vec::with_capacity(plain.len() * 512), Vec::with_capacity(plain.len()));
        let now = shared.now();
        for listed in remembered(&shared, plain) {
            let entry = listed.listed.0.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(entry) = entry.as_ref() else { continue };
            let from = text.len();
            text.extend_from_slice(entry.before.as_bytes());
            text.extend_from_slice(age(&entry.facts, now).to_string().as_bytes());
            text.extend_from_slice(entry.after.as_bytes());
            pieces.push((entry.order, from..text.len()));
        }
        let fresh = |l: &Listing| {
            let (_, mut shown) = look(&shared, l);
            shown.session_scoped = scope.by_session_only(&l.facts.kept.spec.owner);
            shown
        };
        let others: Vec<Process> = others.iter().map(fresh).collect();
        Ok((text, pieces, others))
    })
    .await?;
    super::poll::add_watched(asked, &mut others).await?;
    for process in others {
        let from = text.len();
        // An answer holds strings, numbers and lists only, which always serialise.
        serde_json::to_writer(&mut text, &process).expect("an answer serialises");
        pieces.push((order(&process), from..text.len()));
    }
    if !all {
        pieces.retain(|((is_over, ..), _)| !is_over);
    }
    pieces.sort_unstable_by_key(|(order, _)| *order);
    let mut answer = Vec::with_capacity(text.len() + pieces.len() + 32);
    answer.extend_from_slice(b"{\"processes\":[");
    for (n, (_, piece)) in pieces.into_iter().enumerate() {
        if n > 0 {
            answer.push(b',');
        }
        answer.extend_from_slice(&text[piece]);
    }
    answer.extend_from_slice(b"]}");
    Ok(answer)
}

/// The same, each with an entry that is true now.
fn remembered(shared: &Shared, all: Vec<Listing>) -> Vec<Listing> {
    let (known, changed): (Vec<Listing>, Vec<Listing>) = all.into_iter().partition(|l| l.listed.holds(&l.facts));
    let (first, second) = changed.split_at(if changed.len() < MANY { changed.len() } else { changed.len() / 2 });
    let remember = |some: &[Listing]| some.iter().for_each(|l| l.listed.remember(shared, l));
    std::thread::scope(|scope| {
        // A panic there is a panic here.
        let _both = (!second.is_empty()).then(|| scope.spawn(|| remember(second)));
        remember(first);
    });
    known.into_iter().chain(changed).collect()
}

impl Listed {
    fn holds(&self, facts: &Arc<Facts>) -> bool {
        let entry = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entry.as_ref().is_some_and(|entry| {
            let same = || entry.meta.as_ref().is_some_and(|(meta, stamp)| Stamp::read(meta).is_ok_and(|now| now == *stamp));
            Arc::ptr_eq(&entry.facts, facts) && (facts.phase.is_final() || same())
        })
    }

    fn remember(&self, shared: &Shared, of: &Listing) {
        let (meta, mut shown) = look(shared, of);
        let order = order(&shown);
        shown.uptime_seconds = u64::MAX;
        let text = serde_json::to_string(&shown).expect("an answer serialises");
        // Inside of a string the quotes would be escaped, so this is the field.
        let age = format!("\"uptime_seconds\":{}", u64::MAX);
        let (before, after) = text.split_once(&age).expect("every answer has an age");
        let before = format!("{before}\"uptime_seconds\":");
        let entry = Entry { facts: Arc::clone(&of.facts), meta, order, before, after: after.to_owned() };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(entry);
    }
}

/// Looks into the folder. With what to compare it to the next time, where something may still become of the process.
fn look(shared: &Shared, of: &Listing) -> (Option<(File, Stamp)>, Process) {
    let dir = shared.home.process(of.facts.id());
    if of.facts.phase.is_final() {
        // Only the pid and the like are looked up.
        let seen = Seen { meta: Snapshot::read(&dir).ok(), ..Seen::default() };
        return (None, process(shared, &dir, &of.facts, &seen, Detail::Entry));
    }
    // Taken first: what changes meanwhile is seen the next time.
    let stamp = File::open(dir.meta()).and_then(|meta| Stamp::read(&meta).map(|stamp| (meta, stamp))).ok();
    let seen = Seen::look(&dir, of.facts.cursor);
    (stamp, process(shared, &dir, &of.facts.with(&seen), &seen, Detail::Entry))
}

fn order(process: &Process) -> Order {
    (process.status != Status::Running, process.started_at, process.session_id)
}

fn age(facts: &Facts, now: Time) -> u64 {
    facts.ended_at().unwrap_or(now).seconds_since(facts.since())
}
