//! Parts in the order of their turns.

use outlast_client::{Content, Part, PartKind};
use std::collections::BTreeMap;

/// The parts by turn, in the order in which the turns were accepted, so that a message that waited is followed by its reply. A line without
/// a turn stays after the part before it; if that part is a waiting message, after what the agent has written so far.
pub(super) fn by_turn(parts: &[Part]) -> Vec<(Option<u64>, Vec<&Part>)> {
    let last_of: BTreeMap<Option<u64>, u64> = parts.iter().map(|part| (part.turn, part.id)).collect();
    let mut turns: Vec<(Option<u64>, Vec<&Part>)> = Vec::new();
    let (mut at_work, mut before) = (None, None);
    for part in parts {
        let is_kept = matches!(part.content(), Content::Line(body) if body.about.as_deref() == Some("kept"));
        let is_at_work = |at: &usize| last_of[&turns[*at].0] > part.id;
        let known = match part.turn {
            Some(turn) => turns.iter().rposition(|(of, _)| *of == Some(turn)),
            None => at_work.filter(is_at_work).filter(|_| !is_kept).or(before),
        };
        let at = known.unwrap_or_else(|| {
            turns.push((part.turn, Vec::new()));
            turns.len() - 1
        });
        turns[at].1.push(part);
        before = Some(at);
        if part.turn.is_some() && part.kind != PartKind::Words {
            at_work = Some(at);
        }
    }
    turns
}
