//! `list`: those in a scope, running ones first.
//!
//! Somebody asks for it every second, and most of what it shows is as it was: each process remembers how it was listed last.

use super::{Asked, reading};
use crate::facts::{Facts, Seen};
use crate::left_behind::{Look, may_have_left};
use crate::render::{Detail, process};
use crate::shared::Shared;
use crate::state::{Listing, Which};
use outlast_core::{ProcessId, Scope, Status, Time};
use outlast_store::meta::{Snapshot, Stamp, Stamped};
use outlast_wire::v1::{Error, Process};
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
    meta: Held,
    order: Order,
    /// Whether it runs, or something that it left does.
    runs: bool,
    /// From when on its age is counted, and until when.
    since: Time,
    until: Option<Time>,
    /// Its JSON up to its age, and from there on.
    before: String,
    after: String,
}

/// What tells whether the folder is still as it was when an entry was made.
#[derive(Debug)]
enum Held {
    /// Nothing becomes of it any more.
    Final,
    /// As long as this file has this stamp.
    Until(Stamped, Box<Stamp>),
    /// It could not be read as it should be: the next look may say more.
    Never,
}

/// Those that run come first, and the older before the younger.
type Order = (bool, Time, ProcessId);

/// The whole answer, as JSON.
pub(super) async fn list(asked: &Asked, scope: &Scope, all: bool) -> Result<Vec<u8>, Error> {
    let mut listing = asked.engine.listing(&asked.owner, Which::All).await?;
    // One that is over is listed among those that run while something that it started does.
    listing.retain(|l| scope.takes(&l.facts.kept.spec.owner) && (all || !l.facts.is_over() || may_have_left(&l.facts.phase)));
    let (shared, scope) = (Arc::clone(asked.shared()), scope.clone());
    let (mut text, mut pieces, mut others) = reading(move || {
        // What only this question or the index can say is not remembered.
        let is_plain = |l: &Listing| l.facts.kept.spec.tell.watch.is_empty() && !scope.by_session_only(&l.facts.kept.spec.owner);
        let (plain, others): (Vec<Listing>, Vec<Listing>) = listing.into_iter().partition(is_plain);
        let (mut text, mut pieces) = (Vec::with_capacity(plain.len() * 512), Vec::with_capacity(plain.len()));
        let now = shared.now();
        let left = shared.leftovers.look();
        for listed in remembered(&shared, plain, &left) {
            let entry = listed.listed.0.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(entry) = entry.as_ref().filter(|entry| all || entry.runs) else { continue };
            let from = text.len();
            text.extend_from_slice(entry.before.as_bytes());
            text.extend_from_slice(entry.until.unwrap_or(now).seconds_since(entry.since).to_string().as_bytes());
            text.extend_from_slice(entry.after.as_bytes());
            pieces.push((entry.order, from..text.len()));
        }
        let fresh = |l: &Listing| {
            let (_, _, mut shown) = look(&shared, l, &left);
            shown.session_scoped = scope.by_session_only(&l.facts.kept.spec.owner);
            shown
        };
        let others: Vec<Process> = others.iter().map(fresh).filter(|shown| all || runs(shown)).collect();
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
fn remembered(shared: &Shared, all: Vec<Listing>, left: &Look) -> Vec<Listing> {
    let (known, changed): (Vec<Listing>, Vec<Listing>) = all.into_iter().partition(|l| l.listed.holds(&l.facts));
    let (first, second) = changed.split_at(if changed.len() < MANY { changed.len() } else { changed.len() / 2 });
    let remember = |some: &[Listing]| some.iter().for_each(|l| l.listed.remember(shared, l, left));
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
            Arc::ptr_eq(&entry.facts, facts)
                && match &entry.meta {
                    Held::Final => true,
                    Held::Until(meta, stamp) => meta.read().is_ok_and(|now| now == **stamp),
                    Held::Never => false,
                }
        })
    }

    fn remember(&self, shared: &Shared, of: &Listing, left: &Look) {
        let (meta, facts, mut shown) = look(shared, of, left);
        let (order, runs) = (order(&shown), runs(&shown));
        shown.uptime_seconds = u64::MAX;
        let text = serde_json::to_string(&shown).expect("an answer serialises");
        // Inside of a string the quotes would be escaped, so this is the field, which is never left out.
        let age = format!("\"uptime_seconds\":{}", u64::MAX);
        let (before, after) = text.split_once(&age).expect("a process has an age");
        let before = format!("{before}\"uptime_seconds\":");
        let (since, until) = (facts.since(), facts.ended_at());
        let entry = Entry { facts: Arc::clone(&of.facts), meta, order, runs, since, until, before, after: after.to_owned() };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(entry);
    }
}

/// Looks into the folder. How long that is true, what is known with it, and how it is shown.
fn look(shared: &Shared, of: &Listing, left: &Look) -> (Held, Facts, Process) {
    let dir = shared.home.process(of.facts.id());
    let is_final = of.facts.phase.is_final();
    // Taken first: what changes meanwhile is seen the next time.
    let held = match Stamped::open(&dir).and_then(|meta| Ok((Box::new(meta.read()?), meta))) {
        Ok(_) if is_final => Held::Final,
        Ok((stamp, meta)) => Held::Until(meta, stamp),
        Err(_) => Held::Never,
    };
    // Of one that is over only the pid and the like are looked up.
    let seen = if is_final { Seen { meta: Snapshot::read(&dir).ok(), ..Seen::default() } } else { Seen::look(&dir, of.facts.cursor) };
    let facts = if is_final { Facts::clone(&of.facts) } else { of.facts.with(&seen) };
    let shown = process(&shared.redactor, &dir, &facts, &seen, Detail::Entry, shared.now(), left);
    let is_whole = seen.meta.is_some() && shown.warnings.len() == facts.kept.warnings.len();
    // What is left running may end without a word to its folder.
    let may_end = !shown.left.is_empty() || (!is_final && may_have_left(&facts.phase));
    (if is_whole && !may_end { held } else { Held::Never }, facts, shown)
}

/// Whether it runs, or something that it left does.
fn runs(process: &Process) -> bool {
    process.status == Status::Running || !process.left.is_empty()
}

fn order(process: &Process) -> Order {
    (process.status != Status::Running, process.started_at, process.session_id)
}
