//! Looking for words in the log that is open.

use super::{Detail, Place};
use crate::cli::top::app::Wish;
use crate::cli::top::lines::Words;
use crate::cli::top::reading::{Part, Way};

/// A search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli::top) struct Search {
    pub(in crate::cli::top) words: Words,
    pub(in crate::cli::top) state: Searched,
    /// The line in which they were found last.
    pub(in crate::cli::top) last: Option<u64>,
}

/// How far a search is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli::top) enum Searched {
    /// It has come to this byte.
    Looking(u64),
    Found,
    /// There is none that way.
    Nowhere,
}

impl Detail {
    pub(super) fn search_on(&mut self, way: fn(u64) -> Way) -> Option<Wish> {
        let search = self.search.as_ref()?;
        if self.searching.is_some() {
            return None;
        }
        let from = search.last.unwrap_or_else(|| self.top().at);
        let words = search.words.clone();
        Some(self.look_for(words, way(from)))
    }

    pub(super) fn look_for(&mut self, words: Words, way: Way) -> Wish {
        let of = self.number();
        self.searching = Some(of);
        let (Way::Down(at) | Way::Up(at) | Way::Nearest(at)) = way;
        let last = self.search.as_ref().filter(|s| s.words == words).and_then(|s| s.last);
        self.search = Some(Search { words: words.clone(), state: Searched::Looking(at), last });
        Wish::Search(self.id(), words, way, of)
    }

    /// How far a search has come.
    pub(in crate::cli::top) fn searched(&mut self, of: u64, at: u64) {
        if let Some(search) = &mut self.search
            && self.searching == Some(of)
        {
            search.state = Searched::Looking(at);
        }
    }

    /// A search is over.
    pub(in crate::cli::top) fn found(&mut self, of: u64, at: Option<u64>) -> Vec<Wish> {
        if self.searching != Some(of) {
            return Vec::new();
        }
        self.searching = None;
        let Some(search) = &mut self.search else { return Vec::new() };
        let Some(at) = at else {
            search.state = Searched::Nowhere;
            return Vec::new();
        };
        (search.state, search.last) = (Searched::Found, Some(at));
        let is_held = self.window.from() <= at && at < self.window.to();
        if is_held {
            let mut wishes = if self.place == Place::Following { self.pause() } else { Vec::new() };
            self.show(at);
            wishes.extend(self.wants());
            return wishes;
        }
        vec![self.read(Part::Around(at))]
    }
}
