//! Suggestions for mistakes on the command line, and the words of clap's errors in those of the help.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};
use outlast_core::nearest;
use std::ffi::OsString;

/// Verbs that stop or remove something. They are suggested last, because a user may repeat a suggestion without reading it.
const DESTRUCTIVE: [&str; 6] = ["kill", "stop", "rm", "clean", "restart", "interrupt"];

/// What clap calls a subcommand is a verb in the help.
const CLAP_WORDS: [(&str, &str); 4] = [
    ("unrecognized subcommand", "unrecognized verb"),
    ("similar subcommand", "similar verb"),
    ("requires a subcommand", "requires a verb"),
    ("[subcommands:", "[verbs:"),
];

/// The error with better suggestions, in the words of the help. `args` is the whole command line.
pub(super) fn explained(mut error: Error, args: &[OsString]) -> Error {
    // Help and version are no mistakes.
    if !error.use_stderr() {
        return error;
    }
    let words: Vec<&str> = args.iter().skip(1).filter_map(|arg| arg.to_str()).filter(|arg| !arg.starts_with('-')).collect();
    let (verb, next) = (words.first().copied().unwrap_or_default(), words.get(1).copied().unwrap_or_default());
    if let Some(why) = not_of_chat(&error, verb, next, args) {
        return Error::raw(error.kind(), why);
    }
    keep_near_suggestions(&mut error, &words);
    let tip = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let wrong = text_of(&error, ContextKind::InvalidSubcommand);
            let tip = if wrong == verb { in_place_of(verb).map(str::to_owned) } else { in_place_of_second(verb, &wrong) };
            if tip.is_some() {
                error.remove(ContextKind::SuggestedSubcommand);
            }
            tip
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
            let wrong = text_of(&error, ContextKind::InvalidArg);
            let tip = in_place_of_argument(verb, &wrong).or_else(|| in_place_of_flag(verb, &wrong, args));
            if tip.is_some() {
                error.remove(ContextKind::SuggestedArg);
            }
            tip
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
    in_words_of_help(error, &named(&words).1)
}

/// Removes what clap suggests and what is of no use: words that are not near, and `-- FLAG`, which no verb takes.
fn keep_near_suggestions(error: &mut Error, words: &[&str]) {
    if error.kind() == ErrorKind::InvalidSubcommand {
        let (wrong, (command, _)) = (text_of(error, ContextKind::InvalidSubcommand), named(words));
        let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
        let verbs: Vec<&str> = verbs.flat_map(|verb| std::iter::once(verb.get_name()).chain(verb.get_visible_aliases())).collect();
        let near = ordered(nearest(&wrong, verbs).into_iter().map(str::to_owned).collect());
        match near.is_empty() {
            true => _ = error.remove(ContextKind::SuggestedSubcommand),
            false => _ = error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(near)),
        }
    }
    if let Some(ContextValue::String(flag)) = error.get(ContextKind::SuggestedArg)
        && nearest(&text_of(error, ContextKind::InvalidArg), [flag.as_str()]).is_empty()
    {
        error.remove(ContextKind::SuggestedArg);
    }
    if let Some(ContextValue::StyledStrs(tips)) = error.get(ContextKind::Suggested) {
        let tips: Vec<_> = tips.iter().filter(|tip| !tip.to_string().starts_with("to pass ")).cloned().collect();
        match tips.is_empty() {
            true => _ = error.remove(ContextKind::Suggested),
            false => _ = error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips)),
        }
    }
}

/// The verb that the words name, and how it is typed: `outlast engine status`.
fn named(words: &[&str]) -> (Command, String) {
    let (mut command, mut path) = (super::help::whole_tree(), "outlast".to_owned());
    for word in words {
        let Some(next) = command.find_subcommand(word).cloned() else { break };
        path = format!("{path} {}", next.get_name());
        command = next;
    }
    (command, path)
}

/// How clap's reference to the help begins.
const CLAP_HELP: &str = "For more information, try ";

/// The same error, with verbs called verbs as in the help, and with the help of the verb that was given.
fn in_words_of_help(error: Error, path: &str) -> Error {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return error;
    }
    let before = error.render().ansi().to_string();
    let mut after = CLAP_WORDS.iter().fold(before.clone(), |text, (clap, ours)| text.replace(clap, ours));
    if let Some(at) = after.rfind(CLAP_HELP) {
        after.replace_range(at + CLAP_HELP.len().., &format!("`{path} --help`.\n"));
    }
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

/// In the same order, but those that stop or remove something come last.
fn ordered(mut verbs: Vec<String>) -> Vec<String> {
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
        "add" => Some("`outlast run COMMAND` starts a command"),
        "info" => Some("`outlast poll ID` shows a process, `outlast engine status` the engine"),
        "delete" | "del" | "remove" => Some("`outlast rm ID` removes a finished process, `outlast clean` all of them"),
        "send" => Some("`outlast submit ID LINE` sends a line to the input of a process, `outlast signal ID SIGNAL` a signal"),
        "follow" => Some("`outlast tail ID` follows the output of a process, `outlast events follow` notices"),
        "history" => Some("`outlast list --all` shows finished processes, `outlast events history` notices"),
        "hooks" => Some("`outlast config show` lists the hooks of the configuration, `outlast hook test NAME` tries one"),
        "rename" => Some("a process keeps its name; `outlast rerun ID --name NEW` runs it again under another one"),
        _ => None,
    }
}

