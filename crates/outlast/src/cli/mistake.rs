//! Suggestions for mistakes on the command line.

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Verbs that stop or remove something. They are suggested last, because a user may repeat a suggestion without reading it.
const DESTRUCTIVE: [&str; 6] = ["kill", "stop", "rm", "clean", "restart", "interrupt"];

/// The error with better suggestions. `verb` is the one that was typed.
pub(super) fn explained(mut error: Error, verb: Option<&str>) -> Error {
    if let Some(ContextValue::Strings(verbs)) = error.get(ContextKind::SuggestedSubcommand) {
        let verbs = ordered(verbs.clone());
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(verbs));
    }
    if error.kind() == ErrorKind::MissingRequiredArgument
        && let Some(tip) = verb.and_then(instead_of_ids)
        && is_about_ids(&error)
    {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// The nearest first; clap has it last.
fn ordered(mut verbs: Vec<String>) -> Vec<String> {
    verbs.reverse();
    verbs.sort_by_key(|verb| DESTRUCTIVE.contains(&verb.as_str()));
    verbs
}

fn is_about_ids(error: &Error) -> bool {
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(missing)) => missing.iter().any(|arg| arg.contains("ID")),
        Some(ContextValue::String(missing)) => missing.contains("ID"),
        _ => false,
    }
}

/// What can be given in place of ids.
fn instead_of_ids(verb: &str) -> Option<&'static str> {
    match verb {
        "kill" | "stop" => Some("`--all` stops every running process, `--label KEY=VALUE` those with a label"),
        "log" | "logs" | "tail" => Some("`--label KEY=VALUE` shows all processes with a label"),
        "wait" => Some("`--label KEY=VALUE` waits for all processes with a label"),
        "rm" => Some("`outlast clean` removes all finished processes"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_verb_is_suggested_first_and_one_that_stops_something_last() {
        let of = |verbs: &[&str]| ordered(verbs.iter().map(|verb| (*verb).to_owned()).collect());
        assert_eq!(of(&["stop", "ls", "list"]), ["list", "ls", "stop"]);
        assert_eq!(of(&["top", "stop"]), ["top", "stop"]);
    }
}
