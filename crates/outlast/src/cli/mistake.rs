//! Suggestions for mistakes on the command line, and the words of clap's errors in those of the help.

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;

/// Verbs that stop or remove something. They are suggested last, because a user may repeat a suggestion without reading it.
const DESTRUCTIVE: [&str; 6] = ["kill", "stop", "rm", "clean", "restart", "interrupt"];

/// Verbs with a command or a text that may begin with a dash.
const PASSES_WORDS_ON: [&str; 7] = ["run", "acp-proxy", "submit", "write", "chat", "tool", "events"];

/// What clap calls a subcommand is a verb in the help.
const CLAP_WORDS: [(&str, &str); 4] = [
    ("unrecognized subcommand", "unrecognized verb"),
    ("similar subcommand", "similar verb"),
    ("requires a subcommand", "requires a verb"),
    ("[subcommands:", "[verbs:"),
];

/// The error with better suggestions, in the words of the help. `args` is the whole command line.
pub(super) fn explained(mut error: Error, args: &[OsString]) -> Error {
    let words: Vec<&str> = args.iter().skip(1).filter_map(|arg| arg.to_str()).filter(|arg| !arg.starts_with('-')).collect();
    let (verb, next) = (words.first().copied().unwrap_or_default(), words.get(1).copied().unwrap_or_default());
    if let Some(why) = not_of_chat(&error, verb, next, args) {
        return Error::raw(error.kind(), why);
    }
    if let Some(ContextValue::Strings(verbs)) = error.get(ContextKind::SuggestedSubcommand) {
        let verbs = ordered(verbs.clone());
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(verbs));
    }
    let tip = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let wrong = text_of(&error, ContextKind::InvalidSubcommand);
            let tip = if wrong == verb { in_place_of(verb) } else { in_place_of_second(verb, &wrong) };
            if tip.is_some() {
                error.remove(ContextKind::SuggestedSubcommand);
            }
            tip.map(str::to_owned)
        }
        ErrorKind::MissingRequiredArgument => {
            let missing = text_of(&error, ContextKind::InvalidArg);
            match verb {
                "install" => Some(format!("CLIENT is one of {}", super::install::client_names().join(", "))),
                verb if missing.contains("ID") => instead_of_ids(verb).map(str::to_owned),
                _ => None,
            }
        }
        ErrorKind::UnknownArgument => {
            if !PASSES_WORDS_ON.contains(&verb) {
                // clap proposes to pass the flag as a value, which such a verb would take for an id.
                error.remove(ContextKind::Suggested);
            }
            in_place_of_argument(verb, &text_of(&error, ContextKind::InvalidArg))
        }
        ErrorKind::MissingSubcommand => {
            if let Some(ContextValue::Strings(verbs)) = error.get(ContextKind::ValidSubcommand) {
                let shown = verbs.iter().filter(|verb| !verb.starts_with("__")).cloned().collect();
                error.insert(ContextKind::ValidSubcommand, ContextValue::Strings(shown));
            }
            None
        }
        _ => None,
    };
    if let Some(tip) = tip {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    in_words_of_help(error)
}

/// The same error, with verbs called verbs as in the help.
fn in_words_of_help(error: Error) -> Error {
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return error;
    }
    let before = error.render().ansi().to_string();
    let after = CLAP_WORDS.iter().fold(before.clone(), |text, (clap, ours)| text.replace(clap, ours));
    // clap puts its `error: ` before the text again.
    match after.split_once(' ') {
        Some((_, body)) if after != before => Error::raw(error.kind(), body),
        _ => error,
    }
}

/// The refusal of a second word after `chat`, for which clap blames the wrong one.
fn not_of_chat(error: &Error, verb: &str, word: &str, args: &[OsString]) -> Option<String> {
    let is_second_name = error.kind() == ErrorKind::ArgumentConflict && error.get(ContextKind::InvalidSubcommand).is_some();
    if verb != "chat" || !is_second_name {
        return None;
    }
    let tip = match word {
        "rm" | "remove" | "delete" | "del" | "clean" => {
            "a conversation cannot be removed; `/new` in it makes the agent forget what was said"
        }
        _ => "`outlast chat send NAME TEXT` sends a message, `outlast chat --help` lists the commands",
    };
    let what = match args.get(2).is_some_and(|second| second == word) {
        true => format!("`{}` is no command of `outlast chat`", super::one_line::tame(word)),
        // Flags came first, and one of their values may be the first word.
        false => "only one conversation can be named".to_owned(),
    };
    Some(format!("{what}\n\n  tip: {tip}\n"))
}

