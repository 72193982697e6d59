//! Searches for words in the open log.

use super::{Detail, LogPosition};
use crate::cli::top::command::{LogPart, SearchFrom, TopCommand};
use crate::cli::top::lines::Words;

/// The words of a search, and how far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli::top) struct Search {
    pub(in crate::cli::top) words: Words,
    pub(in crate::cli::top) state: SearchState,
    /// The line of the last match.
    pub(in crate::cli::top) last: Option<u64>,
}

/// The state of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli::top) enum SearchState {
    /// It has reached this byte.
    Looking(u64),
    Found,
    /// There is no match in this direction.
    Nowhere,
}

impl Detail {
    pub(super) fn search_on(&mut self, way: fn(u64) -> SearchFrom) -> Option<TopCommand> {
        let search = self.search.as_ref()?;
        if self.searching.is_some() {
            return None;
        }
        let from = search.last.unwrap_or_else(|| self.top().at);
        let words = search.words.clone();
        Some(self.look_for(words, way(from)))
    }

    pub(super) fn look_for(&mut self, words: Words, way: SearchFrom) -> TopCommand {
        let of = self.number();
        self.searching = Some(of);
        let (SearchFrom::Down(at) | SearchFrom::Up(at) | SearchFrom::Nearest(at)) = way;
        let last = self.search.as_ref().filter(|s| s.words == words).and_then(|s| s.last);
        self.search = Some(Search { words: words.clone(), state: SearchState::Looking(at), last });
        TopCommand::Search(self.id(), words, way, of)
    }

    /// Takes the position of the search.
    pub(in crate::cli::top) fn searched(&mut self, of: u64, at: u64) {
        if let Some(search) = &mut self.search
            && self.searching == Some(of)
        {
            search.state = SearchState::Looking(at);
        }
    }

    /// Takes the end of the search.
    pub(in crate::cli::top) fn found(&mut self, of: u64, at: Option<u64>) -> Vec<TopCommand> {
        if self.searching != Some(of) {
            return Vec::new();
        }
        self.searching = None;
        let Some(search) = &mut self.search else { return Vec::new() };
        let Some(at) = at else {
            search.state = SearchState::Nowhere;
            return Vec::new();
        };
        (search.state, search.last) = (SearchState::Found, Some(at));
        let is_held = self.window.from() <= at && at < self.window.to();
        if is_held {
            let mut commands = if self.place == LogPosition::Following { self.pause() } else { Vec::new() };
            self.show(at);
            commands.extend(self.wants());
            return commands;
        }
        vec![self.read(LogPart::Around(at))]
    }
}
