//! `list`: the processes in a scope, running ones first.

use super::context::{RequestContext, reading};
use crate::left_behind::may_have_left;
use crate::listing::{Lister, Listing, order, remembered, runs};
use crate::table::WhichProcesses;
use outlast_core::{ProcessId, Scope};
use outlast_wire::v1::{Error, Process};
use std::collections::HashSet;
use std::sync::Arc;

/// The whole answer, as JSON. Processes of another conversation that is open are in it only with `all`.
pub(super) async fn list(asked: &RequestContext, scope: &Scope, all: bool) -> Result<Vec<u8>, Error> {
    let mut listing = asked.parts.table.listing(&asked.owner, WhichProcesses::All).await?;
    // A finished process is listed as running while something that it started runs.
    listing.retain(|l| scope.takes(&l.facts.kept.spec.owner) && (all || !l.facts.is_over() || may_have_left(&l.facts.phase)));
    let others: HashSet<ProcessId> = listing.iter().map(|l| l.facts.id()).filter(|id| asked.is_of_another(*id)).collect();
    listing.retain(|l| all || !others.contains(&l.facts.id()));
    let (parts, scope) = (&asked.parts, scope.clone());
    let (home, redactor) = (parts.home.clone(), Arc::clone(&parts.redactor));
    let lister = Lister { home, redactor, left: parts.leftovers.look(), now: parts.now() };
    let (mut text, mut pieces, mut rest) = reading(move || {
        // Fields that depend on this request or on the index are not cached.
        let is_plain = |l: &Listing| {
            let spec = &l.facts.kept.spec;
            spec.tell.watch.is_empty() && !scope.by_session_only(&spec.owner) && !others.contains(&l.facts.id())
        };
        let (plain, rest): (Vec<Listing>, Vec<Listing>) = listing.into_iter().partition(is_plain);
        let (mut text, mut pieces) = (Vec::with_capacity(plain.len() * 512), Vec::with_capacity(plain.len()));
        for listed in remembered(&lister, plain) {
            pieces.extend(listed.listed.write(&mut text, lister.now, |runs| all || runs));
        }
        let fresh = |l: &Listing| {
            let mut shown = lister.entry(l);
            shown.other_conversation = others.contains(&l.facts.id());
            shown.session_scoped = scope.by_session_only(&l.facts.kept.spec.owner);
            shown
        };
        let rest: Vec<Process> = rest.iter().map(fresh).filter(|shown| all || runs(shown)).collect();
        Ok((text, pieces, rest))
    })
    .await?;
    super::poll::add_watched(asked, &mut rest).await?;
    for process in rest {
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
