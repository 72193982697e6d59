//! `--help`: the verbs in groups, and examples for each verb.
//!
//! Every visible verb has one entry in [`VERBS`]. Descriptions and aliases come from the definitions of the verbs. `tests/it/help.rs` runs every example.

use super::Cli;
use super::out::columns;
use super::table::wrap_beside;
use clap::{Command, CommandFactory as _};
use std::ffi::OsString;
use std::fmt::Write as _;

/// A group of `outlast --help`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum VerbGroup {
    Everyday,
    Input,
    Notices,
    Agents,
    Machine,
}

use VerbGroup::{Agents, Everyday, Input, Machine, Notices};

/// The groups, in the order in which they are shown.
const GROUPS: [(VerbGroup, &str); 5] =
    [(Everyday, "Everyday"), (Input, "Input and terminals"), (Notices, "Notices"), (Agents, "Agents"), (Machine, "This machine")];

/// The verbs in the order in which they are shown: name, group, examples.
const VERBS: &[(&str, VerbGroup, [&str; 2])] = &[
    (
        "run",
        Everyday,
        ["outlast run --name web --until 'Listening on' --timeout 30s npm start", "outlast run --notify 'make build && make test'"],
    ),
    ("list", Everyday, ["outlast list --all", "outlast list --state failed --sort ended"]),
    ("top", Everyday, ["outlast top", "outlast top --all --every 5s"]),
    ("poll", Everyday, ["outlast poll web", "outlast poll web --json"]),
    ("log", Everyday, ["outlast log web -n 20", "outlast log web --since 10m --grep 'GET|POST'"]),
    ("tail", Everyday, ["outlast tail build", "outlast tail build tests"]),
    ("wait", Everyday, ["outlast wait build", "outlast wait build tests --timeout 1h30m"]),
    ("until", Everyday, ["outlast until build --timeout 1h30m", "outlast until --at 14:30 --no-wait"]),
    ("kill", Everyday, ["outlast kill web", "outlast kill --all --older 1h30m --dry-run"]),
    ("restart", Everyday, ["outlast restart web", "outlast restart web --grace 10s"]),
    ("rerun", Everyday, ["outlast rerun build", "outlast rerun build --env CI=1 --follow"]),
    ("rm", Everyday, ["outlast rm build", "outlast rm build tests"]),
    ("clean", Everyday, ["outlast clean --failed --dry-run", "outlast clean --older 2d --yes"]),
    ("up", Everyday, ["outlast up", "outlast up Procfile --detach"]),
    ("attach", Input, ["outlast attach shell", "outlast attach shell --read-only"]),
    ("write", Input, ["outlast write repl 'no newline is added'", "outlast write repl - < answers.txt"]),
    ("submit", Input, ["outlast submit repl 'print(6 * 7)'", "outlast submit repl - < answers.txt"]),
    ("close", Input, ["outlast close repl", "outlast close repl --json"]),
    ("signal", Input, ["outlast signal web HUP", "outlast signal web repl CONT"]),
    ("view", Input, ["outlast view close shell", "outlast view close shell --json"]),
    ("events", Notices, ["outlast events", "outlast events next --wait 10m --json"]),
    ("prompt", Notices, ["outlast prompt", r#"eval "$(outlast prompt bash)""#]),
    ("install", Agents, ["outlast install claude --print", "outlast install codex --undo"]),
    ("mcp", Agents, ["outlast mcp", "outlast mcp --http"]),
    ("acp-proxy", Agents, ["outlast acp-proxy -- kimi acp", "outlast acp-proxy -- opencode acp"]),
    ("hook", Agents, ["outlast hook claude < stop.json", "outlast hook test ops"]),
    ("tool", Agents, [r#"outlast tool terminal '{"command": "make test"}'"#, r#"outlast tool process '{"action": "list"}'"#]),
    ("interrupt", Agents, ["outlast interrupt --session chat-7", "outlast interrupt --session chat-7 --json"]),
    ("chat", Agents, ["outlast chat notes --command 'wc -w'", "outlast chat send notes --command 'wc -w' --wait 'count these words'"]),
    ("gateway", Agents, ["outlast gateway status", "outlast gateway stop --timeout 5m"]),
    ("doctor", Machine, ["outlast doctor", "outlast doctor --quick --json"]),
    ("report", Machine, ["outlast report", "outlast report --no-commands --to report.tar.gz"]),
    ("config", Machine, ["outlast config show", "outlast config path"]),
    ("engine", Machine, ["outlast engine status", "outlast engine restart"]),
    ("active", Machine, ["outlast active", "outlast active --session chat-7 || echo 'nothing runs'"]),
    ("adopt", Machine, ["outlast adopt $(cat server.pid)", "outlast adopt checkpoint.json"]),
    ("completions", Machine, ["source <(outlast completions bash)", "outlast completions fish > outlast.fish"]),
];

/// `help VERB` means `VERB --help` and `version` means `--version`, as with other programs, and `chat help` means `chat --help`: no conversation is named `help`.
pub(crate) fn as_flag(mut args: Vec<OsString>) -> Vec<OsString> {
    if let [_, verb, asked] = &mut args[..]
        && (*verb == "chat" || *verb == "gateway")
        && *asked == "help"
    {
        *asked = "--help".into();
    }
    if args.get(1).is_some_and(|verb| verb == "version") {
        args[1] = "--version".into();
    }
    if args.get(1).is_some_and(|verb| verb == "help") {
        args.remove(1);
        args.retain(|arg| arg != "--help" && arg != "-h");
        args.push("--help".into());
    }
    args
}

/// The command line. Only a call that asks for help pays for the texts, and one about a verb for that verb's only.
pub(crate) fn command_for(args: &[OsString]) -> Command {
    let is_asked = args.len() < 2 || args.iter().any(|arg| arg == "--help" || arg == "-h");
    if !is_asked {
        return in_words(Cli::command());
    }
    let verb = args.iter().skip(1).find(|arg| !arg.as_encoded_bytes().starts_with(b"-"));
    match verb.and_then(|verb| VERBS.iter().find(|(name, ..)| verb == name)) {
        Some((name, _, examples)) => in_words(Cli::command()).mut_subcommand(*name, |verb| with_examples(verb, examples)),
        None => in_groups(columns()),
    }
}

/// The command line with examples, for manual pages.
pub(crate) fn with_all_examples() -> Command {
    VERBS
        .iter()
        .fold(in_words(whole_tree()), |command, (name, _, examples)| command.mut_subcommand(*name, |verb| with_examples(verb, examples)))
}

/// The command line with descriptions and flags of all verbs. While it parses, clap defines only those of the verb that is called.
pub(crate) fn whole_tree() -> Command {
    let mut command = Cli::command();
    command.build();
    command
}

/// What clap calls a subcommand is a verb.
fn in_words(command: Command) -> Command {
    let in_words = |command: Command| command.subcommand_value_name("VERB").subcommand_help_heading("Verbs");
    in_words(command).mut_subcommands(in_words)
}

/// `columns`: the width of the terminal.
fn in_groups(columns: Option<usize>) -> Command {
    let command = with_all_examples();
    let template = format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}", grouped(&command, columns));
    command.override_usage("outlast <VERB> [OPTIONS]").help_template(template)
}

fn grouped(command: &Command, columns: Option<usize>) -> String {
    let (header, literal) = (command.get_styles().get_header(), command.get_styles().get_literal());
    let width = VERBS.iter().map(|(name, ..)| name.len()).max().unwrap_or(0) + 2;
    let mut text = String::new();
    let described = |about: &str| wrap_beside(width + 2, about, columns).join(&format!("\n{:1$}", "", width + 2));
    for (group, title) in GROUPS {
        // A string into a string does not fail.
        let _ = writeln!(text, "{header}{title}:{header:#}");
        for (name, ..) in VERBS.iter().filter(|(_, of, _)| *of == group) {
            let about = command.find_subcommand(name).and_then(Command::get_about).map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {literal}{name:width$}{literal:#}{}", described(&about));
        }
        text.push('\n');
    }
    let _ = writeln!(text, "{header}Options of every verb:{header:#}");
    let flags = command
        .get_arguments()
        .filter(|arg| arg.is_global_set())
        .filter_map(|arg| Some((arg.get_long()?.to_owned(), arg.get_help()?.to_string())));
    for (flag, about) in flags.chain([("help".to_owned(), "Print the flags of a verb, and examples".to_owned())]) {
        let _ = writeln!(text, "  {literal}--{flag:width$}{literal:#}{}", described(&about), width = width - 2);
    }
    text.trim_end().to_owned()
}

fn with_examples(verb: Command, examples: &[&str]) -> Command {
    let header = *verb.get_styles().get_header();
    let mut text = format!("{header}Examples:{header:#}\n");
    for example in examples {
        let _ = writeln!(text, "  {example}");
    }
    let aliases: Vec<&str> = verb.get_visible_aliases().collect();
    if !aliases.is_empty() {
        let _ = writeln!(text, "\n{header}Aliases:{header:#} {}", aliases.join(", "));
    }
    verb.after_long_help(text.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_is_in_one_group_and_described_on_one_line() {
        let command = whole_tree();
        let mut listed: Vec<&str> = VERBS.iter().map(|(name, ..)| *name).collect();
        let mut visible: Vec<&str> = command.get_subcommands().filter(|verb| !verb.is_hide_set()).map(Command::get_name).collect();
        listed.sort_unstable();
        visible.sort_unstable();
        assert_eq!(listed, visible, "VERBS and the verbs that there are");
        assert!(VERBS.iter().all(|(_, group, _)| GROUPS.iter().any(|(known, _)| known == group)));
        let help = in_groups(None).render_long_help().to_string();
        for line in help.lines() {
            assert!(line.chars().count() <= 80, "too long for a terminal of 80 columns: {line}");
        }
    }

    #[test]
    fn help_in_groups() {
        insta::assert_snapshot!(in_groups(None).render_long_help());
    }

    #[test]
    fn help_on_a_narrow_terminal_is_broken_between_words() {
        let mut wide = grouped(&with_all_examples(), None);
        let narrow = grouped(&with_all_examples(), Some(60));
        assert!(narrow.lines().count() > wide.lines().count());
        let plain = outlast_text::strip;
        assert!(narrow.lines().all(|line| plain(line).chars().count() <= 60), "{narrow}");
        wide.retain(|c| !c.is_whitespace());
        assert_eq!(narrow.split_whitespace().collect::<String>(), wide, "nothing is lost");
    }

    #[test]
    fn flags_that_take_a_time_say_so() {
        fn look(command: &Command, path: &str) {
            for arg in command.get_arguments() {
                let names: Vec<&str> = arg.get_value_names().unwrap_or_default().iter().map(|name| name.as_str()).collect();
                assert!(!names.contains(&"S"), "{path} {}: say DURATION", arg.get_id());
                if names == ["DURATION"] {
                    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                    assert!(help.contains("5m") || help.contains("1h30m"), "{path} {}: {help}", arg.get_id());
                }
            }
            for verb in command.get_subcommands() {
                look(verb, &format!("{path} {}", verb.get_name()));
            }
        }
        look(&whole_tree(), "outlast");
    }
}
