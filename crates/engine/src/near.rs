//! Suggestions for mistyped names of processes.

use outlast_core::{ProcessId, nearest};

/// How many suggestions an error names.
const MOST: usize = 3;
/// Shorter names are not suggested, and get no suggestions: any short name is near any other.
const SHORTEST_NAME: usize = 3;
/// How many characters of a name are shown.
const NAME: usize = 40;

/// A suggestion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Near {
    /// A process, by its id.
    Id(ProcessId),
    /// The process of a name.
    Name(String, ProcessId),
    /// A name that several processes have.
    Names(String),
}

impl std::fmt::Display for Near {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let short = |name: &str| name.chars().take(NAME).collect::<String>();
        match self {
            Self::Id(id) => write!(f, "{id}"),
            Self::Name(name, id) => write!(f, "{} ({id})", short(name)),
            Self::Names(name) => f.write_str(&short(name)),
        }
    }
}

/// Those of `known` (id and name, which may be empty) that `given` may be a mistyped form of: ids with nearly the same digits, or else
/// nearly the same names.
pub(crate) fn near(given: &str, known: &[(ProcessId, &str)]) -> Vec<Near> {
    let named = |name: &str| {
        let mut ids = known.iter().filter(|(_, n)| *n == name).map(|(id, _)| *id);
        match (ids.next(), ids.next()) {
            (Some(id), None) => Near::Name(name.to_owned(), id),
            _ => Near::Names(name.to_owned()),
        }
    };
    let mut found = digits(given, known);
    if found.is_empty() {
        let is_long = |name: &str| name.chars().count() >= SHORTEST_NAME;
        let names = known.iter().map(|(_, name)| *name).filter(|name| is_long(name) && is_long(given));
        let names = nearest(given, names);
        found = names.into_iter().map(named).collect();
    }
    found.truncate(MOST);
    found
}

/// The ids whose first digits are nearly the given ones, or that begin with them.
fn digits(given: &str, known: &[(ProcessId, &str)]) -> Vec<Near> {
    let given = given.strip_prefix("proc_").unwrap_or(given).to_ascii_lowercase();
    let hex: Vec<(ProcessId, String)> = known.iter().map(|(id, _)| (*id, id.to_string().trim_start_matches("proc_").to_owned())).collect();
    let one = |id: &ProcessId| Near::Id(*id);
    let begin: Vec<Near> = hex.iter().filter(|(_, hex)| !given.is_empty() && hex.starts_with(&given)).map(|(id, _)| one(id)).collect();
    if !begin.is_empty() || given.len() < 4 {
        return begin;
    }
    let heads: Vec<&str> = hex.iter().filter_map(|(_, hex)| hex.get(..given.len().min(hex.len()))).collect();
    let near = nearest(&given, heads);
    hex.iter().filter(|(_, hex)| near.iter().any(|head| hex.starts_with(head))).map(|(id, _)| one(id)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_slips_are_understood() {
        let ids: Vec<ProcessId> =
            ["proc_0123456789ab", "proc_fedcba987654", "proc_0fffffffffff"].iter().map(|s| s.parse().unwrap()).collect();
        let known = [(ids[0], "web"), (ids[1], "frontend"), (ids[2], "")];
        let found = |given: &str| near(given, &known).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(found("wbe"), ["web (proc_0123456789ab)"]);
        let twice = [(ids[0], "web"), (ids[1], "web")];
        assert_eq!(near("wbe", &twice), [Near::Names("web".into())]);
        let short = [(ids[0], "a"), (ids[1], "ab"), (ids[2], "abc")];
        assert!(near("x", &short).is_empty() && near("ax", &short).is_empty());
        assert_eq!(found("forntend"), ["frontend (proc_fedcba987654)"]);
        assert_eq!(found("proc_0123456798ab"), ["proc_0123456789ab"]);
        assert_eq!(found("fedbca98"), ["proc_fedcba987654"]);
        assert_eq!(found("0"), ["proc_0123456789ab", "proc_0fffffffffff"]);
        for nothing in ["", "nonsense", "proc_777777777777", "proc_"] {
            assert!(found(nothing).is_empty(), "{nothing}");
        }
    }
}