fn text_of(error: &Error, kind: ContextKind) -> String {
    match error.get(kind) {
        Some(ContextValue::Strings(all)) => all.join(" "),
        Some(ContextValue::String(one)) => one.clone(),
        _ => String::new(),
    }
}

/// The nearest first; clap has it last.
fn ordered(mut verbs: Vec<String>) -> Vec<String> {
    verbs.reverse();
    verbs.sort_by_key(|verb| DESTRUCTIVE.contains(&verb.as_str()));
    verbs
}

/// What does the work of a verb that does not exist.
fn in_place_of(verb: &str) -> Option<&'static str> {
    match verb {
        "start" => {
            Some("`outlast run COMMAND` starts a command, `outlast rerun ID` runs one again, `outlast engine start` starts the engine")
        }
        "exec" => Some("`outlast run COMMAND` starts a command, `outlast attach ID` types into one that runs"),
        "version" => Some("`outlast --version` prints the version"),
        "hooks" => Some("`outlast config show` lists the hooks of the configuration, `outlast hook test NAME` tries one"),
        "rename" => Some("a process keeps its name; `outlast rerun ID --name NEW` runs it again under another one"),
        _ => None,
    }
}

/// The same for a word after a verb.
fn in_place_of_second(verb: &str, word: &str) -> Option<&'static str> {
    match (verb, word) {
        ("hook", "list" | "ls" | "show") => in_place_of("hooks"),
        ("tool", _) => {
            Some("`outlast tool call NAME JSON --profile native` calls a tool of another set; `outlast tool --help` lists the sets")
        }
        ("config", "check" | "test" | "validate" | "verify") => {
            Some("`outlast config show` shows every value and reports what is wrong in the file, `outlast doctor` does as well")
        }
        _ => None,
    }
}

/// What can be given in place of an argument that a verb does not take.
fn in_place_of_argument(verb: &str, word: &str) -> Option<String> {
    if !["list", "ls", "ps"].contains(&verb) || word.starts_with('-') {
        return None;
    }
    let state = super::list::states().into_iter().find(|state| state == word);
    Some(match state {
        Some(state) => format!("use `--state {state}`"),
        None => "use `--name NAME`, `--state STATE` or `--label KEY=VALUE`".to_owned(),
    })
}

/// What can be given in place of ids.
fn instead_of_ids(verb: &str) -> Option<&'static str> {
    match verb {
        "kill" | "stop" => Some("`--all` stops every running process, `--label KEY=VALUE` those with a label"),
        "log" | "logs" | "tail" => Some("`--label KEY=VALUE` shows all processes with a label"),
        "wait" => Some("`--label KEY=VALUE` waits for all processes with a label"),
        "rm" => Some("`outlast clean` removes all finished processes"),
        "status" | "poll" | "show" => Some("`outlast list` shows all processes, `outlast engine status` the engine"),
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

    #[test]
    fn a_mistake_has_a_tip_that_fits() {
        let said = |line: &str| {
            let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            match crate::cli::read(&args) {
                Ok(_) => panic!("{line} is no mistake"),
                Err(e) => e.to_string(),
            }
        };
        for (line, tips) in [
            ("outlast start", &["unrecognized verb 'start'", "`outlast run COMMAND` starts"][..]),
            ("outlast version", &["`outlast --version`"]),
            ("outlast hooks", &["`outlast config show` lists the hooks"]),
            ("outlast hook list", &["`outlast config show` lists the hooks"]),
            ("outlast config check", &["`outlast config show` shows every value"]),
            ("outlast rename a b", &["`outlast rerun ID --name NEW`"]),
            ("outlast exec x", &["`outlast run COMMAND`"]),
            ("outlast install", &["CLIENT is one of claude, codex"]),
            ("outlast list failed", &["use `--state failed`"]),
            ("outlast ps web", &["use `--name NAME`"]),
            ("outlast status", &["`outlast list` shows all processes"]),
            ("outlast chat rm main", &["`rm` is no command of `outlast chat`", "a conversation cannot be removed"]),
            ("outlast chat main hello", &["`main` is no command of `outlast chat`", "`outlast chat send NAME TEXT`"]),
            ("outlast engine statu", &["similar verb", "'status'"]),
            ("outlast nosuch", &["unrecognized verb 'nosuch'", "<VERB>"]),
        ] {
            let said = said(line);
            assert!(tips.iter().all(|tip| said.contains(tip)), "{line}: {said}");
            assert!(!said.contains("subcommand") && !said.contains("COMMAND>"), "{line}: {said}");
            assert!(said.starts_with("error: ") && !said.contains('\x1b'), "{line}: {said:?}");
        }
    }
}