/// The same for a word after a verb.
fn in_place_of_second(verb: &str, word: &str) -> Option<String> {
    let word = super::one_line::tame(word);
    match (verb, word.as_str()) {
        ("hook", "list" | "ls" | "show") => in_place_of("hooks").map(str::to_owned),
        ("tool", _) => Some(
            "`outlast tool call NAME JSON --profile native` calls a tool of another set; `outlast tool --help` lists the sets".to_owned(),
        ),
        ("config", "check" | "test" | "validate" | "verify") => {
            Some("`outlast config show` shows every value and reports what is wrong in the file, `outlast doctor` does as well".to_owned())
        }
        ("view", _) => Some(format!("`outlast attach {word}` takes over its terminal, `outlast log {word}` prints its output")),
        _ => None,
    }
}

/// What can be given in place of a flag that another program has.
fn in_place_of_flag(verb: &str, flag: &str, args: &[OsString]) -> Option<String> {
    let first = flag.strip_prefix('-').and_then(|flag| flag.chars().next())?;
    let tip = match (verb, flag) {
        ("log" | "logs" | "tail", _) if first.is_ascii_digit() => {
            // clap names the first digit.
            let lines = args.iter().filter_map(|arg| arg.to_str()?.strip_prefix('-')?.parse::<u64>().ok()).next()?;
            return Some(format!("`-n {lines}` shows the last {lines} lines"));
        }
        ("log" | "logs" | "tail", "-t") => "`--timestamps` shows when each line was printed",
        ("kill" | "stop", "-s" | "--signal" | "-f" | "--force") => KILL_AT_ONCE,
        ("kill" | "stop", _) if first.is_ascii_digit() || first.is_ascii_uppercase() => KILL_AT_ONCE,
        ("run" | "rerun" | "restart", "-d" | "--detach" | "-b" | "--background" | "--bg" | "--daemon") => {
            return Some(format!("{verb} always runs in the background: leave it out"));
        }
        ("up", "-d") => "`--detach` returns as soon as the commands have started",
        ("run", "-i" | "-t" | "--interactive" | "--tty") => "`--pty` gives the command a terminal; then `outlast attach ID` takes it over",
        ("run" | "rerun", "-n") => "`--name NAME` names the process",
        ("run" | "rerun" | "restart", "-e") => "`--env NAME=VALUE` sets a variable, `--env NAME` passes one on",
        _ => return None,
    };
    Some(tip.to_owned())
}

const KILL_AT_ONCE: &str = "`--grace 0` kills at once; `outlast signal ID KILL` sends one signal to the command only";

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
    fn a_verb_that_stops_something_is_suggested_last() {
        let of = |verbs: &[&str]| ordered(verbs.iter().map(|verb| (*verb).to_owned()).collect());
        assert_eq!(of(&["stop", "list", "ls"]), ["list", "ls", "stop"]);
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
            ("outlast info web", &["`outlast poll ID`", "try `outlast --help`."]),
            ("outlast add x", &["`outlast run COMMAND`"]),
            ("outlast delete web", &["`outlast rm ID`"]),
            ("outlast send web hi", &["`outlast submit ID LINE`"]),
            ("outlast follow web", &["`outlast tail ID`"]),
            ("outlast history", &["`outlast events history`", "`outlast list --all`"]),
            ("outlast lst", &["'list', 'ls'\n"]),
            ("outlast kill -9 web", &["`--grace 0` kills at once", "try `outlast kill --help`."]),
            ("outlast stop web -s KILL", &["`outlast signal ID KILL`", "try `outlast kill --help`."]),
            ("outlast kill -KILL web", &["`--grace 0` kills at once"]),
            ("outlast run -d web", &["run always runs in the background: leave it out"]),
            ("outlast run --detach web", &["run always runs in the background: leave it out"]),
            ("outlast rerun web -d", &["rerun always runs in the background: leave it out"]),
            ("outlast run -it web", &["`--pty` gives the command a terminal"]),
            ("outlast run -n web x", &["`--name NAME`"]),
            ("outlast run -e A=1 x", &["`--env NAME=VALUE`"]),
            ("outlast log web -5", &["`-n 5`"]),
            ("outlast tail -100 web", &["`-n 100` shows the last 100 lines"]),
            ("outlast log web -t", &["`--timestamps`"]),
            ("outlast view sh", &["`outlast attach sh` takes over its terminal", "`outlast log sh` prints", "try `outlast view --help`."]),
            ("outlast engine status --jsn", &["similar argument exists: '--json'", "try `outlast engine status --help`."]),
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
            assert!(!said.contains("subcommand") && !said.contains("<COMMAND>\n"), "{line}: {said}");
            assert!(!said.contains("to pass '") && !said.contains("similar argument exists: '--watch'"), "{line}: {said}");
            assert!(said.starts_with("error: ") && !said.contains('\x1b'), "{line}: {said:?}");
        }
        for line in ["outlast foo", "outlast engine foo", "outlast rm -rf web"] {
            let said = said(line);
            assert!(!said.contains("tip:"), "{line}: {said}");
        }
    }
}
